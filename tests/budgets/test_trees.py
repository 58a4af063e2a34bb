"""Random trees whose turns lease at the same time, a few of those that `scripts/prove budgets` plays."""

import random

from molecule_core.common.ids import IdGenerator
from testing.clocks import FakeClock, SeededRandomness
from testing.engines import Engine, open_store
from testing.machines.budget_trees import BudgetTrees
from tests.requirements import requirement


@requirement("B1")
async def test_turns_of_random_trees_stay_within_their_budgets(engine: Engine, place: str, clock: FakeClock) -> None:
    store = open_store(engine, place, clock=clock)
    await store.open()
    try:
        trees = BudgetTrees(store, clock, IdGenerator(clock, SeededRandomness(5)))
        for number in range(4):
            await trees.grow(random.Random(number))
    finally:
        await store.close()
    assert not trees.faults, trees.notes
    done = ("turns", "turns that waited", "kills", "late reports", "repeated reports")
    assert min(trees.counts[name] for name in done) > 0, trees.counts
