"""The server's own MCP endpoint: streamable HTTP, for hosts that have nothing but an address and a token.

Two addresses, one meaning: the caller is the workspace whose token it holds. A request is of one of two eras: of the
first, it belongs to a session (`api/mcp/sessions.py`); of the second, it says all about itself. Both end in the one
dispatcher, and tools in the table of routes.

Above: `api/http/application.py`, which has let the caller in. Below: `mcp_rules`, `mcp_sessions`, `mcp_outlets`, `mcp_host`.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.api.http.auth import Authenticator
from molecule_core.api.http.routing import (
    WORKSPACE,
    AccessPolicy,
    Request,
    Response,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.api.live.hub import LiveHub
from molecule_core.api.mcp.negotiation import (
    NO_SESSION,
    McpRejection,
    RpcMessageKind,
    check_accepts_events,
    check_content_type,
    check_stateless,
    client_accepts_events,
    is_stateless,
    kind_of_message,
    stateless_status,
)
from molecule_core.api.mcp.responses import OpenResponses, PostResponse, RpcId, ServerStream, responding_to
from molecule_core.api.mcp.sessions import HttpMcpSession, McpSessionStore
from molecule_core.api.mcp.tool_host import McpDependencies, McpToolHost
from molecule_core.api.operations import McpMetrics
from molecule_core.common.errors import CapacityExceeded, InvalidJson
from molecule_core.org.reader import OrgReader
from molecule_core.tools.mcp_dispatcher import STATELESS_VERSIONS, McpClientSession, SessionMode
from molecule_core.wire.protocols.jsonrpc import INVALID_REQUEST

_log = logging.getLogger("molecule.mcp")
_SESSION_MISSING = "name the session in Mcp-Session-Id; without one, begin with initialize"
_SESSION_UNKNOWN = "there is no such session (any more); begin anew with initialize"


class RpcMessage(Struct):
    """A message of JSON-RPC 2.0, as the Model Context Protocol has it. Up to its version 2025-03-26 several of them
    may come in a list."""

    jsonrpc: str
    method: str = ""
    id: str | int | None = None
    params: dict[str, Any] = {}


class McpRoutes:
    """The routes of MCP."""

    def __init__(
        self,
        host: McpToolHost,
        authenticator: Authenticator,
        org: OrgReader,
        live: LiveHub,
        dependencies: McpDependencies,
    ) -> None:
        self._host = host
        self._authenticator = authenticator
        self._org = org
        self._extensions = dependencies.extensions
        self._limits = limits = dependencies.settings.limits
        self.open_responses = OpenResponses(dependencies.clock, limits, live.has_lost_access)
        self.sessions = McpSessionStore(
            self._session_dispatcher,
            self.open_responses,
            clock=dependencies.clock,
            randomness=dependencies.randomness,
            limits=limits,
        )
        self._stateless_calls = Counter[str]()
        self._closing_tasks: set[asyncio.Task[None]] = set()
        live.on_credential_ended = self.open_responses.end_unauthorized

    def routes(self) -> list[Route]:
        """The rows for the table."""
        own, any_ = AccessPolicy(frozenset((WORKSPACE,)), WorkspaceScope.OWN), AccessPolicy(frozenset((WORKSPACE,)))
        return [
            route
            for path, access in (("/workspaces/{id}/mcp", own), ("/mcp", any_))
            for route in (
                Route(
                    "POST",
                    path,
                    self.handle_post,
                    access,
                    "Speak MCP (JSON-RPC)",
                    RpcMessage,
                    RpcMessage,
                    may_stream_events=True,
                ),
                Route(
                    "GET",
                    path,
                    self.open_server_stream,
                    access,
                    "What an MCP server tells unasked",
                    media_type="text/event-stream",
                ),
                Route("DELETE", path, self.end_session, access, "End an MCP session"),
            )
        ]

    def _session_dispatcher(self, session: HttpMcpSession) -> McpClientSession:
        """The dispatcher of a session."""
        return self._new_dispatcher(session.send, SessionMode.HANDSHAKE)

    def _new_dispatcher(self, send: Callable[..., Any], eras: SessionMode) -> McpClientSession:
        extra = None if self._extensions is None else self._extensions.extra
        maximum = self._limits.mcp_calls
        return McpClientSession(self._host, send, mode=eras, on_fault=_log_fault, max_calls=maximum, extra=extra)

    # -- the three verbs -----------------------------------------------------------------------------------------------

    async def handle_post(self, request: Request) -> Response:
        """Takes a message. A request is answered with JSON or, if it tells of progress or takes long, with events; all
        else is only taken (202). The caller is the workspace of the token: no tool acts as another one."""
        try:
            self._check_origin(request)
            accepts_events = client_accepts_events(request)
            check_content_type(request)
            message = request.json()
            if not isinstance(message, dict | list):
                raise InvalidJson(reason="it must be an object")
            if is_stateless(request, message):
                return await self._post_stateless(request, message, accepts_events=accepts_events)
            return await self._post_in_session(request, message, accepts_events=accepts_events)
        except McpRejection as rejection:
            return rejection.to_response()

    async def open_server_stream(self, request: Request) -> Response:
        """Opens the stream of a session's messages that answer nothing."""
        try:
            self._check_origin(request)
            self._check_version_has_sessions(request)
            check_accepts_events(request)
            session, credential = self._session_of(request), self._authenticator.credential_hash(request.headers)
        except McpRejection as rejection:
            return rejection.to_response()

        def lost() -> None:
            if session.server_stream is server_stream:
                session.server_stream = None
            if server_stream in self.open_responses:
                self.open_responses.discard(server_stream)
                self.sessions.release(session)

        server_stream = ServerStream(request, credential, lost, self._limits.subscriber_bytes)
        self.sessions.acquire(session)
        self.open_responses.add(server_stream)
        self.sessions.attach_server_stream(session, server_stream)
        return server_stream.to_response()

    async def end_session(self, request: Request) -> Response:
        """Ends a session, and all that is under way in it."""
        try:
            self._check_origin(request)
            self._check_version_has_sessions(request)
            self.sessions.end_session(self._session_of(request))
        except McpRejection as rejection:
            return rejection.to_response()
        return json_response({"status": "ended"})

    def _check_origin(self, request: Request) -> None:
        """A page elsewhere may not speak to us, and a seat that was removed is nobody. Raises CrossOrigin,
        WorkspaceRemoved."""
        self._authenticator.check_origin(request.headers)
        self._org.active_workspace(request.caller.id)

    def _check_version_has_sessions(self, request: Request) -> None:
        version = request.header(b"mcp-protocol-version")
        if version in STATELESS_VERSIONS:
            raise McpRejection(405, INVALID_REQUEST, f"version {version} knows no sessions: send POST")

    def _session_of(self, request: Request) -> HttpMcpSession:
        """The session that a request names. Raises Refused."""
        session_id = request.header(b"mcp-session-id")
        if session_id is None:
            raise McpRejection(400, INVALID_REQUEST, _SESSION_MISSING)
        session = self.sessions.find(request, self._authenticator.credential_hash(request.headers), session_id)
        if session is None:
            raise McpRejection(404, NO_SESSION, _SESSION_UNKNOWN)
        return session

    # -- the first era -------------------------------------------------------------------------------------------------

    async def _post_in_session(self, request: Request, message: Any, *, accepts_events: bool) -> Response:
        messages = message if isinstance(message, list) else [message]
        self._check_batch_size(messages)
        kinds = [kind_of_message(each) for each in messages]
        request_ids = {each["id"] for each, kind in zip(messages, kinds, strict=True) if kind is RpcMessageKind.REQUEST}
        is_initialize = any(each.get("method") == "initialize" for each in messages)
        if is_initialize and len(messages) > 1:
            raise McpRejection(400, INVALID_REQUEST, "initialize stands alone")
        session = self.sessions.new_session(request) if is_initialize else self._session_of(request)
        if not request_ids:
            self._forward_client_answers(messages)
            await session.dispatcher.receive(message)
            session.cancel_requests(messages)
            return _accepted()
        if len(request_ids) < kinds.count(RpcMessageKind.REQUEST):
            raise McpRejection(400, INVALID_REQUEST, "two requests have one id")
        with self.sessions.in_use(session):
            response = await self._answer_in_session(
                request, session, message, request_ids, accepts_events=accepts_events and not is_initialize
            )
        if is_initialize and session.dispatcher.protocol_version:
            id_ = self.sessions.register(session, self._authenticator.credential_hash(request.headers))
            response.headers = ((b"mcp-session-id", id_.encode()),)
        return response

    def _check_batch_size(self, messages: list[Any]) -> None:
        if not 0 < len(messages) <= self._limits.mcp_batch:
            raise McpRejection(400, INVALID_REQUEST, f"a list holds 1 to {self._limits.mcp_batch} messages")

    def _forward_client_answers(self, messages: list[Any]) -> None:
        """What clients answer: the product asks them nothing."""
        if self._extensions is not None:
            for each in messages:
                if "method" not in each:
                    self._extensions.client_answered(each)

    async def _answer_in_session(
        self, request: Request, session: HttpMcpSession, message: Any, request_ids: set[RpcId], *, accepts_events: bool
    ) -> Response:
        post_response = self._new_post_response(
            request,
            request_ids,
            lambda ids: self.sessions.cancel_abandoned(session, ids),
            holder=session.id,
            accepts_events=accepts_events,
        )
        session.post_responses.add(post_response)
        self.sessions.acquire(session)

        def over() -> None:
            if post_response in session.post_responses:
                session.post_responses.discard(post_response)
                self.sessions.release(session)

        return await self._run_dispatcher(post_response, session.dispatcher, message, over)

    # -- the second era ------------------------------------------------------------------------------------------------

    async def _post_stateless(self, request: Request, message: Any, *, accepts_events: bool) -> Response:
        if (
            kind_of_message(message) is RpcMessageKind.ONE_WAY
        ):  # nothing that could be told concerns a request that is not there
            return _accepted()
        check_stateless(request, message)
        own = request.caller.id
        if self._stateless_calls[own] >= self._limits.mcp_calls:
            raise CapacityExceeded(what="MCP requests of this workspace", most=self._limits.mcp_calls)
        credential = self._authenticator.credential_hash(request.headers)

        def give_up(_ids: set[RpcId]) -> None:
            self._close_dispatcher(dispatcher)

        post_response = self._new_post_response(
            request, {message["id"]}, give_up, holder=credential, accepts_events=accepts_events
        )
        dispatcher = self._new_dispatcher(post_response.send, SessionMode.BOTH)
        self._stateless_calls[own] += 1
        open_calls = [own]

        def over() -> None:
            if open_calls:
                self._stateless_calls[open_calls.pop()] -= 1
                self._stateless_calls += Counter()  # drops those at zero

        response = await self._run_dispatcher(post_response, dispatcher, message, over)
        if not post_response.is_stream and post_response.answers:
            response.status = stateless_status(post_response.answers[0])
        return response

    def _close_dispatcher(self, dispatcher: McpClientSession) -> None:
        task = asyncio.create_task(dispatcher.close())
        self._closing_tasks.add(task)
        task.add_done_callback(self._closing_tasks.discard)

    # -- both ----------------------------------------------------------------------------------------------------------

    def _new_post_response(
        self,
        request: Request,
        request_ids: set[RpcId],
        give_up: Callable[[set[RpcId]], None],
        *,
        holder: str,
        accepts_events: bool,
    ) -> PostResponse:
        credential = self._authenticator.credential_hash(request.headers)
        return PostResponse(request, credential, holder, set(request_ids), give_up, accepts_events=accepts_events)

    async def _run_dispatcher(
        self, post_response: PostResponse, dispatcher: McpClientSession, message: Any, over: Callable[[], None]
    ) -> Response:
        """Lets the dispatcher work, and returns what it answers, or the beginning of it."""

        def ended() -> None:
            self.open_responses.discard(post_response)
            over()

        post_response.on_finished = ended
        self.open_responses.add(post_response)
        try:
            with responding_to(post_response):
                await dispatcher.receive(message)
            await post_response.wait_decided()
        except asyncio.CancelledError:  # the client has gone
            post_response.abandon()
            raise
        if post_response.is_stream:
            return post_response.to_stream_response()
        post_response.abandon()
        if post_response.error is not None:
            raise post_response.error
        if not post_response.answers:  # the client has cancelled it
            return _accepted()
        answers = post_response.answers if isinstance(message, list) else post_response.answers[0]
        return Response(msgspec.json.encode(answers))

    def metrics(self) -> McpMetrics:
        """What operators ask."""
        sessions = self.sessions
        return McpMetrics(
            len(sessions), sessions.opened, sessions.restored, len(self.open_responses), self.open_responses.disconnects
        )

    async def close(self) -> None:
        """The server stops."""
        await self.sessions.close()
        await self.open_responses.close()
        if self._closing_tasks:
            await asyncio.wait(self._closing_tasks)


def _accepted() -> Response:
    return Response(b"", 202)


def _log_fault(error: BaseException) -> None:
    """A mistake of ours; who asked is told that there was one."""
    _log.error("a tool or a method of MCP failed", exc_info=error)
