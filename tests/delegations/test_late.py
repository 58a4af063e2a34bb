"""What comes after the end: it is kept and noted as late, ends nothing once more, and who said it is told so."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from molecule_core.common.clock import SECOND
from molecule_core.delegations.model import Delegation
from molecule_core.messages.delivery_state import DeliveryFailure, PushAttempt, PushResult
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.engines import ENGINES
from testing.machines.delegation_store import LEASE_SECONDS, Stage, by, stage_on
from testing.machines.inboxes import draft_of
from tests.requirements import requirement

WORDS = [{"kind": "text", "text": "sorted after all"}]
SAID = PushResult(answer='{"result":{"kind":"message","parts":[{"kind":"text","text":"sorted after all"}]}}')
NO = PushResult(answer='{"result":{"status":{"state":"rejected"}}}')


@pytest.fixture(scope="module", params=ENGINES)
def stage(request: pytest.FixtureRequest, postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One stage for all; each has an organisation of its own."""
    with stage_on(request.param, tmp_path_factory.mktemp("stage"), postgres) as ready:
        yield ready


async def fails(stage: Stage, row: Delegation) -> None:
    """Its worker says that it has failed."""
    await stage.delegations.update(row, by(row.target_id), "failed", None, "the disk is full")


async def is_done(stage: Stage, row: Delegation) -> None:
    """Its worker says that it is done, by another way than an answer."""
    await stage.delegations.update(row, by(row.target_id), "completed", "sorted", None)


async def is_cancelled(stage: Stage, row: Delegation) -> None:
    """It is not wanted any more."""
    await stage.delegations.cancel(row, by(row.source_id), "not wanted")


async def expires(stage: Stage, row: Delegation) -> None:
    """Its deadline passes."""
    stage.world.clock.at = row.deadline_at + SECOND
    await stage.fire()


Ends = Callable[[Stage, Delegation], Awaitable[None]]
EVERY_END: tuple[Ends, ...] = (fails, is_done, is_cancelled, expires)


async def ended(stage: Stage, end: Ends, *, pushed: bool = False) -> tuple[Delegation, list[PushAttempt]]:
    """A delegation that its worker has in hand, and that has ended meanwhile."""
    lead, ops = stage.world.seats(2)
    if pushed:
        stage.pushed_to(ops)
    row = await stage.begun(lead, ops, deadline_seconds=600)
    if pushed:
        pushes = await stage.sends(row)
    else:
        pushes = []
        await stage.handing.claim(ops, lease_seconds=LEASE_SECONDS, count=9)
    await end(stage, row)
    return await stage.row(row), pushes


async def kept(stage: Stage, before: Delegation, *facts: str) -> None:
    """It stands as it did; these facts are noted as late, and each answer is kept once, where it was said."""
    assert await stage.row(before) == before
    assert (len(await stage.ends(before)), len(await stage.results(before))) == (1, 1)
    assert [each.fact for each in await stage.line(before) if each.late] == [*facts]
    assert await stage.owed(before) != "open"
    names = [
        name for name, sort, about, _ in await stage.told(before.org_id) if (sort, about) == ("delegation", before.id)
    ]
    assert names[-1] in ("DELEGATION_COMPLETE", "DELEGATION_FAILED")


@requirement("D7")
@pytest.mark.parametrize("end", EVERY_END)
@pytest.mark.parametrize("how", ["reply", "decline"])
def test_a_late_answer_by_handle_is_kept_once_and_told_to_be_late(stage: Stage, end: Ends, how: str) -> None:
    async def story() -> None:
        row, _ = await ended(stage, end)
        handle, replies = await stage.handle(row), stage.replies
        told = []
        for _ in range(2):
            if how == "reply":
                told.append(await replies.reply(row.target_id, handle, WORDS, key=None))
            else:
                told.append(await replies.decline(row.target_id, handle, "sorted after all"))
        assert [each.state for each in told] == ["late", "late"]
        assert told[0].receipt == told[1].receipt
        await kept(stage, row, "answered" if how == "reply" else "declined")
        assert (await stage.line(row))[-1].detail == "sorted after all"

    stage.run(story())


@requirement("D7")
@pytest.mark.parametrize("end", EVERY_END)
@pytest.mark.parametrize(("status", "fact"), [("completed", "answered"), ("failed", "declined")])
def test_a_late_update_is_noted_and_the_row_that_comes_back_says_how_it_stands(
    stage: Stage, end: Ends, status: str, fact: str
) -> None:
    async def story() -> None:
        row, _ = await ended(stage, end)
        told = await stage.delegations.update(row, by(row.target_id), status, "sorted after all", "sorted after all")
        assert told == row and told.status.is_ended
        await kept(stage, row, fact)

    stage.run(story())


@requirement("D7", "D8")
@pytest.mark.parametrize("end", [is_cancelled, fails, is_done])
@pytest.mark.parametrize(("verdict", "facts"), [(SAID, ["answered"]), (NO, ["declined"])])
def test_a_late_answer_to_a_push_is_noted(stage: Stage, end: Ends, verdict: PushResult, facts: list[str]) -> None:
    async def story() -> None:
        row, (push,) = await ended(stage, end, pushed=True)
        for _ in range(2):
            await stage.pushing.record_result(row.org_id, push, verdict, failure_counts=True)
        await kept(stage, row, *facts)
        assert [each.activity_id for each in await stage.sends(row)].count(row.id) == 0

    stage.run(story())


@requirement("D7", "D8")
@pytest.mark.parametrize("code", [DeliveryFailure.UNREACHABLE, "refused", "unsure"])
def test_a_push_that_fails_after_the_end_is_nothing_and_goes_out_no_more(stage: Stage, code: str) -> None:
    async def story() -> None:
        row, (push,) = await ended(stage, is_cancelled, pushed=True)
        await stage.pushing.record_result(row.org_id, push, PushResult(error="no", code=code), failure_counts=True)
        await kept(stage, row)
        stage.world.clock.at += 400 * SECOND
        assert row.id not in [each.activity_id for each in await stage.sends(row)]

    stage.run(story())


@requirement("D7", "M13")
@pytest.mark.parametrize("key", ["m-1", "m-2"])
def test_an_answer_that_comes_twice_ends_it_once_and_under_another_id_it_is_a_message(stage: Stage, key: str) -> None:
    async def story() -> list[Any]:
        lead, ops = stage.world.seats(2)
        row = await stage.begun(lead, ops)
        await stage.handing.claim(ops, lease_seconds=LEASE_SECONDS, count=9)
        told = [await stage.writer.send(lead, draft_of(ops, "sorted", each)) for each in ("m-1", key)]
        now = await stage.row(row)
        assert (now.status, now.result, now.result_id) == (DelegationStatus.COMPLETED, "sorted", told[0].activity_id)
        assert (told[0] == told[1]) == (key == "m-1")
        await kept(stage, now)
        return await stage.handing.claim(lead, lease_seconds=LEASE_SECONDS, count=9)

    rows = stage.run(story())
    assert [each.kind for each in rows] == ["delegation_result", *(["peer_agent"] if key == "m-2" else [])]


@requirement("D7", "M31")
def test_a_draft_of_a_push_that_is_refused_then_leaves_nothing_owed(stage: Stage) -> None:
    async def story() -> None:
        lead, ops = stage.world.seats(2)
        stage.pushed_to(ops)
        row = await stage.begun(lead, ops)
        (push,) = await stage.sends(row)
        await stage.replies.keep_draft(ops, row.id, "half of it", send=False)
        await stage.pushing.record_result(
            row.org_id, push, PushResult(error="no", refused=True, code="refused"), failure_counts=True
        )
        now = await stage.row(row)
        assert now.status is DelegationStatus.FAILED
        await kept(stage, now)

    stage.run(story())
