"""Who owns which table: a noun's statements change only its own tables and read only its own and those below."""

from collections.abc import Iterator, Mapping

from tests.architecture.guards.queries import Query, queries
from tests.architecture.guards.sql import tables_of_schema
from tests.architecture.guards.trees import Tree
from tests.architecture.layers import NOUNS, TABLE, Row, may_import_package
from tests.architecture.tables import TABLES


def find_foreign_tables(tree: Tree, tables: Mapping[str, str] = TABLES, layers: tuple[Row, ...] = TABLE) -> list[str]:
    """Find statements that touch tables of others, tables without an owner, and owners without a table."""
    found = list(_unowned(tree, tables))
    for query in queries(tree):
        found += _writes(query, tables)
        found += _reads(query, tables, layers)
    return found


def _unowned(tree: Tree, tables: Mapping[str, str]) -> Iterator[str]:
    schema = tree.root / "store" / "schema.sql"
    if not schema.is_file():
        yield f"{tree.shown(schema)}: the file does not exist"
        return
    created = tables_of_schema(schema.read_text(encoding="utf-8"))
    for name in created:
        if name not in tables:
            yield f"{tree.shown(schema)} {name}: this table has no owner"
    for name, owner in tables.items():
        if name not in created:
            yield f"{tree.shown(schema)} {name}: {owner} is its owner, but the schema has no such table"
        if owner not in (*NOUNS, "store"):
            yield f"{tree.shown(schema)} {name}: its owner {owner} is neither a noun nor the store"


def _writes(query: Query, tables: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(query.facts.writes):
        if tables.get(name) != query.package:
            yield f"{query.place} {query.name.strip()} writes {name}, which belongs to {tables.get(name, 'no package')}"


def _reads(query: Query, tables: Mapping[str, str], layers: tuple[Row, ...]) -> Iterator[str]:
    """Find reads of tables further up; a name defined by WITH is no table, unless it hides one."""
    for name in sorted(query.facts.reads - (query.facts.defines - set(tables))):
        owner = tables.get(name, "no package")
        if not may_import_package(query.package, owner, layers):
            yield f"{query.place} {query.name.strip()} reads {name}, which belongs to {owner}"
