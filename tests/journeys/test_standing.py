"""How a seat stands: heard, failing, silent, healed; and all of it after a restart."""

from pathlib import Path

import pytest

from tests.clocks import FakeClock
from tests.engines import Engine
from tests.journeys.livewire import journal_of
from tests.journeys.patience import eventually, refused
from tests.journeys.seats import beat, remove, status_of
from tests.journeys.stories import snapshot_of
from tests.requirements import requirement
from tests.running import Running, running


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
