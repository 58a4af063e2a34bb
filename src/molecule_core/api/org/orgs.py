"""Routes of organisations: create, list and rename them."""

from msgspec import Struct

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.routing import (
    ADMIN,
    PERSON_OR_ADMIN,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.clock import to_rfc3339
from molecule_core.org.model import Org
from molecule_core.org.reader import OrgReader
from molecule_core.org.writer import OrgWriter
from molecule_core.wire.schemas.live import OrgView


class CreateOrgBody(Struct):
    """An organisation to create."""

    name: str
    allow_skip_level: bool = False


class ChangeOrgBody(Struct, forbid_unknown_fields=True):
    """Changes to an organisation."""

    name: str


class OrgRoutes:
    """Routes of organisations."""

    def __init__(self, writer: OrgWriter, org: OrgReader) -> None:
        self._writer = writer
        self._org = org

    def routes(self) -> list[Route]:
        """Return the routes."""
        admin = AccessPolicy(frozenset((ADMIN,)))
        owner = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.NONE, Role.OWNER)
        return [
            Route("POST", "/orgs", self.create_org, admin, "Create an organisation", CreateOrgBody, OrgView, 201),
            Route("GET", "/orgs", self.list_orgs, admin, "List organisations", None, list[OrgView]),
            Route("PATCH", "/orgs/{org_id}", self.change_org, owner, "Rename an organisation", ChangeOrgBody, OrgView),
        ]

    async def create_org(self, request: Request) -> Response:
        """Create an organisation."""
        body = request.parse_body(CreateOrgBody)
        return json_response(
            _org_view(await self._writer.create_org(body.name, allow_skip_level=body.allow_skip_level)), 201
        )

    async def change_org(self, request: Request) -> Response:
        """Rename an organisation. Its people and agents see the new name at once."""
        body = request.parse_body(ChangeOrgBody)
        return json_response(_org_view(await self._writer.rename_org(request.path_params["org_id"], body.name)))

    async def list_orgs(self, request: Request) -> Response:
        """List all organisations, oldest first."""
        return json_response([_org_view(org) for org in self._org.orgs()])


def _org_view(org: Org) -> OrgView:
    return OrgView(org.id, org.name, org.allow_skip_level, to_rfc3339(org.created_at))
