"""Decisions about approvals: the next approver, valid decisions, use, required approvals. Pure functions.

`TRANSITIONS` is the whole life cycle; docs/explanation/approvals.md prints it.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from molecule_core.approvals.model import (
    TOOL_ACTION_PREFIX,
    Approval,
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
from molecule_core.common.clock import SECOND, to_optional_rfc3339, to_rfc3339
from molecule_core.common.limits import Limits
from molecule_core.org.model import Workspace, WorkspaceStatus
from molecule_core.wire.schemas.approvals import ApprovalRule, ApprovalStatus, AuthorityGrant

REQUESTED, ESCALATED = "APPROVAL_REQUESTED", "APPROVAL_ESCALATED"
INFO_REQUESTED, ANSWERED = "APPROVAL_INFO_REQUESTED", "APPROVAL_ANSWERED"
APPROVED, DENIED, EXPIRED = "APPROVAL_APPROVED", "APPROVAL_DENIED", "APPROVAL_EXPIRED"
WITHDRAWN, USED = "APPROVAL_WITHDRAWN", "APPROVAL_USED"

_OPEN_STATUSES = (ApprovalStatus.PENDING, ApprovalStatus.INFO)
_RULES: dict[ApprovalTrigger, dict[ApprovalStatus, ApprovalTransitionRule]] = {
    ApprovalTrigger.ESCALATE: dict.fromkeys(_OPEN_STATUSES, ApprovalTransitionRule(ApprovalStatus.PENDING, ESCALATED)),
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
"""Every trigger in every status; None: it changes nothing."""

TRIGGER_OF_DECISION: Mapping[DecisionKind, ApprovalTrigger] = {
    DecisionKind.APPROVE: ApprovalTrigger.APPROVE,
    DecisionKind.DENY: ApprovalTrigger.DENY,
    DecisionKind.ESCALATE: ApprovalTrigger.ESCALATE,
    DecisionKind.MORE_INFO: ApprovalTrigger.QUESTION,
}
"""The trigger of each decision."""

UNREACHABLE_REASONS: Mapping[WorkspaceStatus, str] = {
    WorkspaceStatus.PROVISIONING: "no agent has connected yet",
    WorkspaceStatus.OFFLINE: "its agent is offline",
    WorkspaceStatus.AWAITING_AGENT: "its agent is offline",
    WorkspaceStatus.PAUSED: "it is paused",
    WorkspaceStatus.FAILED: "its agent has failed",
    WorkspaceStatus.REMOVED: "it was removed",
}
"""Why a workspace with this status is not asked: its agent would not answer in time."""


def unreachable_reason(workspace: Workspace, now: int) -> str:
    """Return why a workspace is not asked; empty if it is."""
    if workspace.is_limited(now) and not workspace.removed:
        return f"it is limited until {to_optional_rfc3339(workspace.limited_until)}"
    return UNREACHABLE_REASONS.get(WorkspaceStatus.REMOVED if workspace.removed else workspace.status, "")


# -- decisions ---------------------------------------------------------------------------------------------------------


def next_approver(approvers: Sequence[Approver], asked_ids: Collection[str]) -> NextApprover:
    """Return the next approver: the nearest reachable workspace above that has authority and was not asked yet.

    After the last one, a person is asked. At the root, a person is asked at the same time."""
    skipped: list[tuple[Approver, str]] = []
    for each in approvers:
        if each.id in asked_ids:
            continue
        if each.unreachable_reason:
            skipped.append((each, each.unreachable_reason))
        elif each.authority is AuthorityCheck.EXCEEDS:
            skipped.append((each, "the action exceeds its standing authority"))
        else:
            auto_approves = each.authority is AuthorityCheck.COVERS
            return NextApprover(each, each.is_root and not auto_approves, tuple(skipped), auto_approves)
    return NextApprover(None, True, tuple(skipped))


def check_decision(state: DecisionState, by: Decider, request: DecisionRequest) -> DecisionCheck:
    """Return whether a decision is valid.

    The first decision wins, and the same decision of the same party again is no error. A workspace can never decide its
    own request."""
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
    """Check a decision on an open approval by a party that was asked."""
    if is_agent and (by.id != state.holder_id or not state.is_above):  # control: decision-holder
        has_escalated = request.decision is DecisionKind.ESCALATE and by.id in state.escalated_by
        return DecisionCheck.REPEATED if has_escalated else DecisionCheck.REASSIGNED
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
    """Return whether the decider saw another revision, or approves a changed approval without naming one."""
    if request.decision is DecisionKind.APPROVE and request.revision is None and request.action_hash is None:
        return state.revision > 1
    return request.revision not in (None, state.revision) or request.action_hash not in (None, state.action_hash)


def _check_escalation(state: DecisionState, by: Decider, request: DecisionRequest, *, is_agent: bool) -> DecisionCheck:
    """Check an escalation.

    A person may escalate past any approver, but only once unless the request names the current one: a repeated click
    means one escalation."""
    has_escalated = any(person == by.id for person, _ in state.person_escalations)
    if not is_agent and request.holder is None and has_escalated:
        return DecisionCheck.REPEATED
    if not is_agent and request.holder not in (None, state.holder_id):
        return (
            DecisionCheck.REPEATED if (by.id, request.holder) in state.person_escalations else DecisionCheck.REASSIGNED
        )
    return DecisionCheck.NO_HIGHER_APPROVER if state.holder_id is None else DecisionCheck.VALID


def check_use(row: Approval, action_hash: str, now: int, limits: Limits) -> UseCheck:
    """Return whether an approval can be used now for exactly this action: once, and for a limited time."""
    if row.status is not ApprovalStatus.APPROVED or row.settled_at is None:
        return UseCheck.NOT_APPROVED
    if row.action_hash != action_hash:  # control: use-action-hash
        return UseCheck.OTHER_ACTION
    if row.used_at is not None:  # control: use-once
        return UseCheck.USED
    return UseCheck.EXPIRED if now >= row.settled_at + limits.approval_use_seconds * SECOND else UseCheck.VALID


def is_use_known(used_at: int | None, now: int, limits: Limits) -> bool:
    """Return whether the effect of an earlier use under the same key is certainly still stored."""
    seconds = min(limits.approval_use_seconds, limits.delegation_key_hours * 3600)
    return used_at is not None and now < used_at + seconds * SECOND


# -- time --------------------------------------------------------------------------------------------------------------


def expiry_time(seconds: int | None, now: int, limits: Limits) -> int:
    """Return when an approval that is requested now expires."""
    return now + min(seconds or limits.approval_seconds, limits.approval_most_seconds) * SECOND


def is_expired(row: Approval, now: int) -> bool:
    """Return whether an open approval has expired, even if its timer has not fired yet."""
    return bool(row.open) and now >= row.expires_at


def next_check_at(row: Approval) -> int | None:
    """Return when an approval must be checked next."""
    if not row.open:
        return None
    return row.expires_at if row.level_at is None else min(row.level_at, row.expires_at)


# -- actions -----------------------------------------------------------------------------------------------------------


def canonical_json(value: Any) -> str:
    """Encode a value as the JSON that all parties hash: sorted keys, no white space, only the required escapes."""
    return msgspec.json.encode(value, order="sorted").decode()


def action_hash(action: str, details: str) -> str:
    """Hash what a decision is bound to: the action and its details (canonical JSON)."""
    whole = f'{{"action":{canonical_json(action)},"details":{details}}}'
    return hashlib.sha256(whole.encode()).hexdigest()


def action_matches(pattern: str, action: str) -> bool:
    """Return whether an action's name matches a pattern, in which `*` is any text.

    Takes time at most proportional to the product of their lengths."""
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
    """Return the first rule by which an action needs an approval.

    An unknown cost is above every bound. `used_before`: an action of this name was approved and used."""
    for rule in rules:
        is_cheap = rule.cost_above is not None and cost is not None and cost <= rule.cost_above
        if action_matches(rule.action, action) and not is_cheap and not (rule.first_time and used_before):
            return rule
    return None


def check_authority(grants: Iterable[AuthorityGrant], action: str, cost: float | None, now: str) -> AuthorityCheck:
    """Check an action against the authority grants of a workspace.

    `now` and the times of grants: RFC 3339 as `normalize_time` returns it. An unknown cost is covered only by a grant
    without a bound."""
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
    """Return reasons for a careful decision."""
    return (*(("cost",) if cost else ()), *(() if used_before else ("first time",)))


def rule_text(rule: ApprovalRule) -> str:
    """Render a rule for the approver."""
    above = "" if rule.cost_above is None else f" above a cost of {rule.cost_above:g}"
    first = " for the first time" if rule.first_time else ""
    note = f": {rule.note}" if rule.note else ""
    return f"{rule.action}{above}{first} needs an approval{note}"


def normalize_time(text: str) -> str:
    """Return an RFC 3339 time in the one format that compares as text. Raises ValueError."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(text)
    return to_rfc3339(round(found.timestamp() * SECOND))


def tool_action(tool: str) -> str:
    """Return the action name of a call of one of the server's own tools."""
    return f"{TOOL_ACTION_PREFIX}{tool}"


# -- text --------------------------------------------------------------------------------------------------------------


def render_table() -> str:
    """Render the transition table for docs/explanation/approvals.md."""
    header = "| fact | " + " | ".join(f"`{status}`" for status in ApprovalStatus) + " |"
    rows = [
        "| " + " | ".join([f"`{trigger}`", *(_cell(trigger, status) for status in ApprovalStatus)]) + " |"
        for trigger in ApprovalTrigger
    ]
    return "\n".join((header, "|---" * (len(ApprovalStatus) + 1) + "|", *rows))


def _cell(trigger: ApprovalTrigger, status: ApprovalStatus) -> str:
    row = TRANSITIONS[trigger, status]
    return "" if row is None else f"{row.status} {row.event.removeprefix('APPROVAL_')}"
