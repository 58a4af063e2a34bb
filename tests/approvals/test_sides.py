"""Beside the ladder: credentials, rules of tools, restarts, two at once, events and snapshots, retention, figures."""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiError
from testing.approval_histories import bustle
from testing.approval_world import LEVEL_SECONDS, ApprovalWorld, code, decide, path, text_of
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import journal_of
from testing.raw_http import Reply, request, wire
from testing.running_server import running
from testing.snapshot_follower import follow, state_of
from testing.waits import bounded, eventually, until_waiting
from testing.workspaces import remove
from tests.requirements import requirement


@requirement("Q5", "M3")
async def test_a_requester_decides_nothing_by_any_route_and_strangers_see_nothing(world: ApprovalWorld) -> None:
    root, lead, ops = await world.line("Root", "Lead", "Ops")
    sibling = await world.seat("Sibling", lead)
    viewer, owner = await world.server.person("viewer"), await world.server.person("owner")
    elsewhere = await world.server.person("owner", await world.server.org("Elsewhere"))
    item = await world.asks(ops)
    for decision in ("approve", "deny", "escalate", "more_info"):
        assert await code(world.decides(ops, item, decision, note="?")) == (403, "own_approval")
        assert await code(decide(ops.api, lead.id, item, decision, note="?")) == (404, "not_found")
    for seat in (sibling, root):
        assert await code(world.decides(seat, item, "approve")) == (404, "not_found")
        assert await code(decide(seat.api, ops.id, item, "approve")) == (404, "not_found")
        assert await code(seat.api.get(path(item))) == (404, "not_found")
        assert await code(seat.api.post(f"{path(item)}/use", {"action_hash": item["action_hash"]})) == (
            404,
            "not_found",
        )
    assert await code(decide(viewer, ops.id, item, "approve")) == (403, "role_too_low")
    for work in (elsewhere.get(path(item)), decide(elsewhere, ops.id, item, "deny")):
        assert await code(work) == (404, "not_found")
    assert (await elsewhere.get("/approvals/pending"))["approvals"] == []
    for where in ("/approvals/pending", "/approvals"):
        assert await code(lead.api.get(where)) == (403, "credential_not_accepted")
    own_path = f"/workspaces/{lead.id}/approvals"
    assert await code(lead.api.post(f"{own_path}/{item['approval_id']}/withdraw")) == (404, "not_found")
    for role, count in (("requester", 0), ("holder", 1), ("any", 1)):
        assert len((await lead.api.get(own_path, role=role))["approvals"]) == count
    assert (await decide(lead.api, ops.id, item, "approve"))["status"] == "approved", "the requester's id does too"
    assert (await owner.get(path(item)))["decided"]["by"]["name"] == "Lead"
    empty: dict[str, dict[str, list[Any]]] = {"approval-rules": {"rules": []}, "standing-authority": {"grants": []}}
    for name, body in empty.items():
        where = f"/workspaces/{ops.id}/{name}"
        assert await code(ops.api.call("PUT", where, body=body)) == (403, "credential_not_accepted")
        assert await code(viewer.call("PUT", where, body=body)) == (403, "role_too_low")
        assert await owner.call("PUT", where, body=body) == body == await ops.api.get(where)


@requirement("Q6")
async def test_a_tool_with_a_rule_runs_with_an_approval_once_and_only_as_approved(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    rule = {"action": "tool:send_message_*", "note": "people read this"}
    await world.person.call("PUT", f"/workspaces/{ops.id}/approval-rules", body={"rules": [rule]})
    where, said = f"/workspaces/{ops.id}/notify", {"message": "hello"}
    refusal = await bounded(_refused(ops, where, said))
    assert (refusal.status, refusal.code, refusal.problem["header"]) == (403, "approval_needed", "X-Molecule-Approval")
    item = refusal.problem["approval"]
    assert (item["source"], item["tool"], item["holder"]["name"]) == ("rule", "send_message_to_user", "Root")
    again = await _refused(ops, where, said)
    assert again.problem["approval"]["approval_id"] == item["approval_id"], "the same call asks once"
    used = {"x-molecule-approval": item["approval_id"]}
    assert await code(ops.api.call("POST", where, body=said, headers=used)) == (409, "not_approved")
    await world.decides(root, item, "approve")
    other = ops.api.call("POST", where, body={"message": "something else"}, headers=used)
    assert await code(other) == (409, "approval_mismatch")
    assert (await ops.api.call("POST", where, body=said, headers=used))["activity_id"]
    assert await code(ops.api.call("POST", where, body=said, headers=used)) == (409, "approval_used")
    assert (await ops.api.get(f"/registry/{ops.id}/peers")) is not None, "other tools need none"
    await root.api.post(f"/workspaces/{root.id}/notify", said)


async def _refused(seat: Any, where: str, body: Any) -> ApiError:
    with pytest.raises(ApiError) as found:
        await seat.api.post(where, body)
    return found.value


@requirement("Q3", "Q6")
async def test_standing_authority_decides_within_its_bounds_and_passes_the_rest_on(world: ApprovalWorld) -> None:
    _root, lead, ops = await world.line("Root", "Lead", "Ops")
    grants = {"grants": [{"action": "pay *", "cost_up_to": 50}]}
    await world.person.call("PUT", f"/workspaces/{lead.id}/standing-authority", body=grants)
    small = await world.asks(ops, "pay Ann", cost=50)
    assert (small["status"], small["decided"]["by"]["kind"], small["decided"]["by"]["name"]) == (
        "approved",
        "rule",
        "Lead",
    )
    assert [each["kind"] for each in small["policy"]] == ["authority"]
    large = await world.asks(ops, "pay Ann", cost=51)
    assert large["holder"]["name"] == "Root" and "exceeds its standing authority" in large["path"][1]["why"]
    assert (await world.asks(ops, "call Ann"))["holder"]["name"] == "Lead"
    rules = {"rules": [{"action": "tool:broadcast_message", "first_time": True}]}
    await world.person.call("PUT", f"/workspaces/{ops.id}/approval-rules", body=rules)
    alone = {"grants": [{"action": "tool:*", "until": "2999-01-01T00:00:00Z"}]}
    await world.person.call("PUT", f"/workspaces/{lead.id}/standing-authority", body=alone)
    await world.server.let_broadcast(ops.id)
    await ops.api.post(f"/workspaces/{ops.id}/broadcast", {"message": "hello"})
    await world.person.call("PUT", f"/workspaces/{lead.id}/standing-authority", body={"grants": []})
    await ops.api.post(f"/workspaces/{ops.id}/broadcast", {"message": "once more"})
    bad = {"grants": [{"action": "a", "from": "tomorrow"}]}
    assert (await code(world.person.call("PUT", f"/workspaces/{lead.id}/standing-authority", body=bad)))[0] == 422


@requirement("Q5")
async def test_of_two_who_decide_at_once_one_wins_and_the_other_reads_who(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    item = await world.asks(ops)
    both = world.decides(root, item, "approve"), world.person_decides(item, "deny")
    found = await asyncio.gather(*both, return_exceptions=True)
    (lost,) = [each for each in found if isinstance(each, ApiError)]
    (won,) = [each for each in found if not isinstance(each, ApiError)]
    assert (lost.status, lost.code) == (409, "already_decided")
    assert lost.problem["approval"]["decided"] == won["decided"]  # type: ignore[index]


@requirement("Q2")
async def test_a_rejection_wakes_the_requesters_waiting_poll(world: ApprovalWorld) -> None:
    _root, ops = await world.line("Root", "Ops")
    item = await world.asks(ops)
    poll = asyncio.create_task(ops.api.get(f"/workspaces/{ops.id}/activity", claim=60, wait=25))
    look = asyncio.create_task(ops.api.get(path(item), wait=25, seq=item["seq"]))
    await until_waiting(world.server.server, 2)
    await world.person_decides(item, "deny")
    (told,) = await bounded(poll)
    assert "was denied" in text_of(told)
    assert (await bounded(look))["status"] == "denied"


@requirement("Q7", "P1")
async def test_an_approval_goes_on_after_a_restart(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock) as server:
        world = ApprovalWorld(server, await server.person(), clock)
        root, _lead, ops = await world.line("Root", "Lead", "Ops")
        item = await world.asks(ops)
        token = root.token
    async with running(engine, place, tmp_path, clock=clock, seed=1) as server:
        world, root.api = ApprovalWorld(server, await server.person(), clock), server.api(token)
        await world.hear(root)
        await world.pass_time(LEVEL_SECONDS + 30, root)
        assert (await world.held_by(item, "Root"))["path"][0] == item["path"][0]
        approved = await world.decides(root, item, "approve")
        assert approved["status"] == "approved"
    async with running(engine, place, tmp_path, clock=clock, seed=2) as server:
        assert await server.admin.get(path(item)) == approved


@requirement("Q7", "M34")
async def test_an_old_snapshot_and_its_events_are_the_new_snapshot(world: ApprovalWorld) -> None:
    taken = await bustle(world, 3)
    events = await journal_of(world.server)
    assert len(taken[-1]["approvals"]) > 5
    for number, old in enumerate(taken):
        for new in taken[number:]:
            between = [event for event in events if event["seq"] <= new["as_of"]]
            assert follow(state_of(old), between)["approvals"] == state_of(new)["approvals"]
    told = {event["event"] for event in events if event["entity"]["kind"] == "approval"}
    assert len(told) >= 7


MOVED = ("WorkspacesMoved", "approvals.on_workspaces_moved")


@requirement("A3")
@pytest.mark.parametrize(
    "row",
    [("ApprovalExplained", "approvals.on_explained"), ("WorkspacesRemoved", "approvals.on_workspaces_removed"), MOVED],
)
@pytest.mark.parametrize("is_there", [True, False])
async def test_each_follower_of_approvals_is_needed(world: ApprovalWorld, row: tuple[str, str], is_there: bool) -> None:
    if not is_there:
        rows = world.server.server.store.subscribers._handlers  # type: ignore[attr-defined]
        (fact,) = [each for each in rows if each.__name__ == row[0]]
        del rows[fact][row[1]]
    root, lead, ops = await world.line("Root", "Lead", "Ops")
    item = await world.asks(ops)
    if row[0] == "ApprovalExplained":
        await world.decides(lead, item, "more_info", note="why?")
        (question,) = await world.mail(ops)
        answer = {"handle": question["instructions"]["reply_handle"], "text": "so"}
        await ops.api.post(f"/workspaces/{ops.id}/reply", answer)
        assert ((await world.now(item))["status"] == "pending") == is_there
    elif row == MOVED:
        await world.person.call("PATCH", f"/workspaces/{ops.id}", body={"parent_id": root.id})
        await world.clock.advance(0)
        if is_there:
            await world.held_by(item, "Root")
        assert (await world.now(item))["holder"]["name"] == ("Root" if is_there else "Lead")
    else:
        await remove(world.server.admin, ops)
        await world.clock.advance(0)
        if is_there:
            await nothing_waits(world)
        else:
            assert len((await world.person.get("/approvals/pending"))["approvals"]) == 1


@requirement("Q7")
async def test_a_person_lists_what_the_organisation_asked_page_by_page_and_nothing_of_another_one(
    world: ApprovalWorld,
) -> None:
    _root, ops = await world.line("Root", "Ops")
    viewer = await world.server.person("viewer")
    elsewhere = await world.server.person("owner", await world.server.org("Elsewhere"))
    made = [await world.asks(ops, f"number {turn}") for turn in range(5)]
    for item, decision in zip(made, ("approve", "deny", "deny"), strict=False):
        await world.person_decides(item, decision)

    async def found(**query: Any) -> tuple[list[str], bool]:
        page = await viewer.get("/approvals", **query)
        return [each["action"] for each in page["approvals"]], page["reached_end"]

    assert await found() == ([f"number {turn}" for turn in (4, 3, 2, 1, 0)], True)
    assert await found(state="decided", limit=2) == (["number 2", "number 1"], False)
    assert await found(state="decided", limit=2, before=made[1]["approval_id"]) == (["number 0"], True)
    assert await found(state="denied") == (["number 2", "number 1"], True)
    assert await found(state="open", limit=2) == (["number 4", "number 3"], True)
    assert await code(viewer.get("/approvals", state="settled")) == (422, "invalid_field")
    assert (await elsewhere.get("/approvals"))["approvals"] == []
    for query in ({"org": made[0]["org_id"]}, {"before": made[0]["approval_id"]}):
        assert await code(elsewhere.get("/approvals", **query)) == (404, "not_found")


async def nothing_waits(world: ApprovalWorld) -> None:
    """Waits until nothing is pending."""
    await eventually(lambda: world.person.get("/approvals/pending"), lambda page: page["approvals"] == [])


@requirement("Q7")
async def test_old_approvals_go_and_are_counted(world: ApprovalWorld) -> None:
    _root, ops = await world.line("Root", "Ops")
    item = await world.person_decides(await world.asks(ops), "deny")
    waiting = await world.asks(ops, "another", expires_in=7 * 86_400)
    approvals = world.server.server.approvals
    assert ("denied",) in [each.labels for each in approvals.meter.samples() if each.value == 1]
    assert (await approvals.reader.count_open())[0] == 1
    world.clock.at += 9 * 86_400 * 1_000_000
    retention = world.server.server._retention
    batches = [each async for each in world.server.server.approvals.retention.batches(retention.cutoff, 100)]
    await asyncio.gather(*(world.server.server.store.run(each.command) for each in batches if each.command))
    assert await code(world.server.admin.get(path(item))) == (404, "not_found")
    assert (await world.server.admin.get(path(waiting)))["approval_id"] == waiting["approval_id"]


@requirement("Q1")
async def test_what_is_asked_has_bounds(world: ApprovalWorld) -> None:
    ops = await world.seat("Ops")
    where = f"/workspaces/{ops.id}/approvals"
    bad: list[dict[str, Any]] = [
        {"action": " "},
        {"action": "tool:notify"},
        {"action": "a", "details": {"x": "y" * 66_000}},
        {"action": "a", "details": {}, "context": {}},
        {"action": "a", "cost": -1},
        {"action": "a", "expires_in": 0},
        {"action": "a", "task_id": "\u00e9"},
    ]
    for each in bad:
        assert (await code(ops.api.post(where, each)))[0] == 422


@requirement("Q1", "Q6")
async def test_nothing_that_is_sent_makes_the_server_fail(world: ApprovalWorld) -> None:
    """NUL characters, numbers without a bound, half characters: taken or refused, on both engines, and never a 500."""
    root, ops = await world.line("Root", "Ops")
    item = await world.asks(ops, details={"n": 1})
    every = f"/workspaces/{ops.id}/approvals"
    one = f"/workspaces/{root.id}/approvals/{item['approval_id']}"
    big = [10**400, 2**63, 2**64, -(2**64), 1.7e308, 10**308]
    sent: list[tuple[str, str, Any]] = []
    for number in big:
        sent += [
            ("POST", every, {"action": "a", "cost": number}),
            ("POST", every, {"action": "a", "details": {"n": number}}),
            ("POST", every, {"action": "a", "expires_in": number}),
            ("POST", f"{one}/decide", {"decision": "deny", "revision": number}),
        ]
    for text in ("a\x00b", "\x00", "\ud800", "\u2028"):
        sent += [
            ("POST", every, {"action": text}),
            ("POST", every, {"action": "a", "reason": text}),
            ("POST", every, {"action": "a", "details": {text: text}}),
            ("POST", every, {"action": "a", "task_id": text}),
            ("POST", f"{one}/decide", {"decision": "more_info", "note": text}),
            ("POST", f"{one}/decide", {"decision": "approve", "action_hash": text}),
            ("POST", f"{one}/decide", {"decision": "escalate", "holder": text}),
            ("POST", f"{path(item)}/answer", {"text": text}),
            ("POST", f"{path(item)}/withdraw", {"note": text, "more": text}),
            ("POST", f"{path(item)}/use", {"action_hash": text}),
        ]
    sent += [("GET", f"{where}?{name}=a%00b", None) for where in (every, path(item)) for name in QUERIED]
    sent += [("GET", f"{every}/a%00b", None), ("POST", f"{every}/a%00b/use", {"action_hash": "h"})]
    for method, where, body in sent:
        data = None if body is None else json.dumps(body).encode()
        reply = await bounded(_raw(world, method, where, data, root if where.startswith(one) else ops))
        assert reply.status < 500, (method, where, body, reply.body)
    for name in ("after", "org", "limit"):
        assert (await code(world.person.get("/approvals/pending", **{name: "a\x00b"})))[0] in (404, 422)
    for number in big:
        for what, body in (("rules", {"cost_above": number}), ("grants", {"cost_up_to": number})):
            name = {"rules": "approval-rules", "grants": "standing-authority"}[what]
            where = f"/workspaces/{ops.id}/{name}"
            with contextlib.suppress(ApiError):
                await world.person.call("PUT", where, body={what: [{"action": "a", **body}]})
            assert (await world.person.get(where))[what] is not None
    page = await world.person.get("/approvals/pending")
    assert len(page["approvals"]) >= 1
    assert await world.server.admin.get("/approvals/pending") == page, "also for who belongs to no organisation"


QUERIED = ("state", "role", "before", "limit", "wait", "seq")


async def _raw(world: ApprovalWorld, method: str, where: str, body: bytes | None, seat: Any) -> Reply:
    async with wire(world.server.port) as line:
        await line.send(request(method, where, body, token=seat.token))
        return await line.reply()
