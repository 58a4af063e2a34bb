"""Retention of webhooks that are not posted to any more."""

from collections.abc import AsyncIterator

from molecule_core.store.database import Statement, Store
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy, deletion_command

_COLUMNS = ("org_id", "task_id", "owner", "id")


class WebhookRetention(RetentionPolicy):
    """Retention policy for webhooks: an ended one is kept as long as its task, which ended at the same time."""

    kinds = ("webhooks",)

    def __init__(self, store: Store) -> None:
        self._store = store

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        last, full = dict.fromkeys(_COLUMNS, "") | {"changed_at": -1}, True
        while full:
            found = await self._store.rows("spent_webhooks", {**last, "before": before, "count": count})
            full = len(found) == count
            if not found:
                yield EMPTY_BATCH
                return
            last = dict(zip((*_COLUMNS, "changed_at"), found[-1], strict=True))
            writes: list[Statement] = [("forget_webhook", dict(zip(_COLUMNS, row[:4], strict=True))) for row in found]
            yield RetentionBatch("webhooks", len(found), deletion_command("", writes))
