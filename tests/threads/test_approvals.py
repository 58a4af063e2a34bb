"""What an agent of a thread asks leave for climbs the organisation, and is seen in all threads above it."""

from testing.live_clients import journal_of
from testing.thread_world import Engine, Item, ThreadWorld, code
from testing.waits import bounded
from tests.requirements import requirement
from tests.threads.test_removed_workspaces import tree_over_two_seats

WAITS: Item = {"type": "status", "flags": ["waiting_on_approval"]}


@requirement("TH6", "P1")
async def test_a_childs_approval_names_its_thread_and_shows_in_every_thread_above_it(world: ThreadWorld) -> None:
    lead, ops, thread, child = await tree_over_two_seats(world)
    for each in (lead, ops):
        await each.api.post("/registry/heartbeat", {"workspace_id": each.id})
    digger = Engine(ops.api, child)
    await digger.claim()
    asked = {"action": "deploy", "source": "thread", "thread_id": child["thread_id"]}
    item = await bounded(ops.api.post(f"/workspaces/{ops.id}/approvals", asked))
    await digger.adds(WAITS)
    assert (item["thread_id"], item["holder"]["name"]) == (child["thread_id"], "Lead")
    assert (await world.reads(child))["active_flags"] == ["waiting_on_approval"]
    assert "waiting_on_child_approval" in (await world.reads(thread))["active_flags"]
    where = f"/workspaces/{lead.id}/approvals/{item['approval_id']}"
    assert (await lead.api.get(where))["thread_id"] == child["thread_id"]
    await lead.api.post(f"{where}/decide", {"decision": "approve"})
    await digger.adds({"type": "status", "flags": []})
    assert "waiting_on_child_approval" not in (await world.reads(thread))["active_flags"]


@requirement("TH6", "P1")
async def test_a_thread_that_ends_while_it_waits_for_leave_holds_nobody_above_up(world: ThreadWorld) -> None:
    _, ops, thread, child = await tree_over_two_seats(world)
    digger = Engine(ops.api, child)
    await digger.claim()
    await digger.adds(WAITS)
    assert await flags_told(world, thread) == ["waiting_on_child_approval"]
    await world.person.post(f"/threads/{child['thread_id']}/close", {})
    assert (await world.reads(thread))["active_flags"] == await flags_told(world, thread) == []


async def flags_told(world: ThreadWorld, thread: Item) -> list[str]:
    """What was told last of what a thread waits for."""
    told = [
        each["payload"]["active_flags"]
        for each in await journal_of(world.server)
        if (each.get("event"), each["entity"]["id"]) == ("THREAD_STATUS_CHANGED", thread["thread_id"])
    ]
    return list(told[-1])


@requirement("P1")
async def test_leave_is_asked_for_in_a_thread_of_ones_own(world: ThreadWorld) -> None:
    lead, ops, thread, _ = await tree_over_two_seats(world)
    for named in (thread["thread_id"], "nothing", ""):
        asked = {"action": "deploy", "thread_id": named}
        assert await code(ops.api.post(f"/workspaces/{ops.id}/approvals", asked)) == (422, "invalid_field")
    assert (await world.person.get(f"/workspaces/{ops.id}/approvals"))["approvals"] == []
    assert (await lead.api.get(f"/workspaces/{lead.id}/approvals"))["approvals"] == []
