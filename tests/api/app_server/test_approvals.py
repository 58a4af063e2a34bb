"""Approvals over `/threads/ws`: who is asked, whose answer counts, and what the others are told."""

import json
from typing import Any

from testing.app_server_client import Client, client
from testing.live_clients import token_of
from testing.running_server import Seat
from testing.thread_world import ThreadWorld
from tests.requirements import requirement
from tests.threads.test_agents import spawned

_ASKED = "item/approval/requestApproval"


async def asks(seat: Seat, action: str) -> Any:
    """A workspace asks for leave."""
    return await seat.api.post(f"/workspaces/{seat.id}/approvals", {"action": action, "details": {"to": "all"}})


async def answers(one: Client, name: str, **result: Any) -> None:
    """An answer to what the server asks."""
    await one.send(json.dumps({"id": name, "result": result}))


@requirement("TH13")
async def test_an_approval_is_asked_of_all_who_follow_and_may_decide_and_the_first_answer_wins(
    world: ThreadWorld,
) -> None:
    ops, other = await world.server.seat("Ops"), await world.server.seat("Other")
    thread = (await world.starts(ops))["thread_id"]
    first, second, viewer = [await token_of(world.server, role) for role in ("operator", "owner", "viewer")]
    async with (
        client(world.server, first) as one,
        client(world.server, second) as two,
        client(world.server, viewer) as three,
    ):
        for each in (one, two, three):
            await each.begins(threads=[thread])
        await asks(other, "look away")  # of a workspace that has no thread in what they follow
        item = await asks(ops, "send mail")
        shown = await one.hears(_ASKED)
        assert (shown["action"], shown["details"], shown["workspaceId"]) == ("send mail", {"to": "all"}, ops.id)
        assert (shown["rootThreadIds"], shown["availableDecisions"]) == ([thread], ["accept", "decline"])
        assert await two.hears(_ASKED) == shown
        name = one.told[-1]["id"]
        await answers(one, name, decision="perhaps")
        assert "accept, decline" in (await one.hears("warning"))["message"]
        await answers(one, name, decision="accept", note="go on")
        for each in (one, two):
            ended = await each.hears("serverRequest/resolved")
            assert (ended["requestId"], ended["status"]) == (name, "approved")
        await answers(two, name, decision="decline")  # too late: nothing is asked any more
        assert (await two.does("thread/list", workspaceId=ops.id))["data"]
        now = await ops.api.get(f"/workspaces/{ops.id}/approvals/{item['approval_id']}")
        assert (now["status"], now["decided"]["note"]) == ("approved", "go on")
        await three.does("thread/list", workspaceId=ops.id)
        told = [each["method"] for each in three.told]
        assert _ASKED not in told and "serverRequest/resolved" not in told


@requirement("TH13", "TH6", "P1")
async def test_a_childs_approval_reaches_who_follows_its_root_while_it_climbs_the_organisation(
    world: ThreadWorld,
) -> None:
    lead = await world.server.seat("Lead")
    ops = await world.server.seat("Ops", parent_id=lead.id)
    for each in (lead, ops):
        await each.api.post("/registry/heartbeat", {"workspace_id": each.id})
    root, apart = await world.starts(lead), (await world.starts(ops))["thread_id"]
    async with client(world.server, await token_of(world.server)) as one:
        await one.begins(threads=[root["thread_id"]])
        child = await spawned(world, lead.api, root, "dig", workspace_id=ops.id)
        aside = {"action": "look away", "thread_id": apart}  # the same workspace, in a tree that nobody follows
        await ops.api.post(f"/workspaces/{ops.id}/approvals", aside)
        asked = {"action": "deploy", "thread_id": child["thread_id"]}
        item = await ops.api.post(f"/workspaces/{ops.id}/approvals", asked)
        assert item["holder"]["name"] == "Lead"  # whose turn it is, as the organisation has it
        shown = await one.hears(_ASKED)
        assert (shown["action"], shown["threadId"], shown["rootThreadIds"]) == (
            "deploy",
            child["thread_id"],
            [root["thread_id"]],
        )
        where = f"/workspaces/{lead.id}/approvals/{item['approval_id']}"
        await lead.api.post(f"{where}/decide", {"decision": "deny"})
        assert (await one.hears("serverRequest/resolved"))["status"] == "denied"


@requirement("TH13")
async def test_who_comes_later_is_asked_what_still_waits(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread = (await world.starts(ops))["thread_id"]
    item = await asks(ops, "send mail")
    async with client(world.server, await token_of(world.server)) as one:
        await one.begins()
        await one.does("thread/subscribe", threadId=thread)
        assert (await one.hears(_ASKED))["approvalId"] == item["approval_id"]
        await answers(one, one.told[-1]["id"], decision="decline")
        assert (await one.hears("serverRequest/resolved"))["status"] == "denied"
