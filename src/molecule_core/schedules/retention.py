"""Retention of the runs of schedules."""

from collections.abc import AsyncIterator

from molecule_core.store.database import Store
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy, deletion_command


class ScheduleRetention(RetentionPolicy):
    """Retention of the runs of schedules."""

    kinds = ("runs of schedules",)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        position, full = {"schedule_id": "", "planned_at": 0}, True
        while full:
            found = await self._store.rows("spent_schedule_runs", {"before": before, "count": count, **position})
            full = len(found) == count
            if not found:
                yield EMPTY_BATCH
                return
            rows = [dict(zip(position, row, strict=True)) for row in found]
            position = rows[-1]
            yield RetentionBatch(
                self.kinds[0], len(rows), deletion_command("", [("forget_schedule_run", row) for row in rows])
            )
