"""Times of messages: in words, exactly on hover and focus, and right across midnight and the changes of the clocks."""

import datetime
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from molecule_core.common.clock import SECOND
from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from testing.clocks import FakeClock
from testing.running_server import running
from tests.canvas.chat import Chat, chat_path
from tests.canvas.expectations import expect
from tests.requirements import requirement

CHAT = "Lead"


def seconds(at: str) -> int:
    """A time with its zone, in seconds since the epoch."""
    return int(datetime.datetime.fromisoformat(at).timestamp())


@pytest.fixture
async def timed(browser: Browser, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Desk]:
    """A desk in Berlin on a server with one agent, whose time only the test sets."""
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, clock=clock) as server:
        desk = Desk(browser, Stage(server))
        yield desk
        await desk.close()


async def say_at(desk: Desk, clock: FakeClock, *times: str) -> None:
    """The agent says the time, at each of these times."""
    for at in times:
        clock.at = seconds(at) * SECOND
        if CHAT not in desk.stage.seats:
            await desk.stage.add(CHAT)
        await desk.stage.say(CHAT, f"said at {at}")


async def read_at(desk: Desk, clock: FakeClock, at: str) -> tuple[Page, Chat]:
    """The chat, on a page whose clock shows this time and goes on from there."""
    clock.at = seconds(at) * SECOND
    context = await desk.context()
    await context.clock.install(time=seconds(at))
    page = await desk.enter(context, chat_path(desk.stage, CHAT))
    await expect(page.get_by_role("list", name="Messages with")).to_be_visible()
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    return page, Chat(page, CHAT)


@requirement("C26")
async def test_a_time_is_told_in_words_that_go_on_with_the_clock(timed: Desk, clock: FakeClock) -> None:
    await say_at(timed, clock, "2026-07-14T10:00:00+02:00")
    page, chat = await read_at(timed, clock, "2026-07-14T10:05:30+02:00")
    time = chat.message("said at").get_by_role("time")
    await expect(time).to_have_text("5 min ago")
    await page.clock.fast_forward("02:00:00")
    await expect(time).to_have_text("2 h ago")
    assert await time.get_attribute("datetime") == "2026-07-14T08:00:00.000000Z"


@requirement("C26")
async def test_the_exact_time_is_shown_on_hover_and_on_focus(timed: Desk, clock: FakeClock) -> None:
    await say_at(timed, clock, "2026-07-14T10:00:07+02:00")
    page, chat = await read_at(timed, clock, "2026-07-14T10:05:00+02:00")
    message = chat.list.locator("[data-message]")
    exact = message.get_by_text(re.compile(r"14 Jul 2026, 10:00:07"))
    await chat.field.focus()
    await expect(exact.locator("..")).to_have_css("opacity", "0")
    await message.hover()
    await expect(exact.locator("..")).to_have_css("opacity", "1")
    await page.mouse.move(0, 0)
    await expect(exact.locator("..")).to_have_css("opacity", "0")
    await message.focus()
    await expect(exact.locator("..")).to_have_css("opacity", "1")
    title = await message.get_by_role("time").get_attribute("title")
    assert str(title).endswith("14 July 2026 at 10:00:07 CEST")


@requirement("C26")
async def test_when_midnight_passes_today_becomes_yesterday_on_the_open_page(timed: Desk, clock: FakeClock) -> None:
    await say_at(timed, clock, "2026-07-14T23:57:00+02:00")
    page, chat = await read_at(timed, clock, "2026-07-14T23:58:00+02:00")
    days = chat.list.get_by_role("heading")
    await expect(days).to_have_text(["Today"])
    await page.clock.fast_forward("04:00")
    await expect(days).to_have_text(["Yesterday"])
    await say_at(timed, clock, "2026-07-15T00:02:00+02:00")
    await expect(days).to_have_text(["Yesterday", "Today"])
    items = await chat.list.get_by_role("listitem").all_inner_texts()
    assert [items[0], items[-2]] == ["Yesterday", "Today"]


@requirement("C26")
async def test_a_day_of_twenty_three_hours_is_one_day(timed: Desk, clock: FakeClock) -> None:
    night = ("2026-03-28T23:30:00+01:00", "2026-03-29T00:30:00+01:00", "2026-03-29T23:30:00+02:00")
    await say_at(timed, clock, *night, "2026-03-30T00:30:00+02:00")
    _, chat = await read_at(timed, clock, "2026-03-30T08:00:00+02:00")
    days = chat.list.get_by_role("heading")
    await expect(days).to_have_text([re.compile("Saturday.* 28 March$"), "Yesterday", "Today"])
    titles = [await each.get_attribute("title") for each in await chat.list.get_by_role("time").all()]
    assert [str(title).split(" at ")[1] for title in titles] == [
        "23:30:00 CET",
        "00:30:00 CET",
        "23:30:00 CEST",
        "00:30:00 CEST",
    ]


@requirement("C26")
async def test_the_hour_that_comes_twice_stays_in_order_on_one_day(timed: Desk, clock: FakeClock) -> None:
    twice = ("2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00")
    await say_at(timed, clock, "2026-10-25T00:30:00+02:00", *twice, "2026-10-25T23:30:00+01:00")
    _, chat = await read_at(timed, clock, "2026-10-26T08:00:00+01:00")
    await expect(chat.list.get_by_role("heading")).to_have_text(["Yesterday"])
    titles = [await each.get_attribute("title") for each in await chat.list.get_by_role("time").all()]
    assert [str(title).split(" at ")[1] for title in titles] == [
        "00:30:00 CEST",
        "02:30:00 CEST",
        "02:30:00 CET",
        "23:30:00 CET",
    ]
