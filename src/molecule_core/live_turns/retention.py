"""Retention of the table of live turns: rows of agents that have gone, which no report replaces."""

from collections.abc import AsyncIterator

from molecule_core.store.database import Store
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy, deletion_command

_KIND = "live turns"


class LiveTurnRetention(RetentionPolicy):
    """Retention policy for live turns that have expired."""

    kinds = (_KIND,)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        workspace_id, full = "", True
        while full:
            params = {"before": before, "workspace_id": workspace_id, "count": count}
            found = await self._store.rows("expired_live_turns", params)
            full = len(found) == count
            if not found:
                yield EMPTY_BATCH
                return
            workspace_id = found[-1][0]
            writes = [("forget_expired_live_turns", {"workspace_id": row[0], "now": before}) for row in found]
            yield RetentionBatch(_KIND, len(found), deletion_command("", list(writes)))
