"""Retention of threads: a tree goes some days after all of it was closed, thread by thread with their logs; not what a
fork still sees. What a session was called goes on to the one that has taken its place, to which it leads.

Above: the server. Below: the store.
"""

from collections.abc import AsyncIterator, Sequence
from itertools import accumulate
from typing import Any

from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Read, Row, Store, WriteSet
from molecule_core.store.pruning import LOOKED, Batch, Prunes

# What goes with a thread. Keys are handed on while it is there, and each for all threads of a command before one is
# forgotten: so several sessions in a row may go in any order. Then it goes itself: its base instructions stay as long.
_WITH_A_THREAD = (
    "hand_on_thread_keys",
    "forget_thread_place",
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
        while True:
            look = {"org_id": org_id, "before": before, "count": count, **place}
            found = _few(await self._store.rows("old_threads", look), count)
            if not found:
                yield LOOKED
                return
            yield Batch("threads", len(found), self._deletion(look, {row[0] for row in found}))
            place = {"id": found[-1][0], "updated_at": found[-1][1]}

    def _deletion(self, look: dict[str, Any], found: set[str]) -> Command[None]:
        """Deletes those of the threads that were found that may still go: a closed thread may be taken up again, or
        forked, until then."""

        def decide() -> Decision[None]:
            rows = yield Read("old_threads", look)
            own = [{"thread_id": row[0]} for row in rows if row[0] in found]
            return WriteSet(None, [(name, each) for name in _WITH_A_THREAD for each in own])

        return Command(look["org_id"], (), decide, alone=True)


def _few(rows: Sequence[Row], count: int) -> Sequence[Row]:
    """The first of them: at least one, and no more than have so many lines of logs together."""
    lines = accumulate(last for *_, last in rows)
    return rows[: max(1, sum(each <= count for each in lines))]
