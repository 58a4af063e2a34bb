"""The table of events: name, audience and payload of each.

Audience `workspace`: persons of the organisation and the workspace that the event is about. `peers`: also all
workspaces that may talk to it. `children`: also its direct children. `persons`: only persons of the organisation;
the event is about no workspace. An event of a thread is also visible to the workspace at the root of its tree
(`tree:<workspace>` in the journal).
"""

from typing import Any, Literal

from msgspec import Raw, Struct

from molecule_core.wire.schemas.approvals import ApprovalItem, PoliciesUpdatedPayload
from molecule_core.wire.schemas.budgets import BudgetDeletedPayload, BudgetUsePayload, BudgetView
from molecule_core.wire.schemas.delegations import (
    DelegationCompletePayload,
    DelegationFailedPayload,
    DelegationRefusedPayload,
    DelegationSentPayload,
    DelegationStatusPayload,
)
from molecule_core.wire.schemas.envelope import Instructions
from molecule_core.wire.schemas.live_turns import LiveTurnPayload
from molecule_core.wire.schemas.prompts import PromptBuiltPayload, SharedContextUpdatedPayload
from molecule_core.wire.schemas.schedules import ScheduleChangedPayload, ScheduleDeletedPayload, ScheduleRanPayload
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
    """The workspace as people and peers see it, as in GET /workspaces. Times are RFC 3339."""

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
    limited_until: str | None
    limit_reason: str | None
    a2a_card_url: str | None
    a2a_published: bool


class AgentOnlinePayload(Struct, frozen=True, omit_defaults=True):
    """An agent is connected and sends heartbeats. `recovered_from`: its previous status."""

    delivery_mode: str
    recovered_from: str | None = None
    agent_card: Raw | None = None
    url: str | None = None


class AgentDegradedPayload(Struct, frozen=True, omit_defaults=True):
    """An agent sends heartbeats, but reports a high error rate."""

    error_rate: float
    sample_error: str | None = None
    runtime_state: str | None = None


class AgentOfflinePayload(Struct, frozen=True):
    """Its agent sent no heartbeat for too long. `last_heard_at`: time of the last heartbeat; null: there was none."""

    last_heard_at: str | None


class WorkspacePausedPayload(Struct, frozen=True):
    """`previous_status`: the status before."""

    previous_status: str


class WorkspaceLimitedPayload(Struct, frozen=True):
    """The agent has reached a limit of its vendor, or a budget is used up: its messages wait until then.

    `limit_reason`: the agent's own words, or `over budget` and how much of it is used."""

    limited_until: str
    limit_reason: str


class WorkspaceLimitEndedPayload(Struct, frozen=True):
    """`ended_by`: time, agent, person or budget."""

    ended_by: str


class WorkspaceMovedPayload(Struct, frozen=True, omit_defaults=True):
    """The workspace moved, with all workspaces below it, to another parent (null: the root).

    Its peers, and the peers of other workspaces, changed too. `name`: its new name, if another workspace there had the
    old one."""

    parent_id: str | None
    old_parent_id: str | None
    name: str | None = None


class ExpandedWorkspace(Struct, frozen=True):
    """A workspace of a team."""

    id: str
    name: str
    role: str | None


class WorkspaceExpandedPayload(Struct, frozen=True):
    """A team was created below the workspace. `children`: all members, parents before children."""

    children: list[ExpandedWorkspace]


class CollapsedWorkspace(Struct, frozen=True):
    """A removed workspace."""

    id: str
    name: str


class WorkspaceCollapsedPayload(Struct, frozen=True):
    """All workspaces below the workspace were removed."""

    removed_children: list[CollapsedWorkspace]


class CredentialsRotatedPayload(Struct, frozen=True):
    """Tokens of the workspace were issued (`issued`) or revoked (`ended`, at `ends_at`). Never contains a token."""

    issued: int
    ended: int
    ends_at: str | None


class OAuthGrantPayload(Struct, frozen=True):
    """An app was connected to the workspace by OAuth (`state` is `granted`), or no longer is (`ended`).

    `client_name` is what the app calls itself. Never contains a token."""

    grant_id: str
    state: str
    client_name: str
    person_id: str
    scope: str


class PeopleChangedPayload(Struct, frozen=True):
    """The members of the organisation or their roles changed: reload the list."""

    person_id: str


class OrgUpdatedPayload(Struct, frozen=True):
    """The organisation was renamed."""

    name: str


class RunnersChangedPayload(Struct, frozen=True):
    """A runner, its agents or requests to it changed: reload the list."""

    runner_id: str


class WorkspaceRemovedPayload(Struct, frozen=True):
    """The workspace was removed. People can still read its messages."""

    removed_at: str


class CardUpdatedPayload(Struct, frozen=True):
    """The agent updated its card."""

    agent_card: Raw


class ActivityPayload(Struct, frozen=True, omit_defaults=True):
    """A new entry in the log of a workspace, as in GET /workspaces/{id}/activity.

    `seq` numbers the log. Large bodies are omitted, except those of a person's messages. `instructions`: only for
    the agent itself, if it requests them."""

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
    """An agent wrote to its user. `seq` orders the chat of the workspace. `options`: the answers to choose from."""

    message: str
    workspace_id: str
    name: str
    seq: int
    attachments: list[dict[str, Any]] = []
    options: list[str] = []


class ChainFrozenPayload(Struct, frozen=True):
    """A message chain reached a limit (hops, messages or pingpong) and waits for a person.

    `workspace_id`: the sender of the rejected message; `hops` and `messages`: the length of the chain."""

    root_id: str
    workspace_id: str
    reason: str
    hops: int
    messages: int


class ChainReleasedPayload(Struct, frozen=True):
    """A person released a chain, with new limits on its total hops and messages."""

    root_id: str
    most_hops: int
    most_messages: int
    by: str


class ChainEndedPayload(Struct, frozen=True):
    """A person ended a chain. Its further messages are rejected."""

    root_id: str
    by: str


class MessageTickPayload(Struct, frozen=True, omit_defaults=True):
    """A delivery step of the messages `first_seq` to `last_seq` of an inbox.

    `tick`: wake_asked, in_inbox, handed_over, acked, failed, answered, declined, answered_outside or overdue."""

    tick: str
    first_seq: int
    last_seq: int
    at: str
    attempt: int | None = None
    reason: str | None = None


class MessageOverduePayload(Struct, frozen=True, omit_defaults=True):
    """A request was not answered in time, even after a reminder.

    `draft`: the agent has an answer that it did not send. `template` (id@version): the template of its
    instructions."""

    activity_id: str
    seq: int
    source_id: str | None
    handed_at: str
    draft: bool = False
    template: str | None = None


class MessageDraftedPayload(Struct, frozen=True):
    """An agent's unsent answer was stored as a draft, which a person may send. `state`: kept, sent or discarded."""

    activity_id: str
    seq: int
    state: str


class MessageDeadPayload(Struct, frozen=True):
    """A message became a dead letter: it expired, or was unreachable or refused. A person can requeue or discard it."""

    activity_id: str
    seq: int
    reason: str
    detail: str | None
    attempts: int


class MessageRequeuedPayload(Struct, frozen=True):
    """A dead letter was requeued for delivery."""

    activity_id: str
    seq: int


class MessageDiscardedPayload(Struct, frozen=True):
    """A dead letter was discarded permanently."""

    activity_id: str
    seq: int


class ChatPrunedPayload(Struct, frozen=True):
    """Old messages of a chat were deleted.

    `kept`: the `seq` of the agent's remaining messages, at most as many as are counted as unread."""

    kept: list[int]


class MemoryWrittenPayload(Struct, frozen=True):
    """A workspace stored a memory. `scope`: LOCAL, TEAM or GLOBAL. The content is not included; recall it."""

    memory_id: str
    scope: str
    namespace: str


class MemoryForgottenPayload(Struct, frozen=True):
    """A memory was deleted."""

    memory_id: str


class HeartbeatPayload(Struct, frozen=True):
    """An agent sent a heartbeat."""

    active_tasks: int
    uptime_seconds: int
    current_task: str | None
    last_heard_at: str


class TaskUpdatedPayload(Struct, frozen=True):
    """An agent's current task changed. Null: it has none."""

    current_task: str | None
    active_tasks: int


class EventDefinition(Struct, frozen=True):
    """A row of the table. Journaled events are numbered and can be read again; transient ones are not.

    `meaning`: what happened, for an event whose payload several events share."""

    audience: EventAudience
    payload: type[Struct]
    journaled: bool = True
    meaning: str = ""

    @property
    def description(self) -> str:
        """Return what happened and what the payload contains."""
        return " ".join(f"{self.meaning} {self.payload.__doc__ or ''}".split())


EVENTS: dict[str, EventDefinition] = {
    "WORKSPACE_PROVISIONING": EventDefinition("peers", WorkspaceView, meaning="A workspace was created."),
    "WORKSPACE_UPDATED": EventDefinition("peers", WorkspaceView, meaning="The settings of a workspace changed."),
    "WORKSPACE_ONLINE": EventDefinition("peers", AgentOnlinePayload),
    "WORKSPACE_DEGRADED": EventDefinition("peers", AgentDegradedPayload),
    "WORKSPACE_OFFLINE": EventDefinition("peers", AgentOfflinePayload, meaning="A workspace is offline."),
    "WORKSPACE_AWAITING_AGENT": EventDefinition(
        "peers", AgentOfflinePayload, meaning="A workspace waits for its external agent."
    ),
    "WORKSPACE_REMOVED": EventDefinition("peers", WorkspaceRemovedPayload),
    "WORKSPACE_PAUSED": EventDefinition("peers", WorkspacePausedPayload, meaning="A workspace was paused."),
    "WORKSPACE_HIBERNATED": EventDefinition("peers", WorkspacePausedPayload, meaning="A workspace was hibernated."),
    "WORKSPACE_LIMITED": EventDefinition("peers", WorkspaceLimitedPayload),
    "WORKSPACE_LIMIT_ENDED": EventDefinition(
        "peers", WorkspaceLimitEndedPayload, meaning="The limit of a workspace ended: its messages are delivered again."
    ),
    "WORKSPACE_MOVED": EventDefinition("peers", WorkspaceMovedPayload),
    "WORKSPACE_EXPANDED": EventDefinition("workspace", WorkspaceExpandedPayload),
    "WORKSPACE_COLLAPSED": EventDefinition("workspace", WorkspaceCollapsedPayload),
    "EXTERNAL_CREDENTIALS_ROTATED": EventDefinition("workspace", CredentialsRotatedPayload),
    "OAUTH_GRANT_CHANGED": EventDefinition("workspace", OAuthGrantPayload),
    "ORG_UPDATED": EventDefinition("persons", OrgUpdatedPayload),
    "PEOPLE_CHANGED": EventDefinition("persons", PeopleChangedPayload),
    "RUNNERS_CHANGED": EventDefinition("persons", RunnersChangedPayload),
    "AGENT_CARD_UPDATED": EventDefinition("peers", CardUpdatedPayload),
    "ACTIVITY_LOGGED": EventDefinition(
        "workspace", ActivityPayload, meaning="An entry was added to the log of a workspace."
    ),
    "USER_MESSAGE": EventDefinition("workspace", ActivityPayload, meaning="A person wrote to a workspace."),
    "AGENT_MESSAGE": EventDefinition("workspace", AgentMessagePayload),
    "BROADCAST_MESSAGE": EventDefinition("workspace", ActivityPayload, meaning="A workspace sent a broadcast."),
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
    "APPROVAL_REQUESTED": EventDefinition("workspace", ApprovalItem, meaning="An approval was requested."),
    "APPROVAL_ESCALATED": EventDefinition(
        "workspace", ApprovalItem, meaning="An approval was escalated to the next approver."
    ),
    "APPROVAL_INFO_REQUESTED": EventDefinition(
        "workspace", ApprovalItem, meaning="An approver asked a question about a request."
    ),
    "APPROVAL_ANSWERED": EventDefinition("workspace", ApprovalItem, meaning="The requester answered a question."),
    "APPROVAL_APPROVED": EventDefinition("workspace", ApprovalItem, meaning="A request was approved."),
    "APPROVAL_DENIED": EventDefinition("workspace", ApprovalItem, meaning="A request was denied."),
    "APPROVAL_EXPIRED": EventDefinition("workspace", ApprovalItem, meaning="A request expired without a decision."),
    "APPROVAL_WITHDRAWN": EventDefinition("workspace", ApprovalItem, meaning="A request was withdrawn."),
    "APPROVAL_USED": EventDefinition("workspace", ApprovalItem, meaning="An approval was used."),
    "APPROVAL_POLICIES_UPDATED": EventDefinition("workspace", PoliciesUpdatedPayload),
    "BUDGET_CHANGED": EventDefinition("persons", BudgetView, meaning="A budget was created, changed or raised."),
    "BUDGET_DELETED": EventDefinition("persons", BudgetDeletedPayload),
    "BUDGET_NOTICED": EventDefinition("persons", BudgetUsePayload, meaning="80 % of a budget are spent."),
    "BUDGET_EXHAUSTED": EventDefinition(
        "persons", BudgetUsePayload, meaning="A budget is used up: turns wait, and an approval is requested."
    ),
    "SCHEDULE_CHANGED": EventDefinition("persons", ScheduleChangedPayload),
    "SCHEDULE_DELETED": EventDefinition("persons", ScheduleDeletedPayload),
    "SCHEDULE_RAN": EventDefinition("persons", ScheduleRanPayload),
    "MEMORY_WRITTEN": EventDefinition("workspace", MemoryWrittenPayload),
    "MEMORY_FORGOTTEN": EventDefinition("workspace", MemoryForgottenPayload),
    "SHARED_CONTEXT_UPDATED": EventDefinition("children", SharedContextUpdatedPayload),
    "PROMPT_BUILT": EventDefinition("workspace", PromptBuiltPayload),
    "THREAD_STARTED": EventDefinition("workspace", ThreadItem, meaning="A thread was started."),
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
    "LIVE_TURN": EventDefinition("workspace", LiveTurnPayload, journaled=False),
}
"""All events of this version. Unknown and transient names cannot be journaled."""
