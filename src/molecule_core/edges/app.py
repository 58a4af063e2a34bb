"""The application: guards in their order, then one handler, then one answer.

Above: `edges/protocol.py`. Below: the routes.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple
from urllib.parse import unquote

import httptools

from molecule_core.access.model import Caller, Kind
from molecule_core.edges.auth import NOBODY, Guards
from molecule_core.edges.problems import problem_body, problem_headers, problem_of
from molecule_core.edges.rates import Counts, Rates, Standing, Visitor
from molecule_core.edges.routes import Answer, Call, Later, Routes
from molecule_core.ground import points
from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import (
    BadHttp,
    BodyTooLarge,
    InvalidCredential,
    MissingCredential,
    MoleculeError,
    RateLimited,
    Unexpected,
)
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import RouteMeter

_log = logging.getLogger("molecule.http")
_access = logging.getLogger("molecule.access")
# No header that decides something may stand twice: two readers could take different ones.
_UNPROVED = (MissingCredential, InvalidCredential)
_ONCE = (
    *(b"host", b"authorization", b"x-workspace-id", b"origin", b"cookie"),
    *(b"mcp-session-id", b"mcp-protocol-version", b"mcp-method", b"mcp-name"),
)


class Wish(NamedTuple):
    """A request that is made inside the server. `path` is as in a request's target, without the query."""

    method: str
    path: str
    query: bytes
    body: bytes
    headers: dict[bytes, bytes]


class App:
    """Answers requests from the table of routes."""

    def __init__(
        self,
        routes: Routes,
        guards: Guards,
        rates: Rates,
        refused: RouteMeter,
        *,
        ids: Ids,
        clock: Clock,
        limits: Limits,
        access_log: bool,
    ) -> None:
        self._routes = routes
        self.rates = rates
        self._guards = guards
        self._ids = ids
        self._clock = clock
        self._limits = limits
        self._access_log = access_log
        self.refused = refused
        """Counts what is answered before its route is known."""

    def admit(self, method: bytes, url: bytes, header_list: list[tuple[bytes, bytes]], visitor: Visitor) -> Call:
        """Guards a request before its body is read: host, route, size, credential, rate, reach. Raises a refusal.

        A credential that is not known yet is looked up in `respond`."""
        visitor.standing = None
        headers = dict(header_list)
        if len(headers) != len(header_list):
            _check_doubles(header_list)
        self._guards.check_host(headers.get(b"host", b""))
        if not url.startswith(b"/"):
            url = self._origin_form(url)
        path, query = _split(url)
        route, params = self._routes.find(method.decode("ascii"), path)
        length, limit = headers.get(b"content-length"), self._limits.body_bytes
        if length is not None and int(length) > limit:
            limit = self._limits.upload_bytes if route.streams else limit
            if int(length) > limit:
                raise BodyTooLarge(limit=limit)
        call = Call(route, params, headers, query, self._limits, address=visitor.address)
        try:
            caller = self._guards.known(headers, route)
        except _UNPROVED:
            visitor.standing = self.rates.stranger(visitor.address)
            raise
        if caller is None:
            self.rates.check_stranger(visitor.address)
        else:
            visitor.standing = call.standing = self._counted(call, caller)
            self._guards.let_in(call, caller)
        return call

    def _counted(self, call: Call, caller: Caller) -> Standing:
        """Takes a request from its sender's allowance. Raises RateLimited."""
        if caller is NOBODY:
            logs_in = call.route.counts is Counts.LOGIN
            return self.rates.login(call.address) if logs_in else self.rates.stranger(call.address)
        standing = self.rates.request(caller.id)
        if call.route.counts is Counts.SEND and caller.kind is Kind.WORKSPACE:
            standing = self.rates.sends(caller.id, caller.org_id)
        return standing

    def upgrades(self, method: bytes, url: bytes) -> bool:
        """Whether a request leads to a route that turns its connection into a WebSocket."""
        try:
            return self._routes.find(method.decode("ascii"), _split(url)[0])[0].upgrades
        except MoleculeError:
            return False

    def _origin_form(self, url: bytes) -> bytes:
        """A target that names the host too, as a client of a proxy sends it, without that host, which must be ours."""
        try:
            parsed = httptools.parse_url(url)
        except httptools.HttpParserInvalidURLError:
            raise BadHttp from None
        if parsed.host is None:
            raise BadHttp
        self._guards.check_host(parsed.host)
        return (parsed.path or b"/") + (b"?" + parsed.query if parsed.query else b"")

    def respond(self, call: Call, done: Callable[[Answer], None]) -> "asyncio.Task[None] | None":
        """Answers an admitted request, now or later: calls `done` once. Returns the task that works on it, if any."""
        if call.caller is None:
            return asyncio.get_running_loop().create_task(self._identify_and_answer(call, done))
        try:
            result = self._handled(call)
        except Exception as error:
            done(self._refused(error, call))
            return None
        if isinstance(result, Answer):
            done(result)
        elif isinstance(result, Later):
            result.future.add_done_callback(lambda future: done(self._settled(result, future, call)))
        else:
            task = asyncio.get_running_loop().create_task(self._answer(result, call, done))
            task.add_done_callback(lambda _task: result.close())  # whoever is cut before it begins leaves it unbegun
            return task
        return None

    async def ask(self, outer: Call, wish: Wish) -> Answer:
        """Answers a request that another one makes in the name of its caller: the same table and the same guards, taken
        from the same allowance, counted in the same figures. Only the way over a socket is missing."""
        began = self._clock.monotonic()
        try:
            route, params = self._routes.find(wish.method, unquote(wish.path, errors="strict"))
        except MoleculeError as error:
            return refusal(error)
        credential = {name: value for name, value in outer.headers.items() if name == b"authorization"}
        call = Call(route, params, credential | wish.headers, wish.query, self._limits, address=outer.address)
        call.body = wish.body
        answer = await self._identified(call)
        self.answered(call, answer.status, self._clock.monotonic() - began)
        return answer

    async def _identify_and_answer(self, call: Call, done: Callable[[Answer], None]) -> None:
        done(await self._identified(call))

    async def _identified(self, call: Call) -> Answer:
        """The answer to somebody who is yet to be known."""
        try:
            caller = await self._look_up(call)
            call.standing = call.standing or self._counted(call, caller)
            await self._guards.identify(call, caller)
            result = self._handled(call)
            if isinstance(result, Later):
                await asyncio.wait((result.future,))
                return self._settled(result, result.future, call)
            return result if isinstance(result, Answer) else await self._finished(call, result)
        except Exception as error:
            return self._refused(error, call)

    def _handled(self, call: Call) -> Answer | Later | Coroutine[Any, Any, Answer]:
        """What the handler makes of a call; of one that may need leave, once that is sure to be given."""
        points.reached("request.admitted")
        return self._with_leave(call) if self._guards.leave.concerns(call) else call.route.handler(call)

    async def _with_leave(self, call: Call) -> Answer:
        await self._guards.leave.check(call)
        result = call.route.handler(call)
        if isinstance(result, Later):
            await asyncio.wait((result.future,))
            return result.answer(result.future)
        return result if isinstance(result, Answer) else await result

    async def _look_up(self, call: Call) -> Caller:
        try:
            return await self._guards.look_up(call.headers, call.route)
        except _UNPROVED:
            call.standing = self.rates.stranger(call.address)
            raise

    async def _answer(self, handling: Coroutine[Any, Any, Answer], call: Call, done: Callable[[Answer], None]) -> None:
        try:
            answer = await self._finished(call, handling)
        except Exception as error:
            answer = self._refused(error, call)
        done(answer)

    async def _finished(self, call: Call, handling: Coroutine[Any, Any, Answer]) -> Answer:
        """The answer; what was read, or has come while the request was held, is only for who may still have it. What
        was taken is nowhere else: who took it was looked at before, and gets it whatever has happened since."""
        answer = await handling
        if call.route.method == "GET" or (call.route.holds and not call.has_taken):
            await self._guards.check_still(call)
        return answer

    def _settled(self, later: Later, future: "asyncio.Future[Any]", call: Call) -> Answer:
        try:
            return later.answer(future)
        except Exception as error:
            return self._refused(error, call)

    def answered(self, call: Call | None, status: int, seconds: float) -> None:
        """Counts an answer, and logs it if that is wanted: never the target itself, which may hold anything."""
        points.reached("request.answered")
        meter = self.refused if call is None else call.route.meter
        meter.answered(status, seconds)
        if self._access_log:
            what = "a request without a route" if call is None else f"{call.route.method} {call.route.path}"
            about = {"status": status, "milliseconds": round(seconds * 1000), **({} if call is None else _about(call))}
            _access.info("%s: %d", what, status, extra=about)

    def _refused(self, error: Exception, call: Call) -> Answer:
        """A refusal as an answer; a mistake of ours is logged under a reference, and only that leaves."""
        if isinstance(error, MoleculeError):
            return refusal(error)
        reference = self._ids.new()
        _log.error(
            "a request failed, reference %s", reference, exc_info=error, extra={"reference": reference, **_about(call)}
        )
        return refusal(Unexpected(reference=reference))


def _about(call: Call) -> dict[str, str]:
    """What a log says of a request."""
    known = {"route": f"{call.route.method} {call.route.path}"}
    if call.caller is not None:
        known |= {"caller": call.caller.kind.value, "org": call.caller.org_id}
    if call.workspace is not None:
        known |= {"workspace": call.workspace.id, "org": call.workspace.org_id}
    return known


def refusal(error: MoleculeError, standing: Standing | None = None) -> Answer:
    """A refusal as an answer, and how its caller stands, if that is known."""
    answer = Answer(problem_body(error), problem_of(error).status, tuple(problem_headers(error)))
    answer.standing = error.details["standing"] if isinstance(error, RateLimited) else standing
    return answer


def _split(url: bytes) -> tuple[str, bytes]:
    """(path, query string) of a request's target. Raises BadHttp."""
    path, _, query = url.partition(b"?")
    query = query.partition(b"#")[0]
    try:
        text = path.decode("ascii")
        return (unquote(text, errors="strict") if "%" in text else text), query
    except UnicodeDecodeError:
        raise BadHttp from None


def _check_doubles(headers: list[tuple[bytes, bytes]]) -> None:
    names = [name for name, _ in headers]
    if any(names.count(name) > 1 for name in _ONCE):
        raise BadHttp
