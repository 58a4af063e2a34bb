"""Renders budgets for clients."""

from molecule_core.budgets import rules
from molecule_core.budgets.model import BudgetState, SpendingBudget
from molecule_core.common.clock import to_optional_rfc3339, to_rfc3339
from molecule_core.wire.schemas.budgets import BudgetCondition, BudgetView


def to_budget_view(budget: SpendingBudget, state: BudgetState, now: int) -> BudgetView:
    """Return a budget in its current period as clients see it."""
    condition: BudgetCondition = "ok"
    if state.stopped:
        condition = "stopped"
    elif state.asked_at is not None:
        condition = "exhausted"
    elif state.spent * 100 >= state.limit * rules.NOTICE_PERCENT:
        condition = "noticed"
    return BudgetView(
        budget_id=budget.id,
        scope=budget.scope.value,
        target_id=budget.target_id,
        workspace_id=budget.workspace_id,
        unit=budget.unit.value,
        period=budget.period.value,
        limit=budget.most,
        spent=state.spent,
        leased=state.leased,
        unreported=state.unreported,
        raised=state.raised,
        state=condition,
        period_ends_at=to_optional_rfc3339(rules.period_end(budget.period, now)),
        created_at=to_rfc3339(budget.created_at),
        updated_at=to_rfc3339(budget.updated_at),
    )
