"""Retention of leases: deletes those of turns that never reported their usage."""

from collections.abc import AsyncIterator

from molecule_core.store.database import Store
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy, deletion_command


class LeaseRetention(RetentionPolicy):
    """Retention of leases from budgets."""

    kinds = ("leases of budgets",)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        position, full = {"workspace_id": "", "turn_key": "", "budget_id": ""}, True
        while full:
            found = await self._store.rows("spent_budget_leases", {"before": before, "count": count, **position})
            full = len(found) == count
            if not found:
                yield EMPTY_BATCH
                return
            rows = [dict(zip(position, row, strict=True)) for row in found]
            position = rows[-1]
            yield RetentionBatch(
                self.kinds[0], len(rows), deletion_command("", [("end_budget_lease", row) for row in rows])
            )
