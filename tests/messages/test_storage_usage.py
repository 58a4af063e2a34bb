"""Bounds of what is stored: bodies, files, memory and open delegations, counted as they come and go."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from molecule_core.client.api import ApiError
from molecule_core.common.clock import DAY
from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.push_agents import PushNetwork, said
from testing.random_histories import Story
from testing.running_server import UNHURRIED, Running, Seat, running
from testing.upload_forms import upload, uploaded
from testing.waits import eventually, refused
from testing.workspaces import remove
from tests.messages.delivery.push_server import URL, PushServer
from tests.messages.test_retention import LIMITS, Ground
from tests.requirements import requirement
from tests.store.instrumented_store import seen_from_outside

KIB = 1024
DAY_SECONDS = DAY // 1_000_000
_SIZES = (
    "sum(a.size + 512 + coalesce(octet_length(p.answer), 0)) "
    "FROM activities a LEFT JOIN pushes p ON p.workspace_id = a.workspace_id AND p.seq = a.seq"
)
COUNTERS = {
    "bodies": (
        "SELECT org_id, workspace_id, body_bytes FROM storage_usage WHERE body_bytes <> 0",
        f"SELECT a.org_id, a.workspace_id, {_SIZES} GROUP BY a.org_id, a.workspace_id",
    ),
    "files": (
        "SELECT org_id, workspace_id, file_bytes FROM storage_usage WHERE file_bytes <> 0",
        "SELECT org_id, workspace_id, sum(size) FROM files GROUP BY org_id, workspace_id",
    ),
    "delegations": (
        "SELECT org_id, workspace_id, open FROM delegation_usage WHERE workspace_id <> '' AND open <> 0",
        "SELECT org_id, source_id, count(*) FROM delegations WHERE open = 1 GROUP BY org_id, source_id",
    ),
    "delegations of organisations": (
        "SELECT org_id, open FROM delegation_usage WHERE workspace_id = '' AND open <> 0",
        "SELECT org_id, count(*) FROM delegations WHERE open = 1 GROUP BY org_id",
    ),
    "memory": (
        "SELECT org_id, bytes FROM memory_usage WHERE bytes <> 0",
        "SELECT org_id, sum(n) FROM (SELECT org_id, octet_length(content) AS n FROM memories UNION ALL "
        "SELECT w.org_id, octet_length(k.value) FROM memory_keys k JOIN workspaces w ON w.id = k.workspace_id) AS x "
        "GROUP BY org_id",
    ),
}
"""Each counter, and what it must be."""


async def differences(engine: Engine, place: str) -> dict[str, Any]:
    """The counters that differ from what the store holds."""
    found = {}
    for name, queries in COUNTERS.items():
        kept, true = [sorted(await seen_from_outside(engine, place, sql)) for sql in queries]
        if kept != true:
            found[name] = (kept, true)
    return found


async def delegate(lead: Seat, ops: Seat, task: str) -> Any:
    """A task from one workspace to another."""
    return await lead.api.post(f"/workspaces/{lead.id}/delegate", {"target_id": ops.id, "task": task})


async def put(seat: Seat, key: str, value: Any, **more: Any) -> Any:
    """Stores a value under a key."""
    return await seat.api.post(f"/workspaces/{seat.id}/memory", {"key": key, "value": value, **more})


# -- bodies ------------------------------------------------------------------------------------------------------------


@requirement("S11")
@pytest.mark.parametrize("setting", ["workspace_body_bytes", "org_body_bytes"])
async def test_a_message_beyond_the_bytes_of_bodies_is_refused_until_retention_makes_room(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, setting: str
) -> None:
    limits = replace(LIMITS, **{setting: 20 * KIB})
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        ground, seat = Ground(server, clock, engine, place), await server.seat("Ops")
        await ground.round()
        for _ in range(2):
            await ground.say(seat, "x" * 8 * KIB)
        error = await refused(ground.say(seat, "x" * 8 * KIB))
        assert (error.status, error.code) == (507, "storage_full")
        owner = "workspace" if setting.startswith("workspace") else "organisation"
        assert f"the messages of this {owner} use " in str(error)
        assert "8704 more exceed the limit of 20480." in str(error)
        assert f"raise MOLECULE_LIMIT_{setting.upper()}." in str(error)

        await ground.ack(seat, acked_seq=2)
        await clock.advance(9 * DAY_SECONDS)
        assert (await ground.round())["messages"] == 1  # the newest row stays
        await ground.say(seat, "x" * 8 * KIB)
        assert await differences(engine, place) == {}


@requirement("S11")
async def test_reports_of_an_agents_own_work_count_and_answers_are_taken(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    limits = replace(UNHURRIED, workspace_body_bytes=4 * KIB)
    async with running(engine, place, tmp_path, limits=limits) as server:
        lead, ops = await server.seat("Lead"), await server.seat("Ops")
        task = await delegate(lead, ops, "sort the mail")
        entry = {"activity_type": "agent_log", "summary": "x", "request_body": {"text": "y" * 2 * KIB}}
        await lead.api.post(f"/workspaces/{lead.id}/activity", entry)
        error = await refused(lead.api.post(f"/workspaces/{lead.id}/activity", entry))
        assert (error.status, error.code) == (507, "storage_full")
        # The result of its task reaches a full workspace: an answer is never lost.
        update = {"status": "completed", "result": "sorted"}
        await ops.api.post(f"/workspaces/{ops.id}/delegations/{task['delegation_id']}/update", update)
        rows = await lead.api.claim(lead.id, wait=0)
        assert [row["kind"] for row in rows] == ["delegation_result"]


@requirement("S11", "M14")
async def test_the_answer_of_a_push_agent_counts_and_its_next_message_is_refused(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    limits, net = replace(UNHURRIED, workspace_body_bytes=8 * KIB), PushNetwork()
    net.answers(URL, said("x" * 16 * KIB))
    async with running(engine, place, tmp_path, clock=clock, limits=limits, fetcher=net) as server:
        ops = await server.seat("Ops", delivery_mode="push", url=URL)
        server_and_agent = PushServer(server, server.admin, clock, net, ops)
        answer = await server_and_agent.say("hi", patience=20)
        assert len(answer["result"]["parts"][0]["text"]) == 16 * KIB
        assert await differences(engine, place) == {}
        await clock.advance(6)  # the counters are read again after 5 s
        error = await refused(server_and_agent.say("again"))
        assert (error.status, error.code) == (507, "storage_full")


# -- files -------------------------------------------------------------------------------------------------------------


@requirement("S11")
@pytest.mark.parametrize("setting", ["workspace_file_bytes", "org_file_bytes"])
async def test_files_beyond_their_bytes_are_refused_until_some_are_deleted(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, setting: str
) -> None:
    limits = replace(UNHURRIED, upload_hours=1, **{setting: 10 * KIB})
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        seat, folder = await server.seat("Ops"), Path(server.server.settings.files_folder)
        await uploaded(server, seat.id, seat.token, ("a.txt", b"x" * 6 * KIB))
        reply = await upload(server, seat.id, seat.token, ("b.txt", b"x" * 3 * KIB), ("c.txt", b"x" * 3 * KIB))
        assert (reply.status, reply.json["code"]) == (507, "storage_full")
        owner = "workspace" if setting.startswith("workspace") else "organisation"
        assert f"the files of this {owner} use 6144 bytes, and 6144 more exceed the limit of 10240." in reply.error
        assert len([each for each in folder.rglob("*") if each.is_file() and each.stat().st_size >= KIB]) == 1

        await clock.advance(3601)

        async def again() -> int:
            return (await upload(server, seat.id, seat.token, ("b.txt", b"x" * 6 * KIB))).status

        assert await eventually(again, lambda status: status == 200) == 200
        assert await differences(engine, place) == {}


# -- open delegations --------------------------------------------------------------------------------------------------


@requirement("D13", "S11")
@pytest.mark.parametrize(("setting", "name"), [("delegations_open", "open"), ("org_delegations_open", "org_open")])
async def test_so_many_delegations_are_open_and_an_end_makes_room(
    engine: Engine, place: str, tmp_path: Path, setting: str, name: str
) -> None:
    async with running(engine, place, tmp_path, limits=replace(UNHURRIED, **{setting: 2})) as server:
        lead, ops = await server.seat("Lead"), await server.seat("Ops")
        first, _ = [await delegate(lead, ops, f"task {number}") for number in range(2)]
        error = await refused(delegate(lead, ops, "task 3"))
        assert (error.status, error.code) == (429, "delegation_limit")
        assert (error.problem["limit"], error.problem["use"], error.problem["most"]) == (name, 2, 2)
        owner = "organisation" if name == "org_open" else "workspace"
        assert f"the limit of open delegations of this {owner} is reached (2 of 2)" in str(error)
        recorded = {"delegation_id": "mine", "target_id": ops.id, "task": "elsewhere"}
        error = await refused(lead.api.post(f"/workspaces/{lead.id}/delegations/record", recorded))
        assert error.code == "delegation_limit"

        await lead.api.post(f"/workspaces/{lead.id}/delegations/{first['delegation_id']}/cancel", {})
        await delegate(lead, ops, "task 3")
        assert await differences(engine, place) == {}


# -- memory ------------------------------------------------------------------------------------------------------------


@requirement("S14")
async def test_the_memory_of_an_organisation_is_bounded_and_what_is_deleted_makes_room(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    limits = replace(UNHURRIED, org_memory_bytes=1000)
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        one, two = await server.seat("One"), await server.seat("Two")
        memory = await one.api.post(f"/workspaces/{one.id}/memories", {"content": "m" * 500})
        await put(two, "k", "v" * 398)
        for attempt in (
            put(two, "l", "v" * 100),
            put(two, "k", "v" * 499),
            one.api.post(f"/workspaces/{one.id}/memories", {"content": "n" * 200}),
        ):
            error = await refused(attempt)
            assert (error.status, error.code) == (409, "memory_full")
            assert "the memory of this organisation uses 900 bytes" in str(error)
            assert "the limit of 1000. Delete memories" in str(error)
        await put(two, "k", "v" * 8, ttl_seconds=60)
        await put(two, "l", "v" * 400)
        await one.api.call("DELETE", f"/workspaces/{one.id}/memories/{memory['id']}")
        await put(two, "m", "v" * 500)
        assert await differences(engine, place) == {}
        await clock.advance(61)

        async def differing() -> dict[str, Any]:
            return await differences(engine, place)

        await eventually(differing, lambda found: found == {})


# -- the counters ------------------------------------------------------------------------------------------------------


@requirement("S11", "M20")
@pytest.mark.parametrize("seed", range(2))
async def test_the_counters_are_what_the_store_holds_after_a_random_history_and_retention(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, seed: int
) -> None:
    limits: Limits = replace(
        UNHURRIED, sweep_seconds=10_000_000, retention_batch=50, prune_seconds=1_000_000_000, upload_hours=1
    )
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        story, ground = Story(server, clock, seed), Ground(server, clock, engine, place)
        await story.begin()
        await story.go_on(40)
        lead, ops, gone = [await server.seat(name) for name in ("Lead", "Ops", "Gone")]
        await fill(server, lead, ops, gone)
        assert await differences(engine, place) == {}
        await remove(server.admin, gone)
        await clock.advance(30 * DAY_SECONDS)
        await ground.round()
        await clock.advance(2 * 3600)

        async def differing() -> dict[str, Any]:
            return await differences(engine, place)

        assert await eventually(differing, lambda found: found == {}) == {}
        assert await ground.seen(f"SELECT 1 FROM storage_usage WHERE workspace_id = '{gone.id}'") == []  # noqa: S608


async def fill(server: Running, lead: Seat, ops: Seat, gone: Seat) -> None:
    """Work of every kind that stores something."""
    await server.let_broadcast(lead.id)
    await lead.api.post(f"/workspaces/{lead.id}/broadcast", {"message": "to all"})
    for number in range(3):
        await delegate(lead, ops, f"task {number}")
        await delegate(gone, ops, f"task {number}")
        await uploaded(server, gone.id, gone.token, (f"{number}.txt", b"x" * 100))
        await put(gone, f"k{number}", "v" * number)
        await gone.api.post(f"/workspaces/{gone.id}/memories", {"content": f"memory {number}"})
    for row in await ops.api.claim(ops.id, wait=0):
        try:
            await ops.api.post(f"/workspaces/{ops.id}/activity/ack", {"activity_id": row["id"], "attempt": 1})
        except ApiError as error:
            assert error.status < 500
