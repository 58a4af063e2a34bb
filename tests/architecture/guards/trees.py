"""A tree of Python files as the guards see it: nothing is imported, everything is read and parsed."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
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
        """Return every file with this suffix, except in hidden and foreign folders; raise if there is no tree."""
        if not self.root.is_dir():
            raise FileNotFoundError(f"{self.root} does not exist: a guard over it would always pass")
        return sorted(path for path in self.root.rglob(f"*{suffix}") if self._is_ours(path))

    def _is_ours(self, path: Path) -> bool:
        inside = path.relative_to(self.root).parts
        return not any(part in NOT_OURS or part.startswith(".") for part in inside)


@dataclass(frozen=True)
class Module:
    """One parsed file. `dotted` is its path below the package: `api.canvas`, `store.__init__`, `__init__`."""

    shown: str
    dotted: str
    code: ast.Module
    text: str

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def name(self) -> str:
        """The path as an import writes it: `store` for `store.__init__`."""
        return self.dotted.removesuffix("__init__").removesuffix(".")

    @property
    def is_package(self) -> bool:
        return self.dotted.split(".")[-1] == "__init__"

    @property
    def home(self) -> str:
        """The package that holds this module; its own name for a package."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @property
    def head(self) -> str:
        return self.dotted.split(".")[0]


def read(tree: Tree) -> list[Module]:
    """Parse every Python file of the tree, in the order of their paths; raise if there is none."""
    modules = [_parse(tree, path, path.read_text(encoding="utf-8")) for path in tree.files(".py")]
    if not modules:
        raise FileNotFoundError(f"{tree.root} holds no Python file: a guard over it would always pass")
    return modules


@cache
def _parse(tree: Tree, path: Path, text: str) -> Module:
    dotted = ".".join(path.relative_to(tree.root).with_suffix("").parts)
    return Module(tree.shown(path), dotted, ast.parse(text, filename=tree.shown(path)), text)


def strings(code: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield every string constant with its line, except docstrings."""
    docstrings = {id(node.value) for node in ast.walk(code) if isinstance(node, ast.Expr)}
    for node in ast.walk(code):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value
