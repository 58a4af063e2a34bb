"""The pages for users use the terms of the field."""

from pathlib import Path

import pytest

from tests.architecture.guards.canvas_texts import find_banned_canvas_texts
from tests.architecture.guards.pages import count_by_kind, find_banned_words
from tests.architecture.repository import REPO

DOCS = REPO / "docs"
# What a banned word is part of, where it is a name.
NAMES = ("code-walk.md", "architecture.md", "index.md", "proofs.md", "README.md", "CONTRIBUTING.md")


def test_no_page_uses_a_banned_word() -> None:
    pages = sorted(DOCS.rglob("*.md"))
    pages += [*sorted(REPO.glob("*.md")), *sorted((REPO / "changelog.d").glob("*.md"))]
    assert len(pages) > 30
    found = [each for each in find_banned_words(REPO, pages) if not is_a_name(each)]
    assert found == []


def test_no_text_of_the_canvas_uses_a_banned_word() -> None:
    source = REPO / "canvas" / "src"
    modules = [each for each in source.rglob("*.ts*") if ".test." not in each.name and "generated" not in each.parts]
    assert len(modules) > 200
    assert [each for each in find_banned_canvas_texts(source, sorted(modules)) if not is_code(each)] == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("<p>Nobody answers.</p>", 1),
        ('label="Open the time line"', 1),
        ("`${count} rooms are full`", 1),
        ("// nobody\nconst told = 'told';", 0),
        ("`${told} people of ${rooms(a)}`", 0),
    ],
)
def test_only_banned_words_that_people_see_are_found_in_the_canvas(tmp_path: Path, source: str, count: int) -> None:
    module = tmp_path / "View.tsx"
    module.write_text(source, encoding="utf-8")
    assert len(list(find_banned_canvas_texts(tmp_path, [module]))) == count


def is_code(found: str) -> bool:
    """Return whether a finding is an expression between two signs that look like tags."""
    return "||" in found or "), {" in found


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len((REPO / "README.md").read_text(encoding="utf-8").splitlines()) <= 130


def is_a_name(found: str) -> bool:
    """Return whether a finding is a name: the code walk, a unit of a proof, a route."""
    page, _, word = found.partition(" ")
    file = Path(page.partition(":")[0]).name
    return (word, file) in {
        *(("walk", name) for name in NAMES),
        ("seats", "proofs.md"),
        ("standing", "http.md"),
    }


@pytest.mark.parametrize(
    ("text", "line"), [("Whoever asks is served.", 1), ("Fine.\n\n| a | it was told |", 3), ("A `b` lies there.", 1)]
)
def test_a_banned_word_in_a_page_is_the_one_finding(tmp_path: Path, text: str, line: int) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    [found] = find_banned_words(tmp_path, [page])
    assert found.startswith(f"page.md:{line} ")


@pytest.mark.parametrize("text", ["`told`", "```\nsomebody lies\n```", "> quoted: nobody", "[link](told.md)"])
def test_code_quotations_and_targets_give_no_finding(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    assert list(find_banned_words(tmp_path, [page])) == []


def test_words_are_counted_by_the_folder_of_a_page(tmp_path: Path) -> None:
    (tmp_path / "how-to").mkdir()
    (tmp_path / "how-to" / "page.md").write_text("# One two\n", encoding="utf-8")
    (tmp_path / "index.md").write_text("three\n", encoding="utf-8")
    assert count_by_kind(tmp_path) == {"how-to": 2, "other": 1}
