"""Who stops a delegation: how many stand below one, and how many one tree ever has; and what an inbox does not stop."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from molecule_core.common.errors import InboxFull
from molecule_core.delegations.errors import DelegationLimit
from molecule_core.delegations.model import BeginResult
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.clocks import FakeClock
from testing.delegation_steps import begin, names_of, over
from testing.engines import Engine
from testing.message_world import MessageWorld, handle, reply
from testing.push_agents import PushNetwork
from testing.running_server import UNHURRIED, running
from tests.delegations.test_ends import cancel, has_ended
from tests.requirements import requirement

CHILDREN, IN_ROOT, INBOX = 3, 6, 8


@pytest.fixture
async def small(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[MessageWorld]:
    """A world where little is allowed."""
    limits = msgspec.structs.replace(
        UNHURRIED, delegation_children=CHILDREN, delegations_per_root=IN_ROOT, inbox_unhandled=INBOX
    )
    net = PushNetwork()
    async with running(
        engine, place, tmp_path, clock=clock, fetcher=net, limits=limits, push_instructions_enabled=True
    ) as server:
        yield MessageWorld(server, await server.person(), clock, net)


@requirement("D13", "S11")
async def test_so_many_are_open_below_one_and_an_end_makes_room(small: MessageWorld) -> None:
    lead, ops, helper = [await small.server.seat(name) for name in ("Lead", "Ops", "Helper")]
    await begin(small, lead, ops)
    await small.take(ops)
    below = [(await begin(small, ops, helper, f"part {number}")).row for number in range(CHILDREN)]
    with pytest.raises(DelegationLimit) as refused:
        await begin(small, ops, helper, "one more")
    known = refused.value.extras
    assert (known["limit"], known["use"], known["most"]) == ("children", CHILDREN, CHILDREN)
    assert (await names_of(small))[-1] == "DELEGATION_REFUSED"
    assert [row["request_body"]["params"]["message"]["metadata"]["kind"] for row in await small.take(helper)] == [
        "delegation"
    ] * CHILDREN
    await cancel(small, ops, below[0].id)
    await over(small, below[0].id)
    assert not (await begin(small, ops, helper, "one more")).is_duplicate


@requirement("D13", "S11")
async def test_one_tree_has_so_many_ended_ones_among_them(small: MessageWorld) -> None:
    lead, ops, helper = [await small.server.seat(name) for name in ("Lead", "Ops", "Helper")]
    root = (await begin(small, lead, ops)).row
    await small.take(ops)
    for number in range(2, IN_ROOT + 1):
        row = (await begin(small, ops, helper, f"part {number}", cause_id=root.id)).row
        assert (row.root_id, row.root_no) == (root.id, number)
        await cancel(small, ops, row.id)
    with pytest.raises(DelegationLimit) as refused:
        await begin(small, ops, helper, "one more", cause_id=root.id)
    assert (refused.value.extras["limit"], refused.value.extras["use"]) == ("root", IN_ROOT)


@requirement("D13")
async def test_what_an_inbox_had_no_room_for_uses_up_nothing_of_its_tree(small: MessageWorld) -> None:
    lead, ops, full, helper = [await small.server.seat(name) for name in ("Lead", "Ops", "Full", "Helper")]
    root = (await begin(small, lead, ops)).row
    await small.take(ops)
    for number in range(INBOX):
        await small.ask(full, f"line {number}")
    for number in range(IN_ROOT + 1):
        with pytest.raises(InboxFull):
            await begin(small, ops, full, f"part {number}", cause_id=root.id)
    row = (await begin(small, ops, helper, "a part", cause_id=root.id)).row
    assert (row.root_id, row.root_no) == (root.id, 2)


@requirement("D13")
async def test_of_those_that_begin_at_once_in_one_tree_so_many_begin_and_the_rest_are_told_why(
    small: MessageWorld,
) -> None:
    lead, ops, *rest = [await small.server.seat(f"Seat{number}") for number in range(2 + IN_ROOT)]
    root = (await begin(small, lead, ops)).row
    await small.take(ops)
    sources = []
    for seat in rest[:2]:
        await begin(small, ops, seat, f"for {seat.id}", cause_id=root.id)
        (task,) = await small.take(seat)
        sources.append((seat, task["id"]))
    wishes = [
        begin(small, seat, target, f"{seat.id} {target.id}", cause_id=cause)
        for seat, cause in sources
        for target in rest[2:4]
    ]
    found = await asyncio.gather(*wishes, return_exceptions=True)
    begun = [each.row.root_no or 0 for each in found if isinstance(each, BeginResult)]
    refused = [each.extras["limit"] for each in found if isinstance(each, DelegationLimit)]
    assert (sorted(begun), refused) == ([4, 5, 6], ["root"])
    assert (await names_of(small)).count("DELEGATION_REFUSED") == 1


@requirement("D7", "D6")
@pytest.mark.parametrize("way", ["message", "reply"])
async def test_an_answer_enters_an_inbox_that_is_full(small: MessageWorld, way: str) -> None:
    lead, ops = await small.server.seat("Lead"), await small.server.seat("Ops")
    delegation_id = (await begin(small, lead, ops)).row.id
    (row,) = await small.take(ops)
    for number in range(INBOX):
        await small.ask(lead, f"line {number}")
    if way == "message":
        await small.ask(lead, "sorted", by=ops)
    else:
        await reply(ops, handle(row), "sorted")
    found = await has_ended(small, delegation_id, DelegationStatus.COMPLETED, way)
    assert found.result_id in [each["id"] for each in await small.take(lead)]
