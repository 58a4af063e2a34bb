"""The time line of a workspace: its chat and what it delegated, in the order of its log."""

from typing import Any

import pytest

from tests.answers.office import Office, handle, reply
from tests.delegations.work import begin
from tests.journeys.patience import refused
from tests.requirements import requirement
from tests.running import Seat


async def busy(office: Office, lead: Seat, ops: Seat, rounds: int) -> None:
    """A person and an agent talk, and the agent delegates now and then, more and more often."""
    for number in range(rounds):
        await office.ask(lead, f"please {number}")
        await lead.api.post(f"/workspaces/{lead.id}/notify", {"message": f"yes {number}"})
        for part in range(number):
            await begin(office, lead, ops, f"task {number}.{part}")


async def page(lead: Seat, **query: Any) -> dict[str, Any]:
    """A page of it."""
    found: dict[str, Any] = await lead.api.get(f"/workspaces/{lead.id}/timeline", **query)
    return found


@requirement("D19")
@pytest.mark.parametrize("limit", [1, 2, 3, 7])
async def test_pages_of_any_size_are_the_whole_in_order_and_leave_nothing_out(office: Office, limit: int) -> None:
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    await busy(office, lead, ops, 4)
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
async def test_a_delegation_keeps_its_place_and_shows_how_it_stands_now(office: Office) -> None:
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    delegation = (await begin(office, lead, ops)).row
    await office.ask(lead, "how far is it?")
    (row,) = await office.take(ops)
    await reply(ops, handle(row), "sorted")
    first, second = (await page(lead))["items"]
    assert (first["kind"], first["delegation_id"], first["status"], first["result"]) == (
        "delegation",
        delegation.id,
        "completed",
        "sorted",
    )
    assert (first["seq"], second["kind"], second["content"]) == (delegation.seq, "message", "how far is it?")
    assert await office.person.get(f"/workspaces/{lead.id}/timeline") == {"items": [first, second], "reached_end": True}
    assert (await page(ops))["items"] == []  # what it was given stands in its inbox, not among what it gave


async def test_a_number_that_is_none_is_refused(office: Office) -> None:
    lead = await office.server.seat("Lead")
    assert (await refused(page(lead, before="0"))).code == "invalid_field"
    assert await page(lead, before=10**18) == {"items": [], "reached_end": True}
