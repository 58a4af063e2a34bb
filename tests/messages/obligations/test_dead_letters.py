"""Messages that were given up: nobody is reminded of them, and asked for again they are as any other."""

from typing import Any

import pytest

from testing.message_world import REPLY_SECONDS, MessageWorld, handle, notify
from testing.running_server import Seat
from testing.waits import eventually
from tests.requirements import requirement


async def short_lived(world: MessageWorld, seat: Seat, text: str = "quick") -> str:
    """A message that lives ten seconds."""
    path = f"/workspaces/{seat.id}/a2a"
    message = {"role": "user", "parts": [{"kind": "text", "text": text}]}
    params = {"message": message, "expires_in_seconds": 10}
    body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": params}
    await world.person.call("POST", path, body=body, headers={"x-timeout": "0"})
    return str((await world.newest(seat))["id"])


async def dies(world: MessageWorld, seat: Seat, *activity_ids: str) -> None:
    """Waits until these messages are the dead letters of a seat."""
    await world.pass_time(11)

    async def dead() -> set[str]:
        page = await world.person.get(f"/workspaces/{seat.id}/dead-letters")
        return {each["activity_id"] for each in page["dead_letters"]}

    await eventually(dead, lambda found: found == set(activity_ids))


@requirement("M28")
@pytest.mark.parametrize("discarded", [False, True])
async def test_a_dead_message_that_was_answered_outside_is_not_handed_over_again(
    world: MessageWorld, discarded: bool
) -> None:
    ops = await world.server.seat("Ops")
    asked = await short_lived(world, ops)
    path = f"/workspaces/{ops.id}/activity"
    await ops.api.get(path, claim=5, wait=0, include="instructions")
    await ops.api.post(f"/workspaces/{ops.id}/messages/{asked}/draft", {"text": "done"})
    await dies(world, ops, asked)
    if discarded:
        await world.person.call("DELETE", f"/workspaces/{ops.id}/dead-letters/{asked}")
    for _ in range(2):
        await world.pass_time(REPLY_SECONDS)
        assert await world.take(ops) == []
    (owed,) = await world.owed(ops)
    assert (owed["reminded_at"], owed["overdue_at"], owed["draft"]) == (None, None, "done")
    if not discarded:
        await world.person.post(f"/workspaces/{ops.id}/dead-letters/{asked}/requeue")
        (again,) = await world.take(ops)
        await ops.api.ack(ops.id, again)
        await world.pass_time(REPLY_SECONDS)
        assert [row["id"] for row in await world.take(ops)] == [asked]


@requirement("M28", "W1")
@pytest.mark.parametrize("wish", [{"since_id": "before", "source": "canvas"}, {}, {"since_secs": 60}], ids=str)
async def test_a_dead_message_is_on_no_page_of_a_client_with_a_cursor_and_wants_no_answer(
    world: MessageWorld, wish: dict[str, Any]
) -> None:
    """Neither on a filtered one, nor on the first. A look back at what was tells it."""
    ops = await world.server.seat("Ops")
    before = await world.ask(ops, "word", intent="inform")
    asked = await short_lived(world, ops)
    later = await world.ask(ops, "another", intent="inform")
    await dies(world, ops, asked)
    path, page = f"/workspaces/{ops.id}/activity", {"type": "a2a_receive", **wish}
    if "since_id" in wish:
        page["since_id"] = before
    shown = [row["id"] for row in await ops.api.get(path, **page)]
    assert shown == ([later] if "since_id" in wish else [later, before])
    assert await world.owed(ops) == []
    back = await ops.api.get(path, type="a2a_receive", before_ts="2100-01-01T00:00:00Z")
    assert [row["id"] for row in back] == [later, asked, before]
    assert await world.owed(ops) == []


@requirement("W1", "M21")
async def test_a_first_page_is_full_of_living_mail_although_newer_mail_is_dead(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    living = [await world.ask(ops, f"word {number}", intent="inform") for number in range(2)]
    await dies(world, ops, *[await short_lived(world, ops, f"quick {number}") for number in range(2)])
    rows = await ops.api.get(f"/workspaces/{ops.id}/activity", type="a2a_receive", limit=2)
    assert [row["id"] for row in rows] == living[::-1]


WISHES: list[dict[str, Any]] = [{"type": "a2a_receive"}, {"type": "a2a_receive", "source": "canvas"}, {}]


@requirement("W1", "M21")
@pytest.mark.parametrize("wish", WISHES, ids=str)
@pytest.mark.parametrize("more", [False, True], ids=["nothing behind it", "a word behind it"])
async def test_what_is_dead_behind_a_cursor_is_not_read_page_by_page(
    world: MessageWorld, monkeypatch: pytest.MonkeyPatch, wish: dict[str, Any], more: bool
) -> None:
    """Not in one request, and not again with each poll."""
    ops = await world.server.seat("Ops")
    start = await world.ask(ops, "word", intent="inform")
    await dies(world, ops, *[await short_lived(world, ops, f"quick {number}") for number in range(5)])
    living = [await world.ask(ops, "another", intent="inform")] if more else []
    store, asked = world.server.server.store, list[str]()
    rows_of = store.rows

    async def noting(name: str, params: Any) -> Any:
        asked.append(name)
        return await rows_of(name, params)

    monkeypatch.setattr(store, "rows", noting)
    rows = await ops.api.get(f"/workspaces/{ops.id}/activity", since_id=start, limit=1, **wish)
    assert [row["id"] for row in rows] == living
    pages = [name for name in asked if name in ("activity_after", "inbox_sizes")]
    assert len(pages) == 1


@requirement("M28")
@pytest.mark.parametrize("answered", [True, False])
async def test_the_reminder_of_what_was_a_dead_letter_once_is_taken_back_too(
    world: MessageWorld, answered: bool
) -> None:
    """It waits because its agent was reminded, not because a person asked for it: that was done."""
    ops = await world.server.seat("Ops")
    asked = await short_lived(world, ops)
    await dies(world, ops, asked)
    await world.person.post(f"/workspaces/{ops.id}/dead-letters/{asked}/requeue")
    (row,) = await world.take(ops)
    assert handle(row)
    await ops.api.ack(ops.id, row)
    await world.pass_time(REPLY_SECONDS)
    if answered:
        await notify(ops, "done")
    await world.pass_time(REPLY_SECONDS)
    assert await world.state(ops, asked) == ("answered" if answered else "overdue")
    assert await world.take(ops) == []
