"""Deletes old usage records. The sums of days stay."""

from collections.abc import AsyncIterator

from molecule_core.common.clock import Clock
from molecule_core.common.limits import Limits
from molecule_core.store.database import Statement, Store
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy, deletion_command
from molecule_core.usage import rules


class UsageRetention(RetentionPolicy):
    """Retention policy for usage records, which are kept longer than other rows (`usage_record_days`)."""

    kinds = ("usage records",)

    def __init__(self, store: Store, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        if not self._limits.usage_record_days:
            return
        before = min(before, rules.first_record_time(self._clock.now(), self._limits))
        last, full = {"at": -1, "workspace_id": "", "key": ""}, True
        while full:
            found = await self._store.rows("expired_usage_records", {**last, "before": before, "count": count})
            full = len(found) == count
            if not found:
                yield EMPTY_BATCH
                return
            last = dict(zip(("at", "workspace_id", "key"), found[-1], strict=True))
            writes: list[Statement] = [
                ("forget_usage_record", {"workspace_id": row[1], "key": row[2]}) for row in found
            ]
            yield RetentionBatch("usage records", len(found), deletion_command("", writes))
