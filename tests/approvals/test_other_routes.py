"""Other ways to what a tool does: a rule for the tool stops them too, and every route of an agent is known to it."""

import asyncio
from functools import partial
from typing import Any

import pytest

from molecule_core.api.approvals.gate import ApprovalGate, tools_of_route
from molecule_core.api.routing import WORKSPACE, Request
from testing.approval_world import ApprovalWorld, Item, code
from testing.raw_http import Reply, ask
from testing.running_server import Seat
from testing.upload_forms import FORM, form, on_disk
from testing.waits import refused
from tests.approvals.test_gate import ONE_ENGINE, call, message, rule, stopped
from tests.requirements import requirement


async def given(source: Seat, target: Seat) -> str:
    """A task that somebody gives."""
    work = {"target_id": target.id, "task": "count"}
    return str((await call(source, f"/workspaces/{source.id}/delegate", work))["delegation_id"])


@ONE_ENGINE
@requirement("Q6")
@pytest.mark.parametrize(
    ("tool", "said"),
    [("reply", {"status": "completed", "result": "seven"}), ("decline", {"status": "failed", "error": "not now"})],
)
async def test_how_work_has_ended_is_said_by_no_other_way_either(world: ApprovalWorld, tool: str, said: Item) -> None:
    root, ops = await world.line("Root", "Ops")
    await rule(world, ops, tool)
    begun = await given(root, ops)
    where = f"/workspaces/{ops.id}/delegations/{begun}/update"
    item = await stopped(ops, where, said)
    assert item["tool"] == tool
    (row,) = await world.person.get(f"/workspaces/{root.id}/delegations")
    assert row["status"] not in ("completed", "failed")
    await world.decides(root, item, "approve")
    for used in (item, item, None):
        told = await call(ops, where, said, used)
        assert told["status"] == said["status"], "said again, it is the end that it has come to"


def about(work: str) -> list[Item]:
    """How a message may say that it is about some work."""
    names = [{name: work} for name in ("delegation_id", "in_reply_to", "cause_activity_id")]
    return [{}, {"in_reply_to": "nothing"}, {"cause_activity_id": "nothing", "delegation_id": work}, *names]


@requirement("Q6")
@pytest.mark.parametrize(("status", "tool", "end"), [("", "reply", "completed"), ("rejected", "decline", "failed")])
async def test_how_work_has_ended_is_said_by_no_message_either(
    world: ApprovalWorld, status: str, tool: str, end: str
) -> None:
    root, ops = await world.line("Root", "Ops")
    await rule(world, ops, tool)
    begun = await given(root, ops)
    where, listed = f"/workspaces/{root.id}/a2a", f"/workspaces/{root.id}/delegations"
    await world.mail(ops)
    said, item = message("m-1", "seven"), Item()
    for named in about(begun):
        said["params"]["message"]["metadata"] = named | ({"status": status} if status else {})
        item = await stopped(ops, where, said)
        assert item["tool"] == tool
    (row,) = await world.person.get(listed)
    assert row["status"] == "queued"
    await world.decides(root, item, "approve")
    assert await call(ops, where, said, item)
    (row,) = await world.person.get(listed)
    assert row["status"] == end


@ONE_ENGINE
@requirement("Q6")
async def test_a_message_that_is_there_already_needs_no_leave_whatever_has_become_of_work_since(
    world: ApprovalWorld,
) -> None:
    root, ops = await world.line("Root", "Ops")
    await rule(world, ops, "reply", "reply_to_workspace")
    begun, where = await given(root, ops), f"/workspaces/{root.id}/a2a"
    await world.mail(ops)
    ends = message("m-1", "seven")
    item = await stopped(ops, where, ends)
    await world.decides(root, item, "approve")
    first = await call(ops, where, ends, item)
    (row,) = await world.person.get(f"/workspaces/{root.id}/delegations")
    assert (row["status"], row["delegation_id"]) == ("completed", begun)
    for used in (item, None):  # the same again, which ends nothing any more
        assert await call(ops, where, ends, used) == first
    reused = await refused(call(ops, where, message("m-1", "eight")))
    assert (reused.status, reused.problem["error"]["data"][0]["reason"]) == (409, "MESSAGE_ID_REUSED")

    await rule(world, ops, "reply")
    said = message("m-2", "I am free")
    first = await call(ops, where, said)
    await given(root, ops)
    assert await call(ops, where, said) == first, "said before there was work that it would end"
    said["params"]["message"]["metadata"] = {"reply_handle": "h"}
    await stopped(ops, where, said)


@ONE_ENGINE
@requirement("Q6")
async def test_a_message_that_ends_no_work_is_no_reply(world: ApprovalWorld) -> None:
    root, lead, ops = await world.line("Root", "Lead", "Ops")
    await rule(world, lead, "reply", "decline")
    begun = await given(root, lead)
    up, down = f"/workspaces/{root.id}/a2a", f"/workspaces/{ops.id}/a2a"
    said = message("m-0", "half of it")
    for number, about_it in enumerate(
        ({"delegation_id": begun, "status": "working"}, {"in_reply_to": begun, "progress": True}, {"intent": "request"})
    ):
        said = message(f"m-{number}", "half of it")
        said["params"]["message"]["metadata"] = about_it
        assert await call(lead, up, said)
    assert await call(lead, down, message("m-4")), "it is said to somebody else"
    (row,) = await world.person.get(f"/workspaces/{root.id}/delegations")
    assert row["status"] == "queued"
    await world.person.call("POST", f"/workspaces/{root.id}/delegations/{begun}/cancel")
    assert await call(lead, up, message("m-5")), "there is no work any more"


@ONE_ENGINE
@requirement("Q6")
async def test_the_end_of_work_given_elsewhere_is_told_without_leave_and_of_others_work_nothing_is_told(
    world: ApprovalWorld,
) -> None:
    root, lead, ops = await world.line("Root", "Lead", "Ops")
    await rule(world, lead, "*")
    noted = {"target_id": ops.id, "task": "count", "delegation_id": "d-1"}
    await call(lead, f"/workspaces/{lead.id}/delegations/record", noted)
    said = {"status": "completed", "result": "seven"}
    assert (await call(lead, f"/workspaces/{lead.id}/delegations/d-1/update", said))["status"] == "completed"
    others = await given(root, await world.seat("Else", root))
    for name in (others, "nothing"):
        refusal = call(lead, f"/workspaces/{lead.id}/delegations/{name}/update", said)
        assert await code(refusal) == (404, "not_found")


@ONE_ENGINE
@requirement("Q6")
async def test_progress_needs_leave_on_both_its_ways(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    await rule(world, ops, "report_progress")
    begun = await given(root, ops)
    for where in (f"/delegations/{begun}/status", f"/workspaces/{ops.id}/delegations/{begun}/status"):
        assert (await stopped(ops, where, {"current_step": "counting"}))["tool"] == "report_progress"


@ONE_ENGINE
@requirement("Q6")
@pytest.mark.parametrize("verb", ["interrupt", "close", "resume"])
async def test_what_is_done_to_an_agent_is_stopped_on_the_way_of_threads_too(world: ApprovalWorld, verb: str) -> None:
    root, ops = await world.line("Root", "Ops")
    thread = await call(ops, f"/workspaces/{ops.id}/threads", {"base_instructions": "Be brief."})
    await rule(world, ops, f"{verb}_agent")
    where = f"/threads/{thread['thread_id']}/{verb}"
    item = await stopped(ops, where, {})
    assert item["tool"] == f"{verb}_agent"
    await world.decides(root, item, "approve")
    assert await call(ops, where, {}, item)


@ONE_ENGINE
@requirement("Q6")
async def test_a_message_that_names_the_handle_of_another_is_a_reply_or_declines(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    await rule(world, ops, "reply", "decline")
    await given(root, ops)
    (row,) = [each for each in await world.mail(ops) if each["kind"] == "delegation"]
    handle = row["instructions"]["reply_handle"]
    for metadata, tool in (({}, "reply"), ({"status": "rejected"}, "decline")):
        body = message("m-1", "seven")
        body["params"]["message"]["metadata"] = {"reply_handle": handle, **metadata}
        assert (await stopped(ops, f"/workspaces/{root.id}/a2a", body))["tool"] == tool
    told = {"message": "seven", "reply_handle": handle}
    assert (await stopped(ops, f"/workspaces/{ops.id}/notify", told))["tool"] == "reply"


@ONE_ENGINE
@requirement("Q6")
async def test_under_a_rule_for_it_a_card_is_changed_neither_with_the_seat_nor_by_a_sign_of_life(
    world: ApprovalWorld,
) -> None:
    ops = await world.seat("Ops")
    seat, beat = "/registry/register", "/registry/heartbeat"
    await rule(world, ops, "update_agent_card")
    await call(ops, seat, {"id": ops.id, "agent_card": {"name": "first", "loaded_mcp_tools": ["reply"]}})
    assert (await card(ops)) == {"name": "first", "loaded_mcp_tools": ["reply"]}, "there was none before"
    await call(ops, seat, {"id": ops.id, "agent_card": {"name": "second", "loaded_mcp_tools": ["decline"]}})
    assert (await card(ops)) == {"name": "first", "loaded_mcp_tools": ["decline"]}
    await call(ops, beat, {"workspace_id": ops.id, "agent_card": {"name": "third"}})
    assert (await card(ops))["name"] == "first"
    await stopped(ops, "/registry/update-card", {"workspace_id": ops.id, "agent_card": {"name": "fourth"}})
    await rule(world, ops)
    await call(ops, beat, {"workspace_id": ops.id, "agent_card": {"name": "third"}})
    assert (await card(ops))["name"] == "third"


@ONE_ENGINE
@requirement("Q6")
@pytest.mark.parametrize("way", ["register", "heartbeat"])
async def test_what_an_agent_brings_along_does_not_take_back_a_change_of_its_card_that_was_approved_meanwhile(
    world: ApprovalWorld, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, ops = await world.line("Root", "Ops")
    first, second = ({"name": name, "loaded_mcp_tools": ["reply"]} for name in ("first", "second"))
    await call(ops, "/registry/register", {"id": ops.id, "agent_card": first})
    await rule(world, ops, "update_agent_card")
    update = {"workspace_id": ops.id, "agent_card": second}
    item = await stopped(ops, "/registry/update-card", update)
    await world.decides(root, item, "approve")
    real, meanwhile = ApprovalGate.requires_approval, [partial(call, ops, "/registry/update-card", update, item)]

    async def is_needed(self: ApprovalGate, asked: Request, tool: str) -> bool:
        found = await real(self, asked, tool)
        while meanwhile:
            await meanwhile.pop()()
        return found

    monkeypatch.setattr(ApprovalGate, "requires_approval", is_needed)
    named = "id" if way == "register" else "workspace_id"
    await call(ops, f"/registry/{way}", {named: ops.id, "agent_card": first})
    assert (await card(ops), meanwhile) == (second, [])


@ONE_ENGINE
@requirement("Q6")
@pytest.mark.parametrize("listed", [{"anything": ["I am the admin"]}, "I am the admin", [{"name": "I am the admin"}]])
async def test_under_a_rule_for_it_a_card_takes_nothing_but_names_of_tools(world: ApprovalWorld, listed: Any) -> None:
    ops = await world.seat("Ops")
    await call(ops, "/registry/register", {"id": ops.id, "agent_card": {"name": "first"}})
    await rule(world, ops, "update_agent_card")
    brought = {"name": "second", "loaded_mcp_tools": listed}
    await call(ops, "/registry/register", {"id": ops.id, "agent_card": brought})
    await call(ops, "/registry/heartbeat", {"workspace_id": ops.id, "agent_card": brought})
    found = await card(ops)
    assert (found.pop("loaded_mcp_tools", []), found) == ([], {"name": "first"})


@ONE_ENGINE
async def test_the_tools_of_a_sign_of_life_stand_in_the_card_that_there_is_by_then(world: ApprovalWorld) -> None:
    ops, org = await world.seat("Ops"), world.server.server.org_writer
    await asyncio.gather(org.update_card(ops.id, {"name": "new"}), org.update_tools(ops.id, ["reply"]))
    assert (await card(ops)) == {"name": "new", "loaded_mcp_tools": ["reply"]}


async def card(seat: Seat) -> Item:
    """What is known of a workspace's agent."""
    found: Item = (await seat.api.get(f"/workspaces/{seat.id}"))["agent_card"]
    return found


async def upload_as(
    world: ApprovalWorld, sender: Seat, target: Seat, content: bytes, used: Item | None = None
) -> Reply:
    """Upload a file as a workspace, with the approval that it uses."""
    named = {} if used is None else {"X-Molecule-Approval": used["approval_id"]}
    where = f"/workspaces/{target.id}/chat/uploads"
    body = form(("plan.pdf", content))
    return await ask(world.server.port, "POST", where, body, token=sender.token, headers=FORM | named)


@requirement("Q6", "M35")
@pytest.mark.parametrize("pattern", ["*", "tool:reply_to_workspace"])
async def test_a_file_for_another_workspace_needs_an_approval_as_a_message_does(
    world: ApprovalWorld, pattern: str
) -> None:
    root, ops = await world.line("Root", "Ops")
    rules = {"rules": [{"action": pattern}]}
    await world.person.call("PUT", f"/workspaces/{ops.id}/approval-rules", body=rules)
    stopped_one = await upload_as(world, ops, root, b"the plan")
    item = stopped_one.json["approval"]
    mail_before = [each for each in await world.mail(root) if each["kind"] == "chat_upload_receive"]
    on_disk_before = {name for name in on_disk(world.server) if "-" in name}
    to_itself = await upload_as(world, ops, ops, b"a note")
    await world.decides(root, item, "approve")
    other_bytes = await upload_as(world, ops, root, b"another plan", item)
    sent = await upload_as(world, ops, root, b"the plan", item)
    again = await upload_as(world, ops, root, b"the plan", item)
    (row,) = [each for each in await world.mail(root) if each["kind"] == "chat_upload_receive"]

    assert (stopped_one.status, stopped_one.json["code"]) == (403, "approval_needed")
    (shown,) = item["details"]["files"]
    assert (shown["name"], shown["size"]) == ("plan.pdf", 8)
    assert (mail_before, on_disk_before) == ([], set())
    assert (to_itself.status, sent.status) == (200, 200)
    assert (other_bytes.status, other_bytes.json["code"]) == (409, "approval_mismatch")
    assert (again.status, again.json["code"]) == (409, "approval_used")
    assert row["source_id"] == ops.id


@ONE_ENGINE
@requirement("Q6")
async def test_every_route_by_which_an_agent_acts_is_a_tools_or_is_known_to_need_no_leave(world: ApprovalWorld) -> None:
    acts = [
        each
        for each in world.server.server.routes.routes
        if WORKSPACE in each.access.kinds and (each.method != "GET" or each.upgrades)
    ]
    without = {f"{each.method} {each.path}" for each in acts if not tools_of_route(each)}
    assert without - set(NO_TOOL) == set(), "a rule cannot stop these: name their tool, or say why none is needed"
    assert set(NO_TOOL) - without == set(), "these are gone, or a rule stops them"


_ASKS = "nobody could ask for leave, or give it, without it"
_MAIL = "one's own mail: no question about an approval could be read without it"
_OWN = "what the workspace keeps for itself; no tool does it"
_ENGINE = "an engine's own: it drives a thread of its own workspace, and the calls of that thread are tools"
_THREAD = (
    "a thread of one's own workspace, as an engine begins for its mail and hands it on; agents of others: the tools"
)
_ENDPOINT = "each call of a tool is a request of that tool's own route, which is stopped there"
_LIFE = "a workspace would count as gone; under a rule its card stays as it is"

_HOOK = "an address of its own, to which the changes of its own task are posted; no tool does it"

NO_TOOL = {
    "POST /workspaces/{id}/a2a/tasks/{task_id}/pushNotificationConfigs": _HOOK,
    "DELETE /workspaces/{id}/a2a/tasks/{task_id}/pushNotificationConfigs/{config_id}": _HOOK,
    "POST /registry/register": _LIFE,
    "POST /registry/heartbeat": _LIFE,
    "POST /registry/check-access": "it only asks",
    "POST /workspaces/{id}/activity": "a line in one's own log, which nobody is sent; no tool does it",
    "POST /workspaces/{id}/activity/ack": _MAIL,
    "POST /workspaces/{id}/limit": "what its vendor allows, for people and senders; no tool does it",
    "DELETE /workspaces/{id}/limit": "what its vendor allows, for people and senders; no tool does it",
    "POST /workspaces/{id}/live": "what the workspace does now, for people who watch; no tool does it",
    "POST /workspaces/{id}/activity/release": _MAIL,
    "POST /workspaces/{id}/activity/read": _MAIL,
    "POST /workspaces/{id}/pending-uploads/{file_id}/ack": _MAIL,
    "POST /workspaces/{id}/chat/uploads": "to itself it sends nothing; to others it is stopped once its bytes are here",
    "POST /workspaces/{id}/delegations/record": "it notes what was done elsewhere: nobody is sent anything by it",
    "POST /workspaces/{id}/approvals": _ASKS,
    "POST /workspaces/{id}/approvals/{approval_id}/decide": _ASKS,
    "POST /workspaces/{id}/approvals/{approval_id}/answer": _ASKS,
    "POST /workspaces/{id}/approvals/{approval_id}/withdraw": _ASKS,
    "POST /workspaces/{id}/approvals/{approval_id}/use": _ASKS,
    "DELETE /workspaces/{id}/memories/{memory_id}": "it keeps nothing; no tool does it",
    "POST /workspaces/{id}/memory": _OWN,
    "POST /workspaces/{id}/usage": "it is about what has happened already; no tool does it",
    "DELETE /workspaces/{id}/memory/{key}": _OWN,
    "PUT /workspaces/{id}/shared-context": "files of its own, for its children to look at; no tool does it",
    "PUT /workspaces/{id}/prompt": "it tells people what its prompt is; no tool does it",
    "POST /workspaces/{id}/threads": _THREAD,
    "POST /threads/{thread_id}/turns": _THREAD,
    "POST /threads/{thread_id}/fork": _THREAD,
    "POST /threads/{thread_id}/compact": _ENGINE,
    "POST /threads/{thread_id}/claim": _ENGINE,
    "POST /threads/{thread_id}/release": _ENGINE,
    "POST /threads/{thread_id}/entries": _ENGINE,
    "POST /threads/{thread_id}/turns/{turn_id}/begin": _ENGINE,
    "POST /threads/{thread_id}/turns/{turn_id}/end": _ENGINE,
    "GET /threads/ws": "each of its methods is a request of a thread's route, and is stopped there",
    "GET /ws": "it only tells",
    "POST /mcp": _ENDPOINT,
    "DELETE /mcp": _ENDPOINT,
    "POST /workspaces/{id}/mcp": _ENDPOINT,
    "DELETE /workspaces/{id}/mcp": _ENDPOINT,
}
"""Routes of agents that no rule stops, and why."""
