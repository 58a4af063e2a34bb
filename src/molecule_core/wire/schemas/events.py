"""The one table of events: name, who may see it, and the shape of its payload.

Audience `workspace`: persons of the organisation, and the workspace it is about. `peers`: also all that may talk to it.
`children`: also its direct children. `persons`: persons of the organisation alone; it is about no workspace. An event
of a thread is also seen by the workspace where its tree begins (`tree:<workspace>` in the journal).
"""

from typing import Any, Literal

from msgspec import Raw, Struct

from molecule_core.wire.schemas.approvals import ApprovalItem, PoliciesUpdatedPayload
from molecule_core.wire.schemas.delegations import (
    DelegationCompletePayload,
    DelegationFailedPayload,
    DelegationRefusedPayload,
    DelegationSentPayload,
    DelegationStatusPayload,
)
from molecule_core.wire.schemas.envelope import Instructions
from molecule_core.wire.schemas.prompts import PromptBuiltPayload, SharedContextUpdatedPayload
from molecule_core.wire.schemas.templates import TemplateFailedPayload, TemplateRolledBackPayload, TemplateSavedPayload
from molecule_core.wire.schemas.thread_log import (
    ThreadClosedPayload,
    ThreadItemPayload,
    ThreadMailPayload,
    ThreadStatusChangedPayload,
    TurnCompletedPayload,
    TurnStartedPayload,
)
from molecule_core.wire.schemas.threads import ThreadItem

EventAudience = Literal["workspace", "peers", "children", "persons"]


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


class AgentOnlinePayload(Struct, frozen=True, omit_defaults=True):
    """An agent sits in its seat and is heard. `recovered_from`: the status it had before."""

    delivery_mode: str
    recovered_from: str | None = None
    agent_card: Raw | None = None
    url: str | None = None


class AgentDegradedPayload(Struct, frozen=True, omit_defaults=True):
    """An agent answers, but says that much of its work fails."""

    error_rate: float
    sample_error: str | None = None
    runtime_state: str | None = None


class AgentOfflinePayload(Struct, frozen=True):
    """No heartbeat for too long; None: never one."""

    last_heard_at: str | None


class WorkspacePausedPayload(Struct, frozen=True):
    """A person paused the workspace, or let it sleep. `previous_status`: how it stood before."""

    previous_status: str


class WorkspaceMovedPayload(Struct, frozen=True, omit_defaults=True):
    """The workspace stands below another one now, with all that are below it; None: at the top. Its peers, and those of
    others, have changed with it. `name`: the new one, where its own was taken there."""

    parent_id: str | None
    old_parent_id: str | None
    name: str | None = None


class ExpandedWorkspace(Struct, frozen=True):
    """A workspace of a team."""

    id: str
    name: str
    role: str | None


class WorkspaceExpandedPayload(Struct, frozen=True):
    """A team was made below the workspace: all its members, those above before those below."""

    children: list[ExpandedWorkspace]


class CollapsedWorkspace(Struct, frozen=True):
    """A workspace that was removed."""

    id: str
    name: str


class WorkspaceCollapsedPayload(Struct, frozen=True):
    """All below the workspace was removed."""

    removed_children: list[CollapsedWorkspace]


class CredentialsRotatedPayload(Struct, frozen=True):
    """Tokens of the workspace were issued (`issued`), or end (`ended`, at `ends_at`). Never a token itself."""

    issued: int
    ended: int
    ends_at: str | None


class PeopleChangedPayload(Struct, frozen=True):
    """Who belongs to the organisation, or who may do what, has changed: read the list of people again."""

    person_id: str


class WorkspaceRemovedPayload(Struct, frozen=True):
    """The seat is gone; what it said stays readable for persons."""

    removed_at: str


class CardUpdatedPayload(Struct, frozen=True):
    """What the agent says of itself now."""

    agent_card: Raw


class ActivityPayload(Struct, frozen=True, omit_defaults=True):
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


class AgentMessagePayload(Struct, frozen=True, omit_defaults=True):
    """An agent wrote to its user. `seq` orders the chat of its workspace. `options`: what a question lets choose."""

    message: str
    workspace_id: str
    name: str
    seq: int
    attachments: list[dict[str, Any]] = []
    options: list[str] = []


class ChainFrozenPayload(Struct, frozen=True):
    """A chain of messages ran into a limit (hops, messages or pingpong) and waits for a person. `workspace_id`: whose
    message was refused; `hops` and `messages`: how far the chain went."""

    root_id: str
    workspace_id: str
    reason: str
    hops: int
    messages: int


class ChainReleasedPayload(Struct, frozen=True):
    """A person lets a chain go on, up to so many hops and messages in all."""

    root_id: str
    most_hops: int
    most_messages: int
    by: str


class ChainEndedPayload(Struct, frozen=True):
    """A person ended a chain: no message of it is taken any more."""

    root_id: str
    by: str


class MessageTickPayload(Struct, frozen=True, omit_defaults=True):
    """What became of the messages of one inbox from `first_seq` to `last_seq`: wake_asked, handed_over, acked,
    answered, declined, answered_outside or overdue."""

    tick: str
    first_seq: int
    last_seq: int
    at: str
    attempt: int | None = None
    reason: str | None = None


class MessageOverduePayload(Struct, frozen=True, omit_defaults=True):
    """A message that wanted an answer has got none in time, and a reminder did not help. `draft`: its agent has said
    something that it did not send. `template` (id@version): what it was told with."""

    activity_id: str
    seq: int
    source_id: str | None
    handed_at: str
    draft: bool = False
    template: str | None = None


class MessageDraftedPayload(Struct, frozen=True):
    """An agent said something in answer and did not send it: a person may. `state`: kept, sent or discarded."""

    activity_id: str
    seq: int
    state: str


class MessageDeadPayload(Struct, frozen=True):
    """A message was given up: expired, unreachable or refused. A person can requeue or discard it."""

    activity_id: str
    seq: int
    reason: str
    detail: str | None
    attempts: int


class MessageRequeuedPayload(Struct, frozen=True):
    """A dead letter is handed out again."""

    activity_id: str
    seq: int


class MessageDiscardedPayload(Struct, frozen=True):
    """A dead letter is done with for good."""

    activity_id: str
    seq: int


class ChatPrunedPayload(Struct, frozen=True):
    """Old lines of a chat are gone. `kept`: of the agent's lines the numbers (`seq`) of those that are still there, at
    most as many as are counted as unread."""

    kept: list[int]


class MemoryWrittenPayload(Struct, frozen=True):
    """A workspace wrote something down: `scope` (LOCAL, TEAM or GLOBAL) says for whom. What it is, tells a recall."""

    memory_id: str
    scope: str
    namespace: str


class MemoryForgottenPayload(Struct, frozen=True):
    """A memory is not there any more."""

    memory_id: str


class HeartbeatPayload(Struct, frozen=True):
    """An agent is there."""

    active_tasks: int
    uptime_seconds: int
    current_task: str | None
    last_heard_at: str


class TaskUpdatedPayload(Struct, frozen=True):
    """What an agent works on has changed. None: on nothing."""

    current_task: str | None
    active_tasks: int


class EventDefinition(Struct, frozen=True):
    """One row of the table. Journaled events are numbered and can be read again; transient ones are not."""

    audience: EventAudience
    payload: type[Struct]
    journaled: bool = True


EVENTS: dict[str, EventDefinition] = {
    "WORKSPACE_PROVISIONING": EventDefinition("peers", WorkspaceView),
    "WORKSPACE_UPDATED": EventDefinition("peers", WorkspaceView),
    "WORKSPACE_ONLINE": EventDefinition("peers", AgentOnlinePayload),
    "WORKSPACE_DEGRADED": EventDefinition("peers", AgentDegradedPayload),
    "WORKSPACE_OFFLINE": EventDefinition("peers", AgentOfflinePayload),
    "WORKSPACE_AWAITING_AGENT": EventDefinition("peers", AgentOfflinePayload),
    "WORKSPACE_REMOVED": EventDefinition("peers", WorkspaceRemovedPayload),
    "WORKSPACE_PAUSED": EventDefinition("peers", WorkspacePausedPayload),
    "WORKSPACE_HIBERNATED": EventDefinition("peers", WorkspacePausedPayload),
    "WORKSPACE_MOVED": EventDefinition("peers", WorkspaceMovedPayload),
    "WORKSPACE_EXPANDED": EventDefinition("workspace", WorkspaceExpandedPayload),
    "WORKSPACE_COLLAPSED": EventDefinition("workspace", WorkspaceCollapsedPayload),
    "EXTERNAL_CREDENTIALS_ROTATED": EventDefinition("workspace", CredentialsRotatedPayload),
    "PEOPLE_CHANGED": EventDefinition("persons", PeopleChangedPayload),
    "AGENT_CARD_UPDATED": EventDefinition("peers", CardUpdatedPayload),
    "ACTIVITY_LOGGED": EventDefinition("workspace", ActivityPayload),
    "USER_MESSAGE": EventDefinition("workspace", ActivityPayload),
    "AGENT_MESSAGE": EventDefinition("workspace", AgentMessagePayload),
    "BROADCAST_MESSAGE": EventDefinition("workspace", ActivityPayload),
    "CHAIN_FROZEN": EventDefinition("workspace", ChainFrozenPayload),
    "CHAIN_RELEASED": EventDefinition("workspace", ChainReleasedPayload),
    "CHAIN_ENDED": EventDefinition("workspace", ChainEndedPayload),
    "MESSAGE_TICK": EventDefinition("workspace", MessageTickPayload),
    "MESSAGE_OVERDUE": EventDefinition("workspace", MessageOverduePayload),
    "MESSAGE_DRAFTED": EventDefinition("workspace", MessageDraftedPayload),
    "MESSAGE_DEAD": EventDefinition("workspace", MessageDeadPayload),
    "MESSAGE_REQUEUED": EventDefinition("workspace", MessageRequeuedPayload),
    "MESSAGE_DISCARDED": EventDefinition("workspace", MessageDiscardedPayload),
    "CHAT_PRUNED": EventDefinition("workspace", ChatPrunedPayload),
    "DELEGATION_SENT": EventDefinition("workspace", DelegationSentPayload),
    "DELEGATION_STATUS": EventDefinition("workspace", DelegationStatusPayload),
    "DELEGATION_COMPLETE": EventDefinition("workspace", DelegationCompletePayload),
    "DELEGATION_FAILED": EventDefinition("workspace", DelegationFailedPayload),
    "DELEGATION_REFUSED": EventDefinition("workspace", DelegationRefusedPayload),
    "APPROVAL_REQUESTED": EventDefinition("workspace", ApprovalItem),
    "APPROVAL_ESCALATED": EventDefinition("workspace", ApprovalItem),
    "APPROVAL_INFO_REQUESTED": EventDefinition("workspace", ApprovalItem),
    "APPROVAL_ANSWERED": EventDefinition("workspace", ApprovalItem),
    "APPROVAL_APPROVED": EventDefinition("workspace", ApprovalItem),
    "APPROVAL_DENIED": EventDefinition("workspace", ApprovalItem),
    "APPROVAL_EXPIRED": EventDefinition("workspace", ApprovalItem),
    "APPROVAL_WITHDRAWN": EventDefinition("workspace", ApprovalItem),
    "APPROVAL_USED": EventDefinition("workspace", ApprovalItem),
    "APPROVAL_POLICIES_UPDATED": EventDefinition("workspace", PoliciesUpdatedPayload),
    "MEMORY_WRITTEN": EventDefinition("workspace", MemoryWrittenPayload),
    "MEMORY_FORGOTTEN": EventDefinition("workspace", MemoryForgottenPayload),
    "SHARED_CONTEXT_UPDATED": EventDefinition("children", SharedContextUpdatedPayload),
    "PROMPT_BUILT": EventDefinition("workspace", PromptBuiltPayload),
    "THREAD_STARTED": EventDefinition("workspace", ThreadItem),
    "THREAD_STATUS_CHANGED": EventDefinition("workspace", ThreadStatusChangedPayload),
    "THREAD_ITEM": EventDefinition("workspace", ThreadItemPayload),
    "TURN_STARTED": EventDefinition("workspace", TurnStartedPayload),
    "TURN_COMPLETED": EventDefinition("workspace", TurnCompletedPayload),
    "THREAD_CLOSED": EventDefinition("workspace", ThreadClosedPayload),
    "THREAD_MAIL": EventDefinition("workspace", ThreadMailPayload),
    "INSTRUCTION_TEMPLATE_SAVED": EventDefinition("persons", TemplateSavedPayload),
    "INSTRUCTION_TEMPLATE_FAILED": EventDefinition("persons", TemplateFailedPayload),
    "INSTRUCTION_TEMPLATE_ROLLED_BACK": EventDefinition("persons", TemplateRolledBackPayload),
    "WORKSPACE_HEARTBEAT": EventDefinition("workspace", HeartbeatPayload, journaled=False),
    "TASK_UPDATED": EventDefinition("workspace", TaskUpdatedPayload, journaled=False),
}
"""Every event that this version tells. A name that is not here, or is transient, cannot be journaled."""
