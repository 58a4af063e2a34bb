"""Retention of threads: deletes threads with their logs some days after their whole tree was closed.

Threads that a fork still sees are kept. The keys of a deleted session move to the session that replaced it.
"""

from collections.abc import AsyncIterator, Sequence
from itertools import accumulate
from typing import Any

from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, CommandSteps, ReadQuery, Row, Store, WriteSet
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy

# Deleted with a thread, in this order: keys move while the thread still exists, and for all threads of a command before
# the first is deleted, so several sessions in a row can be deleted in any order. Base instructions can only be deleted
# after their thread.
_DELETE_STATEMENTS = (
    "move_thread_keys",
    "forget_successor_link",
    "forget_thread",
    "forget_thread_bases",
    "forget_thread_entries",
    "forget_thread_turns",
    "forget_thread_mail",
    "forget_thread_usage",
    "forget_thread_reports",
    "forget_thread_keys",
)


class ThreadRetention(RetentionPolicy):
    """Retention of threads."""

    kinds = ("threads",)

    def __init__(self, store: Store, org: OrgReader) -> None:
        self._store = store
        self._org = org

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        for org in self._org.orgs():
            async for batch in self._org_batches(org.id, before, count):
                yield batch

    async def _org_batches(self, org_id: str, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        position: dict[str, Any] = {"updated_at": -1, "id": ""}
        while True:
            query = {"org_id": org_id, "before": before, "count": count, **position}
            found = _limit_by_entries(await self._store.rows("old_threads", query), count)
            if not found:
                yield EMPTY_BATCH
                return
            yield RetentionBatch("threads", len(found), self._delete_command(query, {row[0] for row in found}))
            position = {"id": found[-1][0], "updated_at": found[-1][1]}

    def _delete_command(self, query: dict[str, Any], found: set[str]) -> Command[None]:
        """Delete those of the found threads that still qualify: a closed thread can be resumed or forked until then."""

        def decide() -> CommandSteps[None]:
            rows = yield ReadQuery("old_threads", query)
            own = [{"thread_id": row[0]} for row in rows if row[0] in found]
            return WriteSet(None, [(name, each) for name in _DELETE_STATEMENTS for each in own])

        return Command(query["org_id"], (), decide, exclusive=True)


def _limit_by_entries(rows: Sequence[Row], count: int) -> Sequence[Row]:
    """Return the first threads with at most `count` log entries together, and at least one."""
    entry_counts = accumulate(last for *_, last in rows)
    return rows[: max(1, sum(each <= count for each in entry_counts))]
