"""Rules: periods, capacity, notices and raises. Pure functions."""

from datetime import UTC, datetime, timedelta

from molecule_core.budgets.model import BudgetPeriod, BudgetState, BudgetUnit, SpendingBudget
from molecule_core.common.clock import DAY, SECOND

NOTICE_PERCENT = 80
MAX_AMOUNT = 1 << 53
"""Largest amount: every client of JSON reads it exactly."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def period_start(period: BudgetPeriod, at: int) -> int:
    """Return when the period of a time began; 0 for a budget without periods."""
    midnight = at - at % DAY
    match period:
        case BudgetPeriod.TOTAL:
            return 0
        case BudgetPeriod.DAY:
            return midnight
        case BudgetPeriod.WEEK:
            return midnight - _to_datetime(midnight).weekday() * DAY
        case BudgetPeriod.MONTH:
            return midnight - (_to_datetime(midnight).day - 1) * DAY


def period_end(period: BudgetPeriod, at: int) -> int | None:
    """Return when the period of a time ends; None for a budget without periods."""
    start = period_start(period, at)
    match period:
        case BudgetPeriod.TOTAL:
            return None
        case BudgetPeriod.DAY:
            return start + DAY
        case BudgetPeriod.WEEK:
            return start + 7 * DAY
        case BudgetPeriod.MONTH:
            return period_start(period, start + 31 * DAY)


def _to_datetime(at: int) -> datetime:
    return _EPOCH + timedelta(seconds=at // SECOND)


def lease_amount(size: int, state: BudgetState) -> int:
    """Return what a turn leases: never more than the whole limit, so that a small budget allows one turn."""
    return min(size, state.limit)


def has_capacity(state: BudgetState, amount: int) -> bool:
    """Return whether a turn can lease this amount now."""
    return state.used + amount <= state.limit and state.spent < state.limit  # control: budget-lease


def is_exhausted(state: BudgetState, amount: int) -> bool:
    """Return whether no turn can lease this amount in this period, also once all running turns have reported."""
    return state.spent + state.unreported + amount > state.limit or state.spent >= state.limit


def needs_notice(state: BudgetState) -> bool:
    """Return whether people are to be notified that most of a budget is spent."""
    return state.noticed_at is None and state.spent * 100 >= state.limit * NOTICE_PERCENT and state.limit > 0


def proposed_raise(budget: SpendingBudget, state: BudgetState, size: int) -> int:
    """Return what an approval adds to a budget unless people change it: half of its limit, or what a turn needs."""
    return max(1, budget.most // 2, state.used + size - state.limit)


def amount_text(unit: BudgetUnit, amount: int) -> str:
    """Return an amount for people: money with two or more digits after the point, without its currency."""
    if unit is BudgetUnit.TOKENS:
        return str(amount)
    whole, micros = divmod(amount, 1_000_000)
    return f"{whole}.{f'{micros:06d}'.rstrip('0').ljust(2, '0')}"


def unit_text(unit: BudgetUnit) -> str:
    """Return the unit of an amount."""
    return "tokens" if unit is BudgetUnit.TOKENS else "of the currency"


def over_budget_reason(budget: SpendingBudget, state: BudgetState) -> str:
    """Return why a workspace waits, in one line."""
    return f"over budget: {use_text(budget, state)}"


def use_text(budget: SpendingBudget, state: BudgetState) -> str:
    """Return how much of a budget is used, in one line."""
    unit = " tokens" if budget.unit is BudgetUnit.TOKENS else ""
    used, limit = amount_text(budget.unit, state.used), amount_text(budget.unit, state.limit)
    per = "in all" if budget.period is BudgetPeriod.TOTAL else f"per {budget.period.value}"
    return f"{used} of {limit}{unit} {per} are used or leased ({budget.scope.value} budget)"
