"""A route says all about itself: who may call it, how much it reads, what it takes and gives.

Dispatch, the guards, /openapi.json and the tests of who-may-what all read the same table. A route without a
declaration of who may call it cannot be written.
"""

import asyncio
import enum
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct, field

from molecule_core.access.model import Caller, CredentialKind, Role
from molecule_core.api.http.query_parameters import QueryParameters
from molecule_core.api.http.rate_limits import RateClass, RateStatus
from molecule_core.common.errors import InvalidField, InvalidJson, MethodNotAllowed, NotFound, RouteNotFound
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import RouteMeter
from molecule_core.org.model import Workspace
from molecule_core.wire.protocols import strict_json

T = TypeVar("T")
_MAX_QUERY_FIELDS = 50
# Of what a client sent, a refusal repeats no more than a person reads.
_MAX_ECHOED_CHARS = 150

PERSON, WORKSPACE, ADMIN = CredentialKind.PERSON, CredentialKind.WORKSPACE, CredentialKind.ADMIN
ALL_CREDENTIALS = frozenset((PERSON, WORKSPACE, ADMIN))
PERSON_OR_ADMIN = frozenset((PERSON, ADMIN))


class WorkspaceScope(enum.Enum):
    """What a workspace token opens on a path that names a workspace."""

    NONE = "the path names no workspace"
    OWN = "only its own workspace"
    TALK = "its own workspace and those it may talk to"


class AccessPolicy(Struct, frozen=True):
    """Who may call a route: kinds of credential, how far a workspace's reaches, the least role of a person."""

    kinds: frozenset[CredentialKind]
    scope: WorkspaceScope = WorkspaceScope.NONE
    role: Role = Role.VIEWER


PUBLIC = AccessPolicy(frozenset())
"""No credential: only what messages.md, item 9, lists."""


class ConnectionUpgrade(Protocol):
    """Takes a connection over: gets the transport and the server's set of open connections, in which it stands until
    its end, and the bytes that have come already."""

    def __call__(self, transport: asyncio.Transport, connections: set[Any], data: bytes, rate: bytes) -> None:
        """Begins."""


class Response(Struct):
    """What goes back: a status, a body, and headers beside the usual ones. `take`: instead, the connection goes to
    another protocol, which answers by itself. `standing`: what refused it, where that is not the caller's own rate."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()
    content_type: bytes = b"application/json"
    content_security_policy: bytes = b"default-src 'none'; frame-ancestors 'none'"
    upgrade: ConnectionUpgrade | None = None
    rate_status: RateStatus | None = None


class Request(Struct):
    """A request after the guards: who calls, about which workspace, with what."""

    route: "Route"
    path_params: dict[str, str]
    headers: dict[bytes, bytes]
    query_string: bytes
    limits: Limits
    maybe_caller: Caller | None = None
    maybe_workspace: Workspace | None = None
    body: bytes = b""
    client_address: str = ""
    rate_status: RateStatus | None = None
    """What its sender may still ask."""
    body_stream: AsyncIterator[bytes] | None = None
    """The body of a route that streams."""
    credential_changes: int = 0
    """How often credentials had changed when this one was let in."""
    has_consumed_result: bool = False
    """Whether it has taken what nobody finds elsewhere any more; before it did, it was looked whether it still may."""

    @property
    def caller(self) -> Caller:
        """Who calls; the guards have made sure of it."""
        if self.maybe_caller is None:
            raise LookupError("nobody has been identified")
        return self.maybe_caller

    @property
    def workspace(self) -> Workspace:
        """The workspace that the path names; the guards have made sure that there is one."""
        if self.maybe_workspace is None:
            raise LookupError("this route names no workspace")
        return self.maybe_workspace

    @property
    def is_own_workspace(self) -> bool:
        """Whether the workspace's own token is calling."""
        return self.caller.kind is CredentialKind.WORKSPACE and self.caller.id == self.workspace.id

    def path_param(self, parameter: str, what: str) -> str:
        """What the path names there, to be looked up in the store. Raises NotFound."""
        name = self.path_params[parameter]
        if "\x00" in name:  # PostgreSQL cannot compare it, and nothing is called so
            raise NotFound(what=what)
        return name

    def query_params(self) -> dict[str, str]:
        """The query's fields, of those that the route declares; of one that stands twice, the last. Raises
        InvalidField."""
        if not self.query_string:
            return {}
        try:
            text = self.query_string.decode("ascii")
            found = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_QUERY_FIELDS)
        except (ValueError, UnicodeError):
            raise InvalidField(reason="the query string is not valid; percent-encode it as UTF-8") from None
        return {name: value for name, value in found if name in self.route.query}

    def header(self, name: bytes) -> str | None:
        """A header's value, if it was sent."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def json(self) -> Any:
        """The body as strict JSON. Raises InvalidJson, JsonTooDeep."""
        return strict_json.decode(self.body, max_depth=self.limits.json_depth)

    def parse_body(self, shape: type[T]) -> T:
        """The body in a shape. Raises InvalidJson, JsonTooDeep, InvalidField."""
        if not self.body and self.route.body_optional:
            return shape()
        value = self.json()
        if not isinstance(value, dict):
            raise InvalidJson(reason="it must be an object")
        try:
            return msgspec.convert(value, shape)
        except msgspec.ValidationError as error:
            raise InvalidField(reason=_shorten_middle(str(error))) from None


class DeferredResponse(NamedTuple):
    """An answer that comes with the store's commit: the future, and how its outcome is told.

    For the hot path: it costs a callback instead of a task. `answer` may raise a refusal."""

    future: "asyncio.Future[Any]"
    to_response: "Callable[[asyncio.Future[Any]], Response]"


Handler = Callable[[Request], Response | DeferredResponse | Coroutine[Any, Any, Response]]


class Route(Struct, frozen=True):
    """One row of the table."""

    method: str
    path: str
    handler: Handler
    access: AccessPolicy
    summary: str
    body: type | None = None
    response: Any = None
    status: int = 200
    body_optional: bool = False
    """Whether it may be asked without a body: what it takes is then as it is by itself."""
    allow_removed: bool = False
    """Whether the handler itself deals with removed workspaces."""
    upgrades: bool = False
    """Whether it turns the connection into a WebSocket."""
    rate_class: RateClass = RateClass.REQUEST
    """What it takes from the caller's allowance."""
    catch_all: bool = False
    """Whether the last parameter of its path takes all segments that follow."""
    streams_body: bool = False
    """Whether the handler reads the body itself, as multipart/form-data, while it comes; larger ones are taken then."""
    may_stream_events: bool = False
    """Whether it may answer with server-sent events instead, or, if nothing is to be said, with 202."""
    may_accept: bool = False
    """Whether it may answer with 202 too: what was sent is on its way, and what comes of it is asked for elsewhere."""
    media_type: str = "application/json"
    """What it answers with."""
    gone_response: Any = None
    """What it answers with 404 about what was removed, where that is no refusal."""
    query: QueryParameters = {}
    """What it may be asked in the query; no other field is read."""
    long_poll: bool = False
    """Whether its answer, of a route that acts, may wait for something to come."""
    meter: RouteMeter = field(default_factory=RouteMeter)
    """What it has answered so far."""

    @property
    def is_unsafe(self) -> bool:
        """Whether a cookie alone must not do: it acts, or it opens a channel that another page could read."""
        return self.method != "GET" or self.upgrades


# Where a path's parameters stand in the tree of routes: no segment of a path holds a slash.
_PARAM_KEY, _CATCH_ALL_KEY = "/", "//"


class RouteTable:
    """The table, and the way from a path to its row."""

    def __init__(self, rows: Iterable[Route]) -> None:
        self.routes = list(rows)
        self._tree: dict[str, Any] = {}
        for route in self.routes:
            branch, names = self._tree, []
            segments = _split_segments(route.path)
            for number, segment in enumerate(segments, 1):
                place = segment
                if segment.startswith("{"):
                    names.append(segment[1:-1])
                    place = _CATCH_ALL_KEY if route.catch_all and number == len(segments) else _PARAM_KEY
                branch = branch.setdefault(place, {})
            if route.method in branch.setdefault("", {}):
                raise ValueError(f"{route.method} {route.path} stands twice")
            branch[""][route.method] = (route, tuple(names))

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]]:
        """The route of a request and the values in its path. Raises NoSuchRoute, MethodNotAllowed."""
        branch, values = self._tree, []
        segments = _split_segments(path)
        for place, segment in enumerate(segments):
            following = branch.get(segment) if segment else None
            if following is None and segment and _PARAM_KEY in branch:
                following = branch[_PARAM_KEY]
                values.append(segment)
            if following is None:
                if _CATCH_ALL_KEY not in branch:
                    raise RouteNotFound
                branch = branch[_CATCH_ALL_KEY]
                values.append("/".join(segments[place:]))
                break
            branch = following
        methods = branch.get("")
        if methods is None:
            raise RouteNotFound
        if method not in methods:
            raise MethodNotAllowed(method=method, allowed=", ".join(sorted(methods)))
        route, names = methods[method]
        return route, {names[0]: values[0]} if len(names) == 1 else dict(zip(names, values, strict=True))


def _split_segments(path: str) -> list[str]:
    return path[1:].split("/") if path != "/" else []


def _shorten_middle(text: str) -> str:
    """A long text without its middle: its beginning says what is wrong, its end says where."""
    return text if len(text) <= 2 * _MAX_ECHOED_CHARS else f"{text[:_MAX_ECHOED_CHARS]} … {text[-_MAX_ECHOED_CHARS:]}"


def json_response(value: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(msgspec.json.encode(value), status)
