"""Route table: who may call a route, what it accepts and what it returns.

Dispatch, guards, /openapi.json and the access tests read this table. A route cannot be declared without its access
policy.
"""

import asyncio
import enum
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Struct, field

from molecule_core.access.model import Caller, CredentialKind, Role
from molecule_core.api.http.rate_limits import RateStatus
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import QueryParameters
from molecule_core.api.rate_limits import RateClass
from molecule_core.common.errors import BadHttp, InvalidField, InvalidJson, MethodNotAllowed, NotFound, RouteNotFound
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import RouteMeter
from molecule_core.common.validation import validation_error_text
from molecule_core.org.model import Workspace
from molecule_core.wire.protocols import strict_json

T = TypeVar("T")
_MAX_QUERY_FIELDS = 50
# An error repeats at most this much from each end of a long client value.
_MAX_ECHOED_CHARS = 150

PERSON, WORKSPACE, ADMIN = CredentialKind.PERSON, CredentialKind.WORKSPACE, CredentialKind.ADMIN
RUNNER = CredentialKind.RUNNER
ALL_CREDENTIALS = frozenset((PERSON, WORKSPACE, ADMIN))
PERSON_OR_ADMIN = frozenset((PERSON, ADMIN))


class WorkspaceScope(enum.Enum):
    """Workspaces that a workspace token may access on a path that names one."""

    NONE = "the path names no workspace"
    OWN = "only its own workspace"
    TALK = "its own workspace and those it may talk to"


class AccessPolicy(Struct, frozen=True):
    """Who may call a route: credential kinds, scope of a workspace token, minimum role of a person."""

    kinds: frozenset[CredentialKind]
    scope: WorkspaceScope = WorkspaceScope.NONE
    role: Role = Role.VIEWER


PUBLIC = AccessPolicy(frozenset())
"""No credential needed. Only for health, login, the documents for agents and the files of the canvas."""


class Request(Struct):
    """Request with its parsed path, caller and workspace."""

    route: "Route"
    path_params: dict[str, str]
    headers: dict[bytes, bytes]
    query_string: bytes
    limits: Limits
    maybe_caller: Caller | None = None
    maybe_workspace: Workspace | None = None
    body: bytes = b""
    client_address: str = ""
    credential_key: str = ""
    rate_status: RateStatus | None = None
    """Rate limit status of the caller."""
    body_stream: AsyncIterator[bytes] | None = None
    """Body of a route with `streams_body`."""
    credential_changes: int = 0
    """The credential cache's `invalidation_count` at authorization."""
    resource: str = ""
    """Address of the protected resource that is requested, also by what it makes the server request of itself; empty:
    none."""
    is_internal: bool = False
    """Whether another request makes it inside the server."""
    has_consumed_result: bool = False
    """Whether the handler has consumed a result that exists nowhere else. Access was revalidated before that."""

    @property
    def caller(self) -> Caller:
        """Return the authenticated caller."""
        if self.maybe_caller is None:
            raise LookupError("the caller is not authenticated")
        return self.maybe_caller

    @property
    def workspace(self) -> Workspace:
        """Return the workspace named in the path."""
        if self.maybe_workspace is None:
            raise LookupError("this route names no workspace")
        return self.maybe_workspace

    @property
    def is_own_workspace(self) -> bool:
        """Return whether the caller is the workspace named in the path."""
        return self.caller.kind is CredentialKind.WORKSPACE and self.caller.id == self.workspace.id

    def path_param(self, parameter: str, what: str) -> str:
        """Return a path parameter for a lookup in the store. Raises NotFound."""
        name = self.path_params[parameter]
        if "\x00" in name:  # PostgreSQL cannot compare it, and no id contains it
            raise NotFound(what=what)
        return name

    def query_params(self) -> dict[str, str]:
        """Return the declared query parameters; the last of repeated ones wins. Raises InvalidField."""
        if not self.query_string:
            return {}
        try:
            text = self.query_string.decode("ascii")
            found = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_QUERY_FIELDS)
        except (ValueError, UnicodeError):
            raise InvalidField(reason="the query string is not valid. Encode it as UTF-8 with percent signs.") from None
        return {name: value for name, value in found if name in self.route.query}

    def header(self, name: bytes) -> str | None:
        """Return the value of a header, if present."""
        value = self.headers.get(name)
        return None if value is None else value.decode("latin-1")

    def json(self) -> Any:
        """Decode the body as strict JSON. Raises InvalidJson, JsonTooDeep."""
        return strict_json.decode(self.body, max_depth=self.limits.json_depth)

    def parse_body(self, shape: type[T]) -> T:
        """Decode the body into `shape`. Raises InvalidJson, JsonTooDeep, InvalidField."""
        if not self.body and self.route.body_optional:
            return shape()
        value = self.json()
        if not isinstance(value, dict):
            raise InvalidJson(reason="it is not an object")
        try:
            return msgspec.convert(value, shape)
        except msgspec.ValidationError as error:
            raise InvalidField(reason=_shorten_middle(validation_error_text(error, value=value, shape=shape))) from None


class DeferredResponse(NamedTuple):
    """Response that is built when a store commit resolves its future.

    For the hot path: a callback instead of a task. `to_response` may raise MoleculeError."""

    future: "asyncio.Future[Any]"
    to_response: "Callable[[asyncio.Future[Any]], Response]"


Handler = Callable[[Request], Response | DeferredResponse | Coroutine[Any, Any, Response]]


class Route(Struct, frozen=True):
    """Row of the route table."""

    method: str
    path: str
    handler: Handler
    access: AccessPolicy
    summary: str
    body: type | None = None
    response: Any = None
    status: int = 200
    body_optional: bool = False
    """Whether the body may be missing; its defaults apply then."""
    allow_removed: bool = False
    """Whether the handler itself handles removed workspaces."""
    keeps_history: bool = False
    """Whether people and the admin may read it for a removed workspace too."""
    upgrades: bool = False
    """Whether it upgrades the connection to a WebSocket."""
    rate_class: RateClass = RateClass.REQUEST
    """Rate limit that a call is charged to."""
    any_host: bool = False
    """Whether it responds under any host name: probes ask by address."""
    catch_all: bool = False
    """Whether the last path parameter matches all remaining segments."""
    streams_body: bool = False
    """Whether the handler reads the body itself, as multipart/form-data; `upload_bytes` is the limit then."""
    form_fields: tuple[str, ...] = ()
    """Fields of a form that it reads as its body (application/x-www-form-urlencoded)."""
    may_stream_events: bool = False
    """Whether it may respond with server-sent events, or with 202 if there is nothing to answer."""
    may_accept: bool = False
    """Whether it may respond with 202: the request was accepted and its result must be fetched elsewhere."""
    media_type: str = "application/json"
    """Content type of its responses."""
    gone_response: Any = None
    """Body of its 404 for removed objects, if that is not an error."""
    query: QueryParameters = {}
    """Query parameters that it reads; others are ignored."""
    is_oauth_resource: bool = False
    """Whether it is a resource that tokens of OAuth clients are made for. All other routes do not accept them."""
    long_poll: bool = False
    """Whether a call that changes something may also wait for a result."""
    meter: RouteMeter = field(default_factory=RouteMeter)
    """Counts its responses."""

    @property
    def is_unsafe(self) -> bool:
        """Return whether a cookie alone is not enough: it writes, or opens a channel that other pages could read."""
        return self.method != "GET" or self.upgrades


# Keys of path parameters in the route tree; a path segment never contains a slash.
_PARAM_KEY, _CATCH_ALL_KEY = "/", "//"


# Clients add a slash to the address of an MCP server that a person has given them, or of an A2A interface.
_ENDS_OF_CLIENTS = ("/mcp/", "/a2a/")


class RouteTable:
    """Routes, and a tree to find one by its path. `not_found_page` answers browsers that ask for a path of no route."""

    def __init__(self, rows: Iterable[Route], not_found_page: Route | None = None) -> None:
        self.routes = list(rows)
        self.not_found_page = not_found_page
        self._tree: dict[str, Any] = {}
        for route in self.routes:
            branch, names = self._tree, []
            segments = route.path[1:].split("/") if route.path != "/" else []
            for number, segment in enumerate(segments, 1):
                key = segment
                if segment.startswith("{"):
                    names.append(segment[1:-1])
                    key = _CATCH_ALL_KEY if route.catch_all and number == len(segments) else _PARAM_KEY
                branch = branch.setdefault(key, {})
            if route.method in branch.setdefault("", {}):
                raise ValueError(f"two routes are declared for {route.method} {route.path}")
            branch[""][route.method] = (route, tuple(names))

    def find(self, method: str, path: bytes) -> tuple[Route, dict[str, str]]:
        """Return the route of a request and its path parameters. `path`: as in the request target, percent-encoded.

        Raises BadHttp, RouteNotFound, MethodNotAllowed."""
        try:
            text = path.decode("ascii")
            text = unquote(text, errors="strict") if "%" in text else text
        except UnicodeDecodeError:
            raise BadHttp from None
        branch, values = self._tree, []
        text = text.removesuffix("/") if text.endswith(_ENDS_OF_CLIENTS) else text
        segments = text[1:].split("/") if text != "/" else []
        for position, segment in enumerate(segments):
            next_branch = branch.get(segment) if segment else None
            if next_branch is None and segment and _PARAM_KEY in branch:
                next_branch = branch[_PARAM_KEY]
                values.append(segment)
            if next_branch is None:
                if _CATCH_ALL_KEY not in branch:
                    raise RouteNotFound
                branch = branch[_CATCH_ALL_KEY]
                values.append("/".join(segments[position:]))
                break
            branch = next_branch
        methods = branch.get("")
        if methods is None:
            raise RouteNotFound
        if method == "HEAD" and "GET" in methods and _is_public_page(methods["GET"][0]):
            method = "GET"  # the connection sends the head of its response only
        if method not in methods:
            raise MethodNotAllowed(method=method, allowed=", ".join(sorted(methods)))
        route, names = methods[method]
        return route, {names[0]: values[0]} if len(names) == 1 else dict(zip(names, values, strict=True))


def _is_public_page(route: Route) -> bool:
    """Return whether a route only returns what everyone may read, so that HEAD can run its handler."""
    return route.access is PUBLIC and not route.upgrades


def _shorten_middle(text: str) -> str:
    """Cut the middle of a long text: the start says what is wrong, the end where."""
    return text if len(text) <= 2 * _MAX_ECHOED_CHARS else f"{text[:_MAX_ECHOED_CHARS]} … {text[-_MAX_ECHOED_CHARS:]}"


def json_response(value: Any, status: int = 200) -> Response:
    """Return a JSON response."""
    return Response(msgspec.json.encode(value), status)
