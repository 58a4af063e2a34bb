"""Who belongs to an organisation: people and their roles, their own tokens, invitations."""

from msgspec import Struct

from molecule_core.access.model import Invitation, Kind, Person, Role
from molecule_core.access.reader import AccessReader
from molecule_core.access.writer import AccessWriter
from molecule_core.edges.live import Live
from molecule_core.edges.routes import PEOPLE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.edges.tokens import TokenView, token_view
from molecule_core.ground.clock import rfc3339
from molecule_core.ground.errors import RoleTooLow


class NewPerson(Struct):
    """Somebody who is to get a personal token."""

    name: str
    role: Role = Role.OPERATOR


class PersonView(Struct, omit_defaults=True):
    """A person; `auth_token` only in the answer that makes it."""

    id: str
    org_id: str
    name: str
    role: str
    created_at: str
    auth_token: str | None = None


class PersonChange(Struct, forbid_unknown_fields=True):
    """What may change about a person; what is left out stays."""

    name: str | None = None
    role: Role | None = None


class NewInvitation(Struct, forbid_unknown_fields=True):
    """Who is to come in, and as what."""

    name: str
    role: Role = Role.OPERATOR


class InvitationView(Struct, omit_defaults=True):
    """An open invitation; `url`, good once, only in the answer that makes it. Times are RFC 3339."""

    id: str
    name: str
    role: str
    invited_by: str
    created_at: str
    expires_at: str
    url: str | None = None


class PeopleEdge:
    """The routes of people."""

    def __init__(self, writer: AccessWriter, reader: AccessReader, live: Live, *, public_url: str) -> None:
        self._writer = writer
        self._people = writer.people
        self._reader = reader
        self._live = live
        self._public_url = public_url

    def routes(self) -> list[Route]:
        """The rows for the table."""
        viewer, owner = Who(PEOPLE), Who(PEOPLE, Reach.NONE, Role.OWNER)
        people, one = "/orgs/{org_id}/people", "/orgs/{org_id}/people/{person_id}"
        tokens, invitations = f"{one}/tokens", "/orgs/{org_id}/invitations"
        return [
            Route("GET", people, self.list, viewer, "Who belongs to an organisation", None, list[PersonView]),
            Route("POST", people, self.add, owner, "Add a person with a token", NewPerson, PersonView, 201),
            Route("PATCH", one, self.change, owner, "Another name or role", PersonChange, PersonView),
            Route("DELETE", one, self.remove, owner, "Remove a person: sessions and tokens end at once"),
            Route("GET", tokens, self.tokens, viewer, "A person's live tokens", None, list[TokenView]),
            Route("POST", tokens, self.issue, viewer, "One more token of a person", None, TokenView, 201),
            Route("DELETE", f"{tokens}/{{token_id}}", self.revoke, viewer, "Revoke a token of a person"),
            Route("POST", invitations, self.invite, owner, "Invite somebody", NewInvitation, InvitationView, 201),
            Route("GET", invitations, self.invitations, owner, "Open invitations", None, list[InvitationView]),
            Route("DELETE", f"{invitations}/{{invitation_id}}", self.withdraw, owner, "Withdraw an invitation"),
        ]

    # -- persons -------------------------------------------------------------------------------------------------------

    async def list(self, call: Call) -> Answer:
        """All people of an organisation, oldest first."""
        return json_answer([person_view(each, None) for each in await self._reader.persons(call.params["org_id"])])

    async def add(self, call: Call) -> Answer:
        """A person with a first token, shown this once."""
        asked = call.read(NewPerson)
        person, token = await self._writer.add_person(call.params["org_id"], asked.name, asked.role)
        return json_answer(person_view(person, token), 201)

    async def change(self, call: Call) -> Answer:
        """Another role is in force at once."""
        asked = call.read(PersonChange)
        org_id, person_id = call.params["org_id"], call.params["person_id"]
        person = await self._people.change(org_id, person_id, name=asked.name, role=asked.role)
        if asked.name is not None or asked.role is not None:
            self._live.renew(person.id)
        return json_answer(person_view(person, None))

    async def remove(self, call: Call) -> Answer:
        """What the person held opens nothing any more, and their live channels end."""
        person = await self._people.remove(call.params["org_id"], call.params["person_id"])
        self._live.end((person.id,), "you belong to this organisation no more")
        return json_answer({"status": "removed", "id": person.id, "name": person.name})

    # -- their tokens --------------------------------------------------------------------------------------------------

    async def _own_or_owners(self, call: Call) -> Person:
        """The person of the path: the caller, or anybody if the caller is an owner. Raises NotFound, RoleTooLow."""
        person = await self._reader.person(call.params["org_id"], call.params["person_id"])
        own = call.by.kind is Kind.PERSON and call.by.id == person.id
        if not own and call.by.role is not Role.OWNER:
            raise RoleTooLow(role=call.by.role.value, needed=Role.OWNER.value)
        return person

    async def tokens(self, call: Call) -> Answer:
        """Hints and times; never a token."""
        person = await self._own_or_owners(call)
        return json_answer([token_view(each) for each in await self._reader.person_tokens(person.id)])

    async def issue(self, call: Call) -> Answer:
        """A token for scripts, shown this once."""
        issued = await self._writer.issue_person_token(await self._own_or_owners(call))
        return json_answer(token_view(issued.about, issued.token), 201)

    async def revoke(self, call: Call) -> Answer:
        """The token opens nothing any more, and its live channels end."""
        token = await self._writer.revoke_person_token(await self._own_or_owners(call), call.params["token_id"])
        self._live.end((token.hash,), "the token was revoked")
        return json_answer({"status": "revoked", "id": token.id})

    # -- invitations ---------------------------------------------------------------------------------------------------

    async def invite(self, call: Call) -> Answer:
        """A link, good once: whoever opens it is a person of this organisation from then on."""
        asked = call.read(NewInvitation)
        invitation, code = await self._people.invite(call.by, call.params["org_id"], asked.name, asked.role)
        # Behind the #, so that it reaches no log of a server or proxy.
        return json_answer(_view(invitation, f"{self._public_url}/app/#login={code}"), 201)

    async def invitations(self, call: Call) -> Answer:
        """Those that still let somebody in."""
        return json_answer([_view(each, None) for each in await self._reader.invitations(call.params["org_id"])])

    async def withdraw(self, call: Call) -> Answer:
        """The link lets nobody in any more."""
        await self._people.withdraw(call.params["org_id"], call.params["invitation_id"])
        return json_answer({"status": "withdrawn", "id": call.params["invitation_id"]})


def _view(invitation: Invitation, url: str | None) -> InvitationView:
    created_at, expires_at = rfc3339(invitation.created_at), rfc3339(invitation.expires_at)
    by = invitation.invited_by
    return InvitationView(invitation.id, invitation.name, invitation.role, by, created_at, expires_at, url)


def person_view(person: Person, token: str | None) -> PersonView:
    """A person as people see them."""
    return PersonView(person.id, person.org_id, person.name, person.role, rfc3339(person.created_at), token)
