"""Who declines a task by its handle after its end is heard, and changes nothing: not what it came to, and not who reads
of it."""

from typing import Any

import pytest

from molecule_core.delegations.model import Delegation, FailureReason
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.delegation_steps import asked, line_of, over, row_of
from testing.message_world import MessageWorld, handle, reply
from testing.running_server import Seat
from testing.waits import refused
from tests.delegations.test_ends import came, cancel, ends_of, given
from tests.requirements import requirement


async def decline(seat: Seat, row: dict[str, Any], reason: str = "no access") -> dict[str, Any]:
    """An agent says that it will not do it."""
    told: dict[str, Any] = await seat.api.post(
        f"/workspaces/{seat.id}/decline", {"handle": handle(row), "reason": reason}
    )
    return told


async def ends(world: MessageWorld, lead: Seat, ops: Seat, delegation_id: str, how: str) -> Delegation:
    """A task ends otherwise than by an answer to its message."""
    row = await row_of(world, delegation_id)
    if how == "cancelled":
        await cancel(world, lead, delegation_id)
    elif how == "expired":
        await world.pass_time((row.deadline_at - row.created_at) / 1_000_000 + 1)
    else:
        sender = asked(ops, lead).sender
        await world.server.server.delegations.writer.update(row, sender, DelegationStatus.COMPLETED, "sorted", None)
    return await over(world, delegation_id)


@requirement("D7", "M27")
@pytest.mark.parametrize("how", ["cancelled", "expired", "completed"])
async def test_a_decline_after_the_end_is_kept_as_late_and_changes_nothing(world: MessageWorld, how: str) -> None:
    lead, ops, row = await given(world)
    found = await ends(world, lead, ops, row["id"], how)
    before = [noted for noted in await line_of(world, row["id"]) if noted.late]
    assert before == []
    told = await decline(ops, row)
    assert (told["state"], told["acknowledged"], told["answers"]) == ("late", True, row["id"])

    assert await row_of(world, row["id"]) == found
    last = (await line_of(world, row["id"]))[-1]
    assert (last.fact, last.late, last.detail, last.status) == ("declined", 1, "no access", found.status)
    assert len(await ends_of(world, row["id"])) == 1
    assert [kind for kind, _ in await came(world, lead)] == ["delegation_result"]
    (kept,) = [
        each
        for each in await ops.api.get(f"/workspaces/{ops.id}/activity", limit=50)
        if each["id"] == told["activity_id"]
    ]
    message = kept["request_body"]["params"]["message"]
    assert (message["parts"], message["metadata"]["late"]) == ([{"kind": "text", "text": "no access"}], True)


@requirement("D7", "M27")
async def test_a_late_decline_said_twice_is_one_and_a_late_answer_is_another(world: MessageWorld) -> None:
    lead, ops, row = await given(world)
    await cancel(world, lead, row["id"])
    first, second = [await decline(ops, row, reason) for reason in ("no access", "really not")]
    assert first == second
    said, again = [await reply(ops, handle(row), text) for text in ("sorted after all", "and again")]
    assert (said["state"], said["activity_id"]) == (again["state"], again["activity_id"])
    assert said["state"] == "late"
    assert said["activity_id"] != first["activity_id"]
    late = [(noted.fact, noted.detail) for noted in await line_of(world, row["id"]) if noted.late]
    assert late == [("declined", "no access"), ("answered", "sorted after all")]
    assert (await row_of(world, row["id"])).reason is FailureReason.CANCELLED
    assert await world.state(ops, row["id"]) == "declined"  # closed from above, and left so


@requirement("D7", "M27")
async def test_who_has_answered_or_declined_itself_is_not_late_but_told_the_first_result(world: MessageWorld) -> None:
    lead, ops, row = await given(world)
    first = await decline(ops, row)
    assert first["state"] == "declined"
    assert await decline(ops, row, "still not") == first
    _, peer, other = await given(world, "sort the files")
    answered = await reply(peer, handle(other), "sorted")
    assert answered["state"] == "answered"
    assert (await decline(peer, other))["state"] == "answered"
    for delegation_id in (row["id"], other["id"]):
        assert [noted for noted in await line_of(world, delegation_id) if noted.late] == []
    assert [kind for kind, _ in await came(world, lead)] == ["delegation_result"]


@requirement("D7", "M27")
async def test_who_has_answered_by_a_message_cannot_decline_any_more(world: MessageWorld) -> None:
    lead, ops, row = await given(world)
    await world.ask(lead, "sorted", by=ops)
    error = await refused(decline(ops, row))
    assert (error.status, error.code) == (409, "stale_handle")
    assert [noted for noted in await line_of(world, row["id"]) if noted.late] == []


@requirement("D7", "M27")
async def test_what_a_late_update_says_is_kept_whole_and_once(world: MessageWorld) -> None:
    lead, ops, row = await given(world)
    found = await cancel(world, lead, row["id"])
    words, sender = "sorted after all " * 100, asked(ops, lead).sender
    for _ in range(2):
        await world.server.server.delegations.writer.update(found, sender, DelegationStatus.COMPLETED, words, None)
    assert await row_of(world, row["id"]) == found
    assert [noted.fact for noted in await line_of(world, row["id"]) if noted.late] == ["answered"]
    log = await ops.api.get(f"/workspaces/{ops.id}/activity", limit=50)
    messages = [each["request_body"]["params"]["message"] for each in log if each["method"] == "delegate_result"]
    assert [(each["parts"], each["metadata"]["late"]) for each in messages] == [
        ([{"kind": "text", "text": words}], True)
    ]
