"""A caller that waits takes the result itself, or its inbox has it: exactly one of both."""

import asyncio
from typing import Any

import pytest

from testing.delegation_steps import asked, begin, row_of
from testing.message_world import MessageWorld, handle, reply
from testing.running_server import Seat
from tests.delegations.test_ends import came
from tests.requirements import requirement


async def held(world: MessageWorld, *, answered: bool = True) -> tuple[Seat, str, int]:
    """A caller that waits for 20 seconds, the delegation, and until when it waits."""
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    receipt = await begin(world, lead, ops, wait_seconds=20)
    (row,) = await world.take(ops)
    if answered:
        await reply(ops, handle(row), "sorted")
    return lead, receipt.row.id, receipt.held_until


@requirement("D7")
async def test_a_caller_that_waits_takes_the_result_and_its_inbox_has_none(world: MessageWorld) -> None:
    lead, delegation_id, until = await held(world)
    assert await came(world, lead) == []
    writer = world.server.server.delegations.writer
    taken = await writer.claim_result(await row_of(world, delegation_id), until)
    assert (taken.delivered, taken.text) == ("here", "sorted")
    await world.pass_time(60)
    assert await came(world, lead) == []
    again = await writer.claim_result(await row_of(world, delegation_id), until)
    assert (again.delivered, again.text) == ("before", "sorted")


@requirement("D7")
async def test_a_caller_that_leaves_finds_the_result_in_its_inbox(world: MessageWorld) -> None:
    lead, delegation_id, until = await held(world)
    writer = world.server.server.delegations.writer
    await writer.release_hold(await row_of(world, delegation_id), until)
    assert await came(world, lead) == [("delegation_result", "sorted")]
    assert (await writer.claim_result(await row_of(world, delegation_id), until)).delivered == "inbox"


@requirement("D7")
async def test_the_result_of_a_caller_that_dies_comes_to_its_inbox_soon_after(world: MessageWorld) -> None:
    lead, _, _ = await held(world)
    await world.pass_time(29)
    assert await came(world, lead) == []
    await world.pass_time(2)
    assert await came(world, lead) == [("delegation_result", "sorted")]


@requirement("D7")
async def test_of_two_that_wait_the_later_one_holds_and_one_of_them_gets_it(world: MessageWorld) -> None:
    lead, delegation_id, first = await held(world, answered=False)
    writer, row = world.server.server.delegations.writer, await row_of(world, delegation_id)
    assert (await writer.claim_result(row, first)).delivered == ""
    second = await writer.hold_result(row, 100)
    await writer.release_hold(row, first)
    found = await row_of(world, delegation_id)
    assert (found.wait_until, found.rev) == (second, row.rev)
    taken = await asyncio.gather(writer.cancel(row, asked(lead, lead).sender, "enough"), writer.hold_result(row, 5))
    assert taken[1] < second
    both = await asyncio.gather(writer.claim_result(found, first), writer.claim_result(found, second))
    assert sorted(each.delivered for each in both) == ["before", "here"]
    assert both[0].text == both[1].text != ""
    assert await writer.hold_result(found, 10) == 0
    assert await came(world, lead) == []


FILE = {"kind": "file", "file": {"uri": "https://files.example/a.txt", "name": "a.txt"}}
DATA = {"kind": "data", "data": {"letters": 3}}


@requirement("D7")
@pytest.mark.parametrize("more", [FILE, DATA], ids=["a file", "data"])
async def test_a_result_that_is_more_than_text_comes_whole_to_the_inbox_of_who_waits(
    world: MessageWorld, more: dict[str, Any]
) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    receipt, writer = await begin(world, lead, ops, wait_seconds=20), world.server.server.delegations.writer
    row, until = receipt.row, receipt.held_until
    await world.take(ops)
    message = {"role": "user", "messageId": "m-1", "parts": [{"kind": "text", "text": "sorted"}, more]}
    body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
    await ops.api.call("POST", f"/workspaces/{lead.id}/a2a", body=body, headers={"x-timeout": "0"})
    text = "sorted" if more is FILE else 'sorted\n{"letters":3}'
    for _ in range(2):  # one that asks again is told the same
        taken = await writer.claim_result(row, until)
        assert (taken.row.result, taken.delivered, taken.text) == (text, "inbox", "")
    (result,) = await world.take(lead)
    assert (result["kind"], result["request_body"]["params"]["message"]["parts"][1]) == ("delegation_result", more)
    assert (await writer.claim_result(row, until)).delivered == "inbox"
    await world.pass_time(60)
    assert await world.take(lead) == []
    await lead.api.post(f"/workspaces/{lead.id}/activity/ack", {"acked_seq": result["seq"]})
    again = await writer.claim_result(row, until)
    assert (again.delivered, again.text) == ("before", text)
