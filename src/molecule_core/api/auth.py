"""Authenticates and authorizes callers before a handler runs."""

import hashlib
from collections.abc import Awaitable, Callable
from urllib.parse import quote

from molecule_core.access.model import ADMIN, Caller, CredentialKind
from molecule_core.access.oauth_rules import ACT_SCOPE, SCOPES
from molecule_core.access.reader import AccessReader
from molecule_core.access.rules import role_includes
from molecule_core.api.approvals.gate import ApprovalGate
from molecule_core.api.routing import AccessPolicy, Request, Route, WorkspaceScope
from molecule_core.api.session_cookies import SessionCookies
from molecule_core.common.errors import (
    CredentialNotAccepted,
    CrossOrigin,
    HostNotAllowed,
    InsufficientRole,
    InvalidCaller,
    InvalidCredential,
    MissingCredential,
    MoleculeError,
    NotFound,
)
from molecule_core.common.tokens import SESSION_PREFIX, hash_token, token_prefix
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import are_related

# Accepted spellings of the Host header (ports, capitals), so that each one is checked only once.
_MAX_KNOWN_HOSTS = 100
_KEY_BYTES = 16
RESOURCE_METADATA_PATH = "/.well-known/oauth-protected-resource"
# Query parameters with which a GET changes something.
_CHANGING_PARAMS = ("claim", "since_id")
ANONYMOUS = Caller(kind=CredentialKind.WORKSPACE, id="", org_id="", role=ADMIN.role, name="")
"""Caller of public routes, which check nothing about it."""


class Authenticator:
    """Guard that checks host, credential, role and scope in this order. Ids of other orgs read as unknown ids."""

    def __init__(
        self,
        access: AccessReader,
        org: OrgReader,
        hosts: frozenset[str],
        cookie: str,
        approval_gate: ApprovalGate,
        catch_up: Callable[[], Awaitable[None]] | None = None,
        oauth_issuer: str = "",
    ) -> None:
        """Create the guard."""
        self._oauth_issuer = oauth_issuer
        self._access = access
        self._org = org
        self._hosts = hosts
        self.cookies = SessionCookies(cookie)
        self.catch_up = catch_up
        """Applies changes by other processes of the same store; None if there are none."""
        self.approval_gate = approval_gate
        """Decides which requests need an approval first."""
        self._known_hosts: set[bytes] = set()

    def check_host(self, host: bytes) -> None:
        """Reject host names that are not ours (DNS rebinding: a page may point its own name at this server)."""
        if host in self._known_hosts:
            return
        text = host.decode("latin-1").lower()
        if not self._is_own_host(text):
            raise HostNotAllowed(host=text[:200])  # control: request-host
        if len(self._known_hosts) < _MAX_KNOWN_HOSTS:
            self._known_hosts.add(host)

    def _is_own_host(self, host: str) -> bool:
        """Return whether a host name, with or without a port, is one of this server's."""
        head, _, port = host.rpartition(":")
        return (head if port.isascii() and port.isdigit() else host) in self._hosts

    def check_origin(self, headers: dict[bytes, bytes]) -> None:
        """Reject requests of other hosts' pages, even with a valid credential. Raises CrossOrigin."""
        origin = headers.get(b"origin")
        if origin is None:
            return
        scheme, _, host = origin.decode("latin-1").lower().partition("://")
        if scheme not in ("http", "https") or not self._is_own_host(host):
            raise CrossOrigin

    def cached_caller(self, headers: dict[bytes, bytes], route: Route, resource: str = "") -> Caller | None:
        """Return the owner of the credential if it is cached. Raises 401 errors and CrossOrigin."""
        if not route.access.kinds:
            return ANONYMOUS
        caller = self._access.cached_caller(self._credential_of(headers, route), resource)
        if caller is not None:
            self._check_org(headers, caller)
        return caller

    async def load_caller(self, headers: dict[bytes, bytes], route: Route, resource: str = "") -> Caller:
        """Return the owner of the credential, read from the store. Raises 401 errors and CrossOrigin."""
        if not route.access.kinds:
            return ANONYMOUS
        caller = await self._access.resolve_caller(self._credential_of(headers, route), resource)
        if caller is None:
            raise InvalidCredential
        self._check_org(headers, caller)
        if self.catch_up is not None and not self._is_caller_cached(caller):
            await self.catch_up()
        return caller

    def resource_of(self, route: Route, path_params: dict[str, str]) -> str:
        """Return the address of the OAuth resource that a request names; empty if it is none, or OAuth is off."""
        if not route.is_oauth_resource or not self._oauth_issuer:
            return ""
        return self._oauth_issuer + route.path.format_map(path_params)

    def add_challenge(self, error: MoleculeError, route: Route, path_params: dict[str, str]) -> None:
        """Add to a 401 of an OAuth resource where its metadata is (RFC 9728)."""
        resource = self.resource_of(route, path_params)
        if resource:
            path = quote(resource.removeprefix(self._oauth_issuer))  # what a client named must not end the header
            reason = ', error="invalid_token"' if isinstance(error, InvalidCredential) else ""
            error.details["challenge"] = (
                f'resource_metadata="{self._oauth_issuer}{RESOURCE_METADATA_PATH}{path}", '
                f'scope="{" ".join(SCOPES)}"{reason}'
            )

    async def authorize(self, request: Request, caller: Caller) -> None:
        """Authorize a caller. If the target is not found, catch up with the other processes and check again."""
        try:
            self.bind_caller(request, caller)
        except NotFound:
            if self.catch_up is None:
                raise
            await self.catch_up()
            self.bind_caller(request, caller)

    def _is_caller_cached(self, caller: Caller) -> bool:
        """Return whether the caller's own workspace or org is in memory."""
        if caller.kind is CredentialKind.WORKSPACE:
            return self._org.workspace(caller.id) is not None
        return caller.kind is CredentialKind.ADMIN or self._org.find_org(caller.org_id) is not None

    def _credential_of(self, headers: dict[bytes, bytes], route: Route) -> str:
        """Return the credential: a bearer token, or the session cookie, which only our own pages may use."""
        if b"authorization" in headers:
            scheme, _, token = headers[b"authorization"].partition(b" ")
            if scheme.lower() != b"bearer" or not token:
                raise MissingCredential
            text = token.decode("latin-1").strip()
            if text.startswith(SESSION_PREFIX):  # only in the cookie is it protected against other pages
                raise InvalidCredential
            return text
        session = self.session_token(headers)
        if session is None:
            raise MissingCredential
        if route.is_unsafe:
            check_same_origin(headers, upgrade=route.method == "GET")
        return session

    def _check_org(self, headers: dict[bytes, bytes], caller: Caller) -> None:
        """Check that a session belongs to the organisation that the page or its cookie names. Raises InvalidCredential.

        A token has its own organisation, so this matters only to sessions."""
        if b"authorization" in headers:
            return
        if self.cookies.org(headers) not in ("", caller.org_id):
            raise InvalidCredential

    def credential_key(self, headers: dict[bytes, bytes]) -> str:
        """Return the rate limit key of a well-formed credential that may be unknown; empty for any other.

        The key does not reveal the credential."""
        token = headers.get(b"authorization", b"").partition(b" ")[2].decode("latin-1").strip()
        token = token or self.session_token(headers) or ""
        if token_prefix(token) is None:
            return ""
        return hashlib.blake2b(token.encode(), digest_size=_KEY_BYTES).hexdigest()

    def session_token(self, headers: dict[bytes, bytes]) -> str | None:
        """Return the token of the session that a request uses, if one was sent."""
        return self.cookies.token(headers)

    def bind_caller(self, request: Request, caller: Caller) -> None:
        """Check a caller, then set caller and workspace of the request; the path may name none.

        Raises NotFound if organisation or workspace is unknown or out of scope, WorkspaceRemoved if the workspace or
        the caller's own was removed, and 403 errors."""
        if caller is not ANONYMOUS:
            _check_policy(caller, request.headers, request.route.access)
        if caller.is_read_only:
            _check_reads_only(request)
        route, params = request.route, request.path_params
        if "org_id" in params and (
            self._org.find_org(params["org_id"]) is None or not _is_in_org(caller, params["org_id"])
        ):
            raise NotFound(what="organisation")
        if route.access.scope is not WorkspaceScope.NONE:
            keeps_history = route.keeps_history and caller.kind is not CredentialKind.WORKSPACE
            request.maybe_workspace = self.workspace_in_scope(
                caller, params["id"], route.access.scope, allow_removed=route.allow_removed or keeps_history
            )
        elif caller.kind is CredentialKind.WORKSPACE and self._org.workspace(caller.id) is not None:
            self._org.active_workspace(caller.id)  # raises WorkspaceRemoved
        request.maybe_caller = caller
        request.credential_changes = self._access.cache.invalidation_count

    async def revalidate(self, request: Request) -> None:
        """Check again, before a response that took a while, that its caller still has access.

        Raises InvalidCredential, InsufficientRole."""
        if request.credential_changes != self._access.cache.invalidation_count and request.route.access.kinds:
            await self.load_caller(request.headers, request.route, request.resource)

    def workspace_in_scope(
        self, caller: Caller, workspace_id: str, scope: WorkspaceScope, *, allow_removed: bool = False
    ) -> Workspace:
        """Return a workspace that is in the caller's scope. Raises NotFound, WorkspaceRemoved."""
        workspace = self._org.workspace(workspace_id)
        if workspace is None or not _is_in_org(caller, workspace.org_id):  # control: unknown-workspace
            raise NotFound(what="workspace")
        if caller.kind is CredentialKind.WORKSPACE and caller.id != workspace_id:
            self._check_peer_scope(caller, workspace, scope)
        return workspace if allow_removed else self._org.active_workspace(workspace_id)

    def _check_peer_scope(self, caller: Caller, workspace: Workspace, scope: WorkspaceScope) -> None:
        """Check that a workspace token may access another workspace: peers only, and only on routes with that scope.

        An existing workspace of the same org that is no peer passes here; the writer rejects it with 403."""
        own = self._org.workspace(caller.id)
        if scope is WorkspaceScope.OWN or own is None:  # control: own-reach
            raise NotFound(what="workspace")
        self._org.active_workspace(own.id)  # raises WorkspaceRemoved
        if workspace.removed and not are_related(self._org, own, workspace):
            raise NotFound(what="workspace")

    def credential_hash(self, headers: dict[bytes, bytes]) -> str:
        """Return the hash of the credential of an authorized request."""
        if b"authorization" in headers:
            return hash_token(headers[b"authorization"].partition(b" ")[2].decode("latin-1").strip())
        return hash_token(self.session_token(headers) or "")


def _is_in_org(caller: Caller, org_id: str) -> bool:
    return caller.kind is CredentialKind.ADMIN or caller.org_id == org_id  # control: caller-org


def check_same_origin(headers: dict[bytes, bytes], *, upgrade: bool = False) -> None:
    """Check that a request with a cookie comes from our own page, since browsers send cookies for any page.

    Pages cannot choose the Origin header, and only our own may send X-Molecule-Client. A WebSocket upgrade cannot carry
    a custom header, so there the Origin header is required. Raises CrossOrigin."""
    origin, host = headers.get(b"origin"), headers.get(b"host", b"").lower()
    own = origin is not None and origin.lower() in (b"http://" + host, b"https://" + host)
    if not own and (origin is not None or upgrade):  # control: request-origin
        raise CrossOrigin
    if not upgrade and b"x-molecule-client" not in headers:
        raise CrossOrigin


def _check_reads_only(request: Request) -> None:
    """Reject what a read-only token makes the server do beyond reading. Raises CredentialNotAccepted.

    The resource itself is called with POST; what its tools do arrives here as an internal request."""
    is_change = request.route.method != "GET" or any(each in request.query_params() for each in _CHANGING_PARAMS)
    if request.is_internal and is_change:
        raise CredentialNotAccepted(kind="read-only", takes=f"a connection with the scope {ACT_SCOPE}")


def _check_policy(caller: Caller, headers: dict[bytes, bytes], policy: AccessPolicy) -> None:
    """Reject a caller that the route does not accept.

    X-Workspace-ID proves nothing, but a value that contradicts the credential is a mistake or an attack."""
    claimed = headers.get(b"x-workspace-id")
    if claimed is not None and (
        caller.kind is not CredentialKind.WORKSPACE or claimed.decode("latin-1").strip() != caller.id
    ):
        raise InvalidCaller
    if caller.kind not in policy.kinds:  # control: credential-kind
        raise CredentialNotAccepted(kind=caller.kind.value, takes=", ".join(sorted(policy.kinds)))
    if not role_includes(caller.role, policy.role):  # control: caller-role
        raise InsufficientRole(role=caller.role.value, needed=policy.role.value)
