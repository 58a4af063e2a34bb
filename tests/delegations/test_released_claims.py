"""An agent that ends gives all back that it has claimed and not handled, in one call."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from molecule_core.delegations.model import DelegationPhase
from molecule_core.store.subscribers import MAX_DOMAIN_EVENTS
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.clocks import FakeClock
from testing.delegation_steps import begin, line_of, row_of
from testing.engines import Engine
from testing.machines.delegation_store import by
from testing.message_world import MessageWorld
from testing.running_server import Seat, running
from tests.delegations.test_begin import pair
from tests.requirements import requirement


@pytest.fixture
async def world(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[MessageWorld]:
    """A world without agents that are pushed to."""
    async with running(engine, place, tmp_path, clock=clock) as server:
        yield MessageWorld(server, await server.person(), clock, None)  # type: ignore[arg-type]


@requirement("D1", "M18")
async def test_more_delegations_than_facts_may_follow_each_other_are_given_back_at_once(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    count = MAX_DOMAIN_EVENTS + 2
    given = [(await begin(world, lead, ops, f"task {number}")).row.id for number in range(count)]
    plain = await world.ask(ops, "a question")
    taken = [(row["id"], row["attempt"]) for row in await world.take(ops)]
    assert taken == [(each, 1) for each in (*given, plain)]
    last = given[-1]
    claims = [{"activity_id": one, "attempt": 2 if one == last else number} for one, number in taken]
    path = f"/workspaces/{ops.id}/activity/release"
    assert await ops.api.post(path, {"claims": claims}) == {"released": count}
    for one in given[:-1]:
        row = await row_of(world, one)
        assert (row.status, row.phase) == (DelegationStatus.QUEUED, DelegationPhase.WAITING)
        assert [noted.fact for noted in await line_of(world, one)][-1] == "returned"
    assert (await row_of(world, last)).phase is DelegationPhase.CLAIMED
    assert [(row["id"], row["attempt"]) for row in await world.take(ops)] == [
        (each, 2) for each in (*given[:-1], plain)
    ]


async def comes(world: MessageWorld, ops: Seat, way: str, word: str, row: dict[str, Any]) -> None:
    """A delegation comes to its agent without a claim, or is acknowledged."""
    path = f"/workspaces/{ops.id}/activity"
    if way == "shown behind a cursor":
        assert [each["id"] for each in await ops.api.get(path, since_id=word)] == [row["id"]]
    elif way == "passed by a cursor":
        assert await ops.api.get(path, type="a2a_receive", since_id=row["id"]) == []
    elif way == "passed by a filtered cursor":
        assert await ops.api.get(path, type="a2a_receive", since_id=row["id"], source="agent") == []
    else:
        named = {"acked_seq": row["seq"]} if way == "acknowledged with all before it" else {"activity_id": row["id"]}
        await ops.api.post(f"{path}/ack", {**named, "attempt": row.get("attempt", 1)})


WAYS = (
    "shown behind a cursor",
    "passed by a cursor",
    "passed by a filtered cursor",
    "acknowledged",
    "acknowledged with all before it",
)


@requirement("D1", "M18")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("claimed", [True, False], ids=["given back", "never claimed"])
async def test_a_delegation_that_comes_without_a_claim_is_in_hand(world: MessageWorld, way: str, claimed: bool) -> None:
    """So it is seen when nothing more is heard of it. Passed once more, nothing happens."""
    lead, ops = await pair(world)
    word = await world.ask(ops, "a word", intent="inform")
    given = (await begin(world, lead, ops)).row.id
    row: dict[str, Any]
    if claimed:
        row = (await world.take(ops))[-1]
        claims = [{"activity_id": given, "attempt": row["attempt"]}]
        await ops.api.post(f"/workspaces/{ops.id}/activity/release", {"claims": claims})
        assert (await row_of(world, given)).phase is DelegationPhase.WAITING
        await world.clock.advance(1)
    else:
        row = await world.newest(ops)
    await comes(world, ops, way, word, row)
    found = await row_of(world, given)
    assert (found.status, found.phase, found.attempt) == (DelegationStatus.QUEUED, DelegationPhase.CLAIMED, 1)
    assert found.taken_at is not None
    lines = [noted.fact for noted in await line_of(world, given)]
    assert lines[-1] == "claimed" and lines.count("claimed") == 1 + claimed
    last = await world.ask(ops, "another word", intent="inform")
    await ops.api.get(f"/workspaces/{ops.id}/activity", type="a2a_receive", since_id=last)
    assert [noted.fact for noted in await line_of(world, given)] == lines


@requirement("D1")
async def test_a_delegation_that_was_answered_is_not_taken_by_what_passes_it(world: MessageWorld) -> None:
    """Nor one that was taken back before anybody had it."""
    lead, ops = await pair(world)
    done, off = [(await begin(world, lead, ops, task)).row.id for task in ("sort", "file")]
    await world.ask(lead, "done", by=ops, delegation_id=done)
    await world.server.server.delegations.writer.cancel(await row_of(world, off), by(lead.id), "not wanted")
    lines = [[noted.fact for noted in await line_of(world, each)] for each in (done, off)]
    last = await world.ask(ops, "a word", intent="inform")
    await ops.api.get(f"/workspaces/{ops.id}/activity", type="a2a_receive", since_id=last)
    assert [[noted.fact for noted in await line_of(world, each)] for each in (done, off)] == lines
