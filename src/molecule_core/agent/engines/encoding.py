"""The sight of a thread as messages of a chat, which is what providers understand. Pure.

Providers know four roles. What is told at the beginning is `system`; what the platform tells later is a framed message
of the user's place, because most providers take a system message only at the beginning. What another agent wrote is
never in the user's place: it comes as the result of a tool that nobody can call (decision 0046).

Above: the library's model. Below: the door.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from molecule_core.agent.engines.names import unmarked
from molecule_core.wire.threads import SightItem

INCOMING = "incoming_message"
"""The tool as whose results the words of other agents stand in a chat."""
NOTE, NOTE_END = "<platform_note>\n", "\n</platform_note>"
"""What stands around a note of the platform in the user's place."""
OPENING = "(a message has come)"
"""In the user's place, where a chat would begin with what another agent wrote: providers want the user first."""


def messages_of(items: Sequence[SightItem]) -> list[dict[str, Any]]:
    """The messages, in the order of the items; but the outputs of a message's calls stand right behind it, whatever
    came between."""
    chat = _Chat()
    for item in items:
        chat.take(item)
    return chat.messages()


class _Chat:
    def __init__(self) -> None:
        self._messages: list[dict[str, Any]] = []
        self._held: list[SightItem] = []
        """What came between calls and their outputs."""
        self._open: dict[str, str] = {}
        """Calls whose outputs have not come, and what each is called here."""
        self._names: set[str] = set()
        self._answered = False
        """Some of the outputs have come, others not."""
        self._begun = False
        self._thought: dict[str, Any] = {}

    def take(self, item: SightItem) -> None:
        """The next item."""
        if item.role == "tool" and item.call_id in self._open:
            name = self._open.pop(item.call_id)
            self._answered = bool(self._open)
            self._add("tool", content=item.text, tool_call_id=name)
            if not self._open:
                self._release()
        elif self._open and (self._answered or not _is_call(item)):
            self._held.append(item)
        else:
            self._put(item)

    def messages(self) -> list[dict[str, Any]]:
        """All of them. A call whose output never came has none here either."""
        self._open.clear()
        self._release()
        return self._messages

    def _release(self) -> None:
        held, self._held = self._held, []
        for item in held:
            self.take(item)

    def _put(self, item: SightItem) -> None:
        match item.role:
            case "developer" if not self._begun:
                self._messages.append({"role": "system", "content": item.text})
            case "developer":
                self._add("user", content=f"{NOTE}{item.text}{NOTE_END}")
            case "user":
                self._add("user", content=item.text)
            case "peer":
                self._peer(item)
            case "assistant":
                self._assistant(item)
            case "tool":  # the call that it belongs to is no longer seen
                self._add("user", content=f"{NOTE}{item.text}{NOTE_END}")

    def _add(self, role: str, **members: Any) -> None:
        self._begun = True
        self._messages.append({"role": role, **members})

    def _user_first(self) -> None:
        if not self._begun:
            self._add("user", content=OPENING)

    def _peer(self, item: SightItem) -> None:
        self._user_first()
        self._add("assistant", content=None, tool_calls=[_call(item.item_id, INCOMING, {})])
        self._add("tool", content=item.text, tool_call_id=item.item_id)

    def _assistant(self, item: SightItem) -> None:
        if item.type == "reasoning":
            self._thought = _thought(item)
            return
        self._user_first()
        if _is_call(item):
            call = _call(self._named(item.call_id or item.item_id), item.tool or "", item.arguments)
            said = self._messages[-1]
            if said["role"] == "assistant" and not self._thought:
                said.setdefault("tool_calls", []).append(call)
                return
            self._add("assistant", content=None, tool_calls=[call], **self._thought)
        else:
            self._add("assistant", content=item.text, **self._thought)
        self._thought = {}

    def _named(self, call_id: str) -> str:
        """What a call is called here: as its model has called it, if no other is called so."""
        name = unmarked(call_id)
        name = call_id if name in self._names else name
        self._names.add(name)
        self._open[call_id] = name
        return name


def _is_call(item: SightItem) -> bool:
    return item.role == "assistant" and item.tool is not None


def _call(call_id: str, name: str, arguments: Any) -> dict[str, Any]:
    text = msgspec.json.encode({} if arguments is None else arguments).decode()
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def _thought(item: SightItem) -> dict[str, Any]:
    """What was thought, as far as its provider wants it back."""
    return {"reasoning": {"content": item.text}, "extra_content": item.data} if item.data else {}


def texts_of(messages: Iterable[dict[str, Any]]) -> list[str]:
    """All texts that a chat shows."""
    return [each["content"] for each in messages if each.get("content")]
