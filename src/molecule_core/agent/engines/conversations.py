"""Assigns messages to threads. Pure, except for a small file.

The file stores which thread awaits which result, and which one works on which delegation.
There is one thread for the person, one per peer, one per task delegated to the agent, and one for system messages. The
result of a delegated task and the decision on an approval go to the thread that requested it.
"""

import os
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from molecule_core.wire.schemas.activity import MessageKind
from molecule_core.wire.schemas.inbox import InboxMessage

TASK_PREFIX = "task:"
"""Prefix of the name of a delegated task's conversation; the id of the delegation follows."""
_MAX_PENDING = 1000
_PENDING_ID_MEMBERS = {"delegate_task": "task_id", "delegate_task_async": "task_id", "request_approval": "approval_id"}
"""Tools whose result may arrive later as a message, and the member of their output that identifies it."""


def conversation_name(message: InboxMessage) -> str:
    """Return the name of the conversation of a message."""
    if message.kind == MessageKind.DELEGATION and message.delegation_id:
        return f"{TASK_PREFIX}{message.delegation_id}"
    if message.kind == MessageKind.SYSTEM:
        return f"{TASK_PREFIX}{message.delegation_id}" if message.delegation_id else "system"
    if message.peer_id:
        return f"peer:{message.peer_id}"
    return "person"


def awaited_id_of(message: InboxMessage) -> str:
    """Return the id of the request that a message is the result of; empty if no thread requested it."""
    if message.kind == MessageKind.DELEGATION_RESULT and message.delegation_id:
        return message.delegation_id
    if message.kind == MessageKind.APPROVAL_DECISION and message.approval_id:
        return message.approval_id
    return ""


def awaited_id_in(tool: str, result: Mapping[str, Any]) -> str:
    """Return the id of the result that a tool announces for later; empty if none."""
    name = result.get(_PENDING_ID_MEMBERS[tool]) if tool in _PENDING_ID_MEMBERS else None
    return name if isinstance(name, str) else ""


def is_settled(result: Mapping[str, Any]) -> bool:
    """Return whether the output of a tool is final."""
    return result.get("settled") is True


class _StoredConversations(Struct):
    """Content of the file.

    `errands`: threads by the id they await, oldest first. `rounds`: number of the current thread of each conversation.
    `tasks`: delegations by the thread that works on them, oldest first.
    """

    errands: dict[str, str] = field(default_factory=dict)
    rounds: dict[str, int] = field(default_factory=dict)
    tasks: dict[str, str] = field(default_factory=dict)


class Conversations:
    """Assignment of awaited results and conversations to threads.

    If the file is lost, late results open a thread of their own.
    """

    def __init__(self, folder: Path, workspace_id: str) -> None:
        self._path = folder / f".agent_threads_{workspace_id}"
        try:
            self._stored = msgspec.json.decode(self._path.read_bytes(), type=_StoredConversations)
        except (OSError, msgspec.DecodeError):
            self._stored = _StoredConversations()
        self._awaited = OrderedDict(self._stored.errands)

    def expect_result(self, awaited_id: str, thread_id: str) -> None:
        """Store that a result is to go to a thread. Raises OSError."""
        if self._awaited.get(awaited_id) == thread_id:
            return
        self._awaited[awaited_id] = thread_id
        while len(self._awaited) > _MAX_PENDING:
            self._awaited.popitem(last=False)
        self._save()

    def thread_for(self, awaited_id: str) -> str | None:
        """Return the thread that awaits a result."""
        return self._awaited.get(awaited_id)

    def assign_task(self, thread_id: str, conversation: str) -> None:
        """Store that a thread works on the delegation of a conversation, if it is that of one. Raises OSError."""
        if not conversation.startswith(TASK_PREFIX) or thread_id in self._stored.tasks:
            return
        tasks = self._stored.tasks
        tasks[thread_id] = conversation.removeprefix(TASK_PREFIX)
        while len(tasks) > _MAX_PENDING:
            del tasks[next(iter(tasks))]
        self._save()

    def task_of(self, thread_id: str) -> str:
        """Return the delegation that a thread works on; empty if it works on none."""
        return self._stored.tasks.get(thread_id, "")

    def thread_key(self, conversation: str) -> str:
        """Return the key of a conversation's thread; it changes when the conversation is restarted."""
        return f"{conversation}:{self._stored.rounds.get(conversation, 1)}"

    def start_next_round(self, conversation: str) -> None:
        """Restart a conversation in another thread, since its thread was closed. Raises OSError."""
        self._stored.rounds[conversation] = self._stored.rounds.get(conversation, 1) + 1
        self._save()

    def _save(self) -> None:
        self._stored.errands = dict(self._awaited)
        temporary = self._path.with_name(f"{self._path.name}.tmp")
        handle = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(self._stored))
        temporary.replace(self._path)
