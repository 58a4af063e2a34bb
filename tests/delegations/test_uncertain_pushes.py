"""Sent, and no answer: it may be done, so it is not sent again, blocks nobody, and an answer still counts."""

import asyncio
import socket
from pathlib import Path

import pytest

from molecule_core.common.limits import Limits
from molecule_core.delegations.model import DelegationPhase, FailureReason
from molecule_core.messages.events import DeliveryFailed, MessagesDelivered, PushDeferred, PushOutcomeUnknown
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.clocks import FakeClock
from testing.delegation_steps import line_of
from testing.engines import Engine
from testing.message_world import MessageWorld, reply
from testing.push_agents import HttpAgent, Pushed, PushNetwork, Reply, http_agent, said
from testing.running_server import UNHURRIED, running
from testing.waits import eventually
from tests.delegations.push_team import URL, Team, handle, listen, team
from tests.requirements import requirement

NETWORKS = ("127.0.0.0/8",)


@requirement("D8")
async def test_it_is_not_sent_again_and_blocks_nobody(world: MessageWorld) -> None:
    there = await team(world)
    world.net.breaks(URL, "no answer within 300 s", sent=True)
    one = await there.gives()
    assert there.heard == [
        MessagesDelivered(there.ops.id, ((one, 1),), True, world.clock.now()),
        PushOutcomeUnknown(one, "no answer within 300 s", world.clock.now()),
    ]
    world.net.answers(URL, said("done"))
    asked = await world.ask(there.ops, "a question")
    await world.stands(there.ops, asked, "answered")
    for _ in range(8):
        await world.pass_time(100)
    assert [each.activity for each in there.pushed] == [one, asked]
    assert len(there.heard) == 2
    assert await world.state(there.ops, one) == "open"
    assert await world.ticks(there.ops, one) == ["stored", "handed_over 1"]


@requirement("D8")
async def test_its_agent_takes_no_second_copy_by_its_tools_either(world: MessageWorld) -> None:
    there = await team(world)
    world.net.breaks(URL, "it closed the connection without a complete response", sent=True)
    await there.gives()
    body = {"delivery_mode": "poll"}
    await world.person.call("PATCH", f"/workspaces/{there.ops.id}", body=body)
    assert await world.take(there.ops) == []


@requirement("D8")
@pytest.mark.parametrize("sent", [True, False])
async def test_what_was_surely_not_sent_is_sent_again(world: MessageWorld, sent: bool) -> None:
    there = await team(world)
    world.net.breaks(URL, "broken", sent=sent)
    await there.gives()
    await world.pass_time(8.1)
    assert len(there.pushed) == (1 if sent else 2)
    assert [type(fact) for fact in there.heard[1:]] == (
        [PushOutcomeUnknown] if sent else [PushDeferred, MessagesDelivered, DeliveryFailed]
    )


@requirement("D17", "M21")
async def test_a_plain_message_is_sent_again_as_ever(world: MessageWorld) -> None:
    there = await team(world)
    world.net.breaks(URL, "broken", sent=True)
    await world.ask(there.ops, "a question", by=there.lead)
    await world.rest()
    await world.pass_time(301)
    assert len(there.pushed) == 2
    assert there.heard == []


@requirement("D1", "D8")
async def test_it_stands_as_unknown_for_a_quarter_of_an_hour_and_has_failed_then(world: MessageWorld) -> None:
    there = await team(world)
    world.net.breaks(URL, "no answer within 300 s", sent=True)
    one = await there.gives()
    row = await there.row(one)
    assert (row.status, row.phase, row.open, row.unsure_at) == (
        DelegationStatus.UNKNOWN,
        DelegationPhase.WAITING,
        1,
        world.clock.now(),
    )
    await world.pass_time(899)
    assert (await there.row(one)).open == 1
    await world.pass_time(2)
    row = await there.ended(one)
    assert (row.status, row.reason) == (DelegationStatus.FAILED, FailureReason.UNKNOWN_OUTCOME)
    assert (await there.told(one))[-2:] == ["unknown_after_send/waiting", "unknown_outcome"]
    assert there.pushes_of(one) == 1


@requirement("D6", "D7", "D8")
@pytest.mark.parametrize("way", ["handle", "message"])
async def test_an_answer_by_another_way_ends_it_well(world: MessageWorld, way: str) -> None:
    there = await team(world)
    world.net.breaks(URL, "no answer within 300 s", sent=True)
    one = await there.gives()
    await world.pass_time(600)
    if way == "handle":
        await reply(there.ops, handle(there.pushed[0]), "sorted")
    else:
        await world.ask(there.lead, "sorted", by=there.ops, delegation_id=one)
    row = await there.row(one)
    assert (row.status, row.result, row.via) == (
        DelegationStatus.COMPLETED,
        "sorted",
        {"handle": "reply"}.get(way, way),
    )
    await world.pass_time(4000)
    assert (await there.told(one))[-1] == "complete" and (await there.told(one)).count("complete") == 1


@requirement("D7", "D8")
async def test_an_answer_that_comes_behind_the_quarter_of_an_hour_is_late(world: MessageWorld) -> None:
    there = await team(world)
    world.net.breaks(URL, "no answer within 300 s", sent=True)
    one = await there.gives()
    await world.pass_time(901)
    await there.ended(one)
    before = await there.told(one)
    await reply(there.ops, handle(there.pushed[0]), "sorted after all")
    row = await there.row(one)
    assert (row.status, row.reason, row.result) == (DelegationStatus.FAILED, FailureReason.UNKNOWN_OUTCOME, None)
    assert await there.told(one) == before
    assert [noted.late for noted in await line_of(world, one)][-1] == 1


class Deaf(HttpAgent):
    """An agent that reads what it is sent and hangs up, or says nothing for ever."""

    def __init__(self, *, hangs: bool) -> None:
        super().__init__()
        self.hangs = hangs
        self.gate = asyncio.Event()
        self.reply = self.go

    async def go(self, _pushed: Pushed) -> Reply:
        """No answer."""
        if self.hangs:
            await self.gate.wait()
        raise ConnectionAbortedError


@requirement("D8")
@pytest.mark.parametrize("hangs", [True, False])
async def test_a_real_connection_that_ends_behind_the_request_leaves_it_unsure(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, hangs: bool
) -> None:
    limits = Limits(**{name: getattr(UNHURRIED, name) for name in UNHURRIED.__struct_fields__} | {"push_seconds": 1})
    async with (
        http_agent(Deaf(hangs=hangs)) as agent,
        running(engine, place, tmp_path, clock=clock, limits=limits, push_networks=NETWORKS) as server,
    ):
        world = MessageWorld(server, await server.person(), clock, PushNetwork())
        lead = await server.seat("Lead")
        ops = await server.seat("Ops", delivery_mode="push", url=agent.url)
        there = Team(world, lead, ops, listen(world))
        one = await there.give()

        async def unsure() -> int:
            await clock.advance(0)
            return len(there.of(PushOutcomeUnknown))

        await eventually(unsure, lambda found: found == 1)
        agent.gate.set()
        assert [each.activity for each in agent.pushed] == [one]


@requirement("D8")
async def test_a_real_agent_that_is_not_there_was_sent_nothing(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    with socket.socket() as held:  # a port that is taken, and where nobody listens
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/agent"
        async with running(engine, place, tmp_path, clock=clock, push_networks=NETWORKS) as server:
            world = MessageWorld(server, await server.person(), clock, PushNetwork())
            lead = await server.seat("Lead")
            ops = await server.seat("Ops", delivery_mode="push", url=url)
            there = Team(world, lead, ops, listen(world))
            await there.gives()
            await world.pass_time(8.1)
            assert [(fact.code, fact.detail) for fact in there.of(DeliveryFailed)] == [
                ("unreachable", "connection refused")
            ]
            assert there.of(PushOutcomeUnknown) == []
