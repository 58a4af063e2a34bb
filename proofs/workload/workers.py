"""Agents that are given tasks: half of them poll, half of them are pushed to. They answer everything, always the same.

Above: givers. Below: the people's way of asking (company.py), the model (ends.py).
"""

import asyncio
from collections.abc import Awaitable, Callable

from proofs.harness.caller import Caller, Refused
from proofs.harness.serving import ADMIN_TOKEN, Place
from proofs.workload.company import Company, Seat
from proofs.workload.delegation_model import Works, done
from testing.push_agents import HttpAgent, Pushed, Reply, said

POLLING, PUSHED = 2, 2
_HANDS = 2
"""Agents of one seat that polls."""
Way = Callable[[int], Awaitable[int]]
"""Opens a way to a port of this machine; tells the port at which it begins."""


async def straight(port: int) -> int:
    """Nothing lies between."""
    return port


class Doers:
    """Seats that do what they are given."""

    def __init__(self, server: Place, company: Company, works: Works, way: Way = straight) -> None:
        """`way` is the one by which the server finds those that are pushed to."""
        self._way = way
        self._server = server
        self._company = company
        self._works = works
        self._listening = HttpAgent()
        self._listening.reply = self._pushed
        self._door: asyncio.Server | None = None
        self._polling: list[Seat] = []
        self.pushed: list[Seat] = []
        """Those that are pushed to."""
        self.targets: list[str] = []
        self.pushes = 0
        self.tasks: list[asyncio.Task[None]] = []

    async def found(self) -> None:
        """Makes the seats, and opens the door of those that are pushed to."""
        self._door = await asyncio.start_server(self._listening.serve, "127.0.0.1", 0)
        self._listening.port = await self._way(self._door.sockets[0].getsockname()[1])
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            self._polling = [Seat(await admin.post("/workspaces", {"name": f"Doer {n}"})) for n in range(POLLING)]
            url = {"url": self._listening.url, "max_concurrent_tasks": 4}
            self.pushed = [Seat(await admin.post("/workspaces", {"name": f"Pushed {n}", **url})) for n in range(PUSHED)]
            self._works.absent = (await admin.post("/workspaces", {"name": "Absent"}))["id"]
        self.targets = [*(seat.id for seat in self._polling), *(seat.id for seat in self.pushed)]

    def begin(self) -> None:
        """Everybody goes to work."""
        self.tasks = [asyncio.create_task(self._work(n)) for n in range(POLLING * _HANDS)]

    async def kill_one(self, place: int) -> None:
        """An agent that polls dies in the middle of what it does; another takes its seat, knowing nothing."""
        await self._company.kill(self.tasks[place])
        self.tasks[place] = asyncio.create_task(self._work(place))

    async def close(self) -> None:
        """Closes the door."""
        if self._door is not None:
            self._door.close()
            await self._door.wait_closed()

    async def _pushed(self, pushed: Pushed) -> Reply:
        self.pushes += 1
        self._listening.pushed.clear()
        return said(done(pushed.activity))

    async def _work(self, place: int) -> None:
        seat = self._polling[place % POLLING]
        async with Caller(self._server.port, seat.token) as api:
            while True:
                for row in await self._company.claim(api, seat.id, self._works.hands, "tasks"):
                    await self.answer(api, row["id"], row["source_id"])

    async def answer(self, api: Caller, id_: str, source_id: str) -> None:
        """Its answer to a task is the result, and handles it."""
        message = {
            "role": "agent",
            "messageId": f"done-{id_}",
            "parts": [{"kind": "text", "text": done(id_)}],
            "metadata": {"delegation_id": id_},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
        try:
            await self._company.insist(lambda: api.post(f"/workspaces/{source_id}/a2a", body, x_timeout="0"))
        except Refused as error:
            self._company.refused(error, f"answer to {id_}")
        else:
            self._works.hands.handle(id_)
