"""Mail that nobody takes: whose it is, how much waits since when, and what is not taken for it."""

from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from molecule_core.common.clock import SECOND
from molecule_core.common.limits import Limits
from tests.answers.office import REPLY_SECONDS, Office
from tests.answers.test_cursors import behind
from tests.answers.test_dead_letters import dies, short_lived
from tests.answers.test_given_back import release
from tests.clocks import FakeClock
from tests.delivery.agents import Desk, plain
from tests.engines import Engine
from tests.journeys.patience import eventually, refused
from tests.journeys.seats import beat, remove, status_of
from tests.requirements import requirement
from tests.running import UNHURRIED, Seat, running

UNTAKEN_SECONDS = Limits().untaken_seconds
WORK_SECONDS = Limits().reply_work_seconds
LEASE_SECONDS = 600
URL = "https://agent.example/a2a"


async def untaken(office: Office) -> list[dict[str, Any]]:
    """Whose mail nobody takes, in the office's organisation."""
    page = await office.person.get(f"/orgs/{await org_of(office)}/untaken")
    assert page["reached_end"] is True
    rows: list[dict[str, Any]] = page["untaken"]
    return rows


async def org_of(office: Office) -> str:
    """The organisation that seats are made in."""
    return str((await office.server.admin.get("/orgs"))[0]["id"])


async def told(office: Office) -> list[tuple[str, str, int, int]]:
    """The same in short: name, status, how many wait, and for how many seconds."""
    return [
        (row["workspace_name"], row["status"], row["waiting"], round(office.clock.now() / SECOND - seconds(row)))
        for row in await untaken(office)
    ]


def seconds(row: dict[str, Any]) -> float:
    """Since when."""
    return datetime.fromisoformat(row["since"]).timestamp()


async def pause(office: Office, seat: Seat, verb: str = "pause") -> None:
    """An operator puts a seat aside."""
    await office.person.post(f"/workspaces/{seat.id}/{verb}", {})


@requirement("P4", "M25")
async def test_mail_of_an_agent_that_never_came_is_told_once_it_has_waited_for_long(office: Office) -> None:
    ops = await office.server.seat("Ops")
    await office.ask(ops, "only a word", intent="inform")
    await office.pass_time(100)
    await office.ask(ops, "please")
    await office.pass_time(UNTAKEN_SECONDS - 1)
    await office.ask(ops, "and this")
    assert await untaken(office) == []
    await office.pass_time(1)
    assert await told(office) == [("Ops", "awaiting_agent", 2, UNTAKEN_SECONDS)]
    (row,) = await untaken(office)
    assert (row["workspace_id"], row["more"]) == (ops.id, False)
    await office.take(ops)
    assert await untaken(office) == []


@requirement("P4")
async def test_a_word_that_wants_no_answer_is_not_missed_however_long_it_waits(office: Office) -> None:
    ops = await office.server.seat("Ops")
    await office.ask(ops, "only a word", intent="inform")
    await office.pass_time(10 * UNTAKEN_SECONDS)
    assert await untaken(office) == []


@requirement("P4")
async def test_the_longest_waiting_stands_first_and_nobody_else_sees_it(office: Office) -> None:
    for name in ("First", "Second"):
        await office.ask(await office.server.seat(name), "please")
        await office.pass_time(60)
    gone = await office.server.seat("Gone")
    await office.ask(gone, "please")
    await office.pass_time(UNTAKEN_SECONDS)
    await remove(office.server.admin, gone)
    assert [row["workspace_name"] for row in await untaken(office)] == ["First", "Second"]
    outsider = await office.server.person("owner", await office.server.org("Elsewhere"))
    assert (await refused(outsider.get(f"/orgs/{await org_of(office)}/untaken"))).status == 404
    viewer = await office.server.person("viewer")
    assert len((await viewer.get(f"/orgs/{await org_of(office)}/untaken"))["untaken"]) == 2


@requirement("P4", "M22")
@pytest.mark.parametrize("verb", ["pause", "hibernate"])
async def test_an_agent_that_was_put_aside_and_forgotten_is_told_with_its_mail(office: Office, verb: str) -> None:
    ops = await office.server.seat("Ops")
    await beat(ops)
    await pause(office, ops, verb)
    await office.ask(ops, "please")
    await office.pass_time(UNTAKEN_SECONDS)
    assert await told(office) == [("Ops", {"pause": "paused", "hibernate": "hibernated"}[verb], 1, UNTAKEN_SECONDS)]


@requirement("P4", "M2")
async def test_an_agent_that_has_gone_offline_is_told_with_its_mail(office: Office) -> None:
    ops = await office.server.seat("Ops")
    await beat(ops)
    await office.clock.advance(106)
    await eventually(status_of(office.person, ops), lambda status: status == "offline")
    await office.ask(ops, "please")
    await office.pass_time(UNTAKEN_SECONDS)
    assert await told(office) == [("Ops", "offline", 1, UNTAKEN_SECONDS)]


@requirement("P4")
async def test_heartbeats_alone_do_not_hide_that_nobody_takes_the_mail(office: Office) -> None:
    ops = await office.server.seat("Ops")
    await office.ask(ops, "please")
    await office.pass_time(UNTAKEN_SECONDS)
    await beat(ops)
    assert await told(office) == [("Ops", "online", 1, UNTAKEN_SECONDS)]


@requirement("P4")
async def test_an_agent_at_work_has_longer_but_not_for_ever_and_not_while_it_is_paused(office: Office) -> None:
    ops = await office.server.seat("Ops")
    await office.ask(ops, "please")
    await office.pass_time(UNTAKEN_SECONDS)
    await beat(ops, active_tasks=1, current_task="sorting")
    assert await untaken(office) == []
    await pause(office, ops)
    assert await told(office) == [("Ops", "paused", 1, UNTAKEN_SECONDS)]
    await pause(office, ops, "resume")
    await office.pass_time(WORK_SECONDS - UNTAKEN_SECONDS)
    await beat(ops, active_tasks=1, current_task="sorting")
    assert await told(office) == [("Ops", "online", 1, WORK_SECONDS)]


@requirement("P4", "M26")
async def test_what_the_watch_looks_after_is_on_its_list_and_on_no_other(office: Office) -> None:
    """Claimed and left; the next one came when the agent was gone."""
    ops = await office.server.seat("Ops")
    asked = await office.ask(ops, "please")
    await office.take(ops)
    await office.ask(ops, "and this")
    for _ in range(2):
        await office.pass_time(REPLY_SECONDS)
    assert await office.state(ops, asked) == "overdue"
    await office.pass_time(2 * LEASE_SECONDS)
    assert [row["waiting"] for row in await untaken(office)] == [1]


@requirement("P4", "M28")
async def test_what_an_agent_had_when_it_was_paused_waits_since_its_lease_ended(office: Office) -> None:
    """The watch gives a paused agent time for ever."""
    ops = await office.server.seat("Ops")
    asked = await office.ask(ops, "please")
    await office.take(ops)
    await pause(office, ops)
    await office.pass_time(LEASE_SECONDS)
    assert await untaken(office) == []
    await office.pass_time(UNTAKEN_SECONDS)
    assert await told(office) == [("Ops", "paused", 1, UNTAKEN_SECONDS)]
    assert await office.state(ops, asked) == "open"
    await pause(office, ops, "resume")
    assert await untaken(office) == []


@requirement("P4", "M26")
async def test_what_was_given_back_waits_since_then(office: Office) -> None:
    ops = await office.server.seat("Ops")
    await office.ask(ops, "please")
    await office.pass_time(300)
    (row,) = await office.take(ops)
    await office.pass_time(60)
    await release(ops, row)
    await office.pass_time(UNTAKEN_SECONDS - 1)
    assert await untaken(office) == []
    await office.pass_time(1)
    assert await told(office) == [("Ops", "awaiting_agent", 1, UNTAKEN_SECONDS)]


@requirement("P4", "M26")
async def test_what_was_shown_to_a_cursor_was_handed_over_whether_somebody_watches_or_not(office: Office) -> None:
    ops = await office.server.seat("Ops")
    await office.person.call("PATCH", f"/workspaces/{ops.id}", body={"reply_seconds": 0})
    word = await office.ask(ops, "a word", intent="inform")
    asked = await office.ask(ops, "please")
    assert [row["id"] for row in await behind(ops, word)] == [asked]
    await office.pass_time(10 * UNTAKEN_SECONDS)
    assert await untaken(office) == []


@requirement("P4", "M26")
async def test_what_is_claimed_and_left_waits_where_nobody_watches(office: Office) -> None:
    ops = await office.server.seat("Ops")
    await office.person.call("PATCH", f"/workspaces/{ops.id}", body={"reply_seconds": 0})
    await office.ask(ops, "please")
    await office.take(ops)
    await office.pass_time(LEASE_SECONDS + UNTAKEN_SECONDS)
    assert await told(office) == [("Ops", "awaiting_agent", 1, UNTAKEN_SECONDS)]


@requirement("P4", "M21", "M22")
@pytest.mark.parametrize("goes", ["away", "over to polling"])
async def test_a_push_that_is_not_taken_is_no_hand_over_whatever_becomes_of_the_mode(office: Office, goes: str) -> None:
    """An agent that was heard once and is silent is probed now and then, and its mail does not die of it."""
    office.net.answers(URL, plain(502))
    ops = await office.server.seat("Ops", delivery_mode="push", url=URL)
    await beat(ops)
    await office.clock.advance(106)
    await eventually(status_of(office.person, ops), lambda status: status == "offline")
    asked = await office.ask(ops, "please")
    await office.pass_time(5)
    assert "handed_over 1" in await office.ticks(ops, asked)
    if goes == "over to polling":
        await office.person.call("PATCH", f"/workspaces/{ops.id}", body={"delivery_mode": "poll"})
    await office.pass_time(UNTAKEN_SECONDS - 5)
    assert await told(office) == [("Ops", "offline", 1, UNTAKEN_SECONDS)]


@requirement("P4", "M21")
async def test_a_dead_letter_is_on_its_own_list_until_it_waits_again(office: Office) -> None:
    ops = await office.server.seat("Ops")
    letter = await short_lived(office, ops)
    await dies(office, ops, letter)
    await office.pass_time(UNTAKEN_SECONDS)
    assert await untaken(office) == []
    await office.person.post(f"/workspaces/{ops.id}/dead-letters/{letter}/requeue")
    assert await told(office) == [("Ops", "awaiting_agent", 1, UNTAKEN_SECONDS)]
    await office.take(ops)
    assert await untaken(office) == []


@requirement("P4", "M28")
async def test_a_reminder_that_waits_is_no_mail_of_its_own(office: Office) -> None:
    ops = await office.server.seat("Ops")
    await office.ask(ops, "please")
    (row,) = await office.take(ops)
    await ops.api.ack(ops.id, row)
    await office.pass_time(REPLY_SECONDS)
    await pause(office, ops)
    await office.pass_time(UNTAKEN_SECONDS)
    assert await untaken(office) == []


@pytest.fixture
async def small(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Office]:
    """An office that counts and lists little."""
    limits = Limits(**{**_settings(UNHURRIED), "unread_count": 3, "untaken_rows": 2})
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        yield Office(server, await server.person(), clock, Desk())


def _settings(limits: Limits) -> dict[str, Any]:
    return {name: getattr(limits, name) for name in limits.__struct_fields__}


@requirement("P4")
async def test_the_list_and_what_is_counted_end_where_the_settings_say(small: Office) -> None:
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
