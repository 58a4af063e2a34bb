"""The journal: every change appends numbered events in its own transaction.

Numbers are gap-free per organisation and become visible in order, so "all after N" never skips an event that commits
late. Called by the engines (writes) and `api/live/hub.py` (reads).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from molecule_core.store.database import JournalEvent, Row, Store
from molecule_core.store.queries import Params
from molecule_core.wire.schemas.events import EVENTS

SUBTREE_PREFIX = "tree:"
"""Prefix of the audience of an event that another workspace also receives; its id follows."""
ORG_PREFIX = "org:"
"""Prefix of the wake-up key of an organisation's journal; its id follows."""


class JournalEntry(Struct, frozen=True):
    """One journal row. `at` in microseconds; `payload` is JSON text, or None if it is built from the entity."""

    seq: int
    name: str
    workspace_id: str
    audience: str
    entity_kind: str
    entity_id: str
    rev: int
    at: int
    payload: str | None


class EventHead(NamedTuple):
    """A journal row without its payload."""

    seq: int
    name: str
    workspace_id: str
    audience: str
    entity_kind: str
    entity_id: str
    rev: int
    at: int


def journal_params(org_id: str, seq: int, event: JournalEvent, at: int) -> Params:
    """Return the parameters of `append_event`. Raises KeyError for an unknown or transient event."""
    if not EVENTS[event.name].journaled:
        raise KeyError(event.name)
    return {
        "org_id": org_id,
        "seq": seq,
        "name": event.name,
        "workspace_id": event.workspace_id,
        "audience": EVENTS[event.name].audience
        if event.observer_workspace_id is None
        else subtree_audience(event.observer_workspace_id),
        "entity_kind": event.entity_kind,
        "entity_id": event.entity_id,
        "rev": event.rev,
        "at": at if event.at is None else event.at,
        "payload": None if event.payload is None else event.payload.decode(),
    }


def subtree_audience(workspace_id: str) -> str:
    """Return the audience of events in the tree of delegations or threads that a workspace started."""
    return f"{SUBTREE_PREFIX}{workspace_id}"


class Journal:
    """Reader of the journal from a cursor."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read_after(self, org_id: str, seq: int, count: int) -> list[JournalEntry]:
        """Return at most `count` events of one organisation after a number, oldest first."""
        rows: Sequence[Row] = await self._store.rows("events_after", {"org_id": org_id, "seq": seq, "count": count})
        return [JournalEntry(*row) for row in rows]

    async def read_visible_after(
        self, org_id: str, seq: int, count: int, *, upto: int, audiences: Mapping[str, Any]
    ) -> list[JournalEntry]:
        """Return the events that one workspace may see, up to `upto`.

        `audiences`: `workspace_id` (all events about it), `peers` (ids of its peers, each with a comma before and
        after, for events that peers may see), `parent` (for events that children may see), `tree` (audience of events
        elsewhere in trees that it started)."""
        rows = await self._store.rows(
            "events_after_for", {**audiences, "org_id": org_id, "seq": seq, "upto": upto, "count": count}
        )
        return [JournalEntry(*row) for row in rows]

    async def count_visible(self, org_id: str, seq: int, *, upto: int, audiences: Mapping[str, Any]) -> int:
        """Count the events that `read_visible_after` would find without a limit."""
        query = {**audiences, "org_id": org_id, "seq": seq, "upto": upto}
        found: int = (await self._store.rows("count_events_for", query))[0][0]
        return found

    async def heads_before(self, org_id: str, seq: int, count: int) -> list[EventHead]:
        """Return at most `count` events of one organisation before a number, newest first."""
        rows = await self._store.rows("event_heads_before", {"org_id": org_id, "seq": seq, "count": count})
        return [EventHead(*row) for row in rows]

    async def heads_after(self, org_id: str, seq: int, count: int) -> list[EventHead]:
        """Return at most `count` events of one organisation after a number, oldest first."""
        rows = await self._store.rows("event_heads_after", {"org_id": org_id, "seq": seq, "count": count})
        return [EventHead(*row) for row in rows]

    async def load(self, org_id: str, seqs: Sequence[int]) -> list[JournalEntry]:
        """Return the events with these numbers, in their order, as far as they still exist."""
        if not seqs:
            return []
        found = await self._store.rows_of_each("event_by_number", [{"org_id": org_id, "seq": each} for each in seqs])
        return [JournalEntry(*rows[0]) for rows in found if rows]

    async def times(self, org_id: str, seqs: Sequence[int]) -> list[int | None]:
        """Return the time of each event with one of these numbers; None if it does not exist any more."""
        found = await self._store.rows_of_each("event_time", [{"org_id": org_id, "seq": each} for each in seqs])
        return [rows[0][0] if rows else None for rows in found]

    async def last_seq(self, org_id: str) -> int:
        """Return the highest number in use; 0 for an empty journal."""
        rows = await self._store.rows("last_event", {"key": org_id})
        return rows[0][0] or 0

    async def first_seq(self, org_id: str) -> int:
        """Return the number of the oldest event that is kept; 1 for an empty journal."""
        rows = await self._store.rows("first_event", {"org_id": org_id})
        return rows[0][0] or 1


def log_key(workspace_id: str) -> str:
    """Return the wake-up key of a workspace's log."""
    return f"log:{workspace_id}"


def heartbeat_key(org_id: str) -> str:
    """Return the wake-up key of the heartbeats in an organisation, which are not journaled."""
    return f"pulse:{org_id}"


def org_key(org_id: str) -> str:
    """Return the wake-up key of an organisation's journal."""
    return f"{ORG_PREFIX}{org_id}"


def answer_key(activity_id: str) -> str:
    """Return the wake-up key of a push agent's answer to a message."""
    return f"answer:{activity_id}"


PUSHES_KEY = "pushes"
"""The wake-up key of the push dispatcher: a push agent has mail, or can be pushed to again."""
