"""Each row of the table of followers is needed: without it, on a real server, what it is for does not happen."""

from collections.abc import Awaitable, Callable

import pytest

from molecule_core.delegations.model import Delegation, DelegationPhase, DelegationStatus, FailureReason
from tests.answers.office import Office, handle, reply
from tests.delegations.pushes import URL
from tests.delegations.work import begin, over, row_of
from tests.delivery.agents import Reply
from tests.journeys.seats import remove
from tests.requirements import requirement

Row = tuple[str, str]


async def a_hand_over_is_seen(office: Office) -> None:
    """Handed: who delegated sees that the agent has it."""
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    receipt = await begin(office, lead, ops)
    await office.take(ops)
    found = await row_of(office, receipt.row.id)
    assert (found.phase, found.attempt) == (DelegationPhase.CLAIMED, 1)


async def an_answer_completes(office: Office) -> None:
    """Answered: a reply ends the delegation, and its result reaches who delegated."""
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    receipt = await begin(office, lead, ops)
    (row,) = await office.take(ops)
    await reply(ops, handle(row), "sorted")
    assert (await row_of(office, receipt.row.id)).status is DelegationStatus.COMPLETED
    assert [row["kind"] for row in await office.take(lead)] == ["delegation_result"]


async def what_is_given_back_is_seen_to_wait(office: Office) -> None:
    """Returned: who delegated sees that the agent has given it back."""
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    receipt = await begin(office, lead, ops)
    await office.take(ops)
    wish = {"claims": [{"activity_id": receipt.row.id, "attempt": 1}]}
    await ops.api.post(f"/workspaces/{ops.id}/activity/release", wish)
    assert (await row_of(office, receipt.row.id)).phase is DelegationPhase.WAITING


async def pushed(office: Office, *replies: Reply) -> Delegation:
    """A delegation to an agent that answers so to what is pushed to it."""
    if replies:
        office.net.answers(URL, *replies)
    lead = await office.server.seat("Lead")
    ops = await office.server.seat("Ops", delivery_mode="push", url=URL)
    receipt = await begin(office, lead, ops)
    await office.rest()
    return await row_of(office, receipt.row.id)


async def a_busy_agent_is_seen(office: Office) -> None:
    """Delayed: a push that comes too early leaves it waiting in the queue."""
    row = await pushed(office, (503, {}, b'{"busy": true}'))
    assert (row.status, row.phase) == (DelegationStatus.QUEUED, DelegationPhase.WAITING)


async def no_answer_is_seen(office: Office) -> None:
    """Unsure: what was sent and had no answer stands so."""
    office.net.breaks(URL, "no answer", sent=True)
    assert (await pushed(office)).status is DelegationStatus.UNKNOWN


async def an_agent_that_has_it_is_seen(office: Office) -> None:
    """Accepted: an agent that takes it without a word is at work on it."""
    row = await pushed(office, (200, {}, b"{}"))
    assert (row.status, row.phase) == (DelegationStatus.QUEUED, DelegationPhase.CLAIMED)


async def an_error_of_the_agent_ends_it(office: Office) -> None:
    """GivenUp: a delegation that cannot be delivered has failed, and its caller reads why."""
    row = await pushed(office, (404, {}, b""))
    assert (row.status, row.reason) == (DelegationStatus.FAILED, FailureReason.REFUSED)


async def a_word_on_the_way_is_seen(office: Office) -> None:
    """Progressed: an agent that says so is at work."""
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    receipt = await begin(office, lead, ops)
    (row,) = await office.take(ops)
    await reply(ops, handle(row), "half of it", progress=True)
    assert (await row_of(office, receipt.row.id)).phase is DelegationPhase.WORKING


async def a_removed_target_ends_it(office: Office) -> None:
    """SeatsGone: what was given to a workspace that is removed has failed."""
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    receipt = await begin(office, lead, ops)
    await remove(office.server.admin, ops)
    await office.rest()
    assert (await over(office, receipt.row.id)).reason is FailureReason.TARGET_REMOVED


NEEDED: dict[Row, Callable[[Office], Awaitable[None]]] = {
    ("MessagesDelivered", "delegations.handed"): a_hand_over_is_seen,
    ("MessagesReleased", "delegations.returned"): what_is_given_back_is_seen_to_wait,
    ("PushDeferred", "delegations.delayed"): a_busy_agent_is_seen,
    ("PushOutcomeUnknown", "delegations.unsure"): no_answer_is_seen,
    ("PushAccepted", "delegations.accepted"): an_agent_that_has_it_is_seen,
    ("MessageAnswered", "delegations.answered"): an_answer_completes,
    ("ProgressReported", "delegations.progressed"): a_word_on_the_way_is_seen,
    ("DeliveryFailed", "delegations.given_up"): an_error_of_the_agent_ends_it,
    ("WorkspacesRemoved", "delegations.seats_gone"): a_removed_target_ends_it,
}
"""For each row of docs/order.md, what it is for."""


def remove_row(office: Office, row: Row) -> None:
    """The server's table without one row."""
    rows = office.server.server.store.subscribers._handlers  # type: ignore[attr-defined]
    (fact,) = [each for each in rows if each.__name__ == row[0]]
    del rows[fact][row[1]]


async def test_every_row_of_the_table_has_a_behaviour_that_needs_it(office: Office) -> None:
    table = office.server.server.store.subscribers.list_subscriptions()
    every = {(fact, name) for fact, names in table for name in names}
    # The others are needed in tests/approvals/test_sides.py, tests/answers/test_removed.py and
    # tests/threads/test_seats_gone.py.
    assert {row for row in every if not row[1].startswith(("approvals.", "messages.", "threads."))} == set(NEEDED)


@requirement("D7", "A1")
@pytest.mark.parametrize("row", NEEDED, ids=lambda row: row[0])
async def test_a_behaviour_is_there_with_its_row(office: Office, row: Row) -> None:
    assert NEEDED[row].__doc__
    await NEEDED[row](office)


@requirement("D7", "A1")
@pytest.mark.parametrize("row", NEEDED, ids=lambda row: row[0])
async def test_a_behaviour_is_missing_without_its_row(office: Office, row: Row) -> None:
    remove_row(office, row)
    with pytest.raises(AssertionError):
        await NEEDED[row](office)
