"""Pause, resume, hibernate and abilities, from outside."""

from pathlib import Path
from typing import Any

from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import check_shape, journal_of
from testing.running_server import Running, Seat, running
from testing.waits import refused
from testing.workspaces import beat, status_of
from tests.requirements import requirement


async def act(server: Running, seat: Seat, verb: str) -> str:
    """The status after an act."""
    return str((await server.admin.post(f"/workspaces/{seat.id}/{verb}"))["status"])


async def last_event(server: Running) -> dict[str, Any]:
    """What was told last."""
    event = (await journal_of(server))[-1]
    check_shape(event)
    return {"event": event["event"], **event["payload"]}


@requirement("M2")
async def test_a_paused_seat_stays_paused_whatever_its_agent_says(server: Running) -> None:
    seat = await server.seat("Ops")
    await beat(seat)
    assert await act(server, seat, "pause") == "paused"
    assert await last_event(server) == {"event": "WORKSPACE_PAUSED", "previous_status": "online"}
    await beat(seat, error_rate=0.9)
    await beat(seat)
    await seat.api.post("/registry/register", {"id": seat.id, "agent_card": {"name": "x"}})
    state = await seat.api.get(f"/workspaces/{seat.id}/state")
    assert (state["status"], state["paused"]) == ("paused", True)
    head = len(await journal_of(server))
    assert await act(server, seat, "pause") == "paused"
    assert len(await journal_of(server)) == head
    assert await act(server, seat, "resume") == "online"
    told = await last_event(server)
    assert (told["event"], told["recovered_from"]) == ("WORKSPACE_ONLINE", "paused")
    assert (await seat.api.get(f"/workspaces/{seat.id}/state"))["paused"] is False


@requirement("M2")
async def test_who_is_resumed_stands_as_its_agent_was_heard_last(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=Limits(sweep_seconds=10_000_000)) as server:
        never, ill, silent = await server.seat("Never"), await server.seat("Ill"), await server.seat("Silent")
        external = await server.seat("External", external=True)
        for seat in (silent, external):
            await beat(seat)
        await clock.advance(100)
        await beat(ill, error_rate=0.7)
        for seat in (never, ill, silent, external):
            await act(server, seat, "pause")
        assert await act(server, never, "resume") == "awaiting_agent"
        assert (await last_event(server))["last_heard_at"] is None
        assert await act(server, ill, "resume") == "degraded"
        assert await act(server, silent, "resume") == "offline"
        assert await act(server, external, "resume") == "awaiting_agent"


@requirement("M2")
async def test_who_hibernates_sleeps_through_heartbeats_and_wakes_when_it_takes_its_seat(server: Running) -> None:
    seat = await server.seat("Ops")
    await beat(seat)
    assert await act(server, seat, "hibernate") == "hibernated"
    assert await last_event(server) == {"event": "WORKSPACE_HIBERNATED", "previous_status": "online"}
    await beat(seat)
    assert await status_of(server.admin, seat)() == "hibernated"
    await seat.api.post("/registry/register", {"id": seat.id, "agent_card": {"name": "x"}})
    assert await status_of(server.admin, seat)() == "online"
    assert await act(server, seat, "hibernate") == "hibernated"
    assert await act(server, seat, "resume") == "online"


@requirement("M2")
async def test_what_makes_no_sense_is_refused_with_what_to_do_instead(server: Running) -> None:
    seat = await server.seat("Ops")
    await act(server, seat, "pause")
    error = await refused(server.admin.post(f"/workspaces/{seat.id}/hibernate"))
    assert (error.status, error.code) == (409, "status_forbids")
    assert error.problem["error"] == "'Ops' is paused: a paused workspace cannot hibernate. Resume it first."


@requirement("M2")
async def test_the_sweep_leaves_alone_what_was_put_aside(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=Limits(sweep_seconds=10_000_000)) as server:
        paused, asleep = await server.seat("Paused"), await server.seat("Asleep")
        for seat, verb in ((paused, "pause"), (asleep, "hibernate")):
            await beat(seat)
            await act(server, seat, verb)
        await clock.advance(1000)
        await server.server.org_writer.sweep_silent_agents("")
        assert [row["status"] for row in await server.admin.get("/workspaces")] == ["paused", "hibernated"]


@requirement("M2")
async def test_abilities_are_switched_by_owners_and_take_effect_at_once(server: Running) -> None:
    seat = await server.seat("Ops")
    owner, operator = await server.person("owner"), await server.person("operator")
    path = f"/workspaces/{seat.id}/abilities"
    assert (await refused(operator.call("PATCH", path, body={"broadcast_enabled": True}))).code == "role_too_low"
    assert (await refused(owner.call("PATCH", path, body={}))).code == "invalid_field"
    after = await owner.call("PATCH", path, body={"broadcast_enabled": True, "talk_to_user_enabled": False})
    assert (after["broadcast_enabled"], after["talk_to_user_enabled"]) == (True, False)
    told = (await journal_of(server))[-1]
    assert (told["event"], told["payload"]["talk_to_user_enabled"]) == ("WORKSPACE_UPDATED", False)
    assert (await refused(seat.api.post(f"/workspaces/{seat.id}/notify", {"message": "hi"}))).status == 403
    await owner.call("PATCH", path, body={"talk_to_user_enabled": True})
    await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": "hi"})
