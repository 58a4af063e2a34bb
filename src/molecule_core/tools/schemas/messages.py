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
        description="The workspace you act as (its id), if you have several; left out: your only one.",
    ),
]
AttemptArgument = Annotated[
    int,
    Meta(
        ge=0,
        lt=1 << 31,
        description="The `attempt` that came with the message; left out: the one under which you hold it.",
    ),
]

OptionalHandleArgument = Annotated[
    str,
    Meta(
        pattern=_OPTIONAL_ID_PATTERN,
        description="The reply_handle in the instructions of the message that this answers, if it has one.",
    ),
]
ProgressArgument = Annotated[
    bool,
    Meta(
        description="True: you only say that you are at it. The message stays open, and you have more time to answer "
        "it."
    ),
]
ApprovalIdArgument = Annotated[
    str,
    Meta(
        pattern=_OPTIONAL_ID_PATTERN,
        description="Only if a rule has stopped this very call and it is approved now: the id of that approval.",
    ),
]


class ToolArguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all tool arguments."""


# -- a2a ---------------------------------------------------------------------------------------------------------------


class ReplyToWorkspaceArguments(ToolArguments, frozen=True):
    """Arguments of `reply_to_workspace`."""

    text: Annotated[str, Meta(min_length=1, description="What you say, as plain text or Markdown.")]
    workspace_id: Annotated[
        str,
        Meta(
            pattern=_OPTIONAL_ID_PATTERN,
            description="The workspace you answer as: the message's arrival_workspace_id. Left out: the workspace that "
            "the message came to, or your only one.",
        ),
    ] = ""
    peer_id: Annotated[
        str,
        Meta(
            pattern=_OPTIONAL_ID_PATTERN,
            description="The peer you answer: the message's peer_id. Empty or left out: the person on the canvas.",
        ),
    ] = ""
    activity_id: Annotated[
        str,
        Meta(
            pattern=_OPTIONAL_ID_PATTERN,
            description="The message you answer. It is acknowledged with the answer, so that it does not come again.",
        ),
    ] = ""
    intent: Annotated[
        Literal["request", "inform", "ack"],
        Meta(
            description="To a peer: `inform` if you want no answer (what an answer is, if left out), `request` if you "
            "need one, `ack` if you only say that you have read it."
        ),
    ] = "inform"
    attempt: AttemptArgument = 0
    reply_handle: OptionalHandleArgument = ""
    progress: ProgressArgument = False
    approval_id: ApprovalIdArgument = ""


class ReplyToWorkspaceResult(Struct, frozen=True, kw_only=True):
    """Result of a reply.

    `peer_id` is empty if it went to the person; `answer`: the response of a peer that responds at once;
    `acknowledged`: whether the message that it answers is done."""

    status: str
    workspace_id: str
    peer_id: str
    activity_id: str
    acknowledged: bool
    answer: str = ""
    note: str = ""


class SendMessageToUserArguments(ToolArguments, frozen=True):
    """Arguments of `send_message_to_user`."""

    message: Annotated[str, Meta(min_length=1, description="What you say, as plain text or Markdown.")]
    attachments: Annotated[
        list[dict[str, Any]],
        Meta(max_length=10, description="Files that you have uploaded: {uri, name, mimeType?, size?} each."),
    ] = []
    reply_handle: OptionalHandleArgument = ""
    progress: ProgressArgument = False
    workspace_id: ActingWorkspaceArgument = ""
    approval_id: ApprovalIdArgument = ""


class SendMessageToUserResult(Struct, frozen=True, kw_only=True):
    """A message shown on the canvas."""

    status: str
    workspace_id: str
    activity_id: str


class ListPeersArguments(ToolArguments, frozen=True):
    """Arguments of `list_peers`."""

    q: Annotated[
        str, Meta(max_length=200, description="Only those whose name or role holds this text; left out: all.")
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
    agent_card: Any = None


class ListPeersResult(Struct, frozen=True, kw_only=True):
    """Siblings, then children, then the parent."""

    workspace_id: str
    peers: list[PeerInfo]


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
            description="The whole new card: name, description, skills [{id?, name, description}], version. It takes "
            "the place of the old one.",
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

    message: Annotated[str, Meta(min_length=1, description="What everybody is to know.")]
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
        Meta(
            ge=0, le=MAX_INBOX_WAIT_SECONDS, description=f"How long to wait, seconds, at most {MAX_INBOX_WAIT_SECONDS}."
        ),
    ] = 60


class WaitForMessageResult(Struct, frozen=True, kw_only=True):
    """The next message, or none if the time is over. `waiting`: number of further messages known to wait."""

    message: InboxMessage | None
    waiting: int = 0
    note: str = ""


class InboxPeekArguments(ToolArguments, frozen=True):
    """Arguments of `inbox_peek`."""

    limit: Annotated[int, Meta(ge=1, le=MAX_PEEKED_MESSAGES, description="At most so many messages.")] = 10


class InboxPeekResult(Struct, frozen=True, kw_only=True):
    """Messages that wait for an answer or an acknowledgement, oldest first."""

    messages: list[InboxMessage]
    note: str = ""


class InboxPopArguments(ToolArguments, frozen=True):
    """Arguments of `inbox_pop`."""

    activity_id: Annotated[
        str, Meta(pattern=_OPTIONAL_ID_PATTERN, min_length=1, description="The message that is handled.")
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
            description="The peer whose messages you want; empty or left out: the person's.",
        ),
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_HISTORY_MESSAGES, description="At most so many messages.")] = 20
    before_ts: Annotated[
        str, Meta(max_length=64, description="Only messages before this time, such as 2026-11-21T22:41:07Z.")
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
    str, Meta(max_length=50, description="A drawer of your own naming, such as `customers`; left out: the common one.")
]


class CommitMemoryArguments(ToolArguments, frozen=True):
    """Arguments of `commit_memory`."""

    content: Annotated[str, Meta(min_length=1, description="The fact, so that it can be understood alone, later.")]
    scope: Annotated[
        Literal["LOCAL", "TEAM", "GLOBAL"],
        Meta(
            description="LOCAL: only you (if left out); TEAM: your team too; GLOBAL: everybody, for a root workspace."
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

    query: Annotated[str, Meta(max_length=1000, description="Words to look for; left out: the newest.")] = ""
    scope: Annotated[
        Literal["LOCAL", "TEAM", "GLOBAL"] | UnsetType,
        Meta(description="Only this scope; left out: all that you may read."),
    ] = UNSET
    namespace: Annotated[str, Meta(max_length=50, description="Only this drawer; left out: all.")] = ""
    limit: Annotated[int, Meta(ge=1, le=50, description="At most so many.")] = 10
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
