"""Who may import whom: every module has a row in the table of layers and imports only what the row allows."""

from collections.abc import Iterator

from tests.architecture.guards.import_statements import COMPUTED, Import, imports
from tests.architecture.guards.trees import NOT_OURS, Module, Tree, read
from tests.architecture.layers import OTHER_FILES, TABLE, Row, find_row, matches, top_level_names


def find_wrong_imports(tree: Tree, table: tuple[Row, ...] = TABLE) -> list[str]:
    """Find imports that the table does not allow, and files and folders without a row."""
    modules = read(tree)
    paths = {module.name: module.dotted for module in modules}
    found = list(_unknown_entries(tree, table))
    for module, one in imports(tree, modules):
        row = find_row(module.dotted, table)
        found += _check(tree, module, one, row, paths) if row else ()
    return found


def _unknown_entries(tree: Tree, table: tuple[Row, ...]) -> Iterator[str]:
    names = top_level_names(table)
    for entry in sorted(tree.root.iterdir()):
        name = entry.stem if entry.suffix == ".py" else entry.name
        known = name in names or entry.name in OTHER_FILES or entry.name in NOT_OURS
        if not known and not entry.name.startswith("."):
            yield f"{tree.shown(entry)} has no row in the table"


def _check(tree: Tree, module: Module, one: Import, row: Row, paths: dict[str, str]) -> Iterator[str]:
    place = f"{module.shown}:{one.line} {module.name or tree.package}"
    if module.name == "":
        yield f"{place} imports {one.target}: the package's own __init__.py imports nothing"
    elif one.target == COMPUTED:
        yield f"{place} imports a computed name: write it out, so that it can be checked against the table"
    elif one.own and not any(matches(paths.get(one.target, one.target), pattern) for pattern in row.may_import):
        allowed = ", ".join(row.may_import) or "nothing"
        yield f"{place} imports {one.target or tree.package}: {row.package} may import only {allowed}"
