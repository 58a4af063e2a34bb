"""Reads the surroundings of a workspace for its agent's instructions: peers of the tree, files of the parent."""

import msgspec

from molecule_core.org import rules
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.prompts.reader import PromptReader
from molecule_core.wire.schemas.host_context import ContextFile, ContextPeer, HostContext


class HostContextReader:
    """Reader of the surroundings of workspaces."""

    def __init__(self, org: OrgReader, prompts: PromptReader) -> None:
        self._org = org
        self._prompts = prompts

    async def read_context(self, workspace: Workspace) -> HostContext:
        """Return the peers of a workspace, and the files that its parent shares with it."""
        peers = [_to_peer(each, workspace) for each in rules.peers(self._org, workspace) if not each.removed]
        files = list[ContextFile]()
        if workspace.parent_id is not None:
            shared = await self._prompts.shared_files(workspace.parent_id)
            files = [ContextFile(each.path, each.content) for each in shared.files]
        return HostContext(workspace.id, workspace.name, peers, files)


def _to_peer(peer: Workspace, workspace: Workspace) -> ContextPeer:
    card = None if peer.agent_card is None else msgspec.json.decode(peer.agent_card)
    description = card.get("description") if isinstance(card, dict) else None
    return ContextPeer(
        id=peer.id,
        name=peer.name,
        role=peer.role or "",
        description=description if isinstance(description, str) else "",
        is_below=peer.parent_id == workspace.id,
    )
