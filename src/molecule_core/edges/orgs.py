"""Organisations: make one, list them."""

from msgspec import Struct

from molecule_core.edges.routes import ADMIN, Answer, Call, Route, Who, json_answer
from molecule_core.ground.clock import rfc3339
from molecule_core.org.model import Org
from molecule_core.org.reader import OrgReader
from molecule_core.org.writer import OrgWriter


class NewOrg(Struct):
    """A tenant that is to be made."""

    name: str
    allow_skip_level: bool = False


class OrgView(Struct):
    """An organisation. Times are RFC 3339."""

    id: str
    name: str
    allow_skip_level: bool
    created_at: str


class OrgEdge:
    """The routes of organisations."""

    def __init__(self, writer: OrgWriter, org: OrgReader) -> None:
        self._writer = writer
        self._org = org

    def routes(self) -> list[Route]:
        """The rows for the table."""
        admin = Who(frozenset((ADMIN,)))
        return [
            Route("POST", "/orgs", self.create, admin, "Make an organisation", NewOrg, OrgView, 201),
            Route("GET", "/orgs", self.list, admin, "All organisations", None, list[OrgView]),
        ]

    async def create(self, call: Call) -> Answer:
        """A new tenant."""
        asked = call.read(NewOrg)
        return json_answer(
            _view(await self._writer.create_org(asked.name, allow_skip_level=asked.allow_skip_level)), 201
        )

    async def list(self, call: Call) -> Answer:
        """All tenants, oldest first."""
        return json_answer([_view(org) for org in self._org.orgs()])


def _view(org: Org) -> OrgView:
    return OrgView(org.id, org.name, org.allow_skip_level, rfc3339(org.created_at))
