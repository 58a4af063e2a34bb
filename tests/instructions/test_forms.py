"""How much an agent is told: all of it first, less while it knows the rest, all again after it may have forgotten."""

import pytest

from tests.instructions.instructed_agent import CARD, InstructedAgent, Telling
from tests.requirements import requirement


@requirement("I15")
async def test_an_agent_is_told_all_once_and_little_then(telling: Telling) -> None:
    async with telling(instruction_adaptive=True) as agent:
        forms = [(await agent.told())["form"] for _ in range(3)]

    assert forms == ["full", "compact", "compact"]


@requirement("I15")
async def test_of_messages_that_are_handed_over_together_the_first_tells_all(telling: Telling) -> None:
    async with telling(instruction_adaptive=True) as agent:
        for _ in range(3):
            await agent.ask()
        rows = await agent.read(claim=60, include="instructions")

    assert [row["instructions"]["form"] for row in rows] == ["full", "compact", "compact"]


@requirement("I15")
async def test_a_look_that_hands_nothing_out_is_no_first_contact(telling: Telling) -> None:
    async with telling(instruction_adaptive=True) as agent:
        await agent.ask()
        looks = [(await agent.read(waiting="true", include="instructions"))[0]["instructions"] for _ in range(2)]
        taken = (await agent.taken())["instructions"]
        await agent.ask()
        (then,) = await agent.read(waiting="true", include="instructions")

    assert [look["form"] for look in looks] == ["full", "full"]
    assert (taken["form"], then["instructions"]["form"]) == ("full", "compact")


@requirement("I15")
@pytest.mark.parametrize("what", ["restart", "compaction"])
async def test_who_begins_anew_is_told_all_again(telling: Telling, what: str) -> None:
    async with telling(instruction_adaptive=True) as agent:
        await agent.told()
        if what == "restart":
            await agent.register()
        else:
            beat = {"workspace_id": agent.seat.id, "runtime_state": "compacted"}
            await agent.seat.api.post("/registry/heartbeat", beat)
        forms = [(await agent.told())["form"] for _ in range(2)]

    assert forms == ["full", "compact"]


@requirement("I15", "I12", "I9")
async def test_other_tools_are_told_as_what_has_changed_with_the_next_message(telling: Telling) -> None:
    async with telling(instruction_adaptive=True) as agent:
        before = await agent.told()
        loaded = [*CARD["loaded_mcp_tools"], "send_message_to_user", "no_tool_of_ours"]
        beat = {"workspace_id": agent.seat.id, "loaded_mcp_tools": loaded}
        await agent.seat.api.post("/registry/heartbeat", beat)
        after = await agent.told()
        then = await agent.told()

    assert (before["form"], after["form"], then["form"]) == ("full", "delta", "compact")
    assert "send_message_to_user" not in before["text"] and "send_message_to_user" in after["text"]
    assert "no_tool_of_ours" not in after["text"]
    assert set(after["available_tools"]) - set(before["available_tools"]) == {"send_message_to_user"}


@requirement("I9", "I12")
async def test_a_heartbeat_that_says_the_same_again_changes_no_card(telling: Telling) -> None:
    async with telling() as agent:
        beat = {"workspace_id": agent.seat.id, "loaded_mcp_tools": ["mcp__molecule__reply_to_workspace", {"name": "x"}]}
        revs = []
        for _ in range(3):
            await agent.seat.api.post("/registry/heartbeat", beat)
            revs.append((await agent.person.get(f"/workspaces/{agent.seat.id}"))["rev"])
        card = (await agent.person.get(f"/workspaces/{agent.seat.id}"))["agent_card"]

    assert len(set(revs)) == 1
    assert card == {**CARD, "loaded_mcp_tools": ["reply_to_workspace", "x"]}


@requirement("I9")
async def test_an_agent_that_has_no_tool_for_it_is_named_none(telling: Telling) -> None:
    async with telling() as agent:
        await agent.register(loaded_mcp_tools=["inbox_pop"])
        told = await agent.told()

    assert told["available_tools"] == ["inbox_pop"]
    assert told["reply_via"] == "" and "reply_to_workspace" not in told["text"]


@requirement("I15")
async def test_a_workspace_may_want_few_words_always(telling: Telling) -> None:
    async with telling(instruction_adaptive=True, seat={"instruction_compact": True}) as agent:
        forms = [(await agent.told())["form"] for _ in range(2)]

    assert forms == ["compact", "compact"]


@requirement("I15")
async def test_where_nothing_is_adapted_all_is_told_each_time(agent: InstructedAgent) -> None:
    assert [(await agent.told())["form"] for _ in range(2)] == ["full", "full"]


@requirement("I12")
async def test_the_same_message_is_told_the_same_way(agent: InstructedAgent) -> None:
    await agent.ask()

    (one,) = await agent.read(include="instructions", type="a2a_receive")
    (other,) = await agent.read(include="instructions", type="a2a_receive")

    assert one == other
