"""Text of the world in a real browser: right-to-left and mixed messages, code inside them, and input methods."""

from typing import Any

import pytest
from playwright.async_api import Page

from testing.canvas.page_user import Desk
from tests.canvas.chat import Chat, chat_path
from tests.canvas.expectations import expect
from tests.requirements import requirement

# Where a word of a message is on the page, and the block that it is in: left and right edges in pixels.
_PLACE = """word => {
  const list = document.querySelector("[aria-label^='Messages with']");
  const walker = document.createTreeWalker(list, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const at = walker.currentNode.data.indexOf(word);
    if (at < 0) continue;
    const range = document.createRange();
    range.setStart(walker.currentNode, at);
    range.setEnd(walker.currentNode, at + word.length);
    const {left, right, top} = range.getBoundingClientRect();
    const block = walker.currentNode.parentElement.closest("p, li, pre").getBoundingClientRect();
    return {left, right, top, block_left: block.left, block_right: block.right};
  }
  return null;
}"""


@pytest.fixture
async def page(desk: Desk) -> Page:
    page = await desk.open(chat_path(desk.stage, "Lead"))
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    return page


async def place(page: Page, word: str) -> dict[str, float]:
    found: dict[str, Any] | None = await page.evaluate(_PLACE, word)
    assert found is not None, word
    return found


@requirement("C73")
async def test_each_block_and_line_begins_at_the_side_of_its_own_script(desk: Desk, page: Page) -> None:
    text = "Deploy **done**.\n\nשלום לכולם, **הכל** עבר.\nAll green\n\n- ראשון\n- second"  # noqa: RUF001 - Hebrew
    await desk.stage.say("Lead", text)
    await expect(Chat(page, "Lead").message("second")).to_be_visible()
    for word, begins_right in (("Deploy", False), ("שלום", True), ("All", False), ("ראשון", True), ("second", False)):
        where = await place(page, word)
        edge = where["block_right"] - where["right"] if begins_right else where["left"] - where["block_left"]
        assert edge < 12, (word, where)  # the mark of an item may be in its line


@requirement("C73")
async def test_a_plain_hebrew_message_begins_at_the_right(desk: Desk, page: Page) -> None:
    await desk.stage.say("Lead", "שלום עולם")
    await expect(Chat(page, "Lead").message("שלום עולם")).to_be_visible()
    where = await place(page, "שלום")
    assert where["left"] > (await place(page, "עולם"))["left"]


@requirement("C73")
async def test_code_in_a_right_to_left_message_reads_left_to_right(desk: Desk, page: Page) -> None:
    await desk.stage.say("Lead", "הריצו `npm test --watch` עכשיו\n\n```\nls -la /srv # רשימה\n```")
    await expect(Chat(page, "Lead").message("--watch")).to_be_visible()
    run, npm, watch, now = [await place(page, word) for word in ("הריצו", "npm", "--watch", "עכשיו")]
    assert run["left"] > watch["right"] > npm["right"] > now["right"]
    block, comment = await place(page, "ls -la"), await place(page, "/srv #")
    assert block["left"] - block["block_left"] < 30
    assert comment["left"] > block["left"]


@requirement("C73")
async def test_the_enter_that_takes_a_candidate_of_an_input_method_sends_nothing(desk: Desk, page: Page) -> None:
    chat = Chat(page, "Lead")
    field = page.get_by_role("textbox", name="Message to Lead")
    await field.focus()
    devtools = await page.context.new_cdp_session(page)
    await devtools.send("Input.imeSetComposition", {"text": "にほん", "selectionStart": 3, "selectionEnd": 3})
    key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 229}
    await devtools.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", **key})
    await devtools.send("Input.insertText", {"text": "日本"})
    # Safari ends the composition before the Enter that ended it.
    await devtools.send("Input.dispatchKeyEvent", {"type": "rawKeyDown", **key})
    await expect(field).to_have_value("日本")
    await expect(page.locator("[data-message]")).to_have_count(0)
    await page.keyboard.press("Enter")
    await expect(page.locator("[data-message]")).to_have_count(1)
    assert await chat.texts() == ["日本"]


@requirement("C73")
async def test_the_message_field_turns_with_what_is_written(page: Page) -> None:
    field = page.get_by_role("textbox", name="Message to Lead")
    direction = "field => getComputedStyle(field).direction"
    await field.fill("hello")
    assert await field.evaluate(direction) == "ltr"
    await field.fill("שלום")
    assert await field.evaluate(direction) == "rtl"
