"""The time line of a workspace: its chat and what it delegated, in the order of its log."""

from typing import Any

import pytest

from testing.delegation_steps import begin
from testing.message_world import MessageWorld, handle, reply
from testing.running_server import Seat
from testing.waits import refused
from tests.requirements import requirement


async def busy(world: MessageWorld, lead: Seat, ops: Seat, rounds: int) -> None:
    """A person and an agent talk, and the agent delegates now and then, more and more often."""
    for number in range(rounds):
        await world.ask(lead, f"please {number}")
        await lead.api.post(f"/workspaces/{lead.id}/notify", {"message": f"yes {number}"})
        for part in range(number):
            await begin(world, lead, ops, f"task {number}.{part}")


async def page(lead: Seat, **query: Any) -> dict[str, Any]:
    """A page of it."""
    found: dict[str, Any] = await lead.api.get(f"/workspaces/{lead.id}/timeline", **query)
    return found


@requirement("D19")
@pytest.mark.parametrize("limit", [1, 2, 3, 7])
async def test_pages_of_any_size_are_the_whole_in_order_and_leave_nothing_out(world: MessageWorld, limit: int) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    await busy(world, lead, ops, 4)
    whole = await page(lead, limit=500)
    assert whole["reached_end"] is True
    words = [item["content"] if item["kind"] == "message" else item["summary"] for item in whole["items"]]
    assert words == [
        *("please 0", "yes 0"),
        *("please 1", "yes 1", "task 1.0"),
        *("please 2", "yes 2", "task 2.0", "task 2.1"),
        *("please 3", "yes 3", "task 3.0", "task 3.1", "task 3.2"),
    ]
    read, before, pages = list[dict[str, Any]](), dict[str, int](), 0
    while True:
        found = await page(lead, limit=limit, **before)
        assert len(found["items"]) <= limit
        read, pages = found["items"] + read, pages + 1
        if found["reached_end"]:
            break
        before = {"before": found["items"][0]["seq"]}
    assert read == whole["items"]
    assert pages == -(-len(words) // limit)


@requirement("D5", "D19")
async def test_a_delegation_keeps_its_place_and_shows_how_it_stands_now(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    delegation = (await begin(world, lead, ops)).row
    await world.ask(lead, "how far is it?")
    (row,) = await world.take(ops)
    await reply(ops, handle(row), "sorted")
    first, second = (await page(lead))["items"]
    assert (first["kind"], first["delegation_id"], first["status"], first["result"]) == (
        "delegation",
        delegation.id,
        "completed",
        "sorted",
    )
    assert (first["seq"], second["kind"], second["content"]) == (delegation.seq, "message", "how far is it?")
    assert await world.person.get(f"/workspaces/{lead.id}/timeline") == {"items": [first, second], "reached_end": True}
    assert (await page(ops))["items"] == []  # what it was given stands in its inbox, not among what it gave


async def test_a_number_that_is_none_is_refused(world: MessageWorld) -> None:
    lead = await world.server.seat("Lead")
    assert (await refused(page(lead, before="0"))).code == "invalid_field"
    assert await page(lead, before=10**18) == {"items": [], "reached_end": True}
