"""Checks of the type `review`: another workspace or a person decides whether an answer completes the task."""

from typing import Any

import pytest

from molecule_core.client.api import ApiError
from testing.acceptance_jobs import GOOD, REPORT, Job, decide_review, new_job, pending_review, review_by
from testing.delegation_entrances import Tools
from testing.message_world import MessageWorld
from testing.raw_http import ask
from testing.workspaces import remove
from tests.requirements import requirement

JSON = "application/json"


@requirement("D22")
async def test_a_rejected_answer_goes_back_and_a_passed_one_completes_the_task(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([*REPORT, review_by(job.other, "Are the totals right?")], rounds=1)
    row = await job.claim()
    task = row["request_body"]["params"]["message"]["parts"][-1]["text"]
    assert "2. Another workspace reviews the answer after the other checks" in task
    assert 'It looks at this: "Are the totals right?"' in task
    file = await job.upload("report.json", GOOD, JSON)
    await job.submit("see the report", file, row=row)
    report = (await job.detail())["acceptance"]
    review = await pending_review(job)
    assert [(each["check"], each["outcome"]) for each in report["evidence"]] == [(1, "passed")]
    assert (review["check"], review["reviewer_id"]) == (2, job.other.id)

    (request,) = [each for each in await world.take(job.other) if each["kind"] == "approval_request"]
    parts = request["request_body"]["params"]["message"]["parts"]
    assert "Review: Ops answered a task of Lead." in parts[0]["text"]
    assert "> see the report" in parts[0]["text"]
    assert parts[1]["file"]["name"] == "report.json"
    read = await ask(world.server.port, "GET", parts[1]["file"]["uri"], token=job.other.token)
    assert (read.status, read.body) == (200, GOOD)

    await decide_review(job, "deny", note="The total is 4.")
    row = await job.claim()
    assert "2. review: The total is 4." in row["request_body"]["params"]["message"]["parts"][0]["text"]
    await job.submit("the total is 4", file, row=row)
    await decide_review(job, "approve", note="Right.")
    assert await job.outcome() == "completed verified"
    evidence = (await job.detail())["acceptance"]["evidence"]
    found = [(each["answer"], each["check"], each["outcome"], each.get("detail", "")) for each in evidence]
    assert found == [
        (1, 1, "passed", ""),
        (1, 2, "failed", "The total is 4."),
        (2, 1, "passed", ""),
        (2, 2, "passed", "Right."),
    ]
    assert (evidence[3]["ran_by"], evidence[3]["by"]) == (job.other.id, "Other")
    assert (await job.detail())["acceptance"]["reviews"] == []


@requirement("D22")
async def test_a_person_reviews_without_a_reviewer(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([{"type": "review"}])
    await job.submit("all good")
    pending = await world.server.admin.get("/approvals/pending")
    (approval,) = [each for each in pending["approvals"] if each["source"] == "review"]
    assert (approval["for_person"], approval["action"]) == (True, "review_answer")
    assert approval["details"]["answer"] == "all good"
    path = f"/workspaces/{job.ops.id}/approvals/{approval['approval_id']}/decide"
    await world.server.admin.post(path, {"decision": "approve"})
    assert await job.outcome() == "completed verified"
    (evidence,) = (await job.detail())["acceptance"]["evidence"]
    assert evidence["ran_by"].startswith("person:")


@requirement("D22")
async def test_a_review_is_not_requested_of_an_answer_that_fails_another_check(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([{"type": "text", "contains": "42"}, review_by(job.other)], rounds=1)
    await job.answer("done")
    assert (await job.detail())["delegation"]["phase"] == "needs_work"
    assert [each["kind"] for each in await world.take(job.other)] == []


@requirement("D22")
async def test_one_rejection_ends_the_other_reviews(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([review_by(job.other), review_by(job.lead), {"type": "review"}], rounds=0)
    await job.submit("done")
    reviews = (await job.detail())["acceptance"]["reviews"]
    assert len(reviews) == 3
    await decide_review(job, "deny", note="No.", by=job.other)
    assert await job.outcome() == "failed unproven"
    for each in reviews[1:]:
        found = await world.server.admin.get(f"/workspaces/{job.ops.id}/approvals/{each['approval_id']}")
        assert found["status"] == "withdrawn"


@requirement("D22")
async def test_all_reviews_must_pass(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([review_by(job.other), review_by(job.lead)])
    await job.submit("done")
    await decide_review(job, "approve", by=job.lead)
    assert (await job.detail())["delegation"]["phase"] == "checking"
    await decide_review(job, "approve", by=job.other)
    assert await job.outcome() == "completed verified"


@requirement("D22")
async def test_a_silent_reviewer_is_reminded_once_and_the_deadline_ends_the_task(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([review_by(job.other)], rounds=2, deadline_seconds=7200)
    await job.submit("done")
    review = await pending_review(job)
    requests = [row for row in await world.take(job.other) if row["kind"] == "approval_request"]
    await world.pass_time(2000)
    requests += [row for row in await world.take(job.other) if row["kind"] == "approval_request"]
    await world.pass_time(2000)
    requests += [row for row in await world.take(job.other) if row["kind"] == "approval_request"]
    assert len({row["id"] for row in requests}) == 2
    await world.pass_time(4000)
    assert await job.outcome() == "failed expired"
    path = f"/workspaces/{job.ops.id}/approvals/{review['approval_id']}"
    assert (await world.server.admin.get(path))["status"] in ("withdrawn", "expired")
    with pytest.raises(ApiError):
        await job.other.api.post(f"{path}/decide", {"decision": "approve", "revision": 1})
    assert await job.outcome() == "failed expired"


@requirement("D22")
async def test_a_removed_reviewer_fails_the_answer_with_the_reason(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([review_by(job.other)], rounds=1)
    await job.submit("done")
    await remove(world.server.admin, job.other)
    await world.rest()
    await job.checked()
    row = await job.claim()
    text = row["request_body"]["params"]["message"]["parts"][0]["text"]
    assert "the answer was not reviewed: the reviewer was removed" in text
    await job.answer("done again", row=row)
    assert await job.outcome() == "failed unproven"
    assert "its reviewer was removed" in (await job.detail())["delegation"]["error"]


@requirement("D22")
async def test_a_cancelled_task_ends_its_review(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([review_by(job.other)])
    await job.submit("done")
    review = await pending_review(job)
    await job.lead.api.post(f"/workspaces/{job.lead.id}/delegations/{job.id}/cancel", {})
    found = await world.server.admin.get(f"/workspaces/{job.ops.id}/approvals/{review['approval_id']}")
    assert found["status"] == "withdrawn"
    assert await job.outcome() == "cancelled cancelled"


@requirement("D22")
async def test_a_reviewer_may_ask_the_worker(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([review_by(job.other)])
    await job.submit("done")
    review = await pending_review(job)
    await decide_review(job, "more_info", note="What is done?")
    path = f"/workspaces/{job.ops.id}/approvals/{review['approval_id']}/answer"
    changed = await job.ops.api.post(path, {"text": "the mail is counted", "details": {"answer": "everything"}})
    assert changed["details"]["answer"] == "done"
    (request,) = [row for row in await world.take(job.other) if row["kind"] == "approval_request"]
    assert "> the mail is counted" in request["request_body"]["params"]["message"]["parts"][0]["text"]
    await decide_review(job, "approve")
    assert await job.outcome() == "completed verified"


@requirement("D22")
@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"decision": "deny"}, "note cannot be empty when a review is denied"),
        ({"decision": "approve", "details": {"answer": "better"}}, "details of a review cannot be changed"),
    ],
)
async def test_a_decision_must_be_complete(world: MessageWorld, body: dict[str, Any], why: str) -> None:
    job = await new_job(world)
    await job.begin([review_by(job.other)])
    await job.submit("done")
    with pytest.raises(ApiError, match=why):
        await decide_review(job, **body)
    assert (await job.detail())["delegation"]["phase"] == "checking"


@requirement("D22")
async def test_a_review_is_decided_with_the_tool(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([review_by(job.other)])
    await job.submit("done")
    (row,) = [each for each in await world.take(job.other) if each["kind"] == "approval_request"]
    shown = row["request_body"]["params"]["message"]["metadata"]
    given = {name: shown[name] for name in ("approval_id", "revision", "action_hash")}
    tools = Tools("mcp_async", "", "stateless")
    _, refused = await tools.call(world.server, job.other, "decide_approval", {**given, "decision": "deny"})
    assert "note cannot be empty when a review is denied" in str(refused)
    _, refused = await tools.call(world.server, job.other, "decide_approval", {**given, "decision": "approve"})
    assert refused is None
    assert await job.outcome() == "completed verified"


@requirement("D22")
async def test_standing_authority_passes_no_answer(world: MessageWorld) -> None:
    job = await new_job(world)
    grants = {"grants": [{"action": "*"}]}
    await world.person.call("PUT", f"/workspaces/{job.lead.id}/standing-authority", body=grants)
    await job.begin([review_by(job.lead)])
    await job.submit("done")
    assert (await job.detail())["delegation"]["phase"] == "checking"


async def worker_itself(job: Job) -> str:
    """The worker."""
    return job.ops.id


async def unknown(job: Job) -> str:
    """An id that no workspace has."""
    return "01900000-0000-7000-8000-0000000000ff"


async def removed(job: Job) -> str:
    """A workspace that was removed."""
    await remove(job.world.server.admin, job.other)
    return job.other.id


@requirement("D22")
async def test_a_reviewer_is_not_below_the_worker(world: MessageWorld) -> None:
    org = (await world.server.admin.post("/orgs", {"name": "Loose", "allow_skip_level": True}))["id"]
    job = await new_job(world, org_id=org)
    below = await world.server.seat("Below", parent_id=job.ops.id, org_id=org)
    with pytest.raises(ApiError, match="its reviewer is below the workspace that gets the task"):
        await job.begin([review_by(below)])


@requirement("D22")
async def test_a_reviewer_that_is_moved_below_the_worker_fails_the_answer(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([review_by(job.other)], rounds=0)
    await job.submit("done")
    await world.person.call("PATCH", f"/workspaces/{job.other.id}", body={"parent_id": job.ops.id})
    await world.rest()
    await job.checked()
    assert await job.outcome() == "failed unproven"
    assert "the reviewer is below the worker now" in (await job.detail())["delegation"]["error"]


async def distant(job: Job) -> str:
    """A workspace that the delegator may not message."""
    return (await job.world.server.seat("Below", parent_id=job.other.id)).id


@requirement("D22")
@pytest.mark.parametrize(
    ("reviewer", "why"),
    [
        (worker_itself, "its reviewer is the workspace that gets the task"),
        (unknown, "reviewer_id is not a workspace that the delegator may message"),
        (distant, "reviewer_id is not a workspace that the delegator may message"),
        (removed, "its reviewer was removed"),
    ],
)
async def test_an_unsuitable_reviewer_is_rejected_with_what_to_do(world: MessageWorld, reviewer: Any, why: str) -> None:
    job = await new_job(world)
    check = {"type": "review", "reviewer_id": await reviewer(job)}
    with pytest.raises(ApiError) as caught:
        await job.begin([check])
    assert caught.value.status == 400
    assert f"check 1 of accept (review) is not valid: {why}" in str(caught.value)
