"""Records delivery ticks of messages: log rows for later queries and events for subscribers."""

from collections.abc import Iterable

import msgspec

from molecule_core.common.clock import to_rfc3339
from molecule_core.messages import rules
from molecule_core.messages.model import InboxPosition, InboxRange
from molecule_core.store.database import JournalEvent, Statement, WriteSet
from molecule_core.wire.schemas.events import MessageTickPayload


def record_ticks(
    workspace_id: str, tick: str, spans: Iterable[InboxRange], now: int, reason: str | None = None
) -> WriteSet[None]:
    """Record a tick for ranges of an inbox."""
    writes, events = list[Statement](), list[JournalEvent]()
    for span in spans:
        attempt = span.last.attempt
        row = {"workspace_id": workspace_id, "tick": tick, "attempt": attempt, "at": now, "reason": reason}
        writes += [
            ("record_delivery", {**row, "first_no": first, "last_no": last})
            for first, last in rules.split_range(span.first.inbound_no, span.last.inbound_no)
        ]
        payload = MessageTickPayload(tick, span.first.seq, span.last.seq, to_rfc3339(now), attempt or None, reason)
        # control: message-event
        events.append(
            JournalEvent("MESSAGE_TICK", workspace_id, "inbox", workspace_id, 0, msgspec.json.encode(payload))
        )
    return WriteSet(None, writes, events)


def record_tick(
    workspace_id: str, tick: str, seq: int, inbound_no: int, now: int, reason: str | None = None
) -> WriteSet[None]:
    """Record a tick for one message, without an attempt."""
    position = InboxPosition(seq, 0, inbound_no)
    return record_ticks(workspace_id, tick, (InboxRange(position, position),), now, reason)
