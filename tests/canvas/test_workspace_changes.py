"""The organisation is changed from the page: moved by menu and by drag, paused, removed; a move can be taken back."""

import pytest
from playwright.async_api import Dialog as BrowserDialog
from playwright.async_api import FloatRect, Locator, Page

from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from tests.canvas.expectations import expect
from tests.requirements import requirement

_CAMERA = "() => document.querySelector('[data-id]').parentElement.style.transform"


async def parent_of(stage: Stage, name: str) -> str | None:
    """Whom an agent answers to, as the server has it."""
    seats = {seat.id: each for each, seat in stage.seats.items()}
    row = await stage.admin.get(f"/workspaces/{stage.seats[name].id}")
    return seats.get(row["parent_id"])


async def about(desk: Desk, name: str, **choices: object) -> Page:
    """The panel about an agent, open."""
    page = await desk.open(f"/app/org?focus={desk.stage.seats[name].id}&panel=about", **choices)
    await page.get_by_role("complementary", name=name).get_by_role("button", name="Move…", exact=True).wait_for()
    return page


async def ask_for_token(page: Page, name: str) -> Locator:
    """Presses the button for a new token; the question that follows."""
    await page.get_by_role("button", name="New token…").click()
    return page.get_by_role("dialog", name=f"Issue a new token for {name}?")


async def issue_token(page: Page, name: str, end: str) -> str:
    """Issues a new token for an agent, with the time at which the current ones end."""
    dialog = await ask_for_token(page, name)
    await dialog.get_by_label("Current tokens stop working").select_option(label=end)
    await dialog.get_by_role("button", name="Issue new token").click()
    shown = page.get_by_role("dialog", name=f"New token for {name}").get_by_role("region", name="New token")
    token = (await shown.text_content() or "").strip()
    assert token.startswith("mol_ws_")
    return token


def card(page: Page, stage: Stage, name: str) -> Locator:
    """An agent on the map."""
    return page.locator(f"[data-id='{stage.seats[name].id}']")


async def editing(desk: Desk) -> Page:
    """The organisation, while it is edited."""
    page = await desk.open()
    await page.get_by_role("button", name="Edit org").click()
    return page


async def drag(page: Page, box: FloatRect, right: float, down: float) -> None:
    """Drag from near the upper left corner of a box."""
    await page.mouse.move(box["x"] + 5, box["y"] + 5)
    await page.mouse.down()
    await page.mouse.move(box["x"] + 5 + right, box["y"] + 5 + down, steps=4)
    await page.mouse.up()


@requirement("C52", "M4")
async def test_an_agent_is_moved_by_menu_with_all_below_it_and_the_move_is_taken_back(desk: Desk) -> None:
    stage = desk.stage
    page = await about(desk, "Research")
    await page.get_by_role("button", name="Move…", exact=True).click()
    dialog = page.get_by_role("dialog", name="Move Research")
    reader = dialog.get_by_role("radio", name="Reader")
    await expect(reader).to_be_disabled()
    await expect(dialog).to_contain_text("Research cannot report to Reader, which is below it.")
    await dialog.get_by_role("radio", name="Support").check()
    await expect(dialog).to_contain_text("Its team of 2 agents moves with it")
    await dialog.get_by_role("button", name="Move", exact=True).click()
    await expect(dialog).to_be_hidden()
    assert await parent_of(stage, "Research") == "Support"
    row = page.get_by_role("treeitem", name="Research")
    await expect(row).to_have_attribute("aria-level", "3")
    await page.get_by_role("button", name="Undo").click()
    await expect(row).to_have_attribute("aria-level", "2")
    await expect(page.get_by_role("button", name="Undo")).to_be_hidden()
    assert await parent_of(stage, "Research") == "Lead"


@requirement("C52", "M4")
async def test_an_agent_is_moved_by_drag_which_asks_once(desk: Desk) -> None:
    stage = desk.stage
    page = await editing(desk)
    await card(page, stage, "Writer").drag_to(card(page, stage, "Quality"))
    dialog = page.get_by_role("dialog", name="Move Writer")
    await expect(dialog).to_contain_text("Writer will report to Quality.")
    assert await parent_of(stage, "Writer") == "Research"
    await dialog.get_by_role("button", name="Move", exact=True).click()
    await expect(page.get_by_role("button", name="Undo")).to_be_visible()
    assert await parent_of(stage, "Writer") == "Quality"


@requirement("C52")
async def test_a_drag_into_the_own_team_is_refused_in_words(desk: Desk) -> None:
    stage = desk.stage
    page = await editing(desk)
    await card(page, stage, "Support").drag_to(card(page, stage, "Night shift"))
    dialog = page.get_by_role("dialog", name="Move Support")
    await expect(dialog.get_by_role("alert")).to_have_text("Support cannot report to Night shift, which is below it.")
    await expect(dialog.get_by_role("button", name="Move", exact=True)).to_be_disabled()
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()


@requirement("C52")
async def test_a_click_on_a_card_still_opens_it_and_a_drag_on_the_ground_still_moves_the_map(desk: Desk) -> None:
    page = await editing(desk)
    camera = await page.evaluate(_CAMERA)
    box = await page.get_by_role("group", name="Map of the organisation").bounding_box()
    assert box is not None
    await drag(page, box, 60, 40)
    assert await page.evaluate(_CAMERA) != camera
    await card(page, desk.stage, "Writer").click()
    await expect(page.get_by_role("complementary", name="Writer")).to_be_visible()


@requirement("C52")
async def test_a_drag_that_begins_on_a_card_pans_the_map_unless_the_org_is_edited(desk: Desk) -> None:
    stage = desk.stage
    page = await desk.open()
    await expect(card(page, stage, "Writer")).to_be_visible()
    camera = await page.evaluate(_CAMERA)
    await card(page, stage, "Writer").drag_to(card(page, stage, "Quality"))
    assert await page.evaluate(_CAMERA) != camera
    await expect(page.get_by_role("complementary")).to_have_count(0)
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await page.get_by_role("button", name="Fit to screen").click()
    await page.get_by_role("button", name="Edit org").click()
    await card(page, stage, "Writer").drag_to(card(page, stage, "Quality"))
    await expect(page.get_by_role("dialog", name="Move Writer")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.get_by_role("button", name="Edit org").click()
    await card(page, stage, "Writer").drag_to(card(page, stage, "Quality"))
    await expect(page.get_by_role("dialog")).to_have_count(0)


@requirement("C52")
async def test_a_drop_on_the_own_parent_or_team_does_nothing(desk: Desk) -> None:
    stage = desk.stage
    page = await editing(desk)
    for name, place in (("Writer", "Research"), ("Support", "Lead")):
        await card(page, stage, name).drag_to(card(page, stage, place))
        await expect(page.get_by_role("dialog")).to_have_count(0)
    box = await card(page, stage, "Writer").bounding_box()
    assert box is not None
    await drag(page, box, 12, 9)  # within its own card and team
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.get_by_role("complementary")).to_have_count(0)


@requirement("C58", "M4")
async def test_removing_a_team_lists_who_goes_and_wants_the_name_typed(desk: Desk) -> None:
    stage = desk.stage
    page = await about(desk, "Support")
    await page.get_by_role("button", name="Remove…").click()
    dialog = page.get_by_role("dialog", name="Remove Support?")
    going = dialog.get_by_role("list", name="Workspaces to remove").get_by_role("listitem")
    await expect(going).to_have_text(["Support", "First line", "Second line", "Night shift"])
    remove = dialog.get_by_role("button", name="Remove 4 workspaces")
    await expect(remove).to_be_disabled()
    await dialog.get_by_label("Type Support to confirm").fill("Suppor")
    await expect(remove).to_be_disabled()
    await dialog.get_by_label("Type Support to confirm").fill("Support")
    await remove.click()
    await expect(page.get_by_role("treeitem", name="Night shift")).to_have_count(0)
    assert len(await stage.admin.get("/workspaces")) == 8


@requirement("C27", "M22")
async def test_pausing_shows_at_once_in_every_window_and_resuming_too(desk: Desk) -> None:
    page, other = await about(desk, "Reader"), await desk.open()
    await page.get_by_role("button", name="Pause").click()
    for each in (page, other):
        await expect(each.get_by_role("treeitem", name="Reader Paused")).to_be_visible()
    await page.get_by_role("button", name="Resume").click()
    for each in (page, other):
        await expect(each.get_by_role("treeitem", name="Reader Online")).to_be_visible()


@requirement("C74")
async def test_a_new_token_is_shown_once_and_the_old_one_ends(desk: Desk) -> None:
    stage = desk.stage
    seat = stage.seats["Reader"]
    page = await about(desk, "Reader")
    dialog = await ask_for_token(page, "Reader")
    await expect(dialog).to_contain_text("The running agent loses access")
    await dialog.get_by_role("button", name="Cancel").click()
    await seat.api.get(f"/workspaces/{seat.id}/state")  # nothing has ended
    token = await issue_token(page, "Reader", "Immediately")
    with pytest.raises(Exception, match="401"):
        await seat.api.get(f"/workspaces/{seat.id}/state")
    await page.get_by_role("button", name="Done").click()
    assert token not in await page.content()


@requirement("C74")
async def test_a_new_token_leaves_the_running_agent_time_to_take_it(desk: Desk) -> None:
    seat = desk.stage.seats["Reader"]
    page = await about(desk, "Reader")
    token = await issue_token(page, "Reader", "In 15 minutes")
    await expect(page.get_by_role("dialog", name="New token for Reader")).to_contain_text("Earlier tokens work until")
    await seat.api.get(f"/workspaces/{seat.id}/state")
    await desk.stage.server.api(token).get(f"/workspaces/{seat.id}/state")


@requirement("C62", "C74")
async def test_a_new_token_outlives_escape_a_closed_dialog_and_other_views(desk: Desk) -> None:
    page = await about(desk, "Reader")
    token = await issue_token(page, "Reader", "Immediately")
    shown, question = (page.get_by_role("dialog", name=each) for each in ("New token for Reader", "Have you copied"))
    for _ in range(3):  # a browser closes a dialog by itself at the second Escape
        await page.keyboard.press("Escape")
        await expect(question).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(shown).to_contain_text(token)
    await shown.get_by_role("button", name="Close").click()
    await question.get_by_role("button", name="Back to token").click()
    await page.mouse.click(2, 2)
    await question.get_by_role("button", name="Back to token").click()
    await page.evaluate(
        "() => { history.pushState(null, '', '/app/chat'); dispatchEvent(new PopStateEvent('popstate')); }"
    )
    await expect(shown).to_contain_text(token)
    asked: list[str] = []

    async def stay(dialog: BrowserDialog) -> None:
        asked.append(dialog.type)
        await dialog.dismiss()

    page.on("dialog", stay)
    await page.close(run_before_unload=True)
    await expect(shown).to_contain_text(token)
    assert asked == ["beforeunload"]
    await page.keyboard.press("Escape")
    await question.get_by_role("button", name="Continue").click()
    assert token not in await page.content()


@requirement("S20")
async def test_who_may_only_look_is_offered_no_change(desk: Desk) -> None:
    path = f"/app/org?focus={desk.stage.seats['Reader'].id}&panel=about"
    page = await desk.enter(await desk.context(), path, await desk.stage.link_for("viewer"))
    await page.get_by_role("complementary").get_by_text("Workspace ID").wait_for()
    assert await page.get_by_role("button", name="Pause").count() == 0
    assert await page.get_by_role("button", name="Edit org").count() == 0
    await card(page, desk.stage, "Writer").drag_to(card(page, desk.stage, "Quality"))
    assert await page.get_by_role("dialog").count() == 0
