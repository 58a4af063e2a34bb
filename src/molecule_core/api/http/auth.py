"""Who calls, and may they? The guards that stand before every handler."""

from collections.abc import Awaitable, Callable

from molecule_core.access.model import ADMIN, Caller, CredentialKind
from molecule_core.access.reader import AccessReader
from molecule_core.access.rules import role_includes
from molecule_core.api.approvals.gate import ApprovalGate
from molecule_core.api.http.routing import AccessPolicy, Request, Route, WorkspaceScope
from molecule_core.common.clock import to_rfc3339
from molecule_core.common.errors import (
    CredentialNotAccepted,
    CrossOrigin,
    HostNotAllowed,
    InsufficientRole,
    InvalidCaller,
    InvalidCredential,
    MissingCredential,
    NotFound,
    WorkspaceRemoved,
)
from molecule_core.common.tokens import SESSION_PREFIX, hash_token, token_prefix
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import are_related

# Spellings of the host header (ports, capitals) that are remembered as good, so that each is looked at once.
_MAX_KNOWN_HOSTS = 100
ANONYMOUS = Caller(kind=CredentialKind.WORKSPACE, id="", org_id="", role=ADMIN.role, name="")
"""Stands in the place of a caller on public routes, which ask nothing of it."""


class Authenticator:
    """Host, credential, role and reach, checked in this order. Other organisations' ids answer as unknown ones."""

    def __init__(
        self,
        access: AccessReader,
        org: OrgReader,
        hosts: frozenset[str],
        cookie: str,
        approval_gate: ApprovalGate,
        catch_up: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`catch_up`: where other processes change the store too, brings memory up to date."""
        self._access = access
        self._org = org
        self._hosts = hosts
        self._cookie = cookie.encode() + b"="
        self._catch_up = catch_up
        self.approval_gate = approval_gate
        """What must be approved before it is done."""
        self._known_hosts: set[bytes] = set()

    def check_host(self, host: bytes) -> None:
        """Refuses a name this server does not answer for: a page elsewhere may have pointed its own name at us."""
        if host in self._known_hosts:
            return
        text = host.decode("latin-1").lower()
        if not self._is_own_host(text):
            raise HostNotAllowed(host=text[:200])  # control: request-host
        if len(self._known_hosts) < _MAX_KNOWN_HOSTS:
            self._known_hosts.add(host)

    def _is_own_host(self, host: str) -> bool:
        """Whether a host name, with or without a port, is one of this server's."""
        head, _, port = host.rpartition(":")
        return (head if port.isascii() and port.isdigit() else host) in self._hosts

    def check_origin(self, headers: dict[bytes, bytes]) -> None:
        """Refuses what a page of another host sends, whatever credential it has got hold of. Raises CrossOrigin."""
        origin = headers.get(b"origin")
        if origin is None:
            return
        scheme, _, host = origin.decode("latin-1").lower().partition("://")
        if scheme not in ("http", "https") or not self._is_own_host(host):
            raise CrossOrigin

    def cached_caller(self, headers: dict[bytes, bytes], route: Route) -> Caller | None:
        """Whose credential it is, if it was looked up before. Raises 401 errors and CrossOrigin."""
        if not route.access.kinds:
            return ANONYMOUS
        return self._access.cached_caller(self._credential_of(headers, route))

    async def load_caller(self, headers: dict[bytes, bytes], route: Route) -> Caller:
        """Whose credential it is, by a look into the store. Raises 401 errors and CrossOrigin."""
        if not route.access.kinds:
            return ANONYMOUS
        caller = await self._access.resolve_caller(self._credential_of(headers, route))
        if caller is None:
            raise InvalidCredential
        if self._catch_up is not None and not self._is_caller_cached(caller):
            await self._catch_up()
        return caller

    def try_authorize(self, request: Request, caller: Caller) -> None:
        """Lets a caller in as `place` does, but leaves one out for now who asks for what another process may just have
        made: `identify` looks again."""
        try:
            self.bind_caller(request, caller)
        except NotFound:
            if self._catch_up is None:
                raise

    async def authorize(self, request: Request, caller: Caller) -> None:
        """Lets a caller in. Another process may just have made what is not found."""
        try:
            self.bind_caller(request, caller)
        except NotFound:
            if self._catch_up is None:
                raise
            await self._catch_up()
            self.bind_caller(request, caller)

    def _is_caller_cached(self, caller: Caller) -> bool:
        """Whether the caller's own place is in memory."""
        if caller.kind is CredentialKind.WORKSPACE:
            return self._org.workspace(caller.id) is not None
        return caller.kind is CredentialKind.ADMIN or self._org.find_org(caller.org_id) is not None

    def _credential_of(self, headers: dict[bytes, bytes], route: Route) -> str:
        """The credential: a bearer token, or the cookie of a person's session, which only our own page may use."""
        if b"authorization" in headers:
            scheme, _, token = headers[b"authorization"].partition(b" ")
            if scheme.lower() != b"bearer" or not token:
                raise MissingCredential
            text = token.decode("latin-1").strip()
            if token_prefix(text) == SESSION_PREFIX:  # in the cookie it is guarded against other pages, here it is not
                raise InvalidCredential
            return text
        session = self.session_token(headers)
        if session is None:
            raise MissingCredential
        if route.is_unsafe:
            check_same_origin(headers, upgrade=route.method == "GET")
        return session

    def session_token(self, headers: dict[bytes, bytes]) -> str | None:
        """The token of the session cookie, if one was sent."""
        for pair in headers.get(b"cookie", b"").split(b";"):
            if pair.strip().startswith(self._cookie):
                return pair.strip()[len(self._cookie) :].decode("latin-1")
        return None

    def bind_caller(self, request: Request, caller: Caller) -> None:
        """Lets a caller in: the call then says who it is, and about which workspace. Raises 403, 404 and 410 errors."""
        if caller is not ANONYMOUS:
            _check_policy(caller, request.headers, request.route.access)
        request.maybe_workspace = self.resolve_workspace(caller, request.route, request.path_params)
        request.maybe_caller = caller
        request.credential_changes = self._access.invalidation_count

    async def revalidate(self, request: Request) -> None:
        """Before something that was read over a while is handed over: whoever asked for it may still have it.

        Raises InvalidCredential, RoleTooLow."""
        if request.credential_changes != self._access.invalidation_count and request.route.access.kinds:
            await self.load_caller(request.headers, request.route)

    def resolve_workspace(self, caller: Caller, route: Route, params: dict[str, str]) -> Workspace | None:
        """The workspace that the path names, if this caller may reach it; None, if it names none. What was removed
        reaches nothing. Raises NotFound, WorkspaceRemoved."""
        if "org_id" in params and (
            self._org.find_org(params["org_id"]) is None or not _is_in_org(caller, params["org_id"])
        ):
            raise NotFound(what="organisation")
        if route.access.scope is WorkspaceScope.NONE:
            own = self._org.workspace(caller.id) if caller.kind is CredentialKind.WORKSPACE else None
            if own is not None:
                _check_not_removed(own)
            return None
        return self.workspace_in_scope(caller, params["id"], route.access.scope, allow_removed=route.allow_removed)

    def workspace_in_scope(
        self, caller: Caller, workspace_id: str, scope: WorkspaceScope, *, allow_removed: bool = False
    ) -> Workspace:
        """A workspace, if this caller may reach it."""
        workspace = self._org.workspace(workspace_id)
        if workspace is None or not _is_in_org(caller, workspace.org_id):  # control: unknown-workspace
            raise NotFound(what="workspace")
        if caller.kind is CredentialKind.WORKSPACE and caller.id != workspace_id:
            self._check_peer_scope(caller, workspace, scope)
        if not allow_removed:
            _check_not_removed(workspace)
        return workspace

    def _check_peer_scope(self, caller: Caller, workspace: Workspace, scope: WorkspaceScope) -> None:
        """A workspace token and another workspace: only peers, and only where the route reaches that far. (That a
        living workspace of one's own organisation is out of reach is said by the writer, as 403.)"""
        own = self._org.workspace(caller.id)
        if scope is WorkspaceScope.OWN or own is None:  # control: own-reach
            raise NotFound(what="workspace")
        _check_not_removed(own)
        if workspace.removed and not are_related(self._org, own, workspace):
            raise NotFound(what="workspace")

    def credential_hash(self, headers: dict[bytes, bytes]) -> str:
        """What the credential of a request that was let in is known by here."""
        if b"authorization" in headers:
            return hash_token(headers[b"authorization"].partition(b" ")[2].decode("latin-1").strip())
        return hash_token(self.session_token(headers) or "")


def _check_not_removed(workspace: Workspace) -> None:
    if workspace.removed_at is not None:
        raise WorkspaceRemoved(id=workspace.id, removed_at=to_rfc3339(workspace.removed_at))


def _is_in_org(caller: Caller, org_id: str) -> bool:
    return caller.kind is CredentialKind.ADMIN or caller.org_id == org_id  # control: caller-org


def check_same_origin(headers: dict[bytes, bytes], *, upgrade: bool = False) -> None:
    """A browser sends cookies along for any page; only ours may act with them. Raises CrossOrigin.

    Pages cannot choose the Origin header, and none but our own may send X-Molecule-Client. An upgrade to a WebSocket
    carries no header of the page's choice, so there the origin must be told."""
    origin, host = headers.get(b"origin"), headers.get(b"host", b"").lower()
    own = origin is not None and origin.lower() in (b"http://" + host, b"https://" + host)
    if not own and (origin is not None or upgrade):  # control: request-origin
        raise CrossOrigin
    if not upgrade and b"x-molecule-client" not in headers:
        raise CrossOrigin


def _check_policy(caller: Caller, headers: dict[bytes, bytes], policy: AccessPolicy) -> None:
    """Refuses a caller whom a route does not take. X-Workspace-ID proves nothing; one that disagrees with the
    credential is a mistake or an attack."""
    claimed = headers.get(b"x-workspace-id")
    if claimed is not None and (
        caller.kind is not CredentialKind.WORKSPACE or claimed.decode("latin-1").strip() != caller.id
    ):
        raise InvalidCaller
    if caller.kind not in policy.kinds:  # control: credential-kind
        raise CredentialNotAccepted(kind=caller.kind.value, takes=", ".join(sorted(policy.kinds)))
    if not role_includes(caller.role, policy.role):  # control: caller-role
        raise InsufficientRole(role=caller.role.value, needed=policy.role.value)
