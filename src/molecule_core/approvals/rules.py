"""Decisions about approvals: who is asked next, whose word counts, what may be used, what needs leave. Pure.

`TABLE` is the whole life cycle; docs/approvals.md prints it.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from molecule_core.approvals.model import (
    TOOL,
    Above,
    Approval,
    Decider,
    Decision,
    Fact,
    Kind,
    Row,
    Standing,
    Stands,
    Status,
    Turn,
    Usable,
    Verdict,
    Wish,
)
from molecule_core.ground.clock import SECOND, rfc3339
from molecule_core.ground.limits import Limits
from molecule_core.org.model import Status as Seat
from molecule_core.wire.approvals import Grant, Rule

REQUESTED, ESCALATED = "APPROVAL_REQUESTED", "APPROVAL_ESCALATED"
INFO_REQUESTED, ANSWERED = "APPROVAL_INFO_REQUESTED", "APPROVAL_ANSWERED"
APPROVED, DENIED, EXPIRED = "APPROVAL_APPROVED", "APPROVAL_DENIED", "APPROVAL_EXPIRED"
WITHDRAWN, USED = "APPROVAL_WITHDRAWN", "APPROVAL_USED"

_OPEN = (Status.PENDING, Status.INFO)
_TOLD: dict[Fact, dict[Status, Row]] = {
    Fact.MOVED: dict.fromkeys(_OPEN, Row(Status.PENDING, ESCALATED)),
    Fact.QUESTION: {Status.PENDING: Row(Status.INFO, INFO_REQUESTED)},
    Fact.ANSWER: {Status.INFO: Row(Status.PENDING, ANSWERED)},
    Fact.APPROVE: dict.fromkeys(_OPEN, Row(Status.APPROVED, APPROVED)),
    Fact.DENY: dict.fromkeys(_OPEN, Row(Status.DENIED, DENIED)),
    Fact.EXPIRE: dict.fromkeys(_OPEN, Row(Status.EXPIRED, EXPIRED)),
    Fact.WITHDRAW: dict.fromkeys(_OPEN, Row(Status.WITHDRAWN, WITHDRAWN)),
    Fact.USE: {Status.APPROVED: Row(Status.APPROVED, USED)},
}
TABLE: Mapping[tuple[Fact, Status], Row | None] = {
    (fact, status): _TOLD[fact].get(status) for fact in Fact for status in Status
}
"""Every fact in every status; None: it changes nothing."""

FACT_OF: Mapping[Decision, Fact] = {
    Decision.APPROVE: Fact.APPROVE,
    Decision.DENY: Fact.DENY,
    Decision.ESCALATE: Fact.MOVED,
    Decision.MORE_INFO: Fact.QUESTION,
}
"""What each decision does."""
_ENDS = (Decision.APPROVE, Decision.DENY)

WHY_NOT: Mapping[Seat, str] = {
    Seat.PROVISIONING: "no agent has sat there yet",
    Seat.OFFLINE: "its agent is offline",
    Seat.AWAITING_AGENT: "its agent is offline",
    Seat.PAUSED: "it is paused",
    Seat.FAILED: "its agent has failed",
    Seat.REMOVED: "it was removed",
}
"""Why a workspace that stands so is not asked: nobody there would answer in time."""


# -- the ladder --------------------------------------------------------------------------------------------------------


def route(above: Sequence[Above], asked: Collection[str]) -> Turn:
    """Who is asked next: the first workspace above the requester, from the nearest on, that was not asked before, can
    be reached and has the authority; beyond the last one a person. At the top, the person is asked at the same time."""
    skipped: list[tuple[Above, str]] = []
    for each in above:
        if each.id in asked:
            continue
        if each.why_not:
            skipped.append((each, each.why_not))
        elif each.standing is Standing.EXCEEDS:
            skipped.append((each, "this is beyond its standing authority"))
        else:
            decides = each.standing is Standing.COVERS
            return Turn(each, each.is_root and not decides, tuple(skipped), decides)
    return Turn(None, True, tuple(skipped))


def judge(stands: Stands, by: Decider, wish: Wish) -> Verdict:
    """Whether what somebody decides holds. First wins; the same again by the same is no mistake; a requester decides
    nothing of its own, whatever else is true."""
    is_agent = by.kind is not Kind.PERSON
    if is_agent and by.id == stands.requester_id:
        return Verdict.OWN  # control: own-request
    if is_agent and by.id not in stands.asked:
        return Verdict.STRANGER
    if stands.status.ended:  # control: decision-final
        is_repeated = stands.decided == (wish.decision.value, by.kind.value, by.id)
        return Verdict.REPEATED if is_repeated else Verdict.DECIDED
    return _judge_open(stands, by, wish, is_agent=is_agent)


def _judge_open(stands: Stands, by: Decider, wish: Wish, *, is_agent: bool) -> Verdict:
    """The same of one that is not decided, and of somebody who has to do with it."""
    if is_agent and (by.id != stands.holder_id or not stands.is_above):  # control: decision-holder
        has_said = wish.decision is Decision.ESCALATE and by.id in stands.escalated
        return Verdict.REPEATED if has_said else Verdict.MOVED_ON
    if wish.decision is Decision.MORE_INFO and stands.status is Status.INFO:
        return Verdict.REPEATED if stands.asker == (by.kind.value, by.id) else Verdict.WAITS
    if _is_changed(stands, wish):  # control: decision-revision
        return Verdict.CHANGED
    return _judge_passing(stands, by, wish, is_agent=is_agent) if wish.decision is Decision.ESCALATE else Verdict.DONE


def _is_changed(stands: Stands, wish: Wish) -> bool:
    """Whether what somebody saw is not what stands there now, or may not be: it says nothing of it and approves."""
    if wish.decision is Decision.APPROVE and wish.revision is None and wish.action_hash is None:
        return stands.revision > 1
    return wish.revision not in (None, stands.revision) or wish.action_hash not in (None, stands.action_hash)


def _judge_passing(stands: Stands, by: Decider, wish: Wish, *, is_agent: bool) -> Verdict:
    """Whether somebody passes it on. A person may do so over any holder, but once, unless it names whose turn it is:
    whoever says it twice means one step."""
    has_said = any(person == by.id for person, _ in stands.passed_on)
    if not is_agent and wish.holder is None and has_said:
        return Verdict.REPEATED
    if not is_agent and wish.holder not in (None, stands.holder_id):
        return Verdict.REPEATED if (by.id, wish.holder) in stands.passed_on else Verdict.MOVED_ON
    return Verdict.NOWHERE if stands.holder_id is None else Verdict.DONE


def ends(decision: Decision) -> bool:
    """Whether a decision is the last one."""
    return decision in _ENDS


def usable(row: Approval, action_hash: str, now: int, limits: Limits) -> Usable:
    """Whether an approval can be used now for exactly this action: once, and not for ever."""
    if row.status is not Status.APPROVED or row.settled_at is None:
        return Usable.NOT_APPROVED
    if row.action_hash != action_hash:  # control: use-action-hash
        return Usable.CHANGED
    if row.used_at is not None:  # control: use-once
        return Usable.USED
    return Usable.LAPSED if now >= row.settled_at + limits.approval_use_seconds * SECOND else Usable.YES


def is_repeat(used_at: int | None, now: int, limits: Limits) -> bool:
    """Whether what was done under a name, with an approval that was used then, is surely still known under it."""
    seconds = min(limits.approval_use_seconds, limits.delegation_key_hours * 3600)
    return used_at is not None and now < used_at + seconds * SECOND


# -- time --------------------------------------------------------------------------------------------------------------


def expiry(seconds: int | None, now: int, limits: Limits) -> int:
    """When an approval that is asked for now has expired."""
    return now + min(seconds or limits.approval_seconds, limits.approval_most_seconds) * SECOND


def is_over(row: Approval, now: int) -> bool:
    """Whether the time of an open approval is over: nobody's word counts any more, also if no timer has gone off."""
    return bool(row.open) and now >= row.expires_at


def due_of(row: Approval) -> int | None:
    """When an approval is to be looked at next."""
    if not row.open:
        return None
    return row.expires_at if row.level_at is None else min(row.level_at, row.expires_at)


# -- what is asked -----------------------------------------------------------------------------------------------------


def canonical(value: Any) -> str:
    """A value as the one JSON text that all who hash it make: keys sorted, no blanks, escapes where they must be."""
    return msgspec.json.encode(value, order="sorted").decode()


def action_hash(action: str, details: str) -> str:
    """What a decision is bound to: the action and its details (canonical JSON)."""
    whole = f'{{"action":{canonical(action)},"details":{details}}}'
    return hashlib.sha256(whole.encode()).hexdigest()


def fits(pattern: str, action: str) -> bool:
    """Whether the name of an action fits a pattern, in which `*` is any text. Takes a time that grows with the product
    of their lengths at most."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == action
    *middle, last = rest
    if not action.startswith(first) or len(action) < len(first) + len(last) or not action.endswith(last):
        return False
    place, end = len(first), len(action) - len(last)
    for piece in middle:
        found = action.find(piece, place, end)
        if found < 0:
            return False
        place = found + len(piece)
    return True


def needs(rules: Iterable[Rule], action: str, cost: float | None, *, used_before: bool) -> Rule | None:
    """The first rule by which an action needs leave. A cost that nobody knows is above every bound; `used_before`: one
    like it was approved and used."""
    for rule in rules:
        is_cheap = rule.cost_above is not None and cost is not None and cost <= rule.cost_above
        if fits(rule.action, action) and not is_cheap and not (rule.first_time and used_before):
            return rule
    return None


def standing(grants: Iterable[Grant], action: str, cost: float | None, now: str) -> Standing:
    """What the standing authority of a workspace says of an action. `now` and the times of grants: the same spelling of
    RFC 3339 (`rfc3339`). A cost that nobody knows is covered only where no bound is set."""
    found = Standing.SILENT
    for grant in grants:
        if not fits(grant.action, action):
            continue
        in_time = (grant.since is None or grant.since <= now) and (grant.until is None or now < grant.until)
        in_bound = grant.cost_up_to is None or (cost is not None and cost <= grant.cost_up_to)
        if in_time and in_bound:
            return Standing.COVERS
        found = Standing.EXCEEDS
    return found


def risks(cost: float | None, *, used_before: bool) -> tuple[str, ...]:
    """What speaks for a careful look, in words."""
    return (*(("cost",) if cost else ()), *(() if used_before else ("first time",)))


def rule_text(rule: Rule) -> str:
    """A rule, as who decides reads it."""
    above = "" if rule.cost_above is None else f" above a cost of {rule.cost_above:g}"
    first = " for the first time" if rule.first_time else ""
    note = f": {rule.note}" if rule.note else ""
    return f"{rule.action}{above}{first} needs an approval{note}"


def same_time(text: str) -> str:
    """A time in RFC 3339 in the one spelling that can be compared. Raises ValueError for what is none."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(text)
    return rfc3339(round(found.timestamp() * SECOND))


def tool_action(tool: str) -> str:
    """How a call of one of the server's own tools is named as an action."""
    return f"{TOOL}{tool}"


# -- words -------------------------------------------------------------------------------------------------------------


def printed() -> str:
    """The table as docs/approvals.md has it."""
    heads = "| fact | " + " | ".join(f"`{status}`" for status in Status) + " |"
    rows = ["| " + " | ".join([f"`{fact}`", *(_cell(fact, status) for status in Status)]) + " |" for fact in Fact]
    return "\n".join((heads, "|---" * (len(Status) + 1) + "|", *rows))


def _cell(fact: Fact, status: Status) -> str:
    row = TABLE[fact, status]
    return "" if row is None else f"{row.status} {row.event.removeprefix('APPROVAL_')}"
