"""Routes of A2A cards: of each workspace, of the host, and the catalogue of the cards that a caller may see."""

from typing import Any

from msgspec import Struct

from molecule_core.access.model import CredentialKind
from molecule_core.api.a2a.cards import CardBuilder, EncodedCard
from molecule_core.api.a2a.reach import check_may_talk
from molecule_core.api.auth import Authenticator
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import query_params, read_text_param, string_param
from molecule_core.api.routing import (
    ALL_CREDENTIALS,
    PUBLIC,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.errors import CredentialNotAccepted, NotFound
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import neighbours

# 60 s: how long a client may keep a card without asking again.
_MAX_AGE_SECONDS = 60
_MAX_CATALOGUE = 200


class CatalogueEntry(Struct):
    """A workspace as an A2A agent."""

    workspace_id: str
    name: str
    card_url: str
    url: str
    published: bool


class CardCatalogue(Struct):
    """The A2A agents that the caller may call."""

    agents: list[CatalogueEntry]
    reached_end: bool


class CardRoutes:
    """Routes of cards. `root_workspace`: the workspace whose card the host serves; empty: none."""

    def __init__(
        self, card_builder: CardBuilder, org: OrgReader, authenticator: Authenticator, *, root_workspace: str
    ) -> None:
        self._cards = card_builder
        self._org = org
        self._authenticator = authenticator
        self._root_workspace = root_workspace
        # How a request with a credential is authorized: the path itself needs none.
        self._with_credential = Route(
            "GET", "", self.get_card, AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.TALK), "Get a card with a credential"
        )

    def routes(self) -> list[Route]:
        """Return the routes."""
        routes = list[Route]()
        for name in ("agent-card.json", "agent.json"):
            path = f"/workspaces/{{id}}/.well-known/{name}"
            routes.append(Route("GET", path, self.get_card, PUBLIC, "Get the A2A card of a workspace", None, Any))
            routes.append(
                Route(
                    "GET", f"/.well-known/{name}", self.get_root_card, PUBLIC, "Get the A2A card of the host", None, Any
                )
            )
        catalogue_query = query_params(
            string_param("org", "Organisation, for the admin; all without it."),
            string_param("after", "Only workspaces after this id."),
        )
        routes.append(
            Route(
                "GET",
                "/a2a/agents",
                self.list_agents,
                AccessPolicy(ALL_CREDENTIALS),
                "List the A2A agents that the caller may call",
                None,
                CardCatalogue,
                query=catalogue_query,
            )
        )
        return routes

    async def get_card(self, request: Request) -> Response:
        """Return the card of a workspace: to anyone if it is published, else to callers that may talk to it."""
        workspace_id = request.path_param("id", "workspace")
        if b"authorization" in request.headers:
            caller = await self._authenticator.load_caller(request.headers, self._with_credential)
            if caller.kind not in ALL_CREDENTIALS:
                raise CredentialNotAccepted(kind=caller.kind.value, takes=", ".join(sorted(ALL_CREDENTIALS)))
            workspace = self._authenticator.workspace_in_scope(caller, workspace_id, WorkspaceScope.TALK)
            check_may_talk(self._org, caller, workspace)
        else:
            workspace = self._published(workspace_id)
        return self._card_response(request, workspace)

    async def get_root_card(self, request: Request) -> Response:
        """Return the card of the workspace that the operator has chosen for the host, if it is published."""
        return self._card_response(request, self._published(self._root_workspace))

    def _published(self, workspace_id: str) -> Workspace:
        """Return a published workspace. Raises NotFound for all others alike."""
        workspace = self._org.workspace(workspace_id)
        if workspace is None or workspace.removed or not workspace.a2a_published:
            raise NotFound(what="agent card")
        return workspace

    def _card_response(self, request: Request, workspace: Workspace) -> Response:
        card = self._cards.encode(workspace)
        headers = _cache_headers(card, is_public=workspace.a2a_published)
        known = request.header(b"if-none-match") or ""
        if card.etag in (each.strip().removeprefix("W/") for each in known.split(",")) or known.strip() == "*":
            return Response(b"", 304, headers)
        return Response(card.body, 200, headers)

    async def list_agents(self, request: Request) -> Response:
        """List the workspaces that the caller may call by A2A, in the order of their ids."""
        query = request.query_params()
        after = read_text_param(query, "after") or ""
        found = sorted((each for each in self._callable(request, query) if each.id > after), key=lambda each: each.id)
        entries = [
            CatalogueEntry(
                each.id, each.name, self._cards.card_url(each), self._cards.interface_url(each), each.a2a_published
            )
            for each in found[:_MAX_CATALOGUE]
        ]
        return json_response(CardCatalogue(entries, reached_end=len(found) <= _MAX_CATALOGUE))

    def _callable(self, request: Request, query: dict[str, str]) -> list[Workspace]:
        """Return the workspaces that a caller may send messages to."""
        caller = request.caller
        if caller.kind is CredentialKind.WORKSPACE:
            own = self._org.active_workspace(caller.id)
            return [each for each in neighbours(self._org, own) if not each.removed]
        org_id = read_text_param(query, "org") if caller.kind is CredentialKind.ADMIN else caller.org_id
        if org_id is not None and self._org.find_org(org_id) is None:
            raise NotFound(what="organisation")
        org_ids = [each.id for each in self._org.orgs()] if org_id is None else [org_id]
        found = [each for org_id in org_ids for each in self._org.all_with_removed(org_id)]
        return [each for each in found if not each.removed]


def _cache_headers(card: EncodedCard, *, is_public: bool) -> tuple[tuple[bytes, bytes], ...]:
    scope = "public" if is_public else "private"
    return (
        (b"etag", card.etag.encode()),
        (b"cache-control", f"{scope}, max-age={_MAX_AGE_SECONDS}".encode()),
        (b"last-modified", card.last_modified.encode()),
        (b"vary", b"Authorization"),
    )
