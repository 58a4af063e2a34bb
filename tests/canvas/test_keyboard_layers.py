"""Keys for the whole page: the palette, single letters, and Escape, which closes one thing at a time."""

import re

import pytest
from playwright.async_api import Locator, Page

from testing.canvas.page_user import Desk
from tests.canvas.expectations import expect
from tests.canvas.keyboard import Fingers, expect_focus
from tests.canvas.views import fill
from tests.requirements import requirement

# Opens the palette by its key and answers, two frames later, whether it is there and has the focus.
_PALETTE_IN_TWO_FRAMES = """
async () => {
  const key = new KeyboardEvent("keydown", { key: "k", ctrlKey: true, bubbles: true, cancelable: true });
  document.body.dispatchEvent(key);
  for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
  return document.activeElement.closest("dialog[open]") !== null && document.activeElement.role;
}
"""


@pytest.fixture
async def page(desk: Desk) -> Page:
    """The page of a person who is logged in."""
    return await desk.open()


@pytest.fixture
def fingers(page: Page) -> Fingers:
    """That person's."""
    return Fingers(page)


def palette_of(page: Page) -> Locator:
    """The palette, open or not."""
    return page.get_by_role("dialog", name="Search agents, chats, texts and commands")


@requirement("C60")
async def test_the_palette_is_there_two_frames_after_its_key_without_asking_the_server(page: Page) -> None:
    await page.get_by_role("tree").wait_for()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/app/assets/" not in request.url else None)
    assert await page.evaluate(_PALETTE_IN_TWO_FRAMES) == "combobox"
    assert asked == []


@requirement("C60")
async def test_the_palette_puts_unread_chats_first_then_recent_ones(desk: Desk, page: Page, fingers: Fingers) -> None:
    for name in ("Quality", "Backend", "Writer"):
        await desk.stage.say(name, "Done")
    await page.get_by_role("treeitem", name="Backend").click()
    panel = page.get_by_role("complementary", name="Backend")
    await expect(panel.get_by_text("Done")).to_be_visible()
    await expect(page).to_have_title("(2) Backend · Default · Molecule")
    await fingers.press("Control+k")
    found = page.get_by_role("option")
    await expect(found).to_have_count(2 + 12 + 14)
    told = [" ".join((await each.inner_text()).split()) for each in await found.all()]
    assert [each.split()[0] for each in told[:5]] == ["Writer", "Quality", "Writer", "Quality", "Backend"]
    assert [each.split()[-1] for each in told[:2]] == ["Chat", "Chat"]


@requirement("C60")
async def test_the_palette_finds_agents_chats_and_commands_and_says_when_nothing_fits(
    desk: Desk, page: Page, fingers: Fingers
) -> None:
    await desk.stage.say("Writer", "Done")
    await page.get_by_role("region", name="Needs attention").get_by_text("1 unread").wait_for()
    await fingers.press("Control+k")
    await fingers.type("writer")
    await expect(page.get_by_role("option")).to_have_count(2)
    await fingers.press("Enter")
    await expect(page.get_by_role("region", name="Chat with Writer")).to_be_visible()
    await fingers.press("Control+k")
    await fingers.type("dark")
    await expect(page.get_by_role("option", selected=True)).to_contain_text("Dark theme")
    await fingers.type("zzz")
    await expect(palette_of(page).get_by_role("status")).to_have_text("No results for “darkzzz”.")
    await fingers.press("Enter")
    assert await palette_of(page).is_visible()


@requirement("C61")
async def test_the_question_mark_lists_the_keys_and_gives_the_focus_back(page: Page, fingers: Fingers) -> None:
    row = page.get_by_role("treeitem", name="Lead")
    await fingers.go_to(row)
    await fingers.press("?")
    keys = page.get_by_role("dialog", name="Keyboard shortcuts")
    await expect(keys.get_by_text("Next item that needs attention")).to_be_visible()
    await expect(keys.get_by_text("Next unread chat")).to_be_visible()
    await fingers.press("Escape")
    await expect(keys).to_be_hidden()
    assert await row.evaluate("(element) => element === document.activeElement")


@requirement("C61")
async def test_single_keys_do_nothing_while_somebody_types(desk: Desk, page: Page, fingers: Fingers) -> None:
    await desk.stage.say("Writer", "Done")
    await page.get_by_role("region", name="Needs attention").get_by_text("1 unread").wait_for()
    found = page.get_by_role("searchbox", name="Filter agents")
    await fingers.go_to(found)
    await fingers.type("an?")
    await expect(found).to_have_value("an?")
    await fingers.press("Control+k")
    await fingers.type("an?")
    await expect(palette_of(page).get_by_role("combobox")).to_have_value("an?")
    await fingers.press("Escape")
    assert page.url.endswith("/app/org?q=an%3F")
    assert await page.get_by_role("dialog").count() == 0


@requirement("C61")
async def test_all_single_keys_can_be_turned_off_and_stay_off(desk: Desk, page: Page, fingers: Fingers) -> None:
    await fill(desk.stage)
    await fingers.use(page.get_by_role("link", name="Settings"))
    await page.get_by_role("checkbox", name="Single-key shortcuts").uncheck()
    for again in (False, True):
        if again:
            await page.reload()
            await page.get_by_role("region", name="Needs attention").get_by_role("button", name="Next").wait_for()
        await page.get_by_role("heading", name="Settings").click()
        await fingers.press("a", "n", "?")
        assert page.url.endswith("/app/settings")
        assert await page.get_by_role("dialog").count() == 0
    await page.get_by_role("checkbox", name="Single-key shortcuts").check()
    await page.get_by_role("heading", name="Settings").click()
    await fingers.press("a")
    await expect(page.get_by_role("complementary")).to_be_visible()


@requirement("C62")
async def test_escape_closes_the_topmost_layer_only(page: Page, fingers: Fingers) -> None:
    row = page.get_by_role("treeitem", name="Lead")
    await fingers.go_to(row)
    await fingers.press("Enter")
    panel = page.get_by_role("complementary", name="Lead")
    heading = panel.get_by_role("heading", name="Lead", exact=True)
    await expect_focus(heading)
    for opened_by, layer in (
        ("Control+k", palette_of(page)),
        ("?", page.get_by_role("dialog", name="Keyboard shortcuts")),
    ):
        await fingers.press(opened_by)
        await expect(layer).to_be_visible()
        await fingers.press("Escape")
        await expect(layer).to_be_hidden()
        await expect_focus(heading)
        assert await panel.is_visible()
    await fingers.press("Escape")
    await expect(panel).to_be_hidden()
    await expect_focus(row)


@requirement("C62")
async def test_a_closed_dialog_gives_the_focus_back_to_its_button(desk: Desk, page: Page, fingers: Fingers) -> None:
    await fill(desk.stage)
    for opener in ("Search agents, texts and commands", "Shortcuts"):
        button = page.get_by_role("button", name=re.compile(opener))
        await fingers.use(button)
        await expect(page.get_by_role("dialog")).to_be_visible()
        await fingers.press("Escape")
        await expect(page.get_by_role("dialog")).to_be_hidden()
        await expect_focus(button)


@requirement("C62")
async def test_a_command_of_the_palette_leaves_the_focus_where_it_was(page: Page, fingers: Fingers) -> None:
    row = page.get_by_role("treeitem", name="Lead")
    await fingers.go_to(row)
    await fingers.press("Control+k")
    await fingers.type("dark")
    await fingers.press("Enter")
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await expect_focus(row)


@requirement("C62")
async def test_the_focus_cannot_leave_a_dialog_while_it_is_open(page: Page, fingers: Fingers) -> None:
    await fingers.use(page.get_by_role("button", name="Shortcuts"))
    await page.get_by_role("dialog").wait_for()
    inside = "() => document.activeElement === document.body || document.activeElement.closest('dialog') !== null"
    for _ in range(4):
        await fingers.press("Tab")
        assert await page.evaluate(inside)
    await fingers.press("Control+k")
    assert await palette_of(page).count() == 0


@requirement("C62")
async def test_a_dialog_closes_at_a_press_outside_but_not_where_a_selection_of_its_text_ends_there(page: Page) -> None:
    await page.get_by_role("tree").wait_for()
    await page.keyboard.press("Control+k")
    field = palette_of(page).get_by_role("combobox")
    await field.fill("half a word")
    box = await field.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + 40, box["y"] + box["height"] / 2)
    await page.mouse.down()
    await page.mouse.move(2, 2)
    await page.mouse.up()
    await expect(field).to_have_value("half a word")
    await page.mouse.click(2, 2)
    await expect(palette_of(page)).to_have_count(0)
