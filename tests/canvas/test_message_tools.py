"""What one does with a message: reply to it, ask again, see when it was delivered; and what the input completes."""

import re

import pytest
from playwright.async_api import Page

from testing.canvas.page_user import Desk
from tests.canvas.chat import Chat, chat_path
from tests.canvas.expectations import expect
from tests.canvas.message_actions import ask, decline
from tests.requirements import requirement

# Whether the tools of any message cover the text of the same message.
COVERED = """list => [...list.querySelectorAll("[data-message]")].filter(message => {
  message.focus();
  const text = message.querySelector("[data-text]")?.getBoundingClientRect();
  const overlay = [...message.children].find(each => getComputedStyle(each).position === "absolute");
  const tools = overlay.getBoundingClientRect();
  return text && tools.bottom > text.top + 0.5 && tools.top < text.bottom && tools.left < text.right;
}).map(message => message.textContent)"""
CODE = '```python\ndef greet(name: str) -> str:\n    return f"Hello, {name}"  # a comment\n```'


@pytest.fixture
async def page(desk: Desk) -> Page:
    """The chat with the lead."""
    page = await desk.open(chat_path(desk.stage, "Lead"))
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    return page


@pytest.fixture
def chat(page: Page) -> Chat:
    """That chat."""
    return Chat(page, "Lead")


@requirement("C19", "C28")
async def test_a_reply_quotes_a_message_and_leads_back_to_it(desk: Desk, page: Page, chat: Chat) -> None:
    first = await desk.stage.say("Lead", "**Two** ways:\n\n1. wait\n2. go")
    for number in range(40):
        await desk.stage.say("Lead", f"line {number}")
    await page.goto(f"{desk.stage.server.url}{chat_path(desk.stage, 'Lead')}?m={first}")
    await expect(chat.message("Two ways")).to_be_focused()
    await chat.message("Two ways").get_by_role("button", name="Reply").click()
    await expect(page.get_by_role("group", name="Reply")).to_contain_text("Two ways: wait go")
    await expect(chat.field).to_be_focused()
    await page.reload()
    await expect(page.get_by_role("group", name="Reply")).to_contain_text("Two ways: wait go")
    await chat.write("the second")
    await expect(page.get_by_role("group", name="Reply")).to_have_count(0)
    own = chat.message("the second")
    await expect(own).to_contain_text("Sent")
    assert await desk.stage.heard_by("Lead") == ["> Two ways: wait go\n\nthe second"]
    await page.goto(f"{desk.stage.server.url}{chat_path(desk.stage, 'Lead')}")
    await own.get_by_role("link", name=re.compile("^In reply to: ?Two ways")).click()
    await expect(chat.list.locator(f"[data-message='{first}']")).to_be_focused()


@requirement("C27")
async def test_a_message_that_was_declined_is_asked_again_at_a_press(desk: Desk, page: Page, chat: Chat) -> None:
    await ask(desk.stage, "Lead", "Is it done?")
    await decline(desk.stage, "Lead", "no time")
    await expect(chat.message("Declined: no time")).to_have_count(1)
    # Only the author of a message asks it again.
    await expect(page.get_by_role("button", name="Ask again")).to_have_count(0)
    await chat.write("Is it done now?")
    await expect(chat.message("Is it done now?")).to_contain_text("Sent")
    (row,) = await desk.stage.seats["Lead"].api.claim(desk.stage.seats["Lead"].id, wait=5)
    assert row["id"]
    await decline(desk.stage, "Lead", "no time at all")
    await chat.message("no time at all").get_by_role("button", name="Ask again").click()
    await expect(chat.message("Is it done now?")).to_have_count(2)
    await expect(chat.list.get_by_role("listitem").last).to_contain_text("Sent")


@requirement("C26")
async def test_a_tick_says_when_each_step_was_reached(desk: Desk, page: Page, chat: Chat) -> None:
    await ask(desk.stage, "Lead", "Are you there?")
    tick = chat.message("Are you there?").get_by_role("button", name=re.compile("^Delivered"))
    await tick.click()
    await expect(tick).to_have_attribute("aria-expanded", "true")
    for step in ("Sent", "Delivered"):
        await expect(chat.list.get_by_role("term").filter(has_text=re.compile(f"^{step}$"))).to_have_count(1)
    await expect(chat.list.get_by_role("definition").first).to_have_text(re.compile(r"\d\d:\d\d:\d\d"))


@requirement("C68")
async def test_the_tools_of_a_message_do_not_cover_its_text(desk: Desk, page: Page, chat: Chat) -> None:
    for words in ("one", "two", "long words " * 60):
        await desk.stage.say("Lead", words)
    for words in ("short", "and long words " * 40):
        await chat.write(words)
        await expect(chat.message(words.strip())).to_contain_text("Sent")
    assert await chat.list.evaluate(COVERED) == []


@requirement("C25")
async def test_code_has_colours_and_its_copy_button_is_not_on_it(desk: Desk, page: Page, chat: Chat) -> None:
    await desk.stage.say("Lead", CODE)
    await desk.stage.say("Lead", "- [x] shipped\n- [ ] open")
    block = chat.list.get_by_role("group", name="Code")
    keyword = block.get_by_text("def", exact=True)
    await expect(keyword).to_be_visible()
    colours = {await each.evaluate("each => getComputedStyle(each).color") for each in (keyword, block)}
    assert len(colours) == 2
    button = await chat.list.get_by_role("button", name="Copy code").bounding_box()
    code = await block.bounding_box()
    assert button is not None
    assert code is not None
    assert button["y"] + button["height"] <= code["y"]
    await expect(chat.list.get_by_role("img", name="Done:")).to_be_visible()
    await expect(chat.list).not_to_contain_text("[x]")


@requirement("C59")
async def test_a_name_is_completed_by_keys_and_inserted_as_text(desk: Desk, page: Page, chat: Chat) -> None:
    await chat.field.press_sequentially("ask @")
    names = page.get_by_role("listbox", name="Agents")
    await expect(names.get_by_role("option").first).to_have_attribute("aria-selected", "true")
    await chat.field.press_sequentially("Sup")
    await expect(names.get_by_role("option")).to_have_text([re.compile("Support")])
    active = await chat.field.get_attribute("aria-activedescendant")
    assert active == await names.get_by_role("option").get_attribute("id")
    await expect(page.get_by_text("Only Lead gets this message.")).to_be_visible()
    await chat.field.press("Tab")
    await expect(chat.field).to_have_value("ask @Support ")
    await expect(chat.field).to_be_focused()
    await chat.field.press_sequentially("@Eng")
    await expect(names).to_be_visible()
    await chat.field.press("Escape")
    await expect(names).to_have_count(0)
    await chat.field.press("Enter")
    await expect(chat.message("ask @Support @Eng")).to_contain_text("Sent")
    assert await desk.stage.heard_by("Lead") == ["ask @Support @Eng"]


@requirement("C27", "C59")
async def test_a_command_does_what_its_button_does(desk: Desk, page: Page, chat: Chat) -> None:
    await chat.field.press_sequentially("/pa")
    await expect(page.get_by_role("listbox", name="Commands").get_by_role("option")).to_have_text(
        [re.compile("/pause")]
    )
    await chat.field.press("Enter")
    await expect(page.get_by_role("region", name="Chat with Lead")).to_contain_text("Paused")
    await expect(chat.field).to_have_value("")
    await chat.field.press_sequentially("/")
    await page.get_by_role("option", name="resume").click()
    await expect(page.get_by_role("region", name="Chat with Lead")).not_to_contain_text("Paused")
    assert await desk.stage.heard_by("Lead") == []
