"""Agents that have no time, are silent, paused or left in peace: a delegation waits for them without an attempt."""

from typing import Any

import pytest
from msgspec.structs import replace

from molecule_core.common.limits import Limits
from molecule_core.delegations.model import DelegationPhase, FailureReason
from molecule_core.messages.events import DeliveryFailed, MessageAnswered, MessagesDelivered, PushDeferred
from molecule_core.org.model import WorkspaceStatus
from molecule_core.store.subscribers import MAX_DOMAIN_EVENTS
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.delegation_steps import begin
from testing.message_world import MessageWorld
from testing.push_agents import Reply, plain, said
from testing.waits import eventually
from testing.workspaces import beat, status_of
from tests.delegations.push_team import URL, Team, team
from tests.requirements import requirement

BUSY = b'{"busy":true,"retry_after":9}'


def standing(there: Team, status: WorkspaceStatus) -> None:
    """The agent's seat stands so, as if an operator had said it."""
    server = there.world.server.server
    server.registry.put_workspace(replace(server.registry.active_workspace(there.ops.id), status=status))
    server.wakeups.notify(("pushes",))


@requirement("D5", "D8")
@pytest.mark.parametrize(
    ("reply", "seconds", "error"),
    [
        (plain(503), 30, "busy (HTTP 503)"),
        (plain(503, error="soon", waking=True, retry_after=15), 30, "busy (HTTP 503)"),
        (plain(503, {"retry-after": "7"}, busy=True), 7, "busy (HTTP 503)"),
        (plain(429), 30, "busy (HTTP 429)"),
        ((200, {}, BUSY), 9, "busy"),
        ((500, {}, BUSY), 9, "busy"),
    ],
)
async def test_a_busy_agent_is_asked_again_when_it_says_and_no_attempt_is_counted(
    world: MessageWorld, reply: Reply, seconds: int, error: str
) -> None:
    there = await team(world)
    world.net.answers(URL, *[reply] * 5, plain(502), said("sorted"))
    one = await there.gives()
    assert there.heard[1:] == [PushDeferred(one, True, error, there.behind(seconds), world.clock.now())]
    for asked in range(1, 5):
        await world.pass_time(seconds - 0.1)
        assert len(there.pushed) == asked
        await world.pass_time(0.2)
        assert len(there.pushed) == asked + 1
    await world.pass_time(seconds)
    assert [fact.busy for fact in there.of(PushDeferred)] == [True] * 5 + [False]  # its first failure, which passes
    await world.pass_time(8.1)
    assert [fact.answer.text for fact in there.of(MessageAnswered)] == ["sorted"]
    assert [fact.messages for fact in there.of(MessagesDelivered)] == [((one, attempt),) for attempt in range(1, 8)]
    assert there.of(DeliveryFailed) == []


@requirement("D5", "M22")
async def test_an_agent_that_is_busy_for_hours_is_never_given_up(world: MessageWorld) -> None:
    there = await team(world)
    world.net.answers(URL, plain(429))
    await there.gives()
    for _ in range(30):
        await world.pass_time(31)
    assert len(there.pushed) == 31
    assert {type(fact) for fact in there.heard} == {MessagesDelivered, PushDeferred}
    assert all(fact.busy for fact in there.of(PushDeferred))


@requirement("D5", "M22")
async def test_a_heartbeat_with_a_free_slot_ends_the_wait(world: MessageWorld) -> None:
    there = await team(world)
    world.net.answers(URL, plain(503, {"retry-after": "300"}), said("sorted"))
    await there.gives()
    await world.pass_time(1)
    await beat(there.ops, active_tasks=0)
    await eventually(_count(there, MessageAnswered), lambda found: found == 1)
    assert len(there.pushed) == 2


@requirement("D5", "M22")
async def test_an_agent_with_its_hands_full_is_not_pushed_to_and_the_delegation_waits(world: MessageWorld) -> None:
    there = await team(world)
    world.net.answers(URL, said("sorted"))
    await beat(there.ops, active_tasks=1)
    one = await there.gives()
    assert there.pushed == []
    (delayed,) = there.heard[:1]
    assert (delayed.delegation_id, delayed.busy, delayed.error) == (one, True, None)
    assert there.of(MessagesDelivered) == []
    await world.pass_time(1)
    await beat(there.ops, active_tasks=0)
    await eventually(_count(there, MessageAnswered), lambda found: found == 1)
    assert [fact.messages for fact in there.of(MessagesDelivered)] == [((one, 1),)]


@requirement("D5", "M22")
async def test_a_paused_agent_gets_it_when_it_goes_on(world: MessageWorld) -> None:
    there = await team(world)
    world.net.answers(URL, said("sorted"))
    standing(there, WorkspaceStatus.PAUSED)
    await there.gives()
    assert there.pushed == [] and there.of(PushDeferred)[0].busy
    standing(there, WorkspaceStatus.ONLINE)
    await world.rest()
    await eventually(_count(there, MessageAnswered), lambda found: found == 1)


@requirement("D8", "M22")
async def test_a_silent_agent_is_never_given_up_for_its_silence(world: MessageWorld) -> None:
    there = await team(world)
    await beat(there.ops)
    await world.clock.advance(106)
    await eventually(status_of(world.person, there.ops), lambda status: status == "offline")
    await there.gives()
    for _ in range(6):  # three times as often as would end it
        await world.pass_time(301)
    assert len(world.net.pushed) >= 6
    assert there.of(DeliveryFailed) == []
    assert all(fact.busy and fact.error == "nobody there" for fact in there.of(PushDeferred))
    world.net.answers(URL, said("sorted"))
    await beat(there.ops)
    await world.rest()
    await eventually(_count(there, MessageAnswered), lambda found: found == 1)


@requirement("D5", "D8")
async def test_an_agent_that_has_no_time_is_waited_for_however_often_it_failed_before(
    world: MessageWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = await team(world)
    world.net.answers(URL, plain(502), plain(503, busy=True), said("sorted"))
    await there.gives()
    outcomes = world.server.server.delivery.push_dispatcher._push_claims._recorder
    monkeypatch.setattr(outcomes, "_limits", replace(outcomes._limits, delegation_attempts=1))  # set lower since
    await world.pass_time(8.1)
    assert [fact.busy for fact in there.of(PushDeferred)] == [False, True]
    await world.pass_time(301)
    assert there.of(DeliveryFailed) == []
    assert [fact.answer.text for fact in there.of(MessageAnswered)] == ["sorted"]


@requirement("D8", "D16")
async def test_what_will_not_pass_ends_it_although_its_agent_is_silent(world: MessageWorld) -> None:
    there = await team(world)
    world.net.answers(URL, plain(404))
    await beat(there.ops)
    await world.clock.advance(106)
    await eventually(status_of(world.person, there.ops), lambda status: status == "offline")
    await there.gives()
    assert [fact.code for fact in there.of(DeliveryFailed)] == ["refused"]


@requirement("D8", "M23")
async def test_behind_an_open_circuit_it_waits_and_nothing_is_counted(world: MessageWorld) -> None:
    there = await team(world)
    delivery = world.server.server.delivery.push_dispatcher
    delivery._limits = Limits(circuit_failures=2, circuit_seconds=1000)
    await there.gives("an early task")
    await world.pass_time(8.1)
    open_until = delivery.circuit_open_until(there.ops.id)
    assert open_until is not None
    there.heard.clear()
    world.net.answers(URL, plain(502), said("sorted"))
    late = await there.gives("a late task")
    delayed = [fact for fact in there.of(PushDeferred) if fact.delegation_id == late]
    assert delayed and {(fact.busy, fact.error, fact.next_at) for fact in delayed} == {(True, None, open_until)}
    await world.pass_time(900)
    assert late not in {each.activity for each in there.pushed}
    await world.pass_time(200)  # one probe, which fails, and the circuit is open again
    await world.pass_time(1001)
    assert [each.attempt for each in there.pushed if each.activity == late] == [1, 2]
    assert [fact.answer.text for fact in there.of(MessageAnswered)] == ["sorted"]


@requirement("D5", "M22")
async def test_a_crowd_that_waits_goes_out_when_its_agent_has_room_for_all(world: MessageWorld) -> None:
    there = await team(world)
    world.net.answers(URL, said("sorted"))
    standing(there, WorkspaceStatus.PAUSED)
    wide = replace(world.server.server.registry.active_workspace(there.ops.id), max_concurrent_tasks=100)
    world.server.server.registry.put_workspace(wide)
    ids = [await there.give(f"task {number}") for number in range(MAX_DOMAIN_EVENTS + 6)]
    await world.rest()
    assert there.pushed == []
    standing(there, WorkspaceStatus.ONLINE)
    for _ in range(6):  # one agent has a quarter of all slots at once
        await world.pass_time(61)
    assert len(there.of(MessageAnswered)) == len(ids)
    assert sorted(each.activity for each in there.pushed) == sorted(ids)


@requirement("D1", "D5")
async def test_while_it_waits_for_a_busy_agent_it_is_queued_and_nobody_has_it(world: MessageWorld) -> None:
    there = await team(world)
    await beat(there.ops)
    world.net.answers(URL, plain(503), plain(503), said("sorted"))
    one = await there.gives()
    row = await there.row(one)
    assert (row.status, row.phase, row.taken_at) == (DelegationStatus.QUEUED, DelegationPhase.WAITING, None)
    await world.pass_time(30.1)
    await world.pass_time(30.1)
    assert await there.told(one) == [
        "dispatched/sending",
        "queued/waiting",
        "queued/sending",
        "queued/waiting",
        "queued/sending",
        "complete",
    ]


@requirement("D5", "M22")
async def test_one_that_begins_behind_an_open_circuit_is_queued_at_once(world: MessageWorld) -> None:
    there = await team(world)
    await beat(there.ops)
    world.server.server.delivery.push_dispatcher._limits = Limits(circuit_failures=2, circuit_seconds=1000)
    await there.gives("an early task")
    await world.pass_time(8.1)
    one = await there.gives("a late task")
    row = await there.row(one)
    assert (row.status, row.phase, row.attempt) == (DelegationStatus.QUEUED, DelegationPhase.WAITING, 0)
    await world.pass_time(300)
    assert await there.told(one) == ["queued/waiting"]


@requirement("D8", "D14")
async def test_being_busy_ends_at_the_deadline_and_not_before(world: MessageWorld) -> None:
    there = await team(world)
    world.net.answers(URL, plain(429))
    one = (await begin(world, there.lead, there.ops, deadline_seconds=100)).row.id
    for _ in range(3):
        await world.pass_time(31)
    assert (await there.row(one)).open == 1
    await world.pass_time(10)
    row = await there.ended(one)
    assert (row.status, row.reason) == (DelegationStatus.FAILED, FailureReason.EXPIRED)
    pushes = there.pushes_of(one)
    await world.pass_time(1000)
    assert there.pushes_of(one) == pushes == 4


def _count(there: Team, kind: type) -> Any:
    async def look() -> int:
        await there.world.clock.advance(0)
        return len(there.of(kind))

    return look
