"""What differs between two prompts: told line by line, as far as that is cheap."""

from collections.abc import Sequence

from molecule_core.wire.schemas.prompts import DiffSection, PromptSection, diff_sections
from tests.requirements import requirement

_ALL = 10**6


def section(number: int, lines: Sequence[str]) -> PromptSection:
    """A piece of a prompt."""
    text = "\n".join(lines)
    return PromptSection(
        part=1, kind="file", title=f"{number}.md", source=f"file:{number}.md", text=text, bytes=0, tokens=0, hash=""
    )


def compared(*pairs: tuple[Sequence[str], Sequence[str]]) -> list[DiffSection]:
    """What differs where each of these sections has become another one."""
    old = [section(number, pair[0]) for number, pair in enumerate(pairs)]
    return diff_sections(old, [section(number, pair[1]) for number, pair in enumerate(pairs)], _ALL)


def signs(found: DiffSection) -> str:
    """Its lines in short."""
    return "".join(each.kind for each in found.lines)


def body(count: int) -> list[str]:
    """Lines of which none comes twice."""
    return [f"line {number}" for number in range(count)]


@requirement("SP7")
def test_what_has_changed_at_both_ends_is_told_with_what_stands_around_it() -> None:
    (found,) = compared((["x", *body(300), "y"], ["p", *body(300), "q"]))
    assert signs(found) == "-+" + 3 * " " + 3 * " " + "-+"


@requirement("SP7")
def test_of_many_sections_the_first_are_compared_line_by_line_and_the_others_are_told_whole() -> None:
    pair = (["x", *body(300), "y"], ["p", *body(300), "q"])
    found = [signs(each) for each in compared(*(pair for _ in range(20)), (["a", "b", "c"], ["d", "b", "e"]))]
    whole = 302 * "-" + 302 * "+"
    assert found[:5] == 5 * ["-+" + 6 * " " + "-+"]
    assert found[5:20] == 15 * [whole]
    assert found[20] == "-+ -+", "a small one costs nothing"


@requirement("SP7")
def test_a_line_that_comes_again_and_again_is_not_looked_for_in_every_place() -> None:
    among_others = [each for number in range(200) for each in ("same", f"new {number}")]
    (found,) = compared((["old", *(["same"] * 398), "end"], among_others))
    assert signs(found) == 400 * "-" + 400 * "+"


@requirement("SP7")
def test_blank_lines_beside_what_stayed_have_stayed_too() -> None:
    text = [each for line in body(30) for each in (line, "")]
    (found,) = compared((["x", *text, "y"], ["p", *text, "q"]))
    assert signs(found) == "-+" + 6 * " " + "-+"
