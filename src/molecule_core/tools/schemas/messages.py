"""Arguments and results of the message, inbox and memory tools. `tools/registry.py` specifies the tools.

Models read the descriptions of arguments: each says what to pass, and what happens if the argument is left out.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from molecule_core.wire.schemas.inbox import InboxMessage

MAX_INBOX_WAIT_SECONDS = 300
"""Maximum seconds of `wait_for_message`: hosts abort calls that run longer."""
MAX_PEEKED_MESSAGES = 100
MAX_HISTORY_MESSAGES = 500

_OPTIONAL_ID_PATTERN = r"^[A-Za-z0-9._:-]{0,128}$"

ActingWorkspaceArgument = Annotated[
    str,
    Meta(
        pattern=_OPTIONAL_ID_PATTERN,
        description="Acting workspace. Default: your only one.",
    ),
]
AttemptArgument = Annotated[
    int,
    Meta(
        ge=0,
        lt=1 << 31,
        description="`attempt` of the message. Default: the attempt of your claim.",
    ),
]

OptionalHandleArgument = Annotated[
    str,
    Meta(
        pattern=_OPTIONAL_ID_PATTERN,
        description="reply_handle from the instructions of the message that you answer, if it has one.",
    ),
]
ProgressArgument = Annotated[
    bool,
    Meta(
        description="True: only report that you are working on it. The message stays open, and you get more time to "
        "answer."
    ),
]
ApprovalIdArgument = Annotated[
    str,
    Meta(
        pattern=_OPTIONAL_ID_PATTERN,
        description="Approval id, to repeat a stopped call.",
    ),
]


class ToolArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all tool arguments."""


# -- a2a ---------------------------------------------------------------------------------------------------------------


class ReplyToWorkspaceArguments(ToolArguments, frozen=True):
    """Arguments of `reply_to_workspace`."""

    text: Annotated[str, Meta(min_length=1, description="Your message, as plain text or Markdown.")]
    workspace_id: Annotated[
        str,
        Meta(
            pattern=_OPTIONAL_ID_PATTERN,
            description="Id of the workspace to answer as: arrival_workspace_id of the message. Default: the "
            "workspace that received the message, or your only workspace.",
        ),
    ] = ""
    peer_id: Annotated[
        str,
        Meta(
            pattern=_OPTIONAL_ID_PATTERN,
            description="Id of the peer to answer: peer_id of the message. Default: the person on the canvas.",
        ),
    ] = ""
    activity_id: Annotated[
        str,
        Meta(
            pattern=_OPTIONAL_ID_PATTERN,
            description="Id of the message to answer. The answer acknowledges it, so that it is not delivered again.",
        ),
    ] = ""
    intent: Annotated[
        Literal["request", "inform", "ack"],
        Meta(
            description="To a peer: `inform` (default): you need no answer; `request`: you need an answer; `ack`: "
            "you only confirm that you read the message."
        ),
    ] = "inform"
    attempt: AttemptArgument = 0
    reply_handle: OptionalHandleArgument = ""
    progress: ProgressArgument = False
    approval_id: ApprovalIdArgument = ""


class ReplyToWorkspaceResult(Struct, frozen=True, kw_only=True):
    """Result of a reply.

    `peer_id` is empty if it went to the person; `answer`: the response of a peer that responds at once;
    `answers`: the message that it answers, if known; `acknowledged`: whether that message is done."""

    status: str
    workspace_id: str
    peer_id: str
    activity_id: str
    acknowledged: bool
    answers: str = ""
    answer: str = ""
    note: str = ""


class SendMessageToUserArguments(ToolArguments, frozen=True):
    """Arguments of `send_message_to_user`."""

    message: Annotated[str, Meta(min_length=1, description="Your message, as plain text or Markdown.")]
    attachments: Annotated[
        list[dict[str, Any]],
        Meta(max_length=10, description="Uploaded files, each {uri, name, mimeType?, size?}."),
    ] = []
    reply_handle: OptionalHandleArgument = ""
    progress: ProgressArgument = False
    workspace_id: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class SendMessageToUserResult(Struct, frozen=True, kw_only=True):
    """A message shown on the canvas. `answers`: the person's message that it answered, if any."""

    status: str
    workspace_id: str
    activity_id: str
    answers: str = ""


class ListPeersArguments(ToolArguments, frozen=True):
    """Arguments of `list_peers`."""

    q: Annotated[
        str, Meta(max_length=200, description="Only workspaces whose name or role contains this text. Default: all.")
    ] = ""
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class PeerInfo(Struct, frozen=True, kw_only=True):
    """A workspace that you may talk to."""

    id: str
    name: str
    role: str | None
    status: str
    parent_id: str | None
    active_tasks: int
    limited_until: str | None = None
    """It works again then: a limit of its vendor is reached."""
    agent_card: Any = None
    via_workspace: str = ""


class ListPeersResult(Struct, frozen=True, kw_only=True):
    """Siblings, then children, then the parent.

    With several workspaces, the peers of each, marked by `via_workspace`; `workspace_id` is empty then."""

    workspace_id: str
    peers: list[PeerInfo]
    note: str = ""


class WorkspaceInfoArguments(ToolArguments, frozen=True):
    """Arguments of `get_workspace_info`."""

    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class WorkspaceInfo(Struct, frozen=True, kw_only=True):
    """A workspace as the server knows it."""

    id: str
    name: str
    role: str | None
    status: str
    runtime: str
    parent_id: str | None
    delivery_mode: str
    tier: int
    active_tasks: int
    max_concurrent_tasks: int
    broadcast_enabled: bool
    talk_to_user_enabled: bool
    agent_card: Any = None


class NoArguments(ToolArguments, frozen=True):
    """Arguments of tools without arguments."""


class ConnectedWorkspace(Struct, frozen=True, kw_only=True):
    """A workspace that this agent is connected as."""

    workspace_id: str
    platform_url: str
    name: str = ""
    status: str = ""


class RuntimeIdentityResult(Struct, frozen=True, kw_only=True):
    """The workspaces that the agent is connected as."""

    runtime: str
    version: str
    workspaces: list[ConnectedWorkspace]


class UpdateAgentCardArguments(ToolArguments, frozen=True):
    """Arguments of `update_agent_card`."""

    card: Annotated[
        dict[str, Any],
        Meta(
            min_length=1,
            description="The complete new card: name, description, skills [{id?, name, description}], version. It "
            "replaces the old card.",
        ),
    ]
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class CardUpdateResult(Struct, frozen=True, kw_only=True):
    """The new agent card."""

    status: str
    workspace_id: str


class BroadcastMessageArguments(ToolArguments, frozen=True):
    """Arguments of `broadcast_message`."""

    message: Annotated[str, Meta(min_length=1, description="The message to all workspaces.")]
    workspace_id: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class BroadcastMessageResult(Struct, frozen=True, kw_only=True):
    """The number of workspaces that received the message. `skipped`: workspaces with a full inbox."""

    status: str
    workspace_id: str
    activity_id: str
    delivered: int
    skipped: list[str] = []


# -- inbox -------------------------------------------------------------------------------------------------------------


class WaitForMessageArguments(ToolArguments, frozen=True):
    """Arguments of `wait_for_message`."""

    timeout_secs: Annotated[
        float,
        Meta(ge=0, le=MAX_INBOX_WAIT_SECONDS, description=f"Seconds to wait, at most {MAX_INBOX_WAIT_SECONDS}."),
    ] = 60


class WaitForMessageResult(Struct, frozen=True, kw_only=True):
    """The next message, or none if the time is over. `waiting`: number of further messages known to wait."""

    message: InboxMessage | None
    waiting: int = 0
    note: str = ""


class InboxPeekArguments(ToolArguments, frozen=True):
    """Arguments of `inbox_peek`."""

    limit: Annotated[int, Meta(ge=1, le=MAX_PEEKED_MESSAGES, description="Maximum number of messages.")] = 10


class InboxPeekResult(Struct, frozen=True, kw_only=True):
    """Messages that wait for an answer or an acknowledgement, oldest first."""

    messages: list[InboxMessage]
    note: str = ""


class InboxPopArguments(ToolArguments, frozen=True):
    """Arguments of `inbox_pop`."""

    activity_id: Annotated[
        str, Meta(pattern=_OPTIONAL_ID_PATTERN, min_length=1, description="Id of the message to acknowledge.")
    ]
    attempt: AttemptArgument = 0
    workspace_id: ActingWorkspaceArgument = ""


class InboxPopResult(Struct, frozen=True, kw_only=True):
    """A message that is not delivered again."""

    activity_id: str
    workspace_id: str
    removed: bool
    note: str = ""


class ChatHistoryArguments(ToolArguments, frozen=True):
    """Arguments of `chat_history`."""

    peer_id: Annotated[
        str,
        Meta(
            pattern=_OPTIONAL_ID_PATTERN,
            description="Id of the peer. Default: the person.",
        ),
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_HISTORY_MESSAGES, description="Maximum number of messages.")] = 20
    before_ts: Annotated[
        str, Meta(max_length=64, description="Only messages before this time, for example 2026-11-21T22:41:07Z.")
    ] = ""
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class ChatHistoryEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message. `role`: `user` (a person), `peer` or `agent` (yourself)."""

    activity_id: str
    role: str
    text: str
    created_at: str
    name: str = ""
    attachments: list[dict[str, Any]] = []


class ChatHistoryResult(Struct, frozen=True, kw_only=True):
    """A conversation, oldest first. `reached_end`: there are no older messages."""

    workspace_id: str
    peer_id: str
    messages: list[ChatHistoryEntry]
    reached_end: bool


# -- memory ------------------------------------------------------------------------------------------------------------

NamespaceArgument = Annotated[
    str, Meta(max_length=50, description="A namespace of your choice, for example `customers`. Default: none.")
]


class CommitMemoryArguments(ToolArguments, frozen=True):
    """Arguments of `commit_memory`."""

    content: Annotated[str, Meta(min_length=1, description="The fact, understandable later without context.")]
    scope: Annotated[
        Literal["LOCAL", "TEAM", "GLOBAL"],
        Meta(
            description="LOCAL (default): only you; TEAM: your team too; GLOBAL: the whole organisation, only from a "
            "root workspace."
        ),
    ] = "LOCAL"
    namespace: NamespaceArgument = ""
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class CommitMemoryResult(Struct, frozen=True, kw_only=True):
    """A stored memory. `redacted`: number of credentials that were removed from it."""

    id: str
    workspace_id: str
    scope: str
    namespace: str | None = None
    redacted: int = 0


class RecallMemoryArguments(ToolArguments, frozen=True):
    """Arguments of `recall_memory`."""

    query: Annotated[str, Meta(max_length=1000, description="Words to search for. Default: the newest facts.")] = ""
    scope: Annotated[
        Literal["LOCAL", "TEAM", "GLOBAL"] | UnsetType,
        Meta(description="Only this scope. Default: all that you may read."),
    ] = UNSET
    namespace: Annotated[str, Meta(max_length=50, description="Only this namespace. Default: all.")] = ""
    limit: Annotated[int, Meta(ge=1, le=50, description="Maximum number of facts.")] = 10
    via_workspace: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class RecalledMemory(Struct, frozen=True, kw_only=True):
    """A stored memory, and the workspace that committed it."""

    id: str
    content: str
    scope: str
    namespace: str | None = None
    workspace_id: str = ""
    workspace_name: str | None = None
    created_at: str = ""


class RecallMemoryResult(Struct, frozen=True, kw_only=True):
    """The memories found, best match first."""

    workspace_id: str
    memories: list[RecalledMemory]
