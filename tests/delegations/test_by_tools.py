"""Agents delegate by their tools, on a real server: a plain caller (shell, LangChain), and a client of MCP."""

import asyncio
from typing import Any

import pytest

from testing.mcp_clients import ERAS, Era, hosted
from testing.message_world import MessageWorld
from testing.running_server import Seat
from testing.waits import bounded, eventually, until_waiting
from tests.requirements import requirement
from tests.tools.tool_callers import Sitting


async def works(seat: Seat, text: str) -> str:
    """An agent takes the task that it is given, and answers it; its id."""
    agent = Sitting(seat)
    task = (await agent("wait_for_message", timeout_secs=0))["message"]
    assert task["kind"] == "delegation"
    await agent("reply", handle=task["instructions"]["reply_handle"], text=text)
    return str(task["delegation_id"])


async def begun(seat: Seat, count: int = 1) -> None:
    """Until a workspace has given so many tasks."""
    path = f"/workspaces/{seat.id}/delegations"
    await eventually(lambda: seat.api.get(path), lambda found: len(found) == count)


async def all_that_came(agent: Sitting, told: dict[str, Any]) -> list[str]:
    """The result as its caller has it: with the receipt, and as messages."""
    here = [told["result"]] if told["delivered"] == "here" else []
    waiting = (await agent("inbox_peek"))["messages"]
    return here + [each["text"] for each in waiting if each["delegation_id"] == told["task_id"]]


@requirement("D7", "D10")
async def test_a_task_that_is_answered_while_its_giver_waits_is_told_once(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    giver = Sitting(lead)
    waiting = asyncio.create_task(giver("delegate_task", workspace_id=ops.id, task="Make tea", wait=60))
    await begun(lead)
    task_id = await works(ops, "Two cups.")
    told = await bounded(waiting)
    assert (told["task_id"], told["settled"], told["status"]) == (task_id, True, "completed")
    assert await all_that_came(giver, told) == ["Two cups."]
    seen = await giver("check_task_status", task_id=task_id)
    assert (seen["status"], seen["result"], seen["target_id"]) == ("completed", "Two cups.", ops.id)
    assert next(iter(seen["timeline"]))["fact"] == "begun"
    assert (await Sitting(ops)("check_task_status", task_id=task_id))["result"] == "Two cups."


@requirement("D9", "D10")
async def test_the_same_task_is_not_begun_twice_while_it_is_open(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    giver = Sitting(lead)
    given = {"workspace_id": ops.id, "task": "Make tea"}
    told = [await giver("delegate_task_async", **given), await giver("delegate_task", **given, wait=0)]
    assert len({each["task_id"] for each in told}) == 1
    assert [each["idempotent_hit"] for each in told] == [False, True]
    assert "already delegated" in told[1]["note"]
    assert len(await ops.api.get(f"/workspaces/{ops.id}/delegations", direction="in")) == 1


@requirement("G12")
async def test_of_two_workspaces_the_one_that_reaches_the_peer_delegates(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    below = await world.server.seat("Below", parent_id=ops.id)
    agent = Sitting(lead, ops)
    told = await agent("delegate_task_async", workspace_id=below.id, task="Make tea")
    assert told["workspace_id"] == ops.id
    assert (await agent("check_task_status", task_id=told["task_id"]))["source_id"] == ops.id


@requirement("X3", "D9", "D10", "G13")
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_of_mcp_that_gives_up_and_repeats_its_call_has_given_one_task(
    world: MessageWorld, era: Era
) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    given = {"workspace_id": ops.id, "task": "Make tea", "wait": 300}
    meta: Any = {"claudecode/toolUseId": "toolu_1"}
    path = f"/workspaces/{lead.id}/delegations"
    async with hosted(world.server, lead.token, era) as host:
        for _ in range(3):
            waiting = asyncio.create_task(host.client.call_tool("delegate_task", given, meta=meta))
            await begun(lead)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await bounded(waiting)
        task_id = await works(ops, "Two cups.")
        told = await host.call("delegate_task", meta=meta, **given)
        assert (told["task_id"], told["settled"], told["idempotent_hit"]) == (task_id, True, True)
    assert len(await lead.api.get(path)) == 1
    rows = await lead.api.get(f"/workspaces/{lead.id}/activity", type="a2a_receive", limit=50)
    assert [row["kind"] for row in rows] == ["delegation_result"]


@requirement("D10", "D12", "G13")
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_of_mcp_that_waits_is_told_in_each_slice_how_far_the_peer_is(
    world: MessageWorld, era: Era
) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    agent, told = Sitting(ops), []

    async def progressed(value: float, total: float | None, message: str | None) -> None:
        told.append((value, total, message))

    async def heard(count: int) -> None:
        async def look() -> int:
            await world.clock.advance(0)
            return len(told)

        await eventually(look, lambda found: found >= count)

    async with hosted(world.server, lead.token, era) as host:
        given = {"workspace_id": ops.id, "task": "Make tea", "wait": 120}
        call: Any = host.client.call_tool("delegate_task", given, progress_callback=progressed)  # type: ignore[arg-type]
        waiting = asyncio.create_task(call)
        await begun(lead)
        await until_waiting(world.server.server, 1)
        await world.clock.advance(20)
        await heard(1)
        await until_waiting(world.server.server, 1)
        await world.clock.advance(1)
        task = (await agent("wait_for_message", timeout_secs=0))["message"]
        await heard(2)  # it stands otherwise now, which is told at once
        await until_waiting(world.server.server, 1)
        await world.clock.advance(1)
        await agent("report_progress", task_id=task["delegation_id"], current_step="boils water", percent=40)
        await heard(3)
        await agent("report_progress", task_id=task["delegation_id"], current_step="pours", tools_used=["kettle"])
        for _ in range(2):
            await until_waiting(world.server.server, 1)
            await world.clock.advance(20)
        await heard(5)
        await agent("reply", handle=task["instructions"]["reply_handle"], text="Two cups.")
        result = (await bounded(waiting)).structured_content
    assert (result["settled"], result["result"], result["delivered"]) == (True, "Two cups.", "here")
    words = [message for _, _, message in told]
    assert words[:3] == ["waiting for the peer", "picked up by the peer", "boils water (40 %)"]
    assert set(words[3:]) == {"pours (40 %)"}  # what a report leaves out stays
    assert [value for value, _, _ in told] == sorted(value for value, _, _ in told)
    assert {total for _, total, _ in told} == {120}
