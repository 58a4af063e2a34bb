"""Routes of conversations: what two workspaces wrote to each other, for people."""

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import LIMIT, query_params, read_int_param, read_text_param, string_param
from molecule_core.api.routing import PERSON_OR_ADMIN, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.errors import CursorNotFound, NotFound
from molecule_core.common.limits import Limits
from molecule_core.messages.model import PeerPosition
from molecule_core.org.reader import OrgReader
from molecule_core.views.conversations import ConversationReader
from molecule_core.wire.schemas.conversations import ConversationPage, ConversationPeers

_DEFAULT_PAGE = 50


class ConversationRoutes:
    """Routes of conversations between workspaces."""

    def __init__(self, reader: ConversationReader, org: OrgReader, *, limits: Limits) -> None:
        self._reader = reader
        self._org = org
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        every = "/workspaces/{id}/conversations"
        view = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.VIEWER)
        listed = query_params(LIMIT, string_param("before", "Page back from this peer's workspace_id."))
        paged = query_params(
            LIMIT,
            string_param("before", "Page back from this item's id."),
            string_param("after", "Page forwards from this item's id."),
        )
        return [
            Route(
                "GET",
                every,
                self.list_peers,
                view,
                "List the conversations of a workspace with its peers",
                None,
                ConversationPeers,
                query=listed,
                keeps_history=True,
            ),
            Route(
                "GET",
                f"{every}/{{peer_id}}",
                self.get_conversation,
                view,
                "Get the conversation of two workspaces",
                None,
                ConversationPage,
                query=paged,
                keeps_history=True,
            ),
        ]

    async def list_peers(self, request: Request) -> Response:
        """List the workspaces that exchanged messages with a workspace, last message first.

        `before` (a workspace_id) pages back."""
        query, workspace = request.query_params(), request.workspace
        before = read_text_param(query, "before")
        page = await self._reader.messages.list_peers(workspace.org_id, workspace.id, self._page_size(query), before)
        return json_response(page)

    async def get_conversation(self, request: Request) -> Response:
        """List the messages of two workspaces to each other, oldest first: the newest page, or before or after an item.

        A delegation and its result are one item (`kind` delegation); results are only in it. `after` wins over
        `before`."""
        query, workspace, count = request.query_params(), request.workspace, self._page_size(request.query_params())
        peer = self._org.workspace(request.path_param("peer_id", "workspace"))
        if peer is None or peer.org_id != workspace.org_id or peer.id == workspace.id:
            raise NotFound(what="workspace")
        after = await self._position(workspace.id, peer.id, query, "after")
        if after is not None:
            return json_response(await self._reader.read_after(workspace, peer.id, after, count))
        before = await self._position(workspace.id, peer.id, query, "before")
        return json_response(await self._reader.read_before(workspace, peer.id, before, count))

    async def _position(self, workspace_id: str, peer_id: str, query: dict[str, str], name: str) -> PeerPosition | None:
        message_id = read_text_param(query, name)
        if message_id is None:
            return None
        position = await self._reader.messages.find_position(workspace_id, peer_id, message_id)
        if position is None:
            raise CursorNotFound(name=name)
        return position

    def _page_size(self, query: dict[str, str]) -> int:
        maximum = self._limits.page_rows
        return read_int_param(query, "limit", minimum=1, maximum=maximum) or min(_DEFAULT_PAGE, maximum)
