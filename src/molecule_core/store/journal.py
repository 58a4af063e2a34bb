"""The journal: every change appends its numbered facts in the transaction that makes the change.

Numbers are gap-free per organisation and become visible in order, so "all after N" never skips a fact that commits
late. Above: the slices' write sets, `api/live/hub.py`. Below: the two engines.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from molecule_core.store.database import JournalEvent, Row, Store
from molecule_core.store.queries import Params
from molecule_core.wire.schemas.events import EVENTS

SUBTREE_PREFIX = "tree:"
"""How the audience begins of what another workspace hears too, whose id follows."""


class JournalEntry(Struct, frozen=True):
    """One line of the journal. `at` in microseconds; `payload` is JSON text, or None: made from the entity."""

    seq: int
    name: str
    workspace_id: str
    audience: str
    entity_kind: str
    entity_id: str
    rev: int
    at: int
    payload: str | None


def journal_params(org_id: str, seq: int, event: JournalEvent, at: int) -> Params:
    """An event with its place in the journal, as parameters of `append_event`. KeyError: the event is in no table, or
    transient."""
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
    """The audience of what happens in a tree that begins in a workspace: it hears that too."""
    return f"{SUBTREE_PREFIX}{workspace_id}"


class Journal:
    """Reads the journal from a cursor."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read_after(self, org_id: str, seq: int, count: int) -> list[JournalEntry]:
        """At most `count` facts of one organisation behind a number, oldest first."""
        rows: Sequence[Row] = await self._store.rows("events_after", {"org_id": org_id, "seq": seq, "count": count})
        return [JournalEntry(*row) for row in rows]

    async def read_visible_after(
        self, org_id: str, seq: int, count: int, *, upto: int, audiences: Mapping[str, Any]
    ) -> list[JournalEntry]:
        """The same for one workspace, and nothing behind `upto`. `ears`, what it hears: `workspace_id`, all that is
        about it; `peers`, what peers may see of these (their ids, a comma before and behind each); `parent`, what
        children may see of it; `tree`, the audience of what happens elsewhere in trees that begin in it."""
        rows = await self._store.rows(
            "events_after_for", {**audiences, "org_id": org_id, "seq": seq, "upto": upto, "count": count}
        )
        return [JournalEntry(*row) for row in rows]

    async def count_visible(self, org_id: str, seq: int, *, upto: int, audiences: Mapping[str, Any]) -> int:
        """How many facts `after_for` would find without a limit."""
        query = {**audiences, "org_id": org_id, "seq": seq, "upto": upto}
        found: int = (await self._store.rows("count_events_for", query))[0][0]
        return found

    async def last_seq(self, org_id: str) -> int:
        """The highest number in use; 0 for an empty journal."""
        rows = await self._store.rows("last_event", {"key": org_id})
        return rows[0][0] or 0

    async def first_seq(self, org_id: str) -> int:
        """The number of the oldest fact that is kept; 1 for an empty journal."""
        rows = await self._store.rows("first_event", {"org_id": org_id})
        return rows[0][0] or 1


def log_key(workspace_id: str) -> str:
    """The wake-up key of a workspace's log."""
    return f"log:{workspace_id}"


def heartbeat_key(org_id: str) -> str:
    """The wake-up key of what the agents of an organisation say of themselves between two facts."""
    return f"pulse:{org_id}"


def org_key(org_id: str) -> str:
    """The wake-up key of an organisation's journal."""
    return f"org:{org_id}"


def answer_key(activity_id: str) -> str:
    """The wake-up key of what a push agent answers to a message."""
    return f"answer:{activity_id}"


PUSHES_KEY = "pushes"
"""The wake-up key of whoever pushes: mail came for a push agent, or one can take mail again."""
