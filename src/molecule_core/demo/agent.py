"""One agent of the company, a process of its own: `python -m molecule_core.demo.agent`.

Above: staff, which starts it. Below: mind, which decides; client, which speaks to the server.

Its first line of standard input is its Posting as JSON, so that its token stands neither among the arguments nor in the
environment. It says `seated` on standard output once it has its seat. When its input ends, whoever started it is gone,
also after a kill -9, and it ends too.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.demo.hosted import host
from molecule_core.demo.mail import card_of, message_of, peer_of
from molecule_core.demo.mcp import ServerEnded
from molecule_core.demo.mind import Reaction, State, react, tasks
from molecule_core.demo.model import Ack, Action, Message, Peer, Posting, Say, Send, Work
from molecule_core.ground.clock import Clock, SystemClock

T = TypeVar("T")
SEATED = "seated"
# A restarted agent gets the messages of its life before when their lease ends: no person should wait long for that.
LEASE_SECONDS = 5
# Three of them fit into the ten seconds after which the demo counts an agent as silent.
_BEAT_SECONDS = 3.0
_WAIT_SECONDS = 25
_AGAIN_SECONDS = 1.0
# A page of mail is worked through before the next is asked for: a long one would make its last rows wait.
_PAGE = 20
_LONGEST_POSTING = 1 << 20
# HTTP's statuses. 409 says: this was done before in other words, or a later hand-over of the message counts.
_DONE_BEFORE, _TOO_MANY, _SERVER_TROUBLE = 409, 429, 500


class SeatGone(Exception):
    """The seat was removed, or its token counts no more."""


class Agent:
    """Keeps one seat: takes its mail, decides, acts, and says all the while that it is there."""

    def __init__(self, posting: Posting, api: Api, clock: Clock) -> None:
        self._seat = posting.seat
        self._id = posting.workspace_id
        self._api = api
        self._clock = clock
        self._parent_id: str | None = None
        self._state = State()
        self._asked: dict[str, str] = {}
        self._doing: str | None = None
        self._changed = asyncio.Event()
        self._started = clock.monotonic()

    async def run(self, seated: Callable[[], None]) -> None:
        """Takes the seat and keeps it; `seated` is called in between. Ends only by raising SeatGone."""
        card = card_of(self._seat)
        await self._own(lambda: self._api.post("/registry/register", {"id": self._id, "agent_card": card}))
        self._parent_id = (await self._own(lambda: self._api.get(f"/workspaces/{self._id}")))["parent_id"]
        seated()
        beating = asyncio.create_task(self._beat())
        try:
            while True:
                claiming = self._own(
                    lambda: self._api.claim(self._id, lease=LEASE_SECONDS, wait=_WAIT_SECONDS, limit=_PAGE)
                )
                for row in await claiming:
                    await self._handle(message_of(row, self._asked))
        finally:
            beating.cancel()

    # -- being there ---------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        """A heartbeat every few seconds, and at once when the work changes. One that is lost is made up by the next."""
        while True:
            self._changed.clear()
            with suppress(NoAnswer, ApiError):
                await self._api.post("/registry/heartbeat", self._pulse())
            await self._clock.wait(self._changed.wait(), _BEAT_SECONDS)

    def _pulse(self) -> dict[str, Any]:
        waiting = tasks(self._state)
        busy = [*waiting, self._doing] if self._doing is not None else waiting
        return {
            "workspace_id": self._id,
            "active_tasks": len(busy),
            "current_task": busy[-1] if busy else None,
            "uptime_seconds": int(self._clock.monotonic() - self._started),
        }

    # -- mail ----------------------------------------------------------------------------------------------------------

    async def _claim(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = await self._api.claim(
            self._id, lease=LEASE_SECONDS, wait=_WAIT_SECONDS, limit=_PAGE
        )
        return rows

    async def _handle(self, message: Message) -> None:
        peers = await self._peers() if message.is_request else []
        reaction = react(self._seat, self._state, message, peers)
        self._remember(reaction)
        for action in reaction.actions:
            await self._act(action)
        self._show(None)

    def _remember(self, reaction: Reaction) -> None:
        before, self._state = tasks(self._state), reaction.state
        if before != tasks(self._state):
            self._changed.set()

    def _show(self, task: str | None) -> None:
        if task != self._doing:
            self._doing = task
            self._changed.set()

    async def _peers(self) -> list[Peer]:
        rows = await self._own(lambda: self._api.get(f"/registry/{self._id}/peers"))
        return [peer_of(row, self._id, self._parent_id) for row in rows]

    async def _act(self, action: Action) -> None:
        match action:
            case Work():
                self._show(action.task)
                await self._clock.wait(_never(), action.seconds)
            case Say():
                await self._done(lambda: self._say(action))
            case Send():
                await self._done(lambda: self._send(action))
            case Ack():
                handled = {"id": action.message.id, "attempt": action.message.attempt}
                await self._done(lambda: self._api.ack(self._id, handled))

    async def _say(self, said: Say) -> Any:
        headers = {"idempotency-key": said.key}
        return await self._api.call(
            "POST", f"/workspaces/{self._id}/notify", body={"message": said.text}, headers=headers
        )

    async def _send(self, sent: Send) -> None:
        """Notes how the server calls a question: whoever answers it may name it so."""
        receipt = await self._api.post(f"/workspaces/{sent.to}/a2a", _envelope(sent))
        if sent.intent == "request" and isinstance(receipt.get("activity_id"), str):
            self._asked[receipt["activity_id"]] = sent.message_id

    # -- the server may be away, busy, or refuse -----------------------------------------------------------------------

    async def _own(self, call: Callable[[], Awaitable[T]]) -> T:
        """What the server answers about one's own seat. Raises SeatGone if it refuses."""
        try:
            return await self._insist(call)
        except ApiError as error:
            raise SeatGone(str(error)) from error

    async def _done(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Does something that may turn out to be done before, or impossible: a peer may have been removed."""
        try:
            await self._insist(call)
        except ApiError as error:
            if error.status != _DONE_BEFORE:
                sys.stderr.write(f"{self._seat.name}: {error}\n")

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Asks until the server is there and has time. Raises ApiError for what it will refuse again."""
        while True:
            try:
                return await call()
            except NoAnswer:
                pass
            except ApiError as error:
                if error.status != _TOO_MANY and error.status < _SERVER_TROUBLE:
                    raise
            await self._clock.wait(_never(), _AGAIN_SECONDS)


def _envelope(send: Send) -> dict[str, Any]:
    metadata: dict[str, str] = {"intent": send.intent}
    if send.in_reply_to is not None:
        metadata["in_reply_to"] = send.in_reply_to
    message = {
        "role": "agent",
        "messageId": send.message_id,
        "parts": [{"kind": "text", "text": send.text}],
        "metadata": metadata,
    }
    return {"jsonrpc": "2.0", "id": send.message_id, "method": "message/send", "params": {"message": message}}


def _never() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


# -- the process -------------------------------------------------------------------------------------------------------


async def _standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_LONGEST_POSTING)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    return reader


def _say_seated() -> None:
    os.write(sys.stdout.fileno(), f"{SEATED}\n".encode())


async def _live(posting: Posting, lifeline: asyncio.StreamReader) -> None:
    """Keeps the seat until the input ends. Raises SeatGone."""
    keeping = asyncio.create_task(_keep(posting))
    ending = asyncio.create_task(lifeline.read())
    await asyncio.wait((keeping, ending), return_when=asyncio.FIRST_COMPLETED)
    if keeping.done():
        keeping.result()
    keeping.cancel()
    await asyncio.wait((keeping,))


async def _keep(posting: Posting) -> None:
    """Keeps the seat in the way of its agent. Raises SeatGone."""
    clock = SystemClock()
    if posting.seat.host == "mcp":
        try:
            await host(posting, clock, _say_seated, lease=LEASE_SECONDS, beat=_BEAT_SECONDS)
        except ServerEnded:
            raise SeatGone("`molecule mcp` has ended; what it says stands above") from None
    async with Api(posting.url, posting.token) as api:
        await Agent(posting, api, clock).run(_say_seated)


async def main() -> str | None:
    """One life of one agent. Returns why it ended, if that was not asked for."""
    lifeline = await _standard_input()
    told = await lifeline.readline()
    if not told:
        return None  # whoever started it was gone before it could say anything
    posting = msgspec.json.decode(told, type=Posting)
    try:
        await _live(posting, lifeline)
    except SeatGone as error:
        return f"{posting.seat.name} has lost its seat: {error}"
    return None


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
