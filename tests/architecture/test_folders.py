"""Imports between tests, proofs, benchmarks and what they share, and the folders of tests/."""

from pathlib import Path

import pytest

from tests.architecture.folders import TREES
from tests.architecture.guards.folders import find_unknown_folders, find_wrong_tree_imports
from tests.architecture.repository import REPO, TESTS, write_tree


@pytest.mark.long
def test_the_real_trees_share_code_through_testing_alone() -> None:
    assert find_wrong_tree_imports(REPO) == []


def test_the_real_tests_are_sorted_by_known_subjects() -> None:
    assert find_unknown_folders(TESTS.root) == []


@pytest.mark.parametrize("importer", TREES)
@pytest.mark.parametrize("imported", TREES)
@pytest.mark.parametrize("line", ["from {}.deep.place import thing", "import {}.deep", "def late():\n    import {}"])
def test_only_an_import_that_the_table_forbids_is_a_finding(
    tmp_path: Path, importer: str, imported: str, line: str
) -> None:
    for name in TREES:
        write_tree(tmp_path, {"deep/place.py": line.format(imported) if name == importer else ""}, folder=name)
    found = find_wrong_tree_imports(tmp_path)
    is_allowed = imported == importer or imported in TREES[importer]
    assert [fault.split(":")[0] for fault in found] == ([] if is_allowed else [f"{importer}/deep/place.py"])


def test_a_folder_without_an_entry_and_an_entry_without_a_folder_are_findings(tmp_path: Path) -> None:
    write_tree(tmp_path, {"store/test_a.py": "", "journeys/test_b.py": ""}, folder="tests")
    assert find_unknown_folders(tmp_path / "tests", {"store", "api"}) == [
        "tests/journeys is not in the table of folders",
        "tests/api does not exist: drop it from the table",
    ]
