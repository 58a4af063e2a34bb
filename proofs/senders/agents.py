"""Those who are sent to: agents that follow a cursor, agents that claim and acknowledge, agents that are pushed to.

All three have bad lines. Above: proof.py. Below: the model.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from proofs.harness.caller import NoAnswer, Refused
from proofs.senders.cutting import CUT, CutCaller
from proofs.senders.model import Book
from proofs.senders.senders import heard
from proofs.workload.company import Seat
from testing.push_agents import HttpAgent, Pushed, Reply, said

# What a cut claim held comes again soon.
_LEASE_SECONDS = 3
_WAIT_SECONDS = 2
_ROWS = 100
_CLAIMED_ROWS = 50
# A refusal that should not be is noted; an agent that gets nothing else leaves.
_MOST_REFUSALS = 20


class Poller:
    """An agent that asks, until it is told to stop."""

    def __init__(self, seat: Seat, port: int, book: Book, dice: Random) -> None:
        self._seat = seat
        self._book = book
        self._line = CutCaller(port, seat.token, dice)
        self._path = f"/workspaces/{seat.id}/activity"

    async def follow(self) -> None:
        """Row by row behind a cursor; what lies behind it is handled thereby."""
        cursor: dict[str, str] = {}
        async with self._line:
            while True:
                rows = await self._ask(type="a2a_receive", wait=_WAIT_SECONDS, limit=_ROWS, **cursor)
                for row in rows if cursor else reversed(rows):
                    self._book.hand(row["id"], 0)
                    cursor = {"since_id": row["id"]}

    async def claim(self) -> None:
        """Claims, and acknowledges each."""
        async with self._line:
            while True:
                for row in await self._ask(claim=_LEASE_SECONDS, wait=_WAIT_SECONDS, limit=_CLAIMED_ROWS):
                    self._book.hand(row["id"], row["attempt"])
                    await self._acknowledge({"activity_id": row["id"], "attempt": row["attempt"]})

    async def _ask(self, **query: Any) -> list[dict[str, Any]]:
        for _ in range(_MOST_REFUSALS):
            try:
                rows: list[dict[str, Any]] = await self._line.get(self._path, **query)
                return rows
            except NoAnswer:
                self._book.figures["calls cut"] += 1
            except Refused as error:
                self._book.fault("refused", f"{query}: {error}")
        raise RuntimeError(f"nobody gives {query}")

    async def _acknowledge(self, handled: dict[str, Any]) -> None:
        for _ in range(_MOST_REFUSALS):
            try:
                await self._line.post(f"{self._path}/ack", handled)
                return
            except NoAnswer:
                self._book.figures["calls cut"] += 1
            except Refused as error:
                if error.code != "stale_attempt":  # its lease ended on a busy machine: it comes again
                    self._book.fault("refused", f"{handled}: {error}")
                return


class PushedTo:
    """All agents that are pushed to listen at one door, and hang up now and then instead of answering."""

    def __init__(self, book: Book, dice: Random) -> None:
        self._book = book
        self._dice = dice
        self._agent = HttpAgent()
        self._agent.reply = self._reply
        self._door: asyncio.Server | None = None

    async def open(self) -> str:
        """Opens the door; where it is."""
        self._door = await asyncio.start_server(self._agent.serve, "127.0.0.1", 0)
        self._agent.port = self._door.sockets[0].getsockname()[1]
        return self._agent.url

    async def close(self) -> None:
        """Closes it."""
        if self._door is not None:
            self._door.close()
            await self._door.wait_closed()

    async def _reply(self, pushed: Pushed) -> Reply:
        self._agent.pushed.clear()
        self._book.figures["pushed"] += 1
        self._book.hand(pushed.activity, pushed.attempt)
        if self._dice.random() < CUT:
            self._book.figures["pushes cut"] += 1
            raise ConnectionResetError("hung up before the answer")
        return said(heard(pushed.activity))


def ways_of(seat: Seat, port: int, book: Book, dice: Random) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The two ways of an agent that polls."""
    agent = Poller(seat, port, book, dice)
    return agent.follow, agent.claim
