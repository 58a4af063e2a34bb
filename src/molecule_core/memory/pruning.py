"""Retention of memory: what a workspace remembered goes some days after the workspace. Nothing else is ever old."""

from collections.abc import AsyncIterator

from molecule_core.memory.model import EXPIRY
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.store.pruning import LOOKED, Batch, Prunes, deletion
from molecule_core.store.queries import Params
from molecule_core.store.timers import no_timer


class MemoryPruning(Prunes):
    """The part of memories and keys of workspaces that were removed before the time."""

    def __init__(self, store: Store, org: OrgReader) -> None:
        self._store = store
        self._org = org

    async def batches(self, before: int, count: int) -> AsyncIterator[Batch]:
        for org in self._org.orgs():
            for workspace in list(self._org.all_ever(org.id)):
                if workspace.removed_at is not None and workspace.removed_at < before:
                    async for batch in self._memories(org.id, workspace.id, count):
                        yield batch
                    async for batch in self._keys(org.id, workspace.id, count):
                        yield batch

    async def _memories(self, org_id: str, workspace_id: str, count: int) -> AsyncIterator[Batch]:
        last, full = 0, True
        while full:
            wish = {"workspace_id": workspace_id, "no": last, "count": count}
            found = await self._store.rows("memories_of_workspace", wish)
            full = len(found) == count
            if not found:
                yield LOOKED
                return
            last = found[-1][0]
            yield Batch(
                "memories of removed workspaces",
                len(found),
                deletion(org_id, [("forget_memory", {"no": row[0]}) for row in found]),
            )

    async def _keys(self, org_id: str, workspace_id: str, count: int) -> AsyncIterator[Batch]:
        own, last, full = {"workspace_id": workspace_id}, "", True
        while full:
            found = await self._store.rows("keys_of_workspace", {**own, "after": last, "count": count})
            full = len(found) == count
            writes: list[tuple[str, Params]] = [("forget_key", {**own, "key": row[0]}) for row in found]
            if not full and await self._store.rows("last_key_version", own):
                writes += [("forget_key_version", own), no_timer(EXPIRY, workspace_id)]
            last = found[-1][0] if found else last
            yield Batch("keys of removed workspaces", len(found), deletion(org_id, writes)) if writes else LOOKED
