"""Routes of an organisation's people: their roles, personal tokens, and invitations."""

from msgspec import Struct

from molecule_core.access.model import CredentialKind, Invitation, Person, Role
from molecule_core.access.reader import AccessReader
from molecule_core.access.writer import AccessWriter
from molecule_core.api.http.response import Response
from molecule_core.api.live.hub import LiveHub
from molecule_core.api.org.tokens import TokenView, to_token_view
from molecule_core.api.routing import PERSON_OR_ADMIN, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.clock import to_rfc3339
from molecule_core.common.errors import InsufficientRole


class AddPersonBody(Struct):
    """A person to add, who gets a personal token."""

    name: str
    role: Role = Role.OPERATOR


class PersonView(Struct, omit_defaults=True):
    """A person; `auth_token` only in the response that creates it."""

    id: str
    org_id: str
    name: str
    role: str
    created_at: str
    auth_token: str | None = None


class ChangePersonBody(Struct, forbid_unknown_fields=True):
    """Changes to a person; what is left out stays."""

    name: str | None = None
    role: Role | None = None


class InviteBody(Struct, forbid_unknown_fields=True):
    """A person to invite, and their role."""

    name: str
    role: Role = Role.OPERATOR


class InvitationView(Struct, omit_defaults=True):
    """An open invitation; `url`, valid once, only in the response that creates it. Times are RFC 3339."""

    id: str
    name: str
    role: str
    invited_by: str
    created_at: str
    expires_at: str
    url: str | None = None


class PeopleRoutes:
    """Routes of people."""

    def __init__(self, writer: AccessWriter, reader: AccessReader, live: LiveHub, *, public_url: str) -> None:
        self._writer = writer
        self._people = writer.people
        self._reader = reader
        self._live = live
        self._public_url = public_url

    def routes(self) -> list[Route]:
        """Return the routes."""
        viewer, owner = AccessPolicy(PERSON_OR_ADMIN), AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.NONE, Role.OWNER)
        people, one = "/orgs/{org_id}/people", "/orgs/{org_id}/people/{person_id}"
        tokens, invitations = f"{one}/tokens", "/orgs/{org_id}/invitations"
        return [
            Route(
                "GET", people, self.list_people, viewer, "List the people of an organisation", None, list[PersonView]
            ),
            Route("POST", people, self.add_person, owner, "Add a person", AddPersonBody, PersonView, 201),
            Route(
                "PATCH",
                one,
                self.change_person,
                owner,
                "Change the name or role of a person",
                ChangePersonBody,
                PersonView,
            ),
            Route("DELETE", one, self.remove_person, owner, "Remove a person"),
            Route("GET", tokens, self.list_tokens, viewer, "List the tokens of a person", None, list[TokenView]),
            Route("POST", tokens, self.issue_token, viewer, "Issue a token for a person", None, TokenView, 201),
            Route("DELETE", f"{tokens}/{{token_id}}", self.revoke_token, viewer, "Revoke a token of a person"),
            Route(
                "POST",
                invitations,
                self.invite_person,
                owner,
                "Create an invitation link",
                InviteBody,
                InvitationView,
                201,
            ),
            Route(
                "GET", invitations, self.list_invitations, owner, "List open invitations", None, list[InvitationView]
            ),
            Route(
                "DELETE", f"{invitations}/{{invitation_id}}", self.withdraw_invitation, owner, "Withdraw an invitation"
            ),
        ]

    # -- persons -------------------------------------------------------------------------------------------------------

    async def list_people(self, request: Request) -> Response:
        """List all people of an organisation, oldest first."""
        return json_response(
            [to_person_view(each, None) for each in await self._reader.persons(request.path_params["org_id"])]
        )

    async def add_person(self, request: Request) -> Response:
        """Add a person with a first token, which is shown only once."""
        body = request.parse_body(AddPersonBody)
        person, token = await self._writer.add_person(request.path_params["org_id"], body.name, body.role)
        return json_response(to_person_view(person, token), 201)

    async def change_person(self, request: Request) -> Response:
        """Change a person's name or role, with effect at once."""
        body = request.parse_body(ChangePersonBody)
        org_id, person_id = request.path_params["org_id"], request.path_params["person_id"]
        person = await self._people.update_person(org_id, person_id, name=body.name, role=body.role)
        if body.name is not None or body.role is not None:
            self._live.disconnect_person(person.id)
        return json_response(to_person_view(person, None))

    async def remove_person(self, request: Request) -> Response:
        """Remove a person. Their credentials become invalid and their live channels end."""
        person = await self._people.remove_person(request.path_params["org_id"], request.path_params["person_id"])
        self._live.end_credentials((person.id,), "you belong to this organisation no more")
        return json_response({"status": "removed", "id": person.id, "name": person.name})

    # -- their tokens --------------------------------------------------------------------------------------------------

    async def _self_or_as_owner(self, request: Request) -> Person:
        """Return the person of the path: the caller, or any person if the caller is an owner.

        Raises NotFound, InsufficientRole.
        """
        person = await self._reader.person(request.path_params["org_id"], request.path_params["person_id"])
        own = request.caller.kind is CredentialKind.PERSON and request.caller.id == person.id
        if not own and request.caller.role is not Role.OWNER:
            raise InsufficientRole(role=request.caller.role.value, needed=Role.OWNER.value)
        return person

    async def list_tokens(self, request: Request) -> Response:
        """List a person's tokens by hints and times, never the tokens themselves."""
        person = await self._self_or_as_owner(request)
        return json_response([to_token_view(each) for each in await self._reader.person_tokens(person.id)])

    async def issue_token(self, request: Request) -> Response:
        """Issue a token for scripts, which is shown only once."""
        issued = await self._writer.issue_person_token(await self._self_or_as_owner(request))
        return json_response(to_token_view(issued.info, issued.token), 201)

    async def revoke_token(self, request: Request) -> Response:
        """Revoke a token. It becomes invalid and its live channels end."""
        token = await self._writer.revoke_person_token(
            await self._self_or_as_owner(request), request.path_params["token_id"]
        )
        self._live.end_credentials((token.hash,), "the token was revoked")
        return json_response({"status": "revoked", "id": token.id})

    # -- invitations ---------------------------------------------------------------------------------------------------

    async def invite_person(self, request: Request) -> Response:
        """Create an invitation link, valid once, that adds a person to the organisation."""
        body = request.parse_body(InviteBody)
        invitation, code = await self._people.create_invitation(
            request.caller, request.path_params["org_id"], body.name, body.role
        )
        # After the #, so that no log of a server or proxy contains it.
        return json_response(_invitation_view(invitation, f"{self._public_url}/app/#login={code}"), 201)

    async def list_invitations(self, request: Request) -> Response:
        """List invitations that can still be accepted."""
        return json_response(
            [_invitation_view(each, None) for each in await self._reader.invitations(request.path_params["org_id"])]
        )

    async def withdraw_invitation(self, request: Request) -> Response:
        """Withdraw an invitation. Its link becomes invalid."""
        await self._people.withdraw_invitation(request.path_params["org_id"], request.path_params["invitation_id"])
        return json_response({"status": "withdrawn", "id": request.path_params["invitation_id"]})


def _invitation_view(invitation: Invitation, url: str | None) -> InvitationView:
    created_at, expires_at = to_rfc3339(invitation.created_at), to_rfc3339(invitation.expires_at)
    by = invitation.invited_by
    return InvitationView(invitation.id, invitation.name, invitation.role, by, created_at, expires_at, url)


def to_person_view(person: Person, token: str | None) -> PersonView:
    """Convert a person to the form that people see."""
    return PersonView(person.id, person.org_id, person.name, person.role, to_rfc3339(person.created_at), token)
