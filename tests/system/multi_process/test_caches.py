"""Each process keeps the tree and the credentials in memory. None of them decides on what another has changed since."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from molecule_core.common.tokens import hash_token
from molecule_core.store import cache_sync as mirrors_module
from testing.live_clients import all_live, channel
from testing.raw_http import ask
from testing.running_server import Running
from testing.waits import bounded, eventually, refused
from testing.workspaces import beat, remove
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import ONLY_WAKE_UPS, SOON, asked, deafen, knows, servers, told

OURS = {"X-Molecule-Client": "canvas"}


async def names(server: Running) -> list[str]:
    """The seats as a server lists them."""
    return [each["name"] for each in await server.admin.get("/workspaces")]


@requirement("M38", "P1")
async def test_a_seat_that_one_process_made_is_taken_and_written_to_at_another_at_once(
    place: str, tmp_path: Path
) -> None:
    async with servers(place, tmp_path) as (one, other):
        person = await one.person()
        deafen(one, other)
        for number in range(3):
            seat = await one.seat(f"Seat {number}")
            await other.api(seat.token).post("/registry/register", {"id": seat.id, "agent_card": {"name": "x"}})
            assert (await other.api(seat.token).get(f"/workspaces/{seat.id}"))["status"] == "online"
        late = await one.seat("Late")
        assert (await other.api(person_token(person)).send(late.id, "hello"))["status"] == "queued"
        foreign = "01900000-0000-7000-8000-000000000000"
        assert (await refused(other.admin.get(f"/workspaces/{foreign}"))).status == 404


def person_token(api: Any) -> str:
    """The token that a client of the tests holds."""
    return str(api._headers["authorization"]).removeprefix("Bearer ")


@requirement("M38", "M3", "M5")
async def test_what_one_process_changed_is_obeyed_by_what_another_decides_with_no_wake_up_at_all(
    place: str, tmp_path: Path
) -> None:
    async with servers(place, tmp_path) as (one, other):
        ops, gone = await one.seat("Ops"), await one.seat("Gone")
        for seat in (ops, gone):
            await knows(other, seat.id, lambda _seat: True)
        person = await other.person()
        deafen(one, other)
        await one.admin.call("PATCH", f"/workspaces/{ops.id}", body={"name": "Sales"})
        await remove(one.admin, gone)

        assert sorted(await names(other)) == ["Gone", "Ops"]  # a read may lag ...
        assert (await refused(person.send(gone.id, "too late"))).status == 410  # ... a decision does not
        assert (await other.seat("Sales")).name == "Sales 2"
        assert (await other.seat("Ops")).name == "Ops"
        assert (await refused(other.seat("x", parent_id=gone.id))).status == 422
        assert sorted(await names(other)) == ["Ops", "Sales", "Sales 2"]


@requirement("M38")
async def test_reads_follow_by_the_wake_up_and_without_one_by_looking_again(place: str, tmp_path: Path) -> None:
    async with servers(place, tmp_path) as (one, other):
        await one.seat("Ops")
        assert await eventually(lambda: names(other), lambda found: found == ["Ops"]) == ["Ops"]
    (tmp_path / "again").mkdir()
    async with servers(place, tmp_path / "again", limits=SOON) as (one, other):
        deafen(one, other)
        await one.seat("Sales")
        await eventually(lambda: names(other), lambda found: found == ["Ops", "Sales"])


@requirement("M38")
async def test_an_organisation_is_made_once_and_known_to_all(place: str, tmp_path: Path) -> None:
    async with servers(place, tmp_path) as (one, other):
        deafen(one, other)
        org_id = await one.org("Second")
        assert (await refused(other.org("Second"))).code == "org_exists"
        person = await one.person(org_id=org_id)
        api = other.api(person_token(person))
        assert await api.get(f"/orgs/{org_id}/tree") == []
        assert len(await asked(place, "SELECT id FROM orgs")) == 2


@requirement("M38", "M13", "P2")
async def test_one_message_id_sent_to_two_processes_at_once_is_one_message(place: str, tmp_path: Path) -> None:
    async with servers(place, tmp_path) as (one, other):
        ops = await one.seat("Ops")
        person = await one.person()
        apis = [one.api(person_token(person)), other.api(person_token(person))]
        for number in range(20):
            sent = await bounded(asyncio.gather(*(api.send(ops.id, "hi", message_id=f"m-{number}") for api in apis)))
            assert len({each["activity_id"] for each in sent}) == 1
        rows = await asked(place, "SELECT count(*), max(seq) FROM activities")
        assert rows == [(20, 20)]


@requirement("M38", "P6")
@pytest.mark.parametrize("deaf", [False, True], ids=["by a wake-up", "by looking again"])
async def test_who_logs_out_at_one_process_is_out_at_another(place: str, tmp_path: Path, deaf: bool) -> None:
    async with servers(place, tmp_path, limits=SOON if deaf else ONLY_WAKE_UPS) as (one, other):
        if deaf:
            deafen(one, other)
        org_id = one.server.registry.orgs()[0].id
        link = (await one.admin.post(f"/orgs/{org_id}/login-links", {}))["url"]
        own = {**OURS, "Host": f"127.0.0.1:{one.port}", "Origin": one.url}
        reply = await ask(one.port, "POST", "/login", {"code": link.partition("#login=")[2]}, headers=own)
        session = reply.headers["set-cookie"].partition(";")[0].partition("=")[2]
        here, there = (f"molecule_{each.port}={session}" for each in (one, other))

        async def status() -> int:
            return (await ask(other.port, "GET", "/session", headers={"Cookie": there})).status

        headers = {"Cookie": there, "Origin": other.url}
        async with channel(other, None, headers=headers) as socket:
            assert await status() == 200
            await ask(one.port, "POST", "/logout", {}, headers={**own, "Cookie": here})
            assert await eventually(status, lambda seen: seen == 401) == 401
            assert (await socket.bye()).code == 4001


@requirement("M38")
async def test_what_a_holder_may_do_is_looked_up_again_also_by_a_look_up_on_its_way(place: str, tmp_path: Path) -> None:
    """The road for changed roles and revoked tokens: a statement that says `-- mirrored: holder by person_id`."""
    async with servers(place, tmp_path) as (one, other):
        person = await one.person("viewer")
        token = person_token(person)
        api = other.api(token)
        assert (await refused(api.post("/workspaces", {"name": "x"}))).status == 403
        await told(place, "UPDATE persons SET role = 'operator'")
        person_id = (await asked(place, "SELECT id FROM persons WHERE role = 'operator'"))[0][0]
        await told(
            place, "INSERT INTO changes SELECT max(no) + 1, '', 'holder', $1 FROM changes", person_id
        )  # as the store does it
        await other.server.store.catch_up()
        assert (await api.post("/workspaces", {"name": "x"}))["name"] == "x"
        await told(place, "UPDATE person_tokens SET revoked_at = 1 WHERE hash = $1", hash_token(token))
        await told(
            place, "INSERT INTO changes SELECT max(no) + 1, '', 'credential', $1 FROM changes", hash_token(token)
        )
        await other.server.store.catch_up()
        assert (await refused(api.get("/workspaces"))).status == 401


@requirement("M38")
async def test_who_missed_more_than_is_noted_loads_everything_anew(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with servers(place, tmp_path) as (one, other):
        deafen(one, other)
        seats = [await one.seat(f"Seat {number}") for number in range(5)]
        await remove(one.admin, seats[0])
        await told(place, "DELETE FROM changes WHERE no < (SELECT max(no) FROM changes)")
        await other.seat("Last")
        assert sorted(await names(other)) == ["Last", *(f"Seat {number}" for number in range(1, 5))]


@requirement("M38")
async def test_only_the_newest_changes_are_kept(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("molecule_core.store.postgres.store.MAX_KEPT_CHANGES", 3)
    monkeypatch.setattr("molecule_core.store.postgres.store._TRIM_EVERY", 2)
    assert mirrors_module.MAX_KEPT_CHANGES > 3
    async with servers(place, tmp_path) as (one, other):
        for number in range(10):
            await one.seat(f"Seat {number}")
        assert (await asked(place, "SELECT count(*) < 6, max(no) >= 10 FROM changes")) == [(True, True)]
        await eventually(lambda: names(other), lambda found: len(found) == 10)


@requirement("M38", "M24")
async def test_what_an_agent_works_on_is_told_by_every_process(place: str, tmp_path: Path) -> None:
    async with servers(place, tmp_path) as (one, other):
        seat = await one.seat("Ops")
        await beat(seat, current_task="sorting", active_tasks=1)
        async with channel(other) as socket:
            await all_live(other)
            await beat(seat, current_task="counting", active_tasks=2)
            while (told_of := await socket.frame()).get("event") != "TASK_UPDATED" or (
                told_of["payload"]["current_task"] != "counting"
            ):
                pass
            assert told_of["workspace_id"] == seat.id
        seen = await other.admin.get(f"/workspaces/{seat.id}")
        assert (seen["status"], seen["active_tasks"]) == ("online", 2)
