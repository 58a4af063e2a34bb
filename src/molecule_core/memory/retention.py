"""Deletes the memories and keys of removed workspaces. Those of other workspaces never get old."""

from collections.abc import AsyncIterator

from molecule_core.memory.model import KEY_EXPIRY_TIMER
from molecule_core.memory.usage import count_bytes
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Statement, Store
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy, deletion_command
from molecule_core.store.timers import cancel_timer


class MemoryRetention(RetentionPolicy):
    """Retention policy for memories and keys of removed workspaces."""

    kinds = ("memories of removed workspaces", "keys of removed workspaces")

    def __init__(self, store: Store, org: OrgReader) -> None:
        self._store = store
        self._org = org

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        for org in self._org.orgs():
            for workspace in list(self._org.all_with_removed(org.id)):
                if workspace.removed_at is not None and workspace.removed_at < before:
                    async for batch in self._memory_batches(org.id, workspace.id, count):
                        yield batch
                    async for batch in self._key_batches(org.id, workspace.id, count):
                        yield batch

    async def _memory_batches(self, org_id: str, workspace_id: str, count: int) -> AsyncIterator[RetentionBatch]:
        last, full = 0, True
        while full:
            params = {"workspace_id": workspace_id, "no": last, "count": count}
            found = await self._store.rows("memories_of_workspace", params)
            full = len(found) == count
            if not found:
                yield EMPTY_BATCH
                return
            last = found[-1][0]
            yield RetentionBatch(
                "memories of removed workspaces",
                len(found),
                deletion_command(
                    org_id,
                    [
                        *(("forget_memory", {"no": row[0]}) for row in found),
                        count_bytes(org_id, -sum(row[1] for row in found)),
                    ],
                ),
            )

    async def _key_batches(self, org_id: str, workspace_id: str, count: int) -> AsyncIterator[RetentionBatch]:
        workspace_params, last, full = {"workspace_id": workspace_id}, "", True
        while full:
            found = await self._store.rows("keys_of_workspace", {**workspace_params, "after": last, "count": count})
            full = len(found) == count
            writes: list[Statement] = [("forget_key", {**workspace_params, "key": row[0]}) for row in found]
            if found:
                writes.append(count_bytes(org_id, -sum(row[1] for row in found)))
            if not full and await self._store.rows("last_key_version", workspace_params):
                writes += [("forget_key_version", workspace_params), cancel_timer(KEY_EXPIRY_TIMER, workspace_id)]
            last = found[-1][0] if found else last
            yield (
                RetentionBatch("keys of removed workspaces", len(found), deletion_command(org_id, writes))
                if writes
                else EMPTY_BATCH
            )
