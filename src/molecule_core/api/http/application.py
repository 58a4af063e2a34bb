"""The application: guards in their order, then one handler, then one answer.

Above: `api/http/connection.py`. Below: the routes.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple
from urllib.parse import unquote

import httptools

from molecule_core.access.model import Caller, CredentialKind
from molecule_core.api.http.auth import ANONYMOUS, Authenticator
from molecule_core.api.http.errors import error_mapping, problem_body, problem_headers
from molecule_core.api.http.rate_limits import ClientAddress, RateClass, RateLimiter, RateStatus
from molecule_core.api.http.routing import DeferredResponse, Request, Response, RouteTable
from molecule_core.common import crash_points
from molecule_core.common.clock import Clock
from molecule_core.common.errors import (
    BadHttp,
    BodyTooLarge,
    InternalError,
    InvalidCredential,
    MissingCredential,
    MoleculeError,
    RateLimited,
)
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import RouteMeter

_log = logging.getLogger("molecule.http")
_access = logging.getLogger("molecule.access")
# No header that decides something may stand twice: two readers could take different ones.
_UNAUTHENTICATED_ERRORS = (MissingCredential, InvalidCredential)
_SINGLE_HEADERS = (
    *(b"host", b"authorization", b"x-workspace-id", b"origin", b"cookie"),
    *(b"mcp-session-id", b"mcp-protocol-version", b"mcp-method", b"mcp-name"),
)


class InternalRequest(NamedTuple):
    """A request that is made inside the server. `path` is as in a request's target, without the query."""

    method: str
    path: str
    query: bytes
    body: bytes
    headers: dict[bytes, bytes]


class Application:
    """Answers requests from the table of routes."""

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
        """Counts what is answered before its route is known."""

    def authorize(
        self, method: bytes, url: bytes, header_list: list[tuple[bytes, bytes]], client: ClientAddress
    ) -> Request:
        """Guards a request before its body is read: host, route, size, credential, rate, reach. Raises a refusal.

        A credential that is not known yet is looked up in `respond`."""
        client.rate_status = None
        headers = dict(header_list)
        if len(headers) != len(header_list):
            _check_duplicate_headers(header_list)
        self._authenticator.check_host(headers.get(b"host", b""))
        if not url.startswith(b"/"):
            url = self._to_origin_form(url)
        path, query = _split_target(url)
        route, params = self._routes.find(method.decode("ascii"), path)
        length, limit = headers.get(b"content-length"), self._limits.body_bytes
        if length is not None and int(length) > limit:
            limit = self._limits.upload_bytes if route.streams_body else limit
            if int(length) > limit:
                raise BodyTooLarge(limit=limit)
        request = Request(route, params, headers, query, self._limits, client_address=client.address)
        try:
            caller = self._authenticator.cached_caller(headers, route)
        except _UNAUTHENTICATED_ERRORS:
            client.rate_status = self.rate_limiter.charge_anonymous(client.address)
            raise
        if caller is None:
            self.rate_limiter.check_anonymous(client.address)
        else:
            client.rate_status = request.rate_status = self._charge_rate(request, caller)
            self._authenticator.try_authorize(request, caller)
        return request

    def _charge_rate(self, request: Request, caller: Caller) -> RateStatus:
        """Takes a request from its sender's allowance. Raises RateLimited."""
        if caller is ANONYMOUS:
            logs_in = request.route.rate_class is RateClass.LOGIN
            return (
                self.rate_limiter.charge_login(request.client_address)
                if logs_in
                else self.rate_limiter.charge_anonymous(request.client_address)
            )
        rate_status = self.rate_limiter.charge_request(caller.id)
        if request.route.rate_class is RateClass.SEND and caller.kind is CredentialKind.WORKSPACE:
            rate_status = self.rate_limiter.charge_sends(caller.id, caller.org_id)
        return rate_status

    def is_websocket_route(self, method: bytes, url: bytes) -> bool:
        """Whether a request leads to a route that turns its connection into a WebSocket."""
        try:
            return self._routes.find(method.decode("ascii"), _split_target(url)[0])[0].upgrades
        except MoleculeError:
            return False

    def _to_origin_form(self, url: bytes) -> bytes:
        """A target that names the host too, as a client of a proxy sends it, without that host, which must be ours."""
        try:
            parsed = httptools.parse_url(url)
        except httptools.HttpParserInvalidURLError:
            raise BadHttp from None
        if parsed.host is None:
            raise BadHttp
        self._authenticator.check_host(parsed.host)
        return (parsed.path or b"/") + (b"?" + parsed.query if parsed.query else b"")

    def dispatch(self, request: Request, on_response: Callable[[Response], None]) -> "asyncio.Task[None] | None":
        """Answers an admitted request, now or later: calls `done` once. Returns the task that works on it, if any."""
        if request.maybe_caller is None:
            return asyncio.get_running_loop().create_task(self._authenticate_and_respond(request, on_response))
        try:
            result = self._call_handler(request)
        except Exception as error:
            on_response(self._error_response(error, request))
            return None
        if isinstance(result, Response):
            on_response(result)
        elif isinstance(result, DeferredResponse):
            result.future.add_done_callback(lambda future: on_response(self._finish_deferred(result, future, request)))
        else:
            task = asyncio.get_running_loop().create_task(self._run_handler(result, request, on_response))
            task.add_done_callback(lambda _task: result.close())  # whoever is cut before it begins leaves it unbegun
            return task
        return None

    async def call_internally(self, outer_request: Request, internal_request: InternalRequest) -> Response:
        """Answers a request that another one makes in the name of its caller: the same table and the same guards, taken
        from the same allowance, counted in the same figures. Only the way over a socket is missing."""
        began = self._clock.monotonic()
        try:
            route, params = self._routes.find(internal_request.method, unquote(internal_request.path, errors="strict"))
        except MoleculeError as error:
            return error_response(error)
        credential = {name: value for name, value in outer_request.headers.items() if name == b"authorization"}
        request = Request(
            route,
            params,
            credential | internal_request.headers,
            internal_request.query,
            self._limits,
            client_address=outer_request.client_address,
        )
        request.body = internal_request.body
        response = await self._run_authenticated(request)
        self.record_response(request, response.status, self._clock.monotonic() - began)
        return response

    async def _authenticate_and_respond(self, request: Request, on_response: Callable[[Response], None]) -> None:
        on_response(await self._run_authenticated(request))

    async def _run_authenticated(self, request: Request) -> Response:
        """The answer to somebody who is yet to be known."""
        try:
            caller = await self._load_caller(request)
            request.rate_status = request.rate_status or self._charge_rate(request, caller)
            await self._authenticator.authorize(request, caller)
            result = self._call_handler(request)
            if isinstance(result, DeferredResponse):
                await asyncio.wait((result.future,))
                return self._finish_deferred(result, result.future, request)
            return result if isinstance(result, Response) else await self._finish(request, result)
        except Exception as error:
            return self._error_response(error, request)

    def _call_handler(self, request: Request) -> Response | DeferredResponse | Coroutine[Any, Any, Response]:
        """What the handler makes of a call; of one that may need leave, once that is sure to be given."""
        crash_points.mark_reached("request.admitted")
        return (
            self._call_gated(request)
            if self._authenticator.approval_gate.applies_to(request)
            else request.route.handler(request)
        )

    async def _call_gated(self, request: Request) -> Response:
        await self._authenticator.approval_gate.check(request)
        result = request.route.handler(request)
        if isinstance(result, DeferredResponse):
            await asyncio.wait((result.future,))
            return result.to_response(result.future)
        return result if isinstance(result, Response) else await result

    async def _load_caller(self, request: Request) -> Caller:
        try:
            return await self._authenticator.load_caller(request.headers, request.route)
        except _UNAUTHENTICATED_ERRORS:
            request.rate_status = self.rate_limiter.charge_anonymous(request.client_address)
            raise

    async def _run_handler(
        self,
        handler_coroutine: Coroutine[Any, Any, Response],
        request: Request,
        on_response: Callable[[Response], None],
    ) -> None:
        try:
            response = await self._finish(request, handler_coroutine)
        except Exception as error:
            response = self._error_response(error, request)
        on_response(response)

    async def _finish(self, request: Request, handler_coroutine: Coroutine[Any, Any, Response]) -> Response:
        """The answer; what was read, or has come while the request was held, is only for who may still have it. What
        was taken is nowhere else: who took it was looked at before, and gets it whatever has happened since."""
        response = await handler_coroutine
        if request.route.method == "GET" or (request.route.long_poll and not request.has_consumed_result):
            await self._authenticator.revalidate(request)
        return response

    def _finish_deferred(self, deferred: DeferredResponse, future: "asyncio.Future[Any]", request: Request) -> Response:
        try:
            return deferred.to_response(future)
        except Exception as error:
            return self._error_response(error, request)

    def record_response(self, request: Request | None, status: int, seconds: float) -> None:
        """Counts an answer, and logs it if that is wanted: never the target itself, which may hold anything."""
        crash_points.mark_reached("request.answered")
        meter = self.unrouted_meter if request is None else request.route.meter
        meter.record_response(status, seconds)
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

    def _error_response(self, error: Exception, request: Request) -> Response:
        """A refusal as an answer; a mistake of ours is logged under a reference, and only that leaves."""
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
    """What a log says of a request."""
    fields = {"route": f"{request.route.method} {request.route.path}"}
    if request.maybe_caller is not None:
        fields |= {"caller": request.maybe_caller.kind.value, "org": request.maybe_caller.org_id}
    if request.maybe_workspace is not None:
        fields |= {"workspace": request.maybe_workspace.id, "org": request.maybe_workspace.org_id}
    return fields


def error_response(error: MoleculeError, rate_status: RateStatus | None = None) -> Response:
    """A refusal as an answer, and how its caller stands, if that is known."""
    response = Response(problem_body(error), error_mapping(error).status, tuple(problem_headers(error)))
    response.rate_status = error.details["rate_status"] if isinstance(error, RateLimited) else rate_status
    return response


def _split_target(url: bytes) -> tuple[str, bytes]:
    """(path, query string) of a request's target. Raises BadHttp."""
    path, _, query = url.partition(b"?")
    query = query.partition(b"#")[0]
    try:
        text = path.decode("ascii")
        return (unquote(text, errors="strict") if "%" in text else text), query
    except UnicodeDecodeError:
        raise BadHttp from None


def _check_duplicate_headers(headers: list[tuple[bytes, bytes]]) -> None:
    names = [name for name, _ in headers]
    if any(names.count(name) > 1 for name in _SINGLE_HEADERS):
        raise BadHttp
