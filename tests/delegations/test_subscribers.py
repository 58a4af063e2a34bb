"""Each row of the table of followers is needed: without it, on a real server, what it is for does not happen."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from molecule_core.delegations.model import Delegation, DelegationPhase, FailureReason
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.acceptance_jobs import decide_review, new_job, review_by
from testing.check_machines import machine_of
from testing.delegation_steps import begin, over, row_of
from testing.message_world import MessageWorld, handle, reply
from testing.push_agents import Reply
from testing.workspaces import remove
from tests.delegations.push_team import URL
from tests.requirements import requirement

Row = tuple[str, str]


async def a_hand_over_is_seen(world: MessageWorld) -> None:
    """Handed: who delegated sees that the agent has it."""
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    receipt = await begin(world, lead, ops)
    await world.take(ops)
    found = await row_of(world, receipt.row.id)
    assert (found.phase, found.attempt) == (DelegationPhase.CLAIMED, 1)


async def an_answer_completes(world: MessageWorld) -> None:
    """Answered: a reply ends the delegation, and its result reaches who delegated."""
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    receipt = await begin(world, lead, ops)
    (row,) = await world.take(ops)
    await reply(ops, handle(row), "sorted")
    assert (await row_of(world, receipt.row.id)).status is DelegationStatus.COMPLETED
    assert [row["kind"] for row in await world.take(lead)] == ["delegation_result"]


async def what_is_given_back_is_seen_to_wait(world: MessageWorld) -> None:
    """Returned: who delegated sees that the agent has given it back."""
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    receipt = await begin(world, lead, ops)
    await world.take(ops)
    wish = {"claims": [{"activity_id": receipt.row.id, "attempt": 1}]}
    await ops.api.post(f"/workspaces/{ops.id}/activity/release", wish)
    assert (await row_of(world, receipt.row.id)).phase is DelegationPhase.WAITING


async def pushed(world: MessageWorld, *replies: Reply) -> Delegation:
    """A delegation to an agent that answers so to what is pushed to it."""
    if replies:
        world.net.answers(URL, *replies)
    lead = await world.server.seat("Lead")
    ops = await world.server.seat("Ops", delivery_mode="push", url=URL)
    receipt = await begin(world, lead, ops)
    await world.rest()
    return await row_of(world, receipt.row.id)


async def a_busy_agent_is_seen(world: MessageWorld) -> None:
    """Delayed: a push that comes too early leaves it waiting in the queue."""
    row = await pushed(world, (503, {}, b'{"busy": true}'))
    assert (row.status, row.phase) == (DelegationStatus.QUEUED, DelegationPhase.WAITING)


async def no_answer_is_seen(world: MessageWorld) -> None:
    """Unsure: what was sent and had no answer stands so."""
    world.net.breaks(URL, "no answer", sent=True)
    assert (await pushed(world)).status is DelegationStatus.UNKNOWN


async def an_agent_that_has_it_is_seen(world: MessageWorld) -> None:
    """Accepted: an agent that takes it without a word is at work on it."""
    row = await pushed(world, (200, {}, b"{}"))
    assert (row.status, row.phase) == (DelegationStatus.QUEUED, DelegationPhase.CLAIMED)


async def a_question_is_seen(world: MessageWorld) -> None:
    """Asked: an agent that needs input waits for it, and does not work."""
    row = await pushed(world, (200, {}, b'{"result": {"status": {"state": "input-required"}}}'))
    assert (row.status, row.phase) == (DelegationStatus.QUEUED, DelegationPhase.ASKING)


async def an_error_of_the_agent_ends_it(world: MessageWorld) -> None:
    """GivenUp: a delegation that cannot be delivered has failed, and its caller reads why."""
    row = await pushed(world, (404, {}, b""))
    assert (row.status, row.reason) == (DelegationStatus.FAILED, FailureReason.REFUSED)


async def a_word_on_the_way_is_seen(world: MessageWorld) -> None:
    """Progressed: an agent that says so is at work."""
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    receipt = await begin(world, lead, ops)
    (row,) = await world.take(ops)
    await reply(ops, handle(row), "half of it", progress=True)
    assert (await row_of(world, receipt.row.id)).phase is DelegationPhase.WORKING


async def a_removed_target_ends_it(world: MessageWorld) -> None:
    """WorkspacesRemoved: what was given to a workspace that is removed has failed."""
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    receipt = await begin(world, lead, ops)
    await remove(world.server.admin, ops)
    await world.rest()
    assert (await over(world, receipt.row.id)).reason is FailureReason.TARGET_REMOVED


async def a_decision_of_a_reviewer_ends_it(world: MessageWorld) -> None:
    """Reviewed: what a reviewer passes is completed."""
    job = await new_job(world)
    await job.begin([review_by(job.other)])
    await job.submit("done")
    await decide_review(job, "approve")
    assert await job.outcome() == "completed verified"


async def a_command_ends_it(world: MessageWorld) -> None:
    """Checked: what a command of a runner passes is completed."""
    job = await new_job(world)
    machine = await machine_of(job)
    await job.begin([{"type": "command", "name": "tests"}])
    await job.reply(await job.claim(), "done")
    (request,) = await machine.claim()
    await machine.confirm(request)
    assert await job.outcome() == "completed verified"


NEEDED: dict[Row, Callable[[MessageWorld], Awaitable[None]]] = {
    ("MessagesDelivered", "delegations.on_delivered"): a_hand_over_is_seen,
    ("MessagesReleased", "delegations.on_released"): what_is_given_back_is_seen_to_wait,
    ("PushDeferred", "delegations.on_push_deferred"): a_busy_agent_is_seen,
    ("PushOutcomeUnknown", "delegations.on_push_outcome_unknown"): no_answer_is_seen,
    ("PushAccepted", "delegations.on_push_accepted"): an_agent_that_has_it_is_seen,
    ("QuestionAsked", "delegations.on_question_asked"): a_question_is_seen,
    ("MessageAnswered", "delegations.on_answered"): an_answer_completes,
    ("ProgressReported", "delegations.on_progress"): a_word_on_the_way_is_seen,
    ("DeliveryFailed", "delegations.on_delivery_failed"): an_error_of_the_agent_ends_it,
    ("CommandChecked", "delegations.on_command_checked"): a_command_ends_it,
    ("ReviewDecided", "delegations.on_review_decided"): a_decision_of_a_reviewer_ends_it,
    ("WorkspacesRemoved", "delegations.on_workspaces_removed"): a_removed_target_ends_it,
}
"""For each row of docs/order.md, what it is for."""


def remove_row(world: MessageWorld, row: Row) -> None:
    """The server's table without one row."""
    rows = world.server.server.store.subscribers._handlers  # type: ignore[attr-defined]
    (fact,) = [each for each in rows if each.__name__ == row[0]]
    del rows[fact][row[1]]


async def test_every_row_of_the_table_has_a_behaviour_that_needs_it(world: MessageWorld) -> None:
    table = world.server.server.store.subscribers.list_subscriptions()
    every = {(fact, name) for fact, names in table for name in names}
    # The others are needed in tests/approvals/test_sides.py, tests/delegations/test_reviews.py,
    # tests/messages/obligations/test_removed_workspaces.py, tests/threads/test_removed_workspaces.py,
    # tests/runners/test_runners.py, tests/a2a_agents/test_cards.py, tests/webhooks/test_webhooks.py, tests/budgets/
    # and tests/schedules/.
    elsewhere = (
        "approvals.",
        "messages.",
        "threads.",
        "runners.",
        "a2a_agents.",
        "webhooks.",
        "budgets.",
        "schedules.",
    )
    assert {row for row in every if not row[1].startswith(elsewhere)} == set(NEEDED)


@requirement("D7", "A1")
@pytest.mark.parametrize("row", NEEDED, ids=lambda row: row[0])
async def test_a_behaviour_is_there_with_its_row(world: MessageWorld, row: Row) -> None:
    assert NEEDED[row].__doc__
    await NEEDED[row](world)


def without_row(row: Row) -> Any:
    """A parameter; long where the absence takes as long as `over` waits."""
    return pytest.param(row, id=row[0], marks=[pytest.mark.long] if NEEDED[row] is a_removed_target_ends_it else [])


@requirement("D7", "A1")
@pytest.mark.parametrize("row", [without_row(each) for each in NEEDED])
async def test_a_behaviour_is_missing_without_its_row(world: MessageWorld, row: Row) -> None:
    remove_row(world, row)
    with pytest.raises(AssertionError):
        await NEEDED[row](world)
