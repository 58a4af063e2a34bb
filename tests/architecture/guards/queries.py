"""The named statements of every queries.sql, and whether each is named, described and single."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.architecture.guards.sql import Facts, facts
from tests.architecture.guards.trees import Tree
from tests.architecture.layers import NOUNS

QUERY_FILES = ("queries.sql", "queries.postgres.sql")
PACKAGES_WITH_QUERIES = (*NOUNS, "views", "store")

_HEADER = re.compile(r"^--\s*name\s*:(.*)$", re.IGNORECASE)
_NAME = re.compile(r" [a-z][a-z0-9_]*")
_DESCRIPTION = re.compile(r"--\s*\w")


@dataclass(frozen=True)
class Query:
    """One named statement; `package` is the top folder whose queries.sql holds it."""

    shown: str
    line: int
    package: str
    is_override: bool
    name: str
    body: tuple[str, ...]

    @property
    def place(self) -> str:
        return f"{self.shown}:{self.line}"

    @cached_property
    def facts(self) -> Facts:
        return facts("\n".join(self.body))


def queries(tree: Tree) -> list[Query]:
    """Return every named statement of the tree."""
    return [query for path in tree.files(".sql") if path.name in QUERY_FILES for query in _parse(tree, path)]


def _parse(tree: Tree, path: Path) -> Iterator[Query]:
    lines = path.read_text(encoding="utf-8").splitlines()
    headers = [(at, hit[1]) for at, line in enumerate(lines) if (hit := _HEADER.match(line))]
    ends = [*(at for at, _ in headers), len(lines)][1:]
    package, override = path.relative_to(tree.root).parts[0], path.name == QUERY_FILES[1]
    for (at, name), end in zip(headers, ends, strict=True):
        yield Query(tree.shown(path), at + 1, package, override, name.rstrip(), tuple(lines[at + 1 : end]))


def find_unclear_queries(tree: Tree) -> list[str]:
    """Find statements without name or description, names used twice, and SQL files where none belong."""
    every = queries(tree)
    found = list(_misplaced(tree))
    for path in tree.files(".sql"):
        found += _nameless(tree, path)
    for query in every:
        found += [f"{query.place} {query.name.strip()}: {fault}" for fault in _faults(query)]
    return [*found, *_doubles(every), *_overrides_of_nothing(every)]


def _misplaced(tree: Tree) -> Iterator[str]:
    for path in tree.files(".sql"):
        inside = path.relative_to(tree.root).parts
        is_home = len(inside) == len(("package", "queries.sql")) and inside[0] in PACKAGES_WITH_QUERIES
        if inside[0] != "store" and not (is_home and path.name in QUERY_FILES):
            yield f"{tree.shown(path)}: SQL belongs in the queries.sql of a noun, of views or of the store"


def _nameless(tree: Tree, path: Path) -> Iterator[str]:
    """SQL above the first name belongs to no statement and would never run."""
    if path.name not in QUERY_FILES:
        return
    for at, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
        if _HEADER.match(line):
            return
        if line.strip() and not line.lstrip().startswith("--"):
            yield f"{tree.shown(path)}:{at + 1} a statement without a name"
            return


def _faults(query: Query) -> Iterator[str]:
    if not _NAME.fullmatch(query.name):
        yield "a name is one word of a-z, 0-9 and _"
    if not query.body or not _DESCRIPTION.match(query.body[0]):
        yield "the line below the name must describe it"
    if query.facts.first == "":
        yield "there is no statement"
    elif query.facts.first not in {"SELECT", "WITH", "INSERT", "UPDATE", "DELETE"}:
        yield f"{query.facts.first} is none of SELECT, WITH, INSERT, UPDATE, DELETE"
    if query.facts.statements > 1:
        yield "more than one statement"


def _doubles(every: list[Query]) -> Iterator[str]:
    """One name, one statement, in the whole package; the PostgreSQL file may hold each name once more."""
    places = defaultdict[tuple[bool, str], list[Query]](list)
    for query in every:
        places[query.is_override, query.name].append(query)
    for (_, name), same in places.items():
        for query in same[1:]:
            yield f"{query.place} {name.strip()}: the name is taken by {same[0].place}"


def _overrides_of_nothing(every: list[Query]) -> Iterator[str]:
    known = {(query.package, query.name) for query in every if not query.is_override}
    for query in every:
        if query.is_override and (query.package, query.name) not in known:
            yield f"{query.place} {query.name.strip()}: it overrides nothing in queries.sql"
