"""Mail that nobody takes: whose it is, how much waits since when, and what is not taken for it."""

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from molecule_core.common.clock import SECOND
from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.message_world import REPLY_SECONDS, MessageWorld
from testing.push_agents import PushNetwork, plain
from testing.running_server import UNHURRIED, Seat, running
from testing.waits import eventually, refused
from testing.workspaces import beat, remove, status_of
from tests.messages.obligations.test_cursor_clients import behind
from tests.messages.obligations.test_dead_letters import dies, short_lived
from tests.messages.obligations.test_released_claims import release
from tests.requirements import requirement

UNTAKEN_SECONDS = Limits().untaken_seconds
WORK_SECONDS = Limits().reply_work_seconds
LEASE_SECONDS = 600
URL = "https://agent.example/a2a"


async def untaken(world: MessageWorld) -> list[dict[str, Any]]:
    """Whose mail nobody takes, in the office's organisation."""
    page = await world.person.get(f"/orgs/{await org_of(world)}/untaken")
    assert page["reached_end"] is True
    rows: list[dict[str, Any]] = page["untaken"]
    return rows


async def org_of(world: MessageWorld) -> str:
    """The organisation that seats are made in."""
    return str((await world.server.admin.get("/orgs"))[0]["id"])


async def told(world: MessageWorld) -> list[tuple[str, str, int, int]]:
    """The same in short: name, status, how many wait, and for how many seconds."""
    return [
        (row["workspace_name"], row["status"], row["waiting"], round(world.clock.now() / SECOND - seconds(row)))
        for row in await untaken(world)
    ]


def seconds(row: dict[str, Any]) -> float:
    """Since when."""
    return datetime.fromisoformat(row["since"]).timestamp()


async def pause(world: MessageWorld, seat: Seat, verb: str = "pause") -> None:
    """An operator puts a seat aside."""
    await world.person.post(f"/workspaces/{seat.id}/{verb}", {})


@requirement("P4", "M25")
async def test_mail_of_an_agent_that_never_came_is_told_once_it_has_waited_for_long(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    await world.ask(ops, "only a word", intent="inform")
    await world.pass_time(100)
    await world.ask(ops, "please")
    await world.pass_time(UNTAKEN_SECONDS - 1)
    await world.ask(ops, "and this")
    assert await untaken(world) == []
    await world.pass_time(1)
    assert await told(world) == [("Ops", "awaiting_agent", 2, UNTAKEN_SECONDS)]
    (row,) = await untaken(world)
    assert (row["workspace_id"], row["more"]) == (ops.id, False)
    await world.take(ops)
    assert await untaken(world) == []


@requirement("P4")
async def test_a_word_that_wants_no_answer_is_not_missed_however_long_it_waits(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    await world.ask(ops, "only a word", intent="inform")
    await world.pass_time(10 * UNTAKEN_SECONDS)
    assert await untaken(world) == []


@requirement("P4")
async def test_the_longest_waiting_stands_first_and_nobody_else_sees_it(world: MessageWorld) -> None:
    for name in ("First", "Second"):
        await world.ask(await world.server.seat(name), "please")
        await world.pass_time(60)
    gone = await world.server.seat("Gone")
    await world.ask(gone, "please")
    await world.pass_time(UNTAKEN_SECONDS)
    await remove(world.server.admin, gone)
    assert [row["workspace_name"] for row in await untaken(world)] == ["First", "Second"]
    outsider = await world.server.person("owner", await world.server.org("Elsewhere"))
    assert (await refused(outsider.get(f"/orgs/{await org_of(world)}/untaken"))).status == 404
    viewer = await world.server.person("viewer")
    assert len((await viewer.get(f"/orgs/{await org_of(world)}/untaken"))["untaken"]) == 2


@requirement("P4")
async def test_a_reader_learns_when_the_next_mail_becomes_stale(world: MessageWorld) -> None:
    async def next_check() -> int:
        page = await world.person.get(f"/orgs/{await org_of(world)}/untaken")
        assert page["untaken_seconds"] == UNTAKEN_SECONDS
        return int(page["next_check_seconds"])

    assert await next_check() == UNTAKEN_SECONDS
    await world.ask(await world.server.seat("First"), "please")
    await world.pass_time(100)
    await world.ask(await world.server.seat("Second"), "please")
    assert await next_check() == UNTAKEN_SECONDS - 100
    await world.pass_time(UNTAKEN_SECONDS - 101)
    assert await next_check() == UNTAKEN_SECONDS // 20
    await world.pass_time(1)
    assert [row["workspace_name"] for row in await untaken(world)] == ["First"]
    assert await next_check() == 100


@requirement("P4", "M22")
@pytest.mark.parametrize("verb", ["pause", "hibernate"])
async def test_an_agent_that_was_put_aside_and_forgotten_is_told_with_its_mail(world: MessageWorld, verb: str) -> None:
    ops = await world.server.seat("Ops")
    await beat(ops)
    await pause(world, ops, verb)
    await world.ask(ops, "please")
    await world.pass_time(UNTAKEN_SECONDS)
    assert await told(world) == [("Ops", {"pause": "paused", "hibernate": "hibernated"}[verb], 1, UNTAKEN_SECONDS)]


@requirement("P4", "M2")
async def test_an_agent_that_has_gone_offline_is_told_with_its_mail(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    await beat(ops)
    await world.clock.advance(106)
    await eventually(status_of(world.person, ops), lambda status: status == "offline")
    await world.ask(ops, "please")
    await world.pass_time(UNTAKEN_SECONDS)
    assert await told(world) == [("Ops", "offline", 1, UNTAKEN_SECONDS)]


@requirement("P4")
async def test_heartbeats_alone_do_not_hide_that_nobody_takes_the_mail(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    await world.ask(ops, "please")
    await world.pass_time(UNTAKEN_SECONDS)
    await beat(ops)
    assert await told(world) == [("Ops", "online", 1, UNTAKEN_SECONDS)]


@requirement("P4")
async def test_an_agent_at_work_has_longer_but_not_for_ever_and_not_while_it_is_paused(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    await world.ask(ops, "please")
    await world.pass_time(UNTAKEN_SECONDS)
    await beat(ops, active_tasks=1, current_task="sorting")
    assert await untaken(world) == []
    await pause(world, ops)
    assert await told(world) == [("Ops", "paused", 1, UNTAKEN_SECONDS)]
    await pause(world, ops, "resume")
    await world.pass_time(WORK_SECONDS - UNTAKEN_SECONDS)
    await beat(ops, active_tasks=1, current_task="sorting")
    assert await told(world) == [("Ops", "online", 1, WORK_SECONDS)]


@requirement("P4", "M26")
async def test_what_the_watch_looks_after_is_on_its_list_and_on_no_other(world: MessageWorld) -> None:
    """Claimed and left; the next one came when the agent was gone."""
    ops = await world.server.seat("Ops")
    asked = await world.ask(ops, "please")
    await world.take(ops)
    await world.ask(ops, "and this")
    for _ in range(2):
        await world.pass_time(REPLY_SECONDS)
    assert await world.state(ops, asked) == "overdue"
    await world.pass_time(2 * LEASE_SECONDS)
    assert [row["waiting"] for row in await untaken(world)] == [1]


@requirement("P4", "M28")
async def test_what_an_agent_had_when_it_was_paused_waits_since_its_lease_ended(world: MessageWorld) -> None:
    """The watch gives a paused agent time for ever."""
    ops = await world.server.seat("Ops")
    asked = await world.ask(ops, "please")
    await world.take(ops)
    await pause(world, ops)
    await world.pass_time(LEASE_SECONDS)
    assert await untaken(world) == []
    await world.pass_time(UNTAKEN_SECONDS)
    assert await told(world) == [("Ops", "paused", 1, UNTAKEN_SECONDS)]
    assert await world.state(ops, asked) == "open"
    await pause(world, ops, "resume")
    assert await untaken(world) == []


@requirement("P4", "M26")
async def test_what_was_given_back_waits_since_then(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    await world.ask(ops, "please")
    await world.pass_time(300)
    (row,) = await world.take(ops)
    await world.pass_time(60)
    await release(ops, row)
    await world.pass_time(UNTAKEN_SECONDS - 1)
    assert await untaken(world) == []
    await world.pass_time(1)
    assert await told(world) == [("Ops", "awaiting_agent", 1, UNTAKEN_SECONDS)]


@requirement("P4", "M26")
async def test_what_was_shown_to_a_cursor_was_handed_over_whether_somebody_watches_or_not(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    await world.person.call("PATCH", f"/workspaces/{ops.id}", body={"reply_seconds": 0})
    word = await world.ask(ops, "a word", intent="inform")
    asked = await world.ask(ops, "please")
    assert [row["id"] for row in await behind(ops, word)] == [asked]
    await world.pass_time(10 * UNTAKEN_SECONDS)
    assert await untaken(world) == []


@requirement("P4", "M26")
async def test_what_is_claimed_and_left_waits_where_nobody_watches(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    await world.person.call("PATCH", f"/workspaces/{ops.id}", body={"reply_seconds": 0})
    await world.ask(ops, "please")
    await world.take(ops)
    await world.pass_time(LEASE_SECONDS + UNTAKEN_SECONDS)
    assert await told(world) == [("Ops", "awaiting_agent", 1, UNTAKEN_SECONDS)]


@requirement("P4", "M21", "M22")
@pytest.mark.parametrize("goes", ["away", "over to polling"])
async def test_a_push_that_is_not_taken_is_no_hand_over_whatever_becomes_of_the_mode(
    world: MessageWorld, goes: str
) -> None:
    """An agent that was heard once and is silent is probed now and then, and its mail does not die of it."""
    world.net.answers(URL, plain(502))
    ops = await world.server.seat("Ops", delivery_mode="push", url=URL)
    await beat(ops)
    await world.clock.advance(106)
    await eventually(status_of(world.person, ops), lambda status: status == "offline")
    asked = await world.ask(ops, "please")
    await world.pass_time(5)
    assert "handed_over 1" in await world.ticks(ops, asked)
    if goes == "over to polling":
        await world.person.call("PATCH", f"/workspaces/{ops.id}", body={"delivery_mode": "poll"})
    await world.pass_time(UNTAKEN_SECONDS - 5)
    assert await told(world) == [("Ops", "offline", 1, UNTAKEN_SECONDS)]


@requirement("P4", "M21")
async def test_a_dead_letter_is_on_its_own_list_until_it_waits_again(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    letter = await short_lived(world, ops)
    await dies(world, ops, letter)
    await world.pass_time(UNTAKEN_SECONDS)
    assert await untaken(world) == []
    await world.person.post(f"/workspaces/{ops.id}/dead-letters/{letter}/requeue")
    assert await told(world) == [("Ops", "awaiting_agent", 1, UNTAKEN_SECONDS)]
    await world.take(ops)
    assert await untaken(world) == []


@requirement("P4", "M28")
async def test_a_reminder_that_waits_is_no_mail_of_its_own(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    await world.ask(ops, "please")
    (row,) = await world.take(ops)
    await ops.api.ack(ops.id, row)
    await world.pass_time(REPLY_SECONDS)
    await pause(world, ops)
    await world.pass_time(UNTAKEN_SECONDS)
    assert await untaken(world) == []


@pytest.fixture
async def small(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[MessageWorld]:
    """An office that counts and lists little."""
    limits = Limits(**{**_settings(UNHURRIED), "unread_count": 3, "untaken_rows": 2})
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        yield MessageWorld(server, await server.person(), clock, PushNetwork())


def _settings(limits: Limits) -> dict[str, Any]:
    return {name: getattr(limits, name) for name in limits.__struct_fields__}


@requirement("P4")
async def test_the_list_and_what_is_counted_end_where_the_settings_say(small: MessageWorld) -> None:
    seats = [await small.server.seat(name) for name in ("One", "Two", "Three")]
    for seat, count in zip(seats, (3, 4, 1), strict=True):
        for number in range(count):
            await small.ask(seat, f"question {number}")
        await small.pass_time(1)
    await small.pass_time(UNTAKEN_SECONDS)
    page = await small.person.get(f"/orgs/{await org_of(small)}/untaken")
    rows = [(row["workspace_name"], row["waiting"], row["more"]) for row in page["untaken"]]
    assert rows == [("One", 3, False), ("Two", 3, True)]
    assert page["reached_end"] is False
    await small.take(seats[0])
    page = await small.person.get(f"/orgs/{await org_of(small)}/untaken")
    assert [row["workspace_name"] for row in page["untaken"]] == ["Two", "Three"]
    assert page["reached_end"] is True
