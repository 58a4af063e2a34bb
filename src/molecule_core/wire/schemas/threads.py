"""Threads as clients and engines read and write them over REST."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from molecule_core.wire.schemas.thread_log import (
    AgentState,
    CollabCallEntry,
    DescendantsAction,
    EngineEntry,
    EntryItem,
    LogPosition,
    MailState,
    MailType,
    Provenance,
    TextInput,
    ThreadFlag,
    ThreadKind,
    ThreadStatus,
    TurnOutcome,
    TurnTrigger,
    WakePolicy,
)

NonEmptyText = Annotated[str, Meta(min_length=1)]


class BaseInstructionsItem(Struct, frozen=True):
    """The base instructions in force, without their text. `tokens` is an estimate."""

    version: int
    sha256: str
    provenance: Provenance
    item_id: str
    bytes: int
    tokens: int


class ThreadItem(Struct, frozen=True, kw_only=True):
    """A thread. Times are RFC 3339.

    `path`: root, root/task_a, root/task_a/sub. `turn_id`: the running turn; `queued`: the waiting ones. `owner`: the
    engine that holds the claim. `tree_tokens_used` is null in events."""

    thread_id: str
    workspace_id: str
    org_id: str
    root_id: str
    parent_thread_id: str | None
    requester_thread_id: str | None
    forked_from: LogPosition | None
    path: str
    task_name: str
    nickname: str
    role: str | None
    kind: ThreadKind
    model: str | None
    effort: str | None
    tools: list[str] | None
    permissions: dict[str, Any] | None
    status: ThreadStatus
    active_flags: list[ThreadFlag]
    idle: bool
    closed: bool
    turn_id: str | None
    queued: list[str]
    turns: int
    generation: int
    owner: str | None
    owner_until: str | None
    base: BaseInstructionsItem
    tokens_used: int
    tree_tokens_used: int | None
    last_ordinal: int
    created_at: str
    updated_at: str
    call_id: str | None
    wake: WakePolicy
    revision: int


class InstructionLayerItem(Struct, frozen=True):
    """An instruction layer in force."""

    layer: str
    version: int
    origin: str
    tokens: int
    text: str


class ThreadView(ThreadItem, frozen=True, kw_only=True):
    """A thread with its instructions."""

    base_instructions: str
    layers: list[InstructionLayerItem]


class ThreadPage(Struct, frozen=True):
    """A page of threads, newest first. `reached_end`: there are no more."""

    threads: list[ThreadItem]
    reached_end: bool


class EntryPage(Struct, frozen=True):
    """A page of log entries, oldest first. `reached_end`: there were no more."""

    items: list[EntryItem]
    reached_end: bool


class ModelContextItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item of the model's context.

    `item_id` is stable over requests. `origin`: where it comes from; `tokens` is an estimate. `call_id`: of a tool
    call (`tool`, `arguments`) or of its output."""

    item_id: str
    role: Literal["developer", "user", "assistant", "tool", "peer"]
    type: str
    text: str
    origin: str
    tokens: int
    version: int | None = None
    ordinal: int = 0
    turn_id: str | None = None
    call_id: str | None = None
    tool: str | None = None
    arguments: Any = None
    is_error: bool = False
    author: str | None = None
    data: Any = None


class ModelContext(Struct, frozen=True):
    """The model's context in order, with its estimated tokens. `stop`: why the turn must not run."""

    items: list[ModelContextItem]
    tokens: int
    last_ordinal: int
    stop: str | None = None


class MailItem(Struct, frozen=True, kw_only=True):
    """A mail between threads. Its text is in the receiver's log once it is delivered."""

    mail_id: str
    mail_type: MailType
    author_thread_id: str | None
    receiver_thread_id: str
    state: MailState
    sent_at: str


class CollabPage(Struct, frozen=True):
    """The last call entries in all logs of a tree, and the last mails to its threads, oldest first."""

    calls: list[EntryItem]
    mail: list[MailItem]


# -- client requests ---------------------------------------------------------------------------------------------------


class StartThreadBody(Struct, frozen=True, kw_only=True):
    """A new thread of a workspace.

    `base_instructions`: replaces the prompt that the agent reported; `input`: starts the first turn; `key`:
    idempotency key."""

    base_instructions: NonEmptyText | None = None
    developer: NonEmptyText | None = None
    context: NonEmptyText | None = None
    model: str | None = None
    effort: str | None = None
    nickname: str = ""
    role: str | None = None
    tools: list[str] | None = None
    permissions: dict[str, Any] | None = None
    input: str | list[TextInput] | None = None
    key: str | None = None


class StartTurnBody(Struct, frozen=True, kw_only=True):
    """Input for a thread.

    `mode`: steer adds to the running turn (`expected_turn_id`: only to that one), queue adds a turn, auto chooses."""

    input: str | list[TextInput]
    mode: Literal["auto", "queue", "steer"] = "auto"
    expected_turn_id: str | None = None
    key: str | None = None


class TurnResponse(Struct, frozen=True):
    """The turn that takes the input. `joined`: it was already running.

    `status`: in_progress, or how the turn of a repeated input ended: completed, failed or interrupted."""

    turn_id: str
    joined: bool
    status: str = "in_progress"


class ThreadOverrides(Struct, frozen=True, kw_only=True):
    """Settings to change from now on. Each is stored as a new version or rejected, never accepted and ignored."""

    base_instructions: NonEmptyText | None = None
    developer: NonEmptyText | None = None
    context: NonEmptyText | None = None
    model: str | None = None
    effort: str | None = None
    tools: list[str] | None = None
    permissions: dict[str, Any] | None = None


class ForkThreadBody(ThreadOverrides, frozen=True, kw_only=True):
    """A fork of a thread. `position`: the last ordinal that the fork sees; null: the whole log."""

    position: Annotated[int, Meta(ge=1, le=1 << 53)] | None = None
    nickname: str = ""
    key: str | None = None


class InterruptThreadBody(Struct, frozen=True):
    """Interruption of the running turn. `descendants`: the action for the threads below."""

    descendants: Literal["detach", "interrupt"] = "detach"


class CloseThreadBody(Struct, frozen=True):
    """Closing of a thread. `descendants`: the action for the threads below."""

    descendants: DescendantsAction = "detach"


# -- engine requests ---------------------------------------------------------------------------------------------------


class ClaimThreadBody(Struct, frozen=True):
    """Claim of a thread by an engine. `owner`: the name of the engine."""

    owner: NonEmptyText


class OpenTurn(Struct, frozen=True, kw_only=True):
    """A turn that has not ended. `status`: accepted, or running: started under an earlier claim.

    `key`: the idempotency key of its input, if it has one."""

    turn_id: str
    trigger: TurnTrigger
    status: Literal["accepted", "running"]
    key: str | None = None


class ThreadClaim(Struct, frozen=True):
    """A claim of a thread, valid for this generation until `until`. Each call of the engine renews it."""

    thread_id: str
    generation: int
    until: str
    open_turn: OpenTurn | None


class ReleaseThreadBody(Struct, frozen=True):
    """Release of a claim."""

    generation: int


class BeginTurnBody(Struct, frozen=True):
    """Start of a turn."""

    generation: int


class AppendEntriesBody(Struct, frozen=True, kw_only=True):
    """Entries to append to the log. Without entries, the call renews the claim and reads `news`.

    `seen`: last ordinal that the model was shown (omitted: everything up to now, including `news`); a wait ends at
    once if the user wrote something after it. `key`: idempotency key."""

    generation: int
    turn_id: str
    entries: list[EngineEntry] = []
    key: str | None = None
    seen: Annotated[int, Meta(ge=0, le=1 << 53)] | None = None


class AppendEntriesResponse(Struct, frozen=True):
    """The result of appending entries.

    `news`: entries by others that the engine has not received. `stop`: interrupted, closed or budget: no more
    entries of this turn are accepted, except, for budget, usage and outputs of tools that were already called."""

    last_ordinal: int
    news: list[EntryItem]
    stop: str | None


class EndTurnBody(Struct, frozen=True, kw_only=True):
    """The end of a turn. `seen`: last ordinal that the model was shown; later input gets its own turn."""

    generation: int
    status: TurnOutcome
    error: str | None = None
    final: str | None = None
    seen: Annotated[int, Meta(ge=0, le=1 << 53)] | None = None


class WorkItem(Struct, frozen=True):
    """A thread with work: an accepted turn, or a running one whose engine stopped renewing its claim."""

    thread_id: str
    path: str
    turn_id: str
    status: Literal["accepted", "running"]


class WorkList(Struct, frozen=True):
    """Threads that engines of a workspace may claim, oldest first."""

    threads: list[WorkItem]


# -- collaboration -----------------------------------------------------------------------------------------------------


class AgentCallBody(Struct, frozen=True, kw_only=True):
    """A call of a collaboration tool.

    `call_id`: idempotency key; a repetition gets the same result. `generation`: rejects the call if the engine's
    claim is lost. Which other members apply depends on the tool."""

    call_id: NonEmptyText
    generation: int | None = None
    target: str | None = None
    targets: list[str] | None = None
    message: str | None = None
    task_name: str | None = None
    nickname: str = ""
    role: str | None = None
    kind: Literal["spawned", "review"] = "spawned"
    base_instructions: NonEmptyText | None = None
    model: str | None = None
    effort: str | None = None
    fork_turns: Literal["none", "all"] | Annotated[int, Meta(ge=1, le=1 << 53)] = "none"
    workspace_id: str | None = None
    wake: WakePolicy = "wake"
    mode: Literal["any", "all"] = "any"
    after: dict[str, int] | None = None
    timeout: float | None = None
    descendants: DescendantsAction = "detach"


class AgentCallResponse(Struct, frozen=True, kw_only=True):
    """State of a call. While a wait has the status inProgress, call again with the same `call_id`.

    `after`: pass it to a later wait, so that no end is reported twice. `undriven`: paths of agents with work whose
    workspace (`quiet`) has had no engine lately; they make no progress until one runs."""

    call: CollabCallEntry
    after: dict[str, int] | None = None
    undriven: list[str] = []
    quiet: list[str] = []


class AgentList(Struct, frozen=True):
    """The agents of a tree under a path prefix. `undriven`, `quiet`: as in AgentCallResponse."""

    agents: list[AgentState]
    undriven: list[str] = []
    quiet: list[str] = []


class ThreadTreeView(Struct, frozen=True):
    """All threads of a tree, oldest first, with its usage of the tree limits."""

    threads: list[ThreadItem]
    live: int
    lifetime: int
    tokens: int
