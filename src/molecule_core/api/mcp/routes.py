"""MCP endpoint of the server: streamable HTTP, for hosts that have only an address and a token.

Both paths act as the workspace of the token. Requests of versions with `initialize` belong to a session
(`api/mcp/sessions.py`); those of stateless versions are self-contained. Both use the same dispatcher, whose tools call
the route table.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct, structs

from molecule_core.api.auth import Authenticator
from molecule_core.api.http.response import Response
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
from molecule_core.api.mcp.presence import EndpointPresence, PresenceRecorder
from molecule_core.api.mcp.responses import OpenResponses, PostResponse, RpcId, ServerStream, responding_to
from molecule_core.api.mcp.sessions import HttpMcpSession, McpSessionStore
from molecule_core.api.mcp.tool_host import McpDependencies, McpToolHost
from molecule_core.api.operations import McpMetrics
from molecule_core.api.routing import WORKSPACE, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.errors import CapacityExceeded, InvalidJson
from molecule_core.common.tokens import hash_token
from molecule_core.org.reader import OrgReader
from molecule_core.tools.mcp_dispatcher import STATELESS_VERSIONS, ExtraMethods, McpClientSession, SessionMode
from molecule_core.tools.mcp_subscriptions import server_features
from molecule_core.wire.protocols.jsonrpc import INVALID_REQUEST
from molecule_core.wire.schemas.runtimes import Runtime

_log = logging.getLogger("molecule.mcp")
_SESSION_MISSING = "the header Mcp-Session-Id is missing. Add it, or start a session with initialize."
_SESSION_UNKNOWN = "this session does not exist or has ended. Start a new one with initialize."


class RpcMessage(Struct):
    """Message of JSON-RPC 2.0, as defined by the Model Context Protocol. Up to version 2025-03-26 a list of messages is
    accepted too."""

    jsonrpc: str
    method: str = ""
    id: str | int | None = None
    params: dict[str, Any] = {}


class McpRoutes:
    """Handlers of the MCP endpoint."""

    def __init__(
        self,
        host: McpToolHost,
        authenticator: Authenticator,
        org: OrgReader,
        live: LiveHub,
        recorder: PresenceRecorder,
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
        self._presence = EndpointPresence(
            recorder, self.open_responses.workspace_ids, clock=dependencies.clock, limits=limits
        )
        own_methods = server_features(host.caller_workspaces, host, lambda: Runtime.BARE, dependencies.clock)
        test_methods = ExtraMethods() if self._extensions is None else self._extensions.extra
        self._extra = structs.replace(test_methods, features=own_methods.features, tasks=own_methods.tasks)
        self._stateless_calls = Counter[str]()
        self._closing_tasks: set[asyncio.Task[None]] = set()
        live.on_credential_ended = self.open_responses.end_unauthorized

    def routes(self) -> list[Route]:
        """Return the routes."""
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
                    "Send an MCP message (JSON-RPC)",
                    RpcMessage,
                    RpcMessage,
                    may_stream_events=True,
                    is_oauth_resource=True,
                ),
                Route(
                    "GET",
                    path,
                    self.open_server_stream,
                    access,
                    "Open the stream of an MCP session",
                    media_type="text/event-stream",
                    is_oauth_resource=True,
                ),
                Route("DELETE", path, self.end_session, access, "End an MCP session", is_oauth_resource=True),
            )
        ]

    def _session_dispatcher(self, session: HttpMcpSession) -> McpClientSession:
        """Return a new dispatcher for a session."""
        return self._new_dispatcher(session.send, SessionMode.HANDSHAKE)

    def _new_dispatcher(self, send: Callable[..., Any], mode: SessionMode) -> McpClientSession:
        maximum = self._limits.mcp_calls
        return McpClientSession(self._host, send, mode=mode, on_fault=_log_fault, max_calls=maximum, extra=self._extra)

    # -- POST, GET, DELETE ---------------------------------------------------------------------------------------------

    async def handle_post(self, request: Request) -> Response:
        """Handle an MCP message as the workspace of the token. Tools cannot act as another workspace.

        A request is answered with JSON, or with events if it reports progress or takes long. Other messages get 202."""
        try:
            self._check_origin(request)
            accepts_events = client_accepts_events(request)
            check_content_type(request)
            message = request.json()
            if not isinstance(message, dict | list):
                raise InvalidJson(reason="it is not an object")
            await self._presence.record_use(request.caller.id, self._tools_loaded_by(message))
            if is_stateless(request, message):
                return await self._post_stateless(request, message, accepts_events=accepts_events)
            return await self._post_in_session(request, message, accepts_events=accepts_events)
        except McpRejection as rejection:
            return rejection.to_response()

    async def open_server_stream(self, request: Request) -> Response:
        """Open the stream for messages of a session that answer no request."""
        try:
            self._check_origin(request)
            self._check_version_has_sessions(request)
            check_accepts_events(request)
            session, credential = self._session_of(request), self._authenticator.credential_hash(request.headers)
        except McpRejection as rejection:
            return rejection.to_response()

        def on_lost() -> None:
            if session.server_stream is server_stream:
                session.server_stream = None
            if server_stream in self.open_responses:
                self.open_responses.discard(server_stream)
                self.sessions.release(session)

        server_stream = ServerStream(request, credential, on_lost, self._limits.subscriber_bytes)
        self.sessions.acquire(session)
        self.open_responses.add(server_stream)
        self.sessions.attach_server_stream(session, server_stream)
        await self._presence.record_use(request.caller.id)
        self._presence.keep_fresh()
        return server_stream.to_response()

    async def end_session(self, request: Request) -> Response:
        """End a session, and the requests in progress in it."""
        try:
            self._check_origin(request)
            self._check_version_has_sessions(request)
            self.sessions.end_session(self._session_of(request))
        except McpRejection as rejection:
            return rejection.to_response()
        return json_response({"status": "ended"})

    def _tools_loaded_by(self, message: Any) -> list[str] | None:
        """Return the tools that a client loads with this message, or None if it lists none."""
        messages = message if isinstance(message, list) else [message]
        is_listed = any(isinstance(each, dict) and each.get("method") == "tools/list" for each in messages)
        return [spec.name for spec in self._host.tools()] if is_listed else None

    def _check_origin(self, request: Request) -> None:
        """Reject web pages of other hosts and removed workspaces. Raises CrossOrigin, WorkspaceRemoved."""
        self._authenticator.check_origin(request.headers)
        self._org.active_workspace(request.caller.id)

    def _check_version_has_sessions(self, request: Request) -> None:
        version = request.header(b"mcp-protocol-version")
        if version in STATELESS_VERSIONS:
            raise McpRejection(405, INVALID_REQUEST, f"version {version} has no sessions. Use POST.")

    def _session_of(self, request: Request) -> HttpMcpSession:
        """Return the session named by a request. Raises McpRejection."""
        session_id = request.header(b"mcp-session-id")
        if session_id is None:
            raise McpRejection(400, INVALID_REQUEST, _SESSION_MISSING)
        session = self.sessions.find(request, self._session_key(request), session_id)
        if session is None:
            raise McpRejection(404, NO_SESSION, _SESSION_UNKNOWN)
        return session

    def _session_key(self, request: Request) -> str:
        """Return what seals the sessions of a credential. An OAuth client changes its token, and keeps its sessions."""
        grant_id = request.caller.grant_id
        return hash_token(grant_id) if grant_id else self._authenticator.credential_hash(request.headers)

    # -- versions with sessions ----------------------------------------------------------------------------------------

    async def _post_in_session(self, request: Request, message: Any, *, accepts_events: bool) -> Response:
        messages = message if isinstance(message, list) else [message]
        self._check_batch_size(messages)
        kinds = [kind_of_message(each) for each in messages]
        request_ids = {each["id"] for each, kind in zip(messages, kinds, strict=True) if kind is RpcMessageKind.REQUEST}
        is_initialize = any(each.get("method") == "initialize" for each in messages)
        if is_initialize and len(messages) > 1:
            raise McpRejection(400, INVALID_REQUEST, "initialize cannot be part of a list. Send it alone.")
        session = self.sessions.new_session(request) if is_initialize else self._session_of(request)
        if not request_ids:
            self._forward_client_answers(messages)
            await session.dispatcher.receive(message)
            session.cancel_requests(messages)
            return _accepted()
        if len(request_ids) < kinds.count(RpcMessageKind.REQUEST):
            raise McpRejection(400, INVALID_REQUEST, "two requests cannot have the same id. Use different ids.")
        with self.sessions.in_use(session):
            response = await self._answer_in_session(
                request, session, message, request_ids, accepts_events=accepts_events and not is_initialize
            )
        if is_initialize and session.dispatcher.protocol_version:
            id_ = self.sessions.register(session, self._session_key(request))
            response.headers = ((b"mcp-session-id", id_.encode()),)
        return response

    def _check_batch_size(self, messages: list[Any]) -> None:
        if not 0 < len(messages) <= self._limits.mcp_batch:
            raise McpRejection(
                400,
                INVALID_REQUEST,
                f"a list cannot have {len(messages)} messages. Send 1 to {self._limits.mcp_batch}.",
            )

    def _forward_client_answers(self, messages: list[Any]) -> None:
        """Forward answers of clients to the test extensions; the product itself sends clients no requests."""
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

        def on_finished() -> None:
            if post_response in session.post_responses:
                session.post_responses.discard(post_response)
                self.sessions.release(session)

        return await self._run_dispatcher(post_response, session.dispatcher, message, on_finished)

    # -- stateless versions --------------------------------------------------------------------------------------------

    async def _post_stateless(self, request: Request, message: Any, *, accepts_events: bool) -> Response:
        # Notifications and answers refer to other requests, which a stateless dispatcher does not know.
        if kind_of_message(message) is RpcMessageKind.ONE_WAY:
            return _accepted()
        check_stateless(request, message)
        own = request.caller.id
        if self._stateless_calls[own] >= self._limits.mcp_calls:
            raise CapacityExceeded(what="MCP requests of this workspace", most=self._limits.mcp_calls)
        credential = self._authenticator.credential_hash(request.headers)

        def on_abandoned(_ids: set[RpcId]) -> None:
            self._close_dispatcher(dispatcher)

        post_response = self._new_post_response(
            request, {message["id"]}, on_abandoned, holder=credential, accepts_events=accepts_events
        )
        dispatcher = self._new_dispatcher(post_response.send, SessionMode.BOTH)
        self._stateless_calls[own] += 1
        open_calls = [own]

        def on_finished() -> None:
            if open_calls:
                self._stateless_calls[open_calls.pop()] -= 1
                self._stateless_calls += Counter()  # drop entries at zero

        response = await self._run_dispatcher(post_response, dispatcher, message, on_finished)
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
        on_abandoned: Callable[[set[RpcId]], None],
        *,
        holder: str,
        accepts_events: bool,
    ) -> PostResponse:
        credential = self._authenticator.credential_hash(request.headers)
        return PostResponse(request, credential, holder, set(request_ids), on_abandoned, accepts_events=accepts_events)

    async def _run_dispatcher(
        self, post_response: PostResponse, dispatcher: McpClientSession, message: Any, on_finished: Callable[[], None]
    ) -> Response:
        """Pass a message to the dispatcher and return its response, or the start of a stream."""

        def finish() -> None:
            self.open_responses.discard(post_response)
            on_finished()

        post_response.on_finished = finish
        self.open_responses.add(post_response)
        self._presence.keep_fresh()
        try:
            with responding_to(post_response):
                await dispatcher.receive(message)
            await post_response.wait_decided()
        except asyncio.CancelledError:  # the client has disconnected
            post_response.abandon()
            raise
        if post_response.is_stream:
            return post_response.to_stream_response()
        post_response.abandon()
        if post_response.error is not None:
            raise post_response.error
        if not post_response.answers:  # the client has cancelled the request
            return _accepted()
        answers = post_response.answers if isinstance(message, list) else post_response.answers[0]
        return Response(msgspec.json.encode(answers))

    def metrics(self) -> McpMetrics:
        """Return the metrics of the endpoint."""
        sessions = self.sessions
        return McpMetrics(
            len(sessions), sessions.opened, sessions.restored, len(self.open_responses), self.open_responses.disconnects
        )

    async def close(self) -> None:
        """Close all sessions and stop the tasks."""
        await self.sessions.close()
        await self.open_responses.close()
        await self._presence.close()
        if self._closing_tasks:
            await asyncio.wait(self._closing_tasks)


def _accepted() -> Response:
    return Response(b"", 202)


def _log_fault(error: BaseException) -> None:
    """Log an internal error; the client already received a generic one."""
    _log.error("a tool or a method of MCP failed", exc_info=error)
