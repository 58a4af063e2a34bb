"""Retention: deletes old, settled rows in small batches with pauses for other work.

Each package decides what of its own may be deleted (`RetentionPolicy`); the pace, and the journal's policy, are here.
What may be deleted once may be deleted for ever, so a batch is found by reading committed rows and needs no lock until
it is deleted.

Called by the server; calls `store/timers.py`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple, Protocol

from molecule_core.common.clock import DAY, SECOND, Clock, yield_to_others
from molecule_core.common.limits import Limits
from molecule_core.store.database import Command, Statement, Store, WriteSet, write_only
from molecule_core.store.timers import TIMERS_KEY, set_timer

RETENTION_TIMER = "retention"
"""The kind of the timer of the retention worker."""
# A start has more urgent work.
_AFTER_START_SECONDS = 60
# One part of work, nine parts of rest, and never less rest than this: other work is hardly delayed.
_REST_FACTOR = 9
_MIN_REST_SECONDS = 0.02
_log = logging.getLogger("molecule.retention")


class RetentionBatch(NamedTuple):
    """Rows of one kind that may be deleted, and the command that deletes them. None: a query that found nothing."""

    what: str
    rows: int
    command: Command[None] | None


EMPTY_BATCH = RetentionBatch("", 0, None)


class RetentionPolicy(Protocol):
    """Retention of one package. `kinds`: what its batches delete, for metrics that start at 0."""

    kinds: tuple[str, ...] = ()

    def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        """Yield all rows older than `before` (microseconds) that may be deleted, at most `count` rows a batch.

        Works whether or not the batches are carried out. A query that finds nothing yields `EMPTY_BATCH`, so that a
        series of them can be interrupted."""


class RetentionWorker:
    """Runs all policies, over and over. `deleted_rows` counts since the start of the process."""

    def __init__(self, store: Store, policies: Sequence[RetentionPolicy], *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._policies = policies
        self._clock = clock
        self._limits = limits
        self._open_round: AsyncIterator[RetentionBatch] | None = None
        self.deleted_rows = dict.fromkeys((kind for each in policies for kind in each.kinds), 0)
        self.rounds = 0
        self._deleted_in_round: dict[str, int] = {}

    @property
    def cutoff(self) -> int:
        """Return the time (microseconds) before which rows may be deleted; 0 if everything is kept."""
        days = self._limits.retention_days
        return self._clock.now() - days * DAY if days else 0

    async def schedule_round(self, after_seconds: int = _AFTER_START_SECONDS) -> None:
        """Schedule a round after this many seconds."""
        await self._store.run(self._schedule_command(after_seconds))

    async def on_due(self, _key: str) -> None:
        """Run one batch of the round and schedule the next."""
        started = self._clock.monotonic()
        batch = await self._next_batch()
        if batch is None:
            self._open_round = None
            self.rounds += 1
            self._log_round()
            await self._store.run(self._schedule_command(self._limits.prune_seconds))
            return
        commands = () if batch.command is None else (self._store.run(batch.command),)
        await asyncio.gather(*commands)
        if batch.rows:
            for counts in (self.deleted_rows, self._deleted_in_round):
                counts[batch.what] = counts.get(batch.what, 0) + batch.rows
        rest = max(_MIN_REST_SECONDS, _REST_FACTOR * (self._clock.monotonic() - started))
        await self._store.run(self._schedule_command(rest))

    def _log_round(self) -> None:
        """Log what the round deleted. A round that found nothing is logged for debugging only."""
        if self._deleted_in_round:
            deleted = ", ".join(f"{count} {what}" for what, count in sorted(self._deleted_in_round.items()))
            _log.info("a round of retention deleted %s", deleted, extra={"rows": sum(self._deleted_in_round.values())})
        else:
            _log.debug("a round of retention found nothing to delete")
        self._deleted_in_round = {}

    async def _next_batch(self) -> RetentionBatch | None:
        """Return the next batch that deletes something, or an empty one after many empty queries; None at the end."""
        if not self.cutoff:
            return None
        if self._open_round is None:
            self._open_round = self._all_batches(self.cutoff)
        batch: RetentionBatch | None = EMPTY_BATCH
        try:
            for _ in range(self._limits.retention_batch):
                batch = await anext(self._open_round, None)
                if batch is None or batch.command is not None:
                    break
        except BaseException:
            self._open_round = None  # the next round finds what this one missed
            raise
        return batch

    async def _all_batches(self, before: int) -> AsyncIterator[RetentionBatch]:
        for policy in self._policies:
            async for batch in policy.batches(before, self._limits.retention_batch):
                yield batch

    async def count_expired(self) -> dict[str, int]:
        """Count the rows of each kind that would be deleted now."""
        found: dict[str, int] = {}
        if self.cutoff:
            async for batch in self._all_batches(self.cutoff):
                if batch.rows:
                    found[batch.what] = found.get(batch.what, 0) + batch.rows
                await yield_to_others()
        return found

    def _schedule_command(self, seconds: float) -> Command[None]:
        due = self._clock.now() + round(seconds * SECOND)
        return deletion_command("", [set_timer(RETENTION_TIMER, "", due)], notify=(TIMERS_KEY,))


class JournalRetention(RetentionPolicy):
    """Retention of the journal: old events, except the newest of each organisation, which holds its last number.

    Only the oldest are deleted, so the rest has no gap."""

    kinds = ("events",)

    def __init__(self, store: Store, orgs: Callable[[], Iterable[str]]) -> None:
        self._store = store
        self._orgs = orgs

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        for org_id in self._orgs():
            last, full = 0, True
            while full:
                oldest = await self._store.rows("oldest_events", {"org_id": org_id, "seq": last, "count": count + 1})
                old = list(takewhile(lambda row: row[1] < before, oldest[:-1]))
                full = len(old) == count
                if not old:
                    yield EMPTY_BATCH
                    break
                last = old[-1][0]
                yield RetentionBatch(
                    "events", len(old), deletion_command(org_id, [("forget_events", {"org_id": org_id, "upto": last})])
                )


def deletion_command(org_id: str, writes: list[Statement], notify: tuple[str, ...] = ()) -> Command[None]:
    """Create a command that deletes rows found before."""
    return Command(org_id, (), partial(write_only, WriteSet(None, writes, notify=notify)))
