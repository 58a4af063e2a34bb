"""What the two sides of a delegation say of it over HTTP: that there is one, how far it is, how it has ended."""

from functools import partial
from typing import Any, NamedTuple

import pytest

from testing.callers import UNKNOWN
from testing.message_world import MessageWorld, handle, reply
from testing.running_server import Seat
from testing.waits import refused
from tests.delegations.test_over_http import full, give, pair, tasks, work
from tests.requirements import requirement

RECORDED = "own-1"


class Sides(NamedTuple):
    """Work that lead gave ops, of which ops gave helper a part; and somebody from elsewhere."""

    lead: Seat
    ops: Seat
    helper: Seat
    stranger: Seat
    id: str
    below: str


async def sides(world: MessageWorld) -> Sides:
    """Both delegations are in hand."""
    lead, ops = await pair(world)
    helper = await world.server.seat("Helper")
    stranger = await world.server.seat("Stranger", org_id=await world.server.org("Other"))
    first = await give(lead, ops)
    await world.take(ops)
    second = await give(ops, helper, "a part of it")
    await world.take(helper)
    return Sides(lead, ops, helper, stranger, first["delegation_id"], second["delegation_id"])


async def record(source: Seat, target: Seat | str, task: str = "sort the mail", name: str = RECORDED) -> Any:
    """A workspace says that it gave work by a way of its own."""
    target_id = target if isinstance(target, str) else target.id
    body = {"target_id": target_id, "task": task, "delegation_id": name}
    return await source.api.call("POST", f"/workspaces/{source.id}/delegations/record", body=body)


async def update(seat: Seat, delegation_id: str, status: str = "completed", **said: Any) -> Any:
    """A side says how it has ended."""
    path = f"/workspaces/{seat.id}/delegations/{delegation_id}/update"
    return await seat.api.post(path, {"status": status, **said})


def status_path(seat: Seat, delegation_id: str, *, by_id: bool = False) -> str:
    """Where progress is told."""
    return f"{'' if by_id else f'/workspaces/{seat.id}'}/delegations/{delegation_id}/status"


async def report(seat: Seat, delegation_id: str, *, by_id: bool = False, **said: Any) -> Any:
    """A side says how far it is."""
    return await seat.api.post(status_path(seat, delegation_id, by_id=by_id), said)


# -- recorded ----------------------------------------------------------------------------------------------------------


@requirement("D6", "W1")
async def test_what_went_another_way_is_noted_and_ended_by_who_noted_it(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    assert await record(lead, ops) == {"delegation_id": RECORDED, "status": "recorded"}
    assert (await record(lead, ops))["idempotent_hit"] is True
    error = await refused(record(lead, ops, "something else"))
    assert (error.status, error.code) == (409, "message_id_reused")
    assert await world.take(ops) == []  # it went another way, and comes no second time
    (item,) = await lead.api.get(f"/workspaces/{lead.id}/delegations")
    assert (item["status"], item["recorded"], item["summary"]) == ("pending", True, "sort the mail")
    assert await update(lead, RECORDED, response_preview="sor") == {"delegation_id": RECORDED, "status": "completed"}
    assert (await full(lead, RECORDED))["result"] == "sor"
    assert await world.take(lead) == []
    await record(lead, ops, name="own-2")
    assert (await update(lead, "own-2", "failed", error="lost it"))["status"] == "failed"
    failed = (await full(lead, "own-2"))["delegation"]
    assert (failed["reason"], failed["error_detail"]) == ("reported", "lost it")


@requirement("D6")
async def test_two_organisations_may_note_work_under_one_id(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    other = await world.server.org("Other")
    far, near = await world.server.seat("Far", org_id=other), await world.server.seat("Near", org_id=other)
    await record(lead, ops)
    await record(far, near, "another task")
    assert [(await full(seat, RECORDED))["task"] for seat in (lead, far)] == ["sort the mail", "another task"]
    await update(far, RECORDED, response_preview="done")
    assert (await full(lead, RECORDED))["delegation"]["status"] == "pending"


@requirement("D2", "S8")
async def test_work_for_somebody_out_of_reach_is_not_even_noted(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    stranger = await world.server.seat("Stranger", org_id=await world.server.org("Other"))
    below = await world.server.seat("Below", parent_id=ops.id)
    assert (await refused(record(lead, below))).code == "may_not_talk"
    assert (await refused(record(lead, lead))).code == "self_delegation"
    foreign, unknown = await refused(record(lead, stranger)), await refused(record(lead, UNKNOWN))
    assert (foreign.status, foreign.problem) == (404, unknown.problem)
    assert await lead.api.get(f"/workspaces/{lead.id}/delegations") == []


@pytest.mark.parametrize(("name", "value"), [("delegation_id", ""), ("delegation_id", "a b"), ("task", " ")])
async def test_a_note_that_can_be_nothing_is_refused(world: MessageWorld, name: str, value: str) -> None:
    lead, ops = await pair(world)
    said = {"target_id": ops.id, "task": "sort", "delegation_id": "own-1", name: value}
    error = await refused(lead.api.post(f"/workspaces/{lead.id}/delegations/record", said))
    assert error.status in (400, 422)
    assert await lead.api.get(f"/workspaces/{lead.id}/delegations") == []


# -- ended by the target -----------------------------------------------------------------------------------------------


@requirement("D6", "D7")
async def test_the_target_ends_it_with_its_whole_answer_which_comes_into_the_inbox_once(world: MessageWorld) -> None:
    there, answer = await sides(world), "sorted " * 100
    told = await update(there.ops, there.id, result=answer, response_preview="sorted")
    assert told == {"delegation_id": there.id, "status": "completed"}
    assert (await update(there.ops, there.id, "failed", error="no"))["status"] == "completed"  # stays so
    (row,) = await world.take(there.lead)
    assert (row["kind"], row["response_body"]["text"]) == ("delegation_result", answer)
    story = await full(there.lead, there.id)
    assert [(each["fact"], each["late"]) for each in story["timeline"]][-2:] == [
        ("answered", False),
        ("declined", True),
    ]


@requirement("D6", "D8")
async def test_the_target_says_that_it_failed_and_why(world: MessageWorld) -> None:
    there = await sides(world)
    assert (await update(there.ops, there.id, "failed", error="no access"))["status"] == "failed"
    item = (await full(there.lead, there.id))["delegation"]
    assert (item["reason"], item["error"], item["error_detail"]) == ("rejected", "no access", "no access")


@requirement("P5")
async def test_nothing_is_completed_without_an_answer(world: MessageWorld) -> None:
    there = await sides(world)
    error = await refused(update(there.ops, there.id))
    assert (error.status, error.code) == (400, "invalid_message")
    assert (await full(there.lead, there.id))["delegation"]["status"] == "queued"


# -- progress ----------------------------------------------------------------------------------------------------------


@requirement("D12")
@pytest.mark.parametrize("by_id", [True, False])
async def test_the_worker_says_how_far_it_is_by_either_path(world: MessageWorld, *, by_id: bool) -> None:
    there = await sides(world)
    said = {"current_step": " reading\nall ", "tools_used": ["grep", "sort"], "eta_hint": "soon", "percent": 40}
    told = await report(there.ops, there.id, by_id=by_id, **said)
    assert told == {"status": "noted", "noted": True, "delegation_status": "queued"}
    assert (await full(there.lead, there.id))["delegation"]["phase"] == "working"
    await update(there.ops, there.id, result="sorted")
    told = await report(there.ops, there.id, by_id=by_id, percent=99)
    assert told == {"status": "noted", "noted": False, "delegation_status": "completed"}


@requirement("D12")
@pytest.mark.parametrize(
    "said",
    [
        {"percent": 101},
        {"percent": -1},
        {"tools_used": ["x"] * 21},
        {"tools_used": ["x" * 101]},
    ],
)
async def test_progress_out_of_bounds_is_refused(world: MessageWorld, said: dict[str, Any]) -> None:
    there = await sides(world)
    error = await refused(report(there.ops, there.id, **said))
    assert (error.status, error.code) == (422, "invalid_field")
    assert (await full(there.lead, there.id))["delegation"]["phase"] == "claimed"


@requirement("D12", "S14")
async def test_what_cannot_be_seen_is_left_out_of_what_is_said_and_loses_nothing_else(world: MessageWorld) -> None:
    there = await sides(world)
    await report(there.ops, there.id, current_step="\x1b[31mreads\x1b[0m the\u202e mail", tools_used=["grep\u200f"])
    said = (await full(there.lead, there.id))["delegation"]["progress"]
    assert (said["current_step"], said["tools_used"]) == ("reads the mail", ["grep"])
    await update(there.ops, there.id, status="failed", error="\x1b[1mTraceback\x1b[0m: no\ufeff mail")
    assert (await full(there.lead, there.id))["delegation"]["error"] == "Traceback: no mail"


# -- who may -----------------------------------------------------------------------------------------------------------


@requirement("D6", "S8")
async def test_who_sees_work_and_does_not_do_it_may_not_speak_for_who_does(world: MessageWorld) -> None:
    there = await sides(world)
    await record(there.lead, there.ops)
    told = {"status": 403, "code": "not_the_worker"}
    wrong = [
        update(there.lead, there.id, result="sorted"),
        update(there.ops, there.below, result="sorted"),
        update(there.ops, RECORDED, result="sorted"),  # the source of what it only noted is who ends it
        report(there.lead, there.id),
        report(there.lead, there.id, by_id=True),
        report(there.lead, there.below, by_id=True),  # it sees that, since it gave what is above
        report(there.ops, there.below, by_id=True),
        report(there.ops, RECORDED),
        report(there.ops, RECORDED, by_id=True),
        report(there.lead, RECORDED),
    ]
    for each in wrong:
        error = await refused(each)
        assert {"status": error.status, "code": error.code} == told
    rows = await there.lead.api.get(f"/workspaces/{there.lead.id}/delegations")
    assert [(row["status"], row["phase"]) for row in rows] == [("pending", "waiting"), ("queued", "claimed")]


@requirement("S8")
async def test_work_of_others_is_to_everybody_else_as_if_it_were_not_there(world: MessageWorld) -> None:
    there = await sides(world)
    unknown = (await refused(update(there.stranger, UNKNOWN, result="sorted"))).problem
    for seat, delegation_id in (
        (there.stranger, there.id),
        (there.helper, there.id),
        (there.lead, there.below),  # it may read it; it is no side of it
        (there.lead, "no%00body"),
    ):
        for asked in (partial(update, result="sorted"), report):
            error = await refused(asked(seat, delegation_id))
            assert (error.status, error.problem) == (404, unknown)
    for seat in (there.stranger, there.helper):
        error = await refused(report(seat, there.id, by_id=True))
        assert (error.status, error.problem) == (404, unknown)
    for refused_to in (world.person, world.server.admin):
        for path in (status_path(there.ops, there.id), status_path(there.ops, there.id, by_id=True)):
            assert (await refused(refused_to.post(path, {}))).code == "credential_not_accepted"


@requirement("D6", "D7")
async def test_an_answer_after_the_end_changes_nothing_and_is_kept_as_late(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    told = await give(lead, ops)
    (row,) = [row for row in await world.take(ops) if row["kind"] == "delegation"]
    await update(ops, told["delegation_id"], result="sorted")
    await reply(ops, handle(row), "sorted again")
    assert tasks(await lead.api.get(f"/workspaces/{lead.id}/delegations", state="completed")) == ["sort the mail"]
    assert (await full(lead, told["delegation_id"]))["result"] == "sorted"
    assert len(await world.take(lead)) == 1


@requirement("D6")
async def test_work_that_was_answered_by_a_reply_stays_as_it_was_answered(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    told = await give(lead, ops)
    await work(world, ops)
    assert (await update(ops, told["delegation_id"], "failed", error="no"))["status"] == "completed"
    assert (await full(lead, told["delegation_id"]))["result"] == "sorted"
