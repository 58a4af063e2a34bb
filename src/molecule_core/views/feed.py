"""Reads journal events for live channels, with payloads encoded once for any number of subscribers.

Called by `api/live/hub.py`; calls the journal and the readers of the nouns that events are about.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from molecule_core.common.clock import SECOND, to_rfc3339
from molecule_core.delegations.model import progress_wake_key
from molecule_core.delegations.reader import DelegationReader, LatestProgress
from molecule_core.messages.model import ActivityPageRow, LivePayload
from molecule_core.messages.reader import MessageReader
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.store.journal import SUBTREE_PREFIX, Journal, JournalEntry, heartbeat_key, org_key, subtree_audience
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.wire.schemas.events import EVENTS, HeartbeatPayload, TaskUpdatedPayload
from molecule_core.wire.schemas.live import EventEntity, EventFrame

# 1 h is only an upper bound: a waiter is notified, or polls again where a wake-up may get lost
# (`limits.look_again_seconds`).
_MAX_WAIT_SECONDS = 3600.0
# Nothing notifies this key: its waiters wait for the end of the server.
_CLOSING_KEY = "feed closing"
# 30 s: reports may be committed out of order, and clocks of processes differ.
_REORDER_SECONDS = 30
# Upper bound of the events of one commit, with a margin.
_MAX_GROUP_EVENTS = 1024


class Audience(Struct, frozen=True):
    """Which events to read: all of an organisation, or those of one workspace and those peers may see of its peers.

    `peer_ids`: with a comma before and after each; `parent_id`: the workspace above it, of which children may see some
    events; `include_subtrees`: include what happens elsewhere in trees that begin in this workspace.
    """

    org_id: str
    workspace_id: str | None = None
    peer_ids: str = ","
    parent_id: str = ""
    include_subtrees: bool = False

    @property
    def audience_params(self) -> Mapping[str, Any]:
        """Return the audience as parameters of the journal's queries."""
        tree = subtree_audience(self.workspace_id) if self.workspace_id is not None and self.include_subtrees else ""
        return {"workspace_id": self.workspace_id, "peers": self.peer_ids, "parent": self.parent_id, "tree": tree}


class EncodedEvent(Struct, frozen=True):
    """One event, ready to be sent.

    `tail`: its frame without the opening brace and `prev`. `seq` is 0 for a transient event.
    """

    seq: int
    name: str
    workspace_id: str
    audience: str
    at: int
    payload: bytes
    tail: bytes
    message_row: ActivityPageRow | None = None
    """The inbound message that the event is about, if any."""

    @property
    def tree_root_id(self) -> str:
        """Return the other workspace that receives the event because its tree begins there, or an empty string."""
        return self.audience.removeprefix(SUBTREE_PREFIX) if self.audience.startswith(SUBTREE_PREFIX) else ""

    def frame(self, prev: int) -> bytes:
        """Return the whole frame for a channel whose last event was `prev`."""
        return b'{"prev":%d,%s' % (prev, self.tail) if self.seq else b"{" + self.tail

    def with_payload(self, payload: bytes) -> "EncodedEvent":
        """Return the same event with another payload."""
        return replace(self, payload=payload, tail=self.tail.replace(self.payload, payload, 1))


class EventPage(Struct, frozen=True):
    """Events in order, and the number up to which none is missing."""

    events: list[EncodedEvent]
    upto: int


class ProgressWatermark:
    """Position up to which progress reports were read.

    Reports of about the same time may be committed in another order, and other processes have other clocks. So the last
    30 seconds are read again, and reports that were seen already are skipped.
    """

    def __init__(self, at: int) -> None:
        self._latest = at
        self._seen: dict[str, int] = {}

    @property
    def since(self) -> int:
        """Return the time from which to read."""
        return self._latest - _REORDER_SECONDS * SECOND

    def take_unseen(self, reported: list[LatestProgress]) -> list[LatestProgress]:
        """Return the reports that were not seen before, and remember them."""
        found = [each for each in reported if self._seen.get(each.delegation_id) != each.at]
        self._latest = max([self._latest, *(each.at for each in found)])
        self._seen.update({each.delegation_id: each.at for each in found})
        self._seen = {delegation_id: at for delegation_id, at in self._seen.items() if at > self.since}
        return found


class Feed:
    """Reader of events after a position of the journal."""

    def __init__(
        self, store: Store, wakeups: Notifier, org: OrgReader, messages: MessageReader, delegations: DelegationReader
    ) -> None:
        self._journal = Journal(store)
        self._wakeups = wakeups
        self._org = org
        self._messages = messages
        self._delegations = delegations
        self._store = store
        self.head = self._journal.last_seq
        self.oldest = self._journal.first_seq

    def epoch(self) -> str:
        """Return the store's epoch. Positions of another epoch are not valid here."""
        return self._store.epoch

    @property
    def closing(self) -> bool:
        """Return whether the server is stopping."""
        return self._wakeups.closing

    async def wait_closing(self) -> None:
        """Wait until the server is stopping."""

        async def poll() -> Poll[bool]:
            return Poll(None)

        while not self.closing:
            await self._wakeups.wait_until(_CLOSING_KEY, poll, _MAX_WAIT_SECONDS)

    async def read_after(self, audience: Audience, seq: int, count: int, upto: int | None = None) -> EventPage:
        """Return at most `count` events after `seq`; for one workspace, none after `upto`."""
        if audience.workspace_id is None:
            entries = await self._journal.read_after(audience.org_id, seq, count)
            return EventPage(await self.encode_entries(entries), entries[-1].seq if entries else seq)
        end = await self.head(audience.org_id) if upto is None else upto
        entries = await self._journal.read_visible_after(
            audience.org_id, seq, count, upto=end, audiences=audience.audience_params
        )
        return EventPage(
            await self.encode_entries(entries), entries[-1].seq if len(entries) == count else max(seq, end)
        )

    async def count_between(self, audience: Audience, seq: int, upto: int) -> int:
        """Count the events after `seq`, up to and including `upto`."""
        if audience.workspace_id is None:
            return upto - seq
        return await self._journal.count_visible(audience.org_id, seq, upto=upto, audiences=audience.audience_params)

    async def wait_for_events(self, org_id: str, seq: int, count: int) -> EventPage:
        """Wait for events of an organisation after `seq`, and return them; after an hour, return none.

        The page ends before the first event that the org cache has not applied yet, since visibility is read from the
        cache.
        """

        async def poll() -> Poll[EventPage]:
            entries = self._applied_prefix(await self._journal.read_after(org_id, seq, count))
            return Poll(EventPage(await self.encode_entries(entries), entries[-1].seq) if entries else None)

        found = await self._wakeups.wait_until(org_key(org_id), poll, _MAX_WAIT_SECONDS)
        return found or EventPage([], seq)

    async def applied_head(self, org_id: str) -> int:
        """Return the position up to which the org cache has applied the journal."""
        head = await self.head(org_id)
        first = max(0, head - _MAX_GROUP_EVENTS)
        entries = await self._journal.read_after(org_id, first, _MAX_GROUP_EVENTS)
        applied = self._applied_prefix(entries)
        return head if len(applied) == len(entries) else entries[len(applied)].seq - 1

    def _applied_prefix(self, entries: list[JournalEntry]) -> list[JournalEntry]:
        """Return the entries before the first one that the org cache has not applied (it lags behind commits)."""
        for index, entry in enumerate(entries):
            if entry.entity_kind == "workspace":
                workspace = self._org.workspace(entry.entity_id)
                if workspace is None or workspace.rev < entry.rev:
                    return entries[:index]
        return entries

    async def wait_for_heartbeat(self, org_id: str, heartbeat_number: int) -> None:
        """Wait until an agent of an organisation sends a heartbeat after `heartbeat_number`, or for an hour."""

        async def poll() -> Poll[bool]:
            return Poll(True if self._org.workspaces_after_heartbeat(org_id, heartbeat_number) else None)

        await self._wakeups.wait_until(heartbeat_key(org_id), poll, _MAX_WAIT_SECONDS)

    async def wait_for_progress(self, org_id: str, watermark: "ProgressWatermark") -> list[EncodedEvent]:
        """Wait for progress reports that were not seen before, and return them; after an hour, return none."""

        async def poll() -> Poll[list[LatestProgress]]:
            return Poll(watermark.take_unseen(await self._delegations.progress_since(org_id, watermark.since)) or None)

        found = await self._wakeups.wait_until(progress_wake_key(org_id), poll, _MAX_WAIT_SECONDS)
        return [_progress_event(each) for each in found or ()]

    async def progress_since(self, org_id: str, since: int) -> list[EncodedEvent]:
        """Return the latest progress of all delegations with a report since a time."""
        return [_progress_event(each) for each in await self._delegations.progress_since(org_id, since)]

    async def encode_entries(self, entries: Sequence[JournalEntry]) -> list[EncodedEvent]:
        """Encode events with their payloads, as live channels send them."""
        live_payload = await self._messages.live_payloads(
            [entry.entity_id for entry in entries if entry.payload is None]
        )
        return [
            _encode_entry(entry, live_payload.get(entry.entity_id) if entry.payload is None else None)
            for entry in entries
        ]

    def heartbeat_event(self, workspace_id: str, at: int) -> EncodedEvent:
        """Return the event of an agent's last heartbeat."""
        heartbeat = self._org.last_heartbeat(workspace_id)
        reported = HeartbeatPayload(
            heartbeat.active_tasks, heartbeat.uptime_seconds, heartbeat.current_task, to_rfc3339(heartbeat.heard_at)
        )
        return transient_event("WORKSPACE_HEARTBEAT", workspace_id, reported, at)

    def task_event(self, workspace_id: str, at: int) -> EncodedEvent:
        """Return the event of an agent's current task."""
        heartbeat = self._org.last_heartbeat(workspace_id)
        return transient_event(
            "TASK_UPDATED", workspace_id, TaskUpdatedPayload(heartbeat.current_task, heartbeat.active_tasks), at
        )


def _encode_entry(entry: JournalEntry, live_payload: LivePayload | None) -> EncodedEvent:
    payload = (entry.payload or "{}").encode() if live_payload is None else live_payload.payload
    frame = EventFrame(
        event=entry.name,
        workspace_id=entry.workspace_id,
        timestamp=to_rfc3339(entry.at),
        payload=Raw(payload),
        entity=EventEntity(entry.entity_kind, entry.entity_id, entry.rev),
        seq=entry.seq,
        client_id=UNSET if live_payload is None or live_payload.client_id is None else live_payload.client_id,
    )
    tail = msgspec.json.encode(frame)[1:]
    row = None if live_payload is None else live_payload.row
    return EncodedEvent(entry.seq, entry.name, entry.workspace_id, entry.audience, entry.at, payload, tail, row)


def _progress_event(reported: LatestProgress) -> EncodedEvent:
    entity = EventEntity("delegation", reported.delegation_id, reported.rev)
    return transient_event(reported.event, reported.source_id, reported.payload, reported.at, entity)


def transient_event(
    name: str,
    workspace_id: str,
    reported: Struct,
    at: int,
    entity: EventEntity | None = None,
    *,
    audience: str | None = None,
) -> EncodedEvent:
    """Encode an event that is not journaled. `audience`: by default that of the event's name."""
    payload = msgspec.json.encode(reported)
    frame = EventFrame(
        event=name,
        workspace_id=workspace_id,
        timestamp=to_rfc3339(at),
        payload=Raw(payload),
        entity=entity or EventEntity("workspace", workspace_id, 0),
    )
    tail = msgspec.json.encode(frame)[1:]
    return EncodedEvent(0, name, workspace_id, audience or EVENTS[name].audience, at, payload, tail)
