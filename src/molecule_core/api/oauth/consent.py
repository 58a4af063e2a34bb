"""Authorization endpoint: a person who is logged in connects an app to one workspace, or does not.

An app sends the browser to /oauth/authorize. That page leads to /oauth/consent, which has the session's cookie; the
form there is bound to the session, to the request and to the name of the app that the person has read."""

import hashlib
import hmac
import re
from urllib.parse import urlencode

from msgspec import Struct

from molecule_core.access.model import Caller, GrantRequest, Role
from molecule_core.access.oauth_grants import OAuthGrantWriter
from molecule_core.access.oauth_rules import (
    ACT_SCOPE,
    READ_SCOPE,
    SCOPES,
    GrantRefused,
    is_valid_challenge,
    requested_scope,
)
from molecule_core.access.rules import role_includes
from molecule_core.api.auth import Authenticator, check_same_origin
from molecule_core.api.http.response import Response
from molecule_core.api.oauth.clients import ClientDirectory, FoundClient
from molecule_core.api.oauth.metadata import AUTHORIZE_PATH
from molecule_core.api.oauth.pages import (
    CONSENT_PATH,
    LOGIN_PATH,
    ConsentView,
    OrgChoices,
    WorkspaceOption,
    bounce_page,
    consent_page,
    login_page,
    problem_page,
    redirect_page,
)
from molecule_core.api.oauth.protocol import parse_form, parse_parameters, required, with_parameters
from molecule_core.api.org.sessions import SessionRoutes
from molecule_core.api.rate_limits import RateClass
from molecule_core.api.routing import PUBLIC, Request, Route
from molecule_core.common.clock import DAY, SECOND, Clock
from molecule_core.common.errors import (
    CapacityExceeded,
    InsufficientRole,
    InvalidField,
    InvalidLogin,
    NotFound,
    RouteNotFound,
)
from molecule_core.common.settings import Settings
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader

_LOGIN_CODE = re.compile(r"mol_(?:ln|in)_[A-Za-z0-9_-]+")
_LOGIN_COMMAND = "molecule login-link"
_DAYS = (1, 7, 30, 90, 365)
_DEFAULT_DAYS = 30
# A page for consent that was left open for longer is shown again before it counts.
_SEAL_SECONDS = 900
_EXPIRED = "This page is out of date, or you have logged in or out since. Start again in the app."
_NO_WORKSPACE = "You manage no workspace that this app could be connected to. Ask an operator or owner."


class AuthorizationRequest(Struct, frozen=True):
    """A valid request of an app."""

    client: FoundClient
    redirect_uri: str
    challenge: str
    resource: str
    workspace_id: str
    """The workspace whose own endpoint is requested; empty: the person chooses one."""
    scope: str


class ConsentRoutes:
    """Routes of the authorization endpoint and its pages."""

    def __init__(
        self,
        writer: OAuthGrantWriter,
        directory: ClientDirectory,
        sessions: SessionRoutes,
        authenticator: Authenticator,
        org: OrgReader,
        *,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._writer = writer
        self._directory = directory
        self._sessions = sessions
        self._authenticator = authenticator
        self._org = org
        self._clock = clock
        self._limits = settings.limits
        self._issuer = settings.oauth_issuer

    def routes(self) -> list[Route]:
        """Return the routes."""
        html = "text/html"
        return [
            Route("GET", AUTHORIZE_PATH, self.begin, PUBLIC, "Ask a person for access (OAuth)", media_type=html),
            Route("GET", CONSENT_PATH, self.show_consent, PUBLIC, "Get the page for consent", media_type=html),
            Route(
                "POST",
                CONSENT_PATH,
                self.decide,
                PUBLIC,
                "Connect an app or not",
                status=303,
                media_type=html,
                form_fields=("request", "seal", "workspace", "scope", "days", "decision"),
            ),
            Route(
                "POST",
                LOGIN_PATH,
                self.log_in,
                PUBLIC,
                "Log in and continue to the page for consent",
                status=303,
                media_type=html,
                rate_class=RateClass.LOGIN,
                form_fields=("request", "link"),
            ),
        ]

    async def begin(self, request: Request) -> Response:
        """Send the browser to the page for consent. Nothing of the request is looked up before a person is known."""
        self._check_enabled()
        return bounce_page(request.query_string.decode("latin-1"))

    def _check_enabled(self) -> None:
        if not self._issuer:
            raise RouteNotFound

    async def show_consent(self, request: Request) -> Response:
        """Show what an app asks for. Without a login: the page to log in, which leads back here."""
        self._check_enabled()
        encoded = request.query_string.decode("latin-1")
        managers = await self._managers(request)
        if not managers:
            return login_page(encoded, _LOGIN_COMMAND)
        try:
            fields = parse_parameters(encoded)
            asked = await self._parse_request(fields)
        except _ReturnableProblem as problem:
            return problem_page(problem.reason, problem.link)
        except GrantRefused as refused:
            return problem_page(_sentence(refused))
        choices, is_cut = self._choices(asked, managers)
        if not choices:
            return problem_page(_NO_WORKSPACE, self._error_link(asked.redirect_uri, fields, "access_denied"), 403)
        days = [each for each in _DAYS if each <= self._limits.oauth_grant_days]
        view = ConsentView(
            client_name=asked.client.name,
            host=asked.client.host,
            redirect_uri=asked.redirect_uri,
            orgs=choices,
            may_act=ACT_SCOPE in asked.scope.split(),
            days=days,
            chosen_days=max(each for each in days if each <= _DEFAULT_DAYS),
            encoded_request=encoded,
            seal=self._seal(request, encoded, asked.client.name, self._clock.now() + _SEAL_SECONDS * SECOND),
            is_cut=is_cut,
        )
        return consent_page(view)

    async def log_in(self, request: Request) -> Response:
        """Exchange the code of a pasted login link for a session, then continue."""
        self._check_enabled()
        check_same_origin(request.headers, upgrade=True)
        try:
            fields = parse_form(request)
            encoded, code = fields.get("request", ""), _LOGIN_CODE.search(fields.get("link", ""))
            # Encoded again, so that the header has no character that ends it.
            location = f"{CONSENT_PATH}?{urlencode(parse_parameters(encoded))}"
        except GrantRefused as refused:
            return problem_page(_sentence(refused))
        try:
            if code is None:
                raise InvalidLogin
            _, cookies = await self._sessions.create_session(request, code[0], replaces=True)
        except (InvalidLogin, InvalidField) as error:
            return login_page(encoded, _LOGIN_COMMAND, error.text)
        response = redirect_page(location)
        response.headers = (*response.headers, *cookies)
        return response

    async def decide(self, request: Request) -> Response:
        """Grant what the person chose and return to the app with a code, or with the refusal."""
        self._check_enabled()
        check_same_origin(request.headers, upgrade=True)
        try:
            form = parse_form(request)
            encoded = required(form, "request")
            fields = parse_parameters(encoded)
            asked = await self._parse_request(fields)
            if not self._is_sealed(request, form.get("seal", ""), encoded, asked.client.name):
                return problem_page(_EXPIRED, status=403)
            if form.get("decision") != "connect":
                return redirect_page(self._error_link(asked.redirect_uri, fields, "access_denied"))
            code = await self._grant(request, form, asked)
        except _ReturnableProblem as problem:
            return problem_page(problem.reason, problem.link)
        except GrantRefused as refused:
            return problem_page(_sentence(refused))
        except (CapacityExceeded, InsufficientRole, NotFound) as error:
            return problem_page(error.text, status=403)
        return redirect_page(self._answer_link(asked.redirect_uri, fields, {"code": code}))

    async def _grant(self, request: Request, form: dict[str, str], asked: AuthorizationRequest) -> str:
        """Store the grant that a form chose, and return its code. Raises GrantRefused and the errors of the writer."""
        manager, workspace = await self._chosen_workspace(request, form.get("workspace", ""), asked)
        chosen, days = form.get("scope", READ_SCOPE), form.get("days", "")
        if chosen not in asked.scope.split():
            raise GrantRefused("invalid_scope", "the app did not ask for this permission")
        if not (days.isascii() and days.isdigit() and 1 <= int(days[:5]) <= self._limits.oauth_grant_days):
            raise GrantRefused("invalid_request", "this duration cannot be chosen")
        granted = GrantRequest(
            client_id=asked.client.id,
            client_name=asked.client.name,
            redirect_uri=asked.redirect_uri,
            challenge=asked.challenge,
            resource=asked.resource,
            scope=" ".join(SCOPES) if chosen == ACT_SCOPE else READ_SCOPE,
            org_id=workspace.org_id,
            workspace_id=workspace.id,
            person_id=manager.id,
            seconds=int(days[:5]) * DAY // SECOND,
        )
        return await self._writer.create_grant(granted, is_registered=asked.client.is_registered)

    async def _chosen_workspace(
        self, request: Request, workspace_id: str, asked: AuthorizationRequest
    ) -> tuple[Caller, Workspace]:
        """Return the workspace that a form chose, and the person who manages it. Raises GrantRefused."""
        workspace = self._org.workspace(workspace_id)
        managers = await self._managers(request)
        manager = next((each for each in managers if workspace and each.org_id == workspace.org_id), None)
        is_possible = (
            workspace is not None
            and not workspace.removed
            and asked.workspace_id in ("", workspace.id)
            and asked.client.org_id in ("", workspace.org_id)
        )
        if workspace is None or manager is None or not is_possible:
            raise GrantRefused("access_denied", "you do not manage this workspace")
        return manager, workspace

    async def _managers(self, request: Request) -> list[Caller]:
        """Return the logins of this browser whose role may issue tokens of workspaces, one for each organisation."""
        logins = await self._sessions.read_logins(request)
        found = {each.org_id: each for each in logins.values() if each is not None}
        return [each for each in found.values() if role_includes(each.role, Role.OPERATOR)]

    async def _parse_request(self, fields: dict[str, str]) -> AuthorizationRequest:
        """Check a request. Raises GrantRefused; _ReturnableProblem once the redirect address is known to be right."""
        redirect_uri = required(fields, "redirect_uri")
        client = await self._directory.find_client(required(fields, "client_id"), redirect_uri)
        try:
            if required(fields, "response_type") != "code":
                raise GrantRefused("unsupported_response_type", "response_type must be code")
            if fields.get("code_challenge_method") != "S256":
                raise GrantRefused("invalid_request", "code_challenge_method must be S256")
            challenge = required(fields, "code_challenge")
            if not is_valid_challenge(challenge):
                raise GrantRefused("invalid_request", "code_challenge is not valid")
            resource, workspace_id = self._parse_resource(fields.get("resource", ""))
            scope = requested_scope(fields.get("scope", ""))
        except GrantRefused as refused:
            link = self._error_link(redirect_uri, fields, refused.error)
            raise _ReturnableProblem(f"The request of the app is not valid: {refused.reason}.", link) from None
        return AuthorizationRequest(client, redirect_uri, challenge, resource, workspace_id, scope)

    def _parse_resource(self, resource: str) -> tuple[str, str]:
        """Return the resource of a request and the workspace in its path, if one is. Raises GrantRefused."""
        target = (resource or f"{self._issuer}/mcp").removesuffix("/")
        if target == f"{self._issuer}/mcp":
            return target, ""
        found = re.fullmatch(rf"{re.escape(self._issuer)}/workspaces/([A-Za-z0-9._:-]+)/mcp", target)
        if found is None:
            raise GrantRefused("invalid_target", "the resource is not an address of this server's MCP endpoint")
        return target, found[1]

    def _choices(self, asked: AuthorizationRequest, managers: list[Caller]) -> tuple[list[OrgChoices], bool]:
        """Return the workspaces that the person may choose by organisation, and whether there are more."""
        most, choices = self._limits.oauth_workspaces, list[OrgChoices]()
        for manager in managers:
            if asked.client.org_id not in ("", manager.org_id):
                continue
            rows = [
                WorkspaceOption(each.id, self._label_of(each))
                for each in self._org.workspaces(manager.org_id)
                if not each.removed and asked.workspace_id in ("", each.id)
            ]
            if rows:
                rows.sort(key=lambda row: (row.label.casefold(), row.id))
                org_name = self._org.org(manager.org_id).name
                choices.append(OrgChoices(org_name, manager.name, rows))
        is_cut = sum(len(each.workspaces) for each in choices) > most
        share = max(1, most // max(1, len(choices)))
        return [OrgChoices(each.org_name, each.person_name, each.workspaces[:share]) for each in choices], is_cut

    def _label_of(self, workspace: Workspace) -> str:
        names, parent_id = [workspace.name], workspace.parent_id
        while parent_id is not None and (parent := self._org.workspace(parent_id)) is not None:
            names.append(parent.name)
            parent_id = parent.parent_id
        return " / ".join(reversed(names))

    def _answer_link(self, redirect_uri: str, fields: dict[str, str], answer: dict[str, str]) -> str:
        state = {"state": fields["state"]} if "state" in fields else {}
        return with_parameters(redirect_uri, {**answer, **state, "iss": self._issuer})

    def _error_link(self, redirect_uri: str, fields: dict[str, str], error: str) -> str:
        return self._answer_link(redirect_uri, fields, {"error": error})

    def _seal(self, request: Request, encoded: str, client_name: str, expires_at: int) -> str:
        """Return what binds a form to the sessions of the browser, which no other page can read."""
        tokens = sorted(self._authenticator.cookies.tokens(request.headers).values())
        message = "\n".join((str(expires_at), encoded, client_name))
        key = hashlib.sha256("\n".join(("consent", *tokens)).encode()).digest()
        return f"{expires_at}.{hmac.new(key, message.encode(), hashlib.sha256).hexdigest()}"

    def _is_sealed(self, request: Request, seal: str, encoded: str, client_name: str) -> bool:
        expires_at = seal.partition(".")[0]
        if not (expires_at.isascii() and expires_at.isdigit()) or len(expires_at) > 20:
            return False
        expected = self._seal(request, encoded, client_name, int(expires_at))
        return hmac.compare_digest(expected.encode(), seal.encode()) and int(expires_at) > self._clock.now()


def _sentence(refused: GrantRefused) -> str:
    return f"{refused.reason[:1].upper()}{refused.reason[1:]}."


class _ReturnableProblem(Exception):
    """Invalid request of a client whose redirect address is its own. `link` leads there with the error."""

    def __init__(self, reason: str, link: str) -> None:
        self.reason = reason
        self.link = link
        super().__init__(reason)
