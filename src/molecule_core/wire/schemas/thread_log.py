"""The log of a thread: all that can stand in it, in one tagged union. The log is the truth, all else is made of it.

Above: the slice of threads, its edge, engines. Below: nothing.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

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
"""A number of things, as far as JSON carries it exactly."""


class Provenance(Struct, frozen=True, omit_defaults=True):
    """Where base instructions come from. `source`: in words; `from_thread`: whose they were."""

    type: BaseOrigin
    source: str
    from_thread: str | None = None


class BaseInstructionsRef(Struct, frozen=True, kw_only=True):
    """Base instructions without their text. `thread_id`: the thread that keeps it; a fork's are its source's."""

    thread_id: str
    version: int
    sha256: str
    item_id: str
    provenance: Provenance
    bytes: int
    tokens: int


class LogPosition(Struct, frozen=True, omit_defaults=True):
    """What a fork sees of another thread: its log from behind `since` up to `position`."""

    thread_id: str
    position: int
    since: int = 0


class Author(Struct, frozen=True):
    """Who wrote something, as the credential proves it. `kind`: person, workspace, thread or server."""

    kind: str
    id: str
    name: str


class TextInput(Struct, frozen=True, tag_field="type", tag="text", omit_defaults=True):
    """Text for a turn. `peer`: the agent whose words an engine passes on, which are then not the user's."""

    text: str
    peer: str | None = None


# -- what only the server writes ---------------------------------------------------------------------------------------


class ThreadCreatedEntry(Struct, frozen=True, kw_only=True, tag_field="type", tag="created"):
    """The thread is there. `base`: of a fork alone; `root_workspace_id`: if its tree begins in another workspace."""

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
    """Base instructions of a version are in force. `text` is kept once, apart, and shown here."""

    version: int
    sha256: str
    provenance: Provenance
    item_id: str
    bytes: int
    tokens: int
    text: str = ""


class InstructionLayerEntry(Struct, frozen=True, tag_field="type", tag="layer"):
    """A layer of instructions has a new version."""

    layer: Literal["developer", "context"]
    version: int
    text: str
    origin: str


class SettingsEntry(Struct, frozen=True, tag_field="type", tag="settings"):
    """What the thread works with from now on."""

    model: str | None
    effort: str | None
    tools: list[str] | None
    permissions: dict[str, Any] | None


class TurnAcceptedEntry(Struct, frozen=True, kw_only=True, tag_field="type", tag="turn_accepted"):
    """A turn will be run, whatever dies meanwhile. `requester_thread_id`: who gets its end as mail."""

    turn_id: str
    trigger: TurnTrigger
    input: list[TextInput]
    author: Author
    key: str | None = None
    requester_thread_id: str | None = None


class TurnStartedEntry(Struct, frozen=True, tag_field="type", tag="turn_started"):
    """An engine runs the turn. Once more with a higher generation: another engine, or another life of it, goes on."""

    turn_id: str
    generation: int


class UserMessageEntry(Struct, frozen=True, tag_field="type", tag="user_message"):
    """What the user says."""

    text: str
    author: Author


class PeerMessageEntry(Struct, frozen=True, kw_only=True, tag_field="type", tag="peer_message"):
    """What another agent says: data, never the user's word. `author` and `recipient`: paths."""

    text: str
    author: str
    author_thread_id: str | None
    recipient: str
    mail_id: str
    mail_type: MailType


class AgentState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How an agent stood when a call ended. `outcome`: of a wait."""

    thread_id: str
    path: str
    nickname: str
    role: str | None
    status: AgentStatus
    message: str | None = None
    outcome: WaitOutcome | None = None


class CollabCallEntry(Struct, frozen=True, kw_only=True, tag_field="type", tag="collab"):
    """A call of a collaboration tool begins (`inProgress`) or ends: two entries with one `call_id`, also for a call
    that is refused, fails or times out. Names and cases are those of the app-server's item. `unread`: of a wait whose
    end nobody asked for at its deadline, the ends of agents that it tells, by number: not told before it is read."""

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
    """A turn is over."""

    turn_id: str
    status: TurnOutcome
    error: str | None = None
    final: str | None = None


class ThreadClosedEntry(Struct, frozen=True, tag_field="type", tag="closed"):
    """The thread takes nothing more. `descendants`: what became of those below it."""

    descendants: DescendantsAction
    by: Author


class ThreadResumedEntry(Struct, frozen=True, tag_field="type", tag="resumed"):
    """Somebody takes the thread up again."""

    by: Author


# -- what an engine writes ---------------------------------------------------------------------------------------------


class AgentMessageEntry(Struct, frozen=True, tag_field="type", tag="agent_message"):
    """What the model says."""

    text: str


class ReasoningEntry(Struct, frozen=True, omit_defaults=True, tag_field="type", tag="reasoning"):
    """What the model thinks. `data`: as its provider wants it back."""

    text: str = ""
    data: Any = None


class ToolCallEntry(Struct, frozen=True, tag_field="type", tag="tool_call"):
    """The model calls a tool."""

    call_id: str
    tool: str
    arguments: Any


class ToolOutputEntry(Struct, frozen=True, tag_field="type", tag="tool_output"):
    """What came of the call."""

    call_id: str
    text: str
    is_error: bool = False


class ContextNoteEntry(Struct, frozen=True, tag_field="type", tag="context_note"):
    """Something the model is told once: `peers changed: …`."""

    text: str
    origin: str


class CompactionEntry(Struct, frozen=True, tag_field="type", tag="compaction"):
    """The model sees the summary in place of all up to an ordinal."""

    summary: str
    upto: WholeCount
    kind: Literal["manual", "automatic"]


class UsageEntry(Struct, frozen=True, tag_field="type", tag="usage"):
    """Tokens that a request has cost. The same `record_key` counts once."""

    record_key: str
    input: WholeCount
    output: WholeCount


class StatusEntry(Struct, frozen=True, tag_field="type", tag="status"):
    """What the thread waits for now; none of it if the list is empty."""

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
    """An entry as it is kept."""
    return _decoder.decode(body)


def entry_type(entry: ThreadEntry) -> str:
    """Its tag."""
    return str(type(entry).__struct_config__.tag)


class EntryItem(Struct, frozen=True, kw_only=True):
    """A line of a log as clients read it. `at` is RFC 3339."""

    ordinal: int
    item_id: str
    turn_id: str | None
    at: str
    type: str
    entry: Raw


# -- events ------------------------------------------------------------------------------------------------------------


class ThreadStatus(Struct, frozen=True):
    """How a thread stands. `message`: its last answer if `completed`, the reason if `errored`."""

    type: AgentStatus
    message: str | None = None


class ThreadStatusChangedPayload(Struct, frozen=True):
    """A thread stands otherwise."""

    thread_id: str
    root_id: str
    status: ThreadStatus
    active_flags: list[ThreadFlag]
    revision: int


class ThreadItemPayload(Struct, frozen=True):
    """A line of a thread's log. `entry` is null if it is large: GET /threads/{id}/items has it."""

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
    """A turn is over: completed, failed or interrupted."""

    thread_id: str
    root_id: str
    turn_id: str
    status: TurnOutcome
    error: str | None
    final: str | None


class ThreadClosedPayload(Struct, frozen=True):
    """A thread takes nothing more."""

    thread_id: str
    root_id: str
    descendants: DescendantsAction


class ThreadMailPayload(Struct, frozen=True):
    """A receipt. `state`: accepted, delivered (in a request), answered or failed."""

    mail_id: str
    mail_type: MailType
    author_thread_id: str | None
    receiver_thread_id: str
    root_id: str
    state: MailState
