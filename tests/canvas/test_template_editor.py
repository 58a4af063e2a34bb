"""The editor of instructions: lines wrap, tags are marked, names are completed, and no key is held."""

import re

import pytest
from playwright.async_api import Locator, Page

from testing.canvas.page_user import Desk
from tests.canvas.expectations import expect
from tests.canvas.test_instructions_page import REFUSED, field, open_template, rendered
from tests.canvas.test_labels_fit import cut_labels
from tests.canvas.views import WIDE
from tests.requirements import requirement

PHONE = {"width": 390, "height": 844}
LONG = "Answer in one line. " * 12 + "\n" + "word" * 60
# For each line of the field the place of its number, and where the text drawn behind it ends: both wrap alike if the
# field is as high as what is behind it, and needs no scrolling.
_FITS = """field => {
  const { scrollHeight, clientHeight, scrollWidth, clientWidth } = field;
  return scrollHeight <= clientHeight + 1 && scrollWidth <= clientWidth;
}"""


def suggestions(page: Page) -> Locator:
    """The names that can be taken."""
    return page.get_by_role("listbox", name="Suggestions").get_by_role("option")


async def empty(page: Page, name: str) -> Locator:
    """A text of the template, without words."""
    text = field(page, name)
    await text.fill("")
    return text


@requirement("CI1")
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
async def test_long_lines_wrap_and_each_number_is_at_its_line(desk: Desk, size: dict[str, int]) -> None:
    page = await open_template(desk, "codex-default", viewport=size)
    text = field(page, "silence")
    await text.fill(f"{LONG}\nlast")
    assert await text.evaluate(_FITS)
    rows = page.get_by_role("region", name="Text silence").locator("[aria-hidden] > div")
    tops = [box["y"] for row in await rows.all() if (box := await row.bounding_box())]
    assert len(tops) == 3
    assert tops[1] - tops[0] > 30  # more than one line high
    assert await page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


@requirement("CI1")
async def test_tags_are_marked_and_an_unknown_name_too(desk: Desk) -> None:
    desk.forgiven.append(REFUSED)
    page = await open_template(desk, "codex-default", viewport=WIDE)
    text = field(page, "silence")
    await text.fill('Use {{ reply_tool }}.\n{% if kind == "system" %}{{ replytool }}{% endif %}')
    block = page.get_by_role("region", name="Text silence")
    kinds = {"reply_tool": "output", "if": "keyword", '"system"': "string", "replytool": "unknown"}
    for words, kind in kinds.items():
        await expect(block.locator(f"[data-text='{words}']")).to_have_class(re.compile(kind))
    await expect(block).to_contain_text("Line 2: ")


@requirement("CI1")
async def test_a_name_is_completed_by_keys_and_undone_by_the_browser(desk: Desk) -> None:
    desk.forgiven.append(REFUSED)
    page = await open_template(desk, "codex-default", viewport=WIDE)
    text = await empty(page, "silence")
    await text.press_sequentially("Use {{ peer")
    await expect(suggestions(page)).to_have_count(3)
    await expect(suggestions(page).first).to_have_attribute("aria-selected", "true")
    names = await page.get_by_role("listbox", name="Suggestions").bounding_box()
    around = await text.bounding_box()
    assert names is not None
    assert around is not None
    line = around["y"] + 16  # the middle of the only line
    above, below = line - names["y"] - names["height"], names["y"] - line
    assert 8 < max(above, below) < 30  # where there is room, and not over the line
    assert names["x"] - around["x"] > 80  # at the word
    active = await text.get_attribute("aria-activedescendant")
    assert active == await suggestions(page).first.get_attribute("id")
    await text.press("ArrowDown")
    await text.press("Enter")
    await expect(text).to_have_value("Use {{ peer_name }}")
    await expect(suggestions(page)).to_have_count(0)
    await text.press("Control+z")
    await expect(text).to_have_value("Use {{ peer")
    await text.press("Control+ ")
    await suggestions(page).filter(has_text="peer_role").click()
    await expect(text).to_have_value("Use {{ peer_role }}")
    await expect(text).to_be_focused()


@requirement("CI1", "C59", "C62")
async def test_escape_closes_suggestions_only_and_tab_leaves_the_field(desk: Desk) -> None:
    desk.forgiven.append(REFUSED)
    page = await open_template(desk, "codex-default", viewport=WIDE)
    text = await empty(page, "silence")
    await text.press_sequentially("{{ ")
    await expect(suggestions(page).first).to_be_visible()
    await text.press("Escape")
    await expect(suggestions(page)).to_have_count(0)
    await expect(text).to_be_focused()
    await text.press_sequentially("re")
    await expect(suggestions(page).first).to_be_visible()
    await text.press("Tab")
    await expect(text).not_to_be_focused()
    await expect(suggestions(page)).to_have_count(0)
    await expect(text).to_have_value("{{ re")
    await page.keyboard.press("Shift+Tab")
    await expect(text).to_be_focused()


@requirement("CT3")
async def test_on_a_phone_the_save_bar_is_in_view_and_covers_no_focus(desk: Desk) -> None:
    page = await open_template(desk, "codex-default", viewport=PHONE)
    save = page.get_by_role("button", name="Save new version")
    await field(page, "reply").fill("Short.")
    bar = page.get_by_role("group", name="Save")
    for each in ("silence", "docs", "compact"):
        text = field(page, each)
        await text.focus()
        await text.press("Control+End")
        await text.press_sequentially("!")
        await expect(save).to_be_in_viewport(ratio=1)
        above, box = await bar.bounding_box(), await text.bounding_box()
        assert above is not None
        assert box is not None
        assert box["y"] + box["height"] <= above["y"] + 1


@requirement("C64")
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
async def test_no_choice_of_the_preview_is_cut(desk: Desk, size: dict[str, int]) -> None:
    page = await open_template(desk, "codex-default", viewport=size)
    panel = page.get_by_role("region", name="Preview")
    await panel.get_by_label("Message kind").select_option("chat_upload_receive")
    await expect(rendered(page)).not_to_be_empty()
    assert await cut_labels(page) == []
