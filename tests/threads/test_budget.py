"""A budget that is used up stops a turn: what was done is counted, and nothing more is taken."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from testing.clocks import FakeClock
from testing.engines import Engine as Kind
from testing.running_server import UNHURRIED, running
from testing.thread_world import Engine, Item, ThreadWorld, said
from tests.requirements import requirement
from tests.threads.test_agents import spawned

_LIMITS = replace(UNHURRIED, turn_tokens=100, thread_tokens=150, thread_tree_tokens=200)


def cost(key: str, tokens: int) -> Item:
    """What a request of a model has cost."""
    return {"type": "usage", "record_key": key, "input": tokens, "output": 0}


def output(call_id: str) -> Item:
    """What a tool has answered."""
    return {"type": "tool_output", "call_id": call_id, "text": "sent", "is_error": False}


@requirement("TH6")
@pytest.mark.parametrize("tokens", [100, 150, 200])
async def test_a_turn_whose_budget_is_used_up_takes_nothing_more_and_counts_what_it_has_cost(
    engine: Kind, place: str, tmp_path: Path, clock: FakeClock, tokens: int
) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=_LIMITS) as server:
        world = ThreadWorld(server, await server.person(), clock)
        ops = await server.seat("Ops")
        thread = await world.starts(ops, input="Go")
        worker = Engine(ops.api, thread)
        await worker.claim()
        await worker.begin()
        call = {"type": "tool_call", "call_id": "c", "tool": "look", "arguments": {}}
        # What is told together with the cost is taken: the server learns only by it that the budget is used up.
        assert (await worker.adds(said("I look"), call, cost("one", tokens), key="first"))["stop"] == "budget"
        before = await world.log(thread)
        for again in range(2):
            answer = await worker.adds(said("I go on"), cost("two", 7), said("and on"), key="second")
            assert (answer["stop"], answer["last_ordinal"]) == ("budget", before[-1]["ordinal"] + 1), again
        assert (await worker.adds(said("and on"), key="third"))["stop"] == "budget"
        assert [each["type"] for each in await world.log(thread)] == [*(each["type"] for each in before), "usage"]
        assert (await world.reads(thread))["tokens_used"] == tokens + 7
        await worker.ends("failed", error="budget")
        assert (await world.types(thread))[-2:] == ["tool_output", "turn_ended"], "what was open is closed"


@requirement("TH6")
async def test_what_a_tool_has_done_is_kept_though_another_has_used_up_the_budget_meanwhile(
    engine: Kind, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=_LIMITS) as server:
        world = ThreadWorld(server, await server.person(), clock)
        ops = await server.seat("Ops")
        thread = await world.starts(ops, input="Go")
        worker = Engine(ops.api, thread)
        await worker.claim()
        await worker.begin()
        calls = [{"type": "tool_call", "call_id": each, "tool": "send", "arguments": {}} for each in "ab"]
        assert (await worker.adds(*calls, cost("one", 60)))["stop"] is None, "so they are run"
        child = Engine(ops.api, await spawned(world, ops.api, thread, "one"))
        await child.claim()
        await child.begin()
        assert (await child.adds(said("I dig"), cost("two", 140)))["stop"] == "budget", "of the whole tree"
        for _ in range(2):
            more = output("a"), said("I go on"), output("a"), output("unheard of"), cost("three", 7)
            assert (await worker.adds(*more, key="again"))["stop"] == "budget"
        await worker.ends("failed", error="budget")
        lines = [each["entry"] for each in await world.log(thread)]
        outputs = [(each["call_id"], each["text"] == "sent") for each in lines if each["type"] == "tool_output"]
        assert outputs == [("a", True), ("b", False)], "each once, and of the other nobody knows"
        assert "I go on" not in [each.get("text") for each in lines]
        assert (await world.reads(thread))["tokens_used"] == 67
