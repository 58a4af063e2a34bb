"""Dispatches requests: guards in order, one handler, one response.

Called by `api/http/connection.py` (our server, the fast path) and `api/asgi/` (any ASGI server), through
`api/http/application_protocol.py`; calls the handlers of the routes.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

from molecule_core.access.model import Caller, CredentialKind
from molecule_core.api.auth import ANONYMOUS, Authenticator
from molecule_core.api.delegations.scope_gate import DELEGATION_HEADER
from molecule_core.api.errors import error_mapping, problem_body, problem_headers
from molecule_core.api.http.rate_limits import ClientAddress, RateStatus
from molecule_core.api.http.request_target import split_absolute_form
from molecule_core.api.http.response import Response
from molecule_core.api.rate_limits import RateClass, RateLimiter
from molecule_core.api.routing import DeferredResponse, Request, Route, RouteTable
from molecule_core.api.session_cookies import ORG_PARAM, with_org_of_query
from molecule_core.common import crash_points
from molecule_core.common.clock import Clock
from molecule_core.common.errors import (
    BadHttp,
    BodyTooLarge,
    InternalError,
    InvalidCredential,
    MissingCredential,
    MoleculeError,
    NotFound,
    RateLimited,
    RouteNotFound,
)
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import RefusalMeter, RouteMeter

_log = logging.getLogger("molecule.http")
_access = logging.getLogger("molecule.access")
_FIRST_ERROR_STATUS = 400
# Headers that decide something must not be repeated: two parsers could pick different values.
_UNAUTHENTICATED_ERRORS = (MissingCredential, InvalidCredential)
_SINGLE_HEADERS = (
    *(b"host", b"authorization", b"x-workspace-id", b"origin", b"cookie"),
    *(b"mcp-session-id", b"mcp-protocol-version", b"mcp-method", b"mcp-name"),
)


class InternalRequest(NamedTuple):
    """Request made inside the server. `path` has the form of a request target without its query."""

    method: str
    path: str
    query: bytes
    body: bytes
    headers: dict[bytes, bytes]


_PASSED_HEADERS = (b"authorization", DELEGATION_HEADER)
"""Headers that count for the requests that a request makes too: who calls, and for which delegation."""
InternalCall = Callable[[Request, InternalRequest], Awaitable[Response]]
"""How routes call others: the request that is answered, and the one to make."""


async def _single_piece(body: bytes) -> AsyncIterator[bytes]:
    yield body


class Application:
    """Dispatcher of requests to the handlers in the route table."""

    def __init__(
        self,
        routes: RouteTable,
        authenticator: Authenticator,
        rate_limiter: RateLimiter,
        unrouted_meter: RouteMeter,
        *,
        ids: IdGenerator,
        clock: Clock,
        limits: Limits,
        access_log: bool,
    ) -> None:
        self._routes = routes
        self.rate_limiter = rate_limiter
        self._authenticator = authenticator
        self._ids = ids
        self._clock = clock
        self._limits = limits
        self._access_log = access_log
        self.unrouted_meter = unrouted_meter
        """Counts responses that were sent before the route was known."""
        self.refusal_meter = RefusalMeter()

    def client_address(self, peer: Any) -> ClientAddress:
        """Return the address of a peer, with its rate status."""
        return ClientAddress(peer, self.rate_limiter.anonymous_status)

    def authorize(
        self, method: bytes, url: bytes, header_list: list[tuple[bytes, bytes]], client: ClientAddress
    ) -> Request:
        """Check a request before its body is read: host, route, size, credential, rate, scope.

        A credential that is not cached is looked up in `dispatch`. Raises MoleculeError."""
        client.rate_status = None
        headers = dict(header_list)
        if len(headers) != len(header_list):
            _check_duplicate_headers(header_list)
        client.address = client.peer_key
        if b"x-forwarded-for" in headers:
            self._set_client(client, header_list)
        route, params, query = self._find_route(method, url, headers, client)
        if ORG_PARAM in query:
            with_org_of_query(headers, query)
        length, limit = headers.get(b"content-length"), self._limits.body_bytes
        if length is not None and int(length) > limit:
            limit = self._limits.upload_bytes if route.streams_body else limit
            if int(length) > limit:
                raise BodyTooLarge(limit=limit)
        resource = self._authenticator.resource_of(route, params) if route.is_oauth_resource else ""
        request = Request(route, params, headers, query, self._limits, client_address=client.address, resource=resource)
        try:
            caller = self._authenticator.cached_caller(headers, route, request.resource)
        except _UNAUTHENTICATED_ERRORS as error:
            self._authenticator.add_challenge(error, route, params)
            client.rate_status = self.rate_limiter.charge_anonymous(client.address)
            raise
        if caller is None:
            request.credential_key = self._authenticator.credential_key(headers)
            if request.credential_key:
                self.rate_limiter.check_unknown_credential(request.credential_key)
            else:
                self.rate_limiter.check_anonymous(client.address)
        else:
            client.rate_status = request.rate_status = self._charge_rate(request, caller)
            try:
                self._authenticator.bind_caller(request, caller)
            except NotFound:
                # Another process may just have created the target: `dispatch` catches up and checks again.
                if self._authenticator.catch_up is None:
                    raise
        return request

    def _set_client(self, client: ClientAddress, header_list: list[tuple[bytes, bytes]]) -> None:
        """Set the rate limit key of a request whose proxy names its client."""
        forwarded = b",".join(value for name, value in header_list if name == b"x-forwarded-for").decode("latin-1")
        client.address = self.rate_limiter.client_key(client.peer, forwarded)

    def _find_route(
        self, method: bytes, url: bytes, headers: dict[bytes, bytes], client: ClientAddress
    ) -> tuple[Route, dict[str, str], bytes]:
        """Return route, path parameters and query of a request target. A request without a route is charged too."""
        host = headers.get(b"host", b"")
        target = url if url.startswith(b"/") else self._to_origin_form(url)
        path, _, query = target.partition(b"?")
        try:
            route, params = self._routes.find(method.decode("ascii"), path)
        except MoleculeError as error:
            self._authenticator.check_host(host)
            page = self._routes.not_found_page
            is_browser = method == b"GET" and b"text/html" in headers.get(b"accept", b"")
            if isinstance(error, RouteNotFound) and is_browser and page is not None:
                return page, {}, b""
            client.rate_status = self.rate_limiter.charge_anonymous(client.address)
            raise
        if not route.any_host or not host:
            self._authenticator.check_host(host)
        return route, params, query.partition(b"#")[0]

    def _charge_rate(self, request: Request, caller: Caller) -> RateStatus | None:
        """Charge a request to the rate limits of its caller. Raises RateLimited."""
        if caller is ANONYMOUS:
            rate_class = request.route.rate_class
            if rate_class is RateClass.FREE:
                return None
            if rate_class is RateClass.NOTIFICATION:
                return self.rate_limiter.charge_request(f"notifications {request.client_address}")
            return (
                self.rate_limiter.charge_login(request.client_address)
                if rate_class is RateClass.LOGIN
                else self.rate_limiter.charge_anonymous(request.client_address)
            )
        rate_status = self.rate_limiter.charge_request(caller.id)
        if request.route.rate_class is RateClass.SEND and caller.kind is CredentialKind.WORKSPACE:
            rate_status = self.rate_limiter.charge_sends(caller.id, caller.org_id)
        return rate_status

    def is_websocket_route(self, method: bytes, url: bytes) -> bool:
        """Return whether a request matches a route that upgrades to a WebSocket."""
        try:
            return self._routes.find(method.decode("ascii"), url.partition(b"?")[0])[0].upgrades
        except MoleculeError:
            return False

    def _to_origin_form(self, url: bytes) -> bytes:
        """Convert an absolute-form target to origin form. Its host must be one of ours."""
        host, target = split_absolute_form(url)
        self._authenticator.check_host(host)
        return target

    def dispatch(self, request: Request, on_response: Callable[[Response], None]) -> "asyncio.Task[None] | None":
        """Respond to an authorized request, now or later, by calling `on_response` once.

        Returns the task that runs the handler, if there is one."""
        if request.maybe_caller is None:
            return asyncio.get_running_loop().create_task(self._authenticate_and_respond(request, on_response))
        try:
            result = self._authenticator.approval_gate.call_handler(request)
        except Exception as error:
            on_response(self._error_response(error, request))
            return None
        if isinstance(result, Response):
            on_response(result)
        elif isinstance(result, DeferredResponse):
            result.future.add_done_callback(lambda future: on_response(self._finish_deferred(result, future, request)))
        else:
            task = asyncio.get_running_loop().create_task(self._run_handler(result, request, on_response))
            # A task that is cancelled before its first step never starts the coroutine.
            task.add_done_callback(lambda _task: result.close())
            return task
        return None

    async def call_internally(self, outer_request: Request, internal_request: InternalRequest) -> Response:
        """Respond to a request that another request makes in the name of its caller.

        Routes, guards, rate limits and metrics are the same; only the socket is skipped."""
        began = self._clock.monotonic()
        try:
            route, params = self._routes.find(internal_request.method, internal_request.path.encode())
        except MoleculeError as error:
            return error_response(error)
        passed = {name: value for name, value in outer_request.headers.items() if name in _PASSED_HEADERS}
        request = Request(
            route,
            params,
            passed | internal_request.headers,
            internal_request.query,
            self._limits,
            client_address=outer_request.client_address,
            resource=outer_request.resource,
            is_internal=True,
        )
        if route.streams_body:
            request.body_stream = _single_piece(internal_request.body)
        else:
            request.body = internal_request.body
        response = await self._run_authenticated(request)
        self.record_response(request, response.status, self._clock.monotonic() - began)
        return response

    async def _authenticate_and_respond(self, request: Request, on_response: Callable[[Response], None]) -> None:
        on_response(await self._run_authenticated(request))

    async def _run_authenticated(self, request: Request) -> Response:
        """Return the response to a request whose caller is not known yet."""
        try:
            caller = await self._load_caller(request)
            request.rate_status = request.rate_status or self._charge_rate(request, caller)
            await self._authenticator.authorize(request, caller)
            result = self._authenticator.approval_gate.call_handler(request)
            if isinstance(result, DeferredResponse):
                await asyncio.wait((result.future,))
                return self._finish_deferred(result, result.future, request)
            if isinstance(result, Response):
                return result
            response = await result
            await self._revalidate(request)
            return response
        except Exception as error:
            return self._error_response(error, request)

    async def _load_caller(self, request: Request) -> Caller:
        try:
            return await self._authenticator.load_caller(request.headers, request.route, request.resource)
        except _UNAUTHENTICATED_ERRORS as error:
            self._authenticator.add_challenge(error, request.route, request.path_params)
            if request.credential_key:
                request.rate_status = self.rate_limiter.charge_unknown_credential(request.credential_key)
            else:
                request.rate_status = self.rate_limiter.charge_anonymous(request.client_address)
            raise

    async def _run_handler(
        self,
        handler_coroutine: Coroutine[Any, Any, Response],
        request: Request,
        on_response: Callable[[Response], None],
    ) -> None:
        try:
            response = await handler_coroutine
            await self._revalidate(request)
        except Exception as error:
            response = self._error_response(error, request)
        on_response(response)

    async def _revalidate(self, request: Request) -> None:
        """Check the caller again if the response holds data that was read or awaited meanwhile.

        A consumed result (`has_consumed_result`) exists nowhere else. It was revalidated before it was consumed, and is
        delivered even if access has ended since."""
        if request.route.method == "GET" or (request.route.long_poll and not request.has_consumed_result):
            await self._authenticator.revalidate(request)

    def _finish_deferred(self, deferred: DeferredResponse, future: "asyncio.Future[Any]", request: Request) -> Response:
        try:
            return deferred.to_response(future)
        except Exception as error:
            return self._error_response(error, request)

    def record_response(self, request: Request | None, status: int, seconds: float) -> None:
        """Count a response and write the access log. The target is never logged: it may hold anything."""
        crash_points.mark_reached("request.answered")
        meter = self.unrouted_meter if request is None else request.route.meter
        meter.record_response(status, seconds)
        if status >= _FIRST_ERROR_STATUS:
            is_login = request is not None and request.route.rate_class is RateClass.LOGIN
            self.refusal_meter.record_error(status, is_login=is_login)
        if self._access_log:
            route_name = (
                "a request without a route" if request is None else f"{request.route.method} {request.route.path}"
            )
            extra = {
                "status": status,
                "milliseconds": round(seconds * 1000),
                **({} if request is None else _log_fields(request)),
            }
            _access.info("%s: %d", route_name, status, extra=extra)

    def error_response(self, error: MoleculeError, rate_status: RateStatus | None = None) -> Response:
        """Return the response to an error, with the caller's rate status if it is known."""
        return error_response(error, rate_status)

    def _error_response(self, error: Exception, request: Request) -> Response:
        """Return the response to an error. An internal error is logged with a reference; only the reference is sent."""
        if isinstance(error, MoleculeError):
            return error_response(error)
        reference = self._ids.new()
        _log.error(
            "a request failed, reference %s",
            reference,
            exc_info=error,
            extra={"reference": reference, **_log_fields(request)},
        )
        return error_response(InternalError(reference=reference))


def _log_fields(request: Request) -> dict[str, str]:
    """Return the log fields of a request."""
    fields = {"route": f"{request.route.method} {request.route.path}", "client": request.client_address}
    if request.maybe_caller is not None:
        fields |= {"caller": request.maybe_caller.kind.value, "org": request.maybe_caller.org_id}
    if request.maybe_workspace is not None:
        fields |= {"workspace": request.maybe_workspace.id, "org": request.maybe_workspace.org_id}
    return fields


def error_response(error: MoleculeError, rate_status: RateStatus | None = None) -> Response:
    """Return the response to an error, with the caller's rate status if it is known."""
    response = Response(problem_body(error), error_mapping(error).status, tuple(problem_headers(error)))
    response.rate_status = error.details["rate_status"] if isinstance(error, RateLimited) else rate_status
    return response


def _check_duplicate_headers(headers: list[tuple[bytes, bytes]]) -> None:
    names = [name for name, _ in headers]
    if any(names.count(name) > 1 for name in _SINGLE_HEADERS):
        raise BadHttp
