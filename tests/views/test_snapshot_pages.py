"""A snapshot of a large organisation: pages of bounded size, all of it together, and lists that end early."""

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from testing.engines import Engine
from testing.processes import MOLECULE, environment, started
from testing.random_histories import snapshot_of
from testing.raw_http import ask
from testing.running_server import ADMIN_TOKEN, UNHURRIED, Running, running
from testing.waits import refused
from testing.workspaces import remove
from tests.requirements import requirement

BYTES = 20_000
COUNT = 30


async def large_org(server: Running) -> list[str]:
    """Workspaces whose cards are too many for one answer; their ids, oldest first."""
    ids = []
    for number in range(COUNT):
        seat = await server.seat(f"Ops {number}")
        await seat.api.post("/registry/register", {"id": seat.id, "agent_card": {"name": "x", "notes": "y" * 3000}})
        await server.admin.send(seat.id, "hello")
        ids.append(seat.id)
    return ids


async def pages_of(server: Running) -> list[dict[str, Any]]:
    """The snapshot and all its further pages."""
    org_id, pages = server.server.registry.orgs()[0].id, [await snapshot_of(server)]
    while (after := pages[-1]["next_workspace"]) is not None:
        pages.append(await server.admin.get(f"/orgs/{org_id}/snapshot", after=after))
    return pages


@requirement("M34", "S11")
async def test_no_answer_of_a_large_organisations_snapshot_exceeds_its_bytes_and_none_is_missing(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=replace(UNHURRIED, snapshot_bytes=BYTES)) as server:
        ids = await large_org(server)
        pages = await pages_of(server)
        assert len(pages) > 4
        assert [each["id"] for page in pages for each in page["workspaces"]] == ids
        assert [each["workspace_id"] for page in pages for each in page["chats"]] == ids
        assert all(len(msgspec.json.encode(page["workspaces"])) <= BYTES for page in pages)
        assert set(pages[1]) == {"workspaces", "chats", "next_workspace"}


@requirement("M34")
async def test_a_page_after_a_removed_workspace_goes_on_and_an_unknown_one_is_refused(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=replace(UNHURRIED, snapshot_bytes=BYTES)) as server:
        seats = [await server.seat(f"Ops {number}") for number in range(3)]
        org_id = server.server.registry.orgs()[0].id
        await remove(server.admin, seats[1])
        page = await server.admin.get(f"/orgs/{org_id}/snapshot", after=seats[1].id)
        assert ([each["id"] for each in page["workspaces"]], page["next_workspace"]) == ([seats[2].id], None)
        error = await refused(server.admin.get(f"/orgs/{org_id}/snapshot", after="nobody"))
        assert (error.status, error.code) == (410, "cursor_gone")


@requirement("M34", "S11")
async def test_open_delegations_and_approvals_of_a_snapshot_end_at_its_bytes(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=replace(UNHURRIED, snapshot_bytes=4000)) as server:
        lead, ops = await server.seat("Lead"), await server.seat("Ops")
        for number in range(15):
            await lead.api.post(f"/workspaces/{lead.id}/delegate", {"target_id": ops.id, "task": f"task {number}"})
            body = {"action": f"act {number}", "reason": "r" * 500}
            await lead.api.post(f"/workspaces/{lead.id}/approvals", body)
        snapshot = await snapshot_of(server)
        for name in ("delegations", "approvals"):
            assert 1 <= len(snapshot[name]) < 15
            assert len(msgspec.json.encode(snapshot[name])) <= 4100
        assert snapshot["delegations"][0]["task_preview"] == "task 14"


@requirement("O1")
async def test_the_list_of_the_command_line_has_every_page(tmp_path: Path, sqlite_place: str) -> None:
    async with running("sqlite", sqlite_place, tmp_path, limits=replace(UNHURRIED, snapshot_bytes=BYTES)) as server:
        await large_org(server)
        env = environment(tmp_path / "home", server.port, MOLECULE_TOKEN=ADMIN_TOKEN)
        async with started(MOLECULE, "ls", "--server", server.url, env=env) as process:
            assert await process.ended() == 0, process.said
            listed = await process.output()
        assert all(f"Ops {number} " in listed for number in range(COUNT))


@pytest.fixture
def sqlite_place(tmp_path: Path) -> str:
    """A store for SQLite."""
    return str(tmp_path / "molecule.db")


@requirement("C90")
@pytest.mark.parametrize(
    ("accepted", "encoding"), [("br, gzip", "gzip"), ("gzip;q=0", None), ("identity", None)], ids=["yes", "no", "other"]
)
async def test_a_large_snapshot_is_compressed_for_clients_that_accept_it(
    accepted: str, encoding: str | None, server: Running
) -> None:
    await large_org(server)
    path = f"/orgs/{server.server.registry.orgs()[0].id}/snapshot"
    plain = await ask(server.port, "GET", path, token=ADMIN_TOKEN)
    reply = await ask(server.port, "GET", path, token=ADMIN_TOKEN, headers={"accept-encoding": accepted})
    assert (reply.headers.get("content-encoding"), reply.headers["vary"]) == (encoding, "accept-encoding")
    shown = msgspec.json.decode(gzip.decompress(reply.body) if encoding else reply.body)
    assert shown["workspaces"] == plain.json["workspaces"] and set(shown) == set(plain.json)
    assert len(reply.body) < len(plain.body) / 10 if encoding else len(plain.body) > BYTES


@requirement("C90")
async def test_a_small_snapshot_is_sent_as_it_is(server: Running) -> None:
    path = f"/orgs/{server.server.registry.orgs()[0].id}/snapshot"
    reply = await ask(server.port, "GET", path, token=ADMIN_TOKEN, headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in reply.headers and b"workspaces" in reply.body
