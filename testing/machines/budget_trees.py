"""Random trees of workspaces whose turns lease from budgets at the same time, die, and report late and repeatedly.

Each tree is an organisation of its own on one store, with the product's leases, usage and subscriber; nothing else.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from molecule_core.budgets.cache import BudgetCache
from molecule_core.budgets.leases import BudgetLeases
from molecule_core.budgets.model import (
    BudgetDraft,
    BudgetPeriod,
    BudgetScope,
    BudgetUnit,
    SpendingBudget,
    TurnLeaseSizes,
    TurnToLease,
)
from molecule_core.budgets.rules import period_start
from molecule_core.budgets.subscribers import BudgetSubscriber
from molecule_core.budgets.writer import BudgetWriter
from molecule_core.common.clock import SECOND
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.delegations.reader import origin_query
from molecule_core.store.database import Command, CommandSteps, Store
from molecule_core.store.queries import Params
from molecule_core.usage.model import UsageDraft, UsageRecorded, UsageTokens
from molecule_core.usage.writer import UsageWriter
from testing.clocks import FakeClock

LEASE_SECONDS = 60
_ROUNDS = 6
_TREES_AT_ONCE = 32
_LIMITS = Limits()


class Turn(Struct):
    """A turn that has begun: what it leased of each budget, what it will report, and how often it has."""

    workspace_id: str
    key: str
    cost: int
    leased: dict[str, int]
    reports: int = 0


class BudgetTrees:
    """The product's leases on a store. `counts`: what was done, `faults`: what should not have happened."""

    def __init__(self, store: Store, clock: FakeClock, ids: IdGenerator) -> None:
        self.store, self.clock, self.ids = store, clock, ids
        self.counts: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.notes: list[str] = []
        self._parents: dict[str, str] = {}
        self.cache = BudgetCache(_LIMITS)
        self.leases = BudgetLeases(self.cache, self._lineage, limits=_LIMITS)
        self.writer = BudgetWriter(store, self.cache, clock=clock, ids=ids, limits=_LIMITS)
        self.usage = UsageWriter(store, origin_query, clock=clock, limits=_LIMITS)
        subscriber = BudgetSubscriber(self.cache, self._lineage)
        store.subscribers.subscribe(UsageRecorded, "budgets.on_usage_recorded", subscriber.on_usage_recorded)

    def _lineage(self, workspace_id: str) -> list[str]:
        found = [workspace_id]
        while found[-1] in self._parents:
            found.append(self._parents[found[-1]])
        return found

    def fault(self, what: str, note: object) -> None:
        """Count something that should not have happened."""
        self.faults[what] += 1
        if len(self.notes) < 5:
            self.notes.append(f"{what}: {note}")

    async def grow_all(self, dice: Iterable[random.Random]) -> None:
        """Play a tree for each source of chance, some at the same time: they are organisations of their own.

        What waits for one commit is then the work of several trees. The next tree begins where one has ended."""
        waiting = iter(dice)

        async def grow_some() -> None:
            for each in waiting:
                await self.grow(each)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(_TREES_AT_ONCE):
                tasks.create_task(grow_some())

    async def grow(self, dice: random.Random) -> None:
        """Play one tree from its first turn to its last report."""
        await _Tree(self, dice).play()
        self.counts["trees"] += 1


class _Tree:
    """One organisation."""

    def __init__(self, trees: BudgetTrees, dice: random.Random) -> None:
        self._trees, self._dice = trees, dice
        self._org_id = trees.ids.new()
        self._workspaces = [trees.ids.new() for _ in range(dice.randint(2, 7))]
        for place, each in enumerate(self._workspaces[1:], 1):
            trees._parents[each] = self._workspaces[dice.randrange(place)]
        self._budgets: list[SpendingBudget] = []
        self._turns: list[Turn] = []
        self._unreported: list[Turn] = []
        self._spent: Counter[str] = Counter()

    async def play(self) -> None:
        trees, dice = self._trees, self._dice
        for each in self._workspaces:
            size = dice.randint(5, 40)
            await trees.writer.set_turn_lease(self._org_id, each, TurnLeaseSizes(size * 10, size))
        await self._set_budgets()
        for number in range(_ROUNDS):
            await asyncio.gather(*(self._begin(each, f"{number}.{place}") for place, each in self._crowd()))
            await self._check()
            await self._end_some()
            await trees.clock.advance(dice.choice((0, 1, LEASE_SECONDS + 1)))
            await self._check()
        last, self._unreported = [*self._turns, *self._unreported], []
        self._turns = []
        await asyncio.gather(*map(self._report, last))
        await self._check()

    def _crowd(self) -> list[tuple[int, str]]:
        """Workspaces that begin a turn at the same time, some of them several."""
        return list(enumerate(self._dice.choices(self._workspaces, k=self._dice.randint(2, 12))))

    async def _set_budgets(self) -> None:
        dice, root = self._dice, self._workspaces[0]
        wanted = [(BudgetScope.SUBTREE, root)]
        wanted += [(BudgetScope.SUBTREE, each) for each in self._workspaces[1:] if dice.random() < 0.3]
        wanted += [(BudgetScope.WORKSPACE, each) for each in self._workspaces if dice.random() < 0.3]
        for scope, target_id in wanted:
            unit = dice.choice(list(BudgetUnit))
            draft = BudgetDraft(
                scope=scope,
                target_id=target_id,
                workspace_id=target_id,
                unit=unit,
                most=dice.randint(1, 200) * (10 if unit is BudgetUnit.MONEY else 1),
                period=BudgetPeriod.TOTAL,
            )
            self._budgets.append(await self._trees.writer.create_budget(self._org_id, draft, "person:p"))

    async def _begin(self, workspace_id: str, key: str) -> None:
        trees, dice = self._trees, self._dice
        turn = TurnToLease(key=key, until=trees.clock.now() + LEASE_SECONDS * SECOND)

        def decide() -> CommandSteps[bool]:
            leased = yield from trees.leases.lease_turns(
                self._org_id, workspace_id, (turn,), trees.clock.now(), is_alone=bool(keys)
            )
            return leased.returning(key in leased.result.admitted)

        # A claim that does not know of budgets yet has no key, and is decided alone.
        keys = () if dice.random() < 0.2 else trees.leases.lease_keys(self._org_id)
        if not await trees.store.run(Command(self._org_id, keys, decide)):
            trees.counts["turns that waited"] += 1
            return
        rows = await trees.store.rows("leases_of_turn", {"workspace_id": workspace_id, "turn_key": key})
        leased = {row[0]: row[6] for row in rows}
        most = min((amount // 10 if self._is_money(each) else amount for each, amount in leased.items()), default=5)
        self._turns.append(Turn(workspace_id, key, dice.randint(0, most), leased))
        trees.counts["turns"] += 1

    def _is_money(self, budget_id: str) -> bool:
        return any(each.unit is BudgetUnit.MONEY for each in self._budgets if each.id == budget_id)

    async def _end_some(self) -> None:
        """Some turns report, some at the same time and twice; some are killed and report later."""
        dice, now = self._dice, list[Turn]()
        for turn in self._turns:
            fate = dice.random()
            if fate < 0.5:
                now += [turn] * dice.choice((1, 1, 2))
            elif fate < 0.75:
                self._trees.counts["kills"] += 1
                self._unreported.append(turn)
            else:
                self._unreported.append(turn)
        late = [each for each in self._unreported if dice.random() < 0.2]
        self._turns = []
        self._unreported = [each for each in self._unreported if each not in late]
        self._trees.counts["late reports"] += len(late)
        await asyncio.gather(*map(self._report, (*now, *late)))

    async def _report(self, turn: Turn) -> None:
        draft = UsageDraft(
            key=turn.key, tokens=UsageTokens(turn.cost), activity_id=None, model="m", cost_micros=turn.cost * 10
        )
        turn.reports += 1
        self._trees.counts["repeated reports"] += turn.reports > 1
        if turn.reports == 1:
            lineage = self._trees._lineage(turn.workspace_id)
            for each in self._budgets:
                covered = lineage if each.scope is BudgetScope.SUBTREE else lineage[:1]
                if each.target_id in covered:
                    self._spent[each.id] += turn.cost * (10 if each.unit is BudgetUnit.MONEY else 1)
        await self._trees.usage.record(self._org_id, turn.workspace_id, draft)

    async def _check(self) -> None:
        """Compare each budget with the turns that were played."""
        trees, now = self._trees, self._trees.clock.now()
        queries: list[Params] = [
            {"budget_id": each.id, "period_start": period_start(each.period, now), "now": now} for each in self._budgets
        ]
        # One request for all: most of the time of a tree on PostgreSQL is that of its requests.
        found = await trees.store.rows_of_each("budget_state", queries)
        for budget, ((spent, _, _, _, _, leased, _),) in zip(self._budgets, found, strict=True):
            trees.counts["comparisons"] += 1
            if spent > budget.most:
                trees.fault("spent above the limit", (budget, spent))
            if spent + leased > budget.most:
                trees.fault("leased above the limit", (budget, spent, leased))
            if spent != self._spent[budget.id]:
                trees.fault("sums unlike the reports", (budget, spent, self._spent[budget.id]))
            expected = sum(each.leased.get(budget.id, 0) for each in (*self._turns, *self._unreported))
            if leased != expected:
                trees.fault("leases unlike the turns", (budget, leased, expected))
