"""Converts the text of live turns to deltas of agent messages. The log's entry completes the same item.

A live item has an id of its own until the log has the message; `thread/read` shows the message under its ordinal.
"""

from msgspec import Struct

from molecule_core.api.app_server.items import COMPLETED, STARTED, PendingNotification, ThreadLogLine
from molecule_core.wire.protocols import app_server as app
from molecule_core.wire.schemas import thread_log as log
from molecule_core.wire.schemas.live_turns import LiveTurnPayload

DELTA = "item/agentMessage/delta"


class _LiveText(Struct):
    """Text of a thread's live turn as this client has it. `upto`: characters of the turn's text."""

    activity_id: str
    upto: int = 0
    item_id: str = ""
    """The open item; empty if there is none."""
    item_start: int = 0
    text: str = ""


class LiveItems:
    """Builds the notifications of live text for one client."""

    def __init__(self) -> None:
        self._texts: dict[str, _LiveText] = {}
        self._count = 0

    def notifications_for(self, turn: LiveTurnPayload, turn_id: str) -> list[PendingNotification]:
        """Return the notifications of an event about the live turn of a thread."""
        known = self._texts.get(turn.thread_id)
        if known is None or known.activity_id != turn.activity_id:
            known = self._texts[turn.thread_id] = _LiveText(turn.activity_id)
        delta = turn.text[max(0, known.upto - turn.text_at) :]
        start = max(known.upto, turn.text_at)
        known.upto = max(known.upto, turn.text_at + len(turn.text))
        found = []
        if not known.item_id:
            start += len(delta) - len(delta.lstrip())
            delta = delta.lstrip()  # the blank line between two messages
            if not delta:
                return []
            self._count += 1
            known.item_id, known.item_start, known.text = f"{turn.thread_id}.live.{self._count}", start, ""
            found.append(_notification(STARTED, turn.thread_id, turn_id, item=app.AgentItem(id=known.item_id, text="")))
        if not delta:
            return []
        known.text += delta
        return [*found, _notification(DELTA, turn.thread_id, turn_id, itemId=known.item_id, delta=delta)]

    def complete(self, log_line: ThreadLogLine, reported: list[PendingNotification]) -> list[PendingNotification]:
        """Return the notifications of a log entry: an agent's message completes the open item, as does a turn's end."""
        known = self._texts.get(log_line.thread_id)
        if known is None:
            return reported
        if isinstance(log_line.entry, log.AgentMessageEntry):
            return self._complete_message(known, log_line.entry, reported)
        if isinstance(log_line.entry, log.TurnEndedEntry | log.ThreadClosedEntry):
            del self._texts[log_line.thread_id]
            if known.item_id:
                item = app.AgentItem(id=known.item_id, text=known.text)
                closed = _notification(
                    COMPLETED, log_line.thread_id, log_line.turn_id, item=item, completedAtMs=log_line.at
                )
                return [closed, *reported]
        return reported

    def _complete_message(
        self, known: _LiveText, entry: log.AgentMessageEntry, reported: list[PendingNotification]
    ) -> list[PendingNotification]:
        start = known.item_start if known.item_id else known.upto
        # The rest of the message may arrive after its entry.
        known.upto = max(known.upto, start + len(entry.text))
        if not known.item_id:
            return reported
        item = app.AgentItem(id=known.item_id, text=entry.text)
        known.item_id = ""
        return [
            PendingNotification(each.method, {**each.params, "item": item})
            for each in reported
            if each.method == COMPLETED
        ]


def _notification(method: str, thread_id: str, turn_id: str | None, **params: object) -> PendingNotification:
    return PendingNotification(method, {"threadId": thread_id, "turnId": turn_id, **params})
