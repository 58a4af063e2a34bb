"""What is indexed and found, and how far the index follows the journal."""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct


class SearchKind(StrEnum):
    """Kind of something that can be found."""

    MESSAGE = "message"
    DELEGATION = "delegation"
    THREAD = "thread"
    """An item of a thread."""
    MEMORY = "memory"


class SourceRef(NamedTuple):
    """Identifies an indexed row. `ordinal`: of an item within its thread, else 0."""

    kind: SearchKind
    id: str
    ordinal: int = 0


_KIND_BY_ENTITY = {
    "activity": SearchKind.MESSAGE,
    "delegation": SearchKind.DELEGATION,
    "memory": SearchKind.MEMORY,
}
_THREAD_ITEM = "THREAD_ITEM"


def ref_of_event(entity_kind: str, entity_id: str, rev: int, name: str) -> SourceRef | None:
    """Return the row whose text an event may have changed."""
    if name == _THREAD_ITEM:
        return SourceRef(SearchKind.THREAD, entity_id, rev)
    kind = _KIND_BY_ENTITY.get(entity_kind)
    return None if kind is None else SourceRef(kind, entity_id)


class SourceDocument(Struct, frozen=True, kw_only=True):
    """The text of a row, and what a link to it needs. Time in microseconds.

    `workspace_ids`: all that take part in it. `owner_id`: the workspace whose log, thread or memory has it; of a
    delegation its source. `in_chat`: whether a message is part of the chat with people."""

    ref: SourceRef
    org_id: str
    at: int
    owner_id: str
    workspace_ids: tuple[str, ...]
    text: str
    in_chat: bool = False


class BackfillPosition(Struct, frozen=True, omit_defaults=True):
    """How far rows from before the index were indexed: workspaces in the order of their ids, each kind after another.

    `number`, `text` and `ordinal`: the last row of the kind; see `indexer.py`."""

    workspace_id: str = ""
    stage: int = 0
    number: int = -1
    text: str = ""
    ordinal: int = -1


class IndexPosition(NamedTuple):
    """How far an organisation is indexed: its journal up to `seq`. `backfill`: JSON, None if nothing is left of it."""

    seq: int
    backfill: str | None


class SearchTerms(NamedTuple):
    """A parsed query: all words must match, the last one also as a prefix. `phrases`: words that must be adjacent."""

    words: tuple[str, ...]
    is_prefix: bool
    phrases: tuple[tuple[str, ...], ...] = ()

    def matches(self, term: str) -> bool:
        """Return whether a term of a text is one of the words."""
        return term in self.words or (self.is_prefix and term.startswith(self.words[-1]))


class SearchRequest(NamedTuple):
    """A search in an organisation, newest first. `before`: only documents with a lower number. Times in microseconds.

    `kinds`: those that the caller may read and wants."""

    terms: SearchTerms
    kinds: tuple[SearchKind, ...]
    workspace_id: str | None
    since: int
    until: int
    before: int
    limit: int


class Snippet(NamedTuple):
    """A part of a text, and where the words of the query are in it: from, to (exclusive), in characters."""

    text: str
    matches: list[tuple[int, int]]


class SearchHit(NamedTuple):
    """A found document."""

    document: SourceDocument
    snippet: Snippet


class SearchPage(NamedTuple):
    """Found documents. `next_before`: number to continue from, None at the end.

    `is_complete`: whether all rows from before the index are indexed."""

    hits: list[SearchHit]
    next_before: int | None
    is_complete: bool


class FoundRefs(NamedTuple):
    """Rows that match a search. `oldest_at`: the time of the oldest one that was looked at (microseconds).

    `is_complete`: these are all, and all rows from before the index are indexed."""

    refs: frozenset[SourceRef]
    oldest_at: int
    is_complete: bool


def distinct(*ids: str | None) -> tuple[str, ...]:
    """Return the ids that are set, each once."""
    return tuple(dict.fromkeys(_set_ids(ids)))


def _set_ids(ids: tuple[str | None, ...]) -> Iterator[str]:
    return (each for each in ids if each)
