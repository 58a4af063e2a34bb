"""What time and the loss of others do to a delegation: its deadline, its target, its caller, what it belonged to."""

import pytest

from molecule_core.delegations.model import DELEGATION, FailureReason
from molecule_core.messages.events import PushOutcomeUnknown
from molecule_core.store.database import Command, CommandSteps, WriteSet
from molecule_core.store.timers import set_timer
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.delegation_steps import begin, line_of, over, row_of
from testing.message_world import MessageWorld, handle, reply
from testing.workspaces import remove
from tests.delegations.push_team import URL
from tests.delegations.test_ends import came, cancel, given, has_ended
from tests.requirements import requirement


async def timers_of(world: MessageWorld) -> list[str]:
    """The delegations that are looked at some time."""
    rows = await world.server.server.store.rows("next_timers", {"count": 1000})
    return [key.partition("/")[2] for kind, key, _ in rows if kind == "delegation"]


@requirement("D14")
async def test_a_deadline_that_passes_ends_it_and_both_are_told(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    row = (await begin(world, lead, ops, deadline_seconds=300)).row
    await world.take(ops)
    await world.pass_time(299)
    assert (await row_of(world, row.id)).open == 1
    assert await timers_of(world) == [row.id]
    await world.pass_time(2)
    found = await has_ended(world, row.id, DelegationStatus.FAILED, "timer")
    assert found.reason is FailureReason.EXPIRED
    assert [kind for kind, _ in await came(world, lead)] == ["delegation_result"]
    assert [kind for kind, _ in await came(world, ops)] == ["system"]
    assert await timers_of(world) == []


@requirement("D14")
async def test_an_end_takes_the_timer_away(world: MessageWorld) -> None:
    _, ops, row = await given(world)
    assert await timers_of(world) == [row["id"]]
    await reply(ops, handle(row), "sorted")
    assert await timers_of(world) == []


@requirement("D7")
async def test_an_answer_after_the_deadline_is_kept_and_changes_nothing(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    delegation_id = (await begin(world, lead, ops, deadline_seconds=60)).row.id
    (row,) = await world.take(ops)
    await world.pass_time(61)
    before = await has_ended(world, delegation_id, DelegationStatus.FAILED, "timer")
    first, second = [await reply(ops, handle(row), "sorted") for _ in range(2)]
    assert first["activity_id"] == second["activity_id"]
    assert await has_ended(world, delegation_id, DelegationStatus.FAILED, "timer") == before
    last = (await line_of(world, delegation_id))[-1]
    assert (last.fact, last.late, last.detail, last.status) == ("answered", 1, "sorted", "failed")
    own = await world.person.get(f"/workspaces/{ops.id}/activity")
    (kept,) = [each for each in own if each["id"] == first["activity_id"]]
    assert kept["request_body"]["params"]["message"]["metadata"] == {"delegation_id": delegation_id, "late": True}
    assert len(await came(world, lead)) == 1


@requirement("D11")
async def test_the_end_of_a_failed_parent_ends_all_below_it_and_a_completed_one_nothing(world: MessageWorld) -> None:
    lead, ops, row = await given(world)
    helper, deep = await world.server.seat("Helper"), await world.server.seat("Deep")
    below = (await begin(world, ops, helper, "a part")).row
    await world.take(helper)
    deeper = (await begin(world, helper, deep, "a part of the part")).row
    assert (below.parent_id, deeper.parent_id) == (row["id"], below.id)
    await cancel(world, lead, row["id"])
    await world.rest()
    for each in (below, deeper):
        found = await over(world, each.id)
        assert (found.status, found.error) == (DelegationStatus.CANCELLED, "its parent task has ended")
    first = (await begin(world, lead, ops, "another")).row
    (again,) = [each for each in await world.take(ops) if each["id"] == first.id]
    child = (await begin(world, ops, helper, "a part of another", cause_id=first.id)).row
    await reply(ops, handle(again), "sorted")
    await world.pass_time(120)
    assert child.parent_id == first.id
    assert (await row_of(world, child.id)).open == 1


@requirement("D11")
async def test_the_loss_of_the_root_ends_what_stands_below_a_completed_part_of_it(world: MessageWorld) -> None:
    lead, ops, row = await given(world)
    helper, deep = await world.server.seat("Helper"), await world.server.seat("Deep")
    below = (await begin(world, ops, helper, "a part")).row
    (part,) = await world.take(helper)
    deeper = (await begin(world, helper, deep, "a part of the part")).row
    await reply(helper, handle(part), "the rest is under way")
    await world.pass_time(120)
    assert (await row_of(world, below.id)).status is DelegationStatus.COMPLETED
    assert (await row_of(world, deeper.id)).open == 1
    await cancel(world, lead, row["id"])
    await world.rest()
    found = await over(world, deeper.id)
    assert (found.status, found.error) == (DelegationStatus.CANCELLED, "its parent task has ended")
    assert (await row_of(world, below.id)).status is DelegationStatus.COMPLETED
    assert await timers_of(world) == []


@requirement("D11", "D13")
async def test_what_is_begun_behind_the_end_of_its_parent_is_not_ended_by_that(world: MessageWorld) -> None:
    lead, ops, row = await given(world)
    helper = await world.server.seat("Helper")
    await cancel(world, lead, row["id"])
    await world.clock.advance(1)
    later = (await begin(world, ops, helper, "clean up", cause_id=row["id"])).row
    assert (later.parent_id, later.root_id, later.depth) == (row["id"], row["id"], 2)
    await world.pass_time(120)
    assert (await row_of(world, later.id)).open == 1


@requirement("D11", "M3")
async def test_who_is_removed_leaves_no_open_delegation(world: MessageWorld) -> None:
    lead, ops, row = await given(world)
    helper = await world.server.seat("Helper")
    below = (await begin(world, ops, helper, "a part")).row
    await remove(world.server.admin, ops)
    await world.rest()
    assert (await over(world, row["id"])).reason is FailureReason.TARGET_REMOVED
    assert (await over(world, below.id)).reason is FailureReason.CANCELLED
    assert [kind for kind, _ in await came(world, lead)] == ["delegation_result"]
    assert await timers_of(world) == []


@requirement("D14")
@pytest.mark.parametrize("gone", ["unknown", "known"])
async def test_a_timer_of_what_is_not_there_is_taken_away(world: MessageWorld, gone: str) -> None:
    _, ops, row = await given(world)
    org_id = world.server.server.registry.orgs()[0].id
    key = f"{org_id}/{row['id'] if gone == 'known' else 'nothing'}"
    await reply(ops, handle(row), "sorted")
    await world.server.server.delegations.writer.on_due(key)
    assert await timers_of(world) == []


@requirement("D8")
async def test_what_was_sent_and_never_answered_has_an_unknown_outcome(world: MessageWorld) -> None:
    world.net.breaks(URL, "no answer", sent=True)
    lead = await world.server.seat("Lead")
    ops = await world.server.seat("Ops", delivery_mode="push", url=URL)
    row = (await begin(world, lead, ops)).row
    await world.rest()
    assert (await row_of(world, row.id)).status is DelegationStatus.UNKNOWN
    await world.pass_time(899)
    assert (await row_of(world, row.id)).open == 1
    await world.pass_time(2)
    assert (await has_ended(world, row.id, DelegationStatus.FAILED, "timer")).reason is FailureReason.UNKNOWN_OUTCOME


@requirement("D8", "D14")
async def test_what_becomes_unsure_is_looked_at_no_later_than_it_was_to_be(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    row = (await begin(world, lead, ops, deadline_seconds=300)).row
    store, now = world.server.server.store, world.clock.now()

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
    assert (await row_of(world, row.id)).status is DelegationStatus.UNKNOWN
    assert await due() == soon
