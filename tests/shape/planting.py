"""Plants a small tree below a temporary folder and knows where the real ones stand."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

from tests.shape.guards.trees import Tree

REPO = Path(__file__).resolve().parents[2]
SOURCES = Tree(REPO, "src/molecule_core")
TESTS = Tree(REPO, "tests")


def plant(repo: Path, files: Mapping[str, str], folder: str = "src/molecule_core") -> Tree:
    """A tree of these files, path below the folder -> text."""
    tree = Tree(repo, folder)
    for path, text in files.items():
        target = tree.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(dedent(text), encoding="utf-8")
    return tree
