"""Encodes the model context of a thread as chat messages for providers. Pure.

Providers have four roles. Base instructions and layers become `system`; notes become framed `user` messages, since most
providers accept system messages only at the beginning. A chat begins and ends with a message that is not the model's,
as providers require. Messages of other agents never become `user` messages
but results of a tool that cannot be called (decision 0046).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from molecule_core.agent.engines.call_ids import to_model_id
from molecule_core.agent.engines.models import ImageData
from molecule_core.wire.schemas.threads import ModelContextItem

INCOMING_TOOL = "incoming_message"
"""Name of the tool whose results are the messages of other agents."""
NOTE_START, NOTE_END = "<platform_note>\n", "\n</platform_note>"
"""Frame around a platform note in a `user` message."""
OPENING_TEXT = "(new message)"
"""First `user` message of a chat that would begin with another agent's message: providers require the user first."""
SUMMARY_OPENING_TEXT = "(summary of the conversation so far)"
"""The same for a chat that begins with a summary, which is the model's own text."""
CLOSING_TEXT = "(continue with the messages that you have not answered yet)"
"""Last `user` message of a chat that would end with the model's own text: providers refuse to continue it."""
NO_TEXT = "(no text)"
"""Replaces a `user` message without words, which providers refuse."""
IMAGES_TEXT = f"{NOTE_START}The images that read_file has returned.{NOTE_END}"
"""Precedes images in a `user` message."""
_NOTE = "context_note"


def to_chat_messages(
    items: Sequence[ModelContextItem], images: Mapping[str, ImageData] | None = None
) -> list[dict[str, Any]]:
    """Encode items in order, except that the outputs of calls directly follow the message with the calls.

    An image follows the outputs, since the results of tools are text for most providers."""
    chat = _ChatBuilder(images or {})
    for item in items:
        chat.add_item(item)
    return chat.messages()


class _ChatBuilder:
    def __init__(self, images: Mapping[str, ImageData]) -> None:
        self._images = images
        self._unshown: list[ImageData] = []
        """Images of outputs since the last calls."""
        self._messages: list[dict[str, Any]] = []
        self._deferred: list[ModelContextItem] = []
        """Items between calls and their outputs."""
        self._open_calls: dict[str, str] = {}
        """Calls without an output yet -> their ids in the chat."""
        self._names: set[str] = set()
        self._is_answering = False
        """Some outputs of the open calls have arrived, others have not."""
        self._has_started = False
        self._reasoning: dict[str, Any] = {}

    def add_item(self, item: ModelContextItem) -> None:
        """Add the next item."""
        if item.role == "tool" and item.call_id in self._open_calls:
            name = self._open_calls.pop(item.call_id)
            self._is_answering = bool(self._open_calls)
            self._append_message("tool", content=item.text, tool_call_id=name)
            if item.item_id in self._images:
                self._unshown.append(self._images[item.item_id])
            if not self._open_calls:
                self._append_images()
                self._flush_held()
        elif self._open_calls and (self._is_answering or not _is_call(item)):
            self._deferred.append(item)
        else:
            self._append_item(item)

    def messages(self) -> list[dict[str, Any]]:
        """Return all messages. A call that never got an output has none here either."""
        self._open_calls.clear()
        self._append_images()
        self._flush_held()
        if self._messages and self._messages[-1]["role"] == "assistant":
            self._append_message("user", content=CLOSING_TEXT)
        return self._messages

    def _append_images(self) -> None:
        shown, self._unshown = self._unshown, []
        if shown:
            urls = [{"url": f"data:{each.mime_type};base64,{each.data}"} for each in shown]
            images = [{"type": "image_url", "image_url": each} for each in urls]
            self._append_message("user", content=[{"type": "text", "text": IMAGES_TEXT}, *images])

    def _flush_held(self) -> None:
        held, self._deferred = self._deferred, []
        for item in held:
            self.add_item(item)

    def _append_item(self, item: ModelContextItem) -> None:
        match item.role:
            case "developer" if not self._has_started and item.type != _NOTE:
                self._messages.append({"role": "system", "content": item.text})
            case "developer":
                self._append_message("user", content=f"{NOTE_START}{item.text}{NOTE_END}")
            case "user":
                self._append_message("user", content=item.text if item.text.strip() else NO_TEXT)
            case "peer":
                self._append_peer(item)
            case "assistant":
                self._append_assistant(item)
            case "tool":  # its call is no longer in the context
                self._append_message("user", content=f"{NOTE_START}{item.text}{NOTE_END}")

    def _append_message(self, role: str, **members: Any) -> None:
        self._has_started = True
        self._messages.append({"role": role, **members})

    def _ensure_user_first(self, text: str = OPENING_TEXT) -> None:
        if not self._has_started:
            self._append_message("user", content=text)

    def _append_peer(self, item: ModelContextItem) -> None:
        self._ensure_user_first()
        self._append_message("assistant", content=None, tool_calls=[_tool_call(item.item_id, INCOMING_TOOL, {})])
        self._append_message("tool", content=item.text, tool_call_id=item.item_id)

    def _append_assistant(self, item: ModelContextItem) -> None:
        if item.type == "reasoning":
            self._reasoning = _reasoning_fields(item)
            return
        if not _is_call(item) and not item.text.strip():  # providers refuse text without words
            return
        self._ensure_user_first(SUMMARY_OPENING_TEXT if item.type == "compaction" else OPENING_TEXT)
        if _is_call(item):
            call = _tool_call(self._unique_name(item.call_id or item.item_id), item.tool or "", item.arguments)
            last_message = self._messages[-1]
            if last_message["role"] == "assistant" and not self._reasoning:
                last_message.setdefault("tool_calls", []).append(call)
                return
            self._append_message("assistant", content=None, tool_calls=[call], **self._reasoning)
        else:
            self._append_message("assistant", content=item.text, **self._reasoning)
        self._reasoning = {}

    def _unique_name(self, call_id: str) -> str:
        """Return the chat id of a call: the model's own, unless another call has it."""
        name = to_model_id(call_id)
        name = call_id if name in self._names else name
        self._names.add(name)
        self._open_calls[call_id] = name
        return name


def _is_call(item: ModelContextItem) -> bool:
    return item.role == "assistant" and item.tool is not None


def _tool_call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    text = msgspec.json.encode({} if arguments is None else arguments).decode()
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def _reasoning_fields(item: ModelContextItem) -> dict[str, Any]:
    """Return reasoning if its provider requires it back."""
    return {"reasoning": {"content": item.text}, "extra_content": item.data} if item.data else {}
