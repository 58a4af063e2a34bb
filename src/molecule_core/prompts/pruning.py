"""Retention of prompts: what a workspace shared and told goes some days after the workspace."""

from collections.abc import AsyncIterator

from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.store.pruning import LOOKED, Batch, Prunes, deletion
from molecule_core.store.queries import Params


class PromptPruning(Prunes):
    """The part of shared files and prompts of workspaces that were removed before the time."""

    def __init__(self, store: Store, org: OrgReader) -> None:
        self._store = store
        self._org = org

    async def batches(self, before: int, count: int) -> AsyncIterator[Batch]:
        for org in self._org.orgs():
            for workspace in list(self._org.all_ever(org.id)):
                if workspace.removed_at is not None and workspace.removed_at < before:
                    yield await self._of(org.id, workspace.id)

    async def _of(self, org_id: str, workspace_id: str) -> Batch:
        """All of a workspace: few rows, whose number is limited."""
        own = {"workspace_id": workspace_id}
        last = await self._store.rows("last_prompt", own)
        shared = await self._store.rows("shared_context", own)
        if not last and not shared:
            return LOOKED
        writes: list[tuple[str, Params]] = [("forget_shared_context", own)]
        if last:
            writes.append(("forget_prompts", {**own, "upto": last[0][0]}))
        return Batch("prompts of removed workspaces", len(shared) + len(last), deletion(org_id, writes))
