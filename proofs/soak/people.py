"""Two hundred agents that claim and acknowledge, senders at an even pace, and the book of what they were told."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, TypeVar

from proofs.harness.caller import Caller, NoAnswer, Refused
from proofs.harness.progress import Progress
from proofs.senders.cutting import CutCaller
from proofs.workload.company import Seat

T = TypeVar("T")
_LEASE_SECONDS, _WAIT_SECONDS, _ROWS = 5, 20, 4
# So many calls in a row without an answer are no bad luck any more.
_MOST_CUTS = 20


class Book:
    """What senders were told, and how long each of their calls took (begun at, seconds)."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.accepted: dict[str, str] = {}
        """Activity id -> message id."""
        self.handled: set[str] = set()
        self.waits: list[tuple[float, float]] = []
        self.figures: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.notes: list[str] = []

    def fault(self, what: str, note: str) -> None:
        """Something that must not be."""
        self.faults[what] += 1
        if self.faults[what] <= 3:
            self.notes.append(f"{what}: {note[:200]}")


async def insist(book: Book, call: Callable[[], Awaitable[T]], what: str, *, may_be_cut: bool = False) -> T:
    """Asks until there is an answer. An answer that does not come, or a refusal, is a fault if nobody has caused it.
    Raises RuntimeError if none ever comes, and Refused."""
    for _ in range(_MOST_CUTS):
        try:
            return await call()
        except NoAnswer as error:
            if not may_be_cut:
                book.fault("errors that nobody caused", f"{what}: {error}")
            book.figures["calls asked again"] += 1
        except Refused as error:
            if error.code != "stale_attempt":
                book.fault("errors that nobody caused", f"{what}: {error}")
            raise
    raise RuntimeError(f"nobody answers {what}")


class Agent:
    """One of those who claim."""

    def __init__(self, seat: Seat, port: int, book: Book) -> None:
        self._seat = seat
        self._port = port
        self._book = book
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Goes to work."""
        self._task = asyncio.create_task(self._work())

    async def die(self) -> None:
        """In the middle of what it does."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if not self._task.cancelled() and (error := self._task.exception()) is not None:
                self._book.fault("errors that nobody caused", f"an agent left: {error!r}")

    async def _work(self) -> None:
        path = f"/workspaces/{self._seat.id}/activity"
        claim = {"claim": _LEASE_SECONDS, "wait": _WAIT_SECONDS, "limit": _ROWS}
        async with Caller(self._port, self._seat.token) as api:
            while True:
                rows: list[dict[str, Any]] = await insist(self._book, lambda: api.get(path, **claim), "claim")
                for row in rows:
                    await self._handle(api, path, row)

    async def _handle(self, api: Caller, path: str, row: dict[str, Any]) -> None:
        self._book.figures["redelivered"] += row["attempt"] > 1
        handled = {"activity_id": row["id"], "attempt": row["attempt"]}
        try:
            await insist(self._book, lambda: api.post(f"{path}/ack", handled), "ack")
        except Refused:
            return  # a lease that ended while its agent was slow: it comes again
        self._book.handled.add(row["id"])
        self._book.progress.note("handled")


class Sender:
    """Sends a message whenever it is told to; each in a call of its own, so that a slow answer holds up nobody."""

    def __init__(self, port: int, seats: list[Seat], book: Book, dice: Random) -> None:
        self._port = port
        self._seats = seats
        self._book = book
        self._dice = dice
        self._number = 0

    async def send(self, *, is_cut: bool) -> None:
        """One message from one seat to another, over a connection of its own; `is_cut`: cut before the first answer."""
        self._number += 1
        id_ = f"m-{self._number}"
        source, to = self._dice.sample(self._seats, 2)
        parts = [{"kind": "text", "text": f"{id_} {'x' * self._dice.randrange(800)}"}]
        message = {"role": "user", "messageId": id_, "parts": parts, "metadata": {"intent": "inform"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
        path, loop = f"/workspaces/{to.id}/a2a", asyncio.get_running_loop()
        if is_cut:
            async with _Cut(self._port, source.token, self._dice) as bad:
                try:
                    await bad.post(path, body, x_timeout="0")
                except NoAnswer:
                    self._book.figures["calls asked again"] += 1
        began = loop.time()
        async with Caller(self._port, source.token) as api:
            answer = await insist(self._book, lambda: api.post(path, body, x_timeout="0"), id_)
        self._book.waits.append((began, loop.time() - began))
        self._book.accepted[answer["activity_id"]] = id_


class _Cut(CutCaller):
    """Whose calls are all cut."""

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        await self._cut_off(request)
        raise ConnectionResetError("cut before the answer")
