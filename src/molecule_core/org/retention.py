"""Deletes heartbeats of removed workspaces."""

from collections.abc import AsyncIterator

from molecule_core.store.database import Store
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy, deletion_command


class HeartbeatRetention(RetentionPolicy):
    """Retention policy for heartbeats of removed workspaces."""

    kinds = ("heartbeats of removed workspaces",)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        last, full = "", True
        while full:
            params = {"before": before, "workspace_id": last, "count": count}
            found = await self._store.rows("heartbeats_of_removed", params)
            full = len(found) == count
            if not found:
                yield EMPTY_BATCH
                return
            last = found[-1][0]
            writes = [("forget_heartbeat", {"workspace_id": row[0]}) for row in found]
            yield RetentionBatch("heartbeats of removed workspaces", len(found), deletion_command("", list(writes)))
