"""A tree of Python files as the guards see it: nothing is imported, everything is read and parsed.

Above: every guard of this folder. Below: the standard library.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NOT_OURS = {"__pycache__", "node_modules"}


@dataclass(frozen=True)
class Tree:
    """One folder below a repository, `src/molecule_core` for instance; findings name files from the repository on."""

    repo: Path
    folder: str

    @property
    def root(self) -> Path:
        return self.repo / self.folder

    @property
    def package(self) -> str:
        """The name under which the tree's files import each other."""
        return self.root.name

    def shown(self, path: Path) -> str:
        return path.relative_to(self.repo).as_posix()

    def files(self, suffix: str) -> list[Path]:
        """Every file with this ending, hidden folders and foreign ones left out; raises if the tree is not there."""
        if not self.root.is_dir():
            raise FileNotFoundError(f"{self.root}: a guard over a tree that is not there would always be content")
        return sorted(path for path in self.root.rglob(f"*{suffix}") if self._is_ours(path))

    def _is_ours(self, path: Path) -> bool:
        inside = path.relative_to(self.root).parts
        return not any(part in NOT_OURS or part.startswith(".") for part in inside)


@dataclass(frozen=True)
class Module:
    """One parsed file. `spot` is its dotted place below the package: `edges.app`, `store.__init__`, `__init__`."""

    shown: str
    spot: str
    code: ast.Module
    lines: int

    @property
    def name(self) -> str:
        """The spot as an importer writes it: `store` for `store.__init__`."""
        return self.spot.removesuffix("__init__").removesuffix(".")

    @property
    def is_package(self) -> bool:
        return self.spot.split(".")[-1] == "__init__"

    @property
    def home(self) -> str:
        """The package that holds this module; its own name for a package."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @property
    def head(self) -> str:
        return self.spot.split(".")[0]


def read(tree: Tree) -> list[Module]:
    """Every Python file of the tree, parsed, in the order of their paths; raises if there is none."""
    modules = [_parse(tree, path) for path in tree.files(".py")]
    if not modules:
        raise FileNotFoundError(f"{tree.root} holds no Python file: a guard over it would always be content")
    return modules


def _parse(tree: Tree, path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    spot = ".".join(path.relative_to(tree.root).with_suffix("").parts)
    return Module(tree.shown(path), spot, ast.parse(text, filename=tree.shown(path)), len(text.splitlines()))


def strings(code: ast.Module) -> Iterator[tuple[int, str]]:
    """Every string constant with its line, docstrings left out."""
    prose = {id(node.value) for node in ast.walk(code) if isinstance(node, ast.Expr)}
    for node in ast.walk(code):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value
