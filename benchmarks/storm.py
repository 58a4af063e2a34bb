"""Agents who say something so many times a second, through the public API, and when each call was made and answered."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from benchmarks.load import Seat
from benchmarks.servers import Server
from molecule_core.client.api import ApiClient

RATE = 50
"""Events a second."""

Say = Callable[[int], Awaitable[str]]
"""Does the event with a number; returns the id of what it made, or nothing."""


class Told(Struct, frozen=True):
    """One call: the id of the message it made, when it was sent and when it was answered, milliseconds of the epoch."""

    id: str
    sent: float
    answered: float


class Agents:
    """Agents who hold their tokens, each with a connection of its own."""

    def __init__(self, server: Server, seats: Sequence[Seat]) -> None:
        self._seats = seats
        self._apis = [ApiClient(f"http://127.0.0.1:{server.port}", seat.token) for seat in seats]

    async def register(self) -> None:
        """All come online."""
        for seat, api in zip(self._seats, self._apis, strict=True):
            await api.post("/registry/register", {"id": seat.id, "agent_card": {"name": "Agent"}})
            await api.post("/registry/heartbeat", {"workspace_id": seat.id})

    async def say(self, number: int) -> str:
        """The first one writes to its user; the text has some formatting, as agents' texts have."""
        return await self._notify(0, number)

    async def report(self, number: int) -> str:
        """All in turns: one writes to its user, the next says what it works on."""
        at = number % len(self._seats)
        if number % 2:
            return await self._notify(at, number)
        task = {"workspace_id": self._seats[at].id, "active_tasks": 1, "current_task": f"Reading report {number}"}
        await self._apis[at].post("/registry/heartbeat", task)
        return ""

    async def write(self, count: int) -> list[str]:
        """All at once write so many messages each; returns the ids of their last ones."""

        async def write_in_turn(at: int) -> str:
            return [await self._notify(at, number) for number in range(count)][-1]

        return await asyncio.gather(*(write_in_turn(at) for at in range(len(self._seats))))

    async def _notify(self, at: int, number: int) -> str:
        text = f"Report {number} is **read**: `make check` passes, and nothing is left to do."
        answer = await self._apis[at].post(f"/workspaces/{self._seats[at].id}/notify", {"message": text})
        return str(answer["activity_id"])

    async def close(self) -> None:
        """All hang up."""
        for api in self._apis:
            await api.close()


async def storm(say: Say, seconds: float) -> list[Told]:
    """Events at their rate, whether or not those before were answered."""
    loop = asyncio.get_running_loop()
    start, calls = loop.time(), []
    for number in range(int(seconds * RATE)):
        await asyncio.sleep(start + number / RATE - loop.time())
        calls.append(asyncio.create_task(_timed(say, number)))
    return await asyncio.gather(*calls)


async def _timed(say: Say, number: int) -> Told:
    sent = time.time() * 1000
    return Told(await say(number), sent, time.time() * 1000)
