"""Each third party behind its one door, the optional ones loaded only when somebody asks for them.

Above: test_fences. Below: importing, trees, the table of doors.
"""

import sys
from collections.abc import Iterator, Mapping

from tests.shape.fences import FENCES, Door
from tests.shape.guards.importing import COMPUTED, Import, imports, loaded_with
from tests.shape.guards.trees import Module, Tree, read
from tests.shape.rooms import fits


def find_open_fences(tree: Tree, fences: Mapping[str, Door] = FENCES) -> list[str]:
    """Third parties imported outside their door, at a time that is not theirs, or without a row."""
    modules = read(tree)
    pairs = imports(tree, modules)
    loaded = _loaded_at_once(modules, pairs)
    found: list[str] = []
    for module, one in pairs:
        if not one.own and one.target != COMPUTED:
            found += _judge(module, one, fences, module.name in loaded)
    return found


def _loaded_at_once(modules: list[Module], pairs: list[tuple[Module, Import]]) -> set[str]:
    """The modules that some other module imports while it is itself being imported."""
    known = {module.name for module in modules}
    chains = [(module, loaded_with(module, one.target, known)) for module, one in pairs if one.own and one.runs_on_load]
    return {name for module, names in chains for name in names if name != module.name}


def _judge(module: Module, one: Import, fences: Mapping[str, Door], is_loaded: bool) -> Iterator[str]:
    party = one.target.split(".")[0]
    place = f"{module.shown}:{one.line} {module.name} imports {party}"
    if party not in fences:
        if party not in sys.stdlib_module_names:
            yield f"{place}: it has no row in the table of fences"
        return
    door = fences[party]
    if not any(fits(module.spot, pattern) for pattern in door.rooms):
        yield f"{place}: only {', '.join(door.rooms) or 'nobody'} may"
    if door.lazily and one.runs_on_load and is_loaded:
        yield f"{place} on load: import what is optional in a function, or in a module nobody imports on load"
