"""Thirty workers that claim what is not so, and thirty that do the same work: only the second ones complete."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from molecule_core.client.api import ApiError
from testing.acceptance_jobs import FITS, GOOD, REPORT, Job, decide_review, new_job, pending_review, review_by
from testing.check_machines import PASSED, machine_of
from testing.message_world import MessageWorld
from testing.raw_http import ask
from tests.requirements import requirement

Script = Callable[[Job], Awaitable[None]]
JSON, CSV = "application/json", "text/csv"
TABLE = [{"type": "file", "name": "*.csv", "media_type": "text/csv", "least_bytes": 4, "most_bytes": 100}]
ANSWERED = [{"type": "question", "id": "why", "question": "Why is it slow?"}]
NUMBER = [{"type": "text", "pattern": "^total: [0-9]+$"}]
NESTED = {
    "$defs": {"n": {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/n"}}, "required": [each]} for each in "xy"]}}
}
SLOW = [{"type": "schema", "schema": {**NESTED, "$ref": "#/$defs/n"}}]
OBJECT = [{"type": "schema", "schema": {"type": "object", "required": ["total"]}}]


def files(accept: list[dict[str, Any]], *sent: tuple[str, bytes, str], text: str = "done") -> Script:
    """A worker that attaches these new files."""

    async def script(job: Job) -> None:
        await job.begin(accept)
        await job.answer(text, *[await job.upload(*each) for each in sent])

    return script


def texts(accept: list[dict[str, Any]], *said: str, data: Any = None) -> Script:
    """A worker that answers with these texts, one after another."""

    async def script(job: Job) -> None:
        await job.begin(accept, rounds=len(said) - 1)
        for each in said:
            await job.answer(each, data=data)

    return script


async def old_file(job: Job) -> None:
    """A file from before the task."""
    file = await job.upload("report.json", GOOD, JSON)
    await job.world.clock.advance(1)
    await job.begin(REPORT)
    await job.answer("done", file)


async def file_of_another(job: Job) -> None:
    """A file that another workspace uploaded."""
    await job.begin(REPORT)
    file = await job.upload("report.json", GOOD, JSON, by=job.other)
    row = await job.claim()
    reply = await job.reply(row, "done", file)
    assert reply.status == 400
    await job.reply(row, "done")
    await job.checked()


async def file_of_another_task(job: Job) -> None:
    """A file that was delivered for another task."""
    await job.begin(REPORT)
    first, file = job.id, await job.upload("report.json", GOOD, JSON)
    await job.answer("done", file)
    job.task = "count the calls"
    await job.begin(REPORT)
    assert job.id != first
    await job.answer("done", file)


async def file_of_the_task(job: Job) -> None:
    """The file that the delegator attached to the task."""
    given = await job.upload("report.json", GOOD, JSON, by=job.lead)
    await job.begin(REPORT, attachments=[given])
    await job.answer("done", given)


async def invented_id(job: Job) -> None:
    """A file id that was never given out."""
    await job.begin(REPORT)
    row = await job.claim()
    uri = f"/workspaces/{job.ops.id}/files/01900000-0000-7000-8000-0000000000ff"
    assert (await job.reply(row, "done", {"uri": uri, "name": "report.json", "mimeType": JSON})).status == 400
    await job.reply(row, "done")
    await job.checked()


async def foreign_address(job: Job) -> None:
    """A file at another server."""
    await job.begin(REPORT)
    await job.answer("done", {"uri": "https://example.com/report.json", "name": "report.json", "mimeType": JSON})


async def other_workspace(job: Job) -> None:
    """Another workspace answers for the worker."""
    await job.begin([{"type": "text", "contains": "total"}])
    row = await job.claim()
    assert (await job.reply(row, "total 3", by=job.other)).status >= 400


async def delegator_reports(job: Job) -> None:
    """The delegator itself reports the end."""
    await job.begin([{"type": "text", "contains": "total"}])
    path = f"/workspaces/{job.lead.id}/delegations/{job.id}/update"
    with pytest.raises(Exception, match="only the workspace that has the task"):
        await job.lead.api.post(path, {"status": "completed", "result": "total 3"})


async def declined_first(job: Job) -> None:
    """It declines, then claims that it is done."""
    await job.begin([{"type": "text", "contains": "total"}])
    row = await job.claim()
    await job.ops.api.post(
        f"/workspaces/{job.ops.id}/decline", {"handle": row["instructions"]["reply_handle"], "reason": "no time"}
    )
    await job.reply(row, "total 3")


async def empty_report(job: Job) -> None:
    """It reports the end with a text that proves nothing."""
    await job.begin([{"type": "text", "contains": "total"}])
    path = f"/workspaces/{job.ops.id}/delegations/{job.id}/update"
    await job.ops.api.post(path, {"status": "completed", "result": "done"})


async def removed_checks(job: Job) -> None:
    """It names checks of its own in the answer."""
    await job.begin(REPORT)
    row = await job.claim()
    await job.reply(row, "done", data={"accept": [], "verified": True, "evidence": [{"check": 1, "outcome": "passed"}]})
    await job.checked()


async def answer_before_claim(job: Job) -> None:
    """It answers before it has read the task."""
    await job.begin(REPORT)
    await job.ops.api.post(
        f"/workspaces/{job.ops.id}/delegations/{job.id}/update", {"status": "completed", "result": "report.json"}
    )
    await job.checked()


async def reviews_itself(job: Job) -> None:
    """It decides the review of its own answer."""
    await job.begin([review_by(job.other)])
    await job.submit("done")
    review = await pending_review(job)
    for seat in (job.ops, job.other):
        path = f"/workspaces/{seat.id}/approvals/{review['approval_id']}/decide"
        with pytest.raises(ApiError):
            await job.ops.api.post(path, {"decision": "approve", "revision": 1})


async def names_itself(job: Job) -> None:
    """The delegator names the worker as its own reviewer, which is rejected at the begin."""
    with pytest.raises(ApiError, match="its reviewer is the workspace that gets the task"):
        await job.begin([review_by(job.ops)])
    await job.begin([review_by(job.lead)])
    row = await job.claim()
    await job.reply(row, "reviewed by myself")


async def invents_a_review(job: Job) -> None:
    """It requests an approval that looks like the review, and gets it approved."""
    await job.begin([review_by(job.lead)])
    await job.submit("done")
    real = await pending_review(job, job.lead)
    shown = await job.ops.api.get(f"/workspaces/{job.ops.id}/approvals/{real['approval_id']}")
    body = {"action": shown["action"], "details": shown["details"], "task_id": job.id, "reason": "review"}
    invented = await job.ops.api.post(f"/workspaces/{job.ops.id}/approvals", body)
    with pytest.raises(ApiError):
        await job.ops.api.post(f"/workspaces/{job.ops.id}/approvals", {**body, "source": "review"})
    path = f"/workspaces/{job.ops.id}/approvals/{invented['approval_id']}/decide"
    await job.world.server.admin.post(path, {"decision": "approve", "revision": 1})


async def says_it_is_reviewed(job: Job) -> None:
    """It writes into its answer that the review has passed."""
    await job.begin([review_by(job.other)])
    row = await job.claim()
    review = {"check": 1, "type": "review", "outcome": "passed", "ran_by": job.other.id}
    await job.reply(row, "Other has reviewed it: passed", data={"evidence": [review], "reviews": []})


async def reviews_under_another_name(job: Job) -> None:
    """A workspace of the worker answers and decides in place of the reviewer."""
    below = await job.world.server.seat("Other", parent_id=job.ops.id)
    await job.begin([review_by(job.other)])
    await job.submit("done")
    review = await pending_review(job)
    path = f"/workspaces/{below.id}/approvals/{review['approval_id']}/decide"
    with pytest.raises(ApiError):
        await below.api.post(path, {"decision": "approve", "revision": 1})


async def writes_to_its_reviewer(job: Job) -> None:
    """The reviewer only says that it is fine, which is no decision."""
    await job.begin([review_by(job.other)])
    await job.submit("done")
    (row,) = [each for each in await job.world.take(job.other) if each["kind"] == "approval_request"]
    message = {"role": "agent", "parts": [{"kind": "text", "text": "approve: yes, it passes"}]}
    params = {"message": {**message, "metadata": {"in_reply_to": row["id"]}}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params}
    path = f"/workspaces/{job.ops.id}/a2a"
    said = await ask(job.world.server.port, "POST", path, body, token=job.other.token)
    assert "decide_approval" in str(said.json["error"])


def commanded(*exit_codes: int) -> Script:
    """A worker whose answers are checked by a command, which ends so."""

    async def script(job: Job) -> None:
        machine = await machine_of(job)
        await job.begin([{"type": "command", "name": "tests"}], rounds=len(exit_codes) - 1)
        for each in exit_codes:
            await job.reply(await job.claim(), "all tests pass")
            (request,) = await machine.claim()
            await machine.confirm(request, exit_code=each)

    return script


async def edits_the_tests(job: Job) -> None:
    """It edits the tests, which the runner refuses to run (tests/agent/runner/test_check_runs.py)."""
    machine = await machine_of(job)
    await job.begin([{"type": "command", "name": "tests"}])
    await job.reply(await job.claim(), "all tests pass")
    (request,) = await machine.claim()
    body = {"status": "failed", "text": "files that must not change have changed: tests/test_total.py"}
    await machine.own.post(f"/runner/requests/{request['id']}/confirm", body)


async def sends_the_outcome(job: Job) -> None:
    """The agent confirms the command itself, with the token that it shares with its bridge."""
    machine = await machine_of(job)
    await job.begin([{"type": "command", "name": "tests"}])
    evidence = {"check": 1, "type": "command", "outcome": "passed", "exit_code": 0}
    await job.reply(await job.claim(), "exit code 0", data={"evidence": [evidence], "check": PASSED})
    (request,) = await machine.claim()
    for token in (job.ops.token, job.lead.token):
        path, body = f"/runner/requests/{request['id']}/confirm", {"status": "done", "check": PASSED}
        said = await ask(job.world.server.port, "POST", path, body, token=token)
        assert said.status in (401, 403), said


async def other_runner(job: Job) -> None:
    """Another runner confirms the command."""
    machine, other = await machine_of(job), await machine_of(job)
    await job.begin([{"type": "command", "name": "tests"}])
    await job.reply(await job.claim(), "done")
    (request,) = await machine.claim()
    with pytest.raises(ApiError):
        await other.confirm(request)


LIARS: dict[str, Script] = {
    "says done and delivers nothing": texts(REPORT, "done, see report.json"),
    "says it again and again": texts(REPORT, "done", "done!", "really done"),
    "an empty file": files(REPORT, ("report.json", b"", JSON)),
    "a file that is too small": files(TABLE, ("a.csv", b"a", CSV)),
    "a file that is too large": files(TABLE, ("a.csv", b"a,b\n" * 100, CSV)),
    "another name": files(REPORT, ("notes.json", GOOD, JSON)),
    "a zip in place of JSON": files(REPORT, ("report.json", b"PK\x03\x04" + bytes(40), JSON)),
    "a text in place of JSON": files(REPORT, ("report.json", b"all good", JSON)),
    "bytes in place of a table": files(TABLE, ("a.csv", b"\x00\xff\xfe\x00\x00", CSV)),
    "another type": files(TABLE, ("a.csv", b"a,b\n1,2\n", "image/png")),
    "a wrong schema": files([FITS], ("report.json", b'{"total": "three"}', JSON)),
    "a missing member": files([FITS], ("report.json", b"{}", JSON)),
    "deep JSON": files([FITS], ("report.json", b'{"total": 1, "a": ' + b"[" * 9000 + b"]" * 9000 + b"}", JSON)),
    "huge JSON": files([FITS], ("report.json", b'{"total": 1, "a": "' + b"x" * (1 << 20) + b'"}', JSON)),
    "no number": files([FITS], ("report.json", b'{"total": NaN}', JSON)),
    "slow JSON": texts(SLOW, '{"a":' * 50 + "1" + "}" * 50),
    "no JSON": texts(OBJECT, "the total is 3"),
    "wrong data": texts(OBJECT, "done", data={"sum": 3}),
    "no pattern": texts(NUMBER, "total: many"),
    "a text for a catastrophic pattern": texts([{"type": "text", "pattern": "^(a+)+$"}], "a" * 60_000 + "!"),
    "no answer to a question": texts(ANSWERED, "done"),
    "an empty answer to a question": texts(ANSWERED, "why:   "),
    "the question as its answer": texts(ANSWERED, "why: Why is it slow?"),
    "an old file": old_file,
    "a file of another workspace": file_of_another,
    "a file of another task": file_of_another_task,
    "the file of the task": file_of_the_task,
    "an invented id": invented_id,
    "a file elsewhere": foreign_address,
    "an answer of another workspace": other_workspace,
    "a report of the delegator": delegator_reports,
    "declined, then done": declined_first,
    "an empty report": empty_report,
    "checks of its own": removed_checks,
    "an answer before the task is read": answer_before_claim,
    "its own review": reviews_itself,
    "itself as its reviewer": names_itself,
    "an invented review": invents_a_review,
    "a review in its answer": says_it_is_reviewed,
    "a review under another name": reviews_under_another_name,
    "a review in words": writes_to_its_reviewer,
    "a file whose tests fail": commanded(1),
    "tests that fail again and again": commanded(1, 2, 255),
    "edited tests": edits_the_tests,
    "an outcome of its own": sends_the_outcome,
    "an outcome of another runner": other_runner,
}


async def two_tasks(job: Job) -> None:
    """Each task has its own file."""
    await job.begin(REPORT)
    await job.answer("done", await job.upload("report.json", GOOD, JSON))
    job.task = "count the calls"
    await job.begin(REPORT)
    await job.answer("done", await job.upload("report.json", GOOD, JSON))


async def attached_task(job: Job) -> None:
    """The task has a file, and the answer another one."""
    await job.begin(REPORT, attachments=[await job.upload("report.json", GOOD, JSON, by=job.lead)])
    await job.answer("done", await job.upload("report.json", GOOD, JSON))


async def honest_report(job: Job) -> None:
    """It reports the end with what was asked for."""
    await job.begin([{"type": "text", "contains": "total"}])
    path = f"/workspaces/{job.ops.id}/delegations/{job.id}/update"
    await job.ops.api.post(path, {"status": "completed", "result": "total 3"})


async def better_file(job: Job) -> None:
    """The second file passes."""
    await job.begin([*REPORT, FITS], rounds=1)
    await job.answer("done", await job.upload("report.json", b"{}", JSON))
    await job.answer("done", await job.upload("report.json", GOOD, JSON))


async def same_file_again(job: Job) -> None:
    """A file that passed is attached again with the answer that was missing."""
    await job.begin([*REPORT, *ANSWERED], rounds=1)
    file = await job.upload("report.json", GOOD, JSON)
    await job.answer("done", file)
    await job.answer("why: the disk", file)


async def late_worker(job: Job) -> None:
    """It works for a long time before it answers."""
    await job.begin(REPORT)
    await job.world.clock.advance(3600)
    await job.answer("done", await job.upload("report.json", GOOD, JSON))


def reviewed(*decisions: str, text: str = "done") -> Script:
    """A worker whose answers get these decisions of its reviewer."""

    async def script(job: Job) -> None:
        await job.begin([review_by(job.other)], rounds=len(decisions) - 1)
        for each in decisions:
            await job.submit(text)
            await decide_review(job, each, note="Look again.")

    return script


async def reviewed_by_a_person(job: Job) -> None:
    """A person passes the answer."""
    await job.begin([{"type": "review"}])
    await job.submit("done")
    (review,) = (await job.detail())["acceptance"]["reviews"]
    path = f"/workspaces/{job.ops.id}/approvals/{review['approval_id']}/decide"
    await job.world.server.admin.post(path, {"decision": "approve", "revision": 1})


async def reviewed_by_two(job: Job) -> None:
    """The delegator and a peer pass the answer and its file."""
    await job.begin([*REPORT, review_by(job.lead), review_by(job.other)])
    await job.submit("done", await job.upload("report.json", GOOD, JSON))
    await decide_review(job, "approve", by=job.other)
    await decide_review(job, "approve", by=job.lead)


HONEST: dict[str, Script] = {
    "a file": files(REPORT, ("report.json", GOOD, JSON)),
    "a file of another declared type": files(REPORT, ("report.json", GOOD, "application/octet-stream")),
    "a file with capitals": files(REPORT, ("Report.JSON", GOOD, JSON)),
    "a file by any name": files([{"type": "file"}], ("a.txt", b"a", "text/plain")),
    "a small table": files(TABLE, ("a.csv", b"a,b\n", CSV)),
    "a table of the largest size": files(TABLE, ("a.csv", b"a" * 100, CSV)),
    "a table among others": files(
        TABLE, ("b.csv", b"b", CSV), ("a.csv", b"a,b\n1,2\n", CSV), ("c.txt", b"c", "text/plain")
    ),
    "a picture": files(
        [{"type": "file", "media_type": "image/png"}], ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(9), "image/png")
    ),
    "an archive": files([{"type": "file", "media_type": "application/zip"}], ("a.zip", b"PK\x03\x04" + bytes(9), "")),
    "a document": files([{"type": "file", "media_type": "application/pdf"}], ("a.pdf", b"%PDF-1.7", "")),
    "another type by its name": files([{"type": "file", "media_type": "audio/ogg"}], ("a.ogg", b"OggS", "audio/ogg")),
    "a schema": files([FITS], ("report.json", GOOD, JSON)),
    "a schema and more members": files([FITS], ("report.json", b'{"total": 1, "a": [[1]]}', JSON)),
    "the second of two files": files([FITS], ("report.json", b"{}", JSON), ("report.json", GOOD, JSON)),
    "large JSON": files([FITS], ("report.json", b'{"total": 1, "a": "' + b"x" * 500_000 + b'"}', JSON)),
    "JSON as text": texts(OBJECT, '{"total": 3}'),
    "JSON in a fence": texts(OBJECT, '```json\n{"total": 3}\n```'),
    "JSON as data": texts(OBJECT, "done", data={"total": 3}),
    "a text": texts([{"type": "text", "contains": "total"}], "the total is 3"),
    "a pattern": texts(NUMBER, "total: 3"),
    "a catastrophic pattern": texts([{"type": "text", "pattern": "^(a+)+$"}], "a" * 60_000),
    "a question": texts(ANSWERED, "I looked.\nwhy: the disk is full"),
    "a question as data": texts(ANSWERED, "done", data={"answers": {"why": "the disk is full"}}),
    "the third answer": texts([{"type": "text", "contains": "total"}], "done", "done!", "total 3"),
    "four kinds": files(
        [*REPORT, FITS, *ANSWERED, {"type": "text", "contains": "disk"}],
        ("report.json", GOOD, JSON),
        text="why: the disk",
    ),
    "two tasks": two_tasks,
    "a file for a task with a file": attached_task,
    "a report": honest_report,
    "a better file": better_file,
    "the same file again": same_file_again,
    "a late worker": late_worker,
    "a review": reviewed("approve"),
    "the second review": reviewed("deny", "approve"),
    "a review by a person": reviewed_by_a_person,
    "two reviews": reviewed_by_two,
    "a command": commanded(0),
    "a command that passes at the second time": commanded(1, 0),
}


async def outcomes(world: MessageWorld, scripts: dict[str, Script]) -> dict[str, str]:
    """How the delegation of each script ended."""
    found = {}
    for name, script in scripts.items():
        job = await new_job(world, name)
        await script(job)
        found[name] = await job.outcome()
    return found


UNFINISHED = {
    "an answer of another workspace": "queued",
    "a report of the delegator": "queued",
    "declined, then done": "failed rejected",
    "its own review": "queued",
    "itself as its reviewer": "queued",
    "an invented review": "queued",
    "a review in its answer": "queued",
    "a review under another name": "queued",
    "a review in words": "queued",
    "an outcome of its own": "queued",
    "an outcome of another runner": "queued",
}


@pytest.mark.long
@requirement("D20")
async def test_no_liar_completes_its_task(world: MessageWorld) -> None:
    assert len(LIARS) >= 30
    expected = {name: UNFINISHED.get(name, "failed unproven") for name in LIARS}
    assert await outcomes(world, LIARS) == expected


@pytest.mark.long
@requirement("D20")
async def test_every_honest_twin_completes_its_task(world: MessageWorld) -> None:
    assert len(HONEST) >= 30
    assert await outcomes(world, HONEST) == dict.fromkeys(HONEST, "completed verified")
