"""The life of a delegation as it is meant to be, the same through every entrance and on both engines."""

import asyncio
import itertools
from typing import Any

from msgspec.structs import replace

from molecule_core.delegations.rules import STATUS_RANK
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.delegation_entrances import Giving, can
from testing.delegation_steps import line_of, names_of, row_of, told_of
from testing.message_world import MessageWorld, handle, reply
from testing.push_agents import plain, said
from testing.running_server import Seat
from testing.waits import bounded, eventually
from testing.workspaces import beat
from tests.delegations.push_team import URL
from tests.requirements import requirement


async def pair(world: MessageWorld, **fields: Any) -> tuple[Seat, Seat]:
    """Who gives work, and who gets it."""
    return await world.server.seat("Lead"), await world.server.seat("Ops", **fields)


async def pushed_to(world: MessageWorld) -> tuple[Seat, Seat]:
    """The same, and the latter is pushed to, and there."""
    lead, ops = await pair(world, delivery_mode="push", url=URL)
    await beat(ops, active_tasks=0)
    return lead, ops


async def states_of(world: MessageWorld, delegation_id: str) -> list[str]:
    """Its events in words: how it stood, or how it ended."""
    found = []
    for name, payload in await told_of(world, delegation_id):
        word = name.removeprefix("DELEGATION_").lower()
        found.append(f"{payload['status']}/{payload['phase']}" if word == "status" else word)
    return found


async def stands(world: MessageWorld, delegation_id: str) -> tuple[Any, ...]:
    """All that is known of a delegation, and every event; but not how long somebody waits for its result, since that is
    nothing that happens to it."""
    row = await row_of(world, delegation_id)
    return replace(row, wait_until=0), await line_of(world, delegation_id), await names_of(world)


async def works(world: MessageWorld, seat: Seat, text: str = "sorted") -> dict[str, Any]:
    """An agent takes its one task, and answers it; the task."""
    (row,) = await world.take(seat)
    await reply(seat, handle(row), text)
    return row


@requirement("D1", "D2", "D4", "D6", "D7", "D10")
async def test_a_task_is_given_taken_and_answered_and_its_caller_has_the_result_once(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pair(world)
    begun = await giving.begin(lead, ops, "sort the mail")
    (task,) = await world.take(ops)
    assert (task["id"], task["kind"], task["source_id"]) == (begun.delegation_id, "delegation", lead.id)
    assert task["request_body"]["params"]["message"]["metadata"]["delegation_id"] == begun.delegation_id
    assert (await giving.seen(lead, begun)).phase == "claimed"
    await reply(ops, handle(task), "sorted, and filed")
    learned = await giving.learns(lead, begun)
    assert (learned.delegation_id, learned.status, learned.text) == (task["id"], "completed", "sorted, and filed")
    seen = await giving.seen(lead, begun)
    assert (seen.result, seen.facts) == ("sorted, and filed", ("begun", "stored", "stored", "claimed", "answered"))
    row = await row_of(world, begun.delegation_id)
    assert (row.status, row.via, row.result, row.open) == (DelegationStatus.COMPLETED, "reply", "sorted, and filed", 0)
    assert await giving.comes(lead, begun) == ["completed sorted, and filed"]
    await world.pass_time(1000)
    assert await world.take(lead) == [] and await world.take(ops) == []


@requirement("D2", "D5")
async def test_an_agent_that_polls_has_it_waiting_in_its_inbox_and_is_sent_nothing(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pair(world)
    begun = await giving.begin(lead, ops)
    seen = await giving.seen(lead, begun)
    assert (seen.status, seen.phase, seen.result) == ("queued", "waiting", "")
    await world.pass_time(60)
    assert world.net.pushed == []
    assert await states_of(world, begun.delegation_id) == ["sent", "dispatched/waiting", "queued/waiting"]
    await works(world, ops)
    assert (await giving.learns(lead, begun)).text == "sorted"


@requirement("D4", "D7", "D10")
async def test_an_answer_that_comes_with_the_push_completes_it_at_once(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pushed_to(world)
    world.net.answers(URL, said("sorted at once"))
    begun = await giving.begin(lead, ops)
    learned = await giving.learns(lead, begun)
    assert (learned.status, learned.text) == ("completed", "sorted at once")
    assert [each.activity for each in world.net.of(URL)] == [begun.delegation_id]
    assert await states_of(world, begun.delegation_id) == ["sent", "dispatched/sending", "complete"]
    assert (await giving.seen(lead, begun)).facts == ("begun", "sent", "answered")
    assert await giving.comes(lead, begun) == ["completed sorted at once"]


@requirement("D9")
async def test_the_same_call_again_is_the_same_task_and_nothing_is_written_or_told(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pair(world)
    begun = await giving.begin(lead, ops, key=giving.key("call-1"))
    before = await stands(world, begun.delegation_id)
    for _ in range(3):
        again = await giving.call(lead, ops, "sort the mail", key=giving.key("call-1"))
        assert (again.delegation_id, again.hit, again.status) == (begun.delegation_id, True, "queued")
    assert await stands(world, begun.delegation_id) == before
    assert len(await giving.given(lead)) == 1
    await works(world, ops)
    assert await giving.comes(lead, begun) == ["completed sorted"]
    if can(giving.entrance, "key"):  # it is the same call still, although the task is no longer open
        again = await giving.call(lead, ops, "sort the mail", key="call-1")
        assert (again.delegation_id, again.hit, again.text) == (begun.delegation_id, True, "sorted")
    else:
        again = await giving.call(lead, ops, "sort the mail")
        assert not again.hit and again.delegation_id != begun.delegation_id


@requirement("D9")
async def test_of_calls_at_the_same_time_one_begins_the_task_and_the_others_get_it(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pair(world)
    calls = [giving.call(lead, ops, "sort the mail", key=giving.key("call-1")) for _ in range(4)]
    told = await asyncio.gather(*calls)
    assert len({each.delegation_id for each in told}) == 1
    assert sorted(each.hit for each in told) == [False, True, True, True]
    assert len(await giving.given(lead)) == 1
    assert await states_of(world, told[0].delegation_id) == ["sent", "dispatched/waiting", "queued/waiting"]
    assert [row["id"] for row in await world.take(ops)] == [told[0].delegation_id]


@requirement("D5", "D6", "D7")
async def test_an_agent_that_has_no_time_gets_it_later_and_then_answers(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pushed_to(world)
    world.net.answers(URL, plain(503, {"retry-after": "15"}), said("sorted at last"))
    begun = await giving.begin(lead, ops)
    await world.rest()
    seen = await giving.seen(lead, begun)
    assert (seen.status, seen.phase, seen.result) == ("queued", "waiting", "")
    await world.pass_time(15.1)
    learned = await giving.learns(lead, begun)
    assert (learned.status, learned.text) == ("completed", "sorted at last")
    told = await states_of(world, begun.delegation_id)
    assert told == ["sent", "dispatched/sending", "queued/waiting", "queued/sending", "complete"]
    assert [each.activity for each in world.net.of(URL)] == [begun.delegation_id] * 2
    assert await giving.comes(lead, begun) == ["completed sorted at last"]


@requirement("D5", "D6")
async def test_what_waited_for_an_agent_goes_out_in_order_and_each_gets_its_own_answer(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pushed_to(world)

    async def answer(pushed: Any) -> Any:
        return said(f"re: {pushed.text}")

    world.net.agents[URL] = answer
    await beat(ops, active_tasks=1)
    all_begun = [await giving.begin(lead, ops, f"task {number}") for number in range(3)]
    await world.rest()
    assert world.net.pushed == []
    await world.clock.advance(1)
    await beat(ops, active_tasks=0)
    for number, begun in enumerate(all_begun):
        learned = await giving.learns(lead, begun)
        assert (learned.delegation_id, learned.text) == (begun.delegation_id, f"re: task {number}")
    assert [each.activity for each in world.net.of(URL)] == [each.delegation_id for each in all_begun]
    found = await giving.comes(lead, *all_begun)
    assert sorted(found) == [f"completed re: task {number}" for number in range(3)]


@requirement("D1", "D2", "D15")
async def test_its_begin_is_told_first_its_end_last_and_once_and_nothing_goes_back(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pushed_to(world)
    helper = await world.server.seat("Helper")
    world.net.answers(URL, plain(503, {"retry-after": "5"}), plain(502), said("sorted"))
    pushed, polled = await giving.begin(lead, ops), await giving.begin(lead, helper, "file the mail")
    await works(world, helper, "filed")
    for seconds in (5.1, 8.1):
        await world.pass_time(seconds)
    for begun in (pushed, polled):
        assert (await giving.over(lead, begun)).status == "completed"
        told = await told_of(world, begun.delegation_id)
        names = [name for name, _ in told]
        assert names[0] == "DELEGATION_SENT" and names[-1] == "DELEGATION_COMPLETE"
        assert set(names[1:-1]) == {"DELEGATION_STATUS"}
        ranks = [STATUS_RANK[DelegationStatus(payload["status"])] for _, payload in told[1:-1]]
        assert ranks == sorted(ranks)
        assert {(p["delegation_id"], p["target_id"]) for _, p in told} == {
            (begun.delegation_id, (ops if begun is pushed else helper).id)
        }
    assert (await names_of(world))[0] == "DELEGATION_SENT"
    line = await line_of(world, pushed.delegation_id)
    assert all(one.at <= other.at and one.no + 1 == other.no for one, other in itertools.pairwise(line))


@requirement("D11")
async def test_a_task_that_is_cancelled_ends_once_and_who_works_on_it_is_told(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pair(world)
    begun = await giving.begin(lead, ops)
    (task,) = await world.take(ops)
    for _ in range(2):
        ended = await bounded(giving.entrance.cancel(world.server, lead, begun.delegation_id))
        assert (ended.delegation_id, ended.status, ended.reason) == (begun.delegation_id, "cancelled", "cancelled")
    learned = await giving.learns(lead, begun)
    assert (learned.status, learned.reason) == ("cancelled", "cancelled")
    told = await told_of(world, begun.delegation_id)
    assert [payload["reason"] for name, payload in told if name == "DELEGATION_FAILED"] == ["cancelled"]
    assert [row["kind"] for row in await world.take(ops)] == ["system"]
    await reply(ops, handle(task), "sorted all the same")
    assert (await giving.seen(lead, begun)).facts[-2:] == ("cancelled", "answered late")
    assert await giving.comes(lead, begun) == ["cancelled"]
    again = await giving.call(lead, ops)
    assert not again.hit and again.delegation_id != begun.delegation_id


@requirement("D14", "D7")
async def test_a_task_whose_deadline_passes_has_failed_and_says_so(giving: Giving) -> None:
    world = giving.world
    lead, ops = await pair(world)
    begun = await giving.begin(lead, ops, deadline=120)
    await world.take(ops)
    await world.pass_time(119)
    assert (await row_of(world, begun.delegation_id)).open == 1
    await world.pass_time(2)
    learned = await giving.learns(lead, begun)
    assert (learned.status, learned.reason) == ("failed", "expired")
    row = await row_of(world, begun.delegation_id)
    assert (row.deadline_at - row.created_at) == 120 * 1_000_000
    told = await told_of(world, begun.delegation_id)
    assert [name for name, _ in told].count("DELEGATION_FAILED") == 1
    assert told[-1][1]["advice"]
    assert await eventually(lambda: giving.comes(lead, begun), bool) == ["failed"]
