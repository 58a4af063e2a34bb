"""The ladder: who is asked, who is passed over, what time does, and whose word counts."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

import pytest
from anyio.lowlevel import checkpoint

from molecule_core.messages.obligations.reply_handles import make_handle
from molecule_core.store.group_commit import CommandQueue
from testing.approval_world import (
    ACTION,
    LEASE_SECONDS,
    LEVEL_SECONDS,
    WHOLE_SECONDS,
    ApprovalWorld,
    Item,
    code,
    decide,
    path,
    steps,
    text_of,
    verb,
)
from testing.running_server import Seat
from testing.waits import bounded, eventually
from testing.workspaces import remove
from tests.requirements import requirement


@requirement("Q1", "Q2")
async def test_the_parent_is_asked_by_a_message_and_its_decision_wakes_the_requester(world: ApprovalWorld) -> None:
    lead, ops = await world.line("Lead", "Ops")
    await world.seat("Sibling", lead)
    item = await world.asks(ops, reason="due today", details={"to": "Ann"}, cost=12.5, task_id="t-1")
    assert (item["status"], item["holder"]["name"], item["for_person"]) == ("pending", "Lead", True)
    assert (item["revision"], len(item["action_hash"])) == (1, 64)
    (asked,) = await world.mail(lead)
    assert (asked["kind"], asked["source_id"], asked["id"]) == ("approval_request", ops.id, item["message_id"])
    assert asked["id"] == f"{item['approval_id']}.1"
    for word in (ACTION, "due today", '{"to":"Ann"}', "12.5", item["approval_id"], item["action_hash"]):
        assert word in text_of(asked)
    decided = await world.decides(lead, item, "approve", note="go on", revision=1, action_hash=item["action_hash"])
    assert (decided["status"], decided["decided"]["by"]["name"]) == ("approved", "Lead")
    assert await world.owed(lead) == ["answered"]
    (told,) = await world.mail(ops)
    assert (told["kind"], told["intent"], told["source_id"]) == ("approval_decision", "inform", lead.id)
    assert "was approved" in text_of(told) and "go on" in text_of(told)


@requirement("Q3")
async def test_two_dead_managers_are_passed_over_and_the_person_is_asked(world: ApprovalWorld) -> None:
    root = await world.seat("Root", here=False)
    middle = await world.seat("Middle", root, here=False)
    lead = await world.seat("Lead", middle, here=False)
    ops = await world.seat("Ops", lead)
    await world.person.post(f"/workspaces/{middle.id}/pause")
    item = await world.asks(ops)
    assert (item["holder"]["kind"], item["for_person"]) == ("person", True)
    assert steps(item) == ["requested", "escalated Lead", "escalated Middle", "escalated Root", "asked"]
    assert [each["why"] for each in item["path"][1:4]] == [
        "its agent is offline",
        "it is paused",
        "its agent is offline",
    ]
    decided = await world.person_decides(item, "denied", note="not today")
    assert decided["decided"]["by"] == {
        "kind": "person",
        "id": decided["decided"]["by"]["id"],
        "name": "A operator",
        "session": decided["decided"]["by"]["session"],
    }
    assert len(decided["decided"]["by"]["session"]) == 10
    (told,) = await world.mail(ops)
    assert "was denied" in text_of(told) and "not today" in text_of(told)


@requirement("Q3")
async def test_a_level_that_says_nothing_is_left_behind_and_at_the_end_time_says_no(world: ApprovalWorld) -> None:
    root, lead, ops = await world.line("Root", "Lead", "Ops")
    item = await world.asks(ops)
    (asked,) = await world.mail(lead)
    await world.pass_time(LEVEL_SECONDS, root, lead, ops)
    item = await world.held_by(item, "Root")
    assert item["for_person"] and item["path"][-2]["by"]["kind"] == "clock"
    assert await world.owed(lead) == ["declined"], "who was left behind owes nothing"
    assert await code(world.decides(lead, item, "approve")) == (409, "approval_moved_on")
    assert len(await world.mail(root)) == 1 and asked["id"] != item["message_id"]
    await world.pass_time(LEVEL_SECONDS, root, lead, ops)
    item = await world.held_by(item, "person")
    await world.pass_time(WHOLE_SECONDS, root, lead, ops)
    item = await world.stands(item, "expired")
    assert (item["decided"]["decision"], item["decided"]["by"]["kind"]) == ("deny", "clock")
    assert [each["kind"] for each in item["policy"]] == ["deadline"]
    assert "expired without a decision" in text_of((await world.mail(ops))[-1])
    assert await code(world.person_decides(item, "approve")) == (409, "already_decided")


@requirement("Q3", "Q5")
async def test_at_the_root_agent_and_person_are_asked_and_the_first_word_counts(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    item = await world.asks(ops)
    passed = await world.decides(root, item, "escalate", note="yours")
    assert (passed["holder"]["kind"], passed["status"]) == ("person", "pending")
    assert await world.decides(root, item, "escalate") == passed, "the same by the same changes nothing"
    assert await code(world.decides(root, item, "deny")) == (409, "approval_moved_on")
    assert await code(world.person_decides(item, "escalate")) == (409, "nobody_above")
    approved = await world.person_decides(item, "approve")
    assert await world.person_decides(item, "approved") == approved
    assert await code(world.person_decides(item, "deny")) == (409, "already_decided")
    assert await code(world.decides(root, item, "approve")) == (409, "already_decided")
    second = await world.asks(ops, "another")
    assert (await world.person_decides(second, "deny"))["status"] == "denied"
    assert (await world.owed(root))[-1:] != ["open"], "what the person has decided nobody owes"
    third = await world.asks(root)
    assert (third["holder"]["kind"], third["for_person"]) == ("person", True)


@requirement("Q4")
async def test_a_question_comes_back_answered_by_a_reply_or_by_the_route(world: ApprovalWorld) -> None:
    root, lead, ops = await world.line("Root", "Lead", "Ops")
    item = await world.asks(ops)
    waiting = await world.decides(lead, item, "more_info", note="to whom?")
    assert (waiting["status"], waiting["holder"]["kind"]) == ("info_requested", "requester")
    assert await world.decides(lead, item, "more_info", note="to whom?") == waiting
    (question,) = await world.mail(ops)
    assert (question["kind"], question["intent"]) == ("approval_decision", "request")
    assert "to whom?" in text_of(question)
    await world.pass_time(LEVEL_SECONDS + 30, root, lead, ops)
    assert (await world.now(item))["status"] == "info_requested", "no level's time runs while the requester is asked"
    handle = question["instructions"]["reply_handle"]
    await ops.api.post(f"/workspaces/{ops.id}/reply", {"handle": handle, "text": "to Ann"})
    again = await world.held_by(item, "Lead")
    assert (again["status"], again["revision"], again["path"][-2]["note"]) == ("pending", 2, "to Ann")
    assert await code(world.decides(lead, item, "approve", revision=1)) == (409, "approval_changed")
    asked = (await world.mail(lead))[-1]
    assert "Answer of Ops to the question:\n> to Ann" in text_of(asked)
    await world.person_decides(item, "more_info", note="and why?")
    assert (await verb(ops, item, "answer", text="it is due", details={"to": "Bob"}))["revision"] == 3
    renewed = await world.now(item)
    assert (renewed["holder"]["name"], renewed["for_person"], renewed["details"]) == ("Lead", True, {"to": "Bob"})
    assert renewed["action_hash"] != item["action_hash"]
    assert await code(verb(ops, item, "answer", text="more")) == (409, "nothing_asked")
    assert (await world.person_decides(item, "approve", revision=3))["revision"] == 3


@contextmanager
def taken_together(world: ApprovalWorld, monkeypatch: pytest.MonkeyPatch, count: int) -> Iterator[list[int]]:
    """The store closes its next group only once so many commands wait, so that they are in one. How many each has."""
    queue, gathered, sizes = cast(Any, world.server.server.store)._queue, asyncio.Event(), list[int]()

    async def all_first() -> None:
        while not gathered.is_set():
            await checkpoint()
            if queue.queued_commands >= count:
                gathered.set()

    def on_record() -> list[Any]:
        group: list[Any] = CommandQueue._pick_disjoint_group(queue)
        sizes.append(len(group))
        return group

    with monkeypatch.context() as patched:
        patched.setattr("molecule_core.store.group_commit.yield_to_others", all_first)
        patched.setattr(queue, "_pick_disjoint_group", on_record)
        yield sizes
        gathered.set()


async def explains(world: ApprovalWorld, ops: Seat, item: Item, how: str) -> Callable[[], Awaitable[Any]]:
    """A person asks; what the requester says to that, once it is called, by a handle or by naming the message."""
    await world.person_decides(item, "more_info", note="to whom?")
    (question,) = await world.mail(ops)
    if how == "reply":
        body = {"handle": question["instructions"]["reply_handle"], "text": "to Ann"}
        return partial(ops.api.post, f"/workspaces/{ops.id}/reply", body)
    body = {"message": "to Ann", "in_reply_to": question["id"]}
    return partial(ops.api.post, f"/workspaces/{ops.id}/notify", body)


@requirement("Q4", "M18")
@pytest.mark.parametrize(("how", "in_first_group"), [("reply", 1), ("notify", 2)])
async def test_an_answer_to_a_question_undoes_no_acknowledgement_of_the_same_moment(
    world: ApprovalWorld, monkeypatch: pytest.MonkeyPatch, how: str, in_first_group: int
) -> None:
    lead, ops = await world.line("Lead", "Ops")
    item = await world.asks(ops)
    await ops.api.send(lead.id, "hello", intent="inform")
    await (await explains(world, ops, item, how))()
    await world.held_by(item, "Lead")
    (letter,) = [row for row in await world.mail(lead) if text_of(row) == "hello"]
    answer = await explains(world, ops, item, how)
    with taken_together(world, monkeypatch, 2) as sizes:
        await bounded(asyncio.gather(answer(), lead.api.ack(lead.id, letter)))
    assert sizes[0] == in_first_group, "a reply is decided alone; who it is that a notice answers shows only then"
    await world.held_by(item, "Lead")
    await world.clock.advance(LEASE_SECONDS + 1)
    assert "hello" not in [text_of(row) for row in await world.mail(lead)], "it was acknowledged, and comes no more"


@requirement("Q4", "M32")
async def test_a_draft_that_answers_a_question_stands_once_in_its_own_log(world: ApprovalWorld) -> None:
    lead, ops = await world.line("Lead", "Ops")
    item = await world.asks(ops)
    await world.decides(lead, item, "more_info", note="to whom?")
    (question,) = await world.mail(ops)
    draft = f"/workspaces/{ops.id}/messages/{question['id']}/draft"
    await ops.api.post(draft, {"text": "to Ann"})
    await world.person.post(f"{draft}/send")
    assert (await world.held_by(item, "Lead"))["path"][-2]["note"] == "to Ann"
    rows = await world.person.get(f"/workspaces/{ops.id}/activity")
    assert [row["summary"] for row in rows if row["activity_type"] == "a2a_send"] == ["to Ann"]


@requirement("Q4")
async def test_a_question_from_two_levels_above_is_answered_by_a_reply(world: ApprovalWorld) -> None:
    root, lead, ops = await world.line("Root", "Lead", "Ops")
    item = await world.asks(ops)
    await world.decides(lead, item, "escalate")
    await world.decides(root, item, "more_info", note="to whom?")
    (question,) = await world.mail(ops)
    body = {"handle": question["instructions"]["reply_handle"], "text": "to Ann"}
    for _ in range(2):
        await bounded(ops.api.post(f"/workspaces/{ops.id}/reply", body))
        again = await world.held_by(item, "Root")
        assert (again["status"], again["revision"], again["path"][-2]["note"]) == ("pending", 2, "to Ann")
    assert await world.owed(ops) == ["answered"]


@requirement("Q4", "Q5")
async def test_what_was_edited_is_used_once_and_nothing_else(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    item = await world.asks(ops, details={"to": "Ann", "sum": 5})
    edited = await world.decides(root, item, "approve", details={"to": "Ann", "sum": 4})
    assert (edited["details"], edited["proposed"]["sum"]) == (edited["edited"], 5)
    assert edited["decided"]["edited"] and edited["decided"]["action_hash"] == edited["action_hash"]
    assert edited["action_hash"] != item["action_hash"] and edited["revision"] == 2
    assert await code(verb(ops, item, "use", action_hash=item["action_hash"])) == (409, "approval_mismatch")
    used = await verb(ops, item, "use", action_hash=edited["action_hash"])
    assert used["approval_id"] == item["approval_id"]
    assert await code(verb(ops, item, "use", action_hash=edited["action_hash"])) == (409, "approval_used")
    pending = await world.asks(ops)
    assert await code(verb(ops, pending, "use", action_hash=pending["action_hash"])) == (409, "not_approved")
    late = await world.decides(root, pending, "approve")
    await world.clock.advance(86_400)
    assert await code(verb(ops, pending, "use", action_hash=late["action_hash"])) == (409, "not_approved")


@requirement("Q1", "Q4")
async def test_what_is_withdrawn_or_asked_twice_is_one_thing(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    where, key = f"/workspaces/{ops.id}/approvals", {"idempotency-key": "k-1"}
    first = await ops.api.call("POST", where, body={"action": "a"}, headers=key)
    assert await ops.api.call("POST", where, body={"action": "a"}, headers=key) == first
    assert await code(ops.api.call("POST", where, body={"action": "b"}, headers=key)) == (409, "message_id_reused")
    gone = await verb(ops, first, "withdraw", note="not needed")
    assert gone["status"] == "withdrawn" and await verb(ops, first, "withdraw") == gone
    assert await world.mail(root) == [], "nobody is handed what is withdrawn"
    assert await code(world.decides(root, first, "approve")) == (409, "already_decided")
    denied = await world.person_decides(await world.asks(ops), "deny")
    assert await code(verb(ops, denied, "withdraw")) == (409, "approval_ended")


@requirement("Q2")
async def test_a_text_is_no_decision(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    item = await world.asks(ops)
    (asked,) = await world.mail(root)
    assert "reply_handle" not in asked["instructions"]
    handle = make_handle(item["org_id"], ops.id, root.id, None, asked["id"], asked["seq"])
    for body, name in (({"handle": handle, "text": "yes"}, "reply"), ({"handle": handle, "reason": "no"}, "decline")):
        assert await code(root.api.post(f"/workspaces/{root.id}/{name}", body)) == (409, "decide_instead")
    message = {"role": "user", "parts": [{"kind": "text", "text": "yes"}], "metadata": {"in_reply_to": asked["id"]}}
    sent = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
    refusal = await code(root.api.post(f"/workspaces/{ops.id}/a2a", sent))
    assert refusal[0] == 409
    await root.api.send(ops.id, "by the way")
    assert await world.owed(root) == ["open"], "what is said besides decides nothing"
    await world.pass_time(LEVEL_SECONDS - 1, root, ops)
    assert await world.mail(root) == [], "nobody reminds: the ladder has its own time"
    assert (await world.now(item))["status"] == "pending"


@requirement("Q3")
async def test_the_ladder_goes_on_when_seats_go_or_move(world: ApprovalWorld) -> None:
    root, lead, ops = await world.line("Root", "Lead", "Ops")
    other = await world.seat("Other", root)
    first, second = await world.asks(ops, "one"), await world.asks(lead, "two")
    await world.person.call("PATCH", f"/workspaces/{ops.id}", body={"parent_id": other.id})
    await remove(world.server.admin, lead)
    await world.clock.advance(0)
    moved = await world.held_by(first, "Other")
    assert "the approver is no longer above the requester" in [each["why"] for each in moved["path"]]
    pending = await eventually(lambda: world.person.get("/approvals/pending"), lambda page: len(page["approvals"]) == 1)
    assert pending["approvals"][0]["approval_id"] == first["approval_id"], "the other's requester is gone"
    assert (await world.person.get(path(second)))["status"] == "withdrawn"
    assert await code(lead.api.get(path(second))) == (410, "workspace_removed")
    assert (await decide(other.api, ops.id, first, "approve"))["decided"]["by"]["name"] == "Other"
