"""Reads budgets and renders them for clients."""

from collections.abc import Sequence

from molecule_core.budgets.cache import BudgetCache
from molecule_core.budgets.leases import Lineage, state_query, to_state
from molecule_core.budgets.model import SpendingBudget, TurnLeaseSizes
from molecule_core.budgets.serializers import to_budget_view
from molecule_core.common.clock import Clock
from molecule_core.common.errors import NotFound
from molecule_core.store.database import Store
from molecule_core.wire.schemas.budgets import BudgetView


class BudgetReader:
    """Reader of budgets."""

    def __init__(self, store: Store, cache: BudgetCache, lineage: Lineage, *, clock: Clock) -> None:
        self._store = store
        self._cache = cache
        self._lineage = lineage
        self._clock = clock

    def get_budget(self, org_id: str, budget_id: str) -> SpendingBudget:
        """Return a budget of an organisation. Raises NotFound."""
        budget = self._cache.budget(budget_id)
        if budget is None or budget.org_id != org_id:
            raise NotFound(what="budget")
        return budget

    async def list_budgets(self, org_id: str) -> list[BudgetView]:
        """Return the budgets of an organisation, oldest first."""
        return await self._to_views(self._cache.budgets_of(org_id))

    async def list_of_workspace(self, org_id: str, workspace_id: str) -> list[BudgetView]:
        """Return the budgets that limit all turns of a workspace: its own, then those of teams that it belongs to."""
        found = self._cache.find_budgets(org_id, self._lineage(workspace_id), None, None)
        return await self._to_views(found)

    def lease_sizes(self, workspace_id: str) -> TurnLeaseSizes:
        """Return what a turn of a workspace leases from each budget."""
        return self._cache.lease_sizes(workspace_id)

    async def view_of(self, budget: SpendingBudget) -> BudgetView:
        """Return a budget as clients see it."""
        return (await self._to_views([budget]))[0]

    async def _to_views(self, budgets: Sequence[SpendingBudget]) -> list[BudgetView]:
        now = self._clock.now()
        found = await self._store.rows_of_each("budget_state", [state_query(each, now) for each in budgets])
        return [to_budget_view(each, to_state(each, rows[0]), now) for each, rows in zip(budgets, found, strict=True)]
