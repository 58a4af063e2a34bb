"""What the two sides of a delegation say of it by themselves: progress, an end, one of their own; and once more."""

import msgspec
import pytest

from molecule_core.common.errors import DelegationNotEnded, MessageIdReused, NotTheAssignee
from molecule_core.delegations.model import DelegationPhase, DelegationStatus, FailureReason, ProgressReport
from molecule_core.messages.model import Sender
from tests.answers.office import Office, handle, reply
from tests.delegations.test_ends import came, cancel, given, has_ended
from tests.delegations.work import asked, begin, line_of, over, row_of, told_of
from tests.requirements import requirement
from tests.running import Seat


def by(seat: Seat) -> Sender:
    return asked(seat, seat).sender


@requirement("D6", "D1")
async def test_progress_is_kept_and_changes_no_state(office: Office) -> None:
    lead, ops, row = await given(office)
    writer, known = office.server.server.delegation_writer, await row_of(office, row["id"])
    with pytest.raises(NotTheAssignee):
        await writer.report_progress(known, by(lead), ProgressReport("mine"))
    for percent in (10, 50):
        await office.clock.advance(30)
        found = await writer.report_progress(known, by(ops), ProgressReport("reading", ("grep",), "soon", percent))
        assert (found.status, found.phase) == (DelegationStatus.QUEUED, DelegationPhase.WORKING)
        assert found.life_at == office.clock.now()
    states = [payload["phase"] for name, payload in await told_of(office, known.id) if name == "DELEGATION_STATUS"]
    assert states == ["waiting", "waiting", "claimed", "working"]
    await reply(ops, handle(row), "sorted")
    before = await has_ended(office, known.id, DelegationStatus.COMPLETED, "reply")
    assert await writer.report_progress(known, by(ops), ProgressReport("too late")) == before


@requirement("D14", "M26")
async def test_who_says_again_that_it_is_at_work_is_not_stuck_and_tells_nothing_new(office: Office) -> None:
    lead, ops, row = await given(office)
    for _ in range(3):
        await office.pass_time(400)
        await office.ask(lead, "still at it", by=ops, progress=True)
        assert (await row_of(office, row["id"])).life_at == office.clock.now()
        assert await office.server.server.delegation_reader.count_open_and_stuck(
            (await row_of(office, row["id"])).org_id
        ) == (1, 0)
    assert [noted.fact for noted in await line_of(office, row["id"])].count("progress") == 1
    states = [payload["phase"] for name, payload in await told_of(office, row["id"]) if name == "DELEGATION_STATUS"]
    assert states == ["waiting", "waiting", "claimed", "working"]
    await office.pass_time(700)
    assert await office.server.server.delegation_reader.count_open_and_stuck(
        (await row_of(office, row["id"])).org_id
    ) == (1, 1)


@requirement("D3", "D8")
async def test_what_went_wrong_is_short_where_it_is_told_and_whole_where_it_is_read(office: Office) -> None:
    lead, _, row = await given(office)
    why = "it broke: 😀" * 1000
    found = await cancel(office, lead, row["id"], why)
    assert found.error == why
    told = [payload for name, payload in await told_of(office, row["id"]) if name == "DELEGATION_FAILED"]
    assert why.startswith(told[0]["error"])
    assert 290 < len(told[0]["error"].encode()) <= 300
    assert (await line_of(office, row["id"]))[-1].detail == told[0]["error"]
    ((_, text),) = await came(office, lead)
    assert text.startswith("it broke")


@requirement("D6")
@pytest.mark.parametrize("status", ["completed", "failed"])
async def test_the_target_alone_may_say_how_it_has_ended(office: Office, status: str) -> None:
    lead, ops, row = await given(office)
    writer, known = office.server.server.delegation_writer, await row_of(office, row["id"])
    with pytest.raises(NotTheAssignee):
        await writer.update(known, by(lead), status, "sorted", "no access")
    for _ in range(2):
        await writer.update(known, by(ops), status, "sorted", "no access")
    found = await has_ended(office, known.id, DelegationStatus(status), "update")
    assert [noted for noted in await line_of(office, known.id) if noted.late] == []
    assert await writer.update(known, by(ops), status, "sorted again", "still none") == found
    (late,) = [noted for noted in await line_of(office, known.id) if noted.late]
    assert late.detail in ("sorted again", "still none")
    assert (found.result, found.reason) in (("sorted", None), (None, FailureReason.REJECTED))
    assert [kind for kind, _ in await came(office, lead)] == ["delegation_result"]
    assert await office.state(ops, known.id) == ("answered" if status == "completed" else "declined")
    await office.pass_time(700)
    assert await office.take(ops) == []


@requirement("D6")
async def test_what_a_caller_records_itself_is_sent_to_nobody_and_ended_by_it_alone(office: Office) -> None:
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    writer = office.server.server.delegation_writer
    receipts = [await writer.record(lead.id, "own-1", ops.id, "sort", by(lead)) for _ in range(2)]
    assert [receipt.is_duplicate for receipt in receipts] == [False, True]
    with pytest.raises(MessageIdReused):
        await writer.record(lead.id, "own-1", ops.id, "sort again", by(lead))
    row = receipts[0].row
    with pytest.raises(NotTheAssignee):
        await writer.update(row, by(ops), "completed", "sorted", None)
    await writer.update(row, by(lead), "completed", "sorted", None)
    await has_ended(office, "own-1", DelegationStatus.COMPLETED, "update")
    assert [await office.take(seat) for seat in (lead, ops)] == [[], []]
    other = (await writer.record(lead.id, "own-2", ops.id, "sort", by(lead))).row
    await writer.update(other, by(lead), "failed", None, "lost")
    assert (await row_of(office, "own-2")).reason is FailureReason.REPORTED


@requirement("D11", "D8")
async def test_what_has_ended_is_begun_once_more_below_the_same(office: Office) -> None:
    _, ops, row = await given(office)
    helper = await office.server.seat("Helper")
    first = (await begin(office, ops, helper, "a part", deadline_seconds=900)).row
    writer = office.server.server.delegation_writer
    with pytest.raises(DelegationNotEnded):
        await writer.retry(first, by(ops))
    await cancel(office, ops, first.id)
    second = (await writer.retry(await over(office, first.id), by(ops))).row
    assert (second.parent_id, second.root_id, second.retry_of) == (row["id"], row["id"], first.id)
    assert (second.task, second.deadline_at - second.created_at) == ("a part", 900_000_000)
    await reply(ops, handle(row), "sorted")
    await cancel(office, ops, second.id)
    third = (await writer.retry(await over(office, second.id), by(ops))).row
    assert (third.parent_id, third.root_id, third.depth) == (None, third.id, 1)
    sent = [payload for name, payload in await told_of(office, third.id) if name == "DELEGATION_SENT"]
    assert msgspec.json.encode(sent) and sent[0]["retry_of"] == second.id
