"""Delegations as clients read them: payloads of events, and bodies of requests and responses.

Times are RFC 3339. Status: pending, dispatched, queued, unknown_after_send, completed, failed or cancelled. Phase,
which refines it: waiting, sending, retrying, claimed, working, asking, checking, needs_work or ended. See
docs/explanation/delegations.md.
"""

from enum import StrEnum

from msgspec import Struct

from molecule_core.wire.schemas.acceptance import AcceptanceReport
from molecule_core.wire.schemas.activity import ChatMessage
from molecule_core.wire.schemas.delegation_scope import DelegationScope


class DelegationStatus(StrEnum):
    """Status of a delegation."""

    PENDING = "pending"
    DISPATCHED = "dispatched"
    QUEUED = "queued"
    UNKNOWN = "unknown_after_send"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_ended(self) -> bool:
        """Return whether the status is final."""
        return self in (DelegationStatus.COMPLETED, DelegationStatus.FAILED, DelegationStatus.CANCELLED)


# -- events ------------------------------------------------------------------------------------------------------------


class DelegationSentPayload(Struct, frozen=True, omit_defaults=True):
    """A workspace delegated a task to another one.

    `seq`: of the row in the source's log; `task_preview`: at most 100 bytes. `parent_id`: the delegation that this
    one is part of; `root_id`: the top of its tree; `retry_of`: the delegation that this one retries; `may`: what it may
    do at most, if that is restricted."""

    delegation_id: str
    target_id: str
    task_preview: str
    seq: int
    root_id: str
    depth: int
    deadline_at: str
    parent_id: str | None = None
    retry_of: str | None = None
    may: DelegationScope | None = None


class DelegationStatusPayload(Struct, frozen=True, omit_defaults=True):
    """The status of a delegation changed.

    With `current_step`, `tools_used`, `eta_hint` or `percent` it only reports progress. Such an event has no `seq`
    and may be lost; the next one supersedes it."""

    delegation_id: str
    target_id: str
    status: str
    phase: str
    attempt: int = 0
    taken_at: str | None = None
    error: str | None = None
    current_step: str = ""
    tools_used: list[str] = []
    eta_hint: str = ""
    percent: int | None = None


class DelegationCompletePayload(Struct, frozen=True, omit_defaults=True):
    """A delegation was answered.

    `response_preview`: at most 200 bytes; `result_id`: the row with the full result in the inbox of the source;
    `via`: how the answer arrived; `verified`: it passed checks of the source."""

    delegation_id: str
    target_id: str
    response_preview: str
    via: str = ""
    result_id: str = ""
    verified: bool = False


class DelegationFailedPayload(Struct, frozen=True):
    """A delegation failed or was cancelled.

    `reason`: one of a closed list; `error`: the reason as text; `advice`: what to do about it."""

    delegation_id: str
    target_id: str
    error: str
    reason: str
    advice: str
    status: str


class DelegationRefusedPayload(Struct, frozen=True, omit_defaults=True):
    """A delegation was rejected by a limit before it began.

    `limit`: cycle, depth, children, root, open, org_open, or may (outside the scope of its parent; `use` and `most` are
    0 then); `use` of `most`: the current usage; `remedy`: what to do instead."""

    target_id: str
    task_preview: str
    limit: str
    use: int
    most: int
    remedy: str
    parent_id: str | None = None


# -- requests and responses --------------------------------------------------------------------------------------------


class DelegationProgress(Struct, frozen=True, omit_defaults=True):
    """Progress of a task as reported by its agent at the time `at`."""

    at: str = ""
    current_step: str = ""
    tools_used: list[str] = []
    eta_hint: str = ""
    percent: int | None = None


class DelegateResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The receipt of a delegation.

    `status`: `delegated` for a new one, as in the original API, else the current status; `state`: always the current
    status. `settled`: it has ended, and `result` is the answer. `delivered`: the result is `here`, was delivered
    `before` and is repeated here, or is a message in the `inbox`. `warning`: why it is unlikely to begin soon.
    `verified`: it is completed, and the answer passed the checks of the delegator. `may`: of a new one, what it may do
    at most, if that is restricted."""

    delegation_id: str
    status: str
    target_id: str
    state: str
    phase: str
    idempotent_hit: bool = False
    settled: bool = False
    result: str = ""
    delivered: str = ""
    error: str = ""
    reason: str = ""
    advice: str = ""
    retry_of: str = ""
    warning: str = ""
    message: str = ""
    verified: bool = False
    may: DelegationScope | None = None


class RecordDelegationResponse(Struct, frozen=True, omit_defaults=True):
    """The receipt of a delegation that was made over another channel and is only recorded. `status` is `recorded`."""

    delegation_id: str
    status: str
    idempotent_hit: bool = False


class UpdateDelegationResponse(Struct, frozen=True):
    """The status of a delegation after one side reported its end. A delegation that had ended before is unchanged."""

    delegation_id: str
    status: str


class ReportProgressResponse(Struct, frozen=True):
    """The result of a progress report.

    `status` is always `noted`, as older agents expect; `noted`: whether the progress is shown (false for a
    delegation that has ended); `delegation_status`: its current status."""

    status: str
    noted: bool
    delegation_status: str


class DelegationItem(Struct, frozen=True, kw_only=True):
    """A delegation in a list.

    `summary`: of the task; `error` and `error_detail` are equal, since older clients read the latter.
    `last_heartbeat`: the last activity of its work; `stuck`: that is too long ago. `queue_position`: number of rows
    ahead of it in the target's inbox while it waits there. `target_limited_until`: a vendor's limit keeps the target
    from working until then. `seq`: of the row in the source's log. `checks`: how many the answer must pass; `verified`:
    it is completed and passed them (a completed one without checks is answered, not verified)."""

    delegation_id: str
    source_id: str
    source_name: str
    target_id: str
    target_name: str
    summary: str
    status: str
    phase: str
    attempt: int
    reason: str | None
    error: str | None
    error_detail: str | None
    advice: str | None
    response_preview: str | None
    result: str | None
    via: str | None
    created_at: str
    updated_at: str
    taken_at: str | None
    last_heartbeat: str | None
    settled_at: str | None
    deadline: str
    stuck: bool
    parent_id: str | None
    root_id: str
    depth: int
    retry_of: str | None
    recorded: bool
    progress: DelegationProgress | None
    queue_position: int | None
    target_limited_until: str | None
    seq: int
    checks: int = 0
    verified: bool = False


class DelegationTimelineEntry(Struct, frozen=True):
    """An entry in the timeline of a delegation. `late`: it arrived after the end and had no effect."""

    at: str
    fact: str
    status: str
    phase: str
    attempt: int
    late: bool
    detail: str | None


class TreeDurations(Struct, frozen=True):
    """Seconds of waiting and of working."""

    waiting: float
    working: float


class TreeTotals(Struct, frozen=True):
    """Totals of a delegation and all delegations below it."""

    nodes: int
    open: int
    failed: int
    waiting: float
    working: float


class DelegationTreeNode(Struct, frozen=True, kw_only=True):
    """A delegation in a tree. Read access to the root includes the whole tree.

    `checks`: how many the answer must pass."""

    delegation_id: str
    status: str
    phase: str
    created_at: str
    taken_at: str | None
    settled_at: str | None
    source_id: str | None
    source_name: str | None
    target_id: str | None
    target_name: str | None
    summary: str | None
    attempt: int
    reason: str | None
    error: str | None
    advice: str | None
    response_preview: str | None
    last_heartbeat: str | None
    deadline: str | None
    stuck: bool
    parent_id: str | None
    depth: int
    retry_of: str | None
    progress: DelegationProgress | None
    own_seconds: TreeDurations
    subtree: TreeTotals
    children: "list[DelegationTreeNode]"
    checks: int = 0


class DelegationDetail(Struct, frozen=True, kw_only=True):
    """A delegation in full.

    `task` and `result` are complete; `timeline` holds the newest entries and `earlier` counts the ones before;
    `tree` is rooted at this delegation; `a2a_state` is the state in A2A terms; `acceptance`: the checks of the answer
    and what they found. `may`: what it may do at most; null: nothing restricts it."""

    delegation: DelegationItem
    task: str
    result: str | None
    timeline: list[DelegationTimelineEntry]
    earlier: int
    tree: DelegationTreeNode
    a2a_state: str
    acceptance: AcceptanceReport | None = None
    may: DelegationScope | None = None


class DelegationPage(Struct, frozen=True):
    """Delegations of an organisation, newest first, with the number of all `open` and all `stuck` ones."""

    delegations: list[DelegationItem]
    open: int
    stuck: int


class DelegationStats(Struct, frozen=True):
    """Counts of delegations by status and by reason, and the median duration in seconds."""

    by_status: dict[str, int]
    by_reason: dict[str, int]
    open: int
    stuck: int
    median_seconds: float | None


class TimelineMessage(ChatMessage, tag_field="kind", tag="message", omit_defaults=True):
    """A chat message in a timeline."""


class TimelineDelegation(DelegationItem, frozen=True, kw_only=True, tag_field="kind", tag="delegation"):
    """A delegation in the timeline of its workspace."""


class TimelinePage(Struct, frozen=True):
    """The chat and the delegations of a workspace merged, oldest first. `reached_end`: there are no older items."""

    items: list[TimelineMessage | TimelineDelegation]
    reached_end: bool
