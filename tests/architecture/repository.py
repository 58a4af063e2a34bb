"""The trees of this repository, and a writer of small sample trees in a temporary folder."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from tests.architecture.guards.trees import Tree

REPO = Path(__file__).resolve().parents[2]
SOURCES = Tree(REPO, "src/molecule_core")
TESTS = Tree(REPO, "tests")
TESTING = Tree(REPO, "testing")


def write_tree(repo: Path, files: Mapping[str, str], folder: str = "src/molecule_core") -> Tree:
    """Write the files, path below the folder -> text, and return their tree."""
    tree = Tree(repo, folder)
    for path, text in files.items():
        target = tree.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(dedent(text), encoding="utf-8")
    return tree
