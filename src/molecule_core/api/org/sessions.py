"""Routes of login and logout. A one-time link carries a code, which the page exchanges for a session cookie."""

import itertools
from urllib.parse import urlsplit

from msgspec import Struct

from molecule_core.access.model import Caller, CredentialKind, Login, Person, Role
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
from molecule_core.common.errors import InvalidField
from molecule_core.common.own_command import login_link_command
from molecule_core.common.settings import Settings
from molecule_core.common.state_files import ADMIN_TOKEN_FILE
from molecule_core.common.tokens import hash_token
from molecule_core.org.reader import OrgReader
from molecule_core.views.snapshot import snapshot_user
from molecule_core.wire.schemas.live import LoginHelpResponse, SessionUser, SessionView, SnapshotOrg

_LOGIN_COMMAND = "molecule login-link"
_LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
_LOOPBACK_CLIENTS = ("127.0.0.1", "0::")
"""IPv6 clients are named by their network (`address_key`)."""
_PROXY_HEADERS = (
    *(b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-server", b"x-real-ip"),
    *(b"forwarded", b"via", b"cf-connecting-ip"),
)
"""Headers by which a proxy is recognised."""
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
        self._settings = settings
        self._limits = settings.limits
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
            Route(
                "GET",
                "/login",
                self.get_login_help,
                PUBLIC,
                "Get the command that prints a login link",
                None,
                LoginHelpResponse,
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
                "GET",
                "/sessions",
                self.list_sessions,
                PUBLIC,
                "List the logins of this browser",
                None,
                list[SessionView],
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
        login, cookies = await self.create_session(request, body.code, replaces=body.replace_session)
        return self._session_response(_user_view(login.person), login.person.org_id, cookies)

    async def create_session(
        self, request: Request, code: str, *, replaces: bool
    ) -> tuple[Login, tuple[tuple[bytes, bytes], ...]]:
        """Exchange a code for a session, and return it with the headers of its cookies.

        `replaces`: the person agreed to another login. Raises InvalidLogin, OtherSession, InvalidField."""
        logins = await self.read_logins(request)
        current = () if replaces else [each for each in logins.values() if each is not None]
        count = len([each for each in logins.values() if each is not None])
        if count >= self._limits.browser_logins:
            raise InvalidField(reason=f"this browser has {count} logins, which is the limit. End one of them first.")
        login = await self._writer.log_in(code, current)
        org_id, seconds = login.person.org_id, (login.expires_at - self._clock.now()) // SECOND
        # Cookies of sessions that have ended go, and the one of an earlier version whose login this one replaces.
        useless = [name for name, each in logins.items() if each is None or (not name and each.org_id == org_id)]
        cookies = [self._cookie_header(org_id, login.session, seconds)]
        cookies += [self._cookie_header(name, "", 0) for name in useless if name != org_id]
        return login, tuple(cookies)

    async def read_logins(self, request: Request) -> dict[str, Caller | None]:
        """Return the logins of this browser by the organisation in the name of the cookie; None: it has ended."""
        tokens = self._authenticator.cookies.tokens(request.headers)
        # Twice as many as there can be logins: some have ended.
        limited = itertools.islice(tokens.items(), 2 * self._limits.browser_logins)
        found = {org_id: await self._reader.resolve_caller(token) for org_id, token in limited}
        return {org_id: each if _is_login(org_id, each) else None for org_id, each in found.items()}

    async def list_sessions(self, request: Request) -> Response:
        """List the logins of this browser, by the names of their organisations."""
        callers = {each.id: each for each in (await self.read_logins(request)).values() if each is not None}
        views = [self._session_view(snapshot_user(each), each.org_id) for each in callers.values()]
        response = json_response(sorted(views, key=lambda view: (view.org.name.casefold(), view.org.id)))
        response.headers = ((b"cache-control", b"no-store"),)
        return response

    async def get_login_help(self, request: Request) -> Response:
        """Return the command that prints a login link, with the paths of this server only to its own machine."""
        if not self._is_local(request):
            return json_response(LoginHelpResponse(_LOGIN_COMMAND, is_exact=False, needs_admin_token=False))
        has_token = (self._settings.state_folder / ADMIN_TOKEN_FILE).is_file()
        command = login_link_command(self._settings)
        response = json_response(LoginHelpResponse(command, is_exact=True, needs_admin_token=not has_token))
        response.headers = ((b"cache-control", b"no-store"),)
        return response

    def _is_local(self, request: Request) -> bool:
        """Return whether a request comes from this machine, and not by a proxy on it that serves other machines."""
        hosts = (urlsplit(self._public_url).hostname, urlsplit(f"//{request.header(b'host') or ''}").hostname)
        return (
            request.client_address in _LOOPBACK_CLIENTS
            and not any(name in request.headers for name in _PROXY_HEADERS)
            and all(each in _LOOPBACK_HOSTS for each in hosts)
        )

    async def log_out(self, request: Request) -> Response:
        """End the session and its live channels. Logins in other organisations stay."""
        session = self._authenticator.session_token(request.headers)
        if session is None:
            return Response(b"{}")
        await self._writer.log_out(session)
        self._live.end_credentials((hash_token(session),), "logged out")
        source = self._authenticator.cookies.source(request.headers, session)
        return Response(b"{}", headers=(self._cookie_header(source, "", 0),))

    async def get_session(self, request: Request) -> Response:
        """Return the person who is logged in; 401 without a session."""
        caller: Caller = request.caller
        return self._session_response(snapshot_user(caller), caller.org_id or self._org.orgs()[0].id, ())

    def _session_response(self, user: SessionUser, org_id: str, headers: tuple[tuple[bytes, bytes], ...]) -> Response:
        response = json_response(self._session_view(user, org_id))
        response.headers = (*headers, (b"cache-control", b"no-store"))
        return response

    def _session_view(self, user: SessionUser, org_id: str) -> SessionView:
        org = self._org.org(org_id)
        return SessionView(user, SnapshotOrg(org.id, org.name), self._version)

    async def create_link(self, request: Request) -> Response:
        """Create a link that logs a person in, once, within a quarter of an hour by default."""
        org_id, person_id = request.path_params["org_id"], request.parse_body(LoginLinkBody).person_id
        if person_id is None:
            return json_response(await self.create_owner_link(org_id), 201)
        return json_response(await self._create_link_for(await self._reader.person(org_id, person_id)), 201)

    async def create_owner_link(self, org_id: str, place: str = "") -> LoginLinkResponse:
        """Create a login link for the first owner of an organisation, and the owner if there is none.

        `place`: path below /app/ of the view that it opens."""
        return await self._create_link_for(await self._writer.get_or_create_owner(org_id, FIRST_OWNER_NAME), place)

    async def _create_link_for(self, person: Person, place: str = "") -> LoginLinkResponse:
        code, expires_at = await self._writer.issue_login(person)
        # After the #, so that no log of a server or proxy contains it.
        # control: login-code-in-fragment
        return LoginLinkResponse(
            f"{self._public_url}/app/{place}#login={code}", person.id, person.name, to_rfc3339(expires_at)
        )

    def _cookie_header(self, org_id: str, token: str, seconds: int) -> tuple[bytes, bytes]:
        """Return the cookie header: hidden from scripts, never sent cross-site, and for https only sent encrypted."""
        secure = "; Secure" if self._public_url.startswith("https:") else ""
        name = self._authenticator.cookies.name(org_id)
        text = f"{name}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
        return b"set-cookie", text.encode()


def _is_login(org_id: str, caller: Caller | None) -> bool:
    """Return whether a cookie holds a login of the organisation in its name; "" is in the name of any."""
    return caller is not None and caller.kind is CredentialKind.PERSON and org_id in ("", caller.org_id)


def _user_view(person: Person) -> SessionUser:
    return SessionUser(person.id, person.name, CredentialKind.PERSON.value, person.role)
