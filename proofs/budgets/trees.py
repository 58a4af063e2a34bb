"""Random trees (testing/machines/budget_trees.py) in a process of their own, and what they came to."""

from molecule_core.common.ids import IdGenerator
from proofs.harness.children import as_a_child
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from testing.clocks import FakeClock, SeededRandomness
from testing.engines import open_store
from testing.machines.budget_trees import BudgetTrees

_ZEROS = ("spent above the limit", "leased above the limit", "sums unlike the reports", "leases unlike the turns")


async def run(setting: Setting) -> Verdict:
    """`setting.size` trees, several at the same time, each with turns at the same time."""
    clock = FakeClock()
    place = setting.database or str(setting.folder / "store.db")
    store = open_store(setting.engine, place, clock=clock)
    await store.open()
    try:
        trees = BudgetTrees(store, clock, IdGenerator(clock, SeededRandomness(setting.seed)))
        await trees.grow_all(setting.dice("tree", number) for number in range(setting.size))
    finally:
        await store.close()
    zeros = {name: trees.faults[name] for name in _ZEROS}
    return Verdict(dict(trees.counts), zeros, trees.notes)


if __name__ == "__main__":
    as_a_child(run)
