"""A budget that is used up stops a turn: what was done is counted, and nothing more is taken."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.clocks import FakeClock
from tests.engines import Engine as Kind
from tests.requirements import requirement
from tests.running import UNHURRIED, running
from tests.threads.house import Engine, House, Item, said

_LIMITS = replace(UNHURRIED, turn_tokens=100, thread_tokens=150, thread_tree_tokens=200)


def cost(key: str, tokens: int) -> Item:
    """What a request of a model has cost."""
    return {"type": "usage", "record_key": key, "input": tokens, "output": 0}


@requirement("TH6")
@pytest.mark.parametrize("tokens", [100, 150, 200])
async def test_a_turn_whose_budget_is_used_up_takes_nothing_more_and_counts_what_it_has_cost(
    engine: Kind, place: str, tmp_path: Path, clock: FakeClock, tokens: int
) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=_LIMITS) as server:
        house = House(server, await server.person(), clock)
        ops = await server.seat("Ops")
        thread = await house.starts(ops, input="Go")
        worker = Engine(ops.api, thread)
        await worker.claim()
        await worker.begin()
        call = {"type": "tool_call", "call_id": "c", "tool": "look", "arguments": {}}
        # What is told together with the cost is taken: the server learns only by it that the budget is used up.
        assert (await worker.adds(said("I look"), call, cost("one", tokens), key="first"))["stop"] == "budget"
        before = await house.log(thread)
        for again in range(2):
            answer = await worker.adds(said("I go on"), cost("two", 7), said("and on"), key="second")
            assert (answer["stop"], answer["last_ordinal"]) == ("budget", before[-1]["ordinal"] + 1), again
        assert (await worker.adds(said("and on"), key="third"))["stop"] == "budget"
        assert [each["type"] for each in await house.log(thread)] == [*(each["type"] for each in before), "usage"]
        assert (await house.reads(thread))["tokens_used"] == tokens + 7
        await worker.ends("failed", error="budget")
        assert (await house.types(thread))[-2:] == ["tool_output", "turn_ended"], "what was open is closed"
