"""Terminal codes are removed as a whole, wherever output is shown or kept."""

import pytest

from molecule_core.agent.sanitize import sanitize_line, strip_invisible
from molecule_core.cli._context import printable_line, printable_text
from molecule_core.common.text import remove_terminal_codes, sanitize_file_name, single_line
from tests.requirements import requirement

CODES = [
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b[38;2;255;100;0m1 passed\x1b[39;49m in 2 s", "1 passed in 2 s"),
    ("\x9b1mbold\x9b0m", "bold"),
    ("\x1b[2K\x1b[1Gdone", "done"),
    ("\x1b]0;window title\x07$ ls", "$ ls"),
    ("\x1b]8;;https://example.org\x1b\\the notes\x1b]8;;\x1b\\", "the notes"),
    ("\x1bP1$r0m\x1b\\after", "after"),
    ("\x1b(B\x1b=plain\x1b7", "plain"),
    ("cut in a colour \x1b[3", "cut in a colour "),
    ("[31m and a[0] stay", "[31m and a[0] stay"),
    ("日本語 \x1b[1m太字\x1b[0m", "日本語 太字"),
]


@pytest.mark.parametrize(("text", "words"), CODES)
def test_a_code_is_removed_whole_everywhere(text: str, words: str) -> None:
    assert remove_terminal_codes(text) == words
    assert strip_invisible(text) == words
    assert sanitize_line(text) == words.strip()
    assert single_line(text, 200) == words.strip()
    assert printable_line(text) == words.strip()
    assert printable_text(text) == words


@pytest.mark.parametrize(("text", "words"), [("\x9d0;title\x9cafter", "after"), ("Ð\x9d, Ä\x9bt", "Ð\x9d, Ä\x9bt")])
def test_an_eight_bit_code_is_removed_only_if_it_is_whole(text: str, words: str) -> None:
    assert remove_terminal_codes(text) == words


def test_a_long_text_of_openings_is_read_once() -> None:
    assert remove_terminal_codes("\x1b]" * 1_000_000) == ""
    assert remove_terminal_codes("\x9d" * 1_000_000) == "\x9d" * 1_000_000


def test_a_title_without_an_end_takes_its_own_line_only() -> None:
    assert remove_terminal_codes("\x1b]0;x\nnext line") == "\nnext line"


def test_lines_and_tabs_of_a_printed_text_stay() -> None:
    assert printable_text("\x1b[1ma\x1b[0m\r\n\tb\x07\n") == "a\n\tb \n"


def test_a_short_line_with_many_colours_keeps_its_words() -> None:
    assert single_line("".join(f"\x1b[38;5;{n % 256}m{n % 10}\x1b[0m" for n in range(20)), 20) == "01234567890123456789"


@requirement("S17")
def test_a_file_name_has_no_part_of_a_code() -> None:
    assert sanitize_file_name("\x1b[31mreport\x1b[0m.pdf", 200) == "report.pdf"
