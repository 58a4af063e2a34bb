"""A running turn of an ACP agent: what its updates add up to."""

import asyncio
from typing import Any

from molecule_core.agent.bridges.sessions import ToolStatus, TurnEvents

_STATUSES: dict[str, ToolStatus] = {
    "pending": "started",
    "in_progress": "started",
    "completed": "completed",
    "failed": "failed",
}
_SILENT_UPDATES = (
    *("agent_thought_chunk", "user_message_chunk", "plan", "available_commands_update", "current_mode_update"),
    *("config_option_update", "session_info_update", "usage_update"),
)
_MAX_TITLE = 200


class AcpTurn:
    """The running turn of a session.

    `old_messages`: ids of messages of earlier turns; what an agent still sends of them is dropped."""

    def __init__(self, events: TurnEvents, stop_requested: asyncio.Event, old_messages: frozenset[str]) -> None:
        self.events = events
        self.stop_requested = stop_requested
        self.ended = asyncio.Event()
        self.messages: set[str] = set()
        self.calls: dict[str, dict[str, Any]] = {}
        """Calls of tools by id, as the updates describe them."""
        self._old_messages = old_messages
        self._segments: list[str] = [""]
        """Texts between calls of tools; the last one is the answer."""
        self._reported: dict[str, ToolStatus] = {}

    @property
    def final_text(self) -> str:
        """Return the last text that is not blank."""
        return next((text.strip() for text in reversed(self._segments) if text.strip()), "")

    @property
    def text_so_far(self) -> str:
        """Return all that was written."""
        return "\n\n".join(text.strip() for text in self._segments if text.strip())

    def handle_update(self, update: dict[str, Any]) -> bool:
        """Handle an update; return False if its kind is unknown."""
        match update.get("sessionUpdate"):
            case "agent_message_chunk":
                self._add_chunk(update)
            case "tool_call" | "tool_call_update":
                self._note_call(update)
            case other:
                return other in _SILENT_UPDATES
        return True

    def _add_chunk(self, update: dict[str, Any]) -> None:
        text, message_id = text_of(update.get("content")), update.get("messageId")
        if isinstance(message_id, str):
            if message_id in self._old_messages:
                return
            self.messages.add(message_id)
        if not text:
            return
        if not self._segments[-1] and len(self._segments) > 1:
            self.events.text("\n\n")
        self._segments[-1] += text
        self.events.text(text)

    def _note_call(self, update: dict[str, Any]) -> None:
        call_id = update.get("toolCallId")
        if not isinstance(call_id, str):
            return
        is_new = call_id not in self.calls
        call = self.calls.setdefault(call_id, {})
        call.update({name: value for name, value in update.items() if value and name != "sessionUpdate"})
        if is_new and self._segments[-1].strip():
            self._segments.append("")
        status = _STATUSES.get(str(call.get("status", "pending")), "started")
        if self._reported.get(call_id) != status:
            self._reported[call_id] = status
            title = " ".join(str(call.get("title") or "").split())[:_MAX_TITLE]
            self.events.tool(call_id, str(call.get("kind") or "tool"), title, status)


def text_of(content: object) -> str:
    """Return the text of a content block, also of one within the content of a tool call; empty for other blocks."""
    if not isinstance(content, dict):
        return ""
    inner = content.get("content")
    if content.get("type") == "content" and isinstance(inner, dict):
        return text_of(inner)
    text = content.get("text")
    return text if content.get("type") == "text" and isinstance(text, str) else ""
