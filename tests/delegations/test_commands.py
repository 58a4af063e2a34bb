"""Checks of the type `command`: a runner runs them, with its own credential; an agent can give no outcome."""

from typing import Any

import pytest

from molecule_core.client.api import ApiError
from testing.acceptance_jobs import Job, decide_review, new_job, review_by
from testing.check_machines import PASSED, machine_of
from testing.message_world import MessageWorld
from testing.raw_http import ask
from tests.requirements import requirement

TESTS = {"type": "command", "name": "tests"}


async def answered(job: Job, text: str = "done") -> None:
    """The worker answers what waits."""
    row = await job.claim()
    reply = await job.reply(row, text)
    assert reply.status == 200, reply


@requirement("D23")
async def test_a_command_that_fails_returns_the_answer_and_one_that_ends_with_0_completes_the_task(
    world: MessageWorld,
) -> None:
    job = await new_job(world)
    machine = await machine_of(job)
    await job.begin([TESTS], rounds=1)
    row = await job.claim()
    task = row["request_body"]["params"]["message"]["parts"][-1]["text"]
    assert '1. The command "tests" is run in your folder after your answer. It must end with 0.' in task
    await job.reply(row, "done")
    report = (await job.detail())["acceptance"]
    assert report["commands"] == [{"check": 1, "name": "tests"}]
    (request,) = await machine.claim()
    assert (request["action"], request["check"], request["workspace_id"]) == ("check", "tests", job.ops.id)
    await machine.confirm(request, exit_code=1, output="1 failed: test_total", size=20)

    row = await job.claim()
    text = row["request_body"]["params"]["message"]["parts"][0]["text"]
    assert "1. command: exit code 1\nThe end of its output:\n> 1 failed: test_total" in text
    await job.reply(row, "done again")
    (request,) = await machine.claim()
    await machine.confirm(request)
    assert await job.outcome() == "completed verified"
    first, second = (await job.detail())["acceptance"]["evidence"]
    assert (first["outcome"], first["exit_code"], first["output"]) == ("failed", 1, "1 failed: test_total")
    assert (second["outcome"], second["exit_code"], second["seconds"], second["size"]) == ("passed", 0, 1.5, 8)
    assert (second["ran_by"], second["by"], second["sha256"]) == (f"runner:{machine.id}", "Laptop", "0" * 64)


@requirement("D23")
@pytest.mark.parametrize("name", ["build", "TESTS"])
async def test_a_name_that_no_runner_offers_is_rejected_with_what_to_do(world: MessageWorld, name: str) -> None:
    job = await new_job(world)
    await machine_of(job)
    with pytest.raises(ApiError) as caught:
        await job.begin([{"type": "command", "name": name}])
    assert caught.value.status == 400
    assert f'no runner offers "{name}" for Ops (offered: lint, tests).' in str(caught.value)
    assert "ask the owner of the machine to add it to the checks of runner.toml" in str(caught.value)


@requirement("D23")
@pytest.mark.parametrize("name", ["rm -rf /", "../tests", "", "a;b", "$(id)"])
async def test_a_name_is_never_a_command(world: MessageWorld, name: str) -> None:
    job = await new_job(world)
    await machine_of(job)
    with pytest.raises(ApiError, match="accept is not valid"):
        await job.begin([{"type": "command", "name": name}])


@requirement("D23")
async def test_a_runner_that_dies_gets_the_command_again(world: MessageWorld) -> None:
    job = await new_job(world)
    machine = await machine_of(job)
    await job.begin([TESTS])
    await answered(job)
    (first,) = await machine.claim()
    assert await machine.claim() == []
    await world.pass_time(400)
    (second,) = await machine.claim()
    assert second["id"] == first["id"]
    assert (await job.detail())["delegation"]["phase"] == "checking"
    await machine.confirm(second)
    await machine.confirm(first, exit_code=1)  # the end of the first one comes late
    assert await job.outcome() == "completed verified"


@requirement("D23")
async def test_silence_of_a_runner_never_passes(world: MessageWorld) -> None:
    job = await new_job(world)
    machine = await machine_of(job)
    await job.begin([TESTS], deadline_seconds=600)
    await answered(job)
    (request,) = await machine.claim()
    await world.pass_time(601)
    assert await job.outcome() == "failed expired"
    await machine.confirm(request)
    assert await job.outcome() == "failed expired"


@requirement("D23")
@pytest.mark.parametrize("outcome", [{"status": "done"}, {"status": "failed", "text": "the folder is gone"}])
async def test_an_outcome_without_an_exit_code_fails(world: MessageWorld, outcome: dict[str, Any]) -> None:
    job = await new_job(world)
    machine = await machine_of(job)
    await job.begin([TESTS], rounds=0)
    await answered(job)
    (request,) = await machine.claim()
    await machine.own.post(f"/runner/requests/{request['id']}/confirm", outcome)
    assert await job.outcome() == "failed unproven"
    (evidence,) = (await job.detail())["acceptance"]["evidence"]
    assert evidence["detail"] == outcome.get("text", "the runner did not say how the command ended")


@requirement("D23")
async def test_the_removal_of_the_runner_fails_the_answer_with_the_reason(world: MessageWorld) -> None:
    job = await new_job(world)
    machine = await machine_of(job)
    await job.begin([TESTS], rounds=1)
    await answered(job)
    await world.person.call("DELETE", machine.place)
    row = await job.claim()
    text = row["request_body"]["params"]["message"]["parts"][0]["text"]
    assert "1. command: the runner that had to run the command was removed" in text
    await job.reply(row, "done")
    assert await job.outcome() == "failed unproven"
    assert 'no runner offers "tests" for Ops' in (await job.detail())["delegation"]["error"]


@requirement("D23")
async def test_the_token_of_the_workspace_gives_no_outcome(world: MessageWorld) -> None:
    job = await new_job(world)
    machine = await machine_of(job)
    await job.begin([TESTS], rounds=0)
    await answered(job)
    (request,) = await machine.claim()
    body = {"status": "done", "check": PASSED}
    for path, given in (
        (f"/runner/requests/{request['id']}/confirm", body),
        ("/runner/claim", {"wait": 0}),
        ("/runner/report", {"checks": [{"workspace_id": job.ops.id, "names": ["tests"]}]}),
        (f"{machine.place}/requests", {"action": "check", "workspace_id": job.ops.id}),
    ):
        said = await ask(world.server.port, "POST", path, given, token=job.ops.token)
        assert said.status in (401, 403, 404, 422), (path, said)
    assert (await job.detail())["delegation"]["phase"] == "checking"


@requirement("D23")
async def test_operators_cannot_request_a_check(world: MessageWorld) -> None:
    job = await new_job(world)
    machine = await machine_of(job)
    with pytest.raises(ApiError):
        await world.server.admin.post(f"{machine.place}/requests", {"action": "check", "workspace_id": job.ops.id})


@requirement("D23")
async def test_commands_come_before_reviews_and_after_the_other_checks(world: MessageWorld) -> None:
    job = await new_job(world)
    machine = await machine_of(job)
    await job.begin([review_by(job.other), TESTS, {"type": "text", "contains": "42"}], rounds=1)
    await answered(job, "done")
    assert await machine.claim() == []
    await answered(job, "42")
    assert (await job.detail())["acceptance"]["reviews"] == []
    (request,) = await machine.claim()
    await machine.confirm(request)
    assert len((await job.detail())["acceptance"]["reviews"]) == 1
    await decide_review(job, "approve")
    assert await job.outcome() == "completed verified"


@requirement("D23")
async def test_all_commands_must_pass(world: MessageWorld) -> None:
    job = await new_job(world)
    machine = await machine_of(job)
    await job.begin([TESTS, {"type": "command", "name": "lint"}], rounds=0)
    await answered(job)
    first, second = await machine.claim()
    await machine.confirm(first)
    assert (await job.detail())["delegation"]["phase"] == "checking"
    await machine.confirm(second, exit_code=2)
    assert await job.outcome() == "failed unproven"
