"""Writes budgets: create, change, delete, and what turns lease. Commands are exclusive: they are rare."""

from functools import partial

import msgspec
from msgspec.structs import replace

from molecule_core.budgets import rules
from molecule_core.budgets.cache import BudgetCache
from molecule_core.budgets.errors import BudgetExists, TooManyBudgets
from molecule_core.budgets.leases import BUDGET_ENTITY
from molecule_core.budgets.model import BudgetDraft, SpendingBudget, TurnLeaseSizes
from molecule_core.budgets.transitions import changed_event, end_holds
from molecule_core.common.clock import Clock
from molecule_core.common.errors import NotFound
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.store.database import Command, CommandSteps, JournalEvent, Statement, Store, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.wire.schemas.budgets import BudgetDeletedPayload


class BudgetWriter:
    """Writer of budgets."""

    def __init__(self, store: Store, cache: BudgetCache, *, clock: Clock, ids: IdGenerator, limits: Limits) -> None:
        self._store = store
        self._cache = cache
        self._clock = clock
        self._ids = ids
        self._limits = limits

    async def create_budget(self, org_id: str, draft: BudgetDraft, by: str) -> SpendingBudget:
        """Create a budget. Raises BudgetExists, TooManyBudgets."""

        def decide() -> CommandSteps[SpendingBudget]:
            known, now = self._cache.budgets_of(org_id), self._clock.now()
            wanted = (draft.scope, draft.target_id, draft.unit, draft.period)
            for each in known:
                if (each.scope, each.target_id, each.unit, each.period) == wanted:
                    raise BudgetExists(budget_id=each.id)
            if len(known) >= self._limits.budgets:
                raise TooManyBudgets(most=self._limits.budgets)
            budget = SpendingBudget(
                id=self._ids.new(),
                org_id=org_id,
                scope=draft.scope,
                target_id=draft.target_id,
                workspace_id=draft.workspace_id,
                unit=draft.unit,
                most=draft.most,
                period=draft.period,
                rev=1,
                created_at=now,
                updated_at=now,
                updated_by=by,
            )
            update_cache = partial(self._cache.put_budget, budget)
            changed = WriteSet(budget, [("insert_budget", budget)], after_commit=update_cache)
            return changed + (yield from changed_event(budget, now))

        return await self._store.run(Command(org_id, (), decide, exclusive=True))

    async def change_limit(self, budget: SpendingBudget, most: int, by: str) -> SpendingBudget:
        """Change the limit of a budget; turns that wait for it begin if it allows them. Raises NotFound."""

        def decide() -> CommandSteps[SpendingBudget]:
            known, now = self._cache.budget(budget.id), self._clock.now()
            if known is None:
                raise NotFound(what="budget")
            new = replace(known, most=most, rev=known.rev + 1, updated_at=now, updated_by=by)
            # Also ends the notice and the request of the period: people have just decided.
            start = rules.period_start(new.period, now)
            writes: list[Statement] = [
                ("update_budget", new),
                ("raise_budget_period", {"budget_id": new.id, "period_start": start, "amount": 0}),
            ]
            changed = WriteSet(new, writes, after_commit=partial(self._cache.put_budget, new))
            return changed + (yield from end_holds(new, now)) + (yield from changed_event(new, now))

        return await self._store.run(Command(budget.org_id, (), decide, exclusive=True))

    async def delete_budget(self, budget: SpendingBudget) -> None:
        """Delete a budget with its leases; turns that wait for it begin. A deleted one stays deleted."""

        def decide() -> CommandSteps[None]:
            if self._cache.budget(budget.id) is None:
                return WriteSet(None)
            now = self._clock.now()
            names = ("delete_budget", "delete_budget_periods", "delete_budget_leases")
            payload = msgspec.json.encode(BudgetDeletedPayload(budget.id))
            event = JournalEvent(
                "BUDGET_DELETED", budget.workspace_id, BUDGET_ENTITY, budget.id, budget.rev + 1, payload, now
            )
            deleted = WriteSet(
                None,
                [(name, {"id": budget.id}) for name in names],
                [event],
                (org_key(budget.org_id),),
                partial(self._cache.drop_budget, budget.id),
            )
            return deleted + (yield from end_holds(budget, now))

        await self._store.run(Command(budget.org_id, (), decide, exclusive=True))

    async def set_turn_lease(self, org_id: str, workspace_id: str, sizes: TurnLeaseSizes) -> None:
        """Set what each turn of a workspace leases before it begins."""

        def decide() -> CommandSteps[None]:
            yield from ()
            row = {"workspace_id": workspace_id, "org_id": org_id, "money": sizes.money, "tokens": sizes.tokens}
            update_cache = partial(self._cache.set_sizes, workspace_id, sizes)
            return WriteSet(None, [("save_turn_lease", row)], after_commit=update_cache)

        await self._store.run(Command(org_id, (), decide, exclusive=True))
