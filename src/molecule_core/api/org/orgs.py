"""Routes of organisations: create and list them."""

from msgspec import Struct

from molecule_core.api.http.response import Response
from molecule_core.api.routing import ADMIN, AccessPolicy, Request, Route, json_response
from molecule_core.common.clock import to_rfc3339
from molecule_core.org.model import Org
from molecule_core.org.reader import OrgReader
from molecule_core.org.writer import OrgWriter


class CreateOrgBody(Struct):
    """An organisation to create."""

    name: str
    allow_skip_level: bool = False


class OrgView(Struct):
    """An organisation. Times are RFC 3339."""

    id: str
    name: str
    allow_skip_level: bool
    created_at: str


class OrgRoutes:
    """Routes of organisations."""

    def __init__(self, writer: OrgWriter, org: OrgReader) -> None:
        self._writer = writer
        self._org = org

    def routes(self) -> list[Route]:
        """Return the routes."""
        admin = AccessPolicy(frozenset((ADMIN,)))
        return [
            Route("POST", "/orgs", self.create_org, admin, "Create an organisation", CreateOrgBody, OrgView, 201),
            Route("GET", "/orgs", self.list_orgs, admin, "List organisations", None, list[OrgView]),
        ]

    async def create_org(self, request: Request) -> Response:
        """Create an organisation."""
        body = request.parse_body(CreateOrgBody)
        return json_response(
            _org_view(await self._writer.create_org(body.name, allow_skip_level=body.allow_skip_level)), 201
        )

    async def list_orgs(self, request: Request) -> Response:
        """List all organisations, oldest first."""
        return json_response([_org_view(org) for org in self._org.orgs()])


def _org_view(org: Org) -> OrgView:
    return OrgView(org.id, org.name, org.allow_skip_level, to_rfc3339(org.created_at))
