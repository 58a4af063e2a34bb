"""Delegations as every client reads them: what their events say, and what the routes take and give.

Times are RFC 3339. A status is one of pending, dispatched, queued, unknown_after_send, completed, failed, cancelled;
the phase beside it says what happens within: waiting, sending, retrying, claimed, working, ended. docs/delegations.md.
"""

from msgspec import Struct

from molecule_core.wire.schemas.activity import ChatMessage

# -- events ------------------------------------------------------------------------------------------------------------


class DelegationSentPayload(Struct, frozen=True, omit_defaults=True):
    """A workspace gave work to another one. `seq`: the place of its own row in its log; `task_preview`: at most 100
    bytes. `parent_id`: the delegation that this one is part of, `root_id` the first of all, `retry_of` the one that is
    tried again."""

    delegation_id: str
    target_id: str
    task_preview: str
    seq: int
    root_id: str
    depth: int
    deadline_at: str
    parent_id: str | None = None
    retry_of: str | None = None


class DelegationStatusPayload(Struct, frozen=True, omit_defaults=True):
    """A delegation stands at another place now. With `current_step`, `tools_used`, `eta_hint` or `percent` it changes
    nothing and only tells how far the work is: such an event has no `seq`, and the next one makes up for it."""

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
    """A delegation is answered. `response_preview`: at most 200 bytes; `result_id`: the row that holds all of it, in
    the inbox of who delegated; `via`: how the answer came."""

    delegation_id: str
    target_id: str
    response_preview: str
    via: str = ""
    result_id: str = ""


class DelegationFailedPayload(Struct, frozen=True):
    """A delegation has ended without an answer, as failed or cancelled: why (`reason`, of a closed list), in what
    words (`error`), and what to do about it (`advice`)."""

    delegation_id: str
    target_id: str
    error: str
    reason: str
    advice: str
    status: str


class DelegationRefusedPayload(Struct, frozen=True, omit_defaults=True):
    """A guard stopped a delegation before it began: the limit (cycle, depth, children or root), how much of it is in
    use, and what to do instead."""

    target_id: str
    task_preview: str
    limit: str
    use: int
    most: int
    remedy: str
    parent_id: str | None = None


# -- what the routes take and give -------------------------------------------------------------------------------------


class DelegationProgress(Struct, frozen=True, omit_defaults=True):
    """How far the work is, in the words of who does it: said `at` a time."""

    at: str = ""
    current_step: str = ""
    tools_used: list[str] = []
    eta_hint: str = ""
    percent: int | None = None


class DelegateResponse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The receipt of a delegation. `status`: `delegated` for a new one, as the original says it, else how it stands;
    `state`: always how it stands. `settled`: it has ended, and `result` is the answer. `delivered`: the text is
    `here`, was handed over `before` and stands here once more, or is a message in the `inbox`. `warning`: why it will
    hardly begin soon."""

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


class RecordDelegationResponse(Struct, frozen=True, omit_defaults=True):
    """The receipt of a delegation that went another way and is only noted: `status` is `recorded`."""

    delegation_id: str
    status: str
    idempotent_hit: bool = False


class UpdateDelegationResponse(Struct, frozen=True):
    """How a delegation stands behind what one of its sides said of its end. One that had ended stays as it was."""

    delegation_id: str
    status: str


class ReportProgressResponse(Struct, frozen=True):
    """What became of a report of progress: `status` is always `noted`, as older agents expect it; `noted`: it is
    shown, which it is not of what has ended; `delegation_status`: how the delegation stands."""

    status: str
    noted: bool
    delegation_status: str


class DelegationItem(Struct, frozen=True, kw_only=True):
    """A delegation in a list. `summary`: of the task; `error` and `error_detail` are the same text: older clients read
    the second. `last_heartbeat`: the last sign of life of its work; `stuck`: there was none for too long.
    `queue_position`: how many rows are before it in the target's inbox, while it waits there. `seq`: of the row in the
    log of its source."""

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
    seq: int


class DelegationTimelineEntry(Struct, frozen=True):
    """One line of the time line of a delegation. `late`: it came after the end and has changed nothing."""

    at: str
    fact: str
    status: str
    phase: str
    attempt: int
    late: bool
    detail: str | None


class TreeDurations(Struct, frozen=True):
    """How long something waited, and how long somebody worked on it."""

    waiting: float
    working: float


class TreeTotals(Struct, frozen=True):
    """A delegation and all below it, summed up."""

    nodes: int
    open: int
    failed: int
    waiting: float
    working: float


class DelegationTreeNode(Struct, frozen=True, kw_only=True):
    """A delegation in a tree. Who may read its top may read all of it."""

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


class DelegationDetail(Struct, frozen=True, kw_only=True):
    """All about one delegation: `task` and `result` in full, the end of its time line and how many lines stand before
    it, the tree that it is the top of, and its state as A2A calls it."""

    delegation: DelegationItem
    task: str
    result: str | None
    timeline: list[DelegationTimelineEntry]
    earlier: int
    tree: DelegationTreeNode
    a2a_state: str


class DelegationPage(Struct, frozen=True):
    """Delegations of an organisation, newest first; how many are open in all, and how many of those are stuck."""

    delegations: list[DelegationItem]
    open: int
    stuck: int


class DelegationStats(Struct, frozen=True):
    """Delegations by status and by reason, and the median of seconds from begin to end."""

    by_status: dict[str, int]
    by_reason: dict[str, int]
    open: int
    stuck: int
    median_seconds: float | None


class TimelineMessage(ChatMessage, tag_field="kind", tag="message", omit_defaults=True):
    """A line of the chat on a time line."""


class TimelineDelegation(DelegationItem, frozen=True, kw_only=True, tag_field="kind", tag="delegation"):
    """A delegation of the workspace on its time line."""


class TimelinePage(Struct, frozen=True):
    """What a workspace and its users said and what it delegated, in one order, oldest first. `reached_end`: nothing
    older is there."""

    items: list[TimelineMessage | TimelineDelegation]
    reached_end: bool
