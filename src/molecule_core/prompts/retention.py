"""Deletes the shared files and prompts of removed workspaces."""

from collections.abc import AsyncIterator

from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Statement, Store
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy, deletion_command


class PromptRetention(RetentionPolicy):
    """Retention policy for shared files and prompts of removed workspaces."""

    kinds = ("prompts of removed workspaces",)

    def __init__(self, store: Store, org: OrgReader) -> None:
        self._store = store
        self._org = org

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        for org in self._org.orgs():
            for workspace in list(self._org.all_with_removed(org.id)):
                if workspace.removed_at is not None and workspace.removed_at < before:
                    yield await self._workspace_batch(org.id, workspace.id)

    async def _workspace_batch(self, org_id: str, workspace_id: str) -> RetentionBatch:
        """Return a batch for all rows of a workspace, which are few and limited."""
        workspace_params = {"workspace_id": workspace_id}
        last = await self._store.rows("last_prompt", workspace_params)
        shared = await self._store.rows("shared_context", workspace_params)
        if not last and not shared:
            return EMPTY_BATCH
        writes: list[Statement] = [("forget_shared_context", workspace_params)]
        if last:
            writes.append(("forget_prompts", {**workspace_params, "upto": last[0][0]}))
        return RetentionBatch(
            "prompts of removed workspaces", len(shared) + len(last), deletion_command(org_id, writes)
        )
