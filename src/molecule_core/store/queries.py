"""Named queries: each package keeps its SQL in queries.sql and refers to it by name.

A statement is written as

    -- name: insert_message
    -- one line of description
    INSERT INTO ... VALUES (:id, :text);

`queries.postgres.sql` beside it may override single names. A statement that changes cached data has a third line,
`-- mirrored: workspace by id` (the kind of entry, and the parameter that identifies it), or `-- mirrored: nothing` and
a reason. store/cache_sync.py uses it.
"""

import re
from collections.abc import Callable, Container, Iterator, Mapping
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
    "search",
    "prompts",
    "instructions",
    "delegations",
    "approvals",
    "threads",
    "live_turns",
    "runners",
    "a2a_agents",
    "webhooks",
    "usage",
    "budgets",
    "schedules",
)
_STATEMENT_HEAD = re.compile(r"^-- name: (\w+)\n-- (.+)\n", re.MULTILINE)
_CACHE_LINE = re.compile(r"^-- mirrored: .*\n", re.MULTILINE)
_CACHE_RULE = re.compile(r"^-- mirrored: (\w+) by (\w+)\n", re.MULTILINE)
# Marker in the schema: objects derived from one of its tables, for search, follow. The name of the table is next.
_SEARCH_MARKER = "\n-- search: "
# Marker in the schema, before that one: triggers that reject writes follow.
_GUARDS_MARKER = "\n-- guards: "
# A plain insertion of values, which can be done by COPY.
_INSERTION = re.compile(r"INSERT INTO (\w+) \(([^()]+)\)\s+VALUES \(([^()]+)\)")
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")


class CopyTarget(NamedTuple):
    """The columns of a table, in the order of a statement's parameters."""

    table: str
    columns: list[str]


class Query:
    """One statement in one dialect: its text with numbered placeholders, and a getter of their values.

    `copy_target`: where a plain insertion puts its parameters, else None."""

    __slots__ = ("_from_mapping", "_from_struct", "cache_rule", "copy_target", "name", "param_names", "sql", "text")

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
        """Return the values in placeholder order. Raises KeyError or AttributeError for a missing one."""
        return self._from_mapping(params) if type(params) is dict else self._from_struct(params)

    def cache_change(self, params: Params) -> tuple[str, str] | None:
        """Return (kind, key) of the cached entry that a write with these values changes, or None."""
        if self.cache_rule is None:
            return None
        kind, name = self.cache_rule
        return kind, str(params[name] if isinstance(params, Mapping) else getattr(params, name))

    def with_placeholders(self, placeholder: Callable[[str], str]) -> str:
        """Return the text with each parameter written as `placeholder(name)`."""
        return _PARAMETER.sub(lambda found: placeholder(found.group(1)), self.text)


def _value_getter(getter: Any, names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda _params: ()
    get_values = getter(*names)
    return get_values if len(names) > 1 else lambda params: (get_values(params),)


def _copy_target_of(text: str, names: tuple[str, ...]) -> CopyTarget | None:
    """Return where a plain insertion puts its parameters; None for any other statement."""
    found = _INSERTION.fullmatch(text)
    if found is None or _split_list(found[3]) != [f":{name}" for name in names]:
        return None
    return CopyTarget(found[1], _split_list(found[2]))


def _split_list(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]


def split_statements(source: str) -> Iterator[tuple[str, str, str]]:
    """Yield (name, description, SQL) of every named statement of a queries file, in order."""
    heads = list(_STATEMENT_HEAD.finditer(source))
    for head, following in zip(heads, [*heads[1:], None], strict=True):
        end = following.start() if following else len(source)
        yield head.group(1), head.group(2), source[head.end() : end].strip().rstrip(";")


def load_queries(dialect: Dialect) -> Mapping[str, Query]:
    """Load all named queries in one dialect. Raises ValueError for a name used by two packages."""
    return {name: Query(name, text, dialect) for name, text in _load_texts(dialect).items()}


def _load_texts(dialect: Dialect) -> dict[str, str]:
    found: dict[str, str] = {}
    for package_name in PACKAGES_WITH_QUERIES:
        folder = package_resources.PACKAGE_FOLDER / package_name
        for name, _, text in split_statements(folder.joinpath("queries.sql").read_text(encoding="utf-8")):
            if name in found:
                raise ValueError(
                    f"the query name {name} is declared twice; the second is in {package_name}/queries.sql"
                )
            found[name] = text
        override = folder.joinpath(f"queries.{dialect}.sql")
        if override.is_file():
            found |= {name: text for name, _, text in split_statements(override.read_text(encoding="utf-8"))}
    return found


class _LazyQueries(dict[str, Query]):
    """Queries that are parsed on first use: a starting server needs few of them."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__()
        self._dialect = dialect
        self._texts = _load_texts(dialect)

    def __missing__(self, name: str) -> Query:
        self[name] = query = Query(name, self._texts[name], self._dialect)
        return query


@cache
def lazy_queries(dialect: Dialect) -> Mapping[str, Query]:
    """Return the queries, looked up by name only, parsed once per process."""
    return _LazyQueries(dialect)


def load_schema(dialect: Dialect) -> str:
    """Return the whole schema.

    Text in `/*sqlite: ... */` is for SQLite only and a comment for PostgreSQL, and vice versa."""
    return _read_in_dialect(package_resources.PACKAGE_FOLDER / "store" / "schema.sql", dialect)


def load_search(dialect: Dialect, tables: Container[str]) -> str:
    """Return the end of the schema: the search indexes derived from those of these tables that have one."""
    _, *sections = load_schema(dialect).split(_SEARCH_MARKER)
    return "".join(_SEARCH_MARKER + each for each in sections if each.partition(":")[0] in tables)


def load_guards(dialect: Dialect) -> str:
    """Return the triggers of the schema, which a copy made by the other engine lacks."""
    _, prefix, rest = load_schema(dialect).partition(_GUARDS_MARKER)
    return prefix + rest.partition(_SEARCH_MARKER)[0]


def load_migrations(dialect: Dialect, found: int) -> list[str]:
    """Return the migrations from schema `found` to that of `schema.sql`, oldest first."""
    folder = package_resources.PACKAGE_FOLDER / "store" / "migrations"
    steps = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return [_read_in_dialect(file, dialect) for file in steps if int(file.name.removesuffix(".sql")) > found]


def _read_in_dialect(file: Path, dialect: Dialect) -> str:
    source = file.read_text(encoding="utf-8")
    return re.sub(rf"/\*{dialect}: (.*?) \*/", r"\1", source)
