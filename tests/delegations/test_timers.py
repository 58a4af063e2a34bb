"""What time and the loss of others do to a delegation: its deadline, its target, its caller, what it belonged to."""

import pytest

from molecule_core.delegations.model import DELEGATION, DelegationStatus, FailureReason
from molecule_core.messages.events import PushOutcomeUnknown
from molecule_core.store.database import Command, CommandSteps, WriteSet
from molecule_core.store.timers import set_timer
from tests.answers.office import Office, handle, reply
from tests.delegations.pushes import URL
from tests.delegations.test_ends import came, cancel, given, has_ended
from tests.delegations.work import begin, line_of, over, row_of
from tests.journeys.seats import remove
from tests.requirements import requirement


async def timers_of(office: Office) -> list[str]:
    """The delegations that are looked at some time."""
    rows = await office.server.server.store.rows("next_timers", {"count": 1000})
    return [key.partition("/")[2] for kind, key, _ in rows if kind == "delegation"]


@requirement("D14")
async def test_a_deadline_that_passes_ends_it_and_both_are_told(office: Office) -> None:
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    row = (await begin(office, lead, ops, deadline_seconds=300)).row
    await office.take(ops)
    await office.pass_time(299)
    assert (await row_of(office, row.id)).open == 1
    assert await timers_of(office) == [row.id]
    await office.pass_time(2)
    found = await has_ended(office, row.id, DelegationStatus.FAILED, "timer")
    assert found.reason is FailureReason.EXPIRED
    assert [kind for kind, _ in await came(office, lead)] == ["delegation_result"]
    assert [kind for kind, _ in await came(office, ops)] == ["system"]
    assert await timers_of(office) == []


@requirement("D14")
async def test_an_end_takes_the_timer_away(office: Office) -> None:
    _, ops, row = await given(office)
    assert await timers_of(office) == [row["id"]]
    await reply(ops, handle(row), "sorted")
    assert await timers_of(office) == []


@requirement("D7")
async def test_an_answer_after_the_deadline_is_kept_and_changes_nothing(office: Office) -> None:
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    delegation_id = (await begin(office, lead, ops, deadline_seconds=60)).row.id
    (row,) = await office.take(ops)
    await office.pass_time(61)
    before = await has_ended(office, delegation_id, DelegationStatus.FAILED, "timer")
    first, second = [await reply(ops, handle(row), "sorted") for _ in range(2)]
    assert first["activity_id"] == second["activity_id"]
    assert await has_ended(office, delegation_id, DelegationStatus.FAILED, "timer") == before
    last = (await line_of(office, delegation_id))[-1]
    assert (last.fact, last.late, last.detail, last.status) == ("answered", 1, "sorted", "failed")
    own = await office.person.get(f"/workspaces/{ops.id}/activity")
    (kept,) = [each for each in own if each["id"] == first["activity_id"]]
    assert kept["request_body"]["params"]["message"]["metadata"] == {"delegation_id": delegation_id, "late": True}
    assert len(await came(office, lead)) == 1


@requirement("D11")
async def test_the_end_of_a_failed_parent_ends_all_below_it_and_a_completed_one_nothing(office: Office) -> None:
    lead, ops, row = await given(office)
    helper, deep = await office.server.seat("Helper"), await office.server.seat("Deep")
    below = (await begin(office, ops, helper, "a part")).row
    await office.take(helper)
    deeper = (await begin(office, helper, deep, "a part of the part")).row
    assert (below.parent_id, deeper.parent_id) == (row["id"], below.id)
    await cancel(office, lead, row["id"])
    await office.rest()
    for each in (below, deeper):
        found = await over(office, each.id)
        assert (found.status, found.error) == (DelegationStatus.CANCELLED, "the work that it belonged to has ended")
    first = (await begin(office, lead, ops, "another")).row
    (again,) = [each for each in await office.take(ops) if each["id"] == first.id]
    child = (await begin(office, ops, helper, "a part of another", cause_id=first.id)).row
    await reply(ops, handle(again), "sorted")
    await office.pass_time(120)
    assert child.parent_id == first.id
    assert (await row_of(office, child.id)).open == 1


@requirement("D11")
async def test_the_loss_of_the_root_ends_what_stands_below_a_completed_part_of_it(office: Office) -> None:
    lead, ops, row = await given(office)
    helper, deep = await office.server.seat("Helper"), await office.server.seat("Deep")
    below = (await begin(office, ops, helper, "a part")).row
    (part,) = await office.take(helper)
    deeper = (await begin(office, helper, deep, "a part of the part")).row
    await reply(helper, handle(part), "the rest is under way")
    await office.pass_time(120)
    assert (await row_of(office, below.id)).status is DelegationStatus.COMPLETED
    assert (await row_of(office, deeper.id)).open == 1
    await cancel(office, lead, row["id"])
    await office.rest()
    found = await over(office, deeper.id)
    assert (found.status, found.error) == (DelegationStatus.CANCELLED, "the work that it belonged to has ended")
    assert (await row_of(office, below.id)).status is DelegationStatus.COMPLETED
    assert await timers_of(office) == []


@requirement("D11", "D13")
async def test_what_is_begun_behind_the_end_of_its_parent_is_not_ended_by_that(office: Office) -> None:
    lead, ops, row = await given(office)
    helper = await office.server.seat("Helper")
    await cancel(office, lead, row["id"])
    await office.clock.advance(1)
    later = (await begin(office, ops, helper, "clean up", cause_id=row["id"])).row
    assert (later.parent_id, later.root_id, later.depth) == (row["id"], row["id"], 2)
    await office.pass_time(120)
    assert (await row_of(office, later.id)).open == 1


@requirement("D11", "M3")
async def test_who_is_removed_leaves_no_open_delegation(office: Office) -> None:
    lead, ops, row = await given(office)
    helper = await office.server.seat("Helper")
    below = (await begin(office, ops, helper, "a part")).row
    await remove(office.server.admin, ops)
    await office.rest()
    assert (await over(office, row["id"])).reason is FailureReason.TARGET_REMOVED
    assert (await over(office, below.id)).reason is FailureReason.CANCELLED
    assert [kind for kind, _ in await came(office, lead)] == ["delegation_result"]
    assert await timers_of(office) == []


@requirement("D14")
@pytest.mark.parametrize("gone", ["unknown", "known"])
async def test_a_timer_of_what_is_not_there_is_taken_away(office: Office, gone: str) -> None:
    _, ops, row = await given(office)
    org_id = office.server.server.registry.orgs()[0].id
    key = f"{org_id}/{row['id'] if gone == 'known' else 'nothing'}"
    await reply(ops, handle(row), "sorted")
    await office.server.server.delegation_writer.on_due(key)
    assert await timers_of(office) == []


@requirement("D8")
async def test_what_was_sent_and_never_answered_has_an_unknown_outcome(office: Office) -> None:
    office.net.breaks(URL, "no answer", sent=True)
    lead = await office.server.seat("Lead")
    ops = await office.server.seat("Ops", delivery_mode="push", url=URL)
    row = (await begin(office, lead, ops)).row
    await office.rest()
    assert (await row_of(office, row.id)).status is DelegationStatus.UNKNOWN
    await office.pass_time(899)
    assert (await row_of(office, row.id)).open == 1
    await office.pass_time(2)
    assert (await has_ended(office, row.id, DelegationStatus.FAILED, "timer")).reason is FailureReason.UNKNOWN_OUTCOME


@requirement("D8", "D14")
async def test_what_becomes_unsure_is_looked_at_no_later_than_it_was_to_be(office: Office) -> None:
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    row = (await begin(office, lead, ops, deadline_seconds=300)).row
    store, now = office.server.server.store, office.clock.now()

    async def due() -> int:
        rows = await store.rows("next_timers", {"count": 1000})
        (found,) = [at for _, key, at in rows if key == row.key]
        return int(found)

    async def run(written: WriteSet[None]) -> None:
        def decide() -> CommandSteps[None]:
            yield from ()
            return written

        await store.run(Command(row.org_id, ((DELEGATION, row.key),), decide))

    soon = now + 60_000_000
    await run(WriteSet(None, [set_timer(DELEGATION, row.key, soon)]))
    await run(WriteSet(None, domain_events=[PushOutcomeUnknown(row.id, "no answer within 300 s", now)]))
    assert (await row_of(office, row.id)).status is DelegationStatus.UNKNOWN
    assert await due() == soon
