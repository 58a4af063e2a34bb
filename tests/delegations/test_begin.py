"""A delegation to an agent that polls, from its begin to its result: one row, one end, by the answer itself."""

import asyncio
from typing import Any

import pytest

from molecule_core.common.errors import CommunicationDenied, MessageIdReused, NotFound, WorkspaceRemoved
from molecule_core.delegations.errors import DelegationCycle, DelegationLimit, SelfDelegation
from molecule_core.delegations.model import DelegationPhase
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.delegation_steps import asked, begin, line_of, names_of, row_of, told_of
from testing.message_world import MessageWorld, handle, reply
from testing.running_server import Seat
from testing.workspaces import remove
from tests.requirements import requirement


async def pair(world: MessageWorld) -> tuple[Seat, Seat]:
    """Who gives work, and who gets it."""
    return await world.server.seat("Lead"), await world.server.seat("Ops")


async def results_of(world: MessageWorld, seat: Seat) -> list[dict[str, Any]]:
    """The results in an inbox, claimed by its agent."""
    return [row for row in await world.take(seat) if row["kind"] == "delegation_result"]


async def works(world: MessageWorld, seat: Seat, text: str = "sorted") -> dict[str, Any]:
    """An agent takes what it is given and answers it by its handle."""
    (row,) = [row for row in await world.take(seat) if row["kind"] == "delegation"]
    await reply(seat, handle(row), text)
    return row


# -- the whole way -----------------------------------------------------------------------------------------------------


@requirement("D2", "D4", "D5", "D7", "P5")
async def test_a_delegation_goes_from_its_begin_to_its_one_end(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    receipt = await begin(world, lead, ops, "sort the mail " * 20)
    delegation_id = receipt.row.id
    assert (receipt.is_duplicate, receipt.row.status, receipt.row.phase) == (
        False,
        DelegationStatus.QUEUED,
        DelegationPhase.WAITING,
    )
    assert await row_of(world, delegation_id) == receipt.row
    assert (await names_of(world))[:5] == [
        "DELEGATION_SENT",
        "ACTIVITY_LOGGED",
        "ACTIVITY_LOGGED",
        "DELEGATION_STATUS",
        "DELEGATION_STATUS",
    ]
    row = await works(world, ops, "sorted: 😀" * 40)
    assert row["id"] == delegation_id
    assert row["request_body"]["params"]["message"]["metadata"]["delegation_id"] == delegation_id

    found = await row_of(world, delegation_id)
    assert (found.status, found.phase, found.open, found.via) == (
        DelegationStatus.COMPLETED,
        DelegationPhase.ENDED,
        0,
        "reply",
    )
    assert (found.result, found.task) == ("sorted: 😀" * 40, "sort the mail " * 20)
    assert found.taken_at is not None and found.settled_at is not None
    events = await told_of(world, delegation_id)
    assert [(name, payload.get("status"), payload.get("phase")) for name, payload in events] == [
        ("DELEGATION_SENT", None, None),
        ("DELEGATION_STATUS", "dispatched", "waiting"),
        ("DELEGATION_STATUS", "queued", "waiting"),
        ("DELEGATION_STATUS", "queued", "claimed"),
        ("DELEGATION_COMPLETE", None, None),
    ]
    assert all((payload["delegation_id"], payload["target_id"]) == (delegation_id, ops.id) for _, payload in events)
    assert len(events[0][1]["task_preview"].encode()) <= 100
    assert 190 < len(events[-1][1]["response_preview"].encode()) <= 200
    line = await line_of(world, delegation_id)
    assert [(noted.no, noted.fact, noted.status, noted.attempt) for noted in line] == [
        (1, "begun", "pending", 0),
        (2, "stored", "dispatched", 0),
        (3, "stored", "queued", 0),
        (4, "claimed", "queued", 1),
        (5, "answered", "completed", 1),
    ]


@requirement("D7", "W1")
async def test_the_result_is_one_row_in_the_inbox_of_who_delegated_with_the_whole_text(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    delegation_id = (await begin(world, lead, ops)).row.id
    await works(world, ops, "sorted " * 100)
    (result,) = await results_of(world, lead)
    assert (result["activity_type"], result["method"], result["kind"]) == (
        "a2a_receive",
        "delegate_result",
        "delegation_result",
    )
    assert (result["source_id"], result["status"], result["intent"]) == (ops.id, "completed", "inform")
    assert result["response_body"]["text"] == "sorted " * 100
    assert result["response_body"]["delegation_id"] == delegation_id
    message = result["request_body"]["params"]["message"]
    assert (message["parts"], message["messageId"]) == ([{"kind": "text", "text": "sorted " * 100}], result["id"])
    assert message["metadata"]["delegation_id"] == delegation_id
    found = await row_of(world, delegation_id)
    assert (found.result_id, found.result_seq) == (result["id"], result["seq"])
    assert await world.owed(lead) == []  # it wants no answer
    rows = await world.person.get(f"/workspaces/{lead.id}/activity")
    assert sorted(row["method"] for row in rows) == ["delegate", "delegate_result"]
    (own,) = [row for row in rows if row["method"] == "delegate"]
    assert (own["activity_type"], own["target_id"]) == ("delegation", ops.id)
    assert own["request_body"] == {"task": "sort the mail", "delegation_id": delegation_id}


@requirement("D7", "P2")
async def test_an_answer_that_comes_twice_ends_it_once(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    delegation_id = (await begin(world, lead, ops)).row.id
    (row,) = await world.take(ops)
    first, second = [await reply(ops, handle(row), text) for text in ("sorted", "sorted again")]
    assert (first["activity_id"], first["state"]) == (second["activity_id"], second["state"])
    assert first["activity_id"] == (await row_of(world, delegation_id)).result_id
    assert [name for name, _ in await told_of(world, delegation_id)].count("DELEGATION_COMPLETE") == 1
    assert len(await results_of(world, lead)) == 1
    assert await world.state(ops, delegation_id) == "answered"
    assert await world.take(ops) == []


@requirement("D7")
async def test_who_answers_without_a_claim_ends_it_as_well(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    delegation_id = (await begin(world, lead, ops)).row.id
    rows = await world.person.get(f"/workspaces/{ops.id}/activity", type="a2a_receive")
    assert [row["id"] for row in rows] == [delegation_id]
    seen = await ops.api.get(f"/workspaces/{ops.id}/activity", include="instructions")
    await reply(ops, handle(seen[0]), "sorted")
    assert (await row_of(world, delegation_id)).status is DelegationStatus.COMPLETED
    assert len(await results_of(world, lead)) == 1


@requirement("D7", "M21")
async def test_the_result_is_pushed_to_a_caller_that_is_pushed_to(world: MessageWorld) -> None:
    url = "https://lead.example/a2a"
    world.net.answers(url, (200, {}, b""))
    lead = await world.server.seat("Lead", delivery_mode="push", url=url)
    ops = await world.server.seat("Ops")
    delegation_id = (await begin(world, lead, ops)).row.id
    await works(world, ops)
    await world.rest()
    (pushed,) = world.net.pushed
    assert pushed.text == "sorted"
    assert pushed.body["params"]["message"]["metadata"]["delegation_id"] == delegation_id


@requirement("D5", "P5")
async def test_progress_and_a_second_claim_complete_nothing(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    delegation_id = (await begin(world, lead, ops)).row.id
    (row,) = await world.take(ops)
    await reply(ops, handle(row), "half of it", progress=True)
    await world.pass_time(601)
    (again,) = await world.take(ops)
    assert again["attempt"] == 2
    found = await row_of(world, delegation_id)
    assert (found.status, found.phase, found.attempt) == (DelegationStatus.QUEUED, DelegationPhase.CLAIMED, 2)
    assert await results_of(world, lead) == []


# -- the same again ----------------------------------------------------------------------------------------------------


@requirement("D9")
async def test_the_same_task_again_is_the_open_one_and_writes_nothing(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    first = await begin(world, lead, ops, "sort  the\nmail")
    before = await names_of(world)
    again = await begin(world, lead, ops, " sort the mail ")
    assert (again.is_duplicate, again.row) == (True, first.row)
    assert await names_of(world) == before
    await works(world, ops)
    new = await begin(world, lead, ops)
    assert not new.is_duplicate and new.row.id != first.row.id


@requirement("D9")
async def test_a_key_names_one_delegation_whatever_became_of_it(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    first = await begin(world, lead, ops, key="k1")
    await works(world, ops)
    before = await names_of(world)
    again = await begin(world, lead, ops, key="k1")
    assert (again.is_duplicate, again.row.id, again.row.status) == (True, first.row.id, DelegationStatus.COMPLETED)
    with pytest.raises(MessageIdReused):
        await begin(world, lead, ops, "something else", key="k1")
    assert await names_of(world) == before
    other = await world.server.seat("Other")
    assert not (await begin(world, other, ops, key="k1")).is_duplicate  # a key is its caller's alone
    await world.clock.advance(24 * 3600)
    assert not (await begin(world, lead, ops, key="k1")).is_duplicate
    assert (await begin(world, lead, ops, key="k1")).is_duplicate


@requirement("D9")
async def test_of_twins_at_the_same_moment_one_begins(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    wishes = [asked(lead, ops, key=f"k{number}") for number in range(10)]
    receipts = await asyncio.gather(*map(world.server.server.delegations.writer.begin, wishes))
    assert len({receipt.row.id for receipt in receipts}) == 1
    assert sorted(receipt.is_duplicate for receipt in receipts) == [False] + [True] * 9
    assert (await names_of(world)).count("DELEGATION_SENT") == 1
    assert len(await world.take(ops)) == 1


# -- refused -----------------------------------------------------------------------------------------------------------


@requirement("D2", "M3", "S8")
async def test_who_may_not_delegate_has_written_nothing(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    below = await world.server.seat("Below", parent_id=ops.id)
    other = await world.server.org("Other")
    foreign, far = [await world.server.seat(name, org_id=other) for name in ("Foreign", "Far")]
    gone = await world.server.seat("Gone")
    for each in (gone, far):
        await remove(world.server.admin, each)
    before = await names_of(world)
    for target, refusal in (
        (lead, SelfDelegation),
        (below, CommunicationDenied),
        (foreign, NotFound),
        (gone, WorkspaceRemoved),
        (far, NotFound),
    ):
        with pytest.raises(refusal):
            await begin(world, lead, target)
    assert await names_of(world) == before
    assert await world.server.server.delegations.reader.list_open(world.server.server.registry.orgs()[0].id, 10) == []


@requirement("D13", "S11")
async def test_a_task_that_comes_back_to_who_gave_it_is_refused_and_told(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    first = await begin(world, lead, ops)
    await world.take(ops)
    with pytest.raises(DelegationCycle) as refused:
        await begin(world, ops, lead)
    assert refused.value.extras["limit"] == "cycle"
    assert refused.value.extras["remedy"]
    assert (await names_of(world))[-1] == "DELEGATION_REFUSED"
    other = await begin(world, ops, lead, "another task")
    assert (other.row.parent_id, other.row.root_id, other.row.depth) == (first.row.id, first.row.id, 2)


@requirement("D13", "S11")
async def test_delegations_below_each_other_end_at_the_depth_of_the_limit(world: MessageWorld) -> None:
    seats = [await world.server.seat(f"Seat {number}") for number in range(2)]
    depth = world.server.server.settings.limits.delegation_depth
    for level in range(depth):
        receipt = await begin(world, seats[level % 2], seats[1 - level % 2], f"task {level}")
        assert (receipt.row.depth, receipt.row.root_no) == (level + 1, level + 1)
        await world.take(seats[1 - level % 2])
    with pytest.raises(DelegationLimit) as refused:
        await begin(world, seats[depth % 2], seats[1 - depth % 2], "one more")
    assert {name: refused.value.extras[name] for name in ("limit", "use", "most")} == {
        "limit": "depth",
        "use": depth,
        "most": depth,
    }


@requirement("D13")
async def test_what_a_result_brings_goes_on_below_the_same_parent(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    helper = await world.server.seat("Helper")
    first = await begin(world, lead, ops)
    (given,) = await world.take(ops)
    await begin(world, ops, helper, "a part of it")
    await works(world, helper)
    (result,) = await results_of(world, ops)
    second = await begin(world, ops, helper, "the next part", cause_id=result["id"])
    assert (second.row.parent_id, second.row.depth, second.row.root_no) == (first.row.id, 2, 3)
    assert given["id"] == first.row.id


@requirement("M30")
async def test_a_result_goes_on_in_the_chain_of_its_task(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    asking = await world.ask(lead, "please have it sorted")
    await world.take(lead)
    delegation = (await begin(world, lead, ops)).row
    assert (delegation.chain_id, delegation.hop, delegation.cause_id) == (asking, 1, asking)
    await works(world, ops)
    (result,) = await results_of(world, lead)
    assert (result["root_id"], result["cause_id"]) == (asking, asking)
