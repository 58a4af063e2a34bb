"""What became of messages, as notes for whoever asks later and events for whoever watches.

Above: every hand of this slice. Below: rules.
"""

from collections.abc import Iterable

import msgspec

from molecule_core.ground.clock import rfc3339
from molecule_core.messages import rules
from molecule_core.messages.model import Place, Span
from molecule_core.store.database import Event
from molecule_core.store.queries import Params
from molecule_core.wire.events import MessageTick

Statement = tuple[str, Params]


def ticked(
    workspace_id: str, tick: str, spans: Iterable[Span], now: int, reason: str | None = None
) -> tuple[list[Statement], list[Event]]:
    """What became of ranges of an inbox."""
    notes: list[Statement] = []
    events = []
    for span in spans:
        attempt = span.last.attempt
        row = {"workspace_id": workspace_id, "tick": tick, "attempt": attempt, "at": now, "reason": reason}
        notes += [
            ("note_handover", {**row, "first_no": first, "last_no": last})
            for first, last in rules.pieces(span.first.no, span.last.no)
        ]
        payload = MessageTick(tick, span.first.seq, span.last.seq, rfc3339(now), attempt or None, reason)
        # control: message-event
        events.append(Event("MESSAGE_TICK", workspace_id, "inbox", workspace_id, 0, msgspec.json.encode(payload)))
    return notes, events


def ticked_one(
    workspace_id: str, tick: str, seq: int, inbound_no: int, now: int, reason: str | None = None
) -> tuple[list[Statement], list[Event]]:
    """The same of one message, whatever its attempt was."""
    place = Place(seq, 0, inbound_no)
    return ticked(workspace_id, tick, (Span(place, place),), now, reason)
