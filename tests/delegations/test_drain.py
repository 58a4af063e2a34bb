"""What waited goes out in order, each under its own id, and comes to one end, whoever dies or answers meanwhile."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from molecule_core.messages.events import DeliveryFailed, MessageAnswered, MessagesReleased, PushAccepted
from molecule_core.messages.model import Sender
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.clocks import FakeClock
from testing.delegation_steps import begin, told_of
from testing.engines import Engine
from testing.message_world import MessageWorld, reply
from testing.push_agents import Pushed, PushNetwork, Reply, plain, said
from testing.running_server import Running, Seat, running
from testing.waits import eventually
from testing.workspaces import beat
from tests.delegations.push_team import URL, Team, handle, listen, team
from tests.requirements import requirement


async def results(there: Team) -> list[str]:
    """The texts of the results in the inbox of who delegated."""
    path = f"/workspaces/{there.lead.id}/activity"
    rows = await there.world.person.get(path, type="a2a_receive", limit=100)
    return [row["response_body"]["text"] for row in rows[::-1] if row["kind"] == "delegation_result"]


async def completed(there: Team, *ids: str) -> None:
    """Waits until all of these have ended well."""

    async def stands() -> list[DelegationStatus]:
        await there.world.clock.advance(0)
        return [(await there.row(each)).status for each in ids]

    await eventually(stands, lambda found: set(found) == {DelegationStatus.COMPLETED})


def echo(there: Team) -> None:
    """The agent repeats what it is sent."""

    async def answer(pushed: Pushed) -> Reply:
        return said(f"re: {pushed.text}")

    there.world.net.agents[URL] = answer


@requirement("D5", "D6", "D7", "M22")
async def test_what_waited_goes_out_in_order_each_once_and_comes_back_under_its_own_id(world: MessageWorld) -> None:
    there = await team(world)
    echo(there)
    await beat(there.ops, active_tasks=1)
    ids = [await there.give(f"task {number}") for number in range(4)]
    asked = await world.ask(there.ops, "a question", by=there.lead)
    ids += [await there.give(f"task {number}") for number in range(4, 6)]
    await world.rest()
    assert there.pushed == []
    await world.clock.advance(1)
    await beat(there.ops, active_tasks=0)
    await completed(there, *ids)
    await world.rest()
    assert [each.activity for each in there.pushed] == [*ids[:4], asked, *ids[4:]]
    assert {each.attempt for each in there.pushed} == {1}
    assert [fact.delegation_id for fact in there.of(MessageAnswered)] == ids
    assert await results(there) == [f"re: task {number}" for number in range(6)]
    for number, each in enumerate(ids):
        row = await there.row(each)
        assert (row.result, row.via, row.attempt) == (f"re: task {number}", "push", 1)


@requirement("D5", "M22")
async def test_no_more_go_out_at_once_than_the_agent_has_room_for(world: MessageWorld) -> None:
    there = await team(world)
    path = f"/workspaces/{there.ops.id}"
    await world.person.call("PATCH", path, body={"max_concurrent_tasks": 2})
    gate = world.net.hangs(URL)
    ids = [await there.give(f"task {number}") for number in range(5)]
    await there.until_pushed(2)
    await world.clock.advance(5)
    assert [each.activity for each in there.pushed] == ids[:2]
    gate.set()
    await completed(there, *ids)
    assert world.net.most_under_way == 2
    assert sorted(await results(there)) == ["at last"] * 5


@requirement("D5", "D6", "D7")
async def test_one_that_was_put_off_is_the_same_row_when_it_goes_out_again(world: MessageWorld) -> None:
    there = await team(world)
    world.net.answers(URL, plain(503), plain(502), said("sorted"))
    one = await there.gives()
    await world.pass_time(30.1)
    await world.pass_time(8.1)
    await completed(there, one)
    assert [(each.activity, each.attempt) for each in there.pushed] == [(one, 1), (one, 2), (one, 3)]
    inbox = await world.person.get(f"/workspaces/{there.ops.id}/activity", type="a2a_receive")
    assert [row["id"] for row in inbox] == [one]
    names = [name for name, _ in await told_of(world, one)]
    assert names[0] == "DELEGATION_SENT" and names[-1] == "DELEGATION_COMPLETE"
    assert names.count("DELEGATION_COMPLETE") == 1
    assert await results(there) == ["sorted"]


# -- answers by other ways ---------------------------------------------------------------------------------------------


@requirement("D5", "D6", "D7", "P5")
async def test_an_agent_that_took_it_answers_later_by_its_tools(world: MessageWorld) -> None:
    there = await team(world)
    world.net.answers(URL, plain(202, queued=True))
    one = await there.gives()
    assert there.of(PushAccepted) and (await there.row(one)).open == 1
    await world.pass_time(3600)
    await reply(there.ops, handle(there.pushed[0]), "sorted")
    row = await there.row(one)
    assert (row.status, row.result, row.via) == (DelegationStatus.COMPLETED, "sorted", "reply")
    assert await results(there) == ["sorted"]
    assert len(there.pushed) == 1


@requirement("D7")
@pytest.mark.parametrize("ends", [said("and here again"), plain(500), plain(404), plain(200)])
async def test_an_agent_that_answers_by_its_tools_during_the_push_has_answered_once(
    world: MessageWorld, ends: Reply
) -> None:
    there = await team(world)

    async def answer(pushed: Pushed) -> Reply:
        await reply(there.ops, handle(pushed), "sorted")
        return ends

    world.net.agents[URL] = answer
    one = await there.gives()
    await world.pass_time(1000)
    assert [fact.answer.text for fact in there.of(MessageAnswered)] == ["sorted"]
    assert there.of(DeliveryFailed) == []
    assert len(there.pushed) == 1
    assert (await there.row(one)).result == "sorted"
    assert await results(there) == ["sorted"]


@requirement("D7", "D11")
@pytest.mark.parametrize("ends", [said("sorted"), plain(502), plain(503), plain(200, error="no")])
async def test_one_that_is_cancelled_during_its_push_ends_once_and_is_not_sent_again(
    world: MessageWorld, ends: Reply
) -> None:
    there = await team(world)
    gate = asyncio.Event()

    async def answer(_pushed: Pushed) -> Reply:
        await gate.wait()
        return ends

    world.net.agents[URL] = answer
    one = await there.give()
    await there.until_pushed(1)
    by = Sender(f"workspace:{there.lead.id}", there.lead.id, None, None)
    await world.server.server.delegations.writer.cancel(await there.row(one), by, "not wanted any more")
    gate.set()
    for _ in range(3):
        await world.pass_time(31)
    row = await there.row(one)
    assert (row.status, row.result) == (DelegationStatus.CANCELLED, None)
    assert there.pushes_of(one) == 1
    names = [name for name, _ in await told_of(world, one)]
    assert names.count("DELEGATION_FAILED") == 1 and "DELEGATION_COMPLETE" not in names
    assert len(await results(there)) == 1


# -- a server that stops -----------------------------------------------------------------------------------------------


async def seats(server: Running, clock: FakeClock, net: PushNetwork) -> Team:
    """A world on a server that will not live long."""
    return await team(MessageWorld(server, await server.person(), clock, net))


async def again(server: Running, before: Team) -> Team:
    """The same seats on the server that comes after."""
    world = MessageWorld(server, await server.person(), before.world.clock, before.world.net)
    lead, ops = (_moved(server, seat) for seat in (before.lead, before.ops))
    return Team(world, lead, ops, listen(world))


def _moved(server: Running, seat: Seat) -> Seat:
    answer: dict[str, Any] = {"id": seat.id, "name": seat.name, "connection": {"auth_token": seat.token}}
    return Seat(answer, server.api(seat.token))


@requirement("D7", "D8", "P2")
@pytest.mark.parametrize("graceful", [True, False])
async def test_a_push_that_a_stopping_server_leaves_goes_out_again_under_the_same_key(
    engine: Engine,
    place: str,
    tmp_path: Path,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
    graceful: bool,
) -> None:
    net = PushNetwork()
    net.hangs(URL)
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, push_instructions_enabled=True) as server:
        there = await seats(server, clock, net)
        one = await there.give()
        await there.until_pushed(1)
        if not graceful:  # it is gone before it can say so
            monkeypatch.setattr(server.server.delivery.push_dispatcher._push_claims, "release", _nothing)
    left = [fact for fact in there.heard if isinstance(fact, MessagesReleased)]
    assert left == ([MessagesReleased((one,), clock.now())] if graceful else [])
    net.answers(URL, said("sorted"))
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, seed=1) as server:
        there = await again(server, there)
        if not graceful and engine == "postgres":  # others may use the store: the lease has to end
            await clock.advance(311)
        await completed(there, one)
        assert [(each.activity, each.attempt) for each in there.pushed] == [(one, 1), (one, 2)]
        assert {each.headers["idempotency-key"] for each in there.pushed} == {one}
        assert (await there.row(one)).attempt == 2
        assert await results(there) == ["sorted"]
        names = [name for name, _ in await told_of(there.world, one)]
        assert names.count("DELEGATION_COMPLETE") == 1


@requirement("D7", "P2")
async def test_what_was_answered_by_tools_is_not_sent_again_although_nobody_saw_how_its_push_ended(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = PushNetwork()
    net.hangs(URL)
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, push_instructions_enabled=True) as server:
        there = await seats(server, clock, net)
        one = await there.give()
        await there.until_pushed(1)
        await reply(there.ops, handle(there.pushed[0]), "sorted")
        monkeypatch.setattr(server.server.delivery.push_dispatcher._push_claims, "release", _nothing)
    net.answers(URL, said("sorted once more"))
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, seed=1) as server:
        there = await again(server, there)
        await clock.advance(311)
        two = await there.gives("the next task")
        await completed(there, one, two)
        assert [each.activity for each in there.pushed] == [one, two]
        assert await results(there) == ["sorted", "sorted once more"]


async def _nothing(*_: object) -> None:
    """Nothing is let go."""


@requirement("D7")
async def test_who_delegates_the_same_again_while_it_waits_adds_no_push(world: MessageWorld) -> None:
    there = await team(world)
    world.net.answers(URL, plain(503), said("sorted"))
    one = await there.gives()
    twin = await begin(world, there.lead, there.ops)
    assert (twin.is_duplicate, twin.row.id) == (True, one)
    await world.pass_time(30.1)
    await completed(there, one)
    assert len(there.pushed) == 2
    assert await results(there) == ["sorted"]
