"""Reads of shared context and of prompts that were told."""

from collections.abc import Sequence

import msgspec

from molecule_core.org.reader import OrgReader
from molecule_core.prompts.model import SharedFiles, StoredPrompt, StoredSharedFile
from molecule_core.store.database import Row, Store
from molecule_core.wire.schemas.prompts import PromptBuild


class PromptReader:
    """What workspaces share, and what their agents' prompts say."""

    def __init__(self, store: Store, org: OrgReader) -> None:
        self._store = store
        self._org = org

    def parent_id_of(self, workspace_id: str) -> str | None:
        """Whose direct child a workspace is now."""
        workspace = self._org.workspace(workspace_id)
        return None if workspace is None else workspace.parent_id

    async def shared_files(self, workspace_id: str) -> SharedFiles:
        """What a workspace shares with its children."""
        return shared_files_from_rows(await self._store.rows("shared_context", {"workspace_id": workspace_id}))

    async def latest_prompts(self, workspace_id: str) -> list[StoredPrompt]:
        """The prompt that was told last and the one before, if there are any."""
        params = {"workspace_id": workspace_id, "count": 2}
        return [StoredPrompt(*row) for row in await self._store.rows("newest_prompts", params)]

    def prompt_text(self, prompt: StoredPrompt) -> str:
        """A prompt as a model reads it."""
        return "\n\n".join(each.text for each in msgspec.json.decode(prompt.build, type=PromptBuild).sections)


def shared_files_from_rows(rows: Sequence[Row]) -> SharedFiles:
    """What rows of `shared_context` hold."""
    for revision, files in rows:
        return SharedFiles(revision, msgspec.json.decode(files, type=tuple[StoredSharedFile, ...]))
    return SharedFiles()
