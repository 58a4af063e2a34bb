"""What the platform's tools take and give. `wire/tools.py` says what each of them is for.

Texts of arguments are read by models: they say what to put in, and what happens if it is left out.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from molecule_core.wire.inbox import InboxMessage

LONGEST_WAIT = 300
"""Seconds of `wait_for_message`: hosts give up on a call somewhere beyond it."""
MOST_SHOWN = 100
MOST_HISTORY = 500

_ID = r"^[A-Za-z0-9._:-]{0,128}$"

Seat = Annotated[
    str,
    Meta(pattern=_ID, description="The workspace you act as (its id), if you have several; left out: your only one."),
]
Attempt = Annotated[
    int,
    Meta(
        ge=0,
        lt=1 << 31,
        description="The `attempt` that came with the message; left out: the one under which you hold it.",
    ),
]

Handle = Annotated[
    str,
    Meta(
        pattern=_ID,
        description="The reply_handle in the instructions of the message that this answers, if it has one.",
    ),
]
Progress = Annotated[
    bool,
    Meta(
        description="True: you only say that you are at it. The message stays open, and you have more time to answer "
        "it."
    ),
]
Leave = Annotated[
    str,
    Meta(
        pattern=_ID,
        description="Only if a rule has stopped this very call and it is approved now: the id of that approval.",
    ),
]


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every tool's arguments have in common."""


# -- a2a ---------------------------------------------------------------------------------------------------------------


class ReplyArguments(Arguments, frozen=True):
    """reply_to_workspace."""

    text: Annotated[str, Meta(min_length=1, description="What you say, as plain text or Markdown.")]
    workspace_id: Annotated[
        str,
        Meta(
            pattern=_ID,
            description="The workspace you answer as: the message's arrival_workspace_id. Left out: the workspace that "
            "the message came to, or your only one.",
        ),
    ] = ""
    peer_id: Annotated[
        str,
        Meta(
            pattern=_ID,
            description="The peer you answer: the message's peer_id. Empty or left out: the person on the canvas.",
        ),
    ] = ""
    activity_id: Annotated[
        str,
        Meta(
            pattern=_ID,
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
    attempt: Attempt = 0
    reply_handle: Handle = ""
    progress: Progress = False
    approval_id: Leave = ""


class Replied(Struct, frozen=True, kw_only=True):
    """Where an answer went. `peer_id` is empty if it went to the person; `answer` is what a peer said that answers at
    once; `acknowledged` tells whether the message that it answers is done."""

    status: str
    workspace_id: str
    peer_id: str
    activity_id: str
    acknowledged: bool
    answer: str = ""
    note: str = ""


class MessageArguments(Arguments, frozen=True):
    """send_message_to_user."""

    message: Annotated[str, Meta(min_length=1, description="What you say, as plain text or Markdown.")]
    attachments: Annotated[
        list[dict[str, Any]],
        Meta(max_length=10, description="Files that you have uploaded: {uri, name, mimeType?, size?} each."),
    ] = []
    reply_handle: Handle = ""
    progress: Progress = False
    workspace_id: Seat = ""
    approval_id: Leave = ""


class MessageSent(Struct, frozen=True, kw_only=True):
    """A message that is on the canvas now."""

    status: str
    workspace_id: str
    activity_id: str


class PeersArguments(Arguments, frozen=True):
    """list_peers."""

    q: Annotated[
        str, Meta(max_length=200, description="Only those whose name or role holds this text; left out: all.")
    ] = ""
    via_workspace: Seat = ""
    approval_id: Leave = ""


class PeerInfo(Struct, frozen=True, kw_only=True):
    """A workspace that you may talk to."""

    id: str
    name: str
    role: str | None
    status: str
    parent_id: str | None
    active_tasks: int
    agent_card: Any = None


class Peers(Struct, frozen=True, kw_only=True):
    """Siblings, then children, then the parent."""

    workspace_id: str
    peers: list[PeerInfo]


class InfoArguments(Arguments, frozen=True):
    """get_workspace_info."""

    via_workspace: Seat = ""
    approval_id: Leave = ""


class WorkspaceInfo(Struct, frozen=True, kw_only=True):
    """A seat as the server knows it."""

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


class NoArguments(Arguments, frozen=True):
    """A tool that takes nothing."""


class SeatInfo(Struct, frozen=True, kw_only=True):
    """One workspace that this agent sits in."""

    workspace_id: str
    platform_url: str
    name: str = ""
    status: str = ""


class Identity(Struct, frozen=True, kw_only=True):
    """Who the agent is to Molecule."""

    runtime: str
    version: str
    workspaces: list[SeatInfo]


class CardArguments(Arguments, frozen=True):
    """update_agent_card."""

    card: Annotated[
        dict[str, Any],
        Meta(
            min_length=1,
            description="The whole new card: name, description, skills [{id?, name, description}], version. It takes "
            "the place of the old one.",
        ),
    ]
    via_workspace: Seat = ""
    approval_id: Leave = ""


class CardUpdated(Struct, frozen=True, kw_only=True):
    """A card that is shown now."""

    status: str
    workspace_id: str


class BroadcastArguments(Arguments, frozen=True):
    """broadcast_message."""

    message: Annotated[str, Meta(min_length=1, description="What everybody is to know.")]
    workspace_id: Seat = ""
    approval_id: Leave = ""


class Broadcasted(Struct, frozen=True, kw_only=True):
    """How many workspaces a message reached; `skipped` names those whose inbox is full."""

    status: str
    workspace_id: str
    activity_id: str
    delivered: int
    skipped: list[str] = []


# -- inbox -------------------------------------------------------------------------------------------------------------


class WaitArguments(Arguments, frozen=True):
    """wait_for_message."""

    timeout_secs: Annotated[
        float,
        Meta(ge=0, le=LONGEST_WAIT, description=f"How long to wait, seconds, at most {LONGEST_WAIT}."),
    ] = 60


class Waited(Struct, frozen=True, kw_only=True):
    """The message that came; none if the time is over. `waiting`: so many more are known to wait behind it."""

    message: InboxMessage | None
    waiting: int = 0
    note: str = ""


class PeekArguments(Arguments, frozen=True):
    """inbox_peek."""

    limit: Annotated[int, Meta(ge=1, le=MOST_SHOWN, description="At most so many messages.")] = 10


class Peeked(Struct, frozen=True, kw_only=True):
    """Messages that wait for an answer or an acknowledgement, oldest first."""

    messages: list[InboxMessage]
    note: str = ""


class PopArguments(Arguments, frozen=True):
    """inbox_pop."""

    activity_id: Annotated[str, Meta(pattern=_ID, min_length=1, description="The message that is handled.")]
    attempt: Attempt = 0
    workspace_id: Seat = ""


class Popped(Struct, frozen=True, kw_only=True):
    """A message that does not come again."""

    activity_id: str
    workspace_id: str
    removed: bool
    note: str = ""


class HistoryArguments(Arguments, frozen=True):
    """chat_history."""

    peer_id: Annotated[
        str, Meta(pattern=_ID, description="The peer whose messages you want; empty or left out: the person's.")
    ] = ""
    limit: Annotated[int, Meta(ge=1, le=MOST_HISTORY, description="At most so many messages.")] = 20
    before_ts: Annotated[
        str, Meta(max_length=64, description="Only messages before this time, such as 2026-11-21T22:41:07Z.")
    ] = ""
    via_workspace: Seat = ""
    approval_id: Leave = ""


class HistoryLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message. `role`: `user` (a person), `peer` or `agent` (yourself)."""

    activity_id: str
    role: str
    text: str
    created_at: str
    name: str = ""
    attachments: list[dict[str, Any]] = []


class History(Struct, frozen=True, kw_only=True):
    """A conversation, oldest first. `reached_end`: there is nothing before it."""

    workspace_id: str
    peer_id: str
    messages: list[HistoryLine]
    reached_end: bool


# -- memory ------------------------------------------------------------------------------------------------------------

Namespace = Annotated[
    str, Meta(max_length=50, description="A drawer of your own naming, such as `customers`; left out: the common one.")
]


class CommitArguments(Arguments, frozen=True):
    """commit_memory."""

    content: Annotated[str, Meta(min_length=1, description="The fact, so that it can be understood alone, later.")]
    scope: Annotated[
        Literal["LOCAL", "TEAM", "GLOBAL"],
        Meta(
            description="LOCAL: only you (if left out); TEAM: your team too; GLOBAL: everybody, for a root workspace."
        ),
    ] = "LOCAL"
    namespace: Namespace = ""
    via_workspace: Seat = ""
    approval_id: Leave = ""


class Committed(Struct, frozen=True, kw_only=True):
    """A memory that is kept. `redacted`: so many credentials were taken out of it before."""

    id: str
    workspace_id: str
    scope: str
    namespace: str | None = None
    redacted: int = 0


class RecallArguments(Arguments, frozen=True):
    """recall_memory."""

    query: Annotated[str, Meta(max_length=1000, description="Words to look for; left out: the newest.")] = ""
    scope: Annotated[
        Literal["LOCAL", "TEAM", "GLOBAL"] | UnsetType,
        Meta(description="Only this scope; left out: all that you may read."),
    ] = UNSET
    namespace: Annotated[str, Meta(max_length=50, description="Only this drawer; left out: all.")] = ""
    limit: Annotated[int, Meta(ge=1, le=50, description="At most so many.")] = 10
    via_workspace: Seat = ""
    approval_id: Leave = ""


class Memory(Struct, frozen=True, kw_only=True):
    """Something that was committed, and by which workspace."""

    id: str
    content: str
    scope: str
    namespace: str | None = None
    workspace_id: str = ""
    workspace_name: str | None = None
    created_at: str = ""


class Recalled(Struct, frozen=True, kw_only=True):
    """What was found, best first."""

    workspace_id: str
    memories: list[Memory]
