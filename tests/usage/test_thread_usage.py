"""Usage of turns of threads: one record per turn, when it ends, for the message that began it."""

from collections.abc import Sequence
from typing import Any

import pytest

from molecule_core.usage.model import UsageRecord
from testing.running_server import Running, Seat
from testing.thread_world import BASE, Engine, Item, turn
from tests.requirements import requirement


def used(key: str, **more: Any) -> Item:
    """The usage of a model request."""
    return {"type": "usage", "record_key": key, "input": 10, "cached": 4, "output": 2, "model": "small", **more}


async def record_of(server: Running, seat: Seat, turn_id: str) -> UsageRecord | None:
    return await server.server.usage.reader.find_record(seat.id, turn_id)


async def delegated(server: Running) -> tuple[Seat, str]:
    """Ops, and a delegation that it has."""
    lead = await server.seat("Lead")
    ops = await server.seat("Ops", parent_id=lead.id)
    made = await lead.api.post(f"/workspaces/{lead.id}/delegate", {"target_id": ops.id, "task": "count"})
    return ops, str(made["delegation_id"])


async def thread_of(seat: Seat) -> Item:
    made: Item = await seat.api.post(f"/workspaces/{seat.id}/threads", {"base_instructions": BASE})
    return made


def totals(found: UsageRecord | None) -> Sequence[Any]:
    assert found is not None
    return found.input_tokens, found.cached_tokens, found.output_tokens, found.model


@requirement("US1", "US2")
async def test_a_turn_is_one_record_for_its_message_however_often_its_requests_are_reported(server: Running) -> None:
    ops, work = await delegated(server)
    thread = await thread_of(ops)
    taken = await turn(ops.api, thread, "count", key=work)
    engine = Engine(ops.api, thread)
    await engine.claim()
    await engine.begin()
    await engine.adds(used("r-1"), key="a-1")
    await engine.adds(used("r-1"), used("r-2", model="large"))
    assert await record_of(server, ops, engine.turn_id) is None, "the turn still runs"
    await engine.ends(final="7")
    await engine.ends(final="7")
    found = await record_of(server, ops, engine.turn_id)
    assert totals(found) == (12, 8, 4, "large")
    assert found is not None
    assert (found.thread_id, found.delegation_id, found.root_id) == (thread["thread_id"], work, work)
    assert engine.turn_id == taken["turn_id"]


@requirement("US1")
@pytest.mark.parametrize("action", ["interrupt", "close"])
async def test_a_turn_that_is_stopped_is_recorded_with_what_it_used_until_then(server: Running, action: str) -> None:
    ops = await server.seat("Ops")
    thread = await thread_of(ops)
    await turn(ops.api, thread, "count")
    engine = Engine(ops.api, thread)
    await engine.claim()
    await engine.begin()
    await engine.adds(used("r-1"))
    await ops.api.post(f"/threads/{thread['thread_id']}/{action}", {})
    assert totals(await record_of(server, ops, engine.turn_id)) == (6, 4, 2, "small")


async def test_a_turn_of_another_engine_after_a_kill_is_recorded_once(server: Running) -> None:
    ops = await server.seat("Ops")
    thread = await thread_of(ops)
    await turn(ops.api, thread, "count")
    first, second = Engine(ops.api, thread), Engine(ops.api, thread)
    await first.claim()
    await first.begin()
    await first.adds(used("r-1"))
    await second.claim()
    await second.begin()
    await second.adds(used("r-2"))
    await second.ends(final="7")
    assert totals(await record_of(server, ops, second.turn_id)) == (12, 8, 4, "small")


@requirement("US2")
async def test_a_turn_of_a_sub_agent_counts_for_the_message_of_its_tree(server: Running) -> None:
    ops, work = await delegated(server)
    thread = await thread_of(ops)
    await turn(ops.api, thread, "count", key=work)
    engine = Engine(ops.api, thread)
    await engine.claim()
    await engine.begin()
    call = {"call_id": "c-1", "task_name": "part", "message": "count half"}
    spawned = await engine.call("/agents/spawn", call)
    child_id = spawned["call"]["new_thread_id"]
    child = Engine(ops.api, {"thread_id": child_id}, "engine two")
    await child.claim()
    await child.begin()
    await child.adds(used("r-1"))
    await child.ends(final="3")
    found = await record_of(server, ops, child.turn_id)
    assert found is not None and (found.root_id, found.delegation_id) == (work, work)


async def test_a_turn_without_usage_has_no_record(server: Running) -> None:
    ops = await server.seat("Ops")
    thread = await thread_of(ops)
    await turn(ops.api, thread, "count")
    engine = Engine(ops.api, thread)
    await engine.works()
    assert await record_of(server, ops, engine.turn_id) is None
