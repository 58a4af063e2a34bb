"""Plain words: names, docstrings and comments use the terms of the field."""

from pathlib import Path

import pytest

from tests.architecture.guards import words
from tests.architecture.guards.trees import Tree
from tests.architecture.repository import SOURCES, write_tree


def write_module(repo: Path, text: str, path: str = "org/rules.py") -> Tree:
    """Write a tree of one module."""
    return write_tree(repo, {path: text})


@pytest.mark.parametrize("name", words.FINDERS)
def test_the_real_tree_has_no_offender(name: str) -> None:
    assert words.FINDERS[name](SOURCES) == {}


def test_a_class_name_that_two_modules_define_is_found_in_both(tmp_path: Path) -> None:
    text = "class _Row: ...\nclass Cell: ...\n"
    tree = write_tree(tmp_path, {"org/model.py": text, "org/rules.py": "def f():\n    class Row: ...\n"})
    assert words.find_duplicate_classes(tree) == {
        "org.model._Row": "src/molecule_core/org/model.py:1",
        "org.rules.Row": "src/molecule_core/org/rules.py:2",
    }


def test_listed_implementations_may_share_a_name(tmp_path: Path) -> None:
    files = {"store/sqlite.py": "class Store: ...\n", "store/postgres.py": "class Store: ...\n"}
    tree = write_tree(tmp_path, files)
    assert words.find_duplicate_classes(tree, {"Store": "two engines of one protocol"}) == {}
    assert words.find_duplicate_classes(tree, {"Store": "two engines", "Row": "none"}) == {
        "Row in the list of implementations": "not defined twice"
    }


@pytest.mark.parametrize("name", ["Told", "_Opened", "Taken", "Begun", "Sent", "Kept", "Expired"])
def test_a_bare_participle_as_a_class_name_is_found(tmp_path: Path, name: str) -> None:
    tree = write_module(tmp_path, f"class {name}: ...\n")
    assert words.find_participle_classes(tree) == {f"org.rules.{name}": "src/molecule_core/org/rules.py:1"}


@pytest.mark.parametrize("name", ["Token", "Feed", "MessageSent", "ExpiredToken", "Thread", "Request", "_Screen"])
def test_a_noun_as_a_class_name_gives_no_finding(tmp_path: Path, name: str) -> None:
    assert words.find_participle_classes(write_module(tmp_path, f"class {name}: ...\n")) == {}


@pytest.mark.parametrize("path", ["org/owing.py", "org/mail_handing.py", "org/serving/__init__.py"])
def test_a_gerund_as_a_module_name_is_found(tmp_path: Path, path: str) -> None:
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    assert words.find_gerund_modules(write_module(tmp_path, "", path)) == {name: f"src/molecule_core/{path}"}


@pytest.mark.parametrize(
    "path", ["api/routing.py", "org/settings.py", "api/streaming_response.py", "org/chat_encoding.py"]
)
def test_a_term_of_the_field_as_a_module_name_gives_no_finding(tmp_path: Path, path: str) -> None:
    assert words.find_gerund_modules(write_module(tmp_path, "", path)) == {}


@pytest.mark.parametrize("verb", ["tell", "_take", "put", "stands", "owed", "let_go", "hand_over", "settle"])
def test_a_verb_without_its_object_is_found(tmp_path: Path, verb: str) -> None:
    text = f"class Row:\n    async def {verb}(self): ...\ndef build():\n    def {verb}(): ...\n"
    assert words.find_private_verbs(write_module(tmp_path, text)) == {
        f"org.rules.Row.{verb}": "src/molecule_core/org/rules.py:2",
        f"org.rules.build.{verb}": "src/molecule_core/org/rules.py:4",
    }


@pytest.mark.parametrize(
    ("path", "verb"),
    [
        ("org/rules.py", "tell_parent"),
        ("org/rules.py", "send"),
        ("org/rules.py", "putter"),
        ("delegations/rules.py", "settle"),
        ("approvals/writer.py", "settle"),
        ("access/credential_cache.py", "put"),
    ],
)
def test_a_verb_with_its_object_and_terms_give_no_finding(tmp_path: Path, path: str, verb: str) -> None:
    assert words.find_private_verbs(write_module(tmp_path, f"def {verb}(): ...\n", path)) == {}


@pytest.mark.parametrize("first", ["Returns", "The", "Whether", "What", "It", "Tell", ""])
def test_a_docstring_that_begins_with_no_imperative_is_found(tmp_path: Path, first: str) -> None:
    text = f"class Row:\n    @property\n    def cell(self):\n        '''{first} `row`.'''\n"
    assert words.find_docstrings_without_verb(write_module(tmp_path, text)) == {
        f"org.rules.Row.cell {first}".rstrip(): "src/molecule_core/org/rules.py:3"
    }


@pytest.mark.parametrize("text", ["'''Return a row.'''", "'''\n    Read, and parse.'''", "'''Send: once.'''", "pass"])
def test_an_imperative_or_no_docstring_gives_no_finding(tmp_path: Path, text: str) -> None:
    tree = write_module(tmp_path, f"'''The rows.'''\nclass Row:\n    '''A row.'''\ndef send():\n    {text}\n")
    assert words.find_docstrings_without_verb(tree) == {}


@pytest.mark.parametrize(
    "word",
    [
        *("whoever", "Nobody", "somebody", "tells", "told", "said", "stands", "standing", "lies", "hand", "handed"),
        *("seat", "letters", "bell", "rung", "house", "room", "ground", "crowd", "deed", "shelf", "walk"),
        *("what became of", "so many more", "put off", "let go", "given back"),
    ],
)
@pytest.mark.parametrize(
    "form", ["'''A {}\n\nline.'''", "x = 1\n'''The {}.'''", "# is {}", "def f():\n    '''Do {}.'''"]
)
def test_a_banned_word_in_a_docstring_or_comment_is_found(tmp_path: Path, word: str, form: str) -> None:
    [entry] = words.find_banned_words(write_module(tmp_path, form.format(word)))
    assert entry == f"src/molecule_core/org/rules.py {word.lower()} 1"


def test_a_banned_word_is_counted_and_placed_by_its_first_line(tmp_path: Path) -> None:
    text = "'''A `seat`.\n\n`a\nb` The seat, Seat and seats.'''\n# seat\nx = 1\n"
    assert words.find_banned_words(write_module(tmp_path, text)) == {
        "src/molecule_core/org/rules.py seat 3": "src/molecule_core/org/rules.py:4",
        "src/molecule_core/org/rules.py seats 1": "src/molecule_core/org/rules.py:4",
    }


@pytest.mark.parametrize(
    "text",
    [
        "'''The event `seat` of ``told``.'''",
        "x = 1  # control: seat-is-told",
        "# A dead letter, dead letters, letters and digits, standing authority, by hand, hand-written.",
        "# grounds, handle, behind, storytelling, lettering, walked, bring, outstanding",
        "seat = 'told'",
        "def f(seat):\n    return f'nobody {seat}'",
    ],
)
def test_terms_wire_words_and_code_give_no_finding(tmp_path: Path, text: str) -> None:
    assert words.find_banned_words(write_module(tmp_path, text)) == {}


@pytest.mark.parametrize(
    "form", ["x = 'Ask {} first.'", "x = f'{{x}} asks {}'", "x = f'{{x}} {}'", "def f(x='ask {}'): ..."]
)
@pytest.mark.parametrize("word", ["whoever", "nobody", "told", "stands", "seat", "put off"])
def test_a_banned_word_in_a_text_is_found(tmp_path: Path, word: str, form: str) -> None:
    [entry] = words.find_banned_texts(write_module(tmp_path, form.format(word)))
    assert entry == f"src/molecule_core/org/rules.py:1 {word}"


@pytest.mark.parametrize(
    "text", ["x = 'seat'", "x = {'told': 1}", "x = 'Read `the seat` first.'", '"""A seat here."""']
)
def test_a_name_a_key_and_code_in_a_text_give_no_finding(tmp_path: Path, text: str) -> None:
    assert words.find_banned_texts(write_module(tmp_path, text)) == {}
