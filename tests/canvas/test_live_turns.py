"""What an agent does now, on the page: text and tools as they come, a stop, and a message into the running turn."""

import asyncio
import os
import re
import time
from typing import Any

import pytest
from playwright.async_api import Locator, Page

from molecule_core.agent.config import AgentSettings
from molecule_core.agent.live.reporter import LiveReporter, ReportedTurn
from molecule_core.client.api import ApiClient
from molecule_core.common.clock import SystemClock
from testing.canvas.page_user import Desk
from testing.running_server import Seat
from testing.waits import bounded, eventually
from tests.canvas.axe import find_barriers
from tests.canvas.chat import Chat, chat_path
from tests.canvas.expectations import expect
from tests.canvas.thread_actions import HOSTILE, start

SETTLED = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


class _Target:
    """A workspace whose turns are reported."""

    def __init__(self, seat: Seat) -> None:
        self.id = seat.id
        self._api = seat.api

    def api(self) -> ApiClient:
        return self._api


@pytest.fixture
async def page(desk: Desk) -> Page:
    """The chat with the lead."""
    page = await desk.open(chat_path(desk.stage, "Lead"))
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    return page


def _reporter(desk: Desk) -> LiveReporter:
    return LiveReporter(_Target(desk.stage.seats["Lead"]), SystemClock(), AgentSettings())


async def _received(desk: Desk, count: int = 1) -> list[dict[str, Any]]:
    """The messages that wait in the lead's inbox, oldest first."""
    seat = desk.stage.seats["Lead"]

    async def look() -> list[dict[str, Any]]:
        return list(await seat.api.get(f"/workspaces/{seat.id}/activity", waiting="true", limit=100))

    return await eventually(look, lambda found: len(found) == count)


async def _begun(desk: Desk, page: Page, words: str = "How is it going?") -> tuple[LiveReporter, ReportedTurn, Locator]:
    """A person has written, and the agent works on it."""
    await Chat(page, "Lead").write(words)
    reporter = _reporter(desk)
    turn = reporter.begin((await _received(desk))[0]["id"])
    card = page.locator("[data-live]")
    await expect(card).to_contain_text("Working")
    return reporter, turn, card


async def _shot(page: Page, name: str) -> None:
    if folder := os.environ.get("SHOTS"):
        await page.wait_for_timeout(300)
        await page.screenshot(path=f"{folder}/{name}.png")


async def test_text_and_tools_appear_while_the_agent_works_and_the_answer_takes_their_place(
    desk: Desk, page: Page
) -> None:
    reporter, turn, card = await _begun(desk, page)
    turn.tool("1", "Bash", "git log --oneline | head", "started")
    await expect(card.locator("[data-call=started]")).to_contain_text("git log")
    turn.tool("1", "Bash", "git log --oneline | head", "completed")
    turn.tool("2", "Read", "README.md", "started")
    await expect(card.locator("[data-call]")).to_have_count(2)
    for each in ("All ", "is ", "well, ", "and the **tests** pass. ") * 4:
        turn.text(each)
    text, answer = card.locator("[data-live-text]"), "All is well, and the **tests** pass. " * 4
    await expect(text).to_have_text(answer.strip())
    await _shot(page, "working")
    assert await find_barriers(page) == []
    turn.text(HOSTILE)
    await expect(text).to_contain_text(HOSTILE)
    assert await page.evaluate("() => window.pwned") is None
    await bounded(turn.end("ended"))
    await expect(card).to_contain_text("Done")
    await desk.stage.say("Lead", answer + HOSTILE)
    await expect(card).to_have_count(0)
    await expect(page.locator("[data-message] strong").first).to_have_text("tests")
    await _shot(page, "answered")
    await reporter.close()


async def test_a_message_of_the_agent_is_not_shown_as_running_text_too(desk: Desk, page: Page) -> None:
    reporter, turn, card = await _begun(desk, page)
    turn.text("First, a look.")
    await expect(card).to_contain_text("First, a look.")
    await desk.stage.say("Lead", "First, a look.")
    await expect(card.locator("[data-live-text]")).to_have_count(0)
    turn.paragraph()
    turn.text("Then the rest.")
    await expect(card.locator("[data-live-text]")).to_have_text("Then the rest.")
    await reporter.close()


async def test_a_person_stops_the_turn(desk: Desk, page: Page) -> None:
    reporter, turn, card = await _begun(desk, page)
    turn.text("I think about")
    await expect(card).to_contain_text("I think about")
    await page.get_by_role("button", name="Stop Lead").click()
    await bounded(turn.stop_requested())  # how soon that is, row 90 of scripts/bench measures
    await expect(card).to_contain_text(re.compile("Stopping, as .* asked"))
    await _shot(page, "stopping")
    await bounded(turn.end("stopped"))
    await expect(card).to_contain_text("Stopped")
    await expect(page.get_by_role("button", name="Stop Lead")).to_have_count(0)
    await reporter.close()


async def test_the_next_message_waits_or_goes_into_the_running_turn(desk: Desk, page: Page) -> None:
    chat = Chat(page, "Lead")
    await expect(page.get_by_role("radio", name="Send now")).to_have_count(0)
    reporter, turn, _ = await _begun(desk, page)
    assert await page.get_by_role("radio", name="Queue").is_checked()
    await chat.write("When you are done: the README")
    await page.get_by_role("radio", name="Send now").check()
    await _shot(page, "steer")
    await chat.write("No, the other branch")
    await expect(page.get_by_role("radio", name="Queue")).to_be_checked()  # each message is decided for itself
    first, queued, steered = [each["request_body"]["params"]["message"] for each in await _received(desk, 3)]
    assert [each["metadata"].get("when") for each in (first, queued, steered)] == [None, None, "steer"]
    await bounded(turn.end("ended"))
    await expect(page.get_by_role("radio", name="Send now")).to_have_count(0)
    await reporter.close()


async def test_a_turn_is_seen_after_a_reload_and_with_another_message_only_its_status(desk: Desk, page: Page) -> None:
    reporter, turn, card = await _begun(desk, page)
    turn.text("Halfway")
    await expect(card).to_contain_text("Halfway")
    await page.reload()
    await expect(card).to_contain_text("Halfway")
    other = reporter.begin("of-another-agent")
    other.text("not for this person")
    await expect(card).to_have_count(2)
    await expect(card.last).to_contain_text("Another message · Working")
    await expect(card.last.locator("[data-live-text]")).to_have_count(0)
    await reporter.close()


async def test_a_thread_shows_its_running_turn_until_the_log_has_it(desk: Desk) -> None:
    thread, engine = await start(desk.stage, "Lead", nickname="Chief")
    page = await desk.open(f"/app/threads/{thread['thread_id']}")
    reporter = _reporter(desk)
    turn = reporter.begin("a-turn", thread["thread_id"])
    turn.text("It leaks at the valve.")
    text = page.locator("[data-live-text]")
    await expect(text).to_have_text("It leaks at the valve.")
    assert await find_barriers(page) == []
    await _shot(page, "thread")
    await engine.adds({"type": "agent_message", "text": "It leaks at the valve."})
    await expect(page.locator("[data-said=agent]")).to_contain_text("It leaks at the valve.")
    await expect(text).to_have_count(0)
    await page.get_by_role("group", name="Thread actions").get_by_role("button", name="Stop").click()
    await bounded(turn.stop_requested())  # also the program that runs the turn of a thread
    await reporter.close()


async def test_the_scrolled_chat_stays_where_it_is_while_text_comes(desk: Desk, page: Page) -> None:
    chat = Chat(page, "Lead")
    await expect(chat.field).to_be_visible()  # what comes before the chat is open is new in it
    for number in range(40):
        await desk.stage.say("Lead", f"Line {number}")
    await expect(chat.message("Line 39")).to_be_in_viewport()
    reporter, turn, card = await _begun(desk, page)
    await expect(card).to_be_in_viewport()
    turn.text("word " * 400)
    await expect(card).to_contain_text("word word")
    await expect(page.get_by_role("button", name="Jump to latest")).to_have_count(0)  # it follows
    await chat.list.evaluate("list => list.parentElement.scrollTo(0, 200)")
    await expect(page.get_by_role("button", name="Jump to latest")).to_be_visible()
    await page.evaluate(SETTLED)
    before = await chat.message("Line 10").bounding_box()
    turn.text("more " * 400 + "THE END")
    await expect(card).to_contain_text("THE END")
    assert await chat.message("Line 10").bounding_box() == before
    await reporter.close()


async def test_a_text_that_outgrows_the_view_and_its_answer_stay_at_their_beginning(desk: Desk, page: Page) -> None:
    reporter, turn, card = await _begun(desk, page)
    text = "\n\n".join(f"Paragraph {number}" for number in range(60))
    turn.text(text[:600])
    turn.text(text[600:])
    await expect(card).to_contain_text("Paragraph 59")
    await expect(page.get_by_role("button", name="Jump to latest")).to_be_visible()
    await expect(card.get_by_text("Working")).to_be_in_viewport()
    await bounded(turn.end("ended"))
    await desk.stage.say("Lead", text)
    await expect(card).to_have_count(0)
    await page.evaluate(SETTLED)
    await expect(page.get_by_text("Paragraph 0", exact=True)).to_be_in_viewport()
    await page.get_by_role("button", name=re.compile("^(Jump to latest|1 new)$")).click()
    await expect(page.get_by_text("Paragraph 59", exact=True)).to_be_in_viewport()
    await reporter.close()


async def test_the_first_words_are_seen_soon_after_the_program_said_them(desk: Desk, page: Page) -> None:
    reporter, turn, _ = await _begun(desk, page)
    shown = asyncio.create_task(page.wait_for_selector("[data-live-text]"))
    said = time.time()
    turn.text("First words")
    await bounded(shown)
    assert await page.locator("[data-live-text]").text_content() == "First words"
    assert time.time() - said < 5  # 300 ms in benchmarks/, on a machine of its own
    await reporter.close()
