"""Entries of a thread's log, as one tagged union. All other state of a thread is derived from its log."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

BaseOrigin = Literal["override", "stored", "prompt", "inherited", "role", "review"]
ThreadKind = Literal["root", "spawned", "review", "fork"]
WakePolicy = Literal["wake", "queue", "digest"]
TurnTrigger = Literal["user", "message", "mail", "wake", "review", "compact"]
TurnOutcome = Literal["completed", "failed", "interrupted"]
ThreadFlag = Literal["waiting_on_approval", "waiting_on_child_approval", "waiting_on_agents", "waiting_on_user_input"]
MailType = Literal["NEW_TASK", "MESSAGE", "FINAL_ANSWER"]
MailState = Literal["accepted", "delivered", "answered", "failed"]
DescendantsAction = Literal["detach", "interrupt", "close"]
AgentTool = Literal["spawn", "send", "followup", "wait", "interrupt", "close", "resume", "list"]
AgentStatus = Literal["pending_init", "running", "interrupted", "completed", "errored", "shutdown", "not_found"]
WaitOutcome = Literal["ended", "timed_out", "unknown", "interrupted", "source_lost"]

WholeCount = Annotated[int, Meta(ge=0, le=1 << 53)]
"""A count within the integers that JSON carries exactly."""


class Provenance(Struct, frozen=True, omit_defaults=True):
    """Origin of base instructions. `source`: as text; `from_thread`: the thread they were taken from."""

    type: BaseOrigin
    source: str
    from_thread: str | None = None


class BaseInstructionsRef(Struct, frozen=True, kw_only=True):
    """Reference to base instructions. `thread_id`: the thread that stores the text; for a fork, its source."""

    thread_id: str
    version: int
    sha256: str
    item_id: str
    provenance: Provenance
    bytes: int
    tokens: int


class LogPosition(Struct, frozen=True, omit_defaults=True):
    """The part of another thread's log that a fork sees: after `since`, up to `position`."""

    thread_id: str
    position: int
    since: int = 0


class Author(Struct, frozen=True):
    """The author of an entry, as proven by the credential. `kind`: person, workspace, thread or server."""

    kind: str
    id: str
    name: str


class TextInput(Struct, frozen=True, tag_field="type", tag="text", omit_defaults=True):
    """Text for a turn. `peer`: the agent whose message an engine passes on; then it is not input of the user."""

    text: str
    peer: str | None = None


# -- written only by the server ----------------------------------------------------------------------------------------


class ThreadCreatedEntry(Struct, frozen=True, kw_only=True, tag_field="type", tag="created"):
    """The thread was created. `base`: only for forks; `root_workspace_id`: if its tree begins in another workspace."""

    thread_id: str
    org_id: str
    workspace_id: str
    root_id: str
    parent_thread_id: str | None
    requester_thread_id: str | None
    forked_from: LogPosition | None
    path: str
    task_name: str
    nickname: str
    role: str | None
    kind: ThreadKind
    call_id: str | None
    wake: WakePolicy
    model: str | None
    effort: str | None
    tools: list[str] | None
    permissions: dict[str, Any] | None
    base: BaseInstructionsRef | None = None
    developer: int = 0
    context: int = 0
    root_workspace_id: str | None = None


class BaseInstructionsEntry(Struct, frozen=True, kw_only=True, tag_field="type", tag="base"):
    """A version of the base instructions is in force. `text` is stored once, apart from the log, and filled in on
    read."""

    version: int
    sha256: str
    provenance: Provenance
    item_id: str
    bytes: int
    tokens: int
    text: str = ""


class InstructionLayerEntry(Struct, frozen=True, tag_field="type", tag="layer"):
    """A new version of an instruction layer."""

    layer: Literal["developer", "context"]
    version: int
    text: str
    origin: str


class SettingsEntry(Struct, frozen=True, tag_field="type", tag="settings"):
    """The settings of the thread from now on."""

    model: str | None
    effort: str | None
    tools: list[str] | None
    permissions: dict[str, Any] | None


class TurnAcceptedEntry(Struct, frozen=True, kw_only=True, tag_field="type", tag="turn_accepted"):
    """A turn was accepted and will run even if processes die. `requester_thread_id`: receives its outcome as mail."""

    turn_id: str
    trigger: TurnTrigger
    input: list[TextInput]
    author: Author
    key: str | None = None
    requester_thread_id: str | None = None


class TurnStartedEntry(Struct, frozen=True, tag_field="type", tag="turn_started"):
    """An engine runs the turn. Repeated with a higher generation when another or a restarted engine continues it."""

    turn_id: str
    generation: int


class UserMessageEntry(Struct, frozen=True, tag_field="type", tag="user_message"):
    """A message of the user. `client_id`: the client's key of the input."""

    text: str
    author: Author
    client_id: str | UnsetType = UNSET


class PeerMessageEntry(Struct, frozen=True, kw_only=True, tag_field="type", tag="peer_message"):
    """A message of another agent. It is data, never input of the user. `author` and `recipient`: paths."""

    text: str
    author: str
    author_thread_id: str | None
    recipient: str
    mail_id: str
    mail_type: MailType


class AgentState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """State of an agent when a call ended. `outcome`: set by waits."""

    thread_id: str
    path: str
    nickname: str
    role: str | None
    status: AgentStatus
    message: str | None = None
    outcome: WaitOutcome | None = None


class CollabCallEntry(Struct, frozen=True, kw_only=True, tag_field="type", tag="collab"):
    """A call of a collaboration tool begins (`inProgress`) or ends.

    There are two entries with one `call_id`, also for a call that is rejected, fails or times out. Names and cases
    are those of the app-server's item. `unread`: for a wait whose end was not polled at its deadline: the agents'
    ends that it includes, by number. They count as undelivered until the wait is read."""

    call_id: str
    tool: AgentTool
    status: Literal["inProgress", "completed", "failed", "interrupted"]
    sender_thread_id: str
    receiver_thread_ids: list[str] = []
    new_thread_id: str | None = None
    prompt: str | None = None
    model: str | None = None
    effort: str | None = None
    agents: list[AgentState] = []
    descendants: DescendantsAction | None = None
    timed_out: bool = False
    reason: str | None = None
    deadline: int | None = None
    since: int = 0
    mode: Literal["any", "all"] | None = None
    clamped: str | None = None
    after: dict[str, int] | None = None
    unread: dict[str, int] | None = None


class TurnEndedEntry(Struct, frozen=True, tag_field="type", tag="turn_ended"):
    """A turn ended."""

    turn_id: str
    status: TurnOutcome
    error: str | None = None
    final: str | None = None


class ThreadClosedEntry(Struct, frozen=True, tag_field="type", tag="closed"):
    """The thread was closed to further input. `descendants`: the action taken on the threads below."""

    descendants: DescendantsAction
    by: Author


class ThreadResumedEntry(Struct, frozen=True, tag_field="type", tag="resumed"):
    """The thread was resumed."""

    by: Author


# -- written by engines ------------------------------------------------------------------------------------------------


class AgentMessageEntry(Struct, frozen=True, tag_field="type", tag="agent_message"):
    """A message of the model."""

    text: str


class ReasoningEntry(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="reasoning"):
    """Reasoning of the model. `data`: in the form that its provider expects back."""

    text: str = ""
    data: Any = None


class ToolCallEntry(Struct, frozen=True, tag_field="type", tag="tool_call"):
    """A tool call of the model."""

    call_id: str
    tool: str
    arguments: Any


class ToolOutputEntry(Struct, frozen=True, tag_field="type", tag="tool_output"):
    """The result of a tool call."""

    call_id: str
    text: str
    is_error: bool = False


class ContextNoteEntry(Struct, frozen=True, tag_field="type", tag="context_note"):
    """A note that is added once to the model's context: `peers changed: …`."""

    text: str
    origin: str


class CompactionEntry(Struct, frozen=True, tag_field="type", tag="compaction"):
    """A summary by the model. It replaces all entries up to an ordinal in the model's context, except the input of its
    own turn."""

    summary: str
    upto: WholeCount
    kind: Literal["manual", "automatic"]


class UsageEntry(Struct, frozen=True, tag_field="type", tag="usage"):
    """Token usage of a model request. Equal `record_key`s count once. `cached`: of the input, from a cache."""

    record_key: str
    input: WholeCount
    output: WholeCount
    cached: WholeCount = 0
    model: str | None = None


class StatusEntry(Struct, frozen=True, tag_field="type", tag="status"):
    """What the thread is waiting for. Empty flags: nothing."""

    flags: list[Literal["waiting_on_approval", "waiting_on_user_input"]]


EngineEntry = (
    AgentMessageEntry
    | ReasoningEntry
    | ToolCallEntry
    | ToolOutputEntry
    | ContextNoteEntry
    | CompactionEntry
    | UsageEntry
    | StatusEntry
)
ThreadEntry = (
    ThreadCreatedEntry
    | BaseInstructionsEntry
    | InstructionLayerEntry
    | SettingsEntry
    | TurnAcceptedEntry
    | TurnStartedEntry
    | UserMessageEntry
    | PeerMessageEntry
    | CollabCallEntry
    | TurnEndedEntry
    | ThreadClosedEntry
    | ThreadResumedEntry
    | EngineEntry
)
_decoder: msgspec.json.Decoder[ThreadEntry] = msgspec.json.Decoder(ThreadEntry)


def decode_entry(body: str) -> ThreadEntry:
    """Decode a stored entry."""
    return _decoder.decode(body)


def entry_type(entry: ThreadEntry) -> str:
    """Return the tag of an entry."""
    return str(type(entry).__struct_config__.tag)


class EntryItem(Struct, frozen=True, kw_only=True):
    """An entry of a log as clients read it. `at` is RFC 3339."""

    ordinal: int
    item_id: str
    turn_id: str | None
    at: str
    type: str
    entry: Raw


# -- events ------------------------------------------------------------------------------------------------------------


class ThreadStatus(Struct, frozen=True):
    """Status of a thread. `message`: its last answer if `completed`, the reason if `errored`."""

    type: AgentStatus
    message: str | None = None


class ThreadStatusChangedPayload(Struct, frozen=True):
    """The status of a thread changed."""

    thread_id: str
    root_id: str
    status: ThreadStatus
    active_flags: list[ThreadFlag]
    revision: int


class ThreadItemPayload(Struct, frozen=True):
    """A new entry of a thread's log. `entry` is null if it is large: GET /threads/{id}/items returns it."""

    thread_id: str
    root_id: str
    ordinal: int
    type: str
    turn_id: str | None
    entry: Any


class TurnStartedPayload(Struct, frozen=True):
    """An engine runs a turn of a thread."""

    thread_id: str
    root_id: str
    turn_id: str
    generation: int


class TurnCompletedPayload(Struct, frozen=True):
    """A turn ended: completed, failed or interrupted."""

    thread_id: str
    root_id: str
    turn_id: str
    status: TurnOutcome
    error: str | None
    final: str | None


class ThreadClosedPayload(Struct, frozen=True):
    """A thread was closed to further input."""

    thread_id: str
    root_id: str
    descendants: DescendantsAction


class ThreadMailPayload(Struct, frozen=True):
    """The state of a mail between threads changed. `state`: accepted, delivered (in a request), answered or failed."""

    mail_id: str
    mail_type: MailType
    author_thread_id: str | None
    receiver_thread_id: str
    root_id: str
    state: MailState
