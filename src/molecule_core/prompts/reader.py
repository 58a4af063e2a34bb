"""Reads of shared context and reported prompts."""

from collections.abc import Sequence

import msgspec

from molecule_core.org.reader import OrgReader
from molecule_core.prompts.model import SharedFiles, StoredPrompt, StoredSharedFile
from molecule_core.store.database import Row, Store
from molecule_core.wire.schemas.prompts import PromptBuild


class PromptReader:
    """Read access to shared files and reported prompts."""

    def __init__(self, store: Store, org: OrgReader) -> None:
        self._store = store
        self._org = org

    def parent_id_of(self, workspace_id: str) -> str | None:
        """Return the id of a workspace's current parent."""
        workspace = self._org.workspace(workspace_id)
        return None if workspace is None else workspace.parent_id

    async def shared_files(self, workspace_id: str) -> SharedFiles:
        """Return the files that a workspace shares with its children."""
        return shared_files_from_rows(await self._store.rows("shared_context", {"workspace_id": workspace_id}))

    async def latest_prompts(self, workspace_id: str) -> list[StoredPrompt]:
        """Return the last reported prompt and the one before, as far as they exist."""
        params = {"workspace_id": workspace_id, "count": 2}
        return [StoredPrompt(*row) for row in await self._store.rows("newest_prompts", params)]

    def prompt_text(self, prompt: StoredPrompt) -> str:
        """Return the text of a prompt as a model reads it."""
        return "\n\n".join(each.text for each in msgspec.json.decode(prompt.build, type=PromptBuild).sections)


def shared_files_from_rows(rows: Sequence[Row]) -> SharedFiles:
    """Build the shared files from rows of `shared_context`."""
    for revision, files in rows:
        return SharedFiles(revision, msgspec.json.decode(files, type=tuple[StoredSharedFile, ...]))
    return SharedFiles()
