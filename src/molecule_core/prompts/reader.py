"""Reads of shared context and of prompts that were told."""

from collections.abc import Sequence

import msgspec

from molecule_core.org.reader import OrgReader
from molecule_core.prompts.model import Kept, KeptFile, Shared
from molecule_core.store.database import Row, Store
from molecule_core.wire.prompts import Build


class PromptReader:
    """What workspaces share, and what their agents' prompts say."""

    def __init__(self, store: Store, org: OrgReader) -> None:
        self._store = store
        self._org = org

    def parent_of(self, workspace_id: str) -> str | None:
        """Whose direct child a workspace is now."""
        workspace = self._org.workspace(workspace_id)
        return None if workspace is None else workspace.parent_id

    async def shared(self, workspace_id: str) -> Shared:
        """What a workspace shares with its children."""
        return shared_of(await self._store.rows("shared_context", {"workspace_id": workspace_id}))

    async def newest(self, workspace_id: str) -> list[Kept]:
        """The prompt that was told last and the one before, if there are any."""
        wish = {"workspace_id": workspace_id, "count": 2}
        return [Kept(*row) for row in await self._store.rows("newest_prompts", wish)]

    def text_of(self, kept: Kept) -> str:
        """A prompt as a model reads it."""
        return "\n\n".join(each.text for each in msgspec.json.decode(kept.build, type=Build).sections)


def shared_of(rows: Sequence[Row]) -> Shared:
    """What rows of `shared_context` hold."""
    for revision, files in rows:
        return Shared(revision, msgspec.json.decode(files, type=tuple[KeptFile, ...]))
    return Shared()
