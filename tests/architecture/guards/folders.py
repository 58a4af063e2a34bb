"""The trees beside src/: tests, proofs and benchmarks share code through testing/, and tests/ is sorted by subject."""

from collections.abc import Collection, Mapping
from pathlib import Path

from tests.architecture.folders import TEST_FOLDERS, TREES
from tests.architecture.guards.import_statements import imports
from tests.architecture.guards.trees import NOT_OURS, Tree, read


def find_wrong_tree_imports(repo: Path, trees: Mapping[str, Collection[str]] = TREES) -> list[str]:
    """Find imports of one tree by another that may not import it."""
    found: list[str] = []
    for name, may_import in trees.items():
        tree = Tree(repo, name)
        for module, one in imports(tree, read(tree)):
            other = one.target.split(".")[0]
            if not one.own and other in trees and other not in may_import:
                allowed = ", ".join(may_import) or "nothing"
                found.append(f"{module.shown}:{one.line} imports {one.target}: {name} may import only {allowed}")
    return found


def find_unknown_folders(tests: Path, known: Collection[str] = TEST_FOLDERS) -> list[str]:
    """Find folders of tests/ that are not in the table, and entries of the table that have no folder."""
    there = {path.name for path in tests.iterdir() if any(path.rglob("*.py")) and path.name not in NOT_OURS}
    found = [f"{tests.name}/{name} is not in the table of folders" for name in sorted(there - {*known})]
    return found + [f"{tests.name}/{name} does not exist: drop it from the table" for name in sorted({*known} - there)]
