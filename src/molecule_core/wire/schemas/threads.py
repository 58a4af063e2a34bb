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
    """The base instructions in force, without their text; `tokens` is an estimate."""

    version: int
    sha256: str
    provenance: Provenance
    item_id: str
    bytes: int
    tokens: int


class ThreadItem(Struct, frozen=True, kw_only=True):
    """A thread. Times are RFC 3339. `path`: root, root/task_a, root/task_a/sub. `turn_id`: of the turn that runs,
    `queued`: of those that wait. `owner`: the engine that holds it. `tree_tokens_used` is null in events."""

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
    """A layer of instructions that is in force."""

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
    """Threads, newest first. `reached_end`: there is none behind them."""

    threads: list[ThreadItem]
    reached_end: bool


class EntryPage(Struct, frozen=True):
    """Lines of a log, oldest first. `reached_end`: there was none behind them."""

    items: list[EntryItem]
    reached_end: bool


class ModelContextItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that the model will see. `item_id` is the same in every request. `origin`: where it comes from;
    `tokens` is an estimate. `call_id`: of a call of a tool (`tool`, `arguments`), or of its output."""

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
    """All that the model will see, in order, and about how many tokens it is. `stop`: why the turn is not to run."""

    items: list[ModelContextItem]
    tokens: int
    last_ordinal: int
    stop: str | None = None


class MailItem(Struct, frozen=True, kw_only=True):
    """A letter between agents with its receipt; its text stands in the receiver's log once it is delivered."""

    mail_id: str
    mail_type: MailType
    author_thread_id: str | None
    receiver_thread_id: str
    state: MailState
    sent_at: str


class CollabPage(Struct, frozen=True):
    """The last begins and ends of calls in all logs of a tree, and the last letters to its threads, oldest first."""

    calls: list[EntryItem]
    mail: list[MailItem]


# -- what clients ask --------------------------------------------------------------------------------------------------


class StartThreadBody(Struct, frozen=True, kw_only=True):
    """A new thread of a workspace. `base_instructions`: in place of the prompt that the agent has told; `input`: the
    first turn; `key`: the same again gets the same thread."""

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
    """Input for a thread. `mode`: steer joins the turn that runs (`expected_turn_id`: only that one), queue makes a
    turn of its own, auto does whatever fits."""

    input: str | list[TextInput]
    mode: Literal["auto", "queue", "steer"] = "auto"
    expected_turn_id: str | None = None
    key: str | None = None


class TurnResponse(Struct, frozen=True):
    """A turn will be run. `joined`: it was running, and the input went into it."""

    turn_id: str
    joined: bool


class ThreadOverrides(Struct, frozen=True, kw_only=True):
    """What is to be otherwise from now on. Each is kept as a new version, or refused; never accepted and ignored."""

    base_instructions: NonEmptyText | None = None
    developer: NonEmptyText | None = None
    context: NonEmptyText | None = None
    model: str | None = None
    effort: str | None = None
    tools: list[str] | None = None
    permissions: dict[str, Any] | None = None


class ForkThreadBody(ThreadOverrides, frozen=True, kw_only=True):
    """A thread that goes on from another one. `position`: the last ordinal that it sees; none: all of it."""

    position: Annotated[int, Meta(ge=1, le=1 << 53)] | None = None
    nickname: str = ""
    key: str | None = None


class InterruptThreadBody(Struct, frozen=True):
    """Stop what runs. `descendants`: what becomes of those below."""

    descendants: Literal["detach", "interrupt"] = "detach"


class CloseThreadBody(Struct, frozen=True):
    """Take nothing more. `descendants`: what becomes of those below."""

    descendants: DescendantsAction = "detach"


# -- what engines ask --------------------------------------------------------------------------------------------------


class ClaimThreadBody(Struct, frozen=True):
    """An engine wants to run a thread. `owner`: what it calls itself."""

    owner: NonEmptyText


class OpenTurn(Struct, frozen=True, kw_only=True):
    """A turn that has not ended. `status`: accepted, or running: another life has begun it."""

    turn_id: str
    trigger: TurnTrigger
    status: Literal["accepted", "running"]


class ThreadClaim(Struct, frozen=True):
    """The thread is the engine's, as long as it shows this generation before `until`; each of its calls renews that."""

    thread_id: str
    generation: int
    until: str
    open_turn: OpenTurn | None


class ReleaseThreadBody(Struct, frozen=True):
    """An engine lets a thread go."""

    generation: int


class BeginTurnBody(Struct, frozen=True):
    """An engine begins a turn."""

    generation: int


class AppendEntriesBody(Struct, frozen=True, kw_only=True):
    """What an engine adds to the log. None at all: it only renews its claim and asks for news. `seen`: up to where its
    model was shown the log (left out: all that is there now and in `news`); a wait ends at once if the user has said
    something behind that. `key`: the same again is added once."""

    generation: int
    turn_id: str
    entries: list[EngineEntry] = []
    key: str | None = None
    seen: Annotated[int, Meta(ge=0, le=1 << 53)] | None = None


class AppendEntriesResponse(Struct, frozen=True):
    """`news`: what others have added that the engine has not been told. `stop`: interrupted, closed or budget: nothing
    more is taken for this turn, but for costs and outputs of tools that were called where it is the budget."""

    last_ordinal: int
    news: list[EntryItem]
    stop: str | None


class EndTurnBody(Struct, frozen=True, kw_only=True):
    """A turn is over. `seen`: the last ordinal that the model was shown; input behind it gets a turn of its own."""

    generation: int
    status: TurnOutcome
    error: str | None = None
    final: str | None = None
    seen: Annotated[int, Meta(ge=0, le=1 << 53)] | None = None


class WorkItem(Struct, frozen=True):
    """A thread with something to do: a turn that was accepted, or one whose engine was not heard of any more."""

    thread_id: str
    path: str
    turn_id: str
    status: Literal["accepted", "running"]


class WorkList(Struct, frozen=True):
    """What engines of a workspace may claim, oldest first."""

    threads: list[WorkItem]


# -- collaboration -----------------------------------------------------------------------------------------------------


class AgentCallBody(Struct, frozen=True, kw_only=True):
    """A call of a collaboration tool. `call_id`: the same again gets the same end and does nothing; `generation`:
    only as long as the thread is the engine's. The tool says which of the other members count."""

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
    """How a call stands. `call.status` is inProgress for a wait that goes on: ask again with the same `call_id`.
    `after`: what a later wait may name, to hear no end twice. `undriven`: the paths of those that have something to do
    and whose workspace (`quiet`) no engine has asked for work lately: they do not move before one does."""

    call: CollabCallEntry
    after: dict[str, int] | None = None
    undriven: list[str] = []
    quiet: list[str] = []


class AgentList(Struct, frozen=True):
    """The agents of a tree whose paths begin so. `undriven`, `quiet`: as in an answer to a call."""

    agents: list[AgentState]
    undriven: list[str] = []
    quiet: list[str] = []


class ThreadTreeView(Struct, frozen=True):
    """All threads of a tree, oldest first, with what they use of its limits."""

    threads: list[ThreadItem]
    live: int
    lifetime: int
    tokens: int
