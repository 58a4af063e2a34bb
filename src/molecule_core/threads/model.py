"""Threads: rows of threads, turns, mail and logs."""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct

from molecule_core.wire.schemas.thread_log import (
    AgentStatus,
    Author,
    BaseInstructionsRef,
    LogPosition,
    MailType,
    Provenance,
    TextInput,
    ThreadFlag,
    ThreadKind,
    TurnTrigger,
    WakePolicy,
)

THREAD = "thread"
WAIT_TIMER = "thread_wait"
"""The kind of the timer that ends a wait at its deadline; its key is `organisation/thread/call`."""
ROOT_PATH = "root"
"""The path of the root thread of a tree."""
TASK_MAIL_KEY, CALL_MAIL_KEY, FINAL_MAIL_KEY = "task:", "call:", "final:"
"""Prefixes of keys of mail: before the spawning call, before a thread and its call, before the turn that ended."""
SERVER_AUTHOR = Author("server", "server", "Molecule")


class Thread(Struct, frozen=True, kw_only=True):
    """A row of `threads`, in column order.

    All up to `updated_at` is the fold of the log; the other columns are the engine's lease. Times are in microseconds.
    store/schema.sql documents the columns."""

    thread_id: str
    org_id: str
    workspace_id: str
    root_id: str
    root_workspace_id: str
    parent_id: str | None
    requester_id: str | None
    fork_id: str | None
    fork_at: int
    fork_since: int
    path: str
    task_name: str
    nickname: str
    role: str | None
    kind: str
    call_id: str | None
    wake: str
    model: str | None
    effort: str | None
    tools: str
    permissions: str
    base_thread: str
    base_version: int
    base_sha: str
    base_item: str
    base_from: str
    base_bytes: int
    base_tokens: int
    developer: int
    context: int
    status: str
    message: str | None
    ends: int
    end_status: str | None
    end_message: str | None
    turn_id: str | None
    queue: str
    open: int
    turns: int
    closed: int
    flags: str
    waits: str
    heard: int
    tokens: int
    turn_tokens: int
    last_ordinal: int
    created_at: int
    updated_at: int
    generation: int = 0
    owner: str | None = None
    owner_until: int = 0
    seen: int = 0
    revision: int = 0

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Thread":
        """Build a thread from a row as the queries select it."""
        return cls(**dict(zip(cls.__struct_fields__, row, strict=True)))

    @property
    def depth(self) -> int:
        """Return how many levels below the root the thread is."""
        return self.path.count("/")

    @property
    def queued_turn_ids(self) -> list[str]:
        """Return the ids of queued turns, in order."""
        return msgspec.json.decode(self.queue, type=list[str])

    @property
    def wait_call_ids(self) -> list[str]:
        """Return the ids of the calls that wait for other agents."""
        return msgspec.json.decode(self.waits, type=list[str])

    @property
    def active_flags(self) -> list[ThreadFlag]:
        """Return what the thread is waiting for, by its own log."""
        found = cast("list[ThreadFlag]", msgspec.json.decode(self.flags, type=list[str]))
        return [*found, "waiting_on_agents"] if self.wait_call_ids else found

    @property
    def agent_status(self) -> AgentStatus:
        """Return the status as an `AgentStatus`."""
        return cast("AgentStatus", self.status)

    @property
    def fork_position(self) -> LogPosition | None:
        """Return which part of another thread's log it sees."""
        return None if self.fork_id is None else LogPosition(self.fork_id, self.fork_at, self.fork_since)

    @property
    def base_ref(self) -> BaseInstructionsRef:
        """Return the active base instructions."""
        return BaseInstructionsRef(
            thread_id=self.base_thread,
            version=self.base_version,
            sha256=self.base_sha,
            item_id=self.base_item,
            provenance=msgspec.json.decode(self.base_from, type=Provenance),
            bytes=self.base_bytes,
            tokens=self.base_tokens,
        )

    @property
    def tool_names(self) -> list[str] | None:
        """Return the tools that the thread may use; None: all of its engine."""
        return msgspec.json.decode(self.tools, type=list[str] | None)

    @property
    def permission_map(self) -> dict[str, Any] | None:
        """Return the permissions."""
        return msgspec.json.decode(self.permissions, type=dict[str, Any] | None)

    @property
    def wake_policy(self) -> WakePolicy:
        """Return whether and when the thread's end wakes its requester."""
        return cast("WakePolicy", self.wake)

    @property
    def thread_kind(self) -> ThreadKind:
        """Return the kind as a `ThreadKind`."""
        return cast("ThreadKind", self.kind)


UNFOLDED_COLUMNS = ("generation", "owner", "owner_until", "seen", "revision")
"""Columns that are not folded from the log: the engine's lease, and the number of changes of the row."""


class ThreadTurn(Struct, frozen=True, kw_only=True):
    """A row of `thread_turns`, in column order. `input`: JSON."""

    turn_id: str
    thread_id: str
    status: str
    cause: str
    input: str
    author: str
    key: str | None
    requester_id: str | None
    accepted_at: int
    ended_at: int | None

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "ThreadTurn":
        """Build a turn from a row as the queries select it."""
        return cls(**dict(zip(cls.__struct_fields__, row, strict=True)))

    @property
    def input_texts(self) -> list[TextInput]:
        """Return the input of the turn."""
        return msgspec.json.decode(self.input, type=list[TextInput])

    @property
    def input_author(self) -> Author:
        """Return the author of the input."""
        return msgspec.json.decode(self.author, type=Author)

    @property
    def trigger(self) -> TurnTrigger:
        """Return why the turn was accepted."""
        return cast("TurnTrigger", self.cause)


class Mail(Struct, frozen=True, kw_only=True):
    """Mail between agents, in column order. `wakes` 1: it begins a turn of an idle receiver."""

    mail_id: str
    receiver_id: str
    author_id: str | None
    author: str
    seq: int
    type: str
    wakes: int
    text: str
    key: str
    state: str
    turn_id: str | None
    sent_at: int

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Mail":
        """Build mail from a row as the queries select it."""
        return cls(**dict(zip(cls.__struct_fields__, row, strict=True)))

    @property
    def mail_type(self) -> MailType:
        """Return the type as a `MailType`."""
        return cast("MailType", self.type)


class TracedTurn(Struct, frozen=True, kw_only=True):
    """A turn with the tokens that it used and its calls of tools, by name.

    `key`: under which it was accepted. `parent_turn_id`: of the turn that caused it by mail between agents of a tree.
    Times in microseconds; `ended_at` None: it runs."""

    workspace_id: str
    root_id: str
    path: str
    thread_id: str
    turn_id: str
    key: str | None
    parent_turn_id: str | None = None
    accepted_at: int
    ended_at: int | None
    tokens: dict[str, float]
    tools: dict[str, int]

    @classmethod
    def from_row(cls, row: Sequence[Any], parent_turn_id: str | None = None) -> "TracedTurn":
        """Build a turn, without what it used, from a row as the queries select it."""
        workspace_id, root_id, path, thread_id, turn_id, key, accepted_at, ended_at = row
        return cls(
            workspace_id=workspace_id,
            root_id=root_id,
            path=path,
            thread_id=thread_id,
            turn_id=turn_id,
            key=key,
            parent_turn_id=parent_turn_id,
            accepted_at=accepted_at,
            ended_at=ended_at,
            tokens={},
            tools={},
        )


class LogEntryRow(NamedTuple):
    """An entry of a log, in column order."""

    thread_id: str
    ordinal: int
    turn_id: str | None
    type: str
    body: str
    at: int

    @property
    def item_id(self) -> str:
        """Return the item id, which is the same in every request to a model."""
        return f"{self.thread_id}.{self.ordinal}"


class ThreadSettings(Struct, frozen=True, kw_only=True):
    """Settings to override; None: unchanged."""

    base: str | None = None
    developer: str | None = None
    context: str | None = None
    model: str | None = None
    effort: str | None = None
    tools: list[str] | None = None
    permissions: dict[str, Any] | None = None


def thread_wake_key(thread_id: str) -> str:
    """Return the wake-up key for changes of a thread."""
    return f"thread:{thread_id}"


def wait_timer_key(thread: Thread, call_id: str) -> str:
    """Return the key of a wait's timer."""
    return f"{thread.org_id}/{thread.thread_id}/{call_id}"


def work_wake_key(workspace_id: str) -> str:
    """Return the wake-up key for the engines of a workspace."""
    return f"thread-work:{workspace_id}"
