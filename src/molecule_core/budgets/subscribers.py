"""Subscriber of recorded usage. It runs in the transaction of the record.

server/composition.py registers it; docs/order.md prints the order.
"""

from collections.abc import Generator
from typing import Any

from msgspec.structs import replace

from molecule_core.budgets import rules
from molecule_core.budgets.cache import BudgetCache
from molecule_core.budgets.leases import Lineage, to_lease, to_state, use_event
from molecule_core.budgets.model import BudgetLease, BudgetState, BudgetUnit, SpendingBudget
from molecule_core.store.database import (
    CommandSteps,
    JournalEvent,
    ReadQuery,
    RequestBatch,
    Statement,
    StepRequest,
    WriteSet,
)
from molecule_core.store.journal import org_key
from molecule_core.usage.model import UsageRecorded


class BudgetSubscriber:
    """Subscriber of recorded usage: it replaces the lease of its turn."""

    def __init__(self, cache: BudgetCache, lineage: Lineage) -> None:
        self._cache = cache
        self._lineage = lineage

    def on_usage_recorded(self, org_id: str, event: UsageRecorded) -> CommandSteps[None]:
        """Add usage to what is spent of each budget that limits the turn, and end or reduce its lease.

        Usage counts in the period of the lease, else in that of the turn's end. The turn of a thread goes on after a
        report, so its lease is only reduced."""
        if not self._cache.has_budgets(org_id):
            return WriteSet(None)
        leases, is_guess = yield from self._find_leases(event)
        found = self._cache.find_budgets(org_id, self._lineage(event.workspace_id), event.root_id, event.delegation_id)
        leased = [self._cache.budget(each) for each in leases]
        budgets = {each.id: each for each in (*found, *leased) if each is not None}
        amounts = {each.id: amount for each in budgets.values() if (amount := _amount_of(each, event)) is not None}
        starts = {
            each: leases[each].period_start if each in leases else rules.period_start(budgets[each].period, event.at)
            for each in amounts
        }
        queries = [
            ReadQuery("budget_state", {"budget_id": each, "period_start": start, "now": event.at})
            for each, start in starts.items()
        ]
        rows_by_budget = dict(zip(starts, (yield RequestBatch(queries)), strict=True))
        writes, events = list[Statement](), list[JournalEvent]()
        for budget_id, amount in amounts.items():
            position = {"budget_id": budget_id, "period_start": starts[budget_id]}
            writes.append(("add_budget_spending", {**position, "amount": amount}))
            if budget_id in leases:
                writes.append(_lease_statement(leases[budget_id], amount))  # control: budget-lease-end
            before = to_state(budgets[budget_id], rows_by_budget[budget_id][0])
            after = replace(before, spent=before.spent + amount)
            if rules.needs_notice(after):
                writes.append(("mark_budget_noticed", {**position, "at": event.at}))
                events.append(_notice_of(budgets[budget_id], after, amount, event.at))
        # Alone: another report of the group might choose the same lease, or notify people too.
        is_alone_needed = bool(events) or (is_guess and bool(leases))
        return WriteSet(None, writes, events, (org_key(org_id),) if events else (), isolated=is_alone_needed)

    def _find_leases(self, event: UsageRecorded) -> Generator[StepRequest, Any, tuple[dict[str, BudgetLease], bool]]:
        """Return the leases of a turn by budget, and whether they are only likely to be its own.

        The turn of a message has the message's id. A report that names neither thread nor message belongs to the turn
        of its workspace that began first."""
        own = {"workspace_id": event.workspace_id}
        of_thread, of_turn = yield RequestBatch(
            [
                ReadQuery("leases_of_thread", {**own, "thread_id": event.thread_id or ""}),
                ReadQuery("leases_of_turn", {**own, "turn_key": event.activity_id or event.key}),
            ]
        )
        rows, is_guess = of_thread or of_turn, False
        if not rows and event.thread_id is None and event.activity_id is None:
            query = {**own, "delegation_id": event.delegation_id or ""}
            rows, is_guess = (yield ReadQuery("first_lease_of_workspace", query)), True
        return {lease.budget_id: lease for lease in map(to_lease, rows)}, is_guess


def _amount_of(budget: SpendingBudget, event: UsageRecorded) -> int | None:
    """Return what usage takes of a budget; None if its cost is unknown, so that its lease remains."""
    return event.cost_micros if budget.unit is BudgetUnit.MONEY else event.tokens


def _lease_statement(lease: BudgetLease, amount: int) -> Statement:
    row = {"workspace_id": lease.workspace_id, "turn_key": lease.turn_key, "budget_id": lease.budget_id}
    return ("reduce_budget_lease", {**row, "amount": amount}) if lease.thread_id else ("end_budget_lease", row)


def _notice_of(budget: SpendingBudget, state: BudgetState, amount: int, at: int) -> JournalEvent:
    return use_event("BUDGET_NOTICED", budget, replace(state, leased=max(0, state.leased - amount)), at)
