"""What happens in one process is seen in the other, by a wake-up, and without one a little later."""

import asyncio
from pathlib import Path

import pytest

from molecule_core.store.bus import BusTransportLost
from testing.live_clients import channel
from testing.running_server import Running
from testing.waits import bounded, eventually, until_waiting
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import SOON, asked, deafen, servers, told

_OF_LISTENERS = "FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'molecule wake-ups'"
_LISTENERS = "SELECT pid " + _OF_LISTENERS
_HANG_UP = "SELECT pg_terminate_backend(pid) " + _OF_LISTENERS


async def ready(server: Running) -> str:
    """What a server says of wake-ups."""
    return str((await server.admin.get("/ready"))["wake_ups"])


@requirement("M38", "M24", "M33")
async def test_a_socket_on_one_process_sees_what_came_in_at_another(place: str, tmp_path: Path) -> None:
    async with servers(place, tmp_path, 3) as (one, other, third):
        ops = await other.seat("Ops")
        person = await third.person()
        async with channel(one) as socket:
            await person.send(ops.id, "hello")
            assert (await socket.event("USER_MESSAGE"))["workspace_id"] == ops.id
            new = await third.seat("New")
            assert (await socket.event("WORKSPACE_PROVISIONING"))["workspace_id"] == new.id
            await other.admin.call("DELETE", f"/workspaces/{ops.id}", query={"confirm": "true"})
            assert (await socket.event("WORKSPACE_REMOVED"))["workspace_id"] == ops.id


@requirement("M38", "M33")
@pytest.mark.parametrize("claim", [{}, {"claim": 60}])
async def test_a_long_poll_at_one_process_ends_with_a_message_that_came_in_at_another(
    place: str, tmp_path: Path, claim: dict[str, int]
) -> None:
    async with servers(place, tmp_path) as (one, other):
        ops = await one.seat("Ops")
        waiting = asyncio.create_task(ops.api.get(f"/workspaces/{ops.id}/activity", wait=25, **claim))
        await until_waiting(one.server, 1)
        sent = await (await other.person()).send(ops.id, "hello")
        assert [row["id"] for row in await bounded(waiting)] == [sent["activity_id"]]


@requirement("M38", "M33")
async def test_with_all_wake_ups_lost_everything_arrives_a_little_later(place: str, tmp_path: Path) -> None:
    async with servers(place, tmp_path, limits=SOON) as (one, other):
        deafen(one, other)
        ops = await other.seat("Ops")
        person = await other.person()
        async with channel(one) as socket:
            await person.send(ops.id, "hello")
            assert (await socket.event("USER_MESSAGE"))["workspace_id"] == ops.id
        poll = ops.api.get(f"/workspaces/{ops.id}/activity", claim=60)
        assert len(await poll) == 1
        waiting = asyncio.create_task(one.api(ops.token).get(f"/workspaces/{ops.id}/activity", claim=60, wait=25))
        await until_waiting(one.server, 1)
        await person.send(ops.id, "again")
        assert [row["summary"] for row in await bounded(waiting)] == ["again"]


@requirement("M38")
async def test_a_listener_that_was_hung_up_on_is_back_at_once_and_everybody_looks_again(
    place: str, tmp_path: Path
) -> None:
    async with servers(place, tmp_path) as (one, other):
        assert [await ready(each) for each in (one, other)] == ["listening"] * 2
        ops = await other.seat("Ops")
        person = await other.person()
        waiting = asyncio.create_task(one.api(ops.token).get(f"/workspaces/{ops.id}/activity", wait=25))
        await until_waiting(one.server, 1)
        deafen(other)  # this message is not told of: it is seen because a new listener has everybody look
        await person.send(ops.id, "hello")
        before = {row[0] for row in await asked(place, _LISTENERS)}
        await told(place, _HANG_UP)
        assert [row["summary"] for row in await bounded(waiting)] == ["hello"]
        after = await eventually(lambda: asked(place, _LISTENERS), lambda rows: len(rows) == 2)
        assert before.isdisjoint(row[0] for row in after)
        await eventually(lambda: ready(one), lambda said: said == "listening")


@requirement("M38")
async def test_without_a_listener_a_server_says_that_it_is_slower(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("molecule_core.store.postgres.notify.PostgresTransport.connect", _never)
    async with servers(place, tmp_path, 1, limits=SOON) as (one,):
        assert await ready(one) == "degraded: checking again every 1 s"
        assert len((await one.admin.get("/health"))["process"]) == 10


async def _never(*_given: object) -> None:
    raise BusTransportLost("nobody there")
