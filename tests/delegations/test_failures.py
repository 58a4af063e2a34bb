"""What goes wrong with a delegation, the same through every entrance and on both engines."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from molecule_core.common.errors import CommunicationDenied, StoreUnavailable
from molecule_core.delegations.errors import SelfDelegation
from molecule_core.delegations.model import FailureReason
from molecule_core.delegations.rules import ADVICE
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.clocks import FakeClock
from testing.delegation_entrances import Entrance, Giving
from testing.delegation_steps import names_of, row_of, told_of
from testing.engines import Engine
from testing.forbidden_urls import PUBLIC
from testing.loopback_internet import internet
from testing.message_world import MessageWorld, handle, reply
from testing.push_agents import PushNetwork, plain, said
from testing.running_server import Running, Seat, running
from testing.waits import eventually
from tests.delegations.push_team import URL
from tests.delegations.test_life import pair, pushed_to, states_of
from tests.requirements import requirement


async def nothing_is_there(giving: Giving, lead: Seat) -> None:
    """Nothing was written, told or sent."""
    assert await giving.given(lead) == []
    assert await names_of(giving.world) == []
    assert giving.world.net.pushed == []


# -- refused -----------------------------------------------------------------------------------------------------------


@requirement("D2", "D8")
async def test_who_may_not_talk_to_the_target_is_refused_and_nothing_is_written(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pushed_to(world)
    below = await world.server.seat("Below", parent_id=ops.id, delivery_mode="push", url="https://below.example/a2a")
    told = await giving.call(lead, below)
    assert giving.refuses(told, CommunicationDenied, "may_not_talk"), told
    await world.rest()
    await nothing_is_there(giving, lead)
    assert await world.take(below) == []


@requirement("D13", "D2")
async def test_a_workspace_that_delegates_to_itself_is_refused_and_nothing_is_written(giving: Giving) -> None:
    world = giving.world
    lead, _ = await pushed_to(world)
    told = await giving.call(lead, lead)
    assert giving.refuses(told, SelfDelegation, "self_delegation"), told
    await nothing_is_there(giving, lead)
    assert await world.take(lead) == []


@requirement("D2", "P2")
async def test_while_the_store_is_away_it_says_so_and_nothing_is_sent(
    giving: Giving, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = giving.world
    lead, ops = await pushed_to(world)
    world.net.answers(URL, said("sorted"))

    def failing(_command: Any) -> "asyncio.Future[Any]":
        future = asyncio.get_running_loop().create_future()
        future.set_exception(StoreUnavailable())
        return future

    with monkeypatch.context() as planted:
        planted.setattr(world.server.server.store, "run", failing)
        told = await giving.call(lead, ops)
    assert giving.refuses(told, StoreUnavailable, "platform_unavailable"), told
    await world.rest()
    await nothing_is_there(giving, lead)
    begun = await giving.begin(lead, ops)
    assert (await giving.learns(lead, begun)).text == "sorted"


# -- sent in vain ------------------------------------------------------------------------------------------------------


@requirement("D8", "D4")
async def test_what_may_pass_is_tried_once_more_and_then_it_has_failed_as_unreachable(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pushed_to(world)
    world.net.answers(URL, plain(502), said("sorted"), plain(502))
    first = await giving.begin(lead, ops)
    await world.rest()
    assert (await giving.seen(lead, first)).phase == "retrying"
    await world.pass_time(8.1)
    learned = await giving.learns(lead, first)
    assert (learned.status, learned.text) == ("completed", "sorted")
    told = await states_of(world, first.delegation_id)
    assert told == ["sent", "dispatched/sending", "dispatched/retrying", "dispatched/sending", "complete"]
    second = await giving.begin(lead, ops, "file the mail")
    await world.rest()
    await world.pass_time(8.1)
    learned = await giving.learns(lead, second)
    assert (learned.status, learned.reason) == ("failed", "unreachable")
    assert [each.activity for each in world.net.of(URL)] == [first.delegation_id] * 2 + [second.delegation_id] * 2
    assert await giving.comes(lead, first, second) == ["completed sorted", "failed"]


@requirement("D8", "D7")
async def test_what_will_not_pass_has_failed_at_once_with_its_reason_and_advice(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pushed_to(world)
    world.net.answers(URL, plain(404, error="go away"))
    begun = await giving.begin(lead, ops)
    learned = await giving.learns(lead, begun)
    assert (learned.status, learned.reason, learned.text) == ("failed", "refused", "")
    await world.pass_time(100)
    assert len(world.net.pushed) == 1
    name, payload = (await told_of(world, begun.delegation_id))[-1]
    assert (name, payload["reason"], payload["advice"]) == (
        "DELEGATION_FAILED",
        "refused",
        ADVICE[FailureReason.REFUSED],
    )
    assert await giving.comes(lead, begun) == ["failed"]
    again = await giving.call(lead, ops, key=giving.key("call-1"))
    assert not again.hit and again.delegation_id != begun.delegation_id


@requirement("D16")
async def test_a_url_that_may_not_be_called_gets_no_request_and_the_task_has_failed(
    entrance: Entrance, engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with internet() as net, running(engine, place, tmp_path, clock=clock, fetcher=net.fetcher()) as server:
        world = MessageWorld(server, await server.person(), clock, PushNetwork())
        giving = Giving(world, entrance)
        net.names["ops.example"] = PUBLIC[:1]
        lead, ops = await pushed_to(world)
        net.names["ops.example"] = ("127.0.0.1",)  # its name leads somewhere else by now
        begun = await giving.begin(lead, ops)
        learned = await giving.learns(lead, begun)
        assert (learned.status, learned.reason) == ("failed", "unsafe_url")
        assert (net.canary.hits, net.reached) == (0, [])
        name, payload = (await told_of(world, begun.delegation_id))[-1]
        assert (name, payload["reason"], payload["advice"]) == (
            *("DELEGATION_FAILED", "unsafe_url"),
            ADVICE[FailureReason.UNSAFE_URL],
        )
        assert await giving.comes(lead, begun) == ["failed"]
        await giving.close()


# -- answered twice, late, unheard -------------------------------------------------------------------------------------


@requirement("D7")
async def test_an_answer_after_the_failure_is_kept_as_late_and_changes_nothing(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pair(world)
    begun = await giving.begin(lead, ops, deadline=60)
    (task,) = await world.take(ops)
    await world.pass_time(61)
    failed = await giving.learns(lead, begun)
    assert (failed.status, failed.reason) == ("failed", "expired")
    before = await row_of(world, begun.delegation_id), await told_of(world, begun.delegation_id)
    await reply(ops, handle(task), "sorted after all")
    assert (await row_of(world, begun.delegation_id), await told_of(world, begun.delegation_id)) == before
    seen = await giving.seen(lead, begun)
    assert (seen.status, seen.result, seen.facts[-2:]) == ("failed", "", ("expired", "answered late"))
    assert await giving.comes(lead, begun) == ["failed"]


@requirement("D7", "D1")
async def test_an_answer_that_comes_again_is_the_first_one(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pair(world)
    begun = await giving.begin(lead, ops)
    (task,) = await world.take(ops)
    told = [await reply(ops, handle(task), "sorted") for _ in range(3)]
    assert len({each["activity_id"] for each in told}) == 1
    assert (await giving.learns(lead, begun)).text == "sorted"
    path = f"/workspaces/{ops.id}/delegations/{begun.delegation_id}"
    for said_late in ({"status": "failed", "error": "no"}, {"status": "completed", "result": "sorted anew"}):
        told_late = await ops.api.post(f"{path}/update", said_late)
        assert told_late["status"] == "completed"
    states = await states_of(world, begun.delegation_id)
    assert states.count("complete") == 1 and "failed" not in states
    row = await row_of(world, begun.delegation_id)
    assert (row.status, row.result) == (DelegationStatus.COMPLETED, "sorted")
    assert await giving.comes(lead, begun) == ["completed sorted"]


@requirement("D7", "M33")
async def test_a_wake_up_that_is_lost_costs_time_and_nothing_of_the_task(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pair(world)
    begun = await giving.begin(lead, ops)
    wakeups = world.server.server.wakeups
    heard, wakeups._waiters = wakeups._waiters, Deaf(wakeups._waiters)
    (task,) = await world.take(ops)
    await reply(ops, handle(task), "sorted")
    heard.update(wakeups._waiters)
    wakeups._waiters = heard
    row = await row_of(world, begun.delegation_id)
    assert (row.status, row.result) == (DelegationStatus.COMPLETED, "sorted")
    if begun.call is not None:
        assert not begun.call.done()
        await world.clock.advance(21)  # the request that waits is over then
    learned = await giving.learns(lead, begun)
    assert (learned.status, learned.text) == ("completed", "sorted")
    assert await states_of(world, begun.delegation_id) == [
        *("sent", "dispatched/waiting", "queued/waiting", "queued/claimed", "complete"),
    ]
    assert await giving.comes(lead, begun) == ["completed sorted"]


class Deaf(dict[str, Any]):
    """Who rings finds nobody."""

    def get(self, key: str, default: Any = None) -> Any:
        return default


# -- a server that is gone ---------------------------------------------------------------------------------------------


@requirement("D7", "D9", "P2")
async def test_a_task_that_was_being_sent_when_its_server_died_is_the_same_one_afterwards(
    entrance: Entrance,
    engine: Engine,
    place: str,
    tmp_path: Path,
    clock: FakeClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = PushNetwork()
    gate = net.hangs(URL)
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, push_instructions_enabled=True) as server:
        giving = Giving(MessageWorld(server, await server.person(), clock, net), entrance)
        lead, ops = await pushed_to(giving.world)
        begun = await giving.begin(lead, ops, key=giving.key("call-1"))
        await until_sent(clock, net, 1)
        await giving.close()
        monkeypatch.setattr(
            server.server.delivery.push_dispatcher._push_claims, "release", _nothing
        )  # it is gone before it can say so
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, seed=1) as server:
        giving = Giving(MessageWorld(server, await server.person(), clock, net), entrance)
        lead = _moved(server, lead)
        again = await giving.call(lead, ops, key=giving.key("call-1"))
        assert (again.delegation_id, again.hit) == (begun.delegation_id, True)
        gate.set()
        await clock.advance(311)  # where others may use the store, its lease has to end
        learned = await giving.learns(lead, again)
        assert (learned.status, learned.text) == ("completed", "at last")
        assert [(each.activity, each.attempt) for each in net.pushed] == [
            (begun.delegation_id, 1),
            (begun.delegation_id, 2),
        ]
        states = await states_of(giving.world, begun.delegation_id)
        assert (states[0], states[-1], states.count("complete")) == ("sent", "complete", 1)
        assert len(await giving.given(lead)) == 1
        rows = [row["response_body"]["text"] for row in await giving.world.take(lead) if row["kind"] != "peer_agent"]
        assert rows == ["at last"]


async def until_sent(clock: FakeClock, net: PushNetwork, count: int) -> None:
    """Waits until so many pushes have gone out."""

    async def pushed() -> int:
        await clock.advance(0)
        return len(net.pushed)

    await eventually(pushed, lambda found: found >= count)


async def _nothing(*_: object) -> None:
    """Nothing is let go."""


def _moved(server: Running, seat: Seat) -> Seat:
    answer: dict[str, Any] = {"id": seat.id, "name": seat.name, "connection": {"auth_token": seat.token}}
    return Seat(answer, server.api(seat.token))
