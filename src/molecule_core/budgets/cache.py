"""In-memory cache of budgets and of the leases' sizes: an organisation without budgets costs no statement."""

from collections.abc import Iterable, Iterator, Sequence

from molecule_core.budgets.model import BudgetScope, SpendingBudget, TurnLeaseSizes
from molecule_core.common.limits import Limits
from molecule_core.store.cache_sync import BatchReader, SyncedCache
from molecule_core.store.database import Row, Store

_Target = tuple[BudgetScope, str]


class BudgetCache(SyncedCache):
    """In-memory cache of budgets by organisation and target."""

    KINDS = ("budgets", "turn_leases")

    def __init__(self, limits: Limits) -> None:
        self._default_sizes = TurnLeaseSizes(limits.turn_lease_micros, limits.turn_lease_tokens)
        self._by_id: dict[str, SpendingBudget] = {}
        self._by_org: dict[str, dict[_Target, dict[str, SpendingBudget]]] = {}
        self._sizes: dict[str, TurnLeaseSizes] = {}

    def has_budgets(self, org_id: str) -> bool:
        """Return whether an organisation has any budget."""
        return org_id in self._by_org

    def budget(self, budget_id: str) -> SpendingBudget | None:
        """Return a budget, or None."""
        return self._by_id.get(budget_id)

    def budgets_of(self, org_id: str) -> list[SpendingBudget]:
        """Return the budgets of an organisation, oldest first."""
        found = (each for by_id in self._by_org.get(org_id, {}).values() for each in by_id.values())
        return sorted(found, key=lambda each: (each.created_at, each.id))

    def find_budgets(
        self, org_id: str, lineage: Sequence[str], root_id: str | None, delegation_id: str | None
    ) -> list[SpendingBudget]:
        """Return the budgets that limit a turn. `lineage`: its workspace, then those above it."""
        by_target = self._by_org.get(org_id)
        if by_target is None:
            return []
        targets = _targets_of(lineage, root_id, delegation_id)
        return [each for target in targets for each in by_target.get(target, {}).values()]

    def lease_sizes(self, workspace_id: str) -> TurnLeaseSizes:
        """Return what a turn of a workspace leases."""
        return self._sizes.get(workspace_id, self._default_sizes)

    def put_budget(self, budget: SpendingBudget) -> None:
        """Add or replace a budget."""
        self.drop_budget(budget.id)
        self._by_id[budget.id] = budget
        by_target = self._by_org.setdefault(budget.org_id, {})
        by_target.setdefault((budget.scope, budget.target_id), {})[budget.id] = budget

    def drop_budget(self, budget_id: str) -> None:
        """Remove a budget."""
        budget = self._by_id.pop(budget_id, None)
        if budget is None:
            return
        target, by_target = (budget.scope, budget.target_id), self._by_org[budget.org_id]
        del by_target[target][budget_id]
        if not by_target[target]:
            del by_target[target]
        if not by_target:
            del self._by_org[budget.org_id]

    def set_sizes(self, workspace_id: str, sizes: TurnLeaseSizes) -> None:
        """Set what a turn of a workspace leases."""
        self._sizes[workspace_id] = sizes

    async def open(self, store: Store) -> None:
        """Load everything from the store."""
        self._replace_all(await store.rows("all_budgets", {}), await store.rows("all_turn_leases", {}))

    async def load(self, read: BatchReader, kind: str, keys: list[str]) -> Iterable[str]:
        if kind == "budgets":
            found = await read("budget_by_id", [{"id": key} for key in keys])
            for key, rows in zip(keys, found, strict=True):
                self.drop_budget(key)
                for row in rows:
                    self.put_budget(SpendingBudget.from_row(row))
            return ()
        found = await read("turn_lease", [{"workspace_id": key} for key in keys])
        for key, rows in zip(keys, found, strict=True):
            for row in rows:
                self.set_sizes(key, TurnLeaseSizes(*row))
        return ()

    async def load_all(self, read: BatchReader) -> None:
        self._replace_all((await read("all_budgets", [{}]))[0], (await read("all_turn_leases", [{}]))[0])

    def _replace_all(self, budget_rows: Sequence[Row], size_rows: Sequence[Row]) -> None:
        self._by_id, self._by_org = {}, {}
        for row in budget_rows:
            self.put_budget(SpendingBudget.from_row(row))
        self._sizes = {row[0]: TurnLeaseSizes(*row[1:]) for row in size_rows}


def _targets_of(lineage: Sequence[str], root_id: str | None, delegation_id: str | None) -> Iterator[_Target]:
    if lineage:
        yield BudgetScope.WORKSPACE, lineage[0]
    for each in lineage:
        yield BudgetScope.SUBTREE, each
    if root_id is not None:
        yield BudgetScope.CHAIN, root_id
    if delegation_id is not None:
        yield BudgetScope.DELEGATION, delegation_id
