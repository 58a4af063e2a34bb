"""Decisions about delegations: state transitions, limits, deadlines, texts. Pure functions.

`TRANSITIONS` is the whole life cycle; docs/explanation/delegations.md prints it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from molecule_core.common.clock import HOUR, SECOND
from molecule_core.common.limits import Limits
from molecule_core.common.text import quote_lines, truncate_line
from molecule_core.delegations.model import (
    Ancestor,
    Delegation,
    DelegationPhase,
    DelegationState,
    DelegationTransition,
    DelegationTrigger,
    FailureReason,
    GuardRejection,
)
from molecule_core.org.model import Heartbeat, WorkspaceStatus
from molecule_core.wire.schemas.acceptance import AcceptanceCheck
from molecule_core.wire.schemas.delegations import DelegationStatus

SENT, STATUS, COMPLETE, FAILED = "DELEGATION_SENT", "DELEGATION_STATUS", "DELEGATION_COMPLETE", "DELEGATION_FAILED"
REFUSED = "DELEGATION_REFUSED"
TASK_PREVIEW, RESPONSE_PREVIEW, LIST_PREVIEW = 100, 200, 300
"""Bytes of previews: of a task; of an answer in an event; of an answer in a list."""
VIA_CALLER, VIA_PERSON = "caller", "person"
"""How a delegation was cancelled."""
_NAME_LENGTH = 120
PARENT_CHECK_SECONDS = 60
"""A delegation with a parent is checked this long after its begin: the parent may have ended at the same moment, when
neither command saw the other."""

STATUS_RANK: Mapping[DelegationStatus, int] = {
    DelegationStatus.PENDING: 0,
    DelegationStatus.DISPATCHED: 1,
    DelegationStatus.QUEUED: 2,
    DelegationStatus.UNKNOWN: 3,
    DelegationStatus.COMPLETED: 4,
    DelegationStatus.FAILED: 4,
    DelegationStatus.CANCELLED: 4,
}
"""A status is never replaced by one of a lower rank."""


class DelegationTransitionRule(NamedTuple):
    """Effect of a trigger in one status. None: unchanged.

    `repeat`: apply the same trigger again in the new status. `new_attempt_only`: only if the delivery attempt is new or
    the delegation is waiting, because a released message is shown to a cursor reader under its previous attempt.
    `is_late`: nothing changes, but the trigger is added to the timeline."""

    status: DelegationStatus | None = None
    phase: DelegationPhase | None = None
    event: str | None = None
    reason: FailureReason | None = None
    repeat: bool = False
    new_attempt_only: bool = False
    is_late: bool = False


NO_CHANGE, LATE_RULE = DelegationTransitionRule(), DelegationTransitionRule(is_late=True)
_OPEN_STATUSES = (
    DelegationStatus.PENDING,
    DelegationStatus.DISPATCHED,
    DelegationStatus.QUEUED,
    DelegationStatus.UNKNOWN,
)
_UNSENT_STATUSES = (DelegationStatus.PENDING, DelegationStatus.DISPATCHED, DelegationStatus.QUEUED)
_ENDED_STATUSES = (DelegationStatus.COMPLETED, DelegationStatus.FAILED, DelegationStatus.CANCELLED)
RulesByStatus = dict[DelegationStatus, DelegationTransitionRule]


def _for_statuses(statuses: Sequence[DelegationStatus], rule: DelegationTransitionRule) -> RulesByStatus:
    return dict.fromkeys(statuses, rule)


def _move_to(
    status: DelegationStatus | None, phase: DelegationPhase, *, repeat: bool = False, new_attempt_only: bool = False
) -> DelegationTransitionRule:
    return DelegationTransitionRule(status, phase, STATUS, None, repeat, new_attempt_only)


def _end_with(status: DelegationStatus, event: str, reason: FailureReason | None = None) -> DelegationTransitionRule:
    return DelegationTransitionRule(status, DelegationPhase.ENDED, event, reason)


_TO_QUEUE = _move_to(DelegationStatus.QUEUED, DelegationPhase.WAITING)
_TO_CLAIMED = {
    **_for_statuses(_UNSENT_STATUSES, _move_to(DelegationStatus.QUEUED, DelegationPhase.CLAIMED)),
    DelegationStatus.UNKNOWN: _move_to(None, DelegationPhase.CLAIMED),
}
_RULES: dict[DelegationTrigger, RulesByStatus] = {
    DelegationTrigger.SENT: {
        DelegationStatus.PENDING: _move_to(DelegationStatus.DISPATCHED, DelegationPhase.SENDING),
        **_for_statuses(
            (DelegationStatus.DISPATCHED, DelegationStatus.QUEUED),
            _move_to(None, DelegationPhase.SENDING, new_attempt_only=True),
        ),
        **_for_statuses(_ENDED_STATUSES, LATE_RULE),
    },
    DelegationTrigger.STORED: {
        DelegationStatus.PENDING: _move_to(DelegationStatus.DISPATCHED, DelegationPhase.WAITING, repeat=True),
        DelegationStatus.DISPATCHED: _TO_QUEUE,
    },
    DelegationTrigger.PARKED: _for_statuses((DelegationStatus.PENDING, DelegationStatus.DISPATCHED), _TO_QUEUE),
    DelegationTrigger.CLAIMED: {
        **_TO_CLAIMED,
        DelegationStatus.QUEUED: _move_to(None, DelegationPhase.CLAIMED, new_attempt_only=True),
        **_for_statuses(_ENDED_STATUSES, LATE_RULE),
    },
    DelegationTrigger.RELEASED: _for_statuses(
        (DelegationStatus.DISPATCHED, DelegationStatus.QUEUED), _move_to(None, DelegationPhase.WAITING)
    ),
    DelegationTrigger.BUSY: {**_for_statuses(_UNSENT_STATUSES, _TO_QUEUE), **_for_statuses(_ENDED_STATUSES, LATE_RULE)},
    DelegationTrigger.RETRY: {
        **_for_statuses(_UNSENT_STATUSES, _move_to(None, DelegationPhase.RETRYING)),
        **_for_statuses(_ENDED_STATUSES, LATE_RULE),
    },
    DelegationTrigger.ACCEPTED: {**_TO_CLAIMED, **_for_statuses(_ENDED_STATUSES, LATE_RULE)},
    DelegationTrigger.OUTCOME_UNKNOWN: {
        **_for_statuses(_UNSENT_STATUSES, _move_to(DelegationStatus.UNKNOWN, DelegationPhase.WAITING)),
        **_for_statuses(_ENDED_STATUSES, LATE_RULE),
    },
    DelegationTrigger.ASKED: {
        **_for_statuses(_UNSENT_STATUSES, _move_to(DelegationStatus.QUEUED, DelegationPhase.ASKING)),
        DelegationStatus.UNKNOWN: _move_to(None, DelegationPhase.ASKING),
        **_for_statuses(_ENDED_STATUSES, LATE_RULE),
    },
    DelegationTrigger.PROGRESS: {
        **_for_statuses(_OPEN_STATUSES, _move_to(None, DelegationPhase.WORKING)),
        **_for_statuses(_ENDED_STATUSES, LATE_RULE),
    },
    DelegationTrigger.ANSWERED: {
        **_for_statuses(_OPEN_STATUSES, _end_with(DelegationStatus.COMPLETED, COMPLETE)),
        **_for_statuses(_ENDED_STATUSES, LATE_RULE),
    },
    DelegationTrigger.SUBMITTED: {
        **_for_statuses(_UNSENT_STATUSES, _move_to(DelegationStatus.QUEUED, DelegationPhase.CHECKING)),
        DelegationStatus.UNKNOWN: _move_to(None, DelegationPhase.CHECKING),
        **_for_statuses(_ENDED_STATUSES, LATE_RULE),
    },
    DelegationTrigger.PROVEN: _for_statuses(_OPEN_STATUSES, _end_with(DelegationStatus.COMPLETED, COMPLETE)),
    DelegationTrigger.RETURNED: _for_statuses(_OPEN_STATUSES, _move_to(None, DelegationPhase.NEEDS_WORK)),
    DelegationTrigger.UNPROVEN: _for_statuses(
        _OPEN_STATUSES, _end_with(DelegationStatus.FAILED, FAILED, FailureReason.UNPROVEN)
    ),
    DelegationTrigger.DECLINED: {
        **_for_statuses(_OPEN_STATUSES, _end_with(DelegationStatus.FAILED, FAILED, FailureReason.REJECTED)),
        **_for_statuses(_ENDED_STATUSES, LATE_RULE),
    },
    DelegationTrigger.DELIVERY_FAILED: {
        **_for_statuses(_OPEN_STATUSES, _end_with(DelegationStatus.FAILED, FAILED)),
        **_for_statuses(_ENDED_STATUSES, LATE_RULE),
    },
    DelegationTrigger.EXPIRED: _for_statuses(
        _OPEN_STATUSES, _end_with(DelegationStatus.FAILED, FAILED, FailureReason.EXPIRED)
    ),
    DelegationTrigger.CANCELLED: _for_statuses(
        _OPEN_STATUSES, _end_with(DelegationStatus.CANCELLED, FAILED, FailureReason.CANCELLED)
    ),
    DelegationTrigger.TARGET_REMOVED: _for_statuses(
        _OPEN_STATUSES, _end_with(DelegationStatus.FAILED, FAILED, FailureReason.TARGET_REMOVED)
    ),
    DelegationTrigger.REPORTED_DONE: {
        **_for_statuses(_OPEN_STATUSES, _end_with(DelegationStatus.COMPLETED, COMPLETE)),
        **_for_statuses(_ENDED_STATUSES, LATE_RULE),
    },
    DelegationTrigger.REPORTED_FAILED: {
        **_for_statuses(_OPEN_STATUSES, _end_with(DelegationStatus.FAILED, FAILED, FailureReason.REPORTED)),
        **_for_statuses(_ENDED_STATUSES, LATE_RULE),
    },
    DelegationTrigger.OUTCOME_UNKNOWN_TOO_LONG: {
        DelegationStatus.UNKNOWN: _end_with(DelegationStatus.FAILED, FAILED, FailureReason.UNKNOWN_OUTCOME)
    },
}
TRANSITIONS: Mapping[tuple[DelegationTrigger, DelegationStatus], DelegationTransitionRule] = {
    (trigger, status): cells.get(status, NO_CHANGE) for trigger, cells in _RULES.items() for status in DelegationStatus
}
"""Every trigger in every status."""
_CLAIMING_TRIGGERS = (
    DelegationTrigger.CLAIMED,
    DelegationTrigger.ACCEPTED,
    DelegationTrigger.ASKED,
    DelegationTrigger.PROGRESS,
    DelegationTrigger.SUBMITTED,
)
WHILE_CHECKING = (
    DelegationTrigger.PROVEN,
    DelegationTrigger.RETURNED,
    DelegationTrigger.UNPROVEN,
    DelegationTrigger.DECLINED,
    DelegationTrigger.EXPIRED,
    DelegationTrigger.CANCELLED,
    DelegationTrigger.TARGET_REMOVED,
)
"""The triggers that have an effect while an answer is checked."""

ADVICE: Mapping[FailureReason, str] = {
    FailureReason.REJECTED: "The target declined. Read its reason, then delegate again or to another workspace.",
    FailureReason.EXPIRED: "The deadline passed. Set a longer deadline_seconds, or check what the target is doing.",
    FailureReason.CANCELLED: "The delegation was cancelled. Start a new one if you still need the result.",
    FailureReason.UNREACHABLE: "The target's URL failed to respond twice. Check it and the target's log, then retry.",
    FailureReason.REFUSED: "The target rejected the request (4xx). Read its answer and change the task: a retry alone "
    "will fail again.",
    FailureReason.AGENT_ERROR: "The target answered with an error. Read the error, change the task, then retry.",
    FailureReason.UNSAFE_URL: "The target's URL leads to an address that this server must not call. "
    "Ask an operator to change the URL.",
    FailureReason.BAD_ANSWER: "The target's answer was not valid JSON. Ask the target's operator to check the agent.",
    FailureReason.TARGET_REMOVED: "The target was removed. Choose another workspace.",
    FailureReason.UNKNOWN_OUTCOME: "The task was sent, but no answer arrived. The task may have been done: ask the "
    "target before you retry.",
    FailureReason.UNPROVEN: "No answer passed the checks. Read the evidence, then change the task or its checks, or "
    "delegate to another workspace.",
    FailureReason.REPORTED: "The source reported the end itself. Read its report.",
}
"""What to do about each failure reason."""
NO_REASON = "none"
OUTCOMES = (
    (DelegationStatus.COMPLETED.value, NO_REASON),
    (DelegationStatus.CANCELLED.value, FailureReason.CANCELLED.value),
    *(
        (DelegationStatus.FAILED.value, reason.value)
        for reason in FailureReason
        if reason is not FailureReason.CANCELLED
    ),
)
"""Every outcome as metrics count it: status and reason."""


def transitions_for(
    state: DelegationState, trigger: DelegationTrigger, *, attempt: int = 0, reason: FailureReason | None = None
) -> tuple[DelegationTransition, ...]:
    """Return the transitions that a trigger causes, in order; none if it changes nothing.

    `attempt`: the delivery attempt that the trigger is about; one older than the known attempt counts as the known one.
    `reason`: of GAVE_UP."""
    found: list[DelegationTransition] = []
    if state.phase is DelegationPhase.CHECKING and trigger not in WHILE_CHECKING:
        return ()
    while True:
        rule = TRANSITIONS[trigger, state.status]
        if rule.is_late:
            return (*found, DelegationTransition(state.status, state.phase, state.attempt, None, is_late=True))
        after = DelegationState(rule.status or state.status, rule.phase or state.phase, max(state.attempt, attempt))
        is_known = after.attempt == state.attempt and state.phase is not DelegationPhase.WAITING
        if rule == NO_CHANGE or after == state or (rule.new_attempt_only and is_known):
            return tuple(found)
        is_claimed = trigger in _CLAIMING_TRIGGERS
        found.append(
            DelegationTransition(
                after.status, after.phase, after.attempt, rule.event, rule.reason or reason, is_claimed
            )
        )
        if not rule.repeat:
            return tuple(found)
        state = after


def must_park(status: WorkspaceStatus, *, is_limited: bool, active: int, capacity: int, ahead: int) -> bool:
    """Return whether a new delegation must wait before it is posted to its push agent.

    `active` of `capacity`: the agent's tasks in progress. `ahead`: messages that wait before this one."""
    return is_limited or status in UNAVAILABLE_STATUSES or active >= capacity or ahead > 0


UNAVAILABLE_STATUSES = (
    WorkspaceStatus.PAUSED,
    WorkspaceStatus.OFFLINE,
    WorkspaceStatus.AWAITING_AGENT,
    WorkspaceStatus.DEGRADED,
    WorkspaceStatus.FAILED,
    WorkspaceStatus.HIBERNATED,
)


# -- limits ------------------------------------------------------------------------------------------------------------


def check_limits(
    lineage: Sequence[Ancestor], target_id: str, task_hash: str, open_children: int, limits: Limits
) -> GuardRejection | None:
    """Return the limit that stops a new delegation below others, or None.

    `lineage`: the parent, its parent and so on up to the root."""
    if not lineage:
        return None
    cycles = [each for each in lineage if each.task_hash == task_hash and target_id in (each.source_id, each.target_id)]
    if cycles:  # control: delegation-cycle
        what = "this target already has the same task above this delegation"
        remedy = "Do the task here, or answer your own delegation with what you know."
        return GuardRejection("cycle", len(cycles), 1, what, remedy)
    if lineage[0].depth >= limits.delegation_depth:  # control: delegation-depth
        what = "the limit of levels of delegations is reached"
        remedy = "Do the task here, or answer your own delegation and name what is missing."
        return GuardRejection("depth", lineage[0].depth, limits.delegation_depth, what, remedy)
    if open_children >= limits.delegation_children:  # control: delegation-children
        what = "the limit of open delegations below this one is reached"
        remedy = "Wait for their results, or cancel some."
        return GuardRejection("children", open_children, limits.delegation_children, what, remedy)
    return None


def open_rejection(open_counts: Mapping[str, int], source_id: str, limits: Limits) -> GuardRejection | None:
    """Return the limit of open delegations that is reached, or None.

    `open_counts`: by workspace; '' for the whole organisation."""
    own, of_org = open_counts.get(source_id, 0), open_counts.get("", 0)
    if own >= limits.delegations_open:
        what, remedy = "the limit of open delegations of this workspace is reached", "Wait for results, or cancel some."
        return GuardRejection("open", own, limits.delegations_open, what, remedy)
    if of_org >= limits.org_delegations_open:
        what = "the limit of open delegations of this organisation is reached"
        remedy = "Wait for results, cancel some, or ask the operator of the server to raise org_delegations_open."
        return GuardRejection("org_open", of_org, limits.org_delegations_open, what, remedy)
    return None


def tree_limit_rejection(root_use: int, limits: Limits) -> GuardRejection:
    """Return the rejection of a tree that has no numbers left."""
    what = "the limit of delegations in one tree, ended ones included, is reached"
    remedy = "Do the rest here, or ask the first delegator to start a new tree."
    return GuardRejection("root", root_use, limits.delegations_per_root, what, remedy)


def task_hash(parts: Sequence[Mapping[str, Any]], checks: Sequence[AcceptanceCheck] = ()) -> str:
    """Hash a task by its parts, ignoring white space in their texts, and by its checks."""
    plain: list[Any] = [{**part, "text": " ".join(part["text"].split())} if "text" in part else part for part in parts]
    plain += checks
    return hashlib.blake2b(msgspec.json.encode(plain, order="deterministic"), digest_size=16).hexdigest()


# -- time --------------------------------------------------------------------------------------------------------------


def deadline_of(seconds: int | None, now: int, limits: Limits) -> int:
    """Return the deadline of a delegation that begins now."""
    return now + min(seconds or limits.delegation_seconds, limits.delegation_most_seconds) * SECOND


def is_key_valid(created_at: int, now: int, limits: Limits) -> bool:
    """Return whether an idempotency key created at `created_at` is still valid."""
    return created_at > now - limits.delegation_key_hours * HOUR


def is_outcome_unknown(row: Delegation) -> bool:
    """Return whether nothing came from the target since an unanswered send."""
    return row.status is DelegationStatus.UNKNOWN and row.phase is DelegationPhase.WAITING


def next_check_at(row: Delegation, now: int, limits: Limits) -> int:
    """Return when a delegation must be checked next."""
    due = [row.deadline_at]
    if row.unsure_at is not None and is_outcome_unknown(row):
        due.append(row.unsure_at + limits.delegation_unknown_seconds * SECOND)
    if row.parent_id is not None and now < row.created_at + PARENT_CHECK_SECONDS * SECOND:
        due.append(row.created_at + PARENT_CHECK_SECONDS * SECOND)
    return min(due)


def stuck_since(row: Delegation, heartbeat: Heartbeat, now: int, limits: Limits) -> int | None:
    """Return since when a claimed delegation shows no sign of work, or None if it is not stuck.

    A heartbeat of an agent that reports to be working counts as a sign."""
    if row.status.is_ended or row.taken_at is None:
        return None
    return unseen_since(row.life_at, heartbeat, now, limits)


def unseen_since(life_at: int, heartbeat: Heartbeat, now: int, limits: Limits) -> int | None:
    """Return the same for a claimed, open delegation by its last sign of life."""
    is_at_work = bool(heartbeat.current_task) or heartbeat.active_tasks > 0
    seen = max(life_at, heartbeat.heard_at) if is_at_work else life_at
    return seen if now - seen > limits.delegation_stuck_seconds * SECOND else None


# -- text --------------------------------------------------------------------------------------------------------------


def truncate_utf8(text: str, max_bytes: int) -> str:
    """Cut a text to `max_bytes` of UTF-8 at a character boundary."""
    whole = text.encode()
    return text if len(whole) <= max_bytes else whole[:max_bytes].decode(errors="ignore")


def preview_of(text: str | None) -> str | None:
    """Cut a text to what lists, events and timelines show."""
    return None if text is None else truncate_utf8(text, LIST_PREVIEW)


def abbreviate(row: Delegation) -> Delegation:
    """Return a row with its texts cut to what lists show."""
    task, error, result = truncate_utf8(row.task, TASK_PREVIEW), preview_of(row.error), preview_of(row.result)
    return replace(row, task=task, error=error, result=result)


def failure_text(reason: FailureReason, error: str, via: str | None) -> str:
    """Return the text of a failure for the caller, with advice. What a person wrote is attributed and quoted."""
    if via == VIA_PERSON:
        return f"{ADVICE[reason]} ({reason})\n\nReason given by a person:\n{quote_lines(error)}"
    return f"{error} ({reason}). {ADVICE[reason]}"


def end_notice(row: Delegation, source_name: str, why: str, explanation: str, author: str) -> str:
    """Return the notice to the target that its task has ended.

    Text of the server comes first. The task and the words of `author` are of other parties: each line is quoted, so
    that it cannot imitate the server. Without `author`, the explanation is the server's own."""
    source = truncate_line(source_name, _NAME_LENGTH) or "another workspace"
    own = "" if author else f": {explanation}"
    lines = [f"A task that {source!r} delegated to you has ended ({why}){own}. Its result is no longer needed."]
    lines += ["", f"Task from {source!r}:", quote_lines(truncate_utf8(row.task, TASK_PREVIEW))]
    if author:
        lines += ["", f"Reason given by {truncate_line(author, _NAME_LENGTH)!r}:", quote_lines(explanation)]
    return "\n".join(lines)


def a2a_state(row: Delegation, *, needs_approval: bool = False) -> str:
    """Return the A2A state. A delegation that was claimed is never `submitted` again.

    `needs_approval`: the work waits for an approval."""
    if row.open and needs_approval:
        return "auth-required"
    if row.status is DelegationStatus.COMPLETED:
        return "completed"
    if row.status is DelegationStatus.CANCELLED:
        return "canceled"
    if row.status is DelegationStatus.FAILED:
        return "rejected" if row.reason is FailureReason.REJECTED else "failed"
    if row.phase is DelegationPhase.ASKING:
        return "input-required"
    return "submitted" if row.taken_at is None else "working"


def outcome_labels(row: Delegation) -> tuple[str, str]:
    """Return the metric labels of an ended delegation: status and reason."""
    return row.status.value, NO_REASON if row.reason is None else row.reason.value


def is_verified(row: Delegation) -> bool:
    """Return whether a delegation is completed and its answer passed checks."""
    return row.status is DelegationStatus.COMPLETED and row.checks > 0


def queue_status(row: Delegation) -> str:
    """Return the delivery status for the sender of the message."""
    ended = {
        DelegationStatus.COMPLETED: "completed",
        DelegationStatus.FAILED: "failed",
        DelegationStatus.CANCELLED: "dropped",
    }
    return ended.get(row.status) or ("queued" if row.taken_at is None else "dispatched")


def render_table() -> str:
    """Render the transition table for docs/explanation/delegations.md."""
    header = "| fact | " + " | ".join(f"`{status}`" for status in DelegationStatus) + " |"
    rows = [
        "| " + " | ".join([f"`{trigger}`", *(_cell(trigger, status) for status in DelegationStatus)]) + " |"
        for trigger in DelegationTrigger
    ]
    checking = ", ".join(f"`{trigger}`" for trigger in WHILE_CHECKING)
    note = f"While an answer is checked (phase `{DelegationPhase.CHECKING}`), only these have an effect: {checking}."
    return "\n".join((header, "|---" * (len(DelegationStatus) + 1) + "|", *rows, "", note))


def _cell(trigger: DelegationTrigger, status: DelegationStatus) -> str:
    rule = TRANSITIONS[trigger, status]
    if rule == NO_CHANGE:
        return ""
    if rule.is_late:
        return "late"
    reason = f" ({rule.reason})" if rule.reason is not None else ""
    cell = f"{rule.status or status}/{rule.phase}{reason} {(rule.event or '').removeprefix('DELEGATION_')}"
    if rule.new_attempt_only:
        return f"{cell}, if the attempt is new or it was waiting"
    return f"{cell}, then {_cell(trigger, rule.status)}" if rule.repeat and rule.status is not None else cell
