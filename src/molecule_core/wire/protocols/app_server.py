"""The dialect of app-servers, as clients of `GET /threads/ws` read and write it: threads, turns, items, requests.

Above: its edge. Below: nothing. Names are in camelCase, since the dialect's are.
"""

from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from molecule_core.wire.schemas.thread_log import Author, MailType, Provenance


class _CamelCaseStruct(Struct, frozen=True, kw_only=True, rename="camel"):
    """A value of the dialect."""


class _ItemBase(_CamelCaseStruct, frozen=True, kw_only=True, tag_field="type"):
    """Something that happened in a turn. `id` is the same when it starts and when it ends."""

    id: str


# -- threads -----------------------------------------------------------------------------------------------------------


class AppThreadStatus(_CamelCaseStruct, frozen=True):
    """How a thread stands. `notLoaded`: it is closed; `systemError`: its last turn failed."""

    type: Literal["notLoaded", "idle", "systemError", "active"]
    active_flags: list[str] | UnsetType = UNSET


class AppBaseInstructions(_CamelCaseStruct, frozen=True):
    """The base instructions in force, without their text."""

    version: int
    sha256: str
    item_id: str
    provenance: Provenance


class AppTurn(_CamelCaseStruct, frozen=True):
    """A turn. `final`: its last answer; `items` are told one by one, and are in it only in thread/read."""

    id: str | None
    status: Literal["inProgress", "completed", "failed", "interrupted"]
    items: list[Any] = []
    error: dict[str, Any] | None = None
    final: str | None = None


class AppThread(_CamelCaseStruct, frozen=True):
    """A thread in full. Times are seconds since 1970. `agentPath`: root, root/task_a; `callId`: of the call that
    made it."""

    id: str
    root_thread_id: str
    parent_thread_id: str | None
    requester_thread_id: str | None
    forked_from_id: str | None
    workspace_id: str
    agent_path: str
    task_name: str
    agent_nickname: str
    agent_role: str | None
    kind: str
    model: str | None
    reasoning_effort: str | None
    status: AppThreadStatus
    turn_id: str | None
    queued_turn_ids: list[str]
    base: AppBaseInstructions
    call_id: str | None
    created_at: int
    updated_at: int
    turns: list[AppTurn] = []


# -- items -------------------------------------------------------------------------------------------------------------


class UserTextPart(Struct, frozen=True, tag_field="type", tag="text"):
    """Text of a user."""

    text: str


class ToolOutputText(Struct, frozen=True, tag_field="type", tag="inputText"):
    """Text of a tool."""

    text: str


class UserItem(_ItemBase, frozen=True, tag="userMessage"):
    """What the user says."""

    content: list[UserTextPart]
    author: Author


class PeerItem(_ItemBase, frozen=True, tag="peerMessage"):
    """What another agent says: data, never the user's word."""

    text: str
    author: str
    author_thread_id: str | None
    recipient: str
    message_type: MailType
    mail_id: str


class AgentItem(_ItemBase, frozen=True, tag="agentMessage"):
    """What the model says."""

    text: str


class ReasoningItem(_ItemBase, frozen=True, tag="reasoning"):
    """What the model thinks."""

    summary: list[str]
    content: list[str] = []


class ContextNoteItem(_ItemBase, frozen=True, tag="contextNote"):
    """Something the model is told once."""

    text: str
    origin: str


class CompactionItem(_ItemBase, frozen=True, tag="contextCompaction"):
    """The model sees a summary in place of all up to an ordinal."""

    summary: str
    upto: int
    kind: Literal["manual", "automatic"]


class ToolCallItem(_ItemBase, frozen=True, tag="dynamicToolCall"):
    """The model calls a tool, and what came of it."""

    tool: str
    arguments: Any
    status: Literal["inProgress", "completed", "failed"]
    content_items: list[ToolOutputText] | None = None
    success: bool | None = None
    started_at_ms: int | None = None
    completed_at_ms: int | None = None


class CollabAgentState(_CamelCaseStruct, frozen=True):
    """How an agent stood when a call ended."""

    status: Literal["pendingInit", "running", "interrupted", "completed", "errored", "shutdown", "notFound"]
    message: str | None


class CollabAgentRef(_CamelCaseStruct, frozen=True):
    """An agent that a call was about. `outcome`: of a wait."""

    thread_id: str
    agent_path: str
    agent_nickname: str
    agent_role: str | None
    outcome: str | None = None


class CollabCallItem(_ItemBase, frozen=True, tag="collabAgentToolCall"):
    """A call of a collaboration tool. Of a wait that has ended, `receiverThreadIds` and `agentsStates` name those that
    have ended. Beyond the dialect: `receiverAgents` names all of them, `timedOut` and `reason` say how it ended."""

    tool: Literal[
        "spawnAgent",
        "sendMessage",
        "followupTask",
        "wait",
        "interruptAgent",
        "closeAgent",
        "resumeAgent",
        "listAgents",
    ]
    status: Literal["inProgress", "completed", "failed", "interrupted"]
    sender_thread_id: str
    receiver_thread_ids: list[str]
    prompt: str | None
    model: str | None
    reasoning_effort: str | None
    agents_states: dict[str, CollabAgentState]
    started_at_ms: int | None
    completed_at_ms: int | None
    receiver_agents: list[CollabAgentRef] | UnsetType = UNSET
    timed_out: bool | UnsetType = UNSET
    reason: str | UnsetType | None = UNSET


# -- what goes over the line -------------------------------------------------------------------------------------------


class AppServerResponse(Struct, frozen=True):
    """The answer to a request."""

    id: int | str | None
    result: Any


class AppServerErrorBody(Struct, frozen=True):
    """Why not. `message` says what to do; `data`: the refusal as REST gives it."""

    code: int
    message: str
    data: Any = None


class AppServerErrorResponse(Struct, frozen=True):
    """A request that was refused. `id` is null if it could not be read."""

    id: int | str | None
    error: AppServerErrorBody


class AppServerRequest(Struct, frozen=True):
    """What the server asks its client."""

    id: str
    method: str
    params: Any


class ApprovalParams(_CamelCaseStruct, frozen=True):
    """Leave that a workspace of a followed tree asks a person for. Answer with `{decision: accept | decline, note?}`;
    `threadId`: the thread that waits for it, if it says so; `rootThreadIds`: the followed trees that it stands in."""

    thread_id: str | None
    root_thread_ids: list[str]
    workspace_id: str
    requester_name: str
    approval_id: str
    action: str
    reason: str
    details: Raw
    cost: float | None
    risk: list[str]
    revision: int
    expires_at: str
    available_decisions: list[str]


class AppServerNotification(Struct, frozen=True):
    """What happened. `params.cursor`: with it, `initialize` goes on behind this."""

    method: str
    params: dict[str, Any]


# -- what clients ask --------------------------------------------------------------------------------------------------


class _ParamsBase(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a method takes. A member that is null is as if it were not there; one that is not known is refused, since
    nothing is accepted and then ignored."""


class InitializeParams(Struct, frozen=True, kw_only=True, rename="camel"):
    """Who the client is. `cursor`: of the last notification it has heard; `threads`: whose trees it follows."""

    client_info: dict[str, Any] = {}
    capabilities: dict[str, Any] = {}
    cursor: str | None = None
    threads: list[str] = []


class ThreadParams(_ParamsBase, frozen=True):
    """A thread."""

    thread_id: str


class _ThreadSetupParams(_ParamsBase, frozen=True):
    """What a thread works with."""

    base_instructions: str | None = None
    developer_instructions: str | None = None
    context: str | None = None
    model: str | None = None
    effort: str | None = None
    tools: list[str] | None = None
    permissions: dict[str, Any] | None = None


class ThreadStartParams(_ThreadSetupParams, frozen=True):
    """A new thread; a person names the workspace whose it is."""

    workspace_id: str | None = None
    nickname: str | None = None
    role: str | None = None
    key: str | None = None


class ThreadResumeParams(_ThreadSetupParams, frozen=True, kw_only=True):
    """A thread to take up again, and what is to be otherwise."""

    thread_id: str


class ThreadForkParams(_ThreadSetupParams, frozen=True, kw_only=True):
    """A thread to go on from. `position`: the last ordinal of its log that the new one sees."""

    thread_id: str
    position: int | None = None
    nickname: str | None = None
    key: str | None = None


class ThreadListParams(_ParamsBase, frozen=True):
    """Threads of a workspace. `cursor`: `nextCursor` of the page before."""

    workspace_id: str | None = None
    cursor: str | None = None
    limit: int | None = None
    state: str | None = None
    parent_thread_id: str | None = None
    ancestor_thread_id: str | None = None


class ThreadReadParams(_ParamsBase, frozen=True):
    """A thread; with `includeTurns`, what happened behind the ordinal `after` of its log, one page of it."""

    thread_id: str
    include_turns: bool = False
    after: int | None = None
    limit: int | None = None


class TurnStartParams(_ParamsBase, frozen=True):
    """Input. `clientUserMessageId`: the same again is taken once."""

    thread_id: str
    input: str | list[Any]
    client_user_message_id: str | None = None


class TurnSteerParams(_ParamsBase, frozen=True):
    """Input for the turn that runs."""

    thread_id: str
    expected_turn_id: str
    input: str | list[Any]
    client_user_message_id: str | None = None


class TurnInterruptParams(_ParamsBase, frozen=True):
    """The turn to stop."""

    thread_id: str
    turn_id: str
    descendants: str | None = None


class ThreadCloseParams(_ParamsBase, frozen=True):
    """The thread to close, and what becomes of those below it."""

    thread_id: str
    descendants: str | None = None
