"""Named queries: each slice keeps its SQL in queries.sql, and names it in Python.

A statement is written as

    -- name: insert_message
    -- one line that says what it does
    INSERT INTO ... VALUES (:id, :text);

`queries.postgres.sql` beside it may override single names. A statement that changes what processes keep in memory says
so in a third line, `-- mirrored: workspace by id` (the kind of thing, and the parameter that names it), or
`-- mirrored: nothing` and why not. store/mirrors.py is what reads it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from molecule_core.ground import package

Dialect = Literal["sqlite", "postgres"]
Params = Mapping[str, Any] | Struct

ROOMS_WITH_QUERIES = (
    "store",
    "access",
    "org",
    "messages",
    "memory",
    "prompts",
    "instructions",
    "delegations",
    "approvals",
    "threads",
)
_HEAD = re.compile(r"^-- name: (\w+)\n-- (.+)\n", re.MULTILINE)
_MIRROR_LINE = re.compile(r"^-- mirrored: .*\n", re.MULTILINE)
_MIRRORED = re.compile(r"^-- mirrored: (\w+) by (\w+)\n", re.MULTILINE)
# Where the schema comes to what is made from its tables.
_SEARCH = "\n-- search: "
# And before that, to what the store itself refuses.
_GUARDS = "\n-- guards: "
# An insertion of values as they are, of which nothing else comes.
_INSERTION = re.compile(r"INSERT INTO (\w+) \(([^()]+)\)\s+VALUES \(([^()]+)\)")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")


class Place(NamedTuple):
    """The columns of a table, in the order of a statement's parameters."""

    table: str
    columns: list[str]


class Query:
    """One statement in one dialect: its text with numbered places, and how to pick their values. `copied`: where it
    puts them, if it does nothing but put them into a row."""

    __slots__ = ("_from_mapping", "_from_struct", "copied", "mirrored", "name", "names", "sql", "text")

    def __init__(self, name: str, text: str, dialect: Dialect) -> None:
        self.name = name
        said = _MIRRORED.search(text)
        self.mirrored = None if said is None else (said.group(1), said.group(2))
        self.text = text = _MIRROR_LINE.sub("", text)
        self.names: tuple[str, ...] = tuple(dict.fromkeys(_PARAMETER.findall(text)))
        mark = "?" if dialect == "sqlite" else "$"
        places = {given: f"{mark}{place}" for place, given in enumerate(self.names, 1)}
        self.sql = _PARAMETER.sub(lambda found: places[found.group(1)], text)
        self._from_mapping = _picker(itemgetter, self.names)
        self._from_struct = _picker(attrgetter, self.names)
        self.copied = _place_of(text, self.names)

    def bind(self, params: Params) -> tuple[Any, ...]:
        """The values in the order of the places; KeyError or AttributeError names one that is missing."""
        return self._from_mapping(params) if type(params) is dict else self._from_struct(params)

    def changes(self, params: Params) -> tuple[str, str] | None:
        """What a write of these values changes that processes keep in memory: (kind, key)."""
        if self.mirrored is None:
            return None
        kind, name = self.mirrored
        return kind, str(params[name] if isinstance(params, Mapping) else getattr(params, name))

    def with_places(self, place: Callable[[str], str]) -> str:
        """The text with each parameter written as `place(name)`."""
        return _PARAMETER.sub(lambda found: place(found.group(1)), self.text)


def _picker(getter: Any, names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda _params: ()
    pick = getter(*names)
    return pick if len(names) > 1 else lambda params: (pick(params),)


def _place_of(text: str, names: tuple[str, ...]) -> Place | None:
    """Where a statement puts its parameters that does nothing else; None if it does."""
    found = _INSERTION.fullmatch(text)
    if found is None or _listed(found[3]) != [f":{name}" for name in names]:
        return None
    return Place(found[1], _listed(found[2]))


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]


def split_statements(source: str) -> Iterator[tuple[str, str, str]]:
    """(name, description, SQL) of every named statement of a queries file, in order."""
    heads = list(_HEAD.finditer(source))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        end = following.start() if following else len(source)
        yield head.group(1), head.group(2), source[head.end() : end].strip().rstrip(";")


def load_queries(dialect: Dialect) -> Mapping[str, Query]:
    """All named queries of the package in one dialect. A name that two rooms use is an error."""
    return {name: Query(name, text, dialect) for name, text in _texts(dialect).items()}


def _texts(dialect: Dialect) -> dict[str, str]:
    found: dict[str, str] = {}
    for room in ROOMS_WITH_QUERIES:
        folder = package.FOLDER / room
        for name, _, text in split_statements(folder.joinpath("queries.sql").read_text(encoding="utf-8")):
            if name in found:
                raise ValueError(f"the query name {name} stands twice; the second is in {room}/queries.sql")
            found[name] = text
        special = folder.joinpath(f"queries.{dialect}.sql")
        if special.is_file():
            found |= {name: text for name, _, text in split_statements(special.read_text(encoding="utf-8"))}
    return found


class _AsWanted(dict[str, Query]):
    """Queries, each read when it is wanted first: a server that starts wants few of them."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__()
        self._dialect = dialect
        self._texts = _texts(dialect)

    def __missing__(self, name: str) -> Query:
        self[name] = query = Query(name, self._texts[name], self._dialect)
        return query


@cache
def queries_of(dialect: Dialect) -> Mapping[str, Query]:
    """The same, looked up by name only, once for the whole process: what a store takes."""
    return _AsWanted(dialect)


def load_schema(dialect: Dialect) -> str:
    """The whole schema. Text in `/*sqlite: ... */` is meant for SQLite alone; to PostgreSQL it is a comment, and the
    other way round."""
    return _in_dialect(package.FOLDER / "store" / "schema.sql", dialect)


def load_search(dialect: Dialect) -> str:
    """The end of the schema: what an engine finds memories by, made from the table that is there."""
    _, mark, rest = load_schema(dialect).partition(_SEARCH)
    return mark + rest


def load_guards(dialect: Dialect) -> str:
    """What the schema makes an engine refuse: triggers, which no copy of the other engine holds."""
    _, mark, rest = load_schema(dialect).partition(_GUARDS)
    return mark + rest.partition(_SEARCH)[0]


def load_migrations(dialect: Dialect, found: int) -> list[str]:
    """The steps from a schema that was found to the one of `schema.sql`, oldest first."""
    folder = package.FOLDER / "store" / "migrations"
    steps = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [_in_dialect(file, dialect) for file in steps if int(file.name.removesuffix(".sql")) > found]


def _in_dialect(file: Path, dialect: Dialect) -> str:
    source = file.read_text(encoding="utf-8")
    return re.sub(rf"/\*{dialect}: (.*?) \*/", r"\1", source)
