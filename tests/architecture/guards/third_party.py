"""Each third-party package behind its module, and the optional ones imported only when they are needed."""

import sys
from collections.abc import Iterator, Mapping

from tests.architecture.guards.import_statements import COMPUTED, Import, imports, loaded_with
from tests.architecture.guards.trees import Module, Tree, read
from tests.architecture.layers import matches
from tests.architecture.third_party import THIRD_PARTIES, Permission


def find_misplaced_third_parties(tree: Tree, permissions: Mapping[str, Permission] = THIRD_PARTIES) -> list[str]:
    """Find third parties that are imported by the wrong module, too early, or without a row in the table."""
    modules = read(tree)
    pairs = imports(tree, modules)
    loaded = _loaded_on_import(modules, pairs)
    found: list[str] = []
    for module, one in pairs:
        if not one.own and one.target != COMPUTED:
            found += _check(module, one, permissions, module.name in loaded)
    return found


def _loaded_on_import(modules: list[Module], pairs: list[tuple[Module, Import]]) -> set[str]:
    """Return the modules that another module imports while it is itself imported."""
    known = {module.name for module in modules}
    chains = [(module, loaded_with(module, one.target, known)) for module, one in pairs if one.own and one.runs_on_load]
    return {name for module, names in chains for name in names if name != module.name}


def _check(module: Module, one: Import, permissions: Mapping[str, Permission], is_loaded: bool) -> Iterator[str]:
    package = one.target.split(".")[0]
    place = f"{module.shown}:{one.line} {module.name} imports {package}"
    if package not in permissions:
        if package not in sys.stdlib_module_names:
            yield f"{place}: it has no row in the table of third parties"
        return
    permission = permissions[package]
    if not any(matches(module.dotted, pattern) for pattern in permission.modules):
        yield f"{place}: only {', '.join(permission.modules)} may"
    if permission.lazily and one.runs_on_load and is_loaded:
        yield f"{place} on load: import an optional package in a function, or in a module that is imported lazily"
