"""What the two sides of a delegation say of it by themselves: progress, an end, one of their own; and once more."""

import msgspec
import pytest

from molecule_core.common.errors import MessageIdReused
from molecule_core.delegations.errors import DelegationNotEnded, NotTheAssignee
from molecule_core.delegations.model import DelegationPhase, FailureReason, ProgressReport
from molecule_core.messages.model import Sender
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.delegation_steps import asked, begin, line_of, over, row_of, told_of
from testing.message_world import MessageWorld, handle, reply
from testing.running_server import Seat
from tests.delegations.test_ends import came, cancel, given, has_ended
from tests.requirements import requirement


def by(seat: Seat) -> Sender:
    return asked(seat, seat).sender


@requirement("D6", "D1")
async def test_progress_is_kept_and_changes_no_state(world: MessageWorld) -> None:
    lead, ops, row = await given(world)
    writer, known = world.server.server.delegations.writer, await row_of(world, row["id"])
    with pytest.raises(NotTheAssignee):
        await writer.report_progress(known, by(lead), ProgressReport("mine"))
    for percent in (10, 50):
        await world.clock.advance(30)
        found = await writer.report_progress(known, by(ops), ProgressReport("reading", ("grep",), "soon", percent))
        assert (found.status, found.phase) == (DelegationStatus.QUEUED, DelegationPhase.WORKING)
        assert found.life_at == world.clock.now()
    states = [payload["phase"] for name, payload in await told_of(world, known.id) if name == "DELEGATION_STATUS"]
    assert states == ["waiting", "waiting", "claimed", "working"]
    await reply(ops, handle(row), "sorted")
    before = await has_ended(world, known.id, DelegationStatus.COMPLETED, "reply")
    assert await writer.report_progress(known, by(ops), ProgressReport("too late")) == before


@requirement("D14", "M26")
async def test_who_says_again_that_it_is_at_work_is_not_stuck_and_tells_nothing_new(world: MessageWorld) -> None:
    lead, ops, row = await given(world)
    for _ in range(3):
        await world.pass_time(400)
        await world.ask(lead, "still at it", by=ops, progress=True)
        assert (await row_of(world, row["id"])).life_at == world.clock.now()
        assert await world.server.server.delegations.reader.count_open_and_stuck(
            (await row_of(world, row["id"])).org_id
        ) == (1, 0)
    assert [noted.fact for noted in await line_of(world, row["id"])].count("progress") == 1
    states = [payload["phase"] for name, payload in await told_of(world, row["id"]) if name == "DELEGATION_STATUS"]
    assert states == ["waiting", "waiting", "claimed", "working"]
    await world.pass_time(700)
    assert await world.server.server.delegations.reader.count_open_and_stuck(
        (await row_of(world, row["id"])).org_id
    ) == (1, 1)


@requirement("D3", "D8")
async def test_what_went_wrong_is_short_where_it_is_told_and_whole_where_it_is_read(world: MessageWorld) -> None:
    lead, _, row = await given(world)
    why = "it broke: 😀" * 1000
    found = await cancel(world, lead, row["id"], why)
    assert found.error == why
    told = [payload for name, payload in await told_of(world, row["id"]) if name == "DELEGATION_FAILED"]
    assert why.startswith(told[0]["error"])
    assert 290 < len(told[0]["error"].encode()) <= 300
    assert (await line_of(world, row["id"]))[-1].detail == told[0]["error"]
    ((_, text),) = await came(world, lead)
    assert text.startswith("it broke")


@requirement("D6")
@pytest.mark.parametrize("status", ["completed", "failed"])
async def test_the_target_alone_may_say_how_it_has_ended(world: MessageWorld, status: str) -> None:
    lead, ops, row = await given(world)
    writer, known = world.server.server.delegations.writer, await row_of(world, row["id"])
    with pytest.raises(NotTheAssignee):
        await writer.update(known, by(lead), status, "sorted", "no access")
    for _ in range(2):
        await writer.update(known, by(ops), status, "sorted", "no access")
    found = await has_ended(world, known.id, DelegationStatus(status), "update")
    assert [noted for noted in await line_of(world, known.id) if noted.late] == []
    assert await writer.update(known, by(ops), status, "sorted again", "still none") == found
    (late,) = [noted for noted in await line_of(world, known.id) if noted.late]
    assert late.detail in ("sorted again", "still none")
    assert (found.result, found.reason) in (("sorted", None), (None, FailureReason.REJECTED))
    assert [kind for kind, _ in await came(world, lead)] == ["delegation_result"]
    assert await world.state(ops, known.id) == ("answered" if status == "completed" else "declined")
    await world.pass_time(700)
    assert await world.take(ops) == []


@requirement("D6")
async def test_what_a_caller_records_itself_is_sent_to_nobody_and_ended_by_it_alone(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    writer = world.server.server.delegations.writer
    receipts = [await writer.record(lead.id, "own-1", ops.id, "sort", by(lead)) for _ in range(2)]
    assert [receipt.is_duplicate for receipt in receipts] == [False, True]
    with pytest.raises(MessageIdReused):
        await writer.record(lead.id, "own-1", ops.id, "sort again", by(lead))
    row = receipts[0].row
    with pytest.raises(NotTheAssignee):
        await writer.update(row, by(ops), "completed", "sorted", None)
    await writer.update(row, by(lead), "completed", "sorted", None)
    await has_ended(world, "own-1", DelegationStatus.COMPLETED, "update")
    assert [await world.take(seat) for seat in (lead, ops)] == [[], []]
    other = (await writer.record(lead.id, "own-2", ops.id, "sort", by(lead))).row
    await writer.update(other, by(lead), "failed", None, "lost")
    assert (await row_of(world, "own-2")).reason is FailureReason.REPORTED


@requirement("D11", "D8")
async def test_what_has_ended_is_begun_once_more_below_the_same(world: MessageWorld) -> None:
    _, ops, row = await given(world)
    helper = await world.server.seat("Helper")
    first = (await begin(world, ops, helper, "a part", deadline_seconds=900)).row
    writer = world.server.server.delegations.writer
    with pytest.raises(DelegationNotEnded):
        await writer.retry(first, by(ops))
    await cancel(world, ops, first.id)
    second = (await writer.retry(await over(world, first.id), by(ops))).row
    assert (second.parent_id, second.root_id, second.retry_of) == (row["id"], row["id"], first.id)
    assert (second.task, second.deadline_at - second.created_at) == ("a part", 900_000_000)
    await reply(ops, handle(row), "sorted")
    await cancel(world, ops, second.id)
    third = (await writer.retry(await over(world, second.id), by(ops))).row
    assert (third.parent_id, third.root_id, third.depth) == (None, third.id, 1)
    sent = [payload for name, payload in await told_of(world, third.id) if name == "DELEGATION_SENT"]
    assert msgspec.json.encode(sent) and sent[0]["retry_of"] == second.id
