"""The server's own MCP endpoint: streamable HTTP, for hosts that have nothing but an address and a token.

Two addresses, one meaning: the caller is the workspace whose token it holds. A request is of one of two eras: of the
first, it belongs to a session (`edges/mcp_sessions.py`); of the second, it says all about itself. Both end in the one
dispatcher, and tools in the table of routes.

Above: `edges/app.py`, which has let the caller in. Below: `mcp_rules`, `mcp_sessions`, `mcp_outlets`, `mcp_host`.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.edges.auth import Guards
from molecule_core.edges.live import Live
from molecule_core.edges.mcp_host import Means, ServerHost
from molecule_core.edges.mcp_outlets import Channels, Id, Outlet, Standing, working_on
from molecule_core.edges.mcp_rules import (
    NO_SESSION,
    Kind,
    Refused,
    check_is_json,
    check_stateless,
    check_takes_events,
    is_stateless,
    kind_of,
    stateless_status,
    takes_events,
)
from molecule_core.edges.mcp_sessions import McpSession, Sessions
from molecule_core.edges.operations import McpFigures
from molecule_core.edges.routes import WORKSPACE, Answer, Call, Reach, Route, Who, json_answer
from molecule_core.ground.errors import InvalidJson, TooManyOpen
from molecule_core.org.reader import OrgReader
from molecule_core.wire.jsonrpc import INVALID_REQUEST
from molecule_core.wire.mcp import STATELESS_VERSIONS, Eras, Session

_log = logging.getLogger("molecule.mcp")
_NEEDS_SESSION = "name the session in Mcp-Session-Id; without one, begin with initialize"
_NO_SUCH_SESSION = "there is no such session (any more); begin anew with initialize"


class RpcMessage(Struct):
    """A message of JSON-RPC 2.0, as the Model Context Protocol has it. Up to its version 2025-03-26 several of them
    may come in a list."""

    jsonrpc: str
    method: str = ""
    id: str | int | None = None
    params: dict[str, Any] = {}


class McpEdge:
    """The routes of MCP."""

    def __init__(self, host: ServerHost, guards: Guards, org: OrgReader, live: Live, means: Means) -> None:
        self._host = host
        self._guards = guards
        self._org = org
        self._additions = means.additions
        self._limits = limits = means.settings.limits
        self.channels = Channels(means.clock, limits, live.has_ended)
        self.sessions = Sessions(
            self._begin, self.channels, clock=means.clock, randomness=means.randomness, limits=limits
        )
        self._stateless = Counter[str]()
        self._ending: set[asyncio.Task[None]] = set()
        live.when_ended = self.channels.end_those_over

    def routes(self) -> list[Route]:
        """The rows for the table."""
        own, any_ = Who(frozenset((WORKSPACE,)), Reach.OWN), Who(frozenset((WORKSPACE,)))
        return [
            route
            for path, who in (("/workspaces/{id}/mcp", own), ("/mcp", any_))
            for route in (
                Route("POST", path, self.post, who, "Speak MCP (JSON-RPC)", RpcMessage, RpcMessage, events=True),
                Route("GET", path, self.stand, who, "What an MCP server tells unasked", media="text/event-stream"),
                Route("DELETE", path, self.end, who, "End an MCP session"),
            )
        ]

    def _begin(self, session: McpSession) -> Session:
        """The dispatcher of a session."""
        return self._dispatcher(session.send, Eras.HANDSHAKE)

    def _dispatcher(self, send: Callable[..., Any], eras: Eras) -> Session:
        extra = None if self._additions is None else self._additions.extra
        most = self._limits.mcp_calls
        return Session(self._host, send, eras=eras, on_fault=_tell, most_calls=most, extra=extra)

    # -- the three verbs -----------------------------------------------------------------------------------------------

    async def post(self, call: Call) -> Answer:
        """Takes a message. A request is answered with JSON or, if it tells of progress or takes long, with events; all
        else is only taken (202). The caller is the workspace of the token: no tool acts as another one."""
        try:
            self._check_place(call)
            streams = takes_events(call)
            check_is_json(call)
            message = call.json()
            if not isinstance(message, dict | list):
                raise InvalidJson(reason="it must be an object")
            if is_stateless(call, message):
                return await self._stateless_post(call, message, streams=streams)
            return await self._session_post(call, message, streams=streams)
        except Refused as refusal:
            return refusal.answer()

    async def stand(self, call: Call) -> Answer:
        """Opens the stream of a session's messages that answer nothing."""
        try:
            self._check_place(call)
            self._check_has_sessions(call)
            check_takes_events(call)
            session, credential = self._session(call), self._guards.credential_hash(call.headers)
        except Refused as refusal:
            return refusal.answer()

        def lost() -> None:
            if session.standing is standing:
                session.standing = None
            if standing in self.channels:
                self.channels.discard(standing)
                self.sessions.release(session)

        standing = Standing(call, credential, lost, self._limits.subscriber_bytes)
        self.sessions.hold(session)
        self.channels.add(standing)
        self.sessions.stand(session, standing)
        return standing.answer()

    async def end(self, call: Call) -> Answer:
        """Ends a session, and all that is under way in it."""
        try:
            self._check_place(call)
            self._check_has_sessions(call)
            self.sessions.end(self._session(call))
        except Refused as refusal:
            return refusal.answer()
        return json_answer({"status": "ended"})

    def _check_place(self, call: Call) -> None:
        """A page elsewhere may not speak to us, and a seat that was removed is nobody. Raises CrossOrigin,
        WorkspaceRemoved."""
        self._guards.check_origin(call.headers)
        self._org.living(call.by.id)

    def _check_has_sessions(self, call: Call) -> None:
        version = call.header(b"mcp-protocol-version")
        if version in STATELESS_VERSIONS:
            raise Refused(405, INVALID_REQUEST, f"version {version} knows no sessions: send POST")

    def _session(self, call: Call) -> McpSession:
        """The session that a request names. Raises Refused."""
        named = call.header(b"mcp-session-id")
        if named is None:
            raise Refused(400, INVALID_REQUEST, _NEEDS_SESSION)
        session = self.sessions.find(call, self._guards.credential_hash(call.headers), named)
        if session is None:
            raise Refused(404, NO_SESSION, _NO_SUCH_SESSION)
        return session

    # -- the first era -------------------------------------------------------------------------------------------------

    async def _session_post(self, call: Call, message: Any, *, streams: bool) -> Answer:
        messages = message if isinstance(message, list) else [message]
        self._check_batch(messages)
        kinds = [kind_of(each) for each in messages]
        wanted = {each["id"] for each, kind in zip(messages, kinds, strict=True) if kind is Kind.REQUEST}
        begins = any(each.get("method") == "initialize" for each in messages)
        if begins and len(messages) > 1:
            raise Refused(400, INVALID_REQUEST, "initialize stands alone")
        session = self.sessions.new(call) if begins else self._session(call)
        if not wanted:
            self._let_answer(messages)
            await session.dispatcher.take(message)
            session.cancelled(messages)
            return _taken()
        if len(wanted) < kinds.count(Kind.REQUEST):
            raise Refused(400, INVALID_REQUEST, "two requests have one id")
        with self.sessions.used(session):
            answer = await self._answered(call, session, message, wanted, streams=streams and not begins)
        if begins and session.dispatcher.protocol_version:
            id_ = self.sessions.keep(session, self._guards.credential_hash(call.headers))
            answer.headers = ((b"mcp-session-id", id_.encode()),)
        return answer

    def _check_batch(self, messages: list[Any]) -> None:
        if not 0 < len(messages) <= self._limits.mcp_batch:
            raise Refused(400, INVALID_REQUEST, f"a list holds 1 to {self._limits.mcp_batch} messages")

    def _let_answer(self, messages: list[Any]) -> None:
        """What clients answer: the product asks them nothing."""
        if self._additions is not None:
            for each in messages:
                if "method" not in each:
                    self._additions.answered(each)

    async def _answered(
        self, call: Call, session: McpSession, message: Any, wanted: set[Id], *, streams: bool
    ) -> Answer:
        outlet = self._outlet(
            call, wanted, lambda ids: self.sessions.give_up(session, ids), holder=session.id, streams=streams
        )
        session.outlets.add(outlet)
        self.sessions.hold(session)

        def over() -> None:
            if outlet in session.outlets:
                session.outlets.discard(outlet)
                self.sessions.release(session)

        return await self._worked(outlet, session.dispatcher, message, over)

    # -- the second era ------------------------------------------------------------------------------------------------

    async def _stateless_post(self, call: Call, message: Any, *, streams: bool) -> Answer:
        if kind_of(message) is Kind.TOLD:  # nothing that could be told concerns a request that is not there
            return _taken()
        check_stateless(call, message)
        own = call.by.id
        if self._stateless[own] >= self._limits.mcp_calls:
            raise TooManyOpen(what="MCP requests of this workspace", most=self._limits.mcp_calls)
        credential = self._guards.credential_hash(call.headers)

        def give_up(_ids: set[Id]) -> None:
            self._close(dispatcher)

        outlet = self._outlet(call, {message["id"]}, give_up, holder=credential, streams=streams)
        dispatcher = self._dispatcher(outlet.send, Eras.BOTH)
        self._stateless[own] += 1
        under_way = [own]

        def over() -> None:
            if under_way:
                self._stateless[under_way.pop()] -= 1
                self._stateless += Counter()  # drops those at zero

        answer = await self._worked(outlet, dispatcher, message, over)
        if not outlet.is_stream and outlet.answers:
            answer.status = stateless_status(outlet.answers[0])
        return answer

    def _close(self, dispatcher: Session) -> None:
        task = asyncio.create_task(dispatcher.close())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    # -- both ----------------------------------------------------------------------------------------------------------

    def _outlet(
        self, call: Call, wanted: set[Id], give_up: Callable[[set[Id]], None], *, holder: str, streams: bool
    ) -> Outlet:
        credential = self._guards.credential_hash(call.headers)
        return Outlet(call, credential, holder, set(wanted), give_up, streams=streams)

    async def _worked(self, outlet: Outlet, dispatcher: Session, message: Any, over: Callable[[], None]) -> Answer:
        """Lets the dispatcher work, and returns what it answers, or the beginning of it."""

        def ended() -> None:
            self.channels.discard(outlet)
            over()

        outlet.when_over = ended
        self.channels.add(outlet)
        try:
            with working_on(outlet):
                await dispatcher.take(message)
            await outlet.decided()
        except asyncio.CancelledError:  # the client has gone
            outlet.leave()
            raise
        if outlet.is_stream:
            return outlet.as_stream()
        outlet.leave()
        if outlet.refusal is not None:
            raise outlet.refusal
        if not outlet.answers:  # the client has cancelled it
            return _taken()
        told = outlet.answers if isinstance(message, list) else outlet.answers[0]
        return Answer(msgspec.json.encode(told))

    def figures(self) -> McpFigures:
        """What operators ask."""
        kept = self.sessions
        return McpFigures(len(kept), kept.opened, kept.taken_up, len(self.channels), self.channels.cuts)

    async def close(self) -> None:
        """The server stops."""
        await self.sessions.close()
        await self.channels.close()
        if self._ending:
            await asyncio.wait(self._ending)


def _taken() -> Answer:
    return Answer(b"", 202)


def _tell(error: BaseException) -> None:
    """A mistake of ours; who asked is told that there was one."""
    _log.error("a tool or a method of MCP failed", exc_info=error)
