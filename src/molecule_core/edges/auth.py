"""Who calls, and may they? The guards that stand before every handler."""

from collections.abc import Awaitable, Callable

from molecule_core.access.model import ADMIN, Caller, Kind
from molecule_core.access.reader import AccessReader
from molecule_core.access.rules import may
from molecule_core.edges.leave import Leave
from molecule_core.edges.routes import Call, Reach, Route, Who
from molecule_core.ground.clock import rfc3339
from molecule_core.ground.errors import (
    CredentialNotAccepted,
    CrossOrigin,
    InvalidCaller,
    InvalidCredential,
    MissingCredential,
    NotFound,
    RoleTooLow,
    WorkspaceRemoved,
    WrongHost,
)
from molecule_core.ground.tokens import SESSION_PREFIX, hash_of, prefix_of
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import related

# Spellings of the host header (ports, capitals) that are remembered as good, so that each is looked at once.
_MOST_SPELLINGS = 100
NOBODY = Caller(kind=Kind.WORKSPACE, id="", org_id="", role=ADMIN.role, name="")
"""Stands in the place of a caller on public routes, which ask nothing of it."""


class Guards:
    """Host, credential, role and reach, checked in this order. Other organisations' ids answer as unknown ones."""

    def __init__(
        self,
        access: AccessReader,
        org: OrgReader,
        hosts: frozenset[str],
        cookie: str,
        leave: Leave,
        catch_up: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`catch_up`: where other processes change the store too, brings memory up to date."""
        self._access = access
        self._org = org
        self._hosts = hosts
        self._cookie = cookie.encode() + b"="
        self._catch_up = catch_up
        self.leave = leave
        """What must be approved before it is done."""
        self._good_hosts: set[bytes] = set()

    def check_host(self, host: bytes) -> None:
        """Refuses a name this server does not answer for: a page elsewhere may have pointed its own name at us."""
        if host in self._good_hosts:
            return
        text = host.decode("latin-1").lower()
        if not self._is_ours(text):
            raise WrongHost(host=text[:200])  # control: request-host
        if len(self._good_hosts) < _MOST_SPELLINGS:
            self._good_hosts.add(host)

    def _is_ours(self, host: str) -> bool:
        """Whether a host name, with or without a port, is one of this server's."""
        head, _, port = host.rpartition(":")
        return (head if port.isascii() and port.isdigit() else host) in self._hosts

    def check_origin(self, headers: dict[bytes, bytes]) -> None:
        """Refuses what a page of another host sends, whatever credential it has got hold of. Raises CrossOrigin."""
        origin = headers.get(b"origin")
        if origin is None:
            return
        scheme, _, host = origin.decode("latin-1").lower().partition("://")
        if scheme not in ("http", "https") or not self._is_ours(host):
            raise CrossOrigin

    def known(self, headers: dict[bytes, bytes], route: Route) -> Caller | None:
        """Whose credential it is, if it was looked up before. Raises 401 errors and CrossOrigin."""
        if not route.who.kinds:
            return NOBODY
        return self._access.known(self._token(headers, route))

    async def look_up(self, headers: dict[bytes, bytes], route: Route) -> Caller:
        """Whose credential it is, by a look into the store. Raises 401 errors and CrossOrigin."""
        if not route.who.kinds:
            return NOBODY
        caller = await self._access.caller(self._token(headers, route))
        if caller is None:
            raise InvalidCredential
        if self._catch_up is not None and not self._knows(caller):
            await self._catch_up()
        return caller

    def let_in(self, call: Call, caller: Caller) -> None:
        """Lets a caller in as `place` does, but leaves one out for now who asks for what another process may just have
        made: `identify` looks again."""
        try:
            self.place(call, caller)
        except NotFound:
            if self._catch_up is None:
                raise

    async def identify(self, call: Call, caller: Caller) -> None:
        """Lets a caller in. Another process may just have made what is not found."""
        try:
            self.place(call, caller)
        except NotFound:
            if self._catch_up is None:
                raise
            await self._catch_up()
            self.place(call, caller)

    def _knows(self, caller: Caller) -> bool:
        """Whether the caller's own place is in memory."""
        if caller.kind is Kind.WORKSPACE:
            return self._org.workspace(caller.id) is not None
        return caller.kind is Kind.ADMIN or self._org.find_org(caller.org_id) is not None

    def _token(self, headers: dict[bytes, bytes], route: Route) -> str:
        """The credential: a bearer token, or the cookie of a person's session, which only our own page may use."""
        if b"authorization" in headers:
            scheme, _, token = headers[b"authorization"].partition(b" ")
            if scheme.lower() != b"bearer" or not token:
                raise MissingCredential
            text = token.decode("latin-1").strip()
            if prefix_of(text) == SESSION_PREFIX:  # in the cookie it is guarded against other pages, here it is not
                raise InvalidCredential
            return text
        session = self.session(headers)
        if session is None:
            raise MissingCredential
        if route.unsafe:
            check_own_page(headers, upgrade=route.method == "GET")
        return session

    def session(self, headers: dict[bytes, bytes]) -> str | None:
        """The token of the session cookie, if one was sent."""
        for pair in headers.get(b"cookie", b"").split(b";"):
            if pair.strip().startswith(self._cookie):
                return pair.strip()[len(self._cookie) :].decode("latin-1")
        return None

    def place(self, call: Call, caller: Caller) -> None:
        """Lets a caller in: the call then says who it is, and about which workspace. Raises 403, 404 and 410 errors."""
        if caller is not NOBODY:
            _check(caller, call.headers, call.route.who)
        call.workspace = self.locate(caller, call.route, call.params)
        call.caller = caller
        call.changes = self._access.changes

    async def check_still(self, call: Call) -> None:
        """Before something that was read over a while is handed over: whoever asked for it may still have it.

        Raises InvalidCredential, RoleTooLow."""
        if call.changes != self._access.changes and call.route.who.kinds:
            await self.look_up(call.headers, call.route)

    def locate(self, caller: Caller, route: Route, params: dict[str, str]) -> Workspace | None:
        """The workspace that the path names, if this caller may reach it; None, if it names none. What was removed
        reaches nothing. Raises NotFound, WorkspaceRemoved."""
        if "org_id" in params and (
            self._org.find_org(params["org_id"]) is None or not _in_org(caller, params["org_id"])
        ):
            raise NotFound(what="organisation")
        if route.who.reach is Reach.NONE:
            own = self._org.workspace(caller.id) if caller.kind is Kind.WORKSPACE else None
            if own is not None:
                _check_living(own)
            return None
        return self.reach(caller, params["id"], route.who.reach, removed_too=route.removed_too)

    def reach(self, caller: Caller, workspace_id: str, reach: Reach, *, removed_too: bool = False) -> Workspace:
        """A workspace, if this caller may reach it."""
        workspace = self._org.workspace(workspace_id)
        if workspace is None or not _in_org(caller, workspace.org_id):  # control: unknown-workspace
            raise NotFound(what="workspace")
        if caller.kind is Kind.WORKSPACE and caller.id != workspace_id:
            self._check_neighbour(caller, workspace, reach)
        if not removed_too:
            _check_living(workspace)
        return workspace

    def _check_neighbour(self, caller: Caller, workspace: Workspace, reach: Reach) -> None:
        """A workspace token and another workspace: only peers, and only where the route reaches that far. (That a
        living workspace of one's own organisation is out of reach is said by the writer, as 403.)"""
        own = self._org.workspace(caller.id)
        if reach is Reach.OWN or own is None:  # control: own-reach
            raise NotFound(what="workspace")
        _check_living(own)
        if workspace.removed and not related(self._org, own, workspace):
            raise NotFound(what="workspace")

    def credential_hash(self, headers: dict[bytes, bytes]) -> str:
        """What the credential of a request that was let in is known by here."""
        if b"authorization" in headers:
            return hash_of(headers[b"authorization"].partition(b" ")[2].decode("latin-1").strip())
        return hash_of(self.session(headers) or "")


def _check_living(workspace: Workspace) -> None:
    if workspace.removed_at is not None:
        raise WorkspaceRemoved(id=workspace.id, removed_at=rfc3339(workspace.removed_at))


def _in_org(caller: Caller, org_id: str) -> bool:
    return caller.kind is Kind.ADMIN or caller.org_id == org_id  # control: caller-org


def check_own_page(headers: dict[bytes, bytes], *, upgrade: bool = False) -> None:
    """A browser sends cookies along for any page; only ours may act with them. Raises CrossOrigin.

    Pages cannot choose the Origin header, and none but our own may send X-Molecule-Client. An upgrade to a WebSocket
    carries no header of the page's choice, so there the origin must be told."""
    origin, host = headers.get(b"origin"), headers.get(b"host", b"").lower()
    own = origin is not None and origin.lower() in (b"http://" + host, b"https://" + host)
    if not own and (origin is not None or upgrade):  # control: request-origin
        raise CrossOrigin
    if not upgrade and b"x-molecule-client" not in headers:
        raise CrossOrigin


def _check(caller: Caller, headers: dict[bytes, bytes], who: Who) -> None:
    """Refuses a caller whom a route does not take. X-Workspace-ID proves nothing; one that disagrees with the
    credential is a mistake or an attack."""
    claimed = headers.get(b"x-workspace-id")
    if claimed is not None and (caller.kind is not Kind.WORKSPACE or claimed.decode("latin-1").strip() != caller.id):
        raise InvalidCaller
    if caller.kind not in who.kinds:  # control: credential-kind
        raise CredentialNotAccepted(kind=caller.kind.value, takes=", ".join(sorted(who.kinds)))
    if not may(caller.role, who.role):  # control: caller-role
        raise RoleTooLow(role=caller.role.value, needed=who.role.value)
