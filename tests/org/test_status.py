"""How a seat stands: heard, failing, silent, healed; and all of it after a restart."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from molecule_core.common.limits import Limits
from molecule_core.org.model import Heartbeat
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import journal_of
from testing.random_histories import snapshot_of
from testing.running_server import Running, running
from testing.waits import eventually, refused
from testing.workspaces import beat, remove, status_of
from tests.requirements import requirement


@requirement("M2")
async def test_a_heartbeat_brings_a_seat_online_and_its_work_shows(server: Running) -> None:
    seat, person = await server.seat("Ops"), await server.person("viewer")

    await beat(seat, active_tasks=2, uptime_seconds=61.9, current_task="sorting")

    view = await person.get(f"/workspaces/{seat.id}")
    assert (view["status"], view["active_tasks"], view["uptime_seconds"]) == ("online", 2, 61)


@requirement("M2")
async def test_registering_brings_a_seat_online(server: Running) -> None:
    seat = await server.seat("Ops")

    await seat.api.post("/registry/register", {"id": seat.id, "agent_card": {"name": "x"}})

    assert await status_of(server.admin, seat)() == "online"


class TickingClock(FakeClock):
    """A fake clock that never shows the same time twice."""

    def now(self) -> int:
        self.at += 1
        return super().now()


class InterruptedClock(FakeClock):
    """A fake clock that starts a piece of work at one of the next times that it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads_left = 0
        self.work: Callable[[], Coroutine[Any, Any, None]] | None = None
        self.started: list[asyncio.Task[None]] = []

    def now(self) -> int:
        if self.work is not None:
            self.reads_left -= 1
            if self.reads_left == 0:
                self.started.append(asyncio.create_task(self.work()))
        return super().now()


@requirement("M2", "P4")
@pytest.mark.parametrize("reads", range(1, 7))
async def test_a_heartbeat_at_any_moment_of_a_sweep_leaves_the_agent_online(
    engine: Engine, place: str, tmp_path: Path, reads: int
) -> None:
    clock = InterruptedClock()
    async with running(engine, place, tmp_path, clock=clock, limits=Limits(sweep_seconds=10_000_000)) as server:
        seat, writer = await server.seat("Ops"), server.server.org_writer
        await beat(seat)
        await clock.advance(100)
        heartbeat = Heartbeat(heard_at=clock.now())
        clock.reads_left, clock.work = reads, lambda: writer.handle_heartbeat(seat.id, heartbeat, runtime_state=None)
        await writer.sweep_silent_agents("")
        (beating,) = clock.started
        await beating
        clock.work = None
        assert await status_of(server.admin, seat)() == "online"


@requirement("M2", "C81")
async def test_registering_counts_as_no_heartbeat_after_it(engine: Engine, place: str, tmp_path: Path) -> None:
    """The page shows a heartbeat once it sees a time later than that of the registration."""
    async with running(engine, place, tmp_path, clock=TickingClock()) as server:
        seat = await server.seat("Ops")

        await seat.api.post("/registry/register", {"id": seat.id, "agent_card": {"name": "x"}})

        (registered,) = [event for event in await journal_of(server) if event["event"] == "WORKSPACE_ONLINE"]
        (shown,) = (await snapshot_of(server))["workspaces"]
        assert shown["last_heard_at"] <= registered["timestamp"]


@requirement("M2")
async def test_an_agent_whose_work_fails_is_degraded_until_nearly_all_succeeds(server: Running) -> None:
    seat = await server.seat("Ops")
    stands = status_of(server.admin, seat)

    seen = []
    for rate in (0.0, 0.49, 0.5, 0.3, 0.1, 0.09, 1.0):
        await beat(seat, error_rate=rate)
        seen.append(await stands())

    assert seen == ["online", "online", "degraded", "degraded", "degraded", "online", "degraded"]


@requirement("M2")
async def test_a_wedged_runtime_is_degraded(server: Running) -> None:
    seat = await server.seat("Ops")
    await beat(seat)

    await beat(seat, runtime_state="wedged")

    assert await status_of(server.admin, seat)() == "degraded"


@requirement("M2")
@pytest.mark.parametrize(("external", "fallen"), [(False, "offline"), (True, "awaiting_agent")])
async def test_a_silent_agent_falls_and_a_heartbeat_heals_it(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, external: bool, fallen: str
) -> None:
    async with running(engine, place, tmp_path, clock=clock) as server:
        silent, loud = await server.seat("Silent", external=external), await server.seat("Loud")
        await beat(silent)
        await beat(loud)
        stands = status_of(server.admin, silent)
        for _ in range(5):  # 75 s: not yet
            await clock.advance(15)
            await beat(loud)
        assert await stands() == "online"

        for _ in range(2):  # 105 s
            await clock.advance(15)
            await beat(loud)
        await eventually(stands, lambda status: status == fallen)
        assert await status_of(server.admin, loud)() == "online"

        await beat(silent)
        assert await stands() == "online"


@requirement("M2")
async def test_a_degraded_agent_falls_silent_too(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> None:
    async with running(engine, place, tmp_path, clock=clock) as server:
        seat = await server.seat("Ops")
        await beat(seat, error_rate=0.9)

        stands = status_of(server.admin, seat)
        assert await stands() == "degraded"
        await clock.advance(106)
        assert await eventually(stands, lambda status: status == "offline") == "offline"


@requirement("M2")
async def test_reading_the_inbox_is_not_a_heartbeat(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock) as server:
        seat = await server.seat("Ops")
        await clock.advance(300)

        await seat.api.get(f"/workspaces/{seat.id}/activity")

        assert await status_of(server.admin, seat)() == "awaiting_agent"


@requirement("M2", "P1")
async def test_everything_about_seats_survives_a_restart(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock) as server:
        lead, gone = await server.seat("Lead", role="leads"), await server.seat("Gone")
        child = await server.seat("Child", parent_id=lead.id, external=True)
        org_id = (await server.admin.get("/orgs"))[0]["id"]
        viewer = await server.admin.post(f"/orgs/{org_id}/people", {"name": "V", "role": "viewer"})
        await beat(child, active_tasks=3, error_rate=0.25, uptime_seconds=5)
        await lead.api.post("/registry/register", {"id": lead.id, "agent_card": {"name": "Card"}})
        await remove(server.admin, gone)
        before = await server.api(viewer["auth_token"]).get("/workspaces")

    async with running(engine, place, tmp_path, clock=clock) as server:
        person = server.api(viewer["auth_token"])
        stands = status_of(person, child)

        assert await person.get("/workspaces") == before
        assert (await refused(server.api(gone.token).get(f"/workspaces/{gone.id}"))).status == 410
        await clock.advance(60)
        assert await stands() == "online"
        await clock.advance(46)
        await eventually(stands, lambda status: status == "awaiting_agent")
