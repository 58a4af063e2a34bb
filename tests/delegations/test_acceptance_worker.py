"""The process that checks answers: a second answer while the first one's task ends, and errors of a check."""

import asyncio
from typing import Any

import pytest

from testing.acceptance_jobs import FITS, GOOD, Job, new_job
from testing.message_world import MessageWorld
from testing.waits import eventually
from tests.requirements import requirement

JSON = "application/json"


def worker_of(world: MessageWorld) -> Any:
    """The worker of the server."""
    return world.server.server.delegations.acceptance_worker


@requirement("D20")
async def test_an_answer_that_is_due_while_the_task_of_the_last_one_ends_is_checked_at_once(
    world: MessageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, worker = await new_job(world), worker_of(world)
    await job.begin([FITS], rounds=1)
    may_end, check = asyncio.Event(), worker._check

    async def check_slowly(work: Any) -> None:
        """The outcome is written, and the task goes on for a while."""
        await check(work)
        await may_end.wait()

    monkeypatch.setattr(worker, "_check", check_slowly)
    row = await job.claim()
    await job.reply(row, "done", await job.upload("report.json", b"{}", JSON))
    await phase_is(job, "needs_work")
    second = await job.claim()
    await job.reply(second, "done", await job.upload("report.json", GOOD, JSON))
    await eventually_due(job, worker)
    monkeypatch.setattr(worker, "_check", check)
    may_end.set()  # no time passes: a claim of the timer is not over

    async def outcome() -> str:
        return await job.outcome()

    assert await eventually(outcome, lambda found: found.startswith("completed")) == "completed verified"


@requirement("D20")
async def test_a_check_that_raises_is_tried_again_soon(world: MessageWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    job, worker = await new_job(world), worker_of(world)
    await job.begin([FITS])
    calls, check = [], worker._check

    async def check_badly(work: Any) -> None:
        """The first call fails."""
        calls.append(work.row.id)
        if len(calls) == 1:
            raise OSError("no such disk")
        await check(work)

    monkeypatch.setattr(worker, "_check", check_badly)
    row = await job.claim()
    await job.reply(row, "done", await job.upload("report.json", GOOD, JSON))

    async def failed() -> bool:
        await world.clock.advance(0)
        return bool(calls) and not worker._running

    assert await eventually(failed, bool)
    await world.pass_time(6)
    await job.checked()
    assert await job.outcome() == "completed verified"
    assert len(calls) == 2


async def phase_is(job: Job, phase: str) -> None:
    """Waits for a phase."""

    async def look() -> str:
        await job.world.clock.advance(0)
        return str((await job.detail())["delegation"]["phase"])

    assert await eventually(look, lambda found: found == phase) == phase


async def eventually_due(job: Job, worker: Any) -> None:
    """Waits until the second answer is claimed."""

    async def look() -> list[int]:
        await job.world.clock.advance(0)
        return [each.answer_no for each in worker._running.values()]

    assert await eventually(look, lambda found: found == [2])
