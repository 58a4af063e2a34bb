"""Sessions of MCP versions with `initialize`.

A session id is self-verifying: it contains the protocol version and a seal that only the holder of the credential can
have received. Any server process can therefore restore a session, also after a restart, without a new `initialize`.
A session stays in memory while it is used, and `mcp_idle_seconds` longer.

Called by `api/mcp/routes.py`; calls `tools/mcp_dispatcher.py`.
"""

import asyncio
import contextlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Iterator
from hashlib import sha256

from molecule_core.api.live.transient_events import clock_sleep
from molecule_core.api.mcp.responses import REPLACED, OpenResponses, PostResponse, RpcId, ServerStream, current_response
from molecule_core.api.routing import Request
from molecule_core.common.clock import Clock
from molecule_core.common.errors import CapacityExceeded, NotFound
from molecule_core.common.ids import Randomness
from molecule_core.common.limits import Limits
from molecule_core.tools.mcp_dispatcher import HANDSHAKE_VERSIONS, McpClientSession
from molecule_core.wire.protocols.jsonrpc import JsonRpcMessage, as_object, valid_id

# Ids ended by their clients are rejected as long as they are among the last ones.
_MAX_ENDED = 10_000
_NONCE_BITS = 128


class HttpMcpSession:
    """Session with its dispatcher and its stream for messages that answer no request."""

    def __init__(
        self, id_: str, workspace_id: str, new_dispatcher: "Callable[[HttpMcpSession], McpClientSession]"
    ) -> None:
        self.id = id_
        self.workspace_id = workspace_id
        self.dispatcher = new_dispatcher(self)
        self.server_stream: ServerStream | None = None
        self.post_responses: set[PostResponse] = set()
        self.use_count = 0

    async def send(self, message: JsonRpcMessage) -> None:
        """Send a message to the request it belongs to, otherwise to the session's stream."""
        post_response = current_response()
        if post_response is not None:
            await post_response.send(message)
        elif self.server_stream is not None:
            await self.server_stream.send(message)

    def cancel_requests(self, messages: list[JsonRpcMessage]) -> None:
        """Drop the requests that the client has cancelled; the dispatcher does not answer them either."""
        for each in messages:
            if each.get("method") == "notifications/cancelled":
                id_ = valid_id(as_object(each.get("params")).get("requestId"))
                if id_ is not None:
                    for post_response in list(self.post_responses):
                        post_response.cancel_request(id_)


def make_session_seal(credential: str, workspace_id: str, version: str, nonce: str) -> str:
    """Return the seal which proves that a session belongs to a credential (given by its hash) and a workspace."""
    text = f"mcp {workspace_id} {version} {nonce}"
    return hmac.new(credential.encode(), text.encode(), sha256).hexdigest()[:32]


class McpSessionStore:
    """Sessions in the memory of this process."""

    def __init__(
        self,
        new_dispatcher: Callable[[HttpMcpSession], McpClientSession],
        open_responses: OpenResponses,
        *,
        clock: Clock,
        randomness: Randomness,
        limits: Limits,
    ) -> None:
        """Create an empty store."""
        self._new_dispatcher = new_dispatcher
        self._open_responses = open_responses
        self._clock = clock
        self._randomness = randomness
        self._limits = limits
        self._all: dict[str, HttpMcpSession] = {}
        self._by_workspace: dict[str, dict[str, HttpMcpSession]] = {}
        self._unused: OrderedDict[str, float] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._cleanup_task: asyncio.Task[None] | None = None
        self._closing_tasks: set[asyncio.Task[None]] = set()
        self.opened = 0
        self.restored = 0

    def __len__(self) -> int:
        return len(self._all)

    # -- creation and lookup -------------------------------------------------------------------------------------------

    def new_session(self, request: Request) -> HttpMcpSession:
        """Create a session that `register` stores if its `initialize` succeeds. Raises CapacityExceeded."""
        self._evict_unused(request.caller.id)
        return HttpMcpSession("", request.caller.id, self._new_dispatcher)

    def register(self, session: HttpMcpSession, credential: str) -> str:
        """Store an initialized session and return its new id."""
        version = session.dispatcher.protocol_version
        nonce = f"{self._randomness.bits(_NONCE_BITS):032x}"
        session.id = f"{version}.{nonce}.{make_session_seal(credential, session.workspace_id, version, nonce)}"
        self._add(session)
        self.opened += 1
        return session.id

    def find(self, request: Request, credential: str, id_: str) -> HttpMcpSession | None:
        """Return the session of this id, or None if the credential has none. Raises CapacityExceeded."""
        version, _, rest = id_.partition(".")
        nonce, _, session_seal = rest.partition(".")
        expected_seal = make_session_seal(credential, request.caller.id, version, nonce)
        # Compared as bytes: compare_digest raises on non-ASCII text, which a header may contain.
        if not hmac.compare_digest(session_seal.encode(), expected_seal.encode()) or version not in HANDSHAKE_VERSIONS:
            return None
        if id_ in self._ended:
            return None
        existing = self._all.get(id_)
        return existing if existing is not None else self._restore(request.caller.id, id_, version)

    def _restore(self, workspace_id: str, id_: str, version: str) -> HttpMcpSession:
        """Restore a session started by another process, or by this one before it was dropped from memory."""
        self._evict_unused(workspace_id)
        session = HttpMcpSession(id_, workspace_id, self._new_dispatcher)
        session.dispatcher.protocol_version = version
        session.dispatcher.initialized.set()
        self._add(session)
        self.restored += 1
        return session

    def _add(self, session: HttpMcpSession) -> None:
        self._all[session.id] = session
        self._by_workspace.setdefault(session.workspace_id, {})[session.id] = session
        self._mark_unused(session)

    def _evict_unused(self, workspace_id: str) -> None:
        """Drop the workspace's longest unused session if it has too many. The client can still restore it.

        Raises CapacityExceeded if all are in use."""
        own_sessions = self._by_workspace.get(workspace_id, {})
        maximum = self._limits.mcp_sessions
        if len(own_sessions) < maximum:
            return
        unused = min(((self._unused[each], each) for each in own_sessions if each in self._unused), default=None)
        if unused is None:
            raise CapacityExceeded(what="MCP sessions of this workspace", most=maximum)
        self._close_session(own_sessions[unused[1]])

    def end_session(self, session: HttpMcpSession) -> None:
        """End a session on its client's request; its id is rejected from now on."""
        self._ended[session.id] = None
        if len(self._ended) > _MAX_ENDED:
            self._ended.popitem(last=False)
        self._close_session(session)

    def _close_session(self, session: HttpMcpSession) -> None:
        self._all.pop(session.id, None)
        self._unused.pop(session.id, None)
        own_sessions = self._by_workspace.get(session.workspace_id, {})
        own_sessions.pop(session.id, None)
        if not own_sessions:
            self._by_workspace.pop(session.workspace_id, None)
        task = asyncio.create_task(session.dispatcher.close())
        self._closing_tasks.add(task)
        task.add_done_callback(self._closing_tasks.discard)
        error = NotFound(what="MCP session")
        for post_response in list(session.post_responses):
            post_response.terminate(error)
        if session.server_stream is not None:
            session.server_stream.terminate(error)

    # -- use -----------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def in_use(self, session: HttpMcpSession) -> Iterator[None]:
        """Keep a session in use during this block."""
        self.acquire(session)
        try:
            yield
        finally:
            self.release(session)

    def acquire(self, session: HttpMcpSession) -> None:
        """Mark a session as used once more."""
        session.use_count += 1
        self._unused.pop(session.id, None)

    def release(self, session: HttpMcpSession) -> None:
        """Undo one `acquire`; an unused session may expire."""
        session.use_count -= 1
        if not session.use_count and session.id in self._all:
            self._mark_unused(session)

    def _mark_unused(self, session: HttpMcpSession) -> None:
        self._unused[session.id] = self._clock.monotonic()
        if self._cleanup_task is None or self._cleanup_task.done():
            self._cleanup_task = asyncio.create_task(self._expire_unused())

    async def _expire_unused(self) -> None:
        """Close sessions as they expire. Always sleeps until the oldest one; newly unused ones expire later."""
        while self._unused:
            session_id, since = next(iter(self._unused.items()))
            remaining = since + self._limits.mcp_idle_seconds - self._clock.monotonic()
            if remaining > 0:
                await clock_sleep(self._clock, remaining)
            else:
                self._close_session(self._all[session_id])

    def attach_server_stream(self, session: HttpMcpSession, server_stream: ServerStream) -> None:
        """Set the stream of a session. A previous one is terminated: its client has lost it."""
        previous, session.server_stream = session.server_stream, server_stream
        if previous is not None:
            self._open_responses.disconnects[REPLACED] += 1
            previous.terminate(NotFound(what="stream"))

    def cancel_abandoned(self, session: HttpMcpSession, ids: set[RpcId]) -> None:
        """Cancel requests whose client no longer waits for the answers."""
        for each in ids:
            notification = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": each}}
            task = asyncio.create_task(session.dispatcher.receive(notification))
            self._closing_tasks.add(task)
            task.add_done_callback(self._closing_tasks.discard)

    async def close(self) -> None:
        """Close all sessions and stop the tasks."""
        for session in list(self._all.values()):
            self._close_session(session)
        if self._cleanup_task is not None:
            self._cleanup_task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._cleanup_task
        if self._closing_tasks:
            await asyncio.wait(self._closing_tasks)
