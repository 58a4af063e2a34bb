"""Random people do random things at random processes, wake-ups get lost, and all of it is as if there were one."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiClient, ApiError
from testing.running_server import Running
from testing.waits import bounded, eventually
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import SOON, deafen, servers
from tests.system.multi_process.test_caches import person_token

_STEPS = 120
_LEASE_SECONDS = 3600


class Model:
    """The ten lines that know what must be true: seats by name, and of each what was sent, claimed and handled."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.tokens: dict[str, str] = {}
        self.removed: set[str] = set()
        self.open: dict[str, list[str]] = {}
        self.held: dict[str, list[dict[str, Any]]] = {}
        self.sent: dict[str, str] = {}


class Walk:
    """One random walk over several servers."""

    def __init__(self, opened: list[Running], person: str, dice: random.Random) -> None:
        self.dice = dice
        self.model = Model()
        self.opened = opened
        self.people = [server.api(person) for server in opened]
        self.steps: list[Callable[[], Awaitable[None]]] = [
            *(self.create, self.rename, self.remove),
            *(self.send, self.send, self.send, self.send_again, self.claim, self.claim, self.ack),
        ]

    def anybody(self) -> ApiClient:
        """A person at some process."""
        return self.dice.choice(self.people)

    def agent(self, seat: str) -> ApiClient:
        """The agent of a seat at some process."""
        return self.dice.choice(self.opened).api(self.model.tokens[seat])

    def seat(self) -> str:
        """Some seat, also a removed one."""
        return self.dice.choice(list(self.model.tokens))

    async def create(self) -> None:
        """Two seats never share a name, whoever made them."""
        answer = await self.anybody().post("/workspaces", {"name": self.dice.choice("ABC")})
        assert answer["name"] not in self.model.names.values()
        self.model.names[answer["id"]] = answer["name"]
        self.model.tokens[answer["id"]] = answer["connection"]["auth_token"]
        self.model.open[answer["id"]], self.model.held[answer["id"]] = [], []

    async def rename(self) -> None:
        """A name that is taken gets a number."""
        seat = self.seat()
        path = f"/workspaces/{seat}"
        taken = {name for other, name in self.model.names.items() if other != seat}
        answer = await self.gone_or(seat, lambda: self.anybody().call("PATCH", path, body={"name": "D"}))
        if answer is not None:
            assert answer["name"] not in taken
            self.model.names[seat] = answer["name"]

    async def remove(self) -> None:
        """What is removed is gone for everybody."""
        seat = self.seat()
        path = f"/workspaces/{seat}"
        if len(self.model.names) < 3 or self.dice.random() < 0.5:
            return
        if await self.gone_or(seat, lambda: self.anybody().call("DELETE", path, query={"confirm": "true"})):
            self.model.removed.add(seat)
            del self.model.names[seat]

    async def send(self) -> None:
        """One message, one place in the inbox."""
        seat, id_ = self.seat(), f"m-{len(self.model.sent)}"
        answer = await self.gone_or(seat, lambda: self.anybody().send(seat, id_, message_id=id_))
        if answer is not None:
            self.model.sent[id_] = answer["activity_id"]
            self.model.open[seat].append(answer["activity_id"])

    async def send_again(self) -> None:
        """The same id at another process gets the same answer."""
        living = {row: seat for seat, rows in self.model.open.items() if seat in self.model.names for row in rows}
        again = [id_ for id_, row in self.model.sent.items() if row in living]
        if again:
            id_ = self.dice.choice(again)
            answer = await self.anybody().send(living[self.model.sent[id_]], id_, message_id=id_)
            assert answer["activity_id"] == self.model.sent[id_]

    async def claim(self) -> None:
        """What nobody holds, in order; never what somebody holds."""
        seat = self.seat()
        api = self.agent(seat)
        rows = await self.gone_or(seat, lambda: api.claim(seat, lease=_LEASE_SECONDS, wait=0, limit=3))
        if rows is not None:
            held = {row["id"] for row in self.model.held[seat]}
            assert [row["id"] for row in rows] == [id_ for id_ in self.model.open[seat] if id_ not in held][:3]
            self.model.held[seat] += rows

    async def ack(self) -> None:
        """What is handled is handled for all."""
        seat = self.seat()
        if self.model.held[seat]:
            row = self.model.held[seat].pop(0)
            api = self.agent(seat)
            if await self.gone_or(seat, lambda: api.ack(seat, row)) is not None:
                self.model.open[seat].remove(row["id"])

    async def gone_or(self, seat: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """What a call answers; None if it says, rightly, that the seat is gone."""
        try:
            answer = await bounded(call())
        except ApiError as error:
            assert error.status == 410 and seat in self.model.removed, error
            return None
        assert seat not in self.model.removed
        return answer


@requirement("M38", "P1", "P2", "M3", "M5", "M18")
@pytest.mark.parametrize("seed", range(3))
async def test_any_process_decides_as_if_it_were_the_only_one(place: str, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    async with servers(place, tmp_path, 3, limits=SOON) as opened:
        walk = Walk(opened, person_token(await opened[0].person()), dice)
        deafen(*dice.sample(opened, 2))  # most wake-ups are lost: only what is decided counts
        await walk.create()
        for _ in range(_STEPS):
            await dice.choice(walk.steps)()

        async def seen() -> list[dict[str, str]]:
            lists = await asyncio.gather(*(api.get("/workspaces") for api in walk.people))
            return [{each["id"]: each["name"] for each in listed} for listed in lists]

        wanted = [walk.model.names] * len(opened)
        assert await eventually(seen, lambda found: found == wanted) == wanted
