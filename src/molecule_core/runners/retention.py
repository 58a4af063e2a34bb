"""Retention of runners that were removed, and of requests to runners."""

from collections.abc import AsyncIterator

from molecule_core.store.database import Store
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy, deletion_command

# The name in reports, the query that finds rows, the query that deletes one.
_QUERIES = (
    ("requests to runners", "spent_runner_requests", "forget_runner_request"),
    ("removed runners", "spent_runners", "forget_runner"),
)


class RunnerRetention(RetentionPolicy):
    """Retention policy for runners."""

    kinds = tuple(what for what, *_ in _QUERIES)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        for what, find_query, delete_query in _QUERIES:
            last, full = "", True
            while full:
                found = await self._store.rows(find_query, {"before": before, "id": last, "count": count})
                full = len(found) == count
                if not found:
                    yield EMPTY_BATCH
                    break
                last = found[-1][0]
                deleted = deletion_command("", [(delete_query, {"id": row[0]}) for row in found])
                yield RetentionBatch(what, len(found), deleted)
