"""Which work is under way, as a page knows it: an old snapshot and its events are the new snapshot."""

import contextlib
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiError
from tests.clocks import FakeClock
from tests.engines import Engine
from tests.journeys.follow import compared, follow, state_of
from tests.journeys.livewire import journal_of, snapshot_at_rest
from tests.requirements import requirement
from tests.running import Running, Seat, running

STEPS = 60


class Bustle:
    """Three agents that give each other work, and do with it what agents do."""

    def __init__(self, server: Running, clock: FakeClock, seats: list[Seat], seed: int) -> None:
        self.server = server
        self.clock = clock
        self.seats = seats
        self.dice = random.Random(seed)
        self.taken: list[dict[str, Any]] = []

    async def go_on(self) -> None:
        """Random verbs, and a snapshot now and then. What the server refuses does no harm."""
        verbs: list[Callable[[Seat], Awaitable[object]]] = [
            self.delegate,
            self.delegate,
            self.delegate,
            self.claim,
            self.claim,
            self.report,
            self.end,
            self.end,
            self.end,
            self.cancel,
            self.retry,
            self.record,
            self.wait,
        ]
        for _ in range(STEPS):
            with contextlib.suppress(ApiError):
                await self.dice.choice(verbs)(self.dice.choice(self.seats))
            if self.dice.random() < 0.2:
                await self.look()
        await self.look()

    async def look(self) -> None:
        self.taken.append(await snapshot_at_rest(self.server))

    def other(self, seat: Seat) -> Seat:
        return self.dice.choice([each for each in self.seats if each is not seat])

    async def delegate(self, seat: Seat) -> None:
        body = {"target_id": self.other(seat).id, "task": f"task {self.dice.randrange(5)}"}
        await seat.api.post(f"/workspaces/{seat.id}/delegate", body)

    async def record(self, seat: Seat) -> None:
        own = f"own-{self.dice.randrange(1000)}"
        body = {"target_id": self.other(seat).id, "task": "elsewhere", "delegation_id": own}
        await seat.api.post(f"/workspaces/{seat.id}/delegations/record", body)

    async def claim(self, seat: Seat) -> None:
        await seat.api.claim(seat.id, wait=0, limit=self.dice.randrange(1, 4))

    async def one(self, seat: Seat, direction: str, state: str | None = "open") -> str:
        more = {} if state is None else {"state": state}
        rows = await seat.api.get(f"/workspaces/{seat.id}/delegations", direction=direction, **more)
        return str(self.dice.choice(rows)["delegation_id"]) if rows else "nothing"

    async def report(self, seat: Seat) -> None:
        said = {"current_step": f"step {self.dice.randrange(9)}", "percent": self.dice.randrange(101)}
        await seat.api.post(f"/delegations/{await self.one(seat, 'in')}/status", said)

    async def end(self, seat: Seat) -> None:
        way, status = self.dice.choice(["in", "in", "out"]), self.dice.choice(["completed", "completed", "failed"])
        delegation_id = await self.one(seat, way)
        said = {"status": status, "result": "sorted", "error": "no access"}
        await seat.api.post(f"/workspaces/{seat.id}/delegations/{delegation_id}/update", said)

    async def cancel(self, seat: Seat) -> None:
        path = f"/workspaces/{seat.id}/delegations/{await self.one(seat, 'out')}/cancel"
        await self.server.admin.post(path, {"reason": "enough"})

    async def retry(self, seat: Seat) -> None:
        await seat.api.post(f"/workspaces/{seat.id}/delegations/{await self.one(seat, 'out', None)}/retry")

    async def wait(self, _seat: Seat) -> None:
        await self.clock.advance(self.dice.choice([1, 70]))


async def bustle(engine: Engine, place: str, state: Path, clock: FakeClock, seed: int) -> tuple[Any, Any]:
    """The snapshots that were taken, and all events."""
    async with running(engine, place, state, clock=clock) as server:
        seats = [await server.seat(name) for name in ("One", "Two", "Three")]
        found = Bustle(server, clock, seats, seed)
        await found.go_on()
        return found.taken, await journal_of(server)


@requirement("M34", "C23", "D1")
@pytest.mark.parametrize("seed", range(3))
async def test_what_is_under_way_is_the_same_by_events_as_in_a_new_snapshot(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, seed: int
) -> None:
    taken, events = await bustle(engine, place, tmp_path, clock, seed)
    assert max(len(each["delegations"]) for each in taken) > 2
    for number, old in enumerate(taken):
        for new in taken[number:]:
            between = [event for event in events if event["seq"] <= new["as_of"]]
            assert compared(follow(state_of(old), between))["delegations"] == compared(state_of(new))["delegations"]
    told = {event["event"] for event in events if event["entity"]["kind"] == "delegation"}
    assert told == {"DELEGATION_SENT", "DELEGATION_STATUS", "DELEGATION_COMPLETE", "DELEGATION_FAILED"}


@requirement("M34", "C23")
async def test_without_one_event_of_a_delegation_the_page_would_be_wrong(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    """The control: some snapshot becomes something else if the beginning or the end of some work is lost."""
    taken, events = await bustle(engine, place, tmp_path, clock, 1)
    end = compared(state_of(taken[-1]))["delegations"]
    wrong = dict.fromkeys(("DELEGATION_SENT", "DELEGATION_COMPLETE", "DELEGATION_FAILED"), 0)
    for dropped in [event for event in events if event["event"] in wrong]:
        rest = [event for event in events if event is not dropped]
        for old in taken:
            if old["as_of"] < dropped["seq"]:
                wrong[dropped["event"]] += compared(follow(state_of(old), rest))["delegations"] != end
    assert all(wrong.values()), wrong
