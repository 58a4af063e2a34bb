"""Who may import whom: every module has a row in the table of rooms and imports only what the row allows.

Above: test_imports. Below: importing, trees, the table.
"""

from collections.abc import Iterator

from tests.shape.guards.importing import COMPUTED, Import, imports
from tests.shape.guards.trees import NOT_OURS, Module, Tree, read
from tests.shape.rooms import LOOSE_FILES, TABLE, Row, fits, heads, row_of


def find_wrong_imports(tree: Tree, table: tuple[Row, ...] = TABLE) -> list[str]:
    """Imports that the table does not allow, files and folders that it does not know."""
    modules = read(tree)
    spots = {module.name: module.spot for module in modules}
    found = list(_strangers_at_the_top(tree, table))
    found += [
        f"{module.shown} belongs to no room of the table"
        for module in modules
        if module.head in heads(table) and row_of(module.spot, table) is None
    ]
    for module, one in imports(tree, modules):
        row = row_of(module.spot, table)
        if row is not None:
            found += _judge(tree, module, one, row, spots)
    return found


def _strangers_at_the_top(tree: Tree, table: tuple[Row, ...]) -> Iterator[str]:
    for entry in sorted(tree.root.iterdir()):
        name = entry.stem if entry.suffix == ".py" else entry.name
        known = name in heads(table) or entry.name in LOOSE_FILES or entry.name in NOT_OURS
        if not known and not entry.name.startswith("."):
            yield f"{tree.shown(entry)} belongs to no room of the table"


def _judge(tree: Tree, module: Module, one: Import, row: Row, spots: dict[str, str]) -> Iterator[str]:
    place = f"{module.shown}:{one.line} {module.name or tree.package}"
    if module.name == "":
        yield f"{place} imports {one.target}: the package's own __init__.py imports nothing"
    elif one.target == COMPUTED:
        yield f"{place} imports a name that is computed: write it out, so that the table can be held against it"
    elif one.own and not any(fits(spots.get(one.target, one.target), pattern) for pattern in row.may_import):
        allowed = ", ".join(row.may_import) or "nothing"
        yield f"{place} imports {one.target or tree.package}: {row.room} may import only {allowed}"
