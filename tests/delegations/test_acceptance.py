"""Answers that must pass checks: what fails goes back with the reasons, and only what passes completes."""

from typing import Any

import pytest

from molecule_core.client.api import ApiError
from testing.acceptance_jobs import FITS, GOOD, REPORT, new_job
from testing.delegation_steps import row_of
from testing.message_world import MessageWorld
from tests.requirements import requirement

JSON = "application/json"


@requirement("D20")
async def test_an_answer_that_fails_goes_back_and_the_second_one_completes_the_task(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([*REPORT, FITS], rounds=2)
    row = await job.claim()
    task = row["request_body"]["params"]["message"]
    assert 'Attach a new file named "report.json"' in task["parts"][-1]["text"]
    assert [each["type"] for each in task["metadata"]["accept"]] == ["file", "schema"]

    await job.answer("done", await job.upload("report.json", b'{"total": "three"}', JSON), row=row)
    first = await job.detail()
    assert (first["delegation"]["status"], first["delegation"]["phase"]) == ("queued", "needs_work")
    assert first["a2a_state"] == "working"
    row = await job.claim()
    returned = row["request_body"]["params"]["message"]
    assert "2. schema: report.json does not fit the schema" in returned["parts"][0]["text"]
    assert [each["check"] for each in returned["metadata"]["needs_work"]] == [2]

    await job.answer("done now", await job.upload("report.json", GOOD, JSON), row=row)
    assert await job.outcome() == "completed verified"
    second = await job.detail()
    facts = [each["fact"] for each in second["timeline"]]
    assert facts[-4:] == ["submitted", "needs_work", "submitted", "proven"]
    evidence = second["acceptance"]["evidence"]
    assert [(each["answer"], each["check"], each["outcome"]) for each in evidence] == [
        (1, 1, "passed"),
        (1, 2, "failed"),
        (2, 1, "passed"),
        (2, 2, "passed"),
    ]
    assert all(len(each["sha256"]) == 64 and each["size"] and each["at"] for each in evidence)
    (result,) = [row for row in await world.take(job.lead) if row["kind"] == "delegation_result"]
    metadata = result["request_body"]["params"]["message"]["metadata"]
    assert metadata["verified"] is True
    assert [each["outcome"] for each in metadata["evidence"]] == ["passed", "passed"]
    assert "not verified" not in result["instructions"]["text"]


@requirement("D20")
async def test_the_last_answer_that_fails_ends_the_task_as_unproven(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([{"type": "text", "contains": "total"}], rounds=1)
    await job.answer("all good")
    await job.answer("really all good")
    assert await job.outcome() == "failed unproven"
    item = (await job.detail())["delegation"]
    assert 'the text does not contain "total"' in item["error"]
    assert item["advice"].startswith("No answer passed the checks.")
    (notice,) = [row for row in await world.take(job.ops) if row["kind"] == "system"]
    assert "has ended (unproven)" in notice["summary"]


@requirement("D20", "D13")
async def test_a_task_begun_for_a_returned_answer_is_below_the_task(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([{"type": "text", "contains": "42"}], rounds=1)
    await job.answer("done")
    returned = await job.claim()
    body = {"target_id": job.other.id, "task": "find the number", "in_reply_to": returned["id"]}
    begun = await job.ops.api.post(f"/workspaces/{job.ops.id}/delegate", body)
    row = await row_of(world, begun["delegation_id"])
    assert (row.parent_id, row.root_id, row.depth) == (job.id, job.id, 2)


@requirement("D20")
async def test_a_repeated_answer_while_one_is_checked_has_no_effect(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([FITS], rounds=1)
    row = await job.claim()
    file = await job.upload("report.json", GOOD, JSON)
    first, second = await job.reply(row, "done", file), await job.reply(row, "done", file)
    assert (first.status, second.status) == (200, 200)
    await job.checked()
    assert await job.outcome() == "completed verified"


@requirement("D20")
async def test_a_report_of_the_end_is_checked_like_an_answer(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([{"type": "text", "contains": "42"}], rounds=1)
    path = f"/workspaces/{job.ops.id}/delegations/{job.id}/update"
    assert (await job.ops.api.post(path, {"status": "completed", "result": "done"}))["status"] == "queued"
    assert (await job.detail())["delegation"]["phase"] == "needs_work"
    await job.ops.api.post(path, {"status": "completed", "result": "it is 42"})
    assert await job.outcome() == "completed verified"


@requirement("D20")
async def test_the_deadline_ends_a_task_that_needs_work(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([{"type": "text", "contains": "42"}], rounds=3, deadline_seconds=60)
    await job.answer("done")
    await world.pass_time(61)
    assert await job.outcome() == "failed expired"


@requirement("D20")
async def test_a_retry_has_the_same_checks(world: MessageWorld) -> None:
    job = await new_job(world)
    await job.begin([{"type": "text", "contains": "42"}])
    await job.answer("done")
    again = await job.lead.api.post(f"/workspaces/{job.lead.id}/delegations/{job.id}/retry", {})
    job.id = again["delegation_id"]
    row = await job.claim()
    message = row["request_body"]["params"]["message"]
    assert [part["text"].split(":")[0] for part in message["parts"]] == [
        "count the mail",
        "The server checks your answer before it counts. The answer must pass every check",
    ]
    await job.answer("42", row=row)
    assert await job.outcome() == "completed verified"


@requirement("D21")
async def test_a_task_without_checks_is_answered_but_not_verified(world: MessageWorld) -> None:
    job = await new_job(world)
    begun = await job.lead.api.post(
        f"/workspaces/{job.lead.id}/delegate", {"target_id": job.ops.id, "task": "count the mail"}
    )
    job.id = begun["delegation_id"]
    await job.answer("done")
    assert await job.outcome() == "completed"
    assert (await job.detail())["acceptance"] is None
    (result,) = [row for row in await world.take(job.lead) if row["kind"] == "delegation_result"]
    assert result["request_body"]["params"]["message"]["metadata"]["verified"] is False
    assert "answered, not verified" in result["instructions"]["text"]


BAD: dict[str, tuple[list[dict[str, Any]], str]] = {
    "unknown type": ([{"type": "magic"}], "accept is not valid"),
    "unknown member": ([{"type": "file", "path": "x"}], "accept is not valid"),
    "no text": ([{"type": "text"}], "it has neither contains nor pattern. Add one of them."),
    "look-around": ([{"type": "text", "pattern": "(?=a)b"}], "its pattern cannot be used."),
    "huge repetition": ([{"type": "text", "pattern": "a{1000}{1000}"}], "its pattern cannot be used."),
    "remote reference": ([{"type": "schema", "schema": {"$ref": "https://example.com/s"}}], "it refers to"),
    "bad schema": ([{"type": "schema", "schema": {"type": "nothing"}}], "its schema cannot be used"),
    "sizes": ([{"type": "file", "least_bytes": 9, "most_bytes": 3}], "most_bytes is smaller than least_bytes."),
    "too many": ([{"type": "text", "contains": "a"}] * 17, "accept has 17 checks, and the limit is 16."),
    "too large": ([{"type": "schema", "schema": {"description": "d" * 40_000}}], "larger than the limit"),
    "same ids": ([{"type": "question", "id": "a", "question": "b"}] * 2, "two questions of accept have the same id."),
}


@requirement("D20")
@pytest.mark.parametrize("name", BAD)
async def test_a_bad_check_is_rejected_with_what_to_do(world: MessageWorld, name: str) -> None:
    accept, why = BAD[name]
    job = await new_job(world)
    with pytest.raises(ApiError) as caught:
        await job.begin(accept)
    assert caught.value.status == 400
    assert why in str(caught.value)


@requirement("D20")
@pytest.mark.parametrize("rounds", [-1, 6])
async def test_a_number_of_rounds_has_bounds(world: MessageWorld, rounds: int) -> None:
    job = await new_job(world)
    with pytest.raises(ApiError, match="Use a number from 0 to 5"):
        await job.begin([{"type": "text", "contains": "a"}], rounds=rounds)
