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

from molecule_core.wire.schemas.inbox import APPROVAL_KINDS, InboxMessage

_MAX_PENDING = 1000
_PENDING_ID_MEMBERS = {"delegate_task": "task_id", "delegate_task_async": "task_id", "request_approval": "approval_id"}
"""Tools whose outcome may come later as a message, and the member of their result that names it."""
_, DECISION_KIND = APPROVAL_KINDS
"""The kind of the message that brings a decision."""
SYSTEM_KIND = "system"
"""The kind of what the platform tells by itself: no person has said it, and it ends no wait for others."""


def conversation_name(message: InboxMessage) -> str:
    """The name of the conversation that a message is part of."""
    if message.kind == "delegation" and message.delegation_id:
        return f"task:{message.delegation_id}"
    if message.kind == SYSTEM_KIND:
        return f"task:{message.delegation_id}" if message.delegation_id else SYSTEM_KIND
    if message.peer_id:
        return f"peer:{message.peer_id}"
    return "person"


def awaited_id_of(message: InboxMessage) -> str:
    """What a message is the outcome of; empty if of nothing that a thread has asked for."""
    if message.kind == "delegation_result" and message.delegation_id:
        return message.delegation_id
    if message.kind == DECISION_KIND and message.approval_id:
        return message.approval_id
    return ""


def awaited_id_in(tool: str, result: Mapping[str, Any]) -> str:
    """What the result of a tool says that will be told later; empty if nothing."""
    name = result.get(_PENDING_ID_MEMBERS[tool]) if tool in _PENDING_ID_MEMBERS else None
    return name if isinstance(name, str) else ""


def is_settled(result: Mapping[str, Any]) -> bool:
    """Whether the result of a tool says that nothing more will be told."""
    return result.get("settled") is True


class _StoredConversations(Struct):
    """What stands in the file: threads by what they wait for, oldest first; how often a conversation began anew."""

    errands: dict[str, str] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)


class Conversations:
    """Remembers. A file that is lost costs only that late results open a thread of their own."""

    def __init__(self, folder: Path, workspace_id: str) -> None:
        self._path = folder / f".agent_threads_{workspace_id}"
        try:
            self._stored = msgspec.json.decode(self._path.read_bytes(), type=_StoredConversations)
        except (OSError, msgspec.DecodeError):
            self._stored = _StoredConversations()
        self._awaited = OrderedDict(self._stored.errands)

    def expect_result(self, awaited_id: str, thread_id: str) -> None:
        """The outcome of something is to go to a thread. Raises OSError."""
        if self._awaited.get(awaited_id) == thread_id:
            return
        self._awaited[awaited_id] = thread_id
        while len(self._awaited) > _MAX_PENDING:
            self._awaited.popitem(last=False)
        self._save()

    def thread_for(self, awaited_id: str) -> str | None:
        """The thread that waits for the outcome of something."""
        return self._awaited.get(awaited_id)

    def thread_key(self, conversation: str) -> str:
        """Under which key the thread of a conversation is started: the same until it begins anew."""
        return f"{conversation}:{self._stored.rounds.get(conversation, 1)}"

    def start_next_round(self, conversation: str) -> None:
        """The thread of a conversation was closed: the next one is another. Raises OSError."""
        self._stored.rounds[conversation] = self._stored.rounds.get(conversation, 1) + 1
        self._save()

    def _save(self) -> None:
        self._stored.errands = dict(self._awaited)
        temporary = self._path.with_name(f"{self._path.name}.tmp")
        handle = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(self._stored))
        temporary.replace(self._path)
