"""Texts are readable where a person meets them: whole words in tables, a preview and a save bar that stay in view."""

import pytest

from testing.canvas.page_user import Desk
from testing.thread_world import said
from tests.canvas.expectations import expect
from tests.canvas.thread_actions import start
from tests.canvas.views import NARROW, WIDE
from tests.requirements import requirement

TABLE = """| Item | Owner | Cost (days) | Where it stands |
| --- | --- | --- | --- |
| Landing page | Engineering | 3 | waiting for a decision about the headline |
| Translation | Support | 12 | begun, with a long explanation of what is still missing |
"""
# Words of cells whose letters are not in one line.
_BROKEN = """
(root) => [...root.querySelectorAll("th, td")].flatMap((cell) => {
  const found = [];
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    for (const word of node.data.matchAll(/\\S+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1) found.push(word[0]);
    }
  }
  return found;
})
"""


@requirement("CT3")
@pytest.mark.parametrize("where", ["panel", "wide chat", "phone"])
async def test_no_word_of_a_table_is_broken(desk: Desk, where: str) -> None:
    stage = desk.stage
    await stage.say("Reader", TABLE)
    agent = stage.seats["Reader"].id
    path = f"/app/org?focus={agent}&panel=chat" if where == "panel" else f"/app/chat/{agent}"
    page = await desk.open(path, viewport=NARROW if where == "phone" else WIDE)
    table = page.get_by_role("table")
    await expect(table).to_contain_text("Translation")
    assert await table.evaluate(_BROKEN) == []
    assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


@requirement("CT3")
async def test_the_save_bar_and_the_preview_stay_in_view_while_a_long_template_scrolls(desk: Desk) -> None:
    page = await desk.open("/app/instructions/claude-code-default", viewport=WIDE)
    save = page.get_by_role("button", name="Save new version")
    preview = page.get_by_role("region", name="Preview")
    await expect(page.get_by_role("region", name="Rendered instructions")).not_to_be_empty()
    await expect(save).to_be_in_viewport(ratio=1)
    fields = page.get_by_role("textbox")
    await fields.nth(await fields.count() // 2).scroll_into_view_if_needed()
    await page.mouse.move(600, 500)
    await page.mouse.wheel(0, 900)
    await expect(save).to_be_in_viewport(ratio=1)
    await expect(preview).to_be_in_viewport(ratio=0.3)
    before = await preview.bounding_box()
    await page.mouse.wheel(0, 400)
    await expect(save).to_be_in_viewport(ratio=1)
    after = await preview.bounding_box()
    assert before is not None and after is not None
    assert abs(before["y"] - after["y"]) < 2


@requirement("CT3")
async def test_messages_of_a_thread_are_read_as_in_a_chat(desk: Desk) -> None:
    """The envelope that a model gets shows its body, and its instructions only on request."""
    stage = desk.stage
    parts = "<instructions>Answer with: reply</instructions>\n<body>Is **1 &lt; 2**?</body>"
    enveloped = f'<channel kind="canvas_user">\n{parts}\n</channel>'
    thread, engine = await start(stage, "Writer", input=enveloped)
    await engine.adds(said(TABLE))
    page = await desk.open(f"/app/threads/{thread['thread_id']}")
    talk = page.get_by_role("region", name="Conversation")
    asked = talk.locator("[data-said=user]")
    await expect(asked.locator("strong")).to_have_text("1 < 2")
    await expect(asked).not_to_contain_text("<channel")
    await expect(asked.get_by_text("Answer with: reply")).to_be_hidden()
    await asked.get_by_text("Instructions sent with this message").click()
    await expect(asked.get_by_text("Answer with: reply")).to_be_visible()
    await expect(talk.locator("[data-said=agent]").get_by_role("table")).to_contain_text("Translation")
