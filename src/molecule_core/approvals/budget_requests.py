"""Approvals about budgets that are used up: what is asked, and what a decision means for the budget. Pure functions."""

from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.approvals import rules
from molecule_core.approvals.model import Approval, ApprovalTrigger
from molecule_core.budgets import rules as budget_rules
from molecule_core.budgets.model import BudgetExhausted, BudgetPeriod, RaiseDecision, SpendingBudget
from molecule_core.common.errors import InvalidField
from molecule_core.common.limits import Limits
from molecule_core.common.text import encode_json
from molecule_core.wire.schemas.approvals import ApprovalStatus, PolicyReason

BUDGET_SOURCE = "budget"
"""Source of requests of the server to raise a budget. Only people decide them."""
RAISE_ACTION = "raise_budget"


class _RaiseDetails(Struct):
    """The part of the details that people may edit."""

    raise_by: int
    permanent: bool = False


class BudgetPosition(Struct, frozen=True):
    """The budget and the period that an approval is about."""

    budget_id: str
    period_start: int


def build_request(event: BudgetExhausted, name: str, id_: str, limits: Limits) -> Approval:
    """Build the approval that asks people to raise a budget. `name`: of the workspace whose turn waits."""
    budget, state, now = event.budget, event.state, event.at
    details = rules.canonical_json(
        {
            "scope": budget.scope.value,
            "target": budget.target_id,
            "unit": budget.unit.value,
            "period": budget.period.value,
            "limit": state.limit,
            "spent": state.spent,
            "leased": state.leased,
            "raise_by": event.proposed_raise,
            "permanent": False,
        }
    )
    return Approval(
        org_id=budget.org_id,
        id=id_,
        workspace_id=event.workspace_id,
        requester_name=name,
        status=ApprovalStatus.PENDING,
        open=1,
        revision=1,
        rev=0,
        action=RAISE_ACTION,
        reason=_reason_text(budget, event),
        proposed=details,
        edited=None,
        action_hash=rules.action_hash(RAISE_ACTION, details),
        cost=None,
        task_id=f"{budget.id}/{event.period_start}",
        thread_id=None,
        source=BUDGET_SOURCE,
        tool=None,
        risk=encode_json([]),
        holder_id=None,
        holder_name="",
        for_person=0,
        asker=None,
        messages=0,
        message_id=None,
        message_seq=None,
        question_seq=None,
        asked="[]",
        policy=encode_json([PolicyReason("budget", "only people may raise a budget")]),
        path="[]",
        decided=None,
        created_at=now,
        updated_at=now,
        expires_at=rules.expiry_time(None, now, limits),
        level_at=None,
        settled_at=None,
        used_at=None,
    )


def _reason_text(budget: SpendingBudget, event: BudgetExhausted) -> str:
    amount = budget_rules.amount_text(budget.unit, event.proposed_raise)
    unit = " tokens" if budget.unit == "tokens" else ""
    span = "" if budget.period is BudgetPeriod.TOTAL else f" for this {budget.period.value}"
    return f"{budget_rules.use_text(budget, event.state)}. Approve to raise it by {amount}{unit}{span}."


def find_position(row: Approval) -> BudgetPosition:
    """Return the budget and the period that an approval is about."""
    budget_id, _, start = (row.task_id or "").rpartition("/")
    return BudgetPosition(budget_id, int(start))


def decision_of(row: Approval, trigger: ApprovalTrigger) -> RaiseDecision | None:
    """Return what the end of an approval means for its budget; None: people did not decide. Raises InvalidField."""
    if trigger is ApprovalTrigger.DENY:
        return RaiseDecision(0)
    if trigger is not ApprovalTrigger.APPROVE:
        return None
    try:
        details = msgspec.convert(_read_details(row), _RaiseDetails)
    except msgspec.ValidationError as error:
        raise InvalidField(
            reason=f"details are not valid: {error}. Use raise_by, an integer, and permanent, a boolean."
        ) from None
    if not 0 < details.raise_by <= budget_rules.MAX_AMOUNT:
        raise InvalidField(reason=f"raise_by cannot be {details.raise_by}. Use 1 to {budget_rules.MAX_AMOUNT}.")
    return RaiseDecision(details.raise_by, details.permanent)


def _read_details(row: Approval) -> Any:
    return msgspec.json.decode(row.effective_details)
