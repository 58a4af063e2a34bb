"""scripts/changelog: fragments become a section of CHANGELOG.md."""

from pathlib import Path

import pytest

from tests.system.setup.support import load

changelog = load("changelog")


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A changelog with one release, and three fragments beside it."""
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    texts = {"9.fix.md": "A wait ends.\n", "7.feature.md": "- Tasks have\ndeadlines.\n", "README.md": "# Fragments\n"}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    page = tmp_path / "CHANGELOG.md"
    page.write_text("# Changelog\n\nWhat changed.\n\n## 0.1.0\n\n- First.\n", encoding="utf-8")
    monkeypatch.setattr(changelog, "FRAGMENTS", folder)
    monkeypatch.setattr(changelog, "PAGE", page)
    return page


def test_a_version_puts_the_fragments_above_the_last_release_and_removes_them(page: Path) -> None:
    changelog.main(["0.2.0", "2027-01-15"])

    assert page.read_text(encoding="utf-8") == (
        "# Changelog\n\nWhat changed.\n\n## 0.2.0, 2027-01-15\n\n### Added\n\n- Tasks have\n  deadlines.\n\n"
        "### Fixed\n\n- A wait ends.\n\n## 0.1.0\n\n- First.\n"
    )
    assert [path.name for path in changelog.FRAGMENTS.iterdir()] == ["README.md"]


def test_without_a_version_nothing_is_written(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = page.read_text(encoding="utf-8")

    changelog.main([])

    assert capsys.readouterr().out.startswith("## Unreleased\n\n### Added\n\n- Tasks have\n  deadlines.\n")
    assert page.read_text(encoding="utf-8") == before
    assert len(list(changelog.FRAGMENTS.iterdir())) == 3
