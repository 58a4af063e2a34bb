"""Memory over the wire: what agents commit, recall and forget, and what persons may do with it."""

from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiClient
from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import channel, check_shape, journal_of
from testing.raw_http import ask
from testing.running_server import UNHURRIED, Running, Seat, running
from testing.waits import refused
from testing.workspaces import remove
from tests.messages.test_retention import DAY_SECONDS, LIMITS, Ground
from tests.requirements import requirement

SECRET = "ghp_" + "a1B2" * 9


async def commit(seat: Seat, content: str, scope: str = "LOCAL", **more: Any) -> Any:
    """An agent remembers something."""
    return await seat.api.post(f"/workspaces/{seat.id}/memories", {"content": content, "scope": scope, **more})


async def recall(seat: Seat, **query: Any) -> list[dict[str, Any]]:
    """An agent recalls."""
    found: list[dict[str, Any]] = await seat.api.get(f"/workspaces/{seat.id}/memories", **query)
    return found


async def forget(api: ApiClient, seat: Seat, memory_id: str) -> Any:
    """Somebody has a workspace forget."""
    return await api.call("DELETE", f"/workspaces/{seat.id}/memories/{memory_id}")


@requirement("M36", "W1")
async def test_a_memory_has_the_shape_that_existing_clients_read(server: Running) -> None:
    seat = await server.seat("Ops")
    reply = await ask(
        server.port,
        "POST",
        f"/workspaces/{seat.id}/memories",
        {"content": "The key is under the mat"},
        token=seat.token,
    )
    assert (reply.status, set(reply.json)) == (201, {"id", "scope", "namespace"})
    assert (reply.json["scope"], reply.json["namespace"]) == ("LOCAL", "general")
    (row,) = await recall(seat)
    assert {**row, "created_at": ""} == {
        "id": reply.json["id"],
        "workspace_id": seat.id,
        "workspace_name": "Ops",
        "scope": "LOCAL",
        "namespace": "general",
        "content": "The key is under the mat",
        "written_by": f"workspace:{seat.id}",
        "created_at": "",
    }
    # A plugin of the original sends its own id along.
    assert await recall(seat, q="mat", scope="LOCAL", workspace_id=seat.id, limit=1) == [row]
    assert await recall(seat, q="cellar") == []


@requirement("M36")
async def test_a_team_shares_what_the_organisation_need_not_know(server: Running) -> None:
    lead, other = await server.seat("Lead"), await server.seat("Other")
    ops = await server.seat("Ops", parent_id=lead.id)
    twin = await server.seat("Twin", parent_id=lead.id)
    stranger = await server.seat("Stranger", org_id=await server.org("Elsewhere"))
    await commit(ops, "plum for me", "local")
    await commit(ops, "plum for us", "Team", namespace="garden")
    await commit(lead, "plum for all", "GLOBAL")
    seen = {
        seat.name: [row["content"] for row in await recall(seat, q="plum")]
        for seat in (ops, twin, lead, other, stranger)
    }
    assert seen == {
        "Ops": ["plum for all", "plum for us", "plum for me"],
        "Twin": ["plum for all", "plum for us"],
        "Lead": ["plum for all", "plum for us"],
        "Other": ["plum for all"],
        "Stranger": [],
    }
    assert [row["workspace_name"] for row in await recall(twin, namespace="garden")] == ["Ops"]
    denied = await refused(commit(ops, "plum for all", "GLOBAL"))
    assert (denied.status, denied.code) == (403, "scope_forbidden")


@requirement("M36", "P2")
async def test_what_was_written_down_word_for_word_is_not_written_again(server: Running) -> None:
    seat = await server.seat("Ops")
    first = await commit(seat, "once")
    assert await commit(seat, "once") == first
    others = [await commit(seat, "once", "TEAM"), await commit(seat, "once", namespace="n"), await commit(seat, "Once")]
    assert len({first["id"], *(each["id"] for each in others)}) == len(await recall(seat)) == 4


@requirement("M36", "O3")
async def test_secrets_are_taken_out_before_anything_is_kept(server: Running, engine: Engine, place: str) -> None:
    seat = await server.seat("Ops")
    answer = await commit(seat, f"Deploy with {SECRET} and {seat.token}, then rest")
    assert answer["redacted"] == 2
    (row,) = await recall(seat, q="deploy rest")
    assert row["content"] == "Deploy with [redacted] and [redacted], then rest"
    assert await recall(seat, q=SECRET) == []
    ground = Ground(server, FakeClock(), engine, place)
    kept = repr(await ground.seen("SELECT * FROM memories")) + repr(await ground.seen("SELECT payload FROM events"))
    assert "rest" in kept and SECRET.lower() not in kept.lower() and seat.token[8:] not in kept
    denied = await refused(commit(seat, "x", namespace=SECRET))
    assert (denied.status, SECRET in str(denied)) == (422, False)


@requirement("M36", "M31", "M32")
async def test_a_memory_is_told_without_its_content_to_its_author_and_to_persons(server: Running) -> None:
    lead = await server.seat("Lead")
    ops = await server.seat("Ops", parent_id=lead.id)
    async with channel(server, lead.token) as peers, channel(server, ops.token) as own:
        memory = await commit(ops, "plum for us", "TEAM", namespace="garden")
        await forget(ops.api, ops, memory["id"])
        for name, more in (("MEMORY_WRITTEN", {"scope": "TEAM", "namespace": "garden"}), ("MEMORY_FORGOTTEN", {})):
            told = await own.event(name)
            assert told["payload"] == {"memory_id": memory["id"], **more}
            assert told["entity"] == {"kind": "memory", "id": memory["id"], "rev": 0}
        await server.admin.call("PATCH", f"/workspaces/{ops.id}", body={"role": "seen by peers"})
        assert (await peers.event())["event"] == "WORKSPACE_UPDATED"
    *_, written, forgotten, _ = await journal_of(server)
    for event in (written, forgotten):
        check_shape(event)
    assert (written["event"], forgotten["event"]) == ("MEMORY_WRITTEN", "MEMORY_FORGOTTEN")
    assert "plum" not in str(await journal_of(server))


@requirement("M36", "S20")
async def test_persons_read_as_operators_and_forget_as_owners(server: Running) -> None:
    lead = await server.seat("Lead")
    ops = await server.seat("Ops", parent_id=lead.id)
    memory = await commit(ops, "plum", "TEAM")
    viewer, operator, owner = [await server.person(role) for role in ("viewer", "operator", "owner")]
    path = f"/workspaces/{ops.id}/memories"
    assert (await refused(viewer.get(path))).code == "role_too_low"
    assert [row["id"] for row in await operator.get(path)] == [memory["id"]]
    assert (await refused(forget(operator, ops, memory["id"]))).code == "role_too_low"
    assert (await refused(forget(operator, ops, "nothing"))).code == "not_found"
    denied = await refused(forget(owner, lead, memory["id"]))
    assert (denied.code, denied.problem["workspace_id"]) == ("memory_of_another", ops.id)
    denied = await refused(forget(lead.api, lead, memory["id"]))
    assert (denied.status, denied.code, denied.problem["workspace_id"]) == (403, "memory_of_another", ops.id)
    assert (await forget(owner, ops, memory["id"])) == {"status": "deleted"}
    assert await recall(ops) == []
    said = await operator.post(path, {"content": "said by a person", "scope": "TEAM"})
    (row,) = await recall(lead)
    assert (row["id"], row["workspace_id"]) == (said["id"], ops.id)
    assert row["written_by"].startswith("person:")


@requirement("M36", "M3")
async def test_a_removed_workspace_is_refused_and_its_memories_go_with_retention(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=LIMITS) as server:
        ground = Ground(server, clock, engine, place)
        lead, ops = await server.seat("Lead"), await server.seat("Ops")
        for number in range(4):
            await commit(ops, f"plum {number}", ("LOCAL", "TEAM", "GLOBAL")[number % 3])
            await ops.api.post(
                f"/workspaces/{ops.id}/memory", {"key": f"k{number}", "value": 1, "ttl_seconds": 100 * DAY_SECONDS}
            )
        await commit(lead, "pear")
        await remove(server.admin, ops)
        for path in ("memories", "memory", "memory/k1"):
            assert (await refused(ops.api.get(f"/workspaces/{ops.id}/{path}"))).status == 410
        assert [row["content"] for row in await recall(lead)] == ["pear"]
        await ground.clock.advance(6 * DAY_SECONDS)
        assert (await ground.round()).get("memories of removed workspaces", 0) == 0
        await ground.clock.advance(2 * DAY_SECONDS)
        gone = await ground.round()
        assert (gone["memories of removed workspaces"], gone["keys of removed workspaces"]) == (4, 4)
        assert await ground.seen("SELECT content FROM memories") == [("pear",)]
        for table in ("memory_keys", "memory_versions"):
            assert await ground.seen(f"SELECT count(*) FROM {table}") == [(0,)]  # noqa: S608
        assert await ground.seen("SELECT count(*) FROM timers WHERE kind = 'memory_expiry'") == [(0,)]
        assert not await server.server.store.rows("search_memories", search_of(ops))
        await ground.clock.advance(9 * DAY_SECONDS)
        assert "memories of removed workspaces" not in {what for what, rows in (await ground.round()).items() if rows}


def search_of(seat: Seat) -> dict[str, Any]:
    """A search on the shelves of a workspace that is gone, past all rules."""
    owner = seat.id.replace("-", "")
    wish: dict[str, Any] = {"shelves": f"_l{owner} _t{owner}", "words": "plum", "prefix": 0}
    return {**wish, "before": (1 << 63) - 1, "namespace": None, "count": 9}


# -- limits ------------------------------------------------------------------------------------------------------------


@requirement("M36", "O2")
async def test_each_limit_is_a_setting_and_is_told_with_its_number(engine: Engine, place: str, tmp_path: Path) -> None:
    small: dict[str, Any] = {
        **{name: getattr(UNHURRIED, name) for name in ("requests_per_minute", "anonymous_per_minute")},
        "memory_bytes": 20,
        "memories": 3,
        "memory_recall": 2,
        "memory_namespace_length": 5,
    }
    async with running(engine, place, tmp_path, limits=Limits(**small)) as server:
        seat, other = await server.seat("Ops"), await server.seat("Other")
        for content, namespace, number in (("é" * 11, "n", "20"), ("ok", "longer", "5"), ("   ", "n", "content")):
            denied = await refused(commit(seat, content, namespace=namespace))
            assert (denied.status, number in str(denied)) == (422, True)
        await commit(seat, "é" * 10, namespace="12345")
        for each in range(2):
            await commit(seat, f"number {each}")
        denied = await refused(commit(seat, "one more"))
        assert (denied.status, denied.code, "3 memories" in str(denied)) == (409, "too_many_kept", True)
        await commit(other, "others may")
        assert [row["content"] for row in await recall(seat, limit=50)] == ["number 1", "number 0"]
        await forget(seat.api, seat, (await recall(seat, limit=1))[0]["id"])
        await commit(seat, "one more")
        assert (await commit(seat, "one more"))["id"] == (await recall(seat))[0]["id"]  # what is there takes no room


@requirement("M36", "S14")
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"scope": "MINE"}, "scope"),
        ({"limit": "0"}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"before": "\x00"}, "NUL"),
    ],
)
async def test_a_query_that_makes_no_sense_is_told_why(server: Running, query: dict[str, str], field: str) -> None:
    seat = await server.seat("Ops")
    denied = await refused(recall(seat, **query))
    assert (denied.status, field in str(denied)) == (422, True)


@requirement("M36", "S13")
async def test_a_cursor_that_is_not_ones_own_is_just_gone(server: Running) -> None:
    seat, other = await server.seat("Ops"), await server.seat("Other", org_id=await server.org("Elsewhere"))
    foreign = (await commit(other, "plum"))["id"]
    for cursor in (foreign, "nothing", "'; --", "01900000-0000-7000-8000-000000000000"):
        assert (await refused(recall(seat, before=cursor))).code == "cursor_gone"
