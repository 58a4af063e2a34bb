"""Calls of the server's own tools that a rule stops: what an approval lets through, and nothing beside it."""

from typing import Any

import pytest

from molecule_core.client.api import ApiError
from testing.approval_world import ApprovalWorld, Item, code
from testing.running_server import Seat
from testing.waits import bounded, refused
from tests.requirements import requirement

ONE_ENGINE = pytest.mark.parametrize("engine", ["sqlite"])
EXTENSION = {"x-a2a-extensions": "https://molecule.dev/ext/delegation/v1"}


async def rule(world: ApprovalWorld, seat: Seat, *tools: str, **more: Any) -> None:
    """A workspace needs leave for these tools."""
    rules = [{"action": f"tool:{tool}", **more} for tool in tools]
    await world.person.call("PUT", f"/workspaces/{seat.id}/approval-rules", body={"rules": rules})


async def call(seat: Seat, where: str, body: Any, approval: Item | None = None, /, **headers: str) -> Any:
    """A call of a workspace, with the approval that it uses."""
    named = {} if approval is None else {"x-molecule-approval": approval["approval_id"]}
    sent = {name.replace("_", "-"): value for name, value in headers.items()} | named
    return await bounded(seat.api.call("POST", where, body=body, headers=sent))


async def stopped(seat: Seat, where: str, body: Any, /, **headers: str) -> Item:
    """The approval that a stopped call has opened."""
    error: ApiError = await refused(call(seat, where, body, **headers))
    assert (error.status, error.code) == (403, "approval_needed"), error
    found: Item = error.problem["approval"]
    return found


def message(name: str, text: str = "hello", **data: Any) -> Item:
    """A2A message/send."""
    parts: list[Item] = [{"kind": "text", "text": text}, *([{"kind": "data", "data": data}] if data else [])]
    inside = {"role": "user", "messageId": name, "parts": parts}
    return {"jsonrpc": "2.0", "id": name, "method": "message/send", "params": {"message": inside}}


@ONE_ENGINE
@requirement("Q6")
async def test_what_a_caller_says_of_the_cost_of_its_call_counts_for_nothing(world: ApprovalWorld) -> None:
    ops = await world.seat("Ops")
    await rule(world, ops, "send_message_to_user", cost_above=10)
    for cost in (1, 0, -1, 1.5, True, "1", 10**400):
        item = await stopped(ops, f"/workspaces/{ops.id}/notify", {"message": "hello", "cost": cost})
        assert (item["cost"], item["status"]) == (None, "pending")


@ONE_ENGINE
@requirement("Q6")
async def test_blanks_around_a_pattern_are_no_part_of_it_and_a_pattern_of_blanks_is_refused(
    world: ApprovalWorld,
) -> None:
    _root, lead, ops = await world.line("Root", "Lead", "Ops")
    needs, alone = f"/workspaces/{ops.id}/approval-rules", f"/workspaces/{lead.id}/standing-authority"
    rules = {"rules": [{"action": " tool:send_message_to_user\n", "note": " people read this "}]}
    set_ = await world.person.call("PUT", needs, body=rules)
    assert set_ == {"rules": [{"action": "tool:send_message_to_user", "note": "people read this"}]}
    assert await ops.api.get(needs) == set_
    await stopped(ops, f"/workspaces/{ops.id}/notify", {"message": "hello"})
    times = {"from": "2026-01-01T00:00:00Z", "until": "2999-01-01T00:00:00Z"}
    given = await world.person.call("PUT", alone, body={"grants": [{"action": "pay * ", "cost_up_to": 50, **times}]})
    assert (given["grants"][0]["action"], given["grants"][0]["cost_up_to"]) == ("pay *", 50)
    assert (await world.asks(ops, "pay Ann", cost=50))["status"] == "approved"
    for where, what in ((needs, "rules"), (alone, "grants")):
        before = await world.person.get(where)
        bad = world.person.call("PUT", where, body={what: [{"action": "a"}, {"action": " \t"}]})
        assert await code(bad) == (422, "invalid_field")
        assert await world.person.get(where) == before


@ONE_ENGINE
@requirement("Q6", "Q4")
async def test_what_a_client_names_anew_each_time_is_no_part_of_the_call_and_all_else_is(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    await rule(world, ops, "reply_to_workspace")
    where = f"/workspaces/{root.id}/a2a"
    item = await stopped(ops, where, message("m-1", messageId="first", inside={"idempotency_key": "a"}))
    await world.decides(root, item, "approve")
    for other in (
        message("m-1", messageId="second", inside={"idempotency_key": "a"}),
        message("m-1", messageId="first", inside={"idempotency_key": "b"}),
        message("m-1", messageId="first", inside={}),
        message("m-1", inside={"idempotency_key": "a"}),
    ):
        assert await code(call(ops, where, other, item)) == (409, "approval_mismatch")
    assert await call(ops, where, message("m-2", messageId="first", inside={"idempotency_key": "a"}), item)


@ONE_ENGINE
@requirement("Q6")
async def test_a_header_that_makes_a_message_a_delegation_is_part_of_the_call(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    where = f"/workspaces/{root.id}/a2a"
    await rule(world, ops, "reply_to_workspace")
    item = await stopped(ops, where, message("m-1"))
    await world.decides(root, item, "approve")
    assert await code(call(ops, where, message("m-1"), item, **EXTENSION)) == (409, "approval_mismatch")
    # A version is held to its own reading of the same body.
    assert await code(call(ops, where, message("m-1"), item, a2a_version="0.3")) == (409, "approval_mismatch")
    assert await call(ops, where, message("m-1"), item)
    await rule(world, ops, "delegate_task")
    given = await stopped(ops, where, message("m-2"), **EXTENSION)
    assert given["tool"] == "delegate_task"
    assert await call(ops, where, message("m-3")), "no work is given by it"


@requirement("Q6", "Q4")
async def test_the_repetition_of_a_call_that_went_through_is_answered_as_the_first_was(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    await rule(world, ops, "send_message_to_user", "reply_to_workspace", "delegate_task")
    notify, send, give = f"/workspaces/{ops.id}/notify", f"/workspaces/{root.id}/a2a", f"/workspaces/{ops.id}/delegate"
    calls: list[tuple[str, Item, dict[str, str]]] = [
        (notify, {"message": "hello"}, {"idempotency_key": "k-1"}),
        (give, {"target_id": root.id, "task": "count", "idempotency_key": "k-2"}, {}),
        (send, message("m-1"), {}),
    ]
    item: Item = {}
    for where, body, key in calls:
        item = await stopped(ops, where, body, **key)
        await world.decides(root, item, "approve")
        first = await call(ops, where, body, item, **key)
        again = await call(ops, where, body, item, **key)
        assert {**again, "status": "", "idempotent_hit": False} == {**first, "status": "", "idempotent_hit": False}
        assert await call(ops, where, body, **key), "it needs no leave for what it has done"
    other = {**message("m-2"), "id": "m-1"}
    assert await code(call(ops, send, other, item)) == (409, "approval_used"), "in the same words, but another one"
    told = await stopped(ops, notify, {"message": "hello"}, idempotency_key="k-3")
    assert await code(call(ops, notify, {"message": "bye"}, told, idempotency_key="k-1")) == (409, "not_approved")
    (peers,) = [each for each in await world.mail(root) if each["kind"] == "peer_agent"]
    assert peers["source_id"] == ops.id
    await world.clock.advance(86_400)
    await stopped(ops, notify, {"message": "hello"}, idempotency_key="k-1")


def work_as_message(name: str) -> Item:
    """A2A message/send that gives work."""
    body = message(name, "count")
    body["params"]["message"]["metadata"] = {"delegation": True}
    return body


async def decline(seat: Seat, world: ApprovalWorld) -> None:
    """A target gives back the work that it has been given."""
    (row,) = [each for each in await world.mail(seat) if each["kind"] == "delegation"]
    answer = {"handle": row["instructions"]["reply_handle"], "reason": "not now"}
    await bounded(seat.api.post(f"/workspaces/{seat.id}/decline", answer))


@requirement("Q6", "Q4")
@pytest.mark.parametrize("way", ["delegate", "a2a"])
async def test_an_approval_lets_one_delegation_begin_and_none_that_follows_its_failure(
    world: ApprovalWorld, way: str
) -> None:
    root, ops = await world.line("Root", "Ops")
    await rule(world, ops, "delegate_task")
    where, body = f"/workspaces/{root.id}/a2a", work_as_message("m-1")
    if way == "delegate":
        where, body = f"/workspaces/{ops.id}/delegate", {"target_id": root.id, "task": "count", "idempotency_key": "k"}
    item = await stopped(ops, where, body)
    await world.decides(root, item, "approve")
    for _ in range(2):
        assert await call(ops, where, body, item), "under its key it is the one that has begun"
    assert await call(ops, where, body)
    await decline(root, world)
    assert await code(call(ops, where, body, item)) == (409, "approval_used")
    second = await stopped(ops, where, body)
    assert second["approval_id"] != item["approval_id"]
    begun = await world.person.get(f"/workspaces/{ops.id}/delegations")
    assert [each["status"] for each in begun] == ["failed"]
    await world.decides(root, second, "approve")
    assert await call(ops, where, body, second)
    assert await call(ops, where, body)
    begun = await world.person.get(f"/workspaces/{ops.id}/delegations")
    assert len(begun) == 2


@ONE_ENGINE
@requirement("Q6")
async def test_standing_authority_gives_an_approval_of_its_own_to_what_begins_after_a_failure(
    world: ApprovalWorld,
) -> None:
    root, ops = await world.line("Root", "Ops")
    await rule(world, ops, "delegate_task")
    grants = {"grants": [{"action": "tool:delegate_task"}]}
    await world.person.call("PUT", f"/workspaces/{root.id}/standing-authority", body=grants)
    where = f"/workspaces/{ops.id}/delegate"
    body = {"target_id": root.id, "task": "count", "idempotency_key": "k"}
    for count in (1, 2):
        for _ in range(2):
            await call(ops, where, body)
        approvals = (await world.person.get("/approvals"))["approvals"]
        assert (len(approvals), all(each["used_at"] for each in approvals)) == (count, True)
        await decline(root, world)


@ONE_ENGINE
@requirement("Q6")
async def test_a_kept_text_that_is_sent_at_once_is_a_reply(world: ApprovalWorld) -> None:
    ops = await world.seat("Ops")
    await rule(world, ops, "reply")
    sent = await world.person.send(ops.id, "hello?")
    where = f"/workspaces/{ops.id}/messages/{sent['result']['id'] if 'result' in sent else sent['id']}/draft"
    await world.mail(ops)
    assert (await call(ops, where, {"text": "hi"}))["state"] == "answered_outside"
    assert (await stopped(ops, where, {"text": "hi", "send": True}))["tool"] == "reply"
    await world.person.call("PATCH", f"/workspaces/{ops.id}", body={"send_drafts": False})
    assert (await call(ops, where, {"text": "hi there", "send": True}))["state"] == "answered_outside"


@ONE_ENGINE
@requirement("Q6")
async def test_no_other_shape_of_a_request_leads_round_a_rule(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    await rule(world, ops, "*")
    where = f"/workspaces/{root.id}/a2a"
    batch, stream = [message("m-1"), message("m-2")], {**message("m-3"), "method": "message/stream"}
    for body in (batch, stream, {"params": message("m-4")["params"]}):
        await stopped(ops, where, body)
    tool = {"name": "send_message_to_user", "arguments": {"message": "hello"}}
    mcp = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": tool}
    spoken = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
    await refused(ops.api.call("POST", f"/workspaces/{ops.id}/mcp", body=[mcp, mcp], headers=spoken))
    assert [each for each in await world.mail(root) if each["kind"] != "approval_request"] == []
    await rule(world, ops)
    assert (await refused(call(ops, where, batch))).status >= 400
    assert [each for each in await world.mail(root) if each["kind"] != "approval_request"] == []


@requirement("Q4")
async def test_a_use_said_again_under_its_key_is_the_same_use_and_under_another_one_refused(
    world: ApprovalWorld,
) -> None:
    root, ops = await world.line("Root", "Ops")
    item = await world.decides(root, await world.asks(ops), "approve")
    where, body = f"/workspaces/{ops.id}/approvals/{item['approval_id']}/use", {"action_hash": item["action_hash"]}
    first = await call(ops, where, body, idempotency_key="k-1")
    assert await call(ops, where, body, idempotency_key="k-1") == first
    for other in ({"idempotency_key": "k-2"}, {}):
        assert await code(call(ops, where, body, **other)) == (409, "approval_used")
    assert await code(call(ops, where, {"action_hash": "other"}, idempotency_key="k-1")) == (409, "approval_mismatch")


@ONE_ENGINE
@requirement("Q4", "Q6")
async def test_a_call_with_other_arguments_is_told_the_approved_ones(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    await rule(world, ops, "send_message_to_user")
    where = f"/workspaces/{ops.id}/notify"
    item = await stopped(ops, where, {"message": "hello"})
    await world.decides(root, item, "approve")

    error: ApiError = await refused(call(ops, where, {"message": "something else"}, item))

    said = str(error.problem["error"])
    assert said.startswith("this approval allows other arguments than those of this call: {")
    assert '"message":"hello"' in said and "Repeat the call with exactly the approved arguments" in said
    assert "decide" not in said and "changed" not in said
    assert await call(ops, where, {"message": "hello"}, item)


@ONE_ENGINE
@requirement("Q4", "Q6")
async def test_a_call_that_is_not_approved_is_told_whether_to_wait_ask_or_stop(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    await rule(world, ops, "send_message_to_user")
    where = f"/workspaces/{ops.id}/notify"

    async def said(body: Item, item: Item) -> str:
        error: ApiError = await refused(call(ops, where, body, item))
        assert error.code == "not_approved"
        return str(error.problem["error"]).removeprefix("this approval does not allow the action: ")

    denied, plain, late = [{"message": text} for text in ("one", "two", "three")]
    item = await stopped(ops, where, denied)
    assert await said(denied, item) == (
        "its decision is pending. Wait for the decision in your inbox. Do not request another one."
    )
    await world.decides(root, item, "deny", note="Too\n dear.")
    assert await said(denied, item) == (
        'it was denied by Root, with the reason "Too dear.". Do not perform the action, and do not request it again.'
    )
    item = await stopped(ops, where, plain)
    await world.decides(root, item, "more_info", note="Why?")
    assert "open question" in await said(plain, item)
    await world.decides(root, item, "deny")
    assert await said(plain, item) == ("it was denied by Root. Do not perform the action, and do not request it again.")
    item = await stopped(ops, where, late)
    await ops.api.post(f"/workspaces/{ops.id}/approvals/{item['approval_id']}/withdraw", {})
    assert await said(late, item) == "it was withdrawn. Request a new one if the action is still needed."
