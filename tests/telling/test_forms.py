"""How much an agent is told: all of it first, less while it knows the rest, all again after it may have forgotten."""

import pytest

from tests.requirements import requirement
from tests.telling.conftest import CARD, Desk, Telling


@requirement("I15")
async def test_an_agent_is_told_all_once_and_little_then(telling: Telling) -> None:
    async with telling(instruction_adaptive=True) as desk:
        forms = [(await desk.told())["form"] for _ in range(3)]

    assert forms == ["full", "compact", "compact"]


@requirement("I15")
async def test_of_messages_that_are_handed_over_together_the_first_tells_all(telling: Telling) -> None:
    async with telling(instruction_adaptive=True) as desk:
        for _ in range(3):
            await desk.ask()
        rows = await desk.read(claim=60, include="instructions")

    assert [row["instructions"]["form"] for row in rows] == ["full", "compact", "compact"]


@requirement("I15")
async def test_a_look_that_hands_nothing_out_is_no_first_contact(telling: Telling) -> None:
    async with telling(instruction_adaptive=True) as desk:
        await desk.ask()
        looks = [(await desk.read(waiting="true", include="instructions"))[0]["instructions"] for _ in range(2)]
        taken = (await desk.taken())["instructions"]
        await desk.ask()
        (then,) = await desk.read(waiting="true", include="instructions")

    assert [look["form"] for look in looks] == ["full", "full"]
    assert (taken["form"], then["instructions"]["form"]) == ("full", "compact")


@requirement("I15")
@pytest.mark.parametrize("what", ["restart", "compaction"])
async def test_who_begins_anew_is_told_all_again(telling: Telling, what: str) -> None:
    async with telling(instruction_adaptive=True) as desk:
        await desk.told()
        if what == "restart":
            await desk.register()
        else:
            beat = {"workspace_id": desk.seat.id, "runtime_state": "compacted"}
            await desk.seat.api.post("/registry/heartbeat", beat)
        forms = [(await desk.told())["form"] for _ in range(2)]

    assert forms == ["full", "compact"]


@requirement("I15", "I12", "I9")
async def test_other_tools_are_told_as_what_has_changed_with_the_next_message(telling: Telling) -> None:
    async with telling(instruction_adaptive=True) as desk:
        before = await desk.told()
        loaded = [*CARD["loaded_mcp_tools"], "send_message_to_user", "no_tool_of_ours"]
        beat = {"workspace_id": desk.seat.id, "loaded_mcp_tools": loaded}
        await desk.seat.api.post("/registry/heartbeat", beat)
        after = await desk.told()
        then = await desk.told()

    assert (before["form"], after["form"], then["form"]) == ("full", "delta", "compact")
    assert "send_message_to_user" not in before["text"] and "send_message_to_user" in after["text"]
    assert "no_tool_of_ours" not in after["text"]
    assert set(after["available_tools"]) - set(before["available_tools"]) == {"send_message_to_user"}


@requirement("I9", "I12")
async def test_a_heartbeat_that_says_the_same_again_changes_no_card(telling: Telling) -> None:
    async with telling() as desk:
        beat = {"workspace_id": desk.seat.id, "loaded_mcp_tools": ["mcp__molecule__reply_to_workspace", {"name": "x"}]}
        revs = []
        for _ in range(3):
            await desk.seat.api.post("/registry/heartbeat", beat)
            revs.append((await desk.person.get(f"/workspaces/{desk.seat.id}"))["rev"])
        card = (await desk.person.get(f"/workspaces/{desk.seat.id}"))["agent_card"]

    assert len(set(revs)) == 1
    assert card == {**CARD, "loaded_mcp_tools": ["reply_to_workspace", "x"]}


@requirement("I9")
async def test_an_agent_that_has_no_tool_for_it_is_named_none(telling: Telling) -> None:
    async with telling() as desk:
        await desk.register(loaded_mcp_tools=["inbox_pop"])
        told = await desk.told()

    assert told["available_tools"] == ["inbox_pop"]
    assert told["reply_via"] == "" and "reply_to_workspace" not in told["text"]


@requirement("I15")
async def test_a_workspace_may_want_few_words_always(telling: Telling) -> None:
    async with telling(instruction_adaptive=True, seat={"instruction_compact": True}) as desk:
        forms = [(await desk.told())["form"] for _ in range(2)]

    assert forms == ["compact", "compact"]


@requirement("I15")
async def test_where_nothing_is_adapted_all_is_told_each_time(desk: Desk) -> None:
    assert [(await desk.told())["form"] for _ in range(2)] == ["full", "full"]


@requirement("I12")
async def test_the_same_message_is_told_the_same_way(desk: Desk) -> None:
    await desk.ask()

    (one,) = await desk.read(include="instructions", type="a2a_receive")
    (other,) = await desk.read(include="instructions", type="a2a_receive")

    assert one == other
