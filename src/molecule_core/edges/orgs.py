"""Organisations and the persons in them."""

from msgspec import Struct

from molecule_core.access.model import Person, Role
from molecule_core.access.reader import AccessReader
from molecule_core.access.writer import AccessWriter
from molecule_core.edges.routes import ADMIN, PEOPLE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.ground.clock import rfc3339
from molecule_core.org.model import Org
from molecule_core.org.reader import OrgReader
from molecule_core.org.writer import OrgWriter


class NewOrg(Struct):
    """A tenant that is to be made."""

    name: str
    allow_skip_level: bool = False


class NewPerson(Struct):
    """Somebody who is to get a personal token."""

    name: str
    role: Role = Role.OPERATOR


class OrgView(Struct):
    """An organisation. Times are RFC 3339."""

    id: str
    name: str
    allow_skip_level: bool
    created_at: str


class PersonView(Struct, omit_defaults=True):
    """A person; `auth_token` only in the answer that makes it."""

    id: str
    org_id: str
    name: str
    role: str
    created_at: str
    auth_token: str | None = None


class OrgEdge:
    """The routes of organisations and persons."""

    def __init__(
        self, writer: OrgWriter, access_writer: AccessWriter, access_reader: AccessReader, org: OrgReader
    ) -> None:
        self._writer = writer
        self._access_writer = access_writer
        self._access_reader = access_reader
        self._org = org

    def routes(self) -> list[Route]:
        """The rows for the table."""
        admin = Who(frozenset((ADMIN,)))
        owner = Who(PEOPLE, Reach.NONE, Role.OWNER)
        persons = "/orgs/{org_id}/persons"
        return [
            Route("POST", "/orgs", self.create, admin, "Make an organisation", NewOrg, OrgView, 201),
            Route("GET", "/orgs", self.list, admin, "All organisations", None, list[OrgView]),
            Route("POST", persons, self.add_person, owner, "Add a person with a token", NewPerson, PersonView, 201),
            Route("GET", persons, self.persons, owner, "The persons of an organisation", None, list[PersonView]),
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

    async def add_person(self, call: Call) -> Answer:
        """A person with a first token, shown this once."""
        asked = call.read(NewPerson)
        person, token = await self._access_writer.add_person(call.params["org_id"], asked.name, asked.role)
        return json_answer(person_view(person, token), 201)

    async def persons(self, call: Call) -> Answer:
        """Who belongs to the organisation."""
        found = await self._access_reader.persons(call.params["org_id"])
        return json_answer([person_view(each, None) for each in found])


def _view(org: Org) -> OrgView:
    return OrgView(org.id, org.name, org.allow_skip_level, rfc3339(org.created_at))


def person_view(person: Person, token: str | None) -> PersonView:
    """A person as people see them."""
    return PersonView(person.id, person.org_id, person.name, person.role, rfc3339(person.created_at), token)
