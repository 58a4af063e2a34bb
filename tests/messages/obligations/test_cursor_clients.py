"""Clients that know cursors alone: what they owe, how they are reminded, and where they go on."""

from typing import Any

import pytest

from molecule_core.messages.obligations import ledger
from molecule_core.store.timers import set_timer_if_earlier
from testing.message_world import REPLY_SECONDS, MessageWorld, notify
from testing.running_server import Seat
from tests.requirements import requirement

REMINDER = "was delivered before"
AT_FIRST, REMINDED = (False, "full", False), (True, "full", True)


async def behind(seat: Seat, cursor: str) -> list[dict[str, Any]]:
    """What a client gets that has handled all up to a message."""
    path = f"/workspaces/{seat.id}/activity"
    rows: list[dict[str, Any]] = await seat.api.get(path, type="a2a_receive", since_id=cursor, include="instructions")
    return rows


@requirement("M28", "W1")
@pytest.mark.parametrize("answered", [False, True])
async def test_a_reminder_does_not_send_a_cursor_back(world: MessageWorld, answered: bool) -> None:
    """The cursor stands on the reminded message then, and goes on where it was; also once that is answered."""
    ops = await world.server.seat("Ops")
    first = await world.ask(ops, "first")
    sent = [await world.ask(ops, f"word {number}", intent="inform") for number in range(19)]
    assert [row["id"] for row in await behind(ops, first)] == sent
    assert await behind(ops, sent[-1]) == []
    await world.pass_time(REPLY_SECONDS)
    (again,) = await behind(ops, sent[-1])
    assert again["id"] == first
    if answered:
        await notify(ops, "done")
    assert await behind(ops, first) == []
    assert await behind(ops, first) == []
    new = await world.ask(ops, "news", intent="inform")
    assert [row["id"] for row in await behind(ops, first)] == [new]


@requirement("M28", "W1")
async def test_what_a_cursor_passes_unseen_sets_one_timer(world: MessageWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """A filtered read passes each message on its own; they are due at the same time."""
    ops = await world.server.seat("Ops")
    sent = [await world.ask(ops, f"question {number}") for number in range(5)]
    timers: list[str] = []

    def noted(kind: str, key: str, due: int) -> Any:
        timers.append(key)
        return set_timer_if_earlier(kind, key, due)

    monkeypatch.setattr(ledger, "set_timer_if_earlier", noted)
    wish = {"type": "a2a_receive", "since_id": sent[-1], "source": "canvas"}
    assert await ops.api.get(f"/workspaces/{ops.id}/activity", **wish) == []
    assert [each["activity_id"] for each in await world.owed(ops)] == sent
    assert timers == [ops.id]
    assert await world.timers() == [(ops.id, REPLY_SECONDS)]


def form(row: dict[str, Any]) -> tuple[bool, str, bool]:
    """How a row is told: whether as a reminder, in which form, and whether the words say so."""
    told = row["instructions"]
    return row.get("reminder", False), told["form"], REMINDER in told["text"]


@requirement("M28", "I15", "W1")
@pytest.mark.parametrize("passed", [False, True], ids=["cursor before it", "cursor behind it"])
async def test_a_client_that_keeps_a_cursor_is_reminded_in_the_words_of_one_that_claims(
    world: MessageWorld, passed: bool
) -> None:
    """What its cursor has passed comes once more; what it has not comes as before, and both say why. After the answer
    nothing does."""
    ops = await world.server.seat("Ops")
    start = await world.ask(ops, "hello", intent="inform")
    asked = await world.ask(ops, "please")
    word = await world.ask(ops, "only a word", intent="inform")
    rows = await behind(ops, start)
    assert [(row["id"], form(row)) for row in rows] == [(asked, AT_FIRST), (word, AT_FIRST)]
    cursor = word if passed else start
    assert await behind(ops, cursor) == ([] if passed else rows)
    await world.pass_time(REPLY_SECONDS)
    again = await behind(ops, cursor)
    assert [(row["id"], form(row)) for row in again] == [(asked, REMINDED), (word, AT_FIRST)][: 1 if passed else 2]
    await notify(ops, "done")
    await world.rest()
    assert [(row["id"], form(row)) for row in await behind(ops, cursor)] == [
        (row["id"], AT_FIRST) for row in ([] if passed else rows)
    ]


@requirement("M28", "I15", "W1")
async def test_the_first_page_of_a_cursor_tells_of_the_reminder_too(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    await world.ask(ops, "please")
    page = {"type": "a2a_receive", "include": "instructions"}
    found = []
    for _ in range(3):
        (row,) = await ops.api.get(f"/workspaces/{ops.id}/activity", **page)
        found.append(form(row))
        await world.pass_time(REPLY_SECONDS)
    assert found == [AT_FIRST, REMINDED, AT_FIRST]  # overdue at last: it is not pressed for ever


@requirement("M28", "I15")
async def test_a_client_that_claims_is_reminded_so(world: MessageWorld) -> None:
    """What the clients with a cursor are measured by."""
    ops = await world.server.seat("Ops")
    await world.ask(ops, "please")
    found = []
    for _ in range(2):
        (row,) = await world.take(ops)
        found.append(form(row))
        await ops.api.ack(ops.id, row)
        await world.pass_time(REPLY_SECONDS)
    assert found == [AT_FIRST, REMINDED]
