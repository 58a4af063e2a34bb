"""What people see of delegations while they run: the snapshot, the events behind it, and nobody else's."""

from typing import Any

from testing.delegation_steps import begin
from testing.live_clients import check_shape, journal_of, token_of
from testing.message_world import MessageWorld, handle, reply
from testing.snapshot_follower import compared, follow, state_of
from testing.waits import bounded
from tests.requirements import requirement

TOLD = ("DELEGATION_SENT", "DELEGATION_STATUS", "DELEGATION_COMPLETE")


async def snapshot_of(world: MessageWorld) -> dict[str, Any]:
    """What a page loads."""
    org_id = world.server.server.registry.orgs()[0].id
    found: dict[str, Any] = await bounded(world.person.get(f"/orgs/{org_id}/snapshot"))
    return found


@requirement("M34", "C23")
async def test_an_old_snapshot_and_its_events_are_the_new_snapshot(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    taken = [await snapshot_of(world)]
    first = (await begin(world, lead, ops)).row
    taken.append(await snapshot_of(world))
    await world.pass_time(5)
    rows = await world.take(ops)
    taken.append(await snapshot_of(world))
    second = (await begin(world, ops, lead, "something else")).row
    taken.append(await snapshot_of(world))
    await reply(ops, handle(rows[0]), "sorted")
    taken.append(await snapshot_of(world))
    open_ones = [[each["delegation_id"] for each in snapshot["delegations"]] for snapshot in taken]
    assert open_ones == [[], [first.id], [first.id], [second.id, first.id], [second.id]]
    events = await journal_of(world.server)
    for old in taken:
        for new in taken[taken.index(old) :]:
            between = [event for event in events if event["seq"] <= new["as_of"]]
            assert compared(follow(state_of(old), between)) == compared(state_of(new))


@requirement("C23")
async def test_the_events_of_a_delegation_in_any_order_lead_to_the_same_end(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    before = await snapshot_of(world)
    delegation_id = (await begin(world, lead, ops)).row.id
    (row,) = await world.take(ops)
    running = await snapshot_of(world)
    await reply(ops, handle(row), "sorted")
    events = [event for event in await journal_of(world.server) if event["entity"]["kind"] == "delegation"]
    sent, *changes, end = events
    for order in (changes, changes[::-1], [*changes, *changes]):
        state = state_of(before)
        for event in (sent, *order):
            state = follow({**state, "as_of": 0}, [event])
        (found,) = compared(state)["delegations"].values()
        (meant,) = compared(state_of(running))["delegations"].values()
        assert found == meant
    assert end["event"] == "DELEGATION_COMPLETE"
    assert [event["entity"]["id"] for event in events] == [delegation_id] * 5


@requirement("D15", "M32", "D2")
async def test_events_go_to_the_source_and_to_persons_alone_and_sent_is_the_first(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    delegation_id = (await begin(world, lead, ops)).row.id
    (row,) = await world.take(ops)
    await reply(ops, handle(row), "sorted")
    every = await journal_of(world.server)
    for token in (await token_of(world.server), lead.token):
        last = [each["seq"] for each in every if each["workspace_id"] == lead.id][-1]
        told = [each for each in await journal_of(world.server, token, upto=last) if each["event"] in TOLD]
        assert [each["event"] for each in told] == [*TOLD[:1], *TOLD[1:2] * 3, *TOLD[2:]]
        assert {each["entity"]["id"] for each in told} == {delegation_id}
        for each in told:
            check_shape(each)
            assert lead.token not in str(each) and ops.token not in str(each)
    last = [each["seq"] for each in every if each["workspace_id"] == ops.id][-1]
    of_ops = await journal_of(world.server, ops.token, upto=last)
    assert of_ops and not [each for each in of_ops if each["event"] in TOLD]
