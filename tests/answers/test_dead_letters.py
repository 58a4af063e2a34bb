"""Messages that were given up: nobody is reminded of them, and asked for again they are as any other."""

from typing import Any

import pytest

from tests.answers.office import REPLY_SECONDS, Office, handle, notify
from tests.journeys.patience import eventually
from tests.requirements import requirement
from tests.running import Seat


async def short_lived(office: Office, seat: Seat, text: str = "quick") -> str:
    """A message that lives ten seconds."""
    path = f"/workspaces/{seat.id}/a2a"
    message = {"role": "user", "parts": [{"kind": "text", "text": text}]}
    params = {"message": message, "expires_in_seconds": 10}
    body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": params}
    await office.person.call("POST", path, body=body, headers={"x-timeout": "0"})
    return str((await office.newest(seat))["id"])


async def dies(office: Office, seat: Seat, activity_id: str) -> None:
    """Waits until a message is the one dead letter of a seat."""
    await office.pass_time(11)

    async def dead() -> list[str]:
        page = await office.person.get(f"/workspaces/{seat.id}/dead-letters")
        return [each["activity_id"] for each in page["dead_letters"]]

    await eventually(dead, lambda found: found == [activity_id])


@requirement("M28")
@pytest.mark.parametrize("discarded", [False, True])
async def test_a_dead_message_that_was_answered_outside_is_not_handed_over_again(
    office: Office, discarded: bool
) -> None:
    ops = await office.server.seat("Ops")
    asked = await short_lived(office, ops)
    path = f"/workspaces/{ops.id}/activity"
    await ops.api.get(path, claim=5, wait=0, include="instructions")
    await ops.api.post(f"/workspaces/{ops.id}/messages/{asked}/draft", {"text": "done"})
    await dies(office, ops, asked)
    if discarded:
        await office.person.call("DELETE", f"/workspaces/{ops.id}/dead-letters/{asked}")
    for _ in range(2):
        await office.pass_time(REPLY_SECONDS)
        assert await office.take(ops) == []
    (owed,) = await office.owed(ops)
    assert (owed["reminded_at"], owed["overdue_at"], owed["draft"]) == (None, None, "done")
    if not discarded:
        await office.person.post(f"/workspaces/{ops.id}/dead-letters/{asked}/requeue")
        (again,) = await office.take(ops)
        await ops.api.ack(ops.id, again)
        await office.pass_time(REPLY_SECONDS)
        assert [row["id"] for row in await office.take(ops)] == [asked]


@requirement("M28", "W1")
@pytest.mark.parametrize("wish", [{"since_id": "before", "source": "canvas"}, {}, {"since_secs": 60}], ids=str)
async def test_a_dead_message_is_on_no_page_of_a_client_with_a_cursor_and_wants_no_answer(
    office: Office, wish: dict[str, Any]
) -> None:
    """Neither on a filtered one, nor on the first. A look back at what was tells it."""
    ops = await office.server.seat("Ops")
    before = await office.ask(ops, "word", intent="inform")
    asked = await short_lived(office, ops)
    later = await office.ask(ops, "another", intent="inform")
    await dies(office, ops, asked)
    path, page = f"/workspaces/{ops.id}/activity", {"type": "a2a_receive", **wish}
    if "since_id" in wish:
        page["since_id"] = before
    shown = [row["id"] for row in await ops.api.get(path, **page)]
    assert shown == ([later] if "since_id" in wish else [later, before])
    assert await office.owed(ops) == []
    back = await ops.api.get(path, type="a2a_receive", before_ts="2100-01-01T00:00:00Z")
    assert [row["id"] for row in back] == [later, asked, before]
    assert await office.owed(ops) == []


@requirement("M28")
@pytest.mark.parametrize("answered", [True, False])
async def test_the_reminder_of_what_was_a_dead_letter_once_is_taken_back_too(office: Office, answered: bool) -> None:
    """It waits because its agent was reminded, not because a person asked for it: that was done."""
    ops = await office.server.seat("Ops")
    asked = await short_lived(office, ops)
    await dies(office, ops, asked)
    await office.person.post(f"/workspaces/{ops.id}/dead-letters/{asked}/requeue")
    (row,) = await office.take(ops)
    assert handle(row)
    await ops.api.ack(ops.id, row)
    await office.pass_time(REPLY_SECONDS)
    if answered:
        await notify(ops, "done")
    await office.pass_time(REPLY_SECONDS)
    assert await office.state(ops, asked) == ("answered" if answered else "overdue")
    assert await office.take(ops) == []
