"""Sent, and no answer: it may be done, so it is not sent again, blocks nobody, and an answer still counts."""

import asyncio
import socket
from pathlib import Path

import pytest

from molecule_core.common.limits import Limits
from molecule_core.delegations.model import DelegationPhase, DelegationStatus, FailureReason
from molecule_core.messages.events import DeliveryFailed, MessagesDelivered, PushDeferred, PushOutcomeUnknown
from tests.answers.office import Office, reply
from tests.clocks import FakeClock
from tests.delegations.pushes import URL, Team, handle, listen, team
from tests.delegations.work import line_of
from tests.delivery.agents import Desk, HttpAgent, Pushed, Reply, http_agent, said
from tests.engines import Engine
from tests.journeys.patience import eventually
from tests.requirements import requirement
from tests.running import UNHURRIED, running

NETWORKS = ("127.0.0.0/8",)


@requirement("D8")
async def test_it_is_not_sent_again_and_blocks_nobody(office: Office) -> None:
    there = await team(office)
    office.net.breaks(URL, "no answer within 300 s", sent=True)
    one = await there.gives()
    assert there.heard == [
        MessagesDelivered(there.ops.id, ((one, 1),), True, office.clock.now()),
        PushOutcomeUnknown(one, "no answer within 300 s", office.clock.now()),
    ]
    office.net.answers(URL, said("done"))
    asked = await office.ask(there.ops, "a question")
    await office.stands(there.ops, asked, "answered")
    for _ in range(8):
        await office.pass_time(100)
    assert [each.activity for each in there.pushed] == [one, asked]
    assert len(there.heard) == 2
    assert await office.state(there.ops, one) == "open"
    assert await office.ticks(there.ops, one) == ["stored", "handed_over 1"]


@requirement("D8")
async def test_its_agent_takes_no_second_copy_by_its_tools_either(office: Office) -> None:
    there = await team(office)
    office.net.breaks(URL, "it closed the connection without a complete answer", sent=True)
    await there.gives()
    body = {"delivery_mode": "poll"}
    await office.person.call("PATCH", f"/workspaces/{there.ops.id}", body=body)
    assert await office.take(there.ops) == []


@requirement("D8")
@pytest.mark.parametrize("sent", [True, False])
async def test_what_was_surely_not_sent_is_sent_again(office: Office, sent: bool) -> None:
    there = await team(office)
    office.net.breaks(URL, "broken", sent=sent)
    await there.gives()
    await office.pass_time(8.1)
    assert len(there.pushed) == (1 if sent else 2)
    assert [type(fact) for fact in there.heard[1:]] == (
        [PushOutcomeUnknown] if sent else [PushDeferred, MessagesDelivered, DeliveryFailed]
    )


@requirement("D17", "M21")
async def test_a_plain_message_is_sent_again_as_ever(office: Office) -> None:
    there = await team(office)
    office.net.breaks(URL, "broken", sent=True)
    await office.ask(there.ops, "a question", by=there.lead)
    await office.rest()
    await office.pass_time(301)
    assert len(there.pushed) == 2
    assert there.heard == []


@requirement("D1", "D8")
async def test_it_stands_as_unknown_for_a_quarter_of_an_hour_and_has_failed_then(office: Office) -> None:
    there = await team(office)
    office.net.breaks(URL, "no answer within 300 s", sent=True)
    one = await there.gives()
    row = await there.row(one)
    assert (row.status, row.phase, row.open, row.unsure_at) == (
        DelegationStatus.UNKNOWN,
        DelegationPhase.WAITING,
        1,
        office.clock.now(),
    )
    await office.pass_time(899)
    assert (await there.row(one)).open == 1
    await office.pass_time(2)
    row = await there.ended(one)
    assert (row.status, row.reason) == (DelegationStatus.FAILED, FailureReason.UNKNOWN_OUTCOME)
    assert (await there.told(one))[-2:] == ["unknown_after_send/waiting", "unknown_outcome"]
    assert there.pushes_of(one) == 1


@requirement("D6", "D7", "D8")
@pytest.mark.parametrize("way", ["handle", "message"])
async def test_an_answer_by_another_way_ends_it_well(office: Office, way: str) -> None:
    there = await team(office)
    office.net.breaks(URL, "no answer within 300 s", sent=True)
    one = await there.gives()
    await office.pass_time(600)
    if way == "handle":
        await reply(there.ops, handle(there.pushed[0]), "sorted")
    else:
        await office.ask(there.lead, "sorted", by=there.ops, delegation_id=one)
    row = await there.row(one)
    assert (row.status, row.result, row.via) == (
        DelegationStatus.COMPLETED,
        "sorted",
        {"handle": "reply"}.get(way, way),
    )
    await office.pass_time(4000)
    assert (await there.told(one))[-1] == "complete" and (await there.told(one)).count("complete") == 1


@requirement("D7", "D8")
async def test_an_answer_that_comes_behind_the_quarter_of_an_hour_is_late(office: Office) -> None:
    there = await team(office)
    office.net.breaks(URL, "no answer within 300 s", sent=True)
    one = await there.gives()
    await office.pass_time(901)
    await there.ended(one)
    before = await there.told(one)
    await reply(there.ops, handle(there.pushed[0]), "sorted after all")
    row = await there.row(one)
    assert (row.status, row.reason, row.result) == (DelegationStatus.FAILED, FailureReason.UNKNOWN_OUTCOME, None)
    assert await there.told(one) == before
    assert [noted.late for noted in await line_of(office, one)][-1] == 1


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
        office = Office(server, await server.person(), clock, Desk())
        lead = await server.seat("Lead")
        ops = await server.seat("Ops", delivery_mode="push", url=agent.url)
        there = Team(office, lead, ops, listen(office))
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
            office = Office(server, await server.person(), clock, Desk())
            lead = await server.seat("Lead")
            ops = await server.seat("Ops", delivery_mode="push", url=url)
            there = Team(office, lead, ops, listen(office))
            await there.gives()
            await office.pass_time(8.1)
            assert [(fact.code, fact.detail) for fact in there.of(DeliveryFailed)] == [
                ("unreachable", "connection refused")
            ]
            assert there.of(PushOutcomeUnknown) == []
