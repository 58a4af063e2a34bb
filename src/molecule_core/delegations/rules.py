"""Decisions about delegations: what each fact does, who is stopped, what is due, in which words. Pure.

`TABLE` is the whole life cycle; docs/delegations.md prints it.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from molecule_core.delegations.model import (
    Ancestor,
    Deed,
    Delegation,
    Fact,
    Phase,
    Reason,
    Refused,
    Stands,
    Status,
)
from molecule_core.ground.clock import HOUR, SECOND
from molecule_core.ground.limits import Limits
from molecule_core.org.model import PUSH, Pulse
from molecule_core.org.model import Status as Standing

SENT, STATUS, COMPLETE, FAILED = "DELEGATION_SENT", "DELEGATION_STATUS", "DELEGATION_COMPLETE", "DELEGATION_FAILED"
REFUSED = "DELEGATION_REFUSED"
TASK_PREVIEW, RESPONSE_PREVIEW, LIST_PREVIEW = 100, 200, 300
"""Bytes of previews: of a task; of an answer in an event, and in a list."""
CHECK_SECONDS = 60
"""So long after its begin a delegation with a parent is looked at: the parent may have ended in the very moment in
which this one began, where neither saw the other."""

RANK: Mapping[Status, int] = {
    Status.PENDING: 0,
    Status.DISPATCHED: 1,
    Status.QUEUED: 2,
    Status.UNKNOWN: 3,
    Status.COMPLETED: 4,
    Status.FAILED: 4,
    Status.CANCELLED: 4,
}
"""A status never gives way to one of a lower rank."""


class Row(NamedTuple):
    """What a fact does in one status. None: stays as it is. `again`: and then the same fact once more, in the new
    status. `fresh`: only if the hand-over is another one than before, or nobody has it in hand: what was given back is
    shown to a reader by cursor under the attempt that it had. `late`: nothing, but it is noted."""

    status: Status | None = None
    phase: Phase | None = None
    event: str | None = None
    reason: Reason | None = None
    again: bool = False
    fresh: bool = False
    late: bool = False


NOTHING, LATE = Row(), Row(late=True)
_OPEN = (Status.PENDING, Status.DISPATCHED, Status.QUEUED, Status.UNKNOWN)
_UNSENT = (Status.PENDING, Status.DISPATCHED, Status.QUEUED)
_ENDED = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)
Cells = dict[Status, Row]


def _all(statuses: Sequence[Status], row: Row) -> Cells:
    return dict.fromkeys(statuses, row)


def _to(status: Status | None, phase: Phase, *, again: bool = False, fresh: bool = False) -> Row:
    return Row(status, phase, STATUS, None, again, fresh)


def _end(status: Status, event: str, reason: Reason | None = None) -> Row:
    return Row(status, Phase.ENDED, event, reason)


_TO_QUEUE = _to(Status.QUEUED, Phase.WAITING)
_IN_HAND = {**_all(_UNSENT, _to(Status.QUEUED, Phase.CLAIMED)), Status.UNKNOWN: _to(None, Phase.CLAIMED)}
_TOLD: dict[Fact, Cells] = {
    Fact.SENT: {
        Status.PENDING: _to(Status.DISPATCHED, Phase.SENDING),
        **_all((Status.DISPATCHED, Status.QUEUED), _to(None, Phase.SENDING, fresh=True)),
        **_all(_ENDED, LATE),
    },
    Fact.STORED: {
        Status.PENDING: _to(Status.DISPATCHED, Phase.WAITING, again=True),
        Status.DISPATCHED: _TO_QUEUE,
    },
    Fact.PARKED: _all((Status.PENDING, Status.DISPATCHED), _TO_QUEUE),
    Fact.CLAIMED: {**_IN_HAND, Status.QUEUED: _to(None, Phase.CLAIMED, fresh=True), **_all(_ENDED, LATE)},
    Fact.RETURNED: _all((Status.DISPATCHED, Status.QUEUED), _to(None, Phase.WAITING)),
    Fact.BUSY: {**_all(_UNSENT, _TO_QUEUE), **_all(_ENDED, LATE)},
    Fact.RETRY: {**_all(_UNSENT, _to(None, Phase.RETRYING)), **_all(_ENDED, LATE)},
    Fact.ACCEPTED: {**_IN_HAND, **_all(_ENDED, LATE)},
    Fact.UNSURE: {**_all(_UNSENT, _to(Status.UNKNOWN, Phase.WAITING)), **_all(_ENDED, LATE)},
    Fact.PROGRESS: {**_all(_OPEN, _to(None, Phase.WORKING)), **_all(_ENDED, LATE)},
    Fact.ANSWERED: {**_all(_OPEN, _end(Status.COMPLETED, COMPLETE)), **_all(_ENDED, LATE)},
    Fact.DECLINED: {**_all(_OPEN, _end(Status.FAILED, FAILED, Reason.REJECTED)), **_all(_ENDED, LATE)},
    Fact.GAVE_UP: {**_all(_OPEN, _end(Status.FAILED, FAILED)), **_all(_ENDED, LATE)},
    Fact.EXPIRED: _all(_OPEN, _end(Status.FAILED, FAILED, Reason.EXPIRED)),
    Fact.CANCELLED: _all(_OPEN, _end(Status.CANCELLED, FAILED, Reason.CANCELLED)),
    Fact.TARGET_GONE: _all(_OPEN, _end(Status.FAILED, FAILED, Reason.TARGET_REMOVED)),
    Fact.REPORTED_DONE: {**_all(_OPEN, _end(Status.COMPLETED, COMPLETE)), **_all(_ENDED, LATE)},
    Fact.REPORTED_FAILED: {**_all(_OPEN, _end(Status.FAILED, FAILED, Reason.REPORTED)), **_all(_ENDED, LATE)},
    Fact.UNSURE_TOO_LONG: {Status.UNKNOWN: _end(Status.FAILED, FAILED, Reason.UNKNOWN_OUTCOME)},
}
TABLE: Mapping[tuple[Fact, Status], Row] = {
    (fact, status): cells.get(status, NOTHING) for fact, cells in _TOLD.items() for status in Status
}
"""Every fact in every status."""
_IN_HAND_BY = (Fact.CLAIMED, Fact.ACCEPTED, Fact.PROGRESS)

ADVICE: Mapping[Reason, str] = {
    Reason.REJECTED: "The target declined: read its reason, ask it or somebody else.",
    Reason.EXPIRED: "The deadline passed. Give more time with deadline_seconds, or look at what the target does.",
    Reason.CANCELLED: "It was cancelled; begin a new one if it is still wanted.",
    Reason.UNREACHABLE: "The target's address did not answer twice. Look at its url and its log, then retry.",
    Reason.REFUSED: "The target answered with a refusal (4xx). Look at what it said; a retry alone will not help.",
    Reason.AGENT_ERROR: "The target answered with an error. Read it, change the task, retry.",
    Reason.UNSAFE_URL: "The target's url leads to an address that this server may not call. "
    "An operator must change it.",
    Reason.BAD_ANSWER: "The target's answer was no usable JSON. Its operator must look at it.",
    Reason.TARGET_REMOVED: "The target was removed. Choose another workspace.",
    Reason.UNKNOWN_OUTCOME: "The task was sent and no answer came. It may have been done: ask the target before you "
    "retry.",
    Reason.REPORTED: "The caller reported this itself.",
}
"""What to do about each way of failing."""
NO_REASON = "none"
OUTCOMES = (
    (Status.COMPLETED.value, NO_REASON),
    (Status.CANCELLED.value, Reason.CANCELLED.value),
    *((Status.FAILED.value, reason.value) for reason in Reason if reason is not Reason.CANCELLED),
)
"""Every way to end, as it is counted: the status and the reason."""


def decide(stands: Stands, fact: Fact, *, attempt: int = 0, reason: Reason | None = None) -> tuple[Deed, ...]:
    """What a fact does, one after the other; nothing if it changes nothing. `attempt`: the hand-over that it is about;
    an older one than is known counts as that. `reason`: of GAVE_UP."""
    found: list[Deed] = []
    while True:
        row = TABLE[fact, stands.status]
        if row.late:
            return (*found, Deed(stands.status, stands.phase, stands.attempt, None, late=True))
        after = Stands(row.status or stands.status, row.phase or stands.phase, max(stands.attempt, attempt))
        is_known = after.attempt == stands.attempt and stands.phase is not Phase.WAITING
        if row == NOTHING or after == stands or (row.fresh and is_known):
            return tuple(found)
        taken = fact in _IN_HAND_BY
        found.append(Deed(after.status, after.phase, after.attempt, row.event, row.reason or reason, taken))
        if not row.again:
            return tuple(found)
        stands = after


def starts(mode: str, status: Standing, *, active: int, capacity: int, ahead: int) -> tuple[Fact, ...]:
    """What happens to a delegation in the moment it begins: how its target gets messages, how it stands, how much it
    has in hand of how much it can, and how many messages wait before this one."""
    if mode != PUSH:
        return (Fact.STORED,)
    waits = status in CANNOT_TAKE or active >= capacity or ahead > 0
    return (Fact.PARKED,) if waits else ()


CANNOT_TAKE = (
    Standing.PAUSED,
    Standing.OFFLINE,
    Standing.AWAITING_AGENT,
    Standing.DEGRADED,
    Standing.FAILED,
    Standing.HIBERNATED,
)


# -- guards ------------------------------------------------------------------------------------------------------------


def guard(
    lineage: Sequence[Ancestor], target_id: str, task_hash: str, open_children: int, limits: Limits
) -> Refused | None:
    """Who stops a delegation below others: `lineage` is the parent, its parent and so on."""
    if not lineage:
        return None
    met = [each for each in lineage if each.task_hash == task_hash and target_id in (each.source_id, each.target_id)]
    if met:  # control: delegation-cycle
        what = "the same task is on its way already, and this target stands on that way"
        remedy = "Do it here, or answer the delegation that you have with what you know."
        return Refused("cycle", len(met), 1, what, remedy)
    if lineage[0].depth >= limits.delegation_depth:  # control: delegation-depth
        what = "delegations may stand only so many levels below each other"
        remedy = "Do it here, or answer the delegation that you have and say what is missing."
        return Refused("depth", lineage[0].depth, limits.delegation_depth, what, remedy)
    if open_children >= limits.delegation_children:  # control: delegation-children
        what = "so many delegations below the present one are open"
        remedy = "Wait for their results, or cancel some."
        return Refused("children", open_children, limits.delegation_children, what, remedy)
    return None


def too_many_below(root_use: int, limits: Limits) -> Refused:
    """The guard of whole trees, which holds when no number is left."""
    what = "one tree may have only so many delegations, ended ones among them"
    remedy = "Do the rest here, or let who began the whole begin anew."
    return Refused("root", root_use, limits.delegations_per_root, what, remedy)


def task_hash(parts: Sequence[Mapping[str, Any]]) -> str:
    """What tells a task from another one: its parts, whatever the white space in their texts."""
    plain = [{**part, "text": " ".join(part["text"].split())} if "text" in part else part for part in parts]
    return hashlib.blake2b(msgspec.json.encode(plain, order="deterministic"), digest_size=16).hexdigest()


# -- time --------------------------------------------------------------------------------------------------------------


def deadline_of(seconds: int | None, now: int, limits: Limits) -> int:
    """When a delegation has failed that begins now."""
    return now + min(seconds or limits.delegation_seconds, limits.delegation_most_seconds) * SECOND


def is_kept(created_at: int, now: int, limits: Limits) -> bool:
    """Whether a key that something was begun under at that time still stands for it."""
    return created_at > now - limits.delegation_key_hours * HOUR


def is_unsure(row: Delegation) -> bool:
    """Whether nothing was heard of it since it was sent."""
    return row.status is Status.UNKNOWN and row.phase is Phase.WAITING


def due_of(row: Delegation, now: int, limits: Limits) -> int:
    """When a delegation is to be looked at next."""
    due = [row.deadline_at]
    if row.unsure_at is not None and is_unsure(row):
        due.append(row.unsure_at + limits.delegation_unknown_seconds * SECOND)
    if row.parent_id is not None and now < row.created_at + CHECK_SECONDS * SECOND:
        due.append(row.created_at + CHECK_SECONDS * SECOND)
    return min(due)


def stuck_since(row: Delegation, pulse: Pulse, now: int, limits: Limits) -> int | None:
    """Since when nothing was seen of the work on it, if that is too long; None if not, or if nobody has it in hand. An
    agent that says it is at work is seen."""
    if row.status.ended or row.taken_at is None:
        return None
    return unseen_since(row.life_at, pulse, now, limits)


def unseen_since(life_at: int, pulse: Pulse, now: int, limits: Limits) -> int | None:
    """The same of one that somebody has in hand and whose last sign of life is known."""
    is_at_work = bool(pulse.current_task) or pulse.active_tasks > 0
    seen = max(life_at, pulse.heard_at) if is_at_work else life_at
    return seen if now - seen > limits.delegation_stuck_seconds * SECOND else None


# -- words -------------------------------------------------------------------------------------------------------------


def cut(text: str, most: int) -> str:
    """As much of the beginning of a text as fits into so many bytes, in whole letters."""
    whole = text.encode()
    return text if len(whole) <= most else whole[:most].decode(errors="ignore")


def beginning(text: str | None) -> str | None:
    """What lists show of a text that may be long."""
    return None if text is None else cut(text, LIST_PREVIEW)


def short(row: Delegation) -> Delegation:
    """A row with no more of its texts than lists show."""
    task, error, result = cut(row.task, TASK_PREVIEW), beginning(row.error), beginning(row.result)
    return replace(row, task=task, error=error, result=result)


def failure_text(reason: Reason, error: str) -> str:
    """What the caller reads of a delegation that failed."""
    return f"{error} ({reason}). {ADVICE[reason]}"


def a2a_state(row: Delegation, *, needs_leave: bool = False) -> str:
    """How A2A calls the status. What somebody has in hand is never called unsent again. `needs_leave`: the work waits
    for an approval."""
    if row.open and needs_leave:
        return "auth-required"
    if row.status is Status.COMPLETED:
        return "completed"
    if row.status is Status.CANCELLED:
        return "canceled"
    if row.status is Status.FAILED:
        return "rejected" if row.reason is Reason.REJECTED else "failed"
    return "submitted" if row.taken_at is None else "working"


def outcome(row: Delegation) -> tuple[str, str]:
    """How one that has ended is counted: its status, and why."""
    return row.status.value, NO_REASON if row.reason is None else row.reason.value


def queue_status(row: Delegation) -> str:
    """How the queue of a message calls the status, for the sender of the message."""
    ended = {Status.COMPLETED: "completed", Status.FAILED: "failed", Status.CANCELLED: "dropped"}
    return ended.get(row.status) or ("queued" if row.taken_at is None else "dispatched")


def printed() -> str:
    """The table as docs/delegations.md has it."""
    heads = "| fact | " + " | ".join(f"`{status}`" for status in Status) + " |"
    rows = ["| " + " | ".join([f"`{fact}`", *(_cell(fact, status) for status in Status)]) + " |" for fact in Fact]
    return "\n".join((heads, "|---" * (len(Status) + 1) + "|", *rows))


def _cell(fact: Fact, status: Status) -> str:
    row = TABLE[fact, status]
    if row == NOTHING:
        return ""
    if row.late:
        return "late"
    reason = f" ({row.reason})" if row.reason is not None else ""
    told = f"{row.status or status}/{row.phase}{reason} {(row.event or '').removeprefix('DELEGATION_')}"
    if row.fresh:
        return f"{told}, if the attempt is new or it was waiting"
    return f"{told}, then {_cell(fact, row.status)}" if row.again and row.status is not None else told
