"""What a module imports, read from its syntax: relative, conditional, hidden in functions, by `import_module`."""

import ast
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tests.architecture.guards.trees import Module, Tree

COMPUTED = "?"  # the target of an import whose name is not a literal


@dataclass(frozen=True)
class Import:
    """One import of one module. `target` is a place below the package if `own`, else a dotted third-party name."""

    line: int
    target: str
    own: bool
    in_function: bool = False
    types_only: bool = False

    @property
    def runs_on_load(self) -> bool:
        """True if importing the module executes this import."""
        return not self.in_function and not self.types_only


class Reader(ast.NodeVisitor):
    """Collects the imports of one module; `known` are the names of the tree's modules."""

    def __init__(self, package: str, module: Module, known: Collection[str]) -> None:
        self.found: list[Import] = []
        self._package = package
        self._module = module
        self._known = known
        self._functions = 0
        self._types_only = False

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(node.lineno, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self._absolute(node.module or "", node.level)
        targets = {self._inside(base, alias.name) for alias in node.names}
        for target in sorted(targets):
            self._add(node.lineno, target)

    def visit_Call(self, node: ast.Call) -> None:
        if _called(node.func) in {"import_module", "__import__"} and node.args:
            self._add(node.lineno, self._literal(node.args[0]))
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self._functions += 1
        self.generic_visit(node)
        self._functions -= 1

    visit_AsyncFunctionDef = visit_FunctionDef
    visit_Lambda = visit_FunctionDef

    def visit_If(self, node: ast.If) -> None:
        before = self._types_only
        self._types_only = before or _called(node.test) == "TYPE_CHECKING"
        self._visit_all(node.body)
        self._types_only = before
        self._visit_all(node.orelse)
        self.visit(node.test)

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _absolute(self, name: str, level: int) -> str:
        """The full dotted name of `from ..name import`, whose dots count from the module's home."""
        if level == 0:
            return name
        home = [part for part in self._module.home.split(".") if part]
        kept = [self._package, *home][: len(home) + 2 - level]
        return ".".join([*kept, *([name] if name else [])])

    def _inside(self, base: str, name: str) -> str:
        """`from base import name` means the module base.name if there is one, else base itself."""
        full = f"{base}.{name}"
        return full if full.removeprefix(f"{self._package}.") in self._known else base

    def _literal(self, argument: ast.expr) -> str:
        if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
            return COMPUTED
        name = argument.value.lstrip(".")
        return self._absolute(name, len(argument.value) - len(name))

    def _add(self, line: int, full: str) -> None:
        own = full == self._package or full.startswith(f"{self._package}.")
        target = full.removeprefix(self._package).removeprefix(".") if own else full
        self.found.append(Import(line, target, own, self._functions > 0, self._types_only))


def _called(expression: ast.expr) -> str:
    """The last name of `name` or `module.name`."""
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else ""


def imports(tree: Tree, modules: list[Module]) -> list[tuple[Module, Import]]:
    """Every import of every module, in the order of files and lines."""
    known = {module.name for module in modules}
    pairs = []
    for module in modules:
        reader = Reader(tree.package, module, known)
        reader.visit(module.code)
        pairs += [(module, found) for found in sorted(set(reader.found), key=lambda one: (one.line, one.target))]
    return pairs


def loaded_with(module: Module, target: str, known: Collection[str]) -> set[str]:
    """The modules that run when `module` imports `target`: the target and the packages above it it is not in."""
    parts = target.split(".")
    chain = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    own = f"{module.name}."
    return {name for name in chain if name in known and (name == target or not own.startswith(f"{name}."))}
