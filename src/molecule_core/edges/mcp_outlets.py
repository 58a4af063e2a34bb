"""Where the messages of one MCP request go: together in one JSON answer, or one by one as server-sent events.

An answer begins as JSON. It becomes a stream with the first message that is not the answer itself (progress), or when
the answer is long in coming, so that no proxy takes the silence for death. One clock looks after all of them.

Above: `edges/mcp.py`. Below: connections that are ours (`edges/sinks.py`).
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol

import msgspec

from molecule_core.access.model import Caller
from molecule_core.edges.beats import pause
from molecule_core.edges.heads import stream_head
from molecule_core.edges.listeners import Admitted
from molecule_core.edges.routes import Answer, Call
from molecule_core.edges.sinks import HeldConnection
from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import InvalidCredential, MoleculeError
from molecule_core.ground.limits import Limits
from molecule_core.wire.jsonrpc import Message

_EVENTS = b"text/event-stream; charset=utf-8"
_ALIVE = b": alive\n\n"
# Rounds of the clock in which a client took nothing of what waits for it, then it is cut.
_MOST_IDLE = 2
ENDED, SLOW, REPLACED = "credential ended", "too slow", "replaced"
Id = str | int


def event(message: Message) -> bytes:
    """A message as one event."""
    return b"event: message\ndata: %s\n\n" % msgspec.json.encode(message)


class EventStream(HeldConnection):
    """An answer that goes on as events until it is finished. `lost` is called once its connection is gone."""

    def __init__(self, lost: Callable[[], None]) -> None:
        super().__init__()
        self._lost = lost
        self._turn = asyncio.Lock()
        self._taken, self._idle = -1, 0
        self.is_open = False

    def open(self, first: Iterable[bytes], transport: asyncio.Transport, connections: set[Any], rate: bytes) -> None:
        """Takes a connection over: head, and what is to be said at once."""
        self.is_open = True
        self._hold(transport, connections, stream_head(_EVENTS, rate) + b"".join(first))

    async def tell(self, data: bytes) -> None:
        """Sends something, however long, once the client has taken nearly all of what came before. One at a time: of
        several that have waited for the same moment, each but the first would find what that one has just written."""
        async with self._turn:
            await self.drained()
            if not self._transport.is_closing():
                self.write(data)

    def show_life(self) -> None:
        """A sign of life, unless there is one: whoever reads has something to read."""
        if not self.unread() and not self._transport.is_closing():
            self.write(_ALIVE)

    def is_stuck(self) -> bool:
        """Whether the client took nothing of what waits for it since the last looks."""
        before, self._taken = self._taken, self.taken()
        self._idle = self._idle + 1 if self.unread() > 0 and before == self._taken else 0
        return self._idle >= _MOST_IDLE

    def finish(self) -> None:
        """All is said: closes once the client has taken it."""
        self._transport.close()

    def cut(self) -> None:
        """Ends it at once."""
        self._transport.abort()

    def shutdown(self) -> None:
        """The server stops; an answer that is still due is waited for, as on every other connection."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._lost()


class StandingStream(EventStream):
    """What a session's client opens to be told what it did not ask for."""

    def __init__(self, lost: Callable[[], None], limit: int) -> None:
        super().__init__(lost)
        self._limit = limit

    def say(self, data: bytes) -> bool:
        """Sends something at once; False if the client has left too much unread of what came before, and is cut for
        it."""
        if self._transport.is_closing():
            return True
        if self.unread() > self._limit:
            self.cut()
            return False
        self.write(data)
        return True

    def shutdown(self) -> None:
        """The server stops."""
        self._close_soon()


class Channel(Admitted, Protocol):
    """What the clock looks after."""

    def tick(self) -> str | None:
        """A look after some time; why it was cut, if it was."""

    def cut(self, error: MoleculeError) -> None:
        """Ends it, and says why if that is still possible."""


class Channels:
    """All requests of MCP that are being answered, and the streams that stand open."""

    def __init__(self, clock: Clock, limits: Limits, has_ended: Callable[[Admitted], bool]) -> None:
        self._clock = clock
        self._limits = limits
        self._has_ended = has_ended
        self._all: set[Channel] = set()
        self._looking: asyncio.Task[None] | None = None
        self.cuts = Counter({ENDED: 0, SLOW: 0, REPLACED: 0})

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, channel: Channel) -> bool:
        return channel in self._all

    def add(self, channel: Channel) -> None:
        """Looks after one more."""
        self._all.add(channel)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_after())

    def discard(self, channel: Channel) -> None:
        """It has ended."""
        self._all.discard(channel)

    def end_those_over(self) -> None:
        """Some credential has ended: what it let in ends too."""
        for channel in list(self._all):
            if self._has_ended(channel):
                self.cuts[ENDED] += 1
                channel.cut(InvalidCredential())

    async def _look_after(self) -> None:
        while self._all:
            await pause(self._clock, self._limits.live_seconds)
            self.end_those_over()
            for channel in list(self._all):
                cut = channel.tick()
                if cut is not None:
                    self.cuts[cut] += 1

    async def close(self) -> None:
        """The server stops."""
        if self._looking is not None:
            self._looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._looking


class Outlet:
    """The answer to one POST. Whatever works on it finds it under `current()`, in tasks of its own too."""

    def __init__(
        self,
        origin: Call,
        credential: str,
        holder: str,
        wanted: set[Id],
        give_up: Callable[[set[Id]], None],
        *,
        streams: bool,
    ) -> None:
        """`holder`: who has what a tool takes: a session, or a credential. `wanted`: the ids that are to be
        answered. `give_up`: nobody waits for these any more. `streams`: whether the client takes events."""
        self.origin = origin
        self.credential = credential
        self.holder = holder
        self.answers: list[Message] = []
        self.refusal: MoleculeError | None = None
        self.is_stream = False
        self._wanted = wanted
        self._give_up = give_up
        self._streams = streams
        self._waiting: list[bytes] = []
        self._decided: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ticks = 0
        self._to_say = 0
        self._stream = EventStream(self.leave)
        self.when_over: Callable[[], None] = lambda: None

    @property
    def caller(self) -> Caller:
        """Who asked."""
        return self.origin.by

    @property
    def workspace_id(self) -> str:
        """As which workspace."""
        return self.caller.id

    @property
    def whole(self) -> bool:
        """Whether all answers are there."""
        return not self._wanted

    async def decided(self) -> None:
        """Returns once it is known how the answer goes out."""
        await asyncio.wait((self._decided,))

    async def send(self, message: Message) -> None:
        """Takes a message: an answer, or something before it. Whoever tells more than the client reads has to wait."""
        if "method" not in message:
            self._wanted.discard(message["id"])
            self.answers.append(message)
        elif not self._streams:  # this client has said that it takes the answer only
            return
        if self._stream.is_open:
            await self._tell(event(message))
            return
        self._waiting.append(event(message))
        if self.whole:
            self._decide(stream=False)
        elif "method" in message:
            self._decide(stream=True)

    async def _tell(self, data: bytes) -> None:
        self._to_say += 1
        try:
            await self._stream.tell(data)
        finally:
            self._to_say -= 1
            self._finish_if_said()
        await self._stream.drained()  # a call is under way, and counts, until its client has the answer

    def _finish_if_said(self) -> None:
        """Closes the stream after the last answer; of those that are there already, some may wait for their turn."""
        if self.whole and not self._to_say:
            self._stream.finish()

    def _decide(self, *, stream: bool) -> None:
        if not self._decided.done():
            self.is_stream = stream
            self._decided.set_result(None)

    def as_stream(self) -> Answer:
        """The answer that takes the connection over."""
        return Answer(b"", take=self._open)

    def _open(self, transport: asyncio.Transport, connections: set[Any], data: bytes, rate: bytes) -> None:
        self._stream.open(self._waiting, transport, connections, rate)
        self._waiting = []
        if self.whole:
            self._stream.finish()

    def tick(self) -> str | None:
        """Long in coming: the client is told that we are at it. One that takes nothing is cut."""
        self._ticks += 1
        if self._stream.is_open:
            if self._stream.is_stuck():
                self._stream.cut()
                return SLOW
            self._stream.show_life()
        elif self.is_stream:  # its connection has gone before it could take it over
            self.leave()
        elif self._ticks > 1 and self._streams:
            self._decide(stream=True)
        return None

    def cut(self, error: MoleculeError) -> None:
        """Ends it: with a refusal, if nothing has been said yet."""
        self.refusal = error
        if self._stream.is_open:
            self._stream.cut()
        else:
            self._decide(stream=False)
            self.leave()

    def leave(self) -> None:
        """Nobody waits for the answer any more: what works on it may stop."""
        given_up, self._wanted = self._wanted, set()
        if given_up:
            self._give_up(given_up)
        self.when_over()

    def cancelled(self, id_: Id) -> None:
        """The client itself wants no answer to a request any more, and gets none."""
        if id_ not in self._wanted:
            return
        self._wanted.discard(id_)
        if not self._wanted and self._stream.is_open:
            self._finish_if_said()
        elif not self._wanted:
            self._decide(stream=bool(self._waiting) and self._streams)


class Standing:
    """The stream that a session's client has opened for what it did not ask for."""

    def __init__(self, origin: Call, credential: str, lost: Callable[[], None], limit: int) -> None:
        self.caller = origin.by
        self.credential = credential
        self.workspace_id = origin.by.id
        self._lost = lost
        self._ticks = 0
        self._stream = StandingStream(lost, limit)

    def answer(self) -> Answer:
        """The answer that takes the connection over."""
        return Answer(b"", take=self._open)

    def _open(self, transport: asyncio.Transport, connections: set[Any], data: bytes, rate: bytes) -> None:
        self._stream.open((_ALIVE,), transport, connections, rate)

    async def send(self, message: Message) -> None:
        """Tells the client something."""
        if self._stream.is_open:
            self._stream.say(event(message))
            await self._stream.drained()

    def tick(self) -> str | None:
        """A sign of life."""
        self._ticks += 1
        if self._stream.is_open:
            if self._stream.is_stuck() or not self._stream.say(_ALIVE):
                self._stream.cut()
                return SLOW
        elif self._ticks > 1:  # its connection has gone before it could take it over
            self._lost()
        return None

    def cut(self, _error: MoleculeError) -> None:
        """Ends it."""
        if self._stream.is_open:
            self._stream.cut()
        else:
            self._lost()


_CURRENT: ContextVar[Outlet] = ContextVar("outlet")


def current() -> Outlet | None:
    """The answer that this task works on; None outside of requests."""
    return _CURRENT.get(None)


@contextlib.contextmanager
def working_on(outlet: Outlet) -> Iterator[None]:
    """All that is begun in this block, in tasks of its own too, works on this answer."""
    token = _CURRENT.set(outlet)
    try:
        yield
    finally:
        _CURRENT.reset(token)
