"""Retention of tasks at A2A agents that have not changed for long."""

from collections.abc import AsyncIterator
from typing import Any

from molecule_core.store.database import Store
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy, deletion_command

_CURSOR = ("updated_at", "workspace_id", "activity_id")


class A2ATaskRetention(RetentionPolicy):
    """Retention policy for tasks. A conversation that goes on later begins a new context at its agent."""

    kinds = ("tasks at A2A agents",)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        cursor, full = dict[str, Any](zip(_CURSOR, (0, "", ""), strict=True)), True
        while full:
            found = await self._store.rows("spent_a2a_tasks", {**cursor, "before": before, "count": count})
            full = len(found) == count
            if not found:
                yield EMPTY_BATCH
                return
            cursor = dict(zip(_CURSOR, found[-1], strict=True))
            keys = [{"workspace_id": row[1], "activity_id": row[2]} for row in found]
            deleted = deletion_command("", [("forget_a2a_task", key) for key in keys])
            yield RetentionBatch(self.kinds[0], len(found), deleted)
