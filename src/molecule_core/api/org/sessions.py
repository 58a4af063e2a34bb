"""Routes of login and logout. A one-time link carries a code, which the page exchanges for a session cookie."""

from msgspec import Struct

from molecule_core.access.model import Caller, CredentialKind, Person, Role
from molecule_core.access.reader import AccessReader
from molecule_core.access.writer import AccessWriter
from molecule_core.api.auth import Authenticator, check_same_origin
from molecule_core.api.http.response import Response
from molecule_core.api.live.hub import LiveHub
from molecule_core.api.rate_limits import RateClass
from molecule_core.api.routing import (
    PERSON_OR_ADMIN,
    PUBLIC,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.clock import SECOND, Clock, to_rfc3339
from molecule_core.common.settings import Settings
from molecule_core.common.tokens import hash_token
from molecule_core.org.reader import OrgReader
from molecule_core.views.snapshot import snapshot_user
from molecule_core.wire.schemas.live import SessionUser, SessionView, SnapshotOrg

FIRST_OWNER_NAME = "Owner"
"""Name of the person that an organisation's first login link is for."""


class LoginCodeBody(Struct):
    """The code that a login link carries after its #.

    `replace_session`: log in also where another person is logged in."""

    code: str
    replace_session: bool = False


class LoginLinkBody(Struct):
    """The person that a login link is for; by default the organisation's first owner."""

    person_id: str | None = None


class LoginLinkResponse(Struct):
    """A login link, valid once. It logs in as this person."""

    url: str
    person_id: str
    name: str
    expires_at: str


class SessionRoutes:
    """Routes of login."""

    def __init__(
        self,
        writer: AccessWriter,
        reader: AccessReader,
        org: OrgReader,
        authenticator: Authenticator,
        live: LiveHub,
        *,
        clock: Clock,
        settings: Settings,
        version: str,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._org = org
        self._authenticator = authenticator
        self._live = live
        self._clock = clock
        self._public_url = settings.url
        self._cookie = settings.cookie_name
        self._version = version

    def routes(self) -> list[Route]:
        """Return the routes."""
        owner = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.NONE, Role.OWNER)
        links = "/orgs/{org_id}/login-links"
        return [
            Route(
                "POST",
                "/login",
                self.log_in,
                PUBLIC,
                "Exchange a login link's code for a session",
                LoginCodeBody,
                SessionView,
                rate_class=RateClass.LOGIN,
            ),
            Route("POST", "/logout", self.log_out, AccessPolicy(PERSON_OR_ADMIN), "Log out"),
            Route(
                "GET",
                "/session",
                self.get_session,
                AccessPolicy(PERSON_OR_ADMIN),
                "Get the current session",
                None,
                SessionView,
            ),
            Route(
                "POST",
                links,
                self.create_link,
                owner,
                "Create a one-time login link",
                LoginLinkBody,
                LoginLinkResponse,
                201,
            ),
        ]

    async def log_in(self, request: Request) -> Response:
        """Exchange a code for a session, once. The session's token is only in the cookie.

        A link that a browser is made to open must not change who is logged in: that is the person's decision."""
        body = request.parse_body(LoginCodeBody)
        check_same_origin(request.headers)
        current = None if body.replace_session else await self._current_person(request)
        login = await self._writer.log_in(body.code, current)
        seconds = (login.expires_at - self._clock.now()) // SECOND
        cookie = self._cookie_header(login.session, seconds)
        return self._session_response(_user_view(login.person), login.person.org_id, (cookie,))

    async def _current_person(self, request: Request) -> Caller | None:
        """Return the person whose session the browser has, if it is valid."""
        session = self._authenticator.session_token(request.headers)
        return None if session is None else await self._reader.resolve_caller(session)

    async def log_out(self, request: Request) -> Response:
        """End the session and its live channels."""
        session = self._authenticator.session_token(request.headers)
        if session is not None:
            await self._writer.log_out(session)
            self._live.end_credentials((hash_token(session),), "logged out")
        return Response(b"{}", headers=(self._cookie_header("", 0),))

    async def get_session(self, request: Request) -> Response:
        """Return the person who is logged in; 401 without a session."""
        caller: Caller = request.caller
        return self._session_response(snapshot_user(caller), caller.org_id or self._org.orgs()[0].id, ())

    def _session_response(self, user: SessionUser, org_id: str, headers: tuple[tuple[bytes, bytes], ...]) -> Response:
        org = self._org.org(org_id)
        response = json_response(SessionView(user, SnapshotOrg(org.id, org.name), self._version))
        response.headers = (*headers, (b"cache-control", b"no-store"))
        return response

    async def create_link(self, request: Request) -> Response:
        """Create a link that logs a person in, once, within a quarter of an hour by default."""
        org_id, person_id = request.path_params["org_id"], request.parse_body(LoginLinkBody).person_id
        if person_id is None:
            return json_response(await self.create_owner_link(org_id), 201)
        return json_response(await self._create_link_for(await self._reader.person(org_id, person_id)), 201)

    async def create_owner_link(self, org_id: str) -> LoginLinkResponse:
        """Create a login link for the first owner of an organisation, and the owner if there is none."""
        return await self._create_link_for(await self._writer.get_or_create_owner(org_id, FIRST_OWNER_NAME))

    async def _create_link_for(self, person: Person) -> LoginLinkResponse:
        code, expires_at = await self._writer.issue_login(person)
        # After the #, so that no log of a server or proxy contains it.
        # control: login-code-in-fragment
        return LoginLinkResponse(
            f"{self._public_url}/app/#login={code}", person.id, person.name, to_rfc3339(expires_at)
        )

    def _cookie_header(self, token: str, seconds: int) -> tuple[bytes, bytes]:
        """Return the cookie header: hidden from scripts, never sent cross-site, and for https only sent encrypted."""
        secure = "; Secure" if self._public_url.startswith("https:") else ""
        text = f"{self._cookie}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
        return b"set-cookie", text.encode()


def _user_view(person: Person) -> SessionUser:
    return SessionUser(person.id, person.name, CredentialKind.PERSON.value, person.role)
