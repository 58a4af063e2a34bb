"""What several processes have to do once: sweeps, timers, the first organisation, the schema."""

import asyncio
from pathlib import Path

import pytest

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import StoreUnavailable
from molecule_core.org.model import Heartbeat
from molecule_core.store.database import SCHEMA_VERSION
from molecule_core.store.timers import TIMERS_KEY, TimerWorker, set_timer
from molecule_core.store.wakeups import Notifier
from testing.clocks import START, FakeClock
from testing.engines import new_database
from testing.ports import free_port
from testing.processes import client, serving
from testing.waits import bounded, refused
from testing.workspaces import beat
from tests.requirements import requirement
from tests.store.instrumented_store import bench_on, write
from tests.system.multi_process.shared_servers import ONLY_WAKE_UPS, asked, servers, told

_STATUS_EVENTS = "SELECT name FROM events WHERE name LIKE 'WORKSPACE_%' ORDER BY seq"


@requirement("M38", "M2")
async def test_an_agent_that_one_process_hears_is_online_for_all_and_falls_silent_once(
    place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with servers(place, tmp_path, 3, clock=clock, limits=ONLY_WAKE_UPS) as (one, other, third):
        seat = await one.seat("Ops")

        async def statuses() -> set[str]:
            return {(await each.admin.get(f"/workspaces/{seat.id}"))["status"] for each in (one, other, third)}

        for _ in range(12):
            await beat(seat)
            for _ in range(2):
                await clock.advance(15)
                await asyncio.gather(*(each.server.org_writer.sweep_silent_agents("") for each in (one, other, third)))
                await asyncio.gather(*(each.server.store.catch_up() for each in (one, other, third)))
            assert await statuses() == {"online"}
        for _ in range(9):
            await clock.advance(15)
            await asyncio.gather(*(each.server.org_writer.sweep_silent_agents("") for each in (other, one, third)))
            await asyncio.gather(*(each.server.store.catch_up() for each in (one, other, third)))
        assert await statuses() == {"offline"}
        names = [row[0] for row in await asked(place, _STATUS_EVENTS)]
        assert names == ["WORKSPACE_PROVISIONING", "WORKSPACE_ONLINE", "WORKSPACE_OFFLINE"]


@requirement("M38", "M2")
async def test_heartbeats_that_the_store_did_not_take_are_saved_later(
    place: str, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with servers(place, tmp_path, 1, clock=clock) as (one,):
        seat = await one.seat("Ops")
        await beat(seat, active_tasks=3)
        with monkeypatch.context() as patch:
            patch.setattr(one.server.store, "run", _unavailable)
            one.server.registry.record_heartbeat(seat.id, Heartbeat(heard_at=clock.now() + 1, active_tasks=4))
            with pytest.raises(StoreUnavailable):
                await one.server.org_writer.save_heartbeats()
        assert await one.server.org_writer.save_heartbeats()
        assert await asked(place, "SELECT active_tasks FROM heartbeats") == [(4,)]


def _unavailable(_command: object) -> None:
    raise StoreUnavailable


@requirement("M38")
async def test_a_due_timer_is_called_by_one_process_and_by_another_if_that_one_dies(
    place: str, clock: FakeClock
) -> None:
    calls: list[str] = []
    async with bench_on("postgres", place, clock=clock) as one, bench_on("postgres", place, clock=clock) as other:
        both = []
        for name, bench in (("one", one), ("other", other)):
            timers = TimerWorker(bench.store, clock, Notifier(clock))

            async def on_due(key: str, name: str = name) -> None:
                calls.append(f"{name} {key}")

            timers.register("test", on_due)
            both.append(timers)
        keys = [f"k-{number}" for number in range(20)]
        await one.run(write(*(set_timer("test", key, START) for key in keys), rings=(TIMERS_KEY,)))
        await bounded(asyncio.gather(*(timers._poll() for timers in both)))
        assert sorted(call.split()[1] for call in calls) == sorted(keys)  # each once, whoever it was

        await clock.advance(29)
        await bounded(asyncio.gather(*(timers._poll() for timers in both)))
        assert len(calls) == len(keys)
        await clock.advance(2)  # nobody set a next time: whoever claimed them is dead
        await bounded(both[1]._poll())
        assert len(calls) == 2 * len(keys)
        rows = await other.seen("SELECT min(due), max(due) FROM timers")
        assert rows == [(START + 61 * SECOND,) * 2]


@requirement("M38", "O1")
async def test_servers_that_start_at_once_on_an_empty_database_make_one_organisation(
    place: str, tmp_path: Path
) -> None:
    async with asyncio.timeout(60):
        gates = [asyncio.create_task(_first_words(place, tmp_path / f"{number}")) for number in range(3)]
        found = await asyncio.gather(*gates)
    assert len({org["id"] for orgs in found for org in orgs}) == 1
    assert await asked(place, "SELECT name FROM orgs") == [("Default",)]


async def _first_words(place: str, state: Path) -> list[dict[str, str]]:
    port = free_port()
    async with serving(state, port, MOLECULE_DATABASE=place), client(port) as admin:
        orgs: list[dict[str, str]] = await admin.get("/orgs")
        return orgs


@requirement("M38", "O1")
async def test_a_process_whose_store_a_newer_molecule_has_brought_forward_ends_and_says_why(
    postgres: str, tmp_path: Path
) -> None:
    place, port = await new_database(postgres), free_port()
    more = {"MOLECULE_DATABASE": place, "MOLECULE_LIMIT_LOOK_AGAIN_SECONDS": "1"}
    async with serving(tmp_path, port, **more) as process:
        newer = str(SCHEMA_VERSION + 1)
        await told(place, "UPDATE meta SET value = $1 WHERE name = 'schema'", newer)
        assert await process.ended() == 2
        assert f"schema {newer}; this version supports up to {SCHEMA_VERSION}" in process.said.splitlines()[-1]
        assert "Traceback" not in process.said


@requirement("M38")
async def test_nothing_is_written_once_the_store_is_of_a_newer_molecule(place: str, tmp_path: Path) -> None:
    async with servers(place, tmp_path, 1) as (one,):
        ops = await one.seat("Ops")
        await told(place, "UPDATE meta SET value = $1 WHERE name = 'schema'", str(SCHEMA_VERSION + 1))
        assert (await refused(one.admin.send(ops.id, "too late"))).status == 503
        assert one.server.runtime.outdated is not None
        assert await asked(place, "SELECT id FROM activities") == []
