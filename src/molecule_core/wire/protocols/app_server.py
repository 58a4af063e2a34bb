"""Messages of the app-server protocol on `GET /threads/ws`: threads, turns, items, requests. Member names are
camelCase, as in the protocol.
"""

from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType

from molecule_core.wire.schemas.thread_log import Author, MailType, Provenance


class _CamelCaseStruct(Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of structs with camelCase members."""


class _ItemBase(_CamelCaseStruct, frozen=True, kw_only=True, tag_field="type"):
    """Base of turn items. `id` is the same when the item starts and when it completes."""

    id: str


# -- threads -----------------------------------------------------------------------------------------------------------


class AppThreadStatus(_CamelCaseStruct, frozen=True):
    """Status of a thread. `notLoaded`: closed; `systemError`: its last turn failed."""

    type: Literal["notLoaded", "idle", "systemError", "active"]
    active_flags: list[str] | UnsetType = UNSET


class AppBaseInstructions(_CamelCaseStruct, frozen=True):
    """Base instructions in force, without their text."""

    version: int
    sha256: str
    item_id: str
    provenance: Provenance


class AppTurn(_CamelCaseStruct, frozen=True):
    """A turn. `final`: its last answer; `items` are sent as notifications and are set only in thread/read."""

    id: str | None
    status: Literal["inProgress", "completed", "failed", "interrupted"]
    items: list[Any] = []
    error: dict[str, Any] | None = None
    final: str | None = None


class AppThread(_CamelCaseStruct, frozen=True):
    """A thread in full. Times are Unix seconds. `agentPath`: root, root/task_a; `callId`: the call that spawned it.

    The members after `callId` are required by the schema of Codex. The agent's own folder is not known here: `cwd` is
    the root."""

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
    session_id: str
    name: str
    preview: str
    model_provider: str
    cwd: str
    cli_version: str
    source: str
    ephemeral: bool
    project_id: str | None
    created_at: int
    updated_at: int
    turns: list[AppTurn] = []


class AccountResponse(_CamelCaseStruct, frozen=True):
    """Response to `account/read`: this server has no accounts of model vendors, and needs none."""

    account: None = None
    requires_openai_auth: bool = False


# -- items -------------------------------------------------------------------------------------------------------------


class UserTextPart(Struct, frozen=True, tag_field="type", tag="text"):
    """Text of a user."""

    text: str


class ToolOutputText(Struct, frozen=True, tag_field="type", tag="inputText"):
    """Text that a tool returned."""

    text: str


class UserItem(_ItemBase, frozen=True, tag="userMessage"):
    """A message of the user. `clientId`: the `clientUserMessageId` of the input, null without one."""

    content: list[UserTextPart]
    author: Author
    client_id: str | None


class PeerItem(_ItemBase, frozen=True, tag="peerMessage"):
    """A message of another agent. It is data, never input of the user."""

    text: str
    author: str
    author_thread_id: str | None
    recipient: str
    message_type: MailType
    mail_id: str


class AgentItem(_ItemBase, frozen=True, tag="agentMessage"):
    """A message of the model."""

    text: str


class ReasoningItem(_ItemBase, frozen=True, tag="reasoning"):
    """Reasoning of the model."""

    summary: list[str]
    content: list[str] = []


class ContextNoteItem(_ItemBase, frozen=True, tag="contextNote"):
    """A note that is added once to the model's context."""

    text: str
    origin: str


class CompactionItem(_ItemBase, frozen=True, tag="contextCompaction"):
    """A summary that replaces all entries up to an ordinal in the model's context."""

    summary: str
    upto: int
    kind: Literal["manual", "automatic"]


class ToolCallItem(_ItemBase, frozen=True, tag="dynamicToolCall"):
    """A tool call of the model, with its result."""

    tool: str
    arguments: Any
    status: Literal["inProgress", "completed", "failed"]
    content_items: list[ToolOutputText] | None = None
    success: bool | None = None
    started_at_ms: int | None = None
    completed_at_ms: int | None = None


class CollabAgentState(_CamelCaseStruct, frozen=True):
    """State of an agent when a call ended."""

    status: Literal["pendingInit", "running", "interrupted", "completed", "errored", "shutdown", "notFound"]
    message: str | None


class CollabAgentRef(_CamelCaseStruct, frozen=True):
    """An agent that a call refers to. `outcome`: set by waits."""

    thread_id: str
    agent_path: str
    agent_nickname: str
    agent_role: str | None
    outcome: str | None = None


class CollabCallItem(_ItemBase, frozen=True, tag="collabAgentToolCall"):
    """A call of a collaboration tool.

    For a completed wait, `receiverThreadIds` and `agentsStates` hold the agents that have ended. Members beyond the
    protocol: `receiverAgents` holds all agents, `timedOut` and `reason` say how the wait ended."""

    tool: Literal[
        "spawnAgent", "sendMessage", "followupTask", "wait", "interruptAgent", "closeAgent", "resumeAgent", "listAgents"
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


# -- frames ------------------------------------------------------------------------------------------------------------


class AppServerResponse(Struct, frozen=True):
    """The response to a request."""

    id: int | str | None
    result: Any


class AppServerErrorBody(Struct, frozen=True):
    """An error. `message` says what to do; `data`: the error body of the REST API."""

    code: int
    message: str
    data: Any = None


class AppServerErrorResponse(Struct, frozen=True):
    """The response to a rejected request. `id` is null if it could not be read."""

    id: int | str | None
    error: AppServerErrorBody


class AppServerRequest(Struct, frozen=True):
    """A request from the server to its client."""

    id: str
    method: str
    params: Any


class ApprovalParams(_CamelCaseStruct, frozen=True):
    """An approval request of a workspace in a followed tree. Answer with `{decision: accept | decline, note?}`.

    `threadId`: the thread that waits for the decision, if known; `rootThreadIds`: the followed trees that it belongs
    to."""

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
    """A notification. `params.cursor`: pass it to `initialize` to resume after this notification."""

    method: str
    params: dict[str, Any]


# -- client requests ---------------------------------------------------------------------------------------------------


class _ParamsBase(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of method parameters. Null members count as absent; unknown members are rejected rather than ignored."""


class InitializeParams(Struct, frozen=True, kw_only=True, rename="camel"):
    """Introduction of the client. `cursor`: of the last notification it received; `threads`: whose trees it follows."""

    client_info: dict[str, Any] = {}
    capabilities: dict[str, Any] = {}
    cursor: str | None = None
    threads: list[str] = []


class AccountReadParams(Struct, frozen=True, kw_only=True, rename="camel"):
    """The account to read. All members are ignored."""


class ThreadParams(_ParamsBase, frozen=True):
    """A thread."""

    thread_id: str


class _ThreadSetupParams(_ParamsBase, frozen=True):
    """Settings of a thread."""

    base_instructions: str | None = None
    developer_instructions: str | None = None
    context: str | None = None
    model: str | None = None
    effort: str | None = None
    tools: list[str] | None = None
    permissions: dict[str, Any] | None = None


class ThreadStartParams(_ThreadSetupParams, frozen=True):
    """A new thread. A person must name the workspace that owns it."""

    workspace_id: str | None = None
    nickname: str | None = None
    role: str | None = None
    key: str | None = None


class ThreadResumeParams(_ThreadSetupParams, frozen=True, kw_only=True):
    """A thread to resume, and the settings to change."""

    thread_id: str


class ThreadForkParams(_ThreadSetupParams, frozen=True, kw_only=True):
    """A thread to fork. `position`: the last ordinal of its log that the fork sees."""

    thread_id: str
    position: int | None = None
    nickname: str | None = None
    key: str | None = None


class ThreadListParams(_ParamsBase, frozen=True):
    """A query for threads of a workspace. `cursor`: `nextCursor` of the previous page."""

    workspace_id: str | None = None
    cursor: str | None = None
    limit: int | None = None
    state: str | None = None
    parent_thread_id: str | None = None
    ancestor_thread_id: str | None = None


class ThreadReadParams(_ParamsBase, frozen=True):
    """A thread to read. With `includeTurns`: one page of turns after the ordinal `after` of its log."""

    thread_id: str
    include_turns: bool = False
    after: int | None = None
    limit: int | None = None


class TurnStartParams(_ParamsBase, frozen=True):
    """Input for a thread. `clientUserMessageId`: idempotency key of the input."""

    thread_id: str
    input: str | list[Any]
    client_user_message_id: str | None = None


class TurnSteerParams(_ParamsBase, frozen=True):
    """Input for the running turn."""

    thread_id: str
    expected_turn_id: str
    input: str | list[Any]
    client_user_message_id: str | None = None


class TurnInterruptParams(_ParamsBase, frozen=True):
    """The turn to interrupt. `descendants`: the action for the threads below."""

    thread_id: str
    turn_id: str
    descendants: str | None = None


class ThreadCloseParams(_ParamsBase, frozen=True):
    """The thread to close. `descendants`: the action for the threads below."""

    thread_id: str
    descendants: str | None = None
