"""The application: guards in their order, then one handler, then one answer.

Above: `edges/protocol.py`. Below: the routes.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import unquote

import httptools

from molecule_core.edges.auth import Guards
from molecule_core.edges.problems import problem_body, problem_headers, problem_of
from molecule_core.edges.routes import Answer, Call, Later, Routes
from molecule_core.ground.errors import BadHttp, BodyTooLarge, MoleculeError, Unexpected
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits

_log = logging.getLogger("molecule.http")
# No header that decides something may stand twice: two readers could take different ones.
_ONCE = (b"host", b"authorization", b"x-workspace-id", b"origin", b"cookie")


class App:
    """Answers requests from the table of routes."""

    def __init__(self, routes: Routes, guards: Guards, *, ids: Ids, limits: Limits) -> None:
        self._routes = routes
        self._guards = guards
        self._ids = ids
        self._limits = limits

    def admit(self, method: bytes, url: bytes, header_list: list[tuple[bytes, bytes]]) -> Call:
        """Guards a request before its body is read: size, host, route, credential, reach. Raises a refusal.

        A credential that is not known yet is looked up in `respond`."""
        headers = dict(header_list)
        if len(headers) != len(header_list):
            _check_doubles(header_list)
        length = headers.get(b"content-length")
        if length is not None and int(length) > self._limits.body_bytes:
            raise BodyTooLarge(limit=self._limits.body_bytes)
        self._guards.check_host(headers.get(b"host", b""))
        if not url.startswith(b"/"):
            url = self._origin_form(url)
        path, query = _split(url)
        route, params = self._routes.find(method.decode("ascii"), path)
        call = Call(route, params, headers, query, self._limits)
        caller = self._guards.known(headers, route)
        if caller is not None:
            self._guards.place(call, caller)
        return call

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
            result = call.route.handler(call)
        except Exception as error:
            done(self._refused(error))
            return None
        if isinstance(result, Answer):
            done(result)
        elif isinstance(result, Later):
            result.future.add_done_callback(lambda future: done(self._settled(result, future)))
        else:
            return asyncio.get_running_loop().create_task(self._answer(call, result, done))
        return None

    async def _identify_and_answer(self, call: Call, done: Callable[[Answer], None]) -> None:
        try:
            self._guards.place(call, await self._guards.look_up(call.headers, call.route))
            result = call.route.handler(call)
            if isinstance(result, Later):
                await asyncio.wait((result.future,))
                answer = self._settled(result, result.future)
            else:
                answer = result if isinstance(result, Answer) else await self._finished(call, result)
        except Exception as error:
            answer = self._refused(error)
        done(answer)

    async def _answer(self, call: Call, handling: Coroutine[Any, Any, Answer], done: Callable[[Answer], None]) -> None:
        try:
            answer = await self._finished(call, handling)
        except Exception as error:
            answer = self._refused(error)
        done(answer)

    async def _finished(self, call: Call, handling: Coroutine[Any, Any, Answer]) -> Answer:
        """The answer; what was read, perhaps by a long-poll, is only for who may still read it."""
        answer = await handling
        if call.route.method == "GET":
            await self._guards.check_still(call)
        return answer

    def _settled(self, later: Later, future: "asyncio.Future[Any]") -> Answer:
        try:
            return later.answer(future)
        except Exception as error:
            return self._refused(error)

    def _refused(self, error: Exception) -> Answer:
        """A refusal as an answer; a mistake of ours is logged under a reference, and only that leaves."""
        if isinstance(error, MoleculeError):
            return refusal(error)
        reference = self._ids.new()
        _log.error("a request failed, reference %s", reference, exc_info=error, extra={"reference": reference})
        return refusal(Unexpected(reference=reference))


def refusal(error: MoleculeError) -> Answer:
    """A refusal as an answer."""
    return Answer(problem_body(error), problem_of(error).status, tuple(problem_headers(error)))


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
