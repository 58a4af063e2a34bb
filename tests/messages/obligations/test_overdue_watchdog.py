"""The silence watch: one timer a workspace, one reminder at a time, and what is when servers and seats come and go."""

from pathlib import Path
from typing import Any

import pytest

from molecule_core.common.clock import SECOND
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.live_clients import journal_of
from testing.message_world import REPLY_SECONDS, MessageWorld, handle, many_asked, notify, reply
from testing.push_agents import PushNetwork
from testing.running_server import Seat, running
from testing.waits import eventually
from testing.workspaces import beat, remove
from tests.messages.obligations.test_released_claims import release
from tests.requirements import requirement


async def times(world: MessageWorld, seat: Seat, name: str) -> list[bool]:
    """Of each obligation, oldest first, whether a time is noted."""
    return [each[name] is not None for each in await world.owed(seat)]


async def waiting_again(world: MessageWorld, seat: Seat) -> int:
    """How many messages wait to be handed over once more."""
    rows = await world.server.server.store.rows("inbox_state", {"workspace_id": seat.id})
    return int(rows[0][3])


@requirement("M28")
async def test_a_workspace_has_one_timer_however_much_it_owes_and_none_once_nothing_is_due(world: MessageWorld) -> None:
    ops, rows = await many_asked(world, 30)
    assert await world.timers() == [(ops.id, REPLY_SECONDS)]
    for row in rows:
        await reply(ops, handle(row), "done")
    assert await world.timers() == [(ops.id, REPLY_SECONDS)]  # it finds nothing when it goes off, and goes
    await world.pass_time(REPLY_SECONDS)
    assert await eventually(world.timers, lambda found: not found) == []
    await world.ask(ops, "one more")
    await world.take(ops)
    assert await world.timers() == [(ops.id, REPLY_SECONDS)]


@requirement("M28")
async def test_a_busy_seat_sets_its_timer_once(world: MessageWorld) -> None:
    """What comes later is due later: the timer stands already, and is set anew when it goes off."""
    ops, _ = await many_asked(world, 1)
    for _ in range(3):
        await world.pass_time(30)
        await world.ask(ops, "more")
        await world.take(ops)
        assert [key for key, _ in await world.timers()] == [ops.id]
    assert await world.timers() == [(ops.id, REPLY_SECONDS - 90)]
    await world.pass_time(REPLY_SECONDS - 90)
    assert await world.timers() == [(ops.id, 30)]


@requirement("M18", "M28")
async def test_a_reminder_counts_the_attempts_on_although_the_clock_was_set_back(world: MessageWorld) -> None:
    """No attempt is given twice, however often the message was handed over before and after."""
    ops = await world.server.seat("Ops")
    asked = await world.ask(ops, "please")
    row: dict[str, Any] = {}
    for number in range(1, 6):
        (row,) = await world.take(ops)
        assert row["attempt"] == number
        if number == 3:
            world.clock.set_by = -3600 * SECOND
        if number < 5:
            await release(ops, row)
    await ops.api.post(f"/workspaces/{ops.id}/activity/ack", {"acked_seq": row["seq"]})
    await world.pass_time(REPLY_SECONDS)
    (again,) = await world.take(ops)
    assert (again["id"], again["attempt"]) == (asked, 6)


@requirement("M28")
async def test_of_many_unanswered_messages_one_is_asked_for_again_at_a_time_and_all_become_overdue(
    world: MessageWorld,
) -> None:
    ops, rows = await many_asked(world, 5)
    await world.pass_time(REPLY_SECONDS)
    again = await world.take(ops)
    assert [(row["id"], row["attempt"]) for row in again] == [(rows[0]["id"], 2)]
    assert await times(world, ops, "reminded_at") == [True, False, False, False, False]
    await world.pass_time(REPLY_SECONDS)
    assert [each["state"] for each in await world.owed(ops)] == ["overdue"] * 5
    assert await world.take(ops) == []


@requirement("M28")
async def test_what_was_answered_meanwhile_is_not_asked_for_again(world: MessageWorld) -> None:
    """The reminder waits in the inbox when the answer comes without it."""
    ops, _ = await many_asked(world, 1)
    await world.pass_time(REPLY_SECONDS)
    await notify(ops, "done")
    await world.rest()
    assert await world.take(ops) == []
    assert await world.server.server.store.rows("inbox_state", {"workspace_id": ops.id}) == [(1, 1, 0, 0, 0)]


@requirement("M28")
async def test_a_reminder_that_nobody_came_for_is_taken_back_when_the_time_is_over(world: MessageWorld) -> None:
    ops, _ = await many_asked(world, 1)
    await world.pass_time(2 * REPLY_SECONDS)
    await world.pass_time(REPLY_SECONDS)
    assert [each["state"] for each in await world.owed(ops)] == ["overdue"]
    assert await world.take(ops) == []


@requirement("M28", "I15")
async def test_a_reminder_is_told_in_full_with_one_line_more(world: MessageWorld) -> None:
    ops, (first,) = await many_asked(world, 1)
    await world.ask(ops, "another")
    (brief,) = await world.take(ops)
    assert (first["instructions"]["form"], brief["instructions"]["form"]) == ("full", "compact")
    await world.pass_time(REPLY_SECONDS)
    (again,) = await world.take(ops)
    assert (again["id"], again["redelivered"], again["instructions"]["form"]) == (first["id"], True, "full")
    assert again["instructions"]["reply_handle"] == first["instructions"]["reply_handle"]
    assert again["instructions"]["tokens"] > first["instructions"]["tokens"]
    (owed, _) = await world.owed(ops)
    assert (owed["form"], owed["tokens"]) == ("full", again["instructions"]["tokens"])


@requirement("M28", "I15")
@pytest.mark.parametrize("miss", ["reminder", "overdue", "draft"])
async def test_after_a_miss_the_next_message_is_told_in_full(world: MessageWorld, miss: str) -> None:
    ops, (first,) = await many_asked(world, 1)
    if miss == "draft":
        path = f"/workspaces/{ops.id}/messages/{first['id']}/draft"
        await ops.api.post(path, {"text": "done"})
    else:
        await world.pass_time(REPLY_SECONDS)
    if miss == "overdue":
        await world.pass_time(REPLY_SECONDS)
    else:
        await notify(ops, "done")
    await eventually(lambda: waiting_again(world, ops), lambda count: count == 0)
    for expected in ("full", "compact"):
        await world.ask(ops, "another")
        rows = await world.take(ops)
        assert [row["instructions"]["form"] for row in rows][-1:] == [expected]
        await reply(ops, handle(rows[-1]), "done")


@requirement("M28")
@pytest.mark.parametrize("sign", [{"current_task": "sorting"}, {"active_tasks": 1}])
async def test_an_agent_that_says_it_works_is_left_in_peace_for_an_hour(
    world: MessageWorld, sign: dict[str, Any]
) -> None:
    ops, _ = await many_asked(world, 1)
    for _ in range(59):
        await beat(ops, **sign)
        await world.pass_time(60)
    assert await times(world, ops, "reminded_at") == [False]
    for _ in range(10):
        await beat(ops, **sign)
        await world.pass_time(60)
    assert [each["state"] for each in await world.owed(ops)] == ["overdue"]


@requirement("M28")
async def test_an_agent_that_is_there_and_does_nothing_is_reminded(world: MessageWorld) -> None:
    ops, _ = await many_asked(world, 1)
    await world.pass_time(REPLY_SECONDS - 10)
    await beat(ops)
    await world.pass_time(10)
    assert await times(world, ops, "reminded_at") == [True]


@requirement("M28")
async def test_a_workspace_has_its_own_time_or_none(world: MessageWorld) -> None:
    quick, _ = await many_asked(world, 1, reply_seconds=10)
    patient, _ = await many_asked(world, 1, reply_seconds=0)
    assert await world.timers() == [(quick.id, 10)]
    await world.pass_time(10)
    await world.pass_time(10)
    assert [each["state"] for each in await world.owed(quick)] == ["overdue"]
    await world.pass_time(10 * REPLY_SECONDS)
    assert [(each["state"], each["due_at"]) for each in await world.owed(patient)] == [("open", None)]


@requirement("M28")
async def test_a_shorter_time_counts_for_what_comes_from_then_on(world: MessageWorld) -> None:
    ops, _ = await many_asked(world, 1)
    await world.server.admin.call("PATCH", f"/workspaces/{ops.id}", body={"reply_seconds": 20})
    await world.ask(ops, "more")
    await world.take(ops)
    assert await world.timers() == [(ops.id, 20)]


@requirement("M28")
async def test_the_time_of_a_seat_that_is_paused_stands_still(world: MessageWorld) -> None:
    ops, _ = await many_asked(world, 1)
    await world.person.post(f"/workspaces/{ops.id}/pause")
    await world.pass_time(REPLY_SECONDS)
    await world.pass_time(20 * REPLY_SECONDS)
    assert await times(world, ops, "reminded_at") == [False]
    await world.person.post(f"/workspaces/{ops.id}/resume")
    await world.pass_time(REPLY_SECONDS)
    assert await times(world, ops, "reminded_at") == [True]


@requirement("M28")
async def test_a_seat_that_is_removed_is_watched_no_more(world: MessageWorld) -> None:
    ops, _ = await many_asked(world, 3)
    await remove(world.server.admin, ops)
    await world.pass_time(REPLY_SECONDS)
    assert await eventually(world.timers, lambda found: not found) == []
    assert not [event for event in await journal_of(world.server) if event["event"] == "MESSAGE_OVERDUE"]


@requirement("M28", "M32")
async def test_that_a_message_is_overdue_is_told_once_with_what_a_card_needs(world: MessageWorld) -> None:
    ops, (row,) = await many_asked(world, 1)
    await ops.api.post(f"/workspaces/{ops.id}/messages/{row['id']}/draft", {"text": "done"})
    for _ in range(4):
        await world.pass_time(REPLY_SECONDS)
    (event,) = [each for each in await journal_of(world.server) if each["event"] == "MESSAGE_OVERDUE"]
    assert event["workspace_id"] == ops.id
    assert {**event["payload"], "handed_at": ""} == {
        "activity_id": row["id"],
        "seq": row["seq"],
        "source_id": None,
        "handed_at": "",
        "draft": True,
        "template": row["instructions"]["template"],
    }
    (line,) = await world.chat(ops)
    assert (line["obligation"]["state"], line["obligation"]["draft"]) == ("overdue", "done")
    await world.person.post(f"/workspaces/{ops.id}/messages/{row['id']}/draft/send")
    assert await world.state(ops, row["id"]) == "answered"


@requirement("M28")
async def test_a_crowd_that_falls_due_at_once_is_all_looked_after(world: MessageWorld) -> None:
    """More than are looked after together."""
    ops, rows = await many_asked(world, 250)
    assert len(rows) == 100  # a page of claims
    rows += await world.take(ops) + await world.take(ops)
    assert len(rows) == 250
    await world.pass_time(REPLY_SECONDS)
    await world.pass_time(REPLY_SECONDS)
    assert {each["state"] for each in await world.owed(ops)} == {"overdue"}
    assert await eventually(world.timers, lambda found: not found) == []


@requirement("M28", "I4")
async def test_without_instructions_there_is_no_reminder_but_what_is_not_answered_is_overdue(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock) as server:
        world = MessageWorld(server, await server.person(), clock, PushNetwork())
        ops, _ = await many_asked(world, 1)
        await world.pass_time(REPLY_SECONDS)
        assert (await world.take(ops), await times(world, ops, "reminded_at")) == ([], [False])
        await world.pass_time(REPLY_SECONDS)
        assert [each["state"] for each in await world.owed(ops)] == ["overdue"]


@requirement("M28", "P1")
async def test_the_watch_goes_on_where_the_server_before_has_ended(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    """Between hand-over and first due, and between the reminder and the second."""
    told: dict[str, Any] = {"push_instructions_enabled": True}
    async with running(engine, place, tmp_path, clock=clock, **told) as server:
        world = MessageWorld(server, await server.person(), clock, PushNetwork())
        ops, (row,) = await many_asked(world, 1)
    for seed, again in ((1, [row["id"]]), (2, [])):
        async with running(engine, place, tmp_path, clock=clock, seed=seed, **told) as server:
            world = MessageWorld(server, server.admin, clock, PushNetwork())
            seat = Seat({"id": ops.id, "name": "Ops", "connection": {"auth_token": ops.token}}, server.api(ops.token))
            await world.pass_time(REPLY_SECONDS)
            assert [each["id"] for each in await world.take(seat)] == again
    async with running(engine, place, tmp_path, clock=clock, seed=3, **told) as server:
        assert await MessageWorld(server, server.admin, clock, PushNetwork()).state(ops, row["id"]) == "overdue"


@requirement("M28", "M20")
async def test_a_message_is_kept_however_old_it_is_until_it_is_overdue(world: MessageWorld) -> None:
    ops, _ = await many_asked(world, 1)
    front = {"workspace_id": ops.id, "seq": 0, "count": 1}

    async def waits() -> bool:
        return bool((await world.server.server.store.rows("oldest_rows", front))[0][6])

    assert await waits()
    await world.pass_time(REPLY_SECONDS)
    assert await waits()
    (again,) = await world.take(ops)
    assert await waits()
    await ops.api.ack(ops.id, again)
    assert await waits()
    await world.pass_time(REPLY_SECONDS)
    assert not await waits()
