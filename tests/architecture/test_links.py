"""No Markdown page links to a file or a heading that does not exist."""

from pathlib import Path

import pytest

from tests.architecture.guards.links import find_broken_links
from tests.architecture.repository import REPO

PAGES = [*sorted(REPO.glob("*.md")), *sorted((REPO / "docs").rglob("*.md"))]


def test_every_relative_link_of_the_docs_leads_somewhere() -> None:
    assert find_broken_links(REPO, PAGES) == []


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("See [there](gone.md).", "docs/page.md:1 gone.md: no such file"),
        ("\n[`code`](other.md#nothing)", "docs/page.md:2 other.md#nothing: no such heading"),
        ("[up](../../outside.md)", "docs/page.md:1 ../../outside.md: no such file"),
        ("[root](/docs/other.md)", "docs/page.md:1 /docs/other.md: not relative"),
        ("![picture](a.png)", "docs/page.md:1 a.png: no such file"),
        ("[a]: gone.md", "docs/page.md:1 gone.md: no such file"),
        ("[own](#elsewhere)", "docs/page.md:1 #elsewhere: no such heading"),
    ],
)
def test_a_broken_link_is_the_one_finding(tmp_path: Path, text: str, finding: str) -> None:
    assert find_broken_links(tmp_path, write_pages(tmp_path, text)) == [finding]


@pytest.mark.parametrize(
    "text",
    [
        "[there](other.md), [heading](other.md#as-tools-molecule-mcp), [web](https://example.com/gone.md)",
        "[second](other.md#twice-1) [folder](.)",
        "`[code](gone.md)`",
        "```\n[code](gone.md)\n```",
        "# Own\n\n[own](#own)",
    ],
)
def test_a_good_link_or_code_gives_no_finding(tmp_path: Path, text: str) -> None:
    assert find_broken_links(tmp_path, write_pages(tmp_path, text)) == []


def write_pages(folder: Path, text: str) -> list[Path]:
    """Write docs/page.md and a page that it may link to."""
    page, other = folder / "docs" / "page.md", folder / "docs" / "other.md"
    page.parent.mkdir()
    page.write_text(text, encoding="utf-8")
    other.write_text("# Other\n\n## As tools: `molecule mcp`\n\n## Twice\n\n## Twice\n", encoding="utf-8")
    return [page]
