"""Named queries: each slice keeps its SQL in queries.sql, and names it in Python.

A statement is written as

    -- name: insert_message
    -- one line that says what it does
    INSERT INTO ... VALUES (:id, :text);

`queries.postgres.sql` beside it may override single names. A statement that changes what processes keep in memory says
so in a third line, `-- mirrored: workspace by id` (the kind of thing, and the parameter that names it), or
`-- mirrored: nothing` and why not. store/cache_sync.py is what reads it.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from molecule_core.common import package_resources

Dialect = Literal["sqlite", "postgres"]
Params = Mapping[str, Any] | Struct

PACKAGES_WITH_QUERIES = (
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
_STATEMENT_HEAD = re.compile(r"^-- name: (\w+)\n-- (.+)\n", re.MULTILINE)
_CACHE_LINE = re.compile(r"^-- mirrored: .*\n", re.MULTILINE)
_CACHE_RULE = re.compile(r"^-- mirrored: (\w+) by (\w+)\n", re.MULTILINE)
# Where the schema comes to what is made from its tables.
_SEARCH_MARKER = "\n-- search: "
# And before that, to what the store itself refuses.
_GUARDS_MARKER = "\n-- guards: "
# An insertion of values as they are, of which nothing else comes.
_INSERTION = re.compile(r"INSERT INTO (\w+) \(([^()]+)\)\s+VALUES \(([^()]+)\)")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")


class CopyTarget(NamedTuple):
    """The columns of a table, in the order of a statement's parameters."""

    table: str
    columns: list[str]


class Query:
    """One statement in one dialect: its text with numbered places, and how to pick their values. `copied`: where it
    puts them, if it does nothing but put them into a row."""

    __slots__ = ("_from_mapping", "_from_struct", "copy_target", "cache_rule", "name", "param_names", "sql", "text")

    def __init__(self, name: str, text: str, dialect: Dialect) -> None:
        self.name = name
        rule = _CACHE_RULE.search(text)
        self.cache_rule = None if rule is None else (rule.group(1), rule.group(2))
        self.text = text = _CACHE_LINE.sub("", text)
        self.param_names: tuple[str, ...] = tuple(dict.fromkeys(_PARAMETER.findall(text)))
        prefix = "?" if dialect == "sqlite" else "$"
        placeholders = {param: f"{prefix}{placeholder}" for placeholder, param in enumerate(self.param_names, 1)}
        self.sql = _PARAMETER.sub(lambda found: placeholders[found.group(1)], text)
        self._from_mapping = _value_getter(itemgetter, self.param_names)
        self._from_struct = _value_getter(attrgetter, self.param_names)
        self.copy_target = _copy_target_of(text, self.param_names)

    def bind(self, params: Params) -> tuple[Any, ...]:
        """The values in the order of the places; KeyError or AttributeError names one that is missing."""
        return self._from_mapping(params) if type(params) is dict else self._from_struct(params)

    def cache_change(self, params: Params) -> tuple[str, str] | None:
        """What a write of these values changes that processes keep in memory: (kind, key)."""
        if self.cache_rule is None:
            return None
        kind, name = self.cache_rule
        return kind, str(params[name] if isinstance(params, Mapping) else getattr(params, name))

    def with_placeholders(self, placeholder: Callable[[str], str]) -> str:
        """The text with each parameter written as `place(name)`."""
        return _PARAMETER.sub(lambda found: placeholder(found.group(1)), self.text)


def _value_getter(getter: Any, names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda _params: ()
    get_values = getter(*names)
    return get_values if len(names) > 1 else lambda params: (get_values(params),)


def _copy_target_of(text: str, names: tuple[str, ...]) -> CopyTarget | None:
    """Where a statement puts its parameters that does nothing else; None if it does."""
    found = _INSERTION.fullmatch(text)
    if found is None or _split_list(found[3]) != [f":{name}" for name in names]:
        return None
    return CopyTarget(found[1], _split_list(found[2]))


def _split_list(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]


def split_statements(source: str) -> Iterator[tuple[str, str, str]]:
    """(name, description, SQL) of every named statement of a queries file, in order."""
    heads = list(_STATEMENT_HEAD.finditer(source))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        end = following.start() if following else len(source)
        yield head.group(1), head.group(2), source[head.end() : end].strip().rstrip(";")


def load_queries(dialect: Dialect) -> Mapping[str, Query]:
    """All named queries of the package in one dialect. A name that two rooms use is an error."""
    return {name: Query(name, text, dialect) for name, text in _load_texts(dialect).items()}


def _load_texts(dialect: Dialect) -> dict[str, str]:
    found: dict[str, str] = {}
    for slice_name in PACKAGES_WITH_QUERIES:
        folder = package_resources.PACKAGE_FOLDER / slice_name
        for name, _, text in split_statements(folder.joinpath("queries.sql").read_text(encoding="utf-8")):
            if name in found:
                raise ValueError(f"the query name {name} stands twice; the second is in {slice_name}/queries.sql")
            found[name] = text
        override = folder.joinpath(f"queries.{dialect}.sql")
        if override.is_file():
            found |= {name: text for name, _, text in split_statements(override.read_text(encoding="utf-8"))}
    return found


class _LazyQueries(dict[str, Query]):
    """Queries, each read when it is wanted first: a server that starts wants few of them."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__()
        self._dialect = dialect
        self._texts = _load_texts(dialect)

    def __missing__(self, name: str) -> Query:
        self[name] = query = Query(name, self._texts[name], self._dialect)
        return query


@cache
def lazy_queries(dialect: Dialect) -> Mapping[str, Query]:
    """The same, looked up by name only, once for the whole process: what a store takes."""
    return _LazyQueries(dialect)


def load_schema(dialect: Dialect) -> str:
    """The whole schema. Text in `/*sqlite: ... */` is meant for SQLite alone; to PostgreSQL it is a comment, and the
    other way round."""
    return _read_in_dialect(package_resources.PACKAGE_FOLDER / "store" / "schema.sql", dialect)


def load_search(dialect: Dialect) -> str:
    """The end of the schema: what an engine finds memories by, made from the table that is there."""
    _, prefix, rest = load_schema(dialect).partition(_SEARCH_MARKER)
    return prefix + rest


def load_guards(dialect: Dialect) -> str:
    """What the schema makes an engine refuse: triggers, which no copy of the other engine holds."""
    _, prefix, rest = load_schema(dialect).partition(_GUARDS_MARKER)
    return prefix + rest.partition(_SEARCH_MARKER)[0]


def load_migrations(dialect: Dialect, found: int) -> list[str]:
    """The steps from a schema that was found to the one of `schema.sql`, oldest first."""
    folder = package_resources.PACKAGE_FOLDER / "store" / "migrations"
    steps = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [_read_in_dialect(file, dialect) for file in steps if int(file.name.removesuffix(".sql")) > found]


def _read_in_dialect(file: Path, dialect: Dialect) -> str:
    source = file.read_text(encoding="utf-8")
    return re.sub(rf"/\*{dialect}: (.*?) \*/", r"\1", source)
