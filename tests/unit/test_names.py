"""Names and lines that others wrote: what they may hold, and how a clash is solved."""

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from molecule_core.common.errors import InvalidField, InvalidName
from molecule_core.common.text import (
    find_hidden_character,
    is_valid_client_id,
    single_line,
    truncate_line,
    unique_name,
    validate_line,
    validate_name,
)
from testing.step_counts import examples
from tests.requirements import requirement

LIMIT = 120
HIDDEN = {
    "a NUL": "\x00",
    "a line feed": "\n",
    "a tab": "\t",
    "an escape": "\x1b",
    "a delete": "\x7f",
    "a C1 control": "\x85",
    "a line separator": "\u2028",
    "a paragraph separator": "\u2029",
    "a zero width space": "\u200b",
    "a word joiner": "\u2060",
    "a byte order mark": "\ufeff",
    "a soft hyphen": "\u00ad",
    "a left-to-right mark": "\u200e",
    "a right-to-left mark": "\u200f",
    "an Arabic letter mark": "\u061c",
    "a left-to-right embedding": "\u202a",
    "a right-to-left embedding": "\u202b",
    "a pop of directional formatting": "\u202c",
    "a left-to-right override": "\u202d",
    "a right-to-left override": "\u202e",
    "a left-to-right isolate": "\u2066",
    "a right-to-left isolate": "\u2067",
    "a first strong isolate": "\u2068",
    "a pop of directional isolate": "\u2069",
    "a language tag": "\U000e0001",
    "a tag letter": "\U000e0061",
    "a cancel tag": "\U000e007f",
    "an interlinear annotation": "\ufff9",
    "a lone surrogate": "\ud800",
    "an invisible operator": "\u2062",
}
VISIBLE = [
    "Ops",
    "Research & Development (EMEA)",
    "Übersetzer",
    "研究員",
    "مترجم",
    "नमस्ते",
    "क्\u200dष",
    "می\u200cخواهم",  # noqa: RUF001 (Persian)
    "👩\u200d💻",
    "❤\ufe0f",
    "🇩🇪",
    "'; DROP TABLE workspaces; --",
    "<b>bold</b>",
    "{{ template }}",
]


@pytest.mark.parametrize("name", VISIBLE)
def test_what_people_write_is_kept_as_it_is(name: str) -> None:
    assert validate_name(name, LIMIT) == name
    assert validate_name(f"  {name}\t\n", LIMIT) == name
    assert validate_line(name, LIMIT, "role") == name


@requirement("M5")
@pytest.mark.parametrize("what", HIDDEN)
def test_a_hidden_character_within_a_name_or_a_line_is_refused_and_named(what: str) -> None:
    character = HIDDEN[what]
    code = rf"U\+{ord(character):04X}"
    for text in (f"O{character}ps", f"Ü{character}n"):
        assert find_hidden_character(text) == character
        with pytest.raises(InvalidName, match=code):
            validate_name(text, LIMIT)
        with pytest.raises(InvalidField, match=f"role cannot have the hidden character {code}"):
            validate_line(text, LIMIT, "role")


def test_what_an_agent_says_of_its_work_is_kept_without_what_cannot_be_seen() -> None:
    assert single_line("\x1b[1;31mTraceback\x1b[0m\n  in\u202e main\u200f \ufeff", LIMIT) == "Traceback in main"
    assert single_line("\x1b\u202e", LIMIT) == ""
    assert single_line("خطأ في\u200f الملف", LIMIT) == "خطأ في الملف"
    assert single_line("x" * 5 * LIMIT, LIMIT) == "x" * (LIMIT - 1) + "…"


@pytest.mark.parametrize("name", ["", " ", "\n\t", "\u2003", "\u200d", "\u200c\u200d", " \u200d "])
def test_a_name_that_shows_nothing_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        validate_name(name, LIMIT)


def test_a_line_may_be_empty_but_a_name_may_not() -> None:
    assert validate_line("   ", LIMIT, "role") == ""
    with pytest.raises(InvalidName, match="Use at least one visible character"):
        validate_name("   ", LIMIT)


@requirement("M5")
def test_a_name_may_be_as_long_as_the_limit_and_no_longer() -> None:
    for character in ("a", "研", "😀"):
        assert validate_name(character * LIMIT, LIMIT) == character * LIMIT
        assert validate_name("  " + character * LIMIT + "  ", LIMIT) == character * LIMIT
        with pytest.raises(InvalidName, match=f"the name cannot have {LIMIT + 1} characters. Use at most {LIMIT}"):
            validate_name(character * (LIMIT + 1), LIMIT)
        with pytest.raises(InvalidField, match=f"role cannot have {LIMIT + 1} characters"):
            validate_line(character * (LIMIT + 1), LIMIT, "role")


@examples(500)
@given(st.text(max_size=20))
@example("a\u202eb")
def test_a_cleaned_name_is_one_visible_line_and_stays_as_it_is(name: str) -> None:
    try:
        cleaned = validate_name(name, 15)
    except InvalidName:
        return
    assert cleaned == cleaned.strip() == validate_name(cleaned, 15)
    assert 0 < len(cleaned) <= 15
    assert cleaned in name
    assert len(cleaned.splitlines()) == 1
    for character in cleaned:
        assert unicodedata.category(character) not in {"Cc", "Cs", "Zl", "Zp"}
        assert unicodedata.bidirectional(character) not in {
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        }
    assert cleaned.encode()  # no lone surrogate


# Letters to Unicode, and nothing to the eye.
BLANK = "\u034f\u115f\u1160\u3164\uffa0"


@examples(300)
@given(st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters=BLANK), min_size=1, max_size=15))
def test_a_name_of_visible_characters_alone_is_never_refused(name: str) -> None:
    assert validate_name(name, 15) == name


NAMES = st.text(alphabet="Op 2研", min_size=1, max_size=12).filter(lambda name: bool(name.strip())).map(str.strip)


@requirement("M5")
@examples(300)
@given(NAMES, st.sets(NAMES, max_size=8), st.integers(0, 30))
def test_a_suffix_makes_a_name_free_and_changes_nothing_that_was_free(name: str, taken: set[str], clashes: int) -> None:
    limit = 12
    for _ in range(clashes):
        taken = {*taken, unique_name(name, taken, limit)}
    found = unique_name(name, taken, limit)
    assert found not in taken
    assert (found == name) == (name not in taken)
    assert validate_name(found, limit) == found


@requirement("M5")
def test_suffixes_count_up_and_the_first_free_number_is_taken() -> None:
    assert unique_name("Ops", set(), LIMIT) == "Ops"
    assert unique_name("Ops", {"ops"}, LIMIT) == "Ops"
    assert unique_name("Ops", {"Ops"}, LIMIT) == "Ops 2"
    assert unique_name("Ops", {"Ops", "Ops 2", "Ops 4"}, LIMIT) == "Ops 3"
    assert unique_name("Ops", {"Ops", *(f"Ops {number}" for number in range(2, 12))}, LIMIT) == "Ops 12"
    long = "x" * LIMIT
    assert unique_name(long, {long}, LIMIT) == "x" * (LIMIT - 2) + " 2"


@pytest.mark.parametrize("text", ["a", "A-Z.a_z:0", "0" * 128, "urn:uuid:1"])
def test_an_id_of_the_alphabet_is_taken(text: str) -> None:
    assert is_valid_client_id(text, 128)


@pytest.mark.parametrize("text", ["", "a b", "a\n", "é", "a/b", "a\x00", "0" * 129, "٣", "a%20"])
def test_an_id_outside_the_alphabet_or_too_long_is_refused(text: str) -> None:
    assert not is_valid_client_id(text, 128)


@examples(200)
@given(st.text(max_size=400), st.integers(1, 40))
def test_a_shortened_text_is_one_line_within_its_limit_and_says_when_it_was_cut(text: str, limit: int) -> None:
    found = truncate_line(text, limit)
    assert len(found) <= limit
    assert len(found.splitlines()) <= 1
    whole = " ".join(text.split())
    if len(text) <= limit:
        assert found == whole
    if found.endswith("…") and not whole.startswith(found):
        assert whole.startswith(found[:-1].rstrip())


@requirement("M5")
@pytest.mark.parametrize("blank", ["\u034f", "\u115f", "\u1160", "\u3164", "\uffa0"])
def test_a_letter_that_nobody_sees_is_refused(blank: str) -> None:
    with pytest.raises(InvalidName, match=f"U.{ord(blank):04X}"):
        validate_name(f"Ops{blank}", 120)
