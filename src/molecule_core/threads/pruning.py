"""Retention of threads: a closed one goes after some days, with its log; not one that a fork still sees.

Above: the server. Below: the store.
"""

from collections.abc import AsyncIterator
from typing import Any

from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.store.pruning import LOOKED, Batch, Prunes, deletion

# What goes with a thread, which itself goes first: its base instructions stay as long as it does.
_WITH_A_THREAD = (
    "forget_thread",
    "forget_thread_bases",
    "forget_thread_entries",
    "forget_thread_turns",
    "forget_thread_mail",
    "forget_thread_usage",
    "forget_thread_reports",
    "forget_thread_keys",
)


class ThreadPruning(Prunes):
    """The part of threads."""

    def __init__(self, store: Store, org: OrgReader) -> None:
        self._store = store
        self._org = org

    async def batches(self, before: int, count: int) -> AsyncIterator[Batch]:
        for org in self._org.orgs():
            async for batch in self._of(org.id, before, count):
                yield batch

    async def _of(self, org_id: str, before: int, count: int) -> AsyncIterator[Batch]:
        place: dict[str, Any] = {"updated_at": -1, "id": ""}
        full = True
        while full:
            found = await self._store.rows("old_threads", {"org_id": org_id, "before": before, "count": count, **place})
            full = len(found) == count
            if not found:
                yield LOOKED
                return
            place = {"id": found[-1][0], "updated_at": found[-1][1]}
            own = [{"thread_id": row[0]} for row in found]
            yield Batch(
                "threads", len(own), deletion(org_id, [(name, each) for name in _WITH_A_THREAD for each in own])
            )
