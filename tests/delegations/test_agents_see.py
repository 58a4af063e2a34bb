"""A task and its result as the agents of both sides have them from their tools, on a real server."""

from typing import Any

from molecule_core.wire.schemas.agent_cards import ALL_TOOL_NAMES
from testing.delegation_steps import begin, row_of
from testing.message_world import MessageWorld
from testing.running_server import Seat
from tests.instructions.tokenizer import tokens
from tests.requirements import requirement
from tests.tools.tool_callers import Sitting


async def seated(world: MessageWorld, name: str) -> tuple[Seat, Sitting]:
    """A workspace whose agent has all tools, and those."""
    seat = await world.server.seat(name, runtime="claude-code")
    card = {"name": name, "loaded_mcp_tools": list(ALL_TOOL_NAMES)}
    await seat.api.post("/registry/register", {"id": seat.id, "agent_card": card})
    return seat, Sitting(seat)


async def next_of(agent: Sitting) -> dict[str, Any]:
    """What an agent fetches next."""
    found: dict[str, Any] = (await agent("wait_for_message", timeout_secs=0))["message"]
    return found


@requirement("D6", "D7", "D12")
async def test_who_works_on_a_task_and_who_gave_it_know_which_one_a_message_is_about(world: MessageWorld) -> None:
    (lead, giver), (ops, worker) = await seated(world, "Lead"), await seated(world, "Ops")
    delegation_id = (await begin(world, lead, ops, "sort the mail")).row.id

    task = await next_of(worker)
    assert (task["kind"], task["delegation_id"], task["peer_id"]) == ("delegation", delegation_id, lead.id)
    assert (task["text"], task["activity_id"]) == ("sort the mail", delegation_id)
    told = task["instructions"]["text"]
    assert "mcp__molecule__report_progress(task_id=delegation_id, " in told
    assert f"delegation_id={delegation_id}" in told
    assert tokens(told) <= 220  # also with an id as long as ids are
    assert (await worker("reply", handle=task["instructions"]["reply_handle"], text="sorted"))["acknowledged"] is True

    result = await next_of(giver)
    assert (result["kind"], result["delegation_id"], result["peer_id"]) == ("delegation_result", delegation_id, ops.id)
    assert (result["text"], result["intent"]) == ("sorted", "inform")
    assert "report_progress" not in result["instructions"]["text"]
    assert (await giver("inbox_pop", activity_id=result["activity_id"]))["removed"] is True
    assert (await row_of(world, delegation_id)).result == "sorted"


@requirement("D14", "M28")
async def test_a_task_comes_without_the_short_time_in_which_questions_are_to_be_answered(world: MessageWorld) -> None:
    (lead, _), (ops, worker) = await seated(world, "Lead"), await seated(world, "Ops")
    await begin(world, lead, ops, "sort the mail")
    task = await next_of(worker)
    assert task["kind"] == "delegation" and "due_at" not in task["instructions"]
    assert ", due " not in task["instructions"]["text"] and "It needs an answer." in task["instructions"]["text"]
    await world.ask(ops, "a question", lead)
    assert "due_at" in (await next_of(worker))["instructions"]


@requirement("D17")
async def test_a_plain_message_that_names_a_task_is_none(world: MessageWorld) -> None:
    (lead, _), (ops, worker) = await seated(world, "Lead"), await seated(world, "Ops")
    await world.ask(ops, "a word beside it", lead, delegation_id="d-1")
    message = await next_of(worker)
    assert (message["kind"], message.get("delegation_id", "")) == ("peer_agent", "")
    assert "report_progress" not in message["instructions"]["text"]
