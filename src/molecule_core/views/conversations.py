"""Reads the conversation of two workspaces: their messages to each other, with delegations as one item each."""

from collections.abc import Sequence

from msgspec.structs import asdict

from molecule_core.delegations.reader import DelegationReader
from molecule_core.messages.model import PeerPosition, PlacedPeerMessage
from molecule_core.messages.reader import PeerMessageReader
from molecule_core.org.model import Workspace
from molecule_core.wire.schemas.activity import MessageKind
from molecule_core.wire.schemas.conversations import ConversationPage, PeerMessage
from molecule_core.wire.schemas.delegations import TimelineDelegation


class ConversationReader:
    """Reader of conversation pages."""

    def __init__(self, messages: PeerMessageReader, delegations: DelegationReader) -> None:
        self.messages = messages
        self._delegations = delegations

    async def read_before(
        self, workspace: Workspace, peer_id: str, position: PeerPosition | None, count: int
    ) -> ConversationPage:
        """Return the items before a position (None: the newest), oldest first."""
        placed, has_more = await self.messages.list_before(workspace.id, peer_id, position, count)
        return await self._to_page(workspace, placed[::-1], has_more)

    async def read_after(
        self, workspace: Workspace, peer_id: str, position: PeerPosition, count: int
    ) -> ConversationPage:
        """Return the items after a position, oldest first."""
        placed, has_more = await self.messages.list_after(workspace.id, peer_id, position, count)
        return await self._to_page(workspace, placed, has_more)

    async def _to_page(
        self, workspace: Workspace, placed: Sequence[PlacedPeerMessage], has_more: bool
    ) -> ConversationPage:
        """Replace messages that carry a delegation by the delegation; one whose delegation was pruned stays."""
        messages = [each.message for each in placed]
        ids = [each.id for each in messages if each.message_kind == MessageKind.DELEGATION]
        delegations = await self._delegations.previews_by_id(workspace.org_id, ids)
        items: list[PeerMessage | TimelineDelegation] = [
            TimelineDelegation(**asdict(delegations[each.id])) if each.id in delegations else each for each in messages
        ]
        return ConversationPage(items, reached_end=not has_more)
