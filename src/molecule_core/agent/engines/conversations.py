"""Which thread a message belongs to. Pure, but for the small file that remembers what answers are expected where.

A person's words and each peer's have a thread of their own, and so has each task that is delegated to the agent, and
what the platform tells by itself. The
result of a task that it has given, and the decision on what it has asked leave for, go to the thread that asked.
Above: mailing. Below: the disk.
"""

import os
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from molecule_core.wire.inbox import APPROVALS, InboxMessage

_MOST_ERRANDS = 1000
_GIVES = {"delegate_task": "task_id", "delegate_task_async": "task_id", "request_approval": "approval_id"}
"""Tools whose outcome may come later as a message, and the member of their result that names it."""
_, DECIDED = APPROVALS
"""The kind of the message that brings a decision."""
SYSTEM = "system"
"""The kind of what the platform tells by itself: no person has said it, and it ends no wait for others."""


def conversation_of(message: InboxMessage) -> str:
    """The name of the conversation that a message is part of."""
    if message.kind == "delegation" and message.delegation_id:
        return f"task:{message.delegation_id}"
    if message.kind == SYSTEM:
        return f"task:{message.delegation_id}" if message.delegation_id else SYSTEM
    if message.peer_id:
        return f"peer:{message.peer_id}"
    return "person"


def errand_of(message: InboxMessage) -> str:
    """What a message is the outcome of; empty if of nothing that a thread has asked for."""
    if message.kind == "delegation_result" and message.delegation_id:
        return message.delegation_id
    if message.kind == DECIDED and message.approval_id:
        return message.approval_id
    return ""


def errand_in(tool: str, told: Mapping[str, Any]) -> str:
    """What the result of a tool says that will be told later; empty if nothing."""
    name = told.get(_GIVES[tool]) if tool in _GIVES else None
    return name if isinstance(name, str) else ""


def is_settled(told: Mapping[str, Any]) -> bool:
    """Whether the result of a tool says that nothing more will be told."""
    return told.get("settled") is True


class _Kept(Struct):
    """What stands in the file: threads by what they wait for, oldest first; how often a conversation began anew."""

    errands: dict[str, str] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)


class Conversations:
    """Remembers. A file that is lost costs only that late results open a thread of their own."""

    def __init__(self, folder: Path, workspace_id: str) -> None:
        self._path = folder / f".agent_threads_{workspace_id}"
        try:
            self._kept = msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        except (OSError, msgspec.DecodeError):
            self._kept = _Kept()
        self._errands = OrderedDict(self._kept.errands)

    def expects(self, errand: str, thread_id: str) -> None:
        """The outcome of something is to go to a thread. Raises OSError."""
        if self._errands.get(errand) == thread_id:
            return
        self._errands[errand] = thread_id
        while len(self._errands) > _MOST_ERRANDS:
            self._errands.popitem(last=False)
        self._save()

    def thread_for(self, errand: str) -> str | None:
        """The thread that waits for the outcome of something."""
        return self._errands.get(errand)

    def key_of(self, conversation: str) -> str:
        """Under which key the thread of a conversation is started: the same until it begins anew."""
        return f"{conversation}:{self._kept.rounds.get(conversation, 1)}"

    def anew(self, conversation: str) -> None:
        """The thread of a conversation was closed: the next one is another. Raises OSError."""
        self._kept.rounds[conversation] = self._kept.rounds.get(conversation, 1) + 1
        self._save()

    def _save(self) -> None:
        self._kept.errands = dict(self._errands)
        fresh = self._path.with_name(f"{self._path.name}.tmp")
        handle = os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(self._kept))
        fresh.replace(self._path)
