"""Every module says what it is; every public name of the inner doors says what it promises.

Above: test_docstrings. Below: trees.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator

from tests.shape.guards.trees import Module, Tree, read
from tests.shape.rooms import fits

# Whose public classes and functions are read by people who do not read their bodies.
PROMISES = ("slices.{writer,reader,rules}", "ground", "store", "wire")
# Rooms that others know by their door, whose docstring says where in the house one stands.
BOUNDARIES = tuple(f"{room}.__init__" for room in ("slices", "edges", "store", "wire", "client", "agent"))

Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Classes = dict[str, list[ast.ClassDef]]


def find_missing_docstrings(tree: Tree, promises: tuple[str, ...] = PROMISES) -> list[str]:
    """Modules without a docstring, folders of modules without an __init__.py, public names without a promise."""
    modules = read(tree)
    classes = _classes(modules)
    found = list(_folders_without_a_door(tree))
    for module in modules:
        found += [f"{module.shown}:1 {module.name or tree.package} {fault}" for fault in _faults_of_the_door(module)]
        if any(fits(module.spot, door) for door in promises):
            silent = _silent(module, classes)
            found += [f"{module.shown}:{node.lineno} {name} has no docstring" for node, name in silent]
    return found


def _folders_without_a_door(tree: Tree) -> Iterator[str]:
    for folder in sorted({path.parent for path in tree.files(".py")}):
        if not (folder / "__init__.py").is_file():
            yield f"{tree.shown(folder)} has no __init__.py to say what is above and what is below it"


def _says_something(node: ast.Module | Documented) -> bool:
    return bool((ast.get_docstring(node) or "").strip())


def _faults_of_the_door(module: Module) -> Iterator[str]:
    said = ast.get_docstring(module.code) or ""
    if not said.strip():
        yield "has no docstring"
    elif any(fits(module.spot, door) for door in BOUNDARIES) and not ("Above:" in said and "Below:" in said):
        yield "does not say `Above: ... Below: ...`"


def _classes(modules: list[Module]) -> Classes:
    """Every class of the tree by its bare name, as a base class is written."""
    found = defaultdict[str, list[ast.ClassDef]](list)
    for module in modules:
        for node in ast.walk(module.code):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(node)
    return dict(found)


def _silent(module: Module, classes: Classes) -> Iterator[tuple[Documented, str]]:
    for node, name, owner in _public(module.code, None):
        if not _says_something(node) and not (owner and _is_promised_above(node.name, owner, classes, {owner.name})):
            yield node, name


def _public(scope: ast.AST, owner: ast.ClassDef | None) -> Iterator[tuple[Documented, str, ast.ClassDef | None]]:
    """Public definitions of a module and of its public classes, also below `if` and `try`; no nested functions."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, Documented):
            if not node.name.startswith("_") and not _is_half(node):
                yield node, f"{owner.name}.{node.name}" if owner else node.name, owner
                if isinstance(node, ast.ClassDef):
                    yield from _public(node, node)
        elif not isinstance(node, ast.expr):
            yield from _public(node, owner)


def _is_half(node: Documented) -> bool:
    """One of several signatures, or a property's other half: the docstring stands at the main one."""
    last = [item.attr if isinstance(item, ast.Attribute) else getattr(item, "id", "") for item in node.decorator_list]
    return bool({"overload", "setter", "deleter"}.intersection(last))


def _is_promised_above(method: str, owner: ast.ClassDef, classes: Classes, seen: set[str]) -> bool:
    """True if a base class says what the method promises: docstrings are inherited, repeating one adds nothing."""
    for base in owner.bases:
        bare = base.value if isinstance(base, ast.Subscript) else base
        name = bare.attr if isinstance(bare, ast.Attribute) else getattr(bare, "id", "")
        if name in seen:
            continue
        for above in classes.get(name, []):
            said = (node for node in above.body if isinstance(node, Documented) and node.name == method)
            if any(_says_something(node) for node in said) or _is_promised_above(method, above, classes, seen | {name}):
                return True
    return False
