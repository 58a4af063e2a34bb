"""The checks of scripts/check that are our own, each on a planted tree that breaks it."""

import subprocess
from pathlib import Path

import pytest

from tests.system.setup.support import PROCESS_S, ROOT, load

check = load("check")


def plant(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["17.fix.md", "no-lost-wakeups.feature.md", "3.change.md", "4.doc.md", "README.md"])
def test_a_proper_fragment_is_accepted(tmp_path: Path, name: str) -> None:
    plant(tmp_path, name, "A message that waits is delivered.\n")
    assert list(check.fragment_faults(tmp_path)) == []


@pytest.mark.parametrize(
    "name", ["17.md", "17.bug.md", "fix.md", "17.fix.txt", "notes.txt", "17.fix.fix.md", "17.fix.md.orig"]
)
def test_a_fragment_with_another_name_is_refused(tmp_path: Path, name: str) -> None:
    plant(tmp_path, name, "A message that waits is delivered.\n")
    assert len(list(check.fragment_faults(tmp_path))) == 1


@pytest.mark.parametrize("text", ["", "\n\n", "1\n2\n3\n4\n5\n6\n"])
def test_a_fragment_that_is_empty_or_longer_than_five_lines_is_refused(tmp_path: Path, text: str) -> None:
    plant(tmp_path, "17.fix.md", text)
    assert len(list(check.fragment_faults(tmp_path))) == 1


# Put together here, so that this file does not hold what it plants.
HOSTS = ["py" + "pi.org", "files.python" + "hosted.org", "registry.npm" + "js.org", "deb.deb" + "ian.org"]
PATHS = ["/ro" + "ot/.cache", "/wo" + "rk/main/x", "file:///wo" + "rk/x"]


@pytest.mark.parametrize("words", HOSTS + PATHS)
def test_a_line_that_ties_the_repository_to_a_place_is_found(tmp_path: Path, words: str) -> None:
    path = plant(tmp_path, "docs/page.md", f"fine\nsee {words} for more\n")
    (fault,) = check.stray_faults(tmp_path, [path])
    assert fault.startswith("docs/page.md:2: names ")


@pytest.mark.parametrize(
    "words", ["src/ro" + "ot/x", "{home}/wo" + "rk/x", "~/wo" + "rk/x", "/wo" + "rkspaces/x", "/wo" + "rk", "npm"]
)
def test_a_path_that_is_not_of_one_machine_is_left_alone(tmp_path: Path, words: str) -> None:
    assert list(check.stray_faults(tmp_path, [plant(tmp_path, "page.md", f"see {words} for more\n")])) == []


def test_a_picture_is_not_read_as_text(tmp_path: Path) -> None:
    assert list(check.stray_faults(tmp_path, [plant(tmp_path, "a.png", f"\0{HOSTS[0]}")])) == []


def test_the_search_covers_new_files_but_not_ignored_or_deleted_ones(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=tmp_path, capture_output=True, timeout=PROCESS_S, check=True)

    git("init", "--quiet")
    for name in ("tracked", "deleted", "new", "ignored"):
        plant(tmp_path, name, "x")
    plant(tmp_path, ".gitignore", "ignored\n")
    git("add", "tracked", "deleted")
    tmp_path.joinpath("deleted").unlink()
    assert {path.name for path in check.files_of(tmp_path)} == {"tracked", "new", ".gitignore"}


def test_python_scripts_without_a_suffix_are_linted_and_typed() -> None:
    assert {"scripts/setup", "scripts/check"} <= set(check.python_scripts(ROOT))
    assert "scripts/test" not in check.python_scripts(ROOT)


def test_a_folder_without_python_is_not_given_to_mypy(tmp_path: Path) -> None:
    plant(tmp_path, "scripts/run", "#!/bin/sh\n")
    plant(tmp_path, "tests/notes.md", "")
    plant(tmp_path, "src/a.py", "")
    assert check.typed_places(tmp_path) == ["src"]
