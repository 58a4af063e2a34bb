"""Streams of A2A tasks: order, resumption, several readers, and their end."""

import pytest

from testing.a2a_callers import V0_3, V1, A2ACaller
from testing.message_world import MessageWorld, handle, reply
from tests.api.a2a.test_tasks import DELEGATION, _ask, person_of, team
from tests.requirements import requirement

LINES = pytest.mark.parametrize("line", [V1, V0_3])


@requirement("A2A5")
@LINES
@pytest.mark.parametrize("delegates", [True, False])
async def test_a_message_stream_has_the_task_first_and_its_result_last(
    world: MessageWorld, line: str, *, delegates: bool
) -> None:
    _, ops, client = await team(world, line)
    async with client.stream(client.message("sort the mail", **(DELEGATION if delegates else {}))) as stream:
        first = await stream.event()
        assert first is not None and first.state == "submitted"
        (given,) = await world.take(ops)
        await reply(ops, handle(given), "sorted")
        rest = await stream.rest()
    states = [each.state for each in rest]
    assert states[-2:] == ["", "completed"] and set(states[:-2]) <= {"submitted", "working"} and "working" in states
    assert rest[-2].text == "sorted"
    numbers = [int(each.id.rpartition(":")[2]) for each in (first, *rest)]
    assert numbers == sorted(numbers) and first.id.startswith(given["id"])
    if line == V0_3:
        assert rest[-1].data["final"] is True


@requirement("A2A5")
@pytest.mark.parametrize("delegates", [True, False])
async def test_all_subscribers_see_one_sequence_and_one_that_leaves_changes_nothing(
    world: MessageWorld, *, delegates: bool
) -> None:
    _, ops, client = await team(world)
    task = await client.send(client.message("sort the mail", **(DELEGATION if delegates else {})))
    async with client.subscribed(task["id"]) as one, client.subscribed(task["id"]) as two:
        async with client.subscribed(task["id"]) as leaving:
            assert await leaving.event() is not None
        assert [(await each.event()) is not None for each in (one, two)] == [True, True]
        (given,) = await world.take(ops)
        await reply(ops, handle(given), "sorted")
        seen = [await each.rest() for each in (one, two)]
    assert seen[0] == seen[1]
    assert seen[0][-1].state == "completed"


@requirement("A2A5")
@pytest.mark.parametrize("delegates", [True, False])
async def test_a_stream_resumes_after_any_of_its_events(world: MessageWorld, *, delegates: bool) -> None:
    _, ops, client = await team(world)
    async with client.stream(client.message("sort the mail", **(DELEGATION if delegates else {}))) as stream:
        first = await stream.event()
        assert first is not None
        (given,) = await world.take(ops)
        await reply(ops, handle(given), "sorted")
        rest = await stream.rest()
    for number, event in enumerate((first, *rest[:-2])):
        async with client.subscribed(given["id"], event.id) as resumed:
            assert await resumed.rest() == rest[number:]
    async with client.subscribed(given["id"], rest[-2].id) as resumed:
        assert await resumed.rest() == rest[-2:], "cut off after the result, a reader still gets the end"


@requirement("A2A5")
async def test_a_message_stream_ends_with_a_question_and_a_subscription_goes_on(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    client = person_of(world, ops)
    async with client.stream(client.message("send it")) as stream:
        first = await stream.event()
        assert first is not None
        task_id = first.id.rpartition(":")[0]
        async with client.subscribed(task_id) as subscribed:
            (given,) = await world.take(ops)
            await _ask(world, ops, given, "which one?", ["red", "blue"])
            assert [each.state for each in await stream.rest()][-1] == "input-required"
            await client.send(client.message("red", "m-2", taskId=task_id))
            (answer,) = await world.take(ops)
            await reply(ops, handle(answer), "sent")
            states = [each.state for each in await subscribed.rest()]
    assert states[0] == "submitted"
    assert [each for each in states if each in ("input-required", "completed")] == ["input-required", "completed"]


@requirement("A2A5")
async def test_an_idle_stream_gets_a_comment_every_fifteen_seconds(world: MessageWorld) -> None:
    _, ops, client = await team(world)
    task = await client.send(client.message("sort the mail"))
    async with client.subscribed(task["id"]) as stream:
        assert await stream.event() is not None
        for _ in range(4):
            await world.pass_time(8)
        (given,) = await world.take(ops)
        await reply(ops, handle(given), "sorted")
        await stream.rest()
    assert stream.comments >= 1


@requirement("A2A5")
async def test_a_cancelled_task_ends_its_streams(world: MessageWorld) -> None:
    _, _, client = await team(world)
    for more in (DELEGATION, {}):
        task = await client.send(client.message(f"work {len(more)}", **more))
        async with client.subscribed(task["id"]) as stream:
            assert await stream.event() is not None
            await client.cancel(task["id"])
            assert [each.state for each in await stream.rest()][-1] == "canceled"


@requirement("A2A5", "Q8")
async def test_a_stream_shows_that_a_task_waits_for_an_approval_and_goes_on(world: MessageWorld) -> None:
    lead = await world.server.seat("Lead")
    ops = await world.server.seat("Ops", parent_id=lead.id)
    await lead.api.post("/registry/heartbeat", {"workspace_id": lead.id})
    client = A2ACaller(world.server, ops.id, lead.token)
    task = await client.send(client.message("send the invoice", **DELEGATION))
    async with client.subscribed(task["id"]) as stream:
        (given,) = await world.take(ops)
        asked = await ops.api.post(
            f"/workspaces/{ops.id}/approvals", {"action": "send the invoice", "task_id": task["id"]}
        )
        waiting = await stream.event()
        while waiting is not None and waiting.state != "auth-required":
            waiting = await stream.event()
        path = f"/workspaces/{lead.id}/approvals/{asked['approval_id']}/decide"
        await lead.api.post(path, {"decision": "approve"})
        await reply(ops, handle(given), "sent")
        states = ["auth-required", *[each.state for each in await stream.rest()]]
    assert waiting is not None and "until Lead has decided" in str(waiting.data)
    assert states[states.index("auth-required") + 1] == "working"
    assert states[-1] == "completed"
