"""However a target answers a delegation, that is its one end; and what it says besides is none."""

from typing import Any

import pytest

from molecule_core.delegations.model import Delegation, DelegationPhase, DelegationStatus, FailureReason
from tests.answers.office import Office, handle, reply
from tests.delegations.work import asked, begin, line_of, over, row_of, told_of
from tests.requirements import requirement
from tests.running import Seat


async def given(office: Office, task: str = "sort the mail") -> tuple[Seat, Seat, dict[str, Any]]:
    """Who gave work, who has it, and the message that the latter has claimed."""
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    await begin(office, lead, ops, task)
    (row,) = await office.take(ops)
    return lead, ops, row


async def came(office: Office, lead: Seat) -> list[tuple[str, str]]:
    """What reaches who delegated: (kind, text)."""
    return [(row["kind"], str(row["summary"])) for row in await office.take(lead)]


async def ends_of(office: Office, delegation_id: str) -> list[str]:
    """The events of its end."""
    told = [name for name, _ in await told_of(office, delegation_id)]
    return [name for name in told if name in ("DELEGATION_COMPLETE", "DELEGATION_FAILED")]


async def has_ended(office: Office, delegation_id: str, status: DelegationStatus, via: str | None) -> Delegation:
    """It has ended so, once, and nothing is left of it in the target's inbox."""
    found = await over(office, delegation_id)
    assert (found.status, found.phase, found.open, found.via) == (status, DelegationPhase.ENDED, 0, via)
    assert len(await ends_of(office, delegation_id)) == 1
    return found


# -- message -----------------------------------------------------------------------------------------------------------


@requirement("D6", "D7")
@pytest.mark.parametrize("named", ["nothing", "delegation_id", "in_reply_to"])
async def test_a_plain_message_to_who_delegated_is_the_answer(office: Office, named: str) -> None:
    lead, ops, row = await given(office)
    metadata = {} if named == "nothing" else {named: row["id"]}
    await office.ask(lead, "sorted", by=ops, **metadata)
    await has_ended(office, row["id"], DelegationStatus.COMPLETED, "message")
    assert await came(office, lead) == [("delegation_result", "sorted")]
    assert await office.state(ops, row["id"]) == "answered"
    await office.pass_time(700)  # its lease is over, and it is handled
    assert await office.take(ops) == []


@requirement("D7", "M13")
async def test_the_same_message_twice_is_one_answer(office: Office) -> None:
    lead, ops, row = await given(office)
    message = {"role": "user", "messageId": "m-1", "parts": [{"kind": "text", "text": "sorted"}]}
    body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
    ids = [
        (await ops.api.call("POST", f"/workspaces/{lead.id}/a2a", body=body, headers={"x-timeout": "0"}))["activity_id"]
        for _ in range(2)
    ]
    found = await has_ended(office, row["id"], DelegationStatus.COMPLETED, "message")
    assert ids == [found.result_id] * 2
    assert await came(office, lead) == [("delegation_result", "sorted")]


@requirement("M26")
async def test_a_word_on_the_way_ends_nothing_and_is_a_message(office: Office) -> None:
    lead, ops, row = await given(office)
    await office.ask(lead, "half of it", by=ops, progress=True)
    found = await row_of(office, row["id"])
    assert (found.status, found.phase) == (DelegationStatus.QUEUED, DelegationPhase.WORKING)
    assert await came(office, lead) == [("peer_agent", "half of it")]
    assert [noted.fact for noted in await line_of(office, row["id"])][-1] == "progress"
    await reply(ops, handle(row), "sorted")
    await has_ended(office, row["id"], DelegationStatus.COMPLETED, "reply")


@requirement("D6", "M26")
async def test_a_question_of_the_target_is_a_message_and_the_work_goes_on(office: Office) -> None:
    lead, ops, row = await given(office)
    asked = await office.ask(lead, "which mail?", by=ops, intent="request")
    found = await row_of(office, row["id"])
    assert (found.status, found.phase) == (DelegationStatus.QUEUED, DelegationPhase.WORKING)
    assert await came(office, lead) == [("peer_agent", "which mail?")]
    assert await office.state(lead, asked) == "open"
    assert await office.state(ops, row["id"]) == "open"
    await office.ask(lead, "sorted", by=ops, intent="request", delegation_id=row["id"])
    assert (await has_ended(office, row["id"], DelegationStatus.COMPLETED, "message")).result == "sorted"


@requirement("D17")
async def test_a_message_after_the_end_is_a_plain_message(office: Office) -> None:
    lead, ops, row = await given(office)
    await reply(ops, handle(row), "sorted")
    await office.ask(lead, "by the way", by=ops, delegation_id=row["id"])
    assert await came(office, lead) == [("delegation_result", "sorted"), ("peer_agent", "by the way")]


# -- decline, draft ----------------------------------------------------------------------------------------------------


@requirement("D8", "D7")
async def test_to_decline_it_ends_it_as_rejected_with_the_reason(office: Office) -> None:
    lead, ops, row = await given(office)
    path = f"/workspaces/{ops.id}/decline"
    for _ in range(2):
        await ops.api.post(path, {"handle": handle(row), "reason": "no access"})
    found = await has_ended(office, row["id"], DelegationStatus.FAILED, "reply")
    assert (found.reason, found.error) == (FailureReason.REJECTED, "no access")
    (told,) = [payload for name, payload in await told_of(office, row["id"]) if name == "DELEGATION_FAILED"]
    assert (told["reason"], told["error"]) == ("rejected", "no access")
    assert told["advice"]
    ((kind, text),) = await came(office, lead)
    assert kind == "delegation_result" and text.startswith("no access (rejected).")
    assert await office.state(ops, row["id"]) == "declined"


@requirement("D6", "M26")
async def test_a_draft_is_no_answer_until_it_is_sent(office: Office) -> None:
    lead, ops, row = await given(office)
    path = f"/workspaces/{ops.id}/messages/{row['id']}/draft"
    await ops.api.post(path, {"text": "sorted"})
    assert (await row_of(office, row["id"])).open == 1
    await office.person.post(f"{path}/send", {})
    await has_ended(office, row["id"], DelegationStatus.COMPLETED, "draft")
    assert await came(office, lead) == [("delegation_result", "sorted")]
    await office.pass_time(700)
    assert await office.take(ops) == []


@requirement("D8", "D3")
async def test_a_long_refusal_is_one_short_line_wherever_it_is_told_and_whole_in_the_result(office: Office) -> None:
    lead, ops, row = await given(office)
    words = "no access\n" * 2000
    await office.ask(lead, words, by=ops, delegation_id=row["id"], status="rejected")
    await has_ended(office, row["id"], DelegationStatus.FAILED, "message")
    (owed,) = await office.owed(ops)
    assert owed["state"] == "declined"
    assert owed["reason"].startswith("no access no access") and len(owed["reason"]) <= 500
    ticks = await office.ticks(ops, row["id"])
    assert max(map(len, ticks)) <= 600
    (result,) = await office.take(lead)
    assert words.strip() in result["response_body"]["text"]


# -- cancel ------------------------------------------------------------------------------------------------------------


async def cancel(office: Office, lead: Seat, delegation_id: str, reason: str = "not wanted") -> Delegation:
    """Who delegated does not want it any more."""
    row = await row_of(office, delegation_id)
    sender = asked(lead, lead).sender
    return await office.server.server.delegation_writer.cancel(row, sender, reason)


@requirement("D11")
async def test_a_task_that_nobody_had_is_taken_back(office: Office) -> None:
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    delegation_id = (await begin(office, lead, ops)).row.id
    first, second = [await cancel(office, lead, delegation_id) for _ in range(2)]
    assert first == second == await has_ended(office, delegation_id, DelegationStatus.CANCELLED, "caller")
    assert (first.reason, first.error) == (FailureReason.CANCELLED, "not wanted")
    assert await office.take(ops) == []
    assert [kind for kind, _ in await came(office, lead)] == ["delegation_result"]


@requirement("D11")
async def test_who_is_at_work_on_a_task_that_is_cancelled_is_told(office: Office) -> None:
    lead, ops, row = await given(office)
    await cancel(office, lead, row["id"])
    ((kind, text),) = await came(office, ops)
    assert kind == "system" and "not wanted" in text
    assert await office.state(ops, row["id"]) == "declined"
    await office.pass_time(700)
    assert [each["kind"] for each in await office.take(ops)] == ["system"]


@requirement("D9", "D11")
async def test_what_was_cancelled_can_be_begun_again(office: Office) -> None:
    lead, ops, row = await given(office)
    await cancel(office, lead, row["id"])
    again = await begin(office, lead, ops)
    assert not again.is_duplicate and again.row.id != row["id"]
