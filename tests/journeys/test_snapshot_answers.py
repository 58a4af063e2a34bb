"""Which messages wait for an answer, as a page knows it: an old snapshot and its events are the new snapshot."""

import contextlib
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiError
from tests.clocks import FakeClock
from tests.engines import Engine
from tests.journeys.follow import follow, state_of
from tests.journeys.livewire import journal_of, snapshot_at_rest
from tests.requirements import requirement
from tests.running import Running, Seat, running

ENDS = ("answered", "declined")


class Duties:
    """Two agents that are asked, and do with it what agents do."""

    def __init__(self, server: Running, clock: FakeClock, seats: list[Seat], seed: int) -> None:
        self.server = server
        self.clock = clock
        self.seats = seats
        self.dice = random.Random(seed)
        self.taken: list[dict[str, Any]] = []

    async def go_on(self, count: int) -> None:
        """Random verbs, and a snapshot now and then."""
        verbs: list[Callable[[Seat], Awaitable[object]]] = [
            self.ask,
            self.ask,
            self.claim,
            self.claim,
            self.draft,
            self.draft,
            self.end_draft,
            self.decline,
            self.notify,
            self.wait,
        ]
        for _ in range(count):
            await self.dice.choice(verbs)(self.dice.choice(self.seats))
            if self.dice.random() < 0.2:
                await self.look()
        await self.look()

    async def look(self) -> None:
        self.taken.append(await snapshot_at_rest(self.server))

    async def ask(self, seat: Seat) -> None:
        source = self.dice.choice([self.server.admin, *(each.api for each in self.seats if each is not seat)])
        await source.send(seat.id, "Is it done?")

    async def claim(self, seat: Seat) -> None:
        await seat.api.claim(seat.id, wait=0, limit=self.dice.randrange(1, 4))

    async def owed(self, seat: Seat, state: str) -> dict[str, Any] | None:
        page = await seat.api.get(f"/workspaces/{seat.id}/obligations", state=state)
        return self.dice.choice(page["obligations"]) if page["obligations"] else None

    async def draft(self, seat: Seat) -> None:
        if owed := await self.owed(seat, "open"):
            path = f"/workspaces/{seat.id}/messages/{owed['activity_id']}/draft"
            await seat.api.post(path, {"text": "It is"})

    async def end_draft(self, seat: Seat) -> None:
        if owed := await self.owed(seat, "unanswered"):
            end = self.dice.choice(["send", "discard"])
            with contextlib.suppress(ApiError):  # there is none, it is only overdue
                await self.server.admin.post(f"/workspaces/{seat.id}/messages/{owed['activity_id']}/draft/{end}", {})

    async def decline(self, seat: Seat) -> None:
        if owed := await self.owed(seat, "open"):
            await seat.api.post(f"/workspaces/{seat.id}/decline", {"handle": owed["handle"], "reason": "not mine"})

    async def notify(self, seat: Seat) -> None:
        await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": "done"})

    async def wait(self, _seat: Seat) -> None:
        await self.clock.advance(self.dice.choice([1, 121, 121]))
        for seat in self.seats:
            await self.server.server._silence.on_due(seat.id)


@requirement("M34", "M26", "M28")
@pytest.mark.parametrize("seed", range(4))
async def test_what_waits_for_an_answer_is_the_same_by_events_as_in_a_new_snapshot(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, seed: int
) -> None:
    async with running(engine, place, tmp_path, clock=clock) as server:
        duties = Duties(server, clock, [await server.seat("One"), await server.seat("Two")], seed)
        await duties.go_on(70)
        events = await journal_of(server)
    end = duties.taken[-1]
    assert any(each["unanswered"] for each in duties.taken)
    for snapshot in duties.taken:
        behind = [event for event in events if event["seq"] > snapshot["as_of"]]
        assert follow(state_of(snapshot), behind)["unanswered"] == state_of(end)["unanswered"]
    told = {event["event"] for event in events}
    ticks = {event["payload"]["tick"] for event in events if event["event"] == "MESSAGE_TICK"}
    assert {"MESSAGE_OVERDUE", "MESSAGE_DRAFTED"} <= told
    assert {*ENDS, "overdue", "answered_outside"} <= ticks


@requirement("M34", "M26")
async def test_without_one_event_of_an_answer_the_page_would_be_wrong(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    """The control: some snapshot becomes something else if the last word about an answer is lost."""
    async with running(engine, place, tmp_path, clock=clock) as server:
        duties = Duties(server, clock, [await server.seat("One"), await server.seat("Two")], 1)
        await duties.go_on(70)
        events = await journal_of(server)
    end = state_of(duties.taken[-1])["unanswered"]
    found = 0
    for dropped in [event for event in events if event["event"] in ("MESSAGE_OVERDUE", "MESSAGE_DRAFTED")]:
        rest = [event for event in events if event is not dropped]
        found += follow(state_of(duties.taken[0]), rest)["unanswered"] != end
    assert found > 0
