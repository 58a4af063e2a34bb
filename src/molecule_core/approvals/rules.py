"""Decisions about approvals: who is asked next, whose word counts, what may be used, what needs leave. Pure.

`TABLE` is the whole life cycle; docs/approvals.md prints it.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from molecule_core.approvals.model import (
    TOOL_ACTION_PREFIX,
    Approval,
    ApprovalStatus,
    ApprovalTransitionRule,
    ApprovalTrigger,
    Approver,
    AuthorityCheck,
    Decider,
    DecisionCheck,
    DecisionKind,
    DecisionRequest,
    DecisionState,
    NextApprover,
    PartyKind,
    UseCheck,
)
from molecule_core.common.clock import SECOND, to_rfc3339
from molecule_core.common.limits import Limits
from molecule_core.org.model import WorkspaceStatus as Seat
from molecule_core.wire.schemas.approvals import ApprovalRule, AuthorityGrant

REQUESTED, ESCALATED = "APPROVAL_REQUESTED", "APPROVAL_ESCALATED"
INFO_REQUESTED, ANSWERED = "APPROVAL_INFO_REQUESTED", "APPROVAL_ANSWERED"
APPROVED, DENIED, EXPIRED = "APPROVAL_APPROVED", "APPROVAL_DENIED", "APPROVAL_EXPIRED"
WITHDRAWN, USED = "APPROVAL_WITHDRAWN", "APPROVAL_USED"

_OPEN_STATUSES = (ApprovalStatus.PENDING, ApprovalStatus.INFO)
_RULES: dict[ApprovalTrigger, dict[ApprovalStatus, ApprovalTransitionRule]] = {
    ApprovalTrigger.MOVED: dict.fromkeys(_OPEN_STATUSES, ApprovalTransitionRule(ApprovalStatus.PENDING, ESCALATED)),
    ApprovalTrigger.QUESTION: {ApprovalStatus.PENDING: ApprovalTransitionRule(ApprovalStatus.INFO, INFO_REQUESTED)},
    ApprovalTrigger.ANSWER: {ApprovalStatus.INFO: ApprovalTransitionRule(ApprovalStatus.PENDING, ANSWERED)},
    ApprovalTrigger.APPROVE: dict.fromkeys(_OPEN_STATUSES, ApprovalTransitionRule(ApprovalStatus.APPROVED, APPROVED)),
    ApprovalTrigger.DENY: dict.fromkeys(_OPEN_STATUSES, ApprovalTransitionRule(ApprovalStatus.DENIED, DENIED)),
    ApprovalTrigger.EXPIRE: dict.fromkeys(_OPEN_STATUSES, ApprovalTransitionRule(ApprovalStatus.EXPIRED, EXPIRED)),
    ApprovalTrigger.WITHDRAW: dict.fromkeys(
        _OPEN_STATUSES, ApprovalTransitionRule(ApprovalStatus.WITHDRAWN, WITHDRAWN)
    ),
    ApprovalTrigger.USE: {ApprovalStatus.APPROVED: ApprovalTransitionRule(ApprovalStatus.APPROVED, USED)},
}
TRANSITIONS: Mapping[tuple[ApprovalTrigger, ApprovalStatus], ApprovalTransitionRule | None] = {
    (trigger, status): _RULES[trigger].get(status) for trigger in ApprovalTrigger for status in ApprovalStatus
}
"""Every fact in every status; None: it changes nothing."""

TRIGGER_OF_DECISION: Mapping[DecisionKind, ApprovalTrigger] = {
    DecisionKind.APPROVE: ApprovalTrigger.APPROVE,
    DecisionKind.DENY: ApprovalTrigger.DENY,
    DecisionKind.ESCALATE: ApprovalTrigger.MOVED,
    DecisionKind.MORE_INFO: ApprovalTrigger.QUESTION,
}
"""What each decision does."""
_FINAL_DECISIONS = (DecisionKind.APPROVE, DecisionKind.DENY)

UNREACHABLE_REASONS: Mapping[Seat, str] = {
    Seat.PROVISIONING: "no agent has sat there yet",
    Seat.OFFLINE: "its agent is offline",
    Seat.AWAITING_AGENT: "its agent is offline",
    Seat.PAUSED: "it is paused",
    Seat.FAILED: "its agent has failed",
    Seat.REMOVED: "it was removed",
}
"""Why a workspace that stands so is not asked: nobody there would answer in time."""


# -- the ladder --------------------------------------------------------------------------------------------------------


def next_approver(approvers: Sequence[Approver], asked_ids: Collection[str]) -> NextApprover:
    """Who is asked next: the first workspace above the requester, from the nearest on, that was not asked before, can
    be reached and has the authority; beyond the last one a person. At the top, the person is asked at the same time."""
    skipped: list[tuple[Approver, str]] = []
    for each in approvers:
        if each.id in asked_ids:
            continue
        if each.unreachable_reason:
            skipped.append((each, each.unreachable_reason))
        elif each.authority is AuthorityCheck.EXCEEDS:
            skipped.append((each, "this is beyond its standing authority"))
        else:
            auto_approves = each.authority is AuthorityCheck.COVERS
            return NextApprover(each, each.is_root and not auto_approves, tuple(skipped), auto_approves)
    return NextApprover(None, True, tuple(skipped))


def check_decision(state: DecisionState, by: Decider, request: DecisionRequest) -> DecisionCheck:
    """Whether what somebody decides holds. First wins; the same again by the same is no mistake; a requester decides
    nothing of its own, whatever else is true."""
    is_agent = by.kind is not PartyKind.PERSON
    if is_agent and by.id == state.requester_id:
        return DecisionCheck.OWN_REQUEST  # control: own-request
    if is_agent and by.id not in state.asked_ids:
        return DecisionCheck.NOT_ASKED
    if state.status.is_ended:  # control: decision-final
        is_repeated = state.decided == (request.decision.value, by.kind.value, by.id)
        return DecisionCheck.REPEATED if is_repeated else DecisionCheck.ALREADY_DECIDED
    return _check_open(state, by, request, is_agent=is_agent)


def _check_open(state: DecisionState, by: Decider, request: DecisionRequest, *, is_agent: bool) -> DecisionCheck:
    """The same of one that is not decided, and of somebody who has to do with it."""
    if is_agent and (by.id != state.holder_id or not state.is_above):  # control: decision-holder
        has_said = request.decision is DecisionKind.ESCALATE and by.id in state.escalated
        return DecisionCheck.REPEATED if has_said else DecisionCheck.MOVED_ON
    if request.decision is DecisionKind.MORE_INFO and state.status is ApprovalStatus.INFO:
        return DecisionCheck.REPEATED if state.asker == (by.kind.value, by.id) else DecisionCheck.QUESTION_OPEN
    if _is_stale(state, request):  # control: decision-revision
        return DecisionCheck.CHANGED
    return (
        _check_escalation(state, by, request, is_agent=is_agent)
        if request.decision is DecisionKind.ESCALATE
        else DecisionCheck.VALID
    )


def _is_stale(state: DecisionState, request: DecisionRequest) -> bool:
    """Whether what somebody saw is not what stands there now, or may not be: it says nothing of it and approves."""
    if request.decision is DecisionKind.APPROVE and request.revision is None and request.action_hash is None:
        return state.revision > 1
    return request.revision not in (None, state.revision) or request.action_hash not in (None, state.action_hash)


def _check_escalation(state: DecisionState, by: Decider, request: DecisionRequest, *, is_agent: bool) -> DecisionCheck:
    """Whether somebody passes it on. A person may do so over any holder, but once, unless it names whose turn it is:
    whoever says it twice means one step."""
    has_said = any(person == by.id for person, _ in state.passed_on)
    if not is_agent and request.holder is None and has_said:
        return DecisionCheck.REPEATED
    if not is_agent and request.holder not in (None, state.holder_id):
        return DecisionCheck.REPEATED if (by.id, request.holder) in state.passed_on else DecisionCheck.MOVED_ON
    return DecisionCheck.NO_HIGHER_APPROVER if state.holder_id is None else DecisionCheck.VALID


def is_final_decision(decision: DecisionKind) -> bool:
    """Whether a decision is the last one."""
    return decision in _FINAL_DECISIONS


def check_use(row: Approval, action_hash: str, now: int, limits: Limits) -> UseCheck:
    """Whether an approval can be used now for exactly this action: once, and not for ever."""
    if row.status is not ApprovalStatus.APPROVED or row.settled_at is None:
        return UseCheck.NOT_APPROVED
    if row.action_hash != action_hash:  # control: use-action-hash
        return UseCheck.CHANGED
    if row.used_at is not None:  # control: use-once
        return UseCheck.USED
    return UseCheck.EXPIRED if now >= row.settled_at + limits.approval_use_seconds * SECOND else UseCheck.VALID


def is_use_known(used_at: int | None, now: int, limits: Limits) -> bool:
    """Whether what was done under a name, with an approval that was used then, is surely still known under it."""
    seconds = min(limits.approval_use_seconds, limits.delegation_key_hours * 3600)
    return used_at is not None and now < used_at + seconds * SECOND


# -- time --------------------------------------------------------------------------------------------------------------


def expiry_time(seconds: int | None, now: int, limits: Limits) -> int:
    """When an approval that is asked for now has expired."""
    return now + min(seconds or limits.approval_seconds, limits.approval_most_seconds) * SECOND


def is_expired(row: Approval, now: int) -> bool:
    """Whether the time of an open approval is over: nobody's word counts any more, also if no timer has gone off."""
    return bool(row.open) and now >= row.expires_at


def next_check_at(row: Approval) -> int | None:
    """When an approval is to be looked at next."""
    if not row.open:
        return None
    return row.expires_at if row.level_at is None else min(row.level_at, row.expires_at)


# -- what is asked -----------------------------------------------------------------------------------------------------


def canonical_json(value: Any) -> str:
    """A value as the one JSON text that all who hash it make: keys sorted, no blanks, escapes where they must be."""
    return msgspec.json.encode(value, order="sorted").decode()


def action_hash(action: str, details: str) -> str:
    """What a decision is bound to: the action and its details (canonical JSON)."""
    whole = f'{{"action":{canonical_json(action)},"details":{details}}}'
    return hashlib.sha256(whole.encode()).hexdigest()


def action_matches(pattern: str, action: str) -> bool:
    """Whether the name of an action fits a pattern, in which `*` is any text. Takes a time that grows with the product
    of their lengths at most."""
    first, *rest = pattern.split("*")
    if not rest:
        return pattern == action
    *middle, last = rest
    if not action.startswith(first) or len(action) < len(first) + len(last) or not action.endswith(last):
        return False
    position, end = len(first), len(action) - len(last)
    for piece in middle:
        found = action.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True


def matching_rule(
    rules: Iterable[ApprovalRule], action: str, cost: float | None, *, used_before: bool
) -> ApprovalRule | None:
    """The first rule by which an action needs leave. A cost that nobody knows is above every bound; `used_before`: one
    like it was approved and used."""
    for rule in rules:
        is_cheap = rule.cost_above is not None and cost is not None and cost <= rule.cost_above
        if action_matches(rule.action, action) and not is_cheap and not (rule.first_time and used_before):
            return rule
    return None


def check_authority(grants: Iterable[AuthorityGrant], action: str, cost: float | None, now: str) -> AuthorityCheck:
    """What the standing authority of a workspace says of an action. `now` and the times of grants: the same spelling of
    RFC 3339 (`rfc3339`). A cost that nobody knows is covered only where no bound is set."""
    found = AuthorityCheck.NO_GRANT
    for grant in grants:
        if not action_matches(grant.action, action):
            continue
        in_time = (grant.since is None or grant.since <= now) and (grant.until is None or now < grant.until)
        in_bound = grant.cost_up_to is None or (cost is not None and cost <= grant.cost_up_to)
        if in_time and in_bound:
            return AuthorityCheck.COVERS
        found = AuthorityCheck.EXCEEDS
    return found


def risk_notes(cost: float | None, *, used_before: bool) -> tuple[str, ...]:
    """What speaks for a careful look, in words."""
    return (*(("cost",) if cost else ()), *(() if used_before else ("first time",)))


def rule_text(rule: ApprovalRule) -> str:
    """A rule, as who decides reads it."""
    above = "" if rule.cost_above is None else f" above a cost of {rule.cost_above:g}"
    first = " for the first time" if rule.first_time else ""
    note = f": {rule.note}" if rule.note else ""
    return f"{rule.action}{above}{first} needs an approval{note}"


def normalize_time(text: str) -> str:
    """A time in RFC 3339 in the one spelling that can be compared. Raises ValueError for what is none."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(text)
    return to_rfc3339(round(found.timestamp() * SECOND))


def tool_action(tool: str) -> str:
    """How a call of one of the server's own tools is named as an action."""
    return f"{TOOL_ACTION_PREFIX}{tool}"


# -- words -------------------------------------------------------------------------------------------------------------


def render_table() -> str:
    """The table as docs/approvals.md has it."""
    heads = "| fact | " + " | ".join(f"`{status}`" for status in ApprovalStatus) + " |"
    rows = [
        "| " + " | ".join([f"`{trigger}`", *(_cell(trigger, status) for status in ApprovalStatus)]) + " |"
        for trigger in ApprovalTrigger
    ]
    return "\n".join((heads, "|---" * (len(ApprovalStatus) + 1) + "|", *rows))


def _cell(trigger: ApprovalTrigger, status: ApprovalStatus) -> str:
    row = TRANSITIONS[trigger, status]
    return "" if row is None else f"{row.status} {row.event.removeprefix('APPROVAL_')}"
