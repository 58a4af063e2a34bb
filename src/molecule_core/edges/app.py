"""The ASGI application: guards in their order, then one handler, then one answer.

Above: the network. Below: the routes. Plain ASGI, because a middleware class costs several times the rest of a
request.
"""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from molecule_core.edges.auth import Guards
from molecule_core.edges.problems import problem_body, problem_headers, problem_of
from molecule_core.edges.routes import Answer, Call, Routes
from molecule_core.ground.errors import BodyTooLarge, MoleculeError, Unexpected
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_log = logging.getLogger("molecule.http")


class ClientGone(Exception):
    """The other side hung up before its request was complete; nobody is left to answer."""


class App:
    """Answers HTTP requests from the table of routes."""

    def __init__(self, routes: Routes, guards: Guards, *, ids: Ids, limits: Limits) -> None:
        self._routes = routes
        self._guards = guards
        self._ids = ids
        self._limits = limits

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"{scope['type']} is not served")
        try:
            answer = await self._answer(scope, receive)
        except MoleculeError as error:
            answer = refusal(error)
        except ClientGone:
            return
        except Exception:
            reference = self._ids.new()
            _log.exception("a request failed", extra={"reference": reference})
            answer = refusal(Unexpected(reference=reference))
        headers = [
            (b"content-type", answer.content_type),
            (b"content-length", str(len(answer.body)).encode()),
            *answer.headers,
        ]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Message, receive: Receive) -> Answer:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        self._check_length(headers)
        self._guards.check_host(headers)
        route, params = self._routes.find(scope["method"], scope["path"])
        caller = await self._guards.identify(headers, route.who)
        workspace = self._guards.locate(caller, route, params)
        call = Call(params, headers, scope["query_string"], caller, workspace, self._limits)
        if route.method != "GET":
            call.body = await self._body(receive)
        return await route.handler(call)

    def _check_length(self, headers: dict[bytes, bytes]) -> None:
        """A body that says itself that it is too large is refused before a byte of it is read."""
        length = headers.get(b"content-length")
        if length is not None and len(length) > 6 and int(length) > self._limits.body_bytes:
            raise BodyTooLarge(limit=self._limits.body_bytes)

    async def _body(self, receive: Receive) -> bytes:
        """The whole body, counted while it is read. (The connection bounds the time it may take.)"""
        message = await receive()
        body: bytes = message.get("body", b"")
        if message["type"] == "http.request" and not message.get("more_body") and len(body) <= self._limits.body_bytes:
            return body
        parts, size = [body], len(body)
        while message["type"] == "http.request":
            if size > self._limits.body_bytes:
                raise BodyTooLarge(limit=self._limits.body_bytes)
            if not message.get("more_body"):
                return b"".join(parts)
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
        raise ClientGone


def refusal(error: MoleculeError) -> Answer:
    """A refusal as an answer."""
    return Answer(problem_body(error), problem_of(error).status, tuple(problem_headers(error)))
