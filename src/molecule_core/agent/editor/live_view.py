"""What a running turn of an agent adds to a session: text as it comes, and calls of tools. Pure."""

from typing import Any

from molecule_core.agent.editor.updates import text_chunk, tool_call, tool_call_update, tool_kind

Members = dict[str, Any]
_CALL_STATUSES = {"started": "in_progress", "completed": "completed", "failed": "failed"}
_GAP = "\n\n[...]\n\n"
_STATUS_TEXTS = {
    "waiting_for_approval": "Waiting for approval",
    "retrying": "Trying again",
    "limited": "Limited by the vendor",
    "lost": "The agent has stopped reporting",
}


class LiveTurnView:
    """The text and the calls that were shown of the turns of one message."""

    def __init__(self, message_id: str) -> None:
        self._message_id = message_id
        self._started_at = ""
        self._position = 0
        self._segment = ""
        """Text after the last call of a tool: what the answer begins with, if it was written live."""
        self._has_text = False
        self._calls: dict[str, str] = {}
        self._status = ""
        self.is_over = False
        """Whether the turn has ended, in whatever way."""
        self.outcome = ""
        """The status with which the turn ended: ended, failed or stopped."""
        self.status_text = ""

    def handle_turn(self, payload: Members) -> list[Members]:
        """Return the updates that an event about the turn adds."""
        if payload.get("started_at") != self._started_at:
            self._started_at = str(payload.get("started_at"))
            self._position, self._calls = 0, {}
            self.is_over, self.outcome = False, ""
        updates = [*self._add_text(payload), *self._add_calls(payload.get("tools") or ())]
        status, self.status_text = str(payload.get("status", "")), str(payload.get("status_text") or "")
        if status in _STATUS_TEXTS and status != self._status:
            words = _STATUS_TEXTS[status] + (f": {self.status_text}" if self.status_text else "")
            updates.append(text_chunk(f"{words}\n", kind="agent_thought_chunk"))
        self._status = status
        self.is_over = status in ("ended", "failed", "stopped")
        self.outcome = status if self.is_over else ""
        return updates

    def rest_of_answer(self, answer: str) -> str:
        """Return what an answer adds to the text that was shown live."""
        shown, whole = self._segment.lstrip(), answer.strip()
        if shown and whole.startswith(shown):
            rest = whole[len(shown) :]
        elif whole and shown.rstrip().endswith(whole):
            rest = ""
        else:
            rest = f"\n\n{answer}" if self._has_text else answer
        self._segment = ""
        self._has_text = True
        return rest

    def separate(self, text: str) -> str:
        """Return a text that is not live, as a paragraph of its own."""
        if not text:
            return ""
        separated = f"\n\n{text}" if self._has_text else text
        self._segment, self._has_text = "", True
        return separated

    def _add_text(self, payload: Members) -> list[Members]:
        start, text = int(payload.get("text_at") or 0), str(payload.get("text") or "")
        end = start + len(text)
        if end <= self._position:
            return []
        new = text[max(0, self._position - start) :]
        if start > self._position:
            new = _GAP + new
        elif self._position == 0 and self._has_text:
            new = "\n\n" + new
        self._position = end
        self._segment += new
        self._has_text = True
        return [text_chunk(new, message_id=self._message_id)]

    def _add_calls(self, calls: Any) -> list[Members]:
        updates = []
        for call in calls:
            call_id, status = f"{self._message_id}-{call['call_id']}", _CALL_STATUSES.get(call["status"], "in_progress")
            words = f"{call['tool']}: {call['title']}" if call.get("title") else str(call["tool"])
            if call_id not in self._calls:
                self._segment = ""
                updates.append(tool_call(call_id, words, status=status, kind=tool_kind(str(call["tool"]))))
            elif self._calls[call_id] != status:
                updates.append(tool_call_update(call_id, status=status, title=words))
            self._calls[call_id] = status
        return updates

    def end_calls(self) -> list[Members]:
        """Return the end of calls whose end was not reported, at the end of a turn."""
        open_calls = [call_id for call_id, status in self._calls.items() if status == "in_progress"]
        self._calls.update(dict.fromkeys(open_calls, "completed"))
        return [tool_call_update(call_id, status="completed") for call_id in open_calls]
