"""Raises of budgets: steps of the command that decides an approval. Called by approvals."""

from functools import partial

import msgspec
from msgspec.structs import replace

from molecule_core.budgets.cache import BudgetCache
from molecule_core.budgets.leases import BUDGET_ENTITY, load_states
from molecule_core.budgets.model import BudgetHold, BudgetHoldsEnded, RaiseDecision, SpendingBudget
from molecule_core.budgets.serializers import to_budget_view
from molecule_core.store.database import CommandSteps, JournalEvent, ReadQuery, Statement, WriteSet
from molecule_core.store.journal import PUSHES_KEY, log_key, org_key


class BudgetRaises:
    """Raises of budgets that are used up."""

    def __init__(self, cache: BudgetCache) -> None:
        self._cache = cache

    def decide_raise(
        self, budget_id: str, period_start: int, decision: RaiseDecision | None, now: int
    ) -> CommandSteps[None]:
        """Raise a budget, or stop it for the period. None: people did not decide, so a later turn asks them again.

        A budget that was deleted meanwhile stays deleted."""
        budget = self._cache.budget(budget_id)
        if budget is None:
            return WriteSet(None)
        position = {"budget_id": budget_id, "period_start": period_start}
        if decision is None or decision.raise_by <= 0:
            yield from ()
            stopped = int(decision is not None)
            return WriteSet(None, [("mark_budget_asked", {**position, "at": None, "stopped": stopped})])
        if decision.is_permanent:
            new = replace(budget, most=budget.most + decision.raise_by, rev=budget.rev + 1, updated_at=now)
            writes: list[Statement] = [("update_budget", new), ("raise_budget_period", {**position, "amount": 0})]
            changed = WriteSet(None, writes, after_commit=partial(self._cache.put_budget, new))
        else:
            new = budget
            changed = WriteSet(None, [("raise_budget_period", {**position, "amount": decision.raise_by})])
        ended = yield from end_holds(new, now)
        raised = 0 if decision.is_permanent else decision.raise_by
        return changed + ended + (yield from changed_event(new, now, raised=raised))


def end_holds(budget: SpendingBudget, now: int) -> CommandSteps[None]:
    """End the waits of all workspaces for a budget."""
    rows = yield ReadQuery("holds_of_budget", {"budget_id": budget.id})
    if not rows:
        return WriteSet(None)
    holds = tuple(BudgetHold(*row) for row in rows)
    return WriteSet(
        None,
        [("delete_budget_holds", {"budget_id": budget.id})],
        notify=(PUSHES_KEY, *(log_key(each.workspace_id) for each in holds)),
        domain_events=[BudgetHoldsEnded(holds, now)],
    )


def changed_event(budget: SpendingBudget, now: int, *, raised: int = 0) -> CommandSteps[None]:
    """Return the event that a budget was changed, with its state once `raised` is added."""
    state = (yield from load_states((budget,), now))[budget.id]
    state = replace(state, raised=state.raised + raised, stopped=0, asked_at=None, noticed_at=None)
    payload = msgspec.json.encode(to_budget_view(budget, state, now))
    event = JournalEvent("BUDGET_CHANGED", budget.workspace_id, BUDGET_ENTITY, budget.id, budget.rev, payload, now)
    return WriteSet(None, events=[event], notify=(org_key(budget.org_id),))
