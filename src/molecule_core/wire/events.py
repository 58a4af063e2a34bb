"""The one table of events: name, who may see it, and the shape of its payload.

Audience `workspace`: persons of the organisation, and the workspace it is about. `peers`: also all that may talk to it.
`children`: also its direct children. `persons`: persons of the organisation alone; it is about no workspace. An event
of a thread is also seen by the workspace where its tree begins (`tree:<workspace>` in the journal).
"""

from typing import Any, Literal

from msgspec import Raw, Struct

from molecule_core.wire.approvals import ApprovalItem, PoliciesChanged
from molecule_core.wire.delegations import (
    DelegationComplete,
    DelegationFailed,
    DelegationRefused,
    DelegationSent,
    DelegationStatus,
)
from molecule_core.wire.envelope import Instructions
from molecule_core.wire.prompts import PromptBuilt, SharedContextUpdated
from molecule_core.wire.templates import TemplateFailed, TemplateRolledBack, TemplateSaved
from molecule_core.wire.threadlog import (
    ThreadClosed,
    ThreadMail,
    ThreadNews,
    ThreadStatusChanged,
    TurnBegan,
    TurnCompleted,
)
from molecule_core.wire.threads import ThreadItem

Audience = Literal["workspace", "peers", "children", "persons"]


class WorkspaceView(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A workspace as persons and peers see it; also a row of GET /workspaces. Times are RFC 3339."""

    id: str
    org_id: str
    name: str
    role: str | None
    runtime: str
    parent_id: str | None
    delivery_mode: str
    url: str | None
    status: str
    external: bool
    tier: int
    active_tasks: int
    max_concurrent_tasks: int
    last_error_rate: float
    uptime_seconds: int
    agent_card: Raw | None
    instruction_template_id: str | None
    instruction_compact: bool
    broadcast_enabled: bool
    talk_to_user_enabled: bool
    collapsed: bool
    x: float
    y: float
    rev: int
    created_at: str
    updated_at: str
    removed_at: str | None
    key: str | None
    instruction_shape: str | None
    reply_seconds: int | None
    send_drafts: bool


class Online(Struct, frozen=True, omit_defaults=True):
    """An agent sits in its seat and is heard. `recovered_from`: the status it had before."""

    delivery_mode: str
    recovered_from: str | None = None
    agent_card: Raw | None = None
    url: str | None = None


class Degraded(Struct, frozen=True, omit_defaults=True):
    """An agent answers, but says that much of its work fails."""

    error_rate: float
    sample_error: str | None = None
    runtime_state: str | None = None


class Silent(Struct, frozen=True):
    """No heartbeat for too long; None: never one."""

    last_heard_at: str | None


class PutAside(Struct, frozen=True):
    """A person paused the workspace, or let it sleep. `previous_status`: how it stood before."""

    previous_status: str


class Moved(Struct, frozen=True, omit_defaults=True):
    """The workspace stands below another one now, with all that are below it; None: at the top. Its peers, and those of
    others, have changed with it. `name`: the new one, where its own was taken there."""

    parent_id: str | None
    old_parent_id: str | None
    name: str | None = None


class Member(Struct, frozen=True):
    """A workspace of a team."""

    id: str
    name: str
    role: str | None


class Expanded(Struct, frozen=True):
    """A team was made below the workspace: all its members, those above before those below."""

    children: list[Member]


class Gone(Struct, frozen=True):
    """A workspace that was removed."""

    id: str
    name: str


class Collapsed(Struct, frozen=True):
    """All below the workspace was removed."""

    removed_children: list[Gone]


class CredentialsRotated(Struct, frozen=True):
    """Tokens of the workspace were issued (`issued`), or end (`ended`, at `ends_at`). Never a token itself."""

    issued: int
    ended: int
    ends_at: str | None


class PeopleChanged(Struct, frozen=True):
    """Who belongs to the organisation, or who may do what, has changed: read the list of people again."""

    person_id: str


class Removed(Struct, frozen=True):
    """The seat is gone; what it said stays readable for persons."""

    removed_at: str


class CardUpdated(Struct, frozen=True):
    """What the agent says of itself now."""

    agent_card: Raw


class ActivityView(Struct, frozen=True, omit_defaults=True):
    """A new row of a workspace's log, as GET /workspaces/{id}/activity shows it. `seq` numbers the log. Bodies that
    are large are left out, but for a person's message. `instructions`: for the agent itself alone, if it asks."""

    activity_type: str
    status: str
    seq: int
    method: str | None = None
    kind: str | None = None
    summary: str | None = None
    source_id: str | None = None
    target_id: str | None = None
    duration_ms: int | None = None
    request_body: Raw | None = None
    response_body: Raw | None = None
    tool_trace: Raw | None = None
    error_detail: str | None = None
    instructions: Instructions | None = None


class AgentMessage(Struct, frozen=True, omit_defaults=True):
    """An agent wrote to its user. `seq` orders the chat of its workspace. `options`: what a question lets choose."""

    message: str
    workspace_id: str
    name: str
    seq: int
    attachments: list[dict[str, Any]] = []
    options: list[str] = []


class FrozenChain(Struct, frozen=True):
    """A chain of messages ran into a limit (hops, messages or pingpong) and waits for a person. `workspace_id`: whose
    message was refused; `hops` and `messages`: how far the chain went."""

    root_id: str
    workspace_id: str
    reason: str
    hops: int
    messages: int


class ReleasedChain(Struct, frozen=True):
    """A person lets a chain go on, up to so many hops and messages in all."""

    root_id: str
    most_hops: int
    most_messages: int
    by: str


class EndedChain(Struct, frozen=True):
    """A person ended a chain: no message of it is taken any more."""

    root_id: str
    by: str


class MessageTick(Struct, frozen=True, omit_defaults=True):
    """What became of the messages of one inbox from `first_seq` to `last_seq`: wake_asked, handed_over, acked,
    answered, declined, answered_outside or overdue."""

    tick: str
    first_seq: int
    last_seq: int
    at: str
    attempt: int | None = None
    reason: str | None = None


class MessageOverdue(Struct, frozen=True, omit_defaults=True):
    """A message that wanted an answer has got none in time, and a reminder did not help. `draft`: its agent has said
    something that it did not send. `template` (id@version): what it was told with."""

    activity_id: str
    seq: int
    source_id: str | None
    handed_at: str
    draft: bool = False
    template: str | None = None


class MessageDrafted(Struct, frozen=True):
    """An agent said something in answer and did not send it: a person may. `state`: kept, sent or discarded."""

    activity_id: str
    seq: int
    state: str


class MessageDead(Struct, frozen=True):
    """A message was given up: expired, unreachable or refused. A person can requeue or discard it."""

    activity_id: str
    seq: int
    reason: str
    detail: str | None
    attempts: int


class MessageRequeued(Struct, frozen=True):
    """A dead letter is handed out again."""

    activity_id: str
    seq: int


class MessageDiscarded(Struct, frozen=True):
    """A dead letter is done with for good."""

    activity_id: str
    seq: int


class ChatPruned(Struct, frozen=True):
    """Old lines of a chat are gone. `kept`: of the agent's lines the numbers (`seq`) of those that are still there, at
    most as many as are counted as unread."""

    kept: list[int]


class MemoryWritten(Struct, frozen=True):
    """A workspace wrote something down: `scope` (LOCAL, TEAM or GLOBAL) says for whom. What it is, tells a recall."""

    memory_id: str
    scope: str
    namespace: str


class MemoryForgotten(Struct, frozen=True):
    """A memory is not there any more."""

    memory_id: str


class Heartbeat(Struct, frozen=True):
    """An agent is there."""

    active_tasks: int
    uptime_seconds: int
    current_task: str | None
    last_heard_at: str


class TaskUpdated(Struct, frozen=True):
    """What an agent works on has changed. None: on nothing."""

    current_task: str | None
    active_tasks: int


class EventShape(Struct, frozen=True):
    """One row of the table. Journaled events are numbered and can be read again; transient ones are not."""

    audience: Audience
    payload: type[Struct]
    journaled: bool = True


EVENTS: dict[str, EventShape] = {
    "WORKSPACE_PROVISIONING": EventShape("peers", WorkspaceView),
    "WORKSPACE_UPDATED": EventShape("peers", WorkspaceView),
    "WORKSPACE_ONLINE": EventShape("peers", Online),
    "WORKSPACE_DEGRADED": EventShape("peers", Degraded),
    "WORKSPACE_OFFLINE": EventShape("peers", Silent),
    "WORKSPACE_AWAITING_AGENT": EventShape("peers", Silent),
    "WORKSPACE_REMOVED": EventShape("peers", Removed),
    "WORKSPACE_PAUSED": EventShape("peers", PutAside),
    "WORKSPACE_HIBERNATED": EventShape("peers", PutAside),
    "WORKSPACE_MOVED": EventShape("peers", Moved),
    "WORKSPACE_EXPANDED": EventShape("workspace", Expanded),
    "WORKSPACE_COLLAPSED": EventShape("workspace", Collapsed),
    "EXTERNAL_CREDENTIALS_ROTATED": EventShape("workspace", CredentialsRotated),
    "PEOPLE_CHANGED": EventShape("persons", PeopleChanged),
    "AGENT_CARD_UPDATED": EventShape("peers", CardUpdated),
    "ACTIVITY_LOGGED": EventShape("workspace", ActivityView),
    "USER_MESSAGE": EventShape("workspace", ActivityView),
    "AGENT_MESSAGE": EventShape("workspace", AgentMessage),
    "BROADCAST_MESSAGE": EventShape("workspace", ActivityView),
    "CHAIN_FROZEN": EventShape("workspace", FrozenChain),
    "CHAIN_RELEASED": EventShape("workspace", ReleasedChain),
    "CHAIN_ENDED": EventShape("workspace", EndedChain),
    "MESSAGE_TICK": EventShape("workspace", MessageTick),
    "MESSAGE_OVERDUE": EventShape("workspace", MessageOverdue),
    "MESSAGE_DRAFTED": EventShape("workspace", MessageDrafted),
    "MESSAGE_DEAD": EventShape("workspace", MessageDead),
    "MESSAGE_REQUEUED": EventShape("workspace", MessageRequeued),
    "MESSAGE_DISCARDED": EventShape("workspace", MessageDiscarded),
    "CHAT_PRUNED": EventShape("workspace", ChatPruned),
    "DELEGATION_SENT": EventShape("workspace", DelegationSent),
    "DELEGATION_STATUS": EventShape("workspace", DelegationStatus),
    "DELEGATION_COMPLETE": EventShape("workspace", DelegationComplete),
    "DELEGATION_FAILED": EventShape("workspace", DelegationFailed),
    "DELEGATION_REFUSED": EventShape("workspace", DelegationRefused),
    "APPROVAL_REQUESTED": EventShape("workspace", ApprovalItem),
    "APPROVAL_ESCALATED": EventShape("workspace", ApprovalItem),
    "APPROVAL_INFO_REQUESTED": EventShape("workspace", ApprovalItem),
    "APPROVAL_ANSWERED": EventShape("workspace", ApprovalItem),
    "APPROVAL_APPROVED": EventShape("workspace", ApprovalItem),
    "APPROVAL_DENIED": EventShape("workspace", ApprovalItem),
    "APPROVAL_EXPIRED": EventShape("workspace", ApprovalItem),
    "APPROVAL_WITHDRAWN": EventShape("workspace", ApprovalItem),
    "APPROVAL_USED": EventShape("workspace", ApprovalItem),
    "APPROVAL_POLICIES_UPDATED": EventShape("workspace", PoliciesChanged),
    "MEMORY_WRITTEN": EventShape("workspace", MemoryWritten),
    "MEMORY_FORGOTTEN": EventShape("workspace", MemoryForgotten),
    "SHARED_CONTEXT_UPDATED": EventShape("children", SharedContextUpdated),
    "PROMPT_BUILT": EventShape("workspace", PromptBuilt),
    "THREAD_STARTED": EventShape("workspace", ThreadItem),
    "THREAD_STATUS_CHANGED": EventShape("workspace", ThreadStatusChanged),
    "THREAD_ITEM": EventShape("workspace", ThreadNews),
    "TURN_STARTED": EventShape("workspace", TurnBegan),
    "TURN_COMPLETED": EventShape("workspace", TurnCompleted),
    "THREAD_CLOSED": EventShape("workspace", ThreadClosed),
    "THREAD_MAIL": EventShape("workspace", ThreadMail),
    "INSTRUCTION_TEMPLATE_SAVED": EventShape("persons", TemplateSaved),
    "INSTRUCTION_TEMPLATE_FAILED": EventShape("persons", TemplateFailed),
    "INSTRUCTION_TEMPLATE_ROLLED_BACK": EventShape("persons", TemplateRolledBack),
    "WORKSPACE_HEARTBEAT": EventShape("workspace", Heartbeat, journaled=False),
    "TASK_UPDATED": EventShape("workspace", TaskUpdated, journaled=False),
}
"""Every event that this version tells. A name that is not here, or is transient, cannot be journaled."""
