"""Sessions of MCP's first era: what a client has begun with `initialize` and goes on with under an id.

An id is proved by itself: it holds the protocol version, and a seal that only who holds the credential can have got. So
a session outlives its server process: another one, or the same after a restart, takes it up where it was, and no client
has to begin anew. In memory a session is kept while it is used, and for a while after.

Above: `edges/mcp.py`. Below: the dispatcher (`wire/mcp.py`).
"""

import asyncio
import contextlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Iterator
from hashlib import sha256

from molecule_core.edges.beats import pause
from molecule_core.edges.mcp_outlets import REPLACED, Channels, Id, Outlet, Standing, current
from molecule_core.edges.routes import Call
from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import NotFound, TooManyOpen
from molecule_core.ground.ids import Randomness
from molecule_core.ground.limits import Limits
from molecule_core.wire.jsonrpc import Message, object_of, usable_id
from molecule_core.wire.mcp import HANDSHAKE_VERSIONS, Session

# Ids that were ended by their clients are refused as long as they are remembered.
_MOST_ENDED = 10_000
_NONCE_BITS = 128


class McpSession:
    """A session, its dispatcher, and the stream on which its client is told what it did not ask for."""

    def __init__(self, id_: str, workspace_id: str, begin: "Callable[[McpSession], Session]") -> None:
        self.id = id_
        self.workspace_id = workspace_id
        self.dispatcher = begin(self)
        self.standing: Standing | None = None
        self.outlets: set[Outlet] = set()
        self.uses = 0

    async def send(self, message: Message) -> None:
        """A message goes to the request that it is about; to the standing stream, if it is about none."""
        outlet = current()
        if outlet is not None:
            await outlet.send(message)
        elif self.standing is not None:
            await self.standing.send(message)

    def cancelled(self, messages: list[Message]) -> None:
        """Its client has given up these requests, and the dispatcher answers them no more."""
        for each in messages:
            if each.get("method") == "notifications/cancelled":
                id_ = usable_id(object_of(each.get("params")).get("requestId"))
                if id_ is not None:
                    for outlet in list(self.outlets):
                        outlet.cancelled(id_)


def seal(credential: str, workspace_id: str, version: str, nonce: str) -> str:
    """What proves that a session belongs to a credential (given by its hash) and a workspace."""
    text = f"mcp {workspace_id} {version} {nonce}"
    return hmac.new(credential.encode(), text.encode(), sha256).hexdigest()[:32]


class Sessions:
    """The sessions that this process keeps."""

    def __init__(
        self,
        begin: Callable[[McpSession], Session],
        channels: Channels,
        *,
        clock: Clock,
        randomness: Randomness,
        limits: Limits,
    ) -> None:
        """`begin` makes the dispatcher of a session."""
        self._begin = begin
        self._channels = channels
        self._clock = clock
        self._randomness = randomness
        self._limits = limits
        self._all: dict[str, McpSession] = {}
        self._of: dict[str, dict[str, McpSession]] = {}
        self._unused: OrderedDict[str, float] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()
        self._tidying: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.opened = 0
        self.taken_up = 0

    def __len__(self) -> int:
        return len(self._all)

    # -- in and out ----------------------------------------------------------------------------------------------------

    def new(self, call: Call) -> McpSession:
        """A session that is not yet kept: its client's `initialize` decides. Raises TooManyOpen."""
        self._make_room(call.by.id)
        return McpSession("", call.by.id, self._begin)

    def keep(self, session: McpSession, credential: str) -> str:
        """The client has been greeted: from here on the session has an id, which is returned."""
        version = session.dispatcher.protocol_version
        nonce = f"{self._randomness.bits(_NONCE_BITS):032x}"
        session.id = f"{version}.{nonce}.{seal(credential, session.workspace_id, version, nonce)}"
        self._add(session)
        self.opened += 1
        return session.id

    def find(self, call: Call, credential: str, id_: str) -> McpSession | None:
        """The session of this id; None if the caller's credential has none. Raises TooManyOpen."""
        version, _, rest = id_.partition(".")
        nonce, _, sealed = rest.partition(".")
        proof = seal(credential, call.by.id, version, nonce)
        # Compared as bytes: a header may hold anything.
        if not hmac.compare_digest(sealed.encode(), proof.encode()) or version not in HANDSHAKE_VERSIONS:
            return None
        if id_ in self._ended:
            return None
        known = self._all.get(id_)
        return known if known is not None else self._take_up(call.by.id, id_, version)

    def _take_up(self, workspace_id: str, id_: str, version: str) -> McpSession:
        """A session that another process has begun, or this one before it forgot it."""
        self._make_room(workspace_id)
        session = McpSession(id_, workspace_id, self._begin)
        session.dispatcher.protocol_version = version
        session.dispatcher.initialized.set()
        self._add(session)
        self.taken_up += 1
        return session

    def _add(self, session: McpSession) -> None:
        self._all[session.id] = session
        self._of.setdefault(session.workspace_id, {})[session.id] = session
        self._now_unused(session)

    def _make_room(self, workspace_id: str) -> None:
        """Of too many sessions the one goes that was not used for the longest time; its client will not notice."""
        own = self._of.get(workspace_id, {})
        most = self._limits.mcp_sessions
        if len(own) < most:
            return
        unused = min(((self._unused[each], each) for each in own if each in self._unused), default=None)
        if unused is None:
            raise TooManyOpen(what="MCP sessions of this workspace", most=most)
        self._forget(own[unused[1]])

    def end(self, session: McpSession) -> None:
        """Its client has ended it: the id is good for nothing any more."""
        self._ended[session.id] = None
        if len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)
        self._forget(session)

    def _forget(self, session: McpSession) -> None:
        self._all.pop(session.id, None)
        self._unused.pop(session.id, None)
        own = self._of.get(session.workspace_id, {})
        own.pop(session.id, None)
        if not own:
            self._of.pop(session.workspace_id, None)
        task = asyncio.create_task(session.dispatcher.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        gone = NotFound(what="MCP session")
        for outlet in list(session.outlets):
            outlet.cut(gone)
        if session.standing is not None:
            session.standing.cut(gone)

    # -- use -----------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def used(self, session: McpSession) -> Iterator[None]:
        """In this block the session is in use."""
        self.hold(session)
        try:
            yield
        finally:
            self.release(session)

    def hold(self, session: McpSession) -> None:
        """Somebody uses it."""
        session.uses += 1
        self._unused.pop(session.id, None)

    def release(self, session: McpSession) -> None:
        """Nobody does any more, if all have released it."""
        session.uses -= 1
        if not session.uses and session.id in self._all:
            self._now_unused(session)

    def _now_unused(self, session: McpSession) -> None:
        self._unused[session.id] = self._clock.monotonic()
        if self._tidying is None or self._tidying.done():
            self._tidying = asyncio.create_task(self._tidy())

    async def _tidy(self) -> None:
        """Sleeps until the session that has been unused for the longest time may go. New ones are always later."""
        while self._unused:
            session_id, since = next(iter(self._unused.items()))
            left = since + self._limits.mcp_idle_seconds - self._clock.monotonic()
            if left > 0:
                await pause(self._clock, left)
            else:
                self._forget(self._all[session_id])

    def stand(self, session: McpSession, standing: Standing) -> None:
        """A session has one standing stream: a client that opens another one has lost the first."""
        before, session.standing = session.standing, standing
        if before is not None:
            self._channels.cuts[REPLACED] += 1
            before.cut(NotFound(what="stream"))

    def give_up(self, session: McpSession, ids: set[Id]) -> None:
        """Nobody waits for the answers to these requests."""
        for each in ids:
            told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": each}}
            task = asyncio.create_task(session.dispatcher.take(told))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """The server stops."""
        for session in list(self._all.values()):
            self._forget(session)
        if self._tidying is not None:
            self._tidying.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._tidying
        if self._closing:
            await asyncio.wait(self._closing)
