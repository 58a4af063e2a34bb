"""Who owns which table: a slice's statements change only its own tables and read only its own and those below.

Above: test_tables. Below: queries, sql, trees, the tables of tables and of rooms.
"""

from collections.abc import Iterator, Mapping

from tests.shape.guards.queries import Query, queries
from tests.shape.guards.sql import tables_of_schema
from tests.shape.guards.trees import Tree
from tests.shape.rooms import SLICES, TABLE, Row, may_import_room
from tests.shape.tables import TABLES


def find_foreign_tables(tree: Tree, tables: Mapping[str, str] = TABLES, rooms: tuple[Row, ...] = TABLE) -> list[str]:
    """Statements that touch tables which are not theirs; tables without an owner; owners without a table."""
    found = list(_unowned(tree, tables))
    for query in queries(tree):
        found += _writes(query, tables)
        found += _reads(query, tables, rooms)
    return found


def _unowned(tree: Tree, tables: Mapping[str, str]) -> Iterator[str]:
    schema = tree.root / "store" / "schema.sql"
    if not schema.is_file():
        yield f"{tree.shown(schema)}: there is no schema"
        return
    created = tables_of_schema(schema.read_text(encoding="utf-8"))
    for name in created:
        if name not in tables:
            yield f"{tree.shown(schema)} {name}: nobody owns this table"
    for name, owner in tables.items():
        if name not in created:
            yield f"{tree.shown(schema)} {name}: {owner} is said to own it, but it is not there"
        if owner not in (*SLICES, "store"):
            yield f"{tree.shown(schema)} {name}: its owner {owner} is neither a slice nor the store"


def _writes(query: Query, tables: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(query.facts.writes):
        if tables.get(name) != query.room:
            yield f"{query.place} {query.name.strip()} writes {name}, which belongs to {tables.get(name, 'nobody')}"


def _reads(query: Query, tables: Mapping[str, str], rooms: tuple[Row, ...]) -> Iterator[str]:
    """A name given by WITH is no table, unless it hides one."""
    for name in sorted(query.facts.reads - (query.facts.defines - set(tables))):
        owner = tables.get(name, "nobody")
        if not may_import_room(query.room, owner, rooms):
            yield f"{query.place} {query.name.strip()} reads {name}, which belongs to {owner}"
