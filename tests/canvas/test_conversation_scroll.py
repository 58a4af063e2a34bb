"""Where a reader is in a chat stays where the reader is; a long chat is never in the document as a whole."""

import asyncio
import re

import pytest
from playwright.async_api import Page, Route

from testing.canvas.page_user import Desk
from tests.canvas.chat import Chat, chat_path
from tests.canvas.expectations import expect
from tests.canvas.long_chats import say_many
from tests.requirements import requirement

MOST_ITEMS = 300
MOST_JUMP_PX = 1
FAR_PX = 10_000
LIVE = 9_000  # of ten thousand messages, those from here on arrive while the chat is open
RICH = "**Plan** for today\n\n```\nmake check\n```\n\n* one\n* two"

TALL = "```\nmake check\n```\n| step |\n| - |\n" + "| one more |\n" * 12

# Scrolls up again and again until the top shows the words, or so many times. What is looked at must stay: the farthest
# it moved is `jump`. The most items that were in the document at once are `items`.
CLIMB = """async (list, { words, times }) => {
  const box = list.parentElement;
  const frame = () => new Promise(requestAnimationFrame);
  const lines = () => [...list.querySelectorAll("[data-message]")];
  const done = { jump: 0, items: 0, steps: 0 };
  while (done.steps < times && !lines()[0].textContent.includes(words)) {
    const first = lines()[0].dataset.message;
    box.scrollTop = 150;
    const edge = box.getBoundingClientRect().top;
    const seen = lines().find(each => each.getBoundingClientRect().bottom > edge);
    const top = seen.getBoundingClientRect().top;
    for (let wait = 0; lines()[0].dataset.message === first; wait += 1) {
      if (wait > 300) throw new Error(`nothing older came after ${JSON.stringify(done)}`);
      await frame();
      done.items = Math.max(done.items, list.querySelectorAll("li").length);
    }
    await frame();
    done.jump = Math.max(done.jump, Math.abs(seen.getBoundingClientRect().top - top));
    done.steps += 1;
  }
  return done;
}"""
FROM_END = """list => {
  const box = list.parentElement;
  return box.scrollHeight - box.clientHeight - box.scrollTop;
}"""
HEIGHT = "list => list.getBoundingClientRect().height"
TO_MIDDLE = "list => { list.parentElement.scrollTop = list.parentElement.scrollHeight / 2; }"


@pytest.fixture
async def long_chat(desk: Desk) -> Chat:
    """A chat of which the page shows the end, all read."""
    await say_many(desk.stage, "Lead", [f"line {number:02}" for number in range(58)])
    page = await desk.open(chat_path(desk.stage, "Lead"))
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    chat = Chat(page, "Lead")
    await to_end(page)
    await chat.shows("line 57")
    return chat


async def to_end(page: Page) -> None:
    """A person goes from what is new to the end of the chat, and has read it then."""
    await page.get_by_role("button", name="Jump to latest").click()


@requirement("C24")
async def test_what_is_looked_at_does_not_move_when_new_messages_come(desk: Desk, long_chat: Chat) -> None:
    await long_chat.list.evaluate(TO_MIDDLE)
    seen = long_chat.message("line 40")
    await expect(seen).to_be_in_viewport()
    before = await seen.bounding_box()
    for number in range(1, 4):
        await desk.stage.say("Lead", f"news {number}" if number < 3 else RICH)
        await expect(long_chat.page.get_by_role("button", name=f"{number} new", exact=True)).to_be_visible()
    after = await seen.bounding_box()
    assert before is not None
    assert after is not None
    assert abs(before["y"] - after["y"]) <= MOST_JUMP_PX


@requirement("C24")
async def test_what_is_looked_at_stays_however_many_new_messages_come(desk: Desk, long_chat: Chat) -> None:
    await long_chat.list.evaluate("list => { list.parentElement.scrollTop = 300; }")
    seen = long_chat.message("line 18")
    await expect(seen).to_be_in_viewport()
    before = await seen.bounding_box()
    await say_many(desk.stage, "Lead", [f"news {number:03}" for number in range(150)])
    await expect(long_chat.page.get_by_role("button", name="150 new", exact=True)).to_be_visible()
    after = await seen.bounding_box()
    assert before is not None
    assert after is not None
    assert abs(before["y"] - after["y"]) <= MOST_JUMP_PX


@requirement("C24")
async def test_the_button_leads_to_what_is_new_and_the_page_follows_again(desk: Desk, long_chat: Chat) -> None:
    await long_chat.list.evaluate(TO_MIDDLE)
    await desk.stage.say("Lead", "the first news")
    await long_chat.page.get_by_role("button", name="1 new", exact=True).click()
    await expect(long_chat.message("the first news")).to_be_in_viewport()
    await expect(long_chat.page.get_by_role("button", name="1 new", exact=True)).to_have_count(0)
    await desk.stage.say("Lead", "the second news")
    await expect(long_chat.message("the second news")).to_be_in_viewport(ratio=1)
    assert await long_chat.list.evaluate(FROM_END) <= MOST_JUMP_PX


@requirement("C24")
async def test_at_the_end_the_page_follows_what_comes(desk: Desk, long_chat: Chat) -> None:
    for words in ("short news", RICH, "\n\n".join(["a longer one"] * 5), "and the end"):
        await desk.stage.say("Lead", words)
    await expect(long_chat.message("and the end")).to_be_in_viewport(ratio=1)
    assert await long_chat.list.evaluate(FROM_END) <= MOST_JUMP_PX
    await expect(long_chat.page.get_by_role("button", name=re.compile("new"))).to_have_count(0)


@requirement("C24")
async def test_scrolling_back_to_the_end_by_hand_follows_again(desk: Desk, long_chat: Chat) -> None:
    await long_chat.list.evaluate(TO_MIDDLE)
    await desk.stage.say("Lead", "news")
    button = long_chat.page.get_by_role("button", name="1 new", exact=True)
    await expect(button).to_be_visible()
    await long_chat.list.hover()
    await long_chat.page.mouse.wheel(0, FAR_PX)
    await expect(long_chat.message("news")).to_be_attached()
    await long_chat.page.mouse.wheel(0, FAR_PX)
    await expect(button).to_have_count(0)
    await desk.stage.say("Lead", "more news")
    await expect(long_chat.message("more news")).to_be_in_viewport(ratio=1)
    assert await long_chat.list.evaluate(FROM_END) <= MOST_JUMP_PX


@requirement("C24")
async def test_the_own_message_leads_to_the_end_from_wherever_one_was(long_chat: Chat) -> None:
    await long_chat.list.evaluate(TO_MIDDLE)
    await long_chat.write("my own words")
    await expect(long_chat.message("my own words")).to_contain_text("Sent")
    await expect(long_chat.message("my own words")).to_be_in_viewport(ratio=1)
    assert await long_chat.list.evaluate(FROM_END) <= MOST_JUMP_PX


@requirement("C24")
async def test_a_chat_stays_at_its_end_when_its_texts_are_formatted_late(desk: Desk) -> None:
    await say_many(desk.stage, "Lead", [TALL] * 20)
    page = await desk.open("/app/org")
    await page.goto(desk.stage.server.url + chat_path(desk.stage, "Lead"))
    async with page.expect_response("**/chat/read"):
        await to_end(page)
    may_pass = asyncio.Event()

    async def hold(route: Route) -> None:
        await may_pass.wait()
        await route.continue_()

    await page.route("**/assets/Markdown-*.js", hold)
    await page.reload()
    chat = Chat(page, "Lead")
    await expect(chat.list.get_by_role("listitem").last).to_contain_text("make check")
    flat = await chat.list.evaluate(HEIGHT)
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    may_pass.set()
    await expect(chat.list.get_by_role("button", name="Copy code")).to_have_count(20)
    await expect(chat.list.get_by_role("listitem").last).to_be_in_viewport(ratio=1)
    assert await chat.list.evaluate(HEIGHT) > flat, "formatting must make it taller, or this shows nothing"
    assert await chat.list.evaluate(FROM_END) <= MOST_JUMP_PX


@requirement("C38")
async def test_a_long_history_is_read_backwards_to_its_beginning_without_a_jump(desk: Desk) -> None:
    await say_many(desk.stage, "Lead", [f"line {number:04}" for number in range(600)])
    page = await desk.open(chat_path(desk.stage, "Lead"))
    chat = Chat(page, "Lead")
    await to_end(page)
    await chat.shows("line 0599")
    climbed = await chat.list.evaluate(CLIMB, {"words": "line 0000", "times": 1_000})
    assert climbed["jump"] <= MOST_JUMP_PX, climbed
    assert climbed["items"] < MOST_ITEMS, climbed
    await expect(page.get_by_text("This is the beginning of the chat with Lead.")).to_be_visible()
    texts = await chat.texts()
    assert texts == [f"line {number:04}" for number in range(len(texts))]
    await page.get_by_role("button", name="Jump to latest").click()
    await expect(chat.message("line 0599")).to_be_in_viewport(ratio=1)


@pytest.mark.long
@requirement("C38")
async def test_ten_thousand_messages_stay_under_three_hundred_items(desk: Desk) -> None:
    lines = [f"line {number:04}" for number in range(10_000)]
    await say_many(desk.stage, "Lead", lines[:LIVE])
    page = await desk.open(chat_path(desk.stage, "Lead"))
    chat = Chat(page, "Lead")
    await to_end(page)
    await chat.shows(lines[LIVE - 1])
    await say_many(desk.stage, "Lead", lines[LIVE:])
    await expect(chat.message(lines[-1])).to_be_in_viewport(ratio=1)
    assert await chat.list.get_by_role("listitem").count() < MOST_ITEMS
    climbed = await chat.list.evaluate(CLIMB, {"words": "line 0000", "times": 40})
    assert climbed["steps"] == 40
    assert climbed["jump"] <= MOST_JUMP_PX, climbed
    assert climbed["items"] < MOST_ITEMS, climbed
    texts = await chat.texts()
    assert texts[0] < lines[LIVE], "it climbed beyond what arrived live"
    assert texts == lines[int(texts[0].split()[1]) :][: len(texts)]
