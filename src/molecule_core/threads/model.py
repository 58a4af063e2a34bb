"""Threads: how one stands, its turns, its mail."""

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
"""The kind of the timer that ends a wait which nobody asks for any more; its key is `organisation/thread/call`."""
ROOT_PATH = "root"
"""The path of the thread that a tree begins with."""
SERVER_AUTHOR = Author("server", "server", "Molecule")
FINAL_STATUSES: frozenset[AgentStatus] = frozenset(("interrupted", "completed", "errored", "shutdown", "not_found"))
"""The statuses in which nobody waits for a thread any more."""


class Thread(Struct, frozen=True, kw_only=True):
    """One row, in the order of its columns. All up to `updated_at` is the fold of the log; the rest is who may write
    to it. Times in microseconds. store/schema.sql says what the columns mean."""

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
        """A row as the queries select it."""
        return cls(**dict(zip(cls.__struct_fields__, row, strict=True)))

    @property
    def depth(self) -> int:
        """How far below the root it stands."""
        return self.path.count("/")

    @property
    def queued_turn_ids(self) -> list[str]:
        """The turns that wait, in order."""
        return msgspec.json.decode(self.queue, type=list[str])

    @property
    def wait_call_ids(self) -> list[str]:
        """The calls in which it waits for other agents."""
        return msgspec.json.decode(self.waits, type=list[str])

    @property
    def active_flags(self) -> list[ThreadFlag]:
        """What it waits for, as its log says."""
        found = cast("list[ThreadFlag]", msgspec.json.decode(self.flags, type=list[str]))
        return [*found, "waiting_on_agents"] if self.wait_call_ids else found

    @property
    def agent_status(self) -> AgentStatus:
        """Its status."""
        return cast("AgentStatus", self.status)

    @property
    def fork_position(self) -> LogPosition | None:
        """What it sees of another thread."""
        return None if self.fork_id is None else LogPosition(self.fork_id, self.fork_at, self.fork_since)

    @property
    def base_ref(self) -> BaseInstructionsRef:
        """The base instructions in force."""
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
        """The tools that it may use; None: all that its engine has."""
        return msgspec.json.decode(self.tools, type=list[str] | None)

    @property
    def permission_map(self) -> dict[str, Any] | None:
        """Its permissions."""
        return msgspec.json.decode(self.permissions, type=dict[str, Any] | None)

    @property
    def wake_policy(self) -> WakePolicy:
        """What its end does to who asked for it."""
        return cast("WakePolicy", self.wake)

    @property
    def thread_kind(self) -> ThreadKind:
        """What kind of thread it is."""
        return cast("ThreadKind", self.kind)


UNFOLDED_COLUMNS = ("generation", "owner", "owner_until", "seen", "revision")
"""The columns that are not made of the log: who may write to it, and how often its row has changed."""


class ThreadTurn(Struct, frozen=True, kw_only=True):
    """A turn, in the order of its columns. `input`: JSON."""

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
        """A row as the queries select it."""
        return cls(**dict(zip(cls.__struct_fields__, row, strict=True)))

    @property
    def input_texts(self) -> list[TextInput]:
        """What it was given."""
        return msgspec.json.decode(self.input, type=list[TextInput])

    @property
    def input_author(self) -> Author:
        """Who gave it."""
        return msgspec.json.decode(self.author, type=Author)

    @property
    def trigger(self) -> TurnTrigger:
        """Why it was accepted."""
        return cast("TurnTrigger", self.cause)


class Mail(Struct, frozen=True, kw_only=True):
    """A letter between agents, in the order of its columns. `wakes` 1: it begins a turn of an idle receiver."""

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
        """A row as the queries select it."""
        return cls(**dict(zip(cls.__struct_fields__, row, strict=True)))

    @property
    def mail_type(self) -> MailType:
        """What kind of letter it is."""
        return cast("MailType", self.type)


class LogEntryRow(NamedTuple):
    """A line of a log, in the order of the columns."""

    thread_id: str
    ordinal: int
    turn_id: str | None
    type: str
    body: str
    at: int

    @property
    def item_id(self) -> str:
        """What it is called: the same in every request."""
        return f"{self.thread_id}.{self.ordinal}"


class ThreadSettings(Struct, frozen=True, kw_only=True):
    """What a thread works with, where it is to be otherwise; None: as it is."""

    base: str | None = None
    developer: str | None = None
    context: str | None = None
    model: str | None = None
    effort: str | None = None
    tools: list[str] | None = None
    permissions: dict[str, Any] | None = None


def thread_wake_key(thread_id: str) -> str:
    """The wake-up key of who waits for something in a thread."""
    return f"thread:{thread_id}"


def wait_timer_key(thread: Thread, call_id: str) -> str:
    """The key of the timer of a wait."""
    return f"{thread.org_id}/{thread.thread_id}/{call_id}"


def work_wake_key(workspace_id: str) -> str:
    """The wake-up key of the engines of a workspace."""
    return f"thread-work:{workspace_id}"
