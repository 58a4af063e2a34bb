"""Everything that a person does here can be done without a pointer: journeys of somebody who has only keys."""

import re

import pytest
from playwright.async_api import Page, Route

from testing.canvas.page_user import Desk
from tests.canvas.expectations import expect
from tests.canvas.keyboard import Fingers, expect_focus
from tests.canvas.map_actions import camera_of
from tests.requirements import requirement

MAP = "Map of the organisation"


@pytest.fixture
async def page(desk: Desk) -> Page:
    """The page of a person who is logged in."""
    return await desk.open()


@pytest.fixture
def fingers(page: Page) -> Fingers:
    """That person's."""
    return Fingers(page)


def view_of(page: Page) -> str:
    """What the address says is shown."""
    return page.url.partition("/app/")[2]


@requirement("C59")
async def test_keys_lead_from_the_link_past_the_rail_into_the_view(desk: Desk) -> None:
    context = await desk.context()
    page = await context.new_page()
    await page.goto(await desk.stage.link())
    await expect(page.get_by_role("tree")).to_be_visible()
    fingers = Fingers(page)
    await fingers.press("Tab")
    await expect_focus(page.get_by_role("link", name="Skip to content"))
    await fingers.press("Enter", "Tab")
    await expect_focus(page.get_by_role("searchbox", name="Filter agents"))


@requirement("C59", "C60")
async def test_keys_find_an_agent_and_send_it_a_message(desk: Desk, page: Page, fingers: Fingers) -> None:
    await fingers.press("Control+k")
    await expect(page.get_by_role("dialog").get_by_role("combobox")).to_be_focused()
    await fingers.type("night")
    await expect(page.get_by_role("option", selected=True)).to_contain_text("Night shift")
    await fingers.press("Enter")
    panel = page.get_by_role("complementary", name="Night shift")
    await fingers.go_to(panel.get_by_role("textbox", name="Message to Night shift"))
    await fingers.type("Are you awake?")
    await fingers.press("Enter")
    await expect(panel.get_by_role("listitem").last).to_contain_text("Are you awake?")
    await expect(panel.get_by_text("Sent")).to_be_visible()
    assert await desk.stage.heard_by("Night shift") == ["Are you awake?"]


@requirement("C18", "C59")
async def test_the_next_key_reads_what_is_unread_until_nothing_is(desk: Desk, page: Page, fingers: Fingers) -> None:
    for name in ("Reader", "Writer"):
        await desk.stage.say(name, f"News from {name}")
    await expect(page).to_have_title(re.compile(r"^\(2\)"))
    for name in ("Reader", "Writer"):
        await fingers.press("n")
        panel = page.get_by_role("complementary", name=name)
        await expect(panel.get_by_text(f"News from {name}")).to_be_visible()
        await expect_focus(panel.get_by_role("heading", name=name))
    await expect(page.get_by_role("region", name="Needs attention")).to_contain_text("You’re all caught up")
    assert not (await page.title()).startswith("(")


@requirement("C59")
async def test_keys_send_again_what_was_not_sent(desk: Desk, page: Page, fingers: Fingers) -> None:
    desk.forgiven.append("net::ERR_CONNECTION_REFUSED")

    async def cut(route: Route) -> None:
        await route.abort("connectionrefused")

    await page.route("**/a2a", cut)
    await fingers.go_to(page.get_by_role("treeitem", name="Lead"))
    await fingers.press("r", "Enter")
    panel = page.get_by_role("complementary", name="Research")
    await fingers.go_to(panel.get_by_role("textbox"))
    await fingers.type("Hold this")
    await fingers.press("Enter")
    await expect(panel.get_by_text("Not sent")).to_be_visible()
    await page.unroute("**/a2a")
    await fingers.press("Shift+Tab", "Shift+Tab", "Shift+Tab", "Shift+Tab", "Shift+Tab")
    await fingers.use(panel.get_by_role("button", name="Retry"))
    await expect(panel.get_by_text("Not sent")).to_be_hidden()
    await expect(panel.get_by_text("Sent")).to_be_visible()
    assert await desk.stage.heard_by("Research") == ["Hold this"]


@requirement("C59")
async def test_keys_connect_an_agent_and_put_its_token_away(desk: Desk, page: Page, fingers: Fingers) -> None:
    await fingers.use(page.get_by_role("link", name="Connect", exact=True))
    await fingers.go_to(page.get_by_label("Name"))
    await fingers.type("Courier")
    await fingers.press("Tab")
    await fingers.type("Sup")
    await fingers.press("Tab")
    await fingers.type("Carries letters")
    await fingers.press("Enter")
    await expect_focus(page.get_by_role("heading", name="“Courier” created"))
    await fingers.use(page.get_by_role("button", name="Done"))
    await expect(page.get_by_text("The token is hidden")).to_be_visible()
    await fingers.use(page.get_by_role("button", name="Open chat"))
    await expect_focus(page.get_by_role("complementary", name="Courier").get_by_role("heading", name="Courier"))
    seats = await desk.stage.admin.get("/workspaces")
    assert [each["parent_id"] for each in seats if each["name"] == "Courier"] == [desk.stage.seats["Support"].id]


@requirement("C59")
async def test_keys_change_the_colours_and_a_reload_keeps_them(page: Page, fingers: Fingers) -> None:
    root = page.locator("html")
    await fingers.use(page.get_by_role("link", name="Settings"))
    await fingers.go_to(page.get_by_role("radio", name="System"))
    await fingers.press("ArrowDown", "ArrowDown")
    await expect(page.get_by_role("radio", name="Dark")).to_be_checked()
    await expect(root).to_have_attribute("data-theme", "dark")
    await page.reload()
    await expect(root).to_have_attribute("data-theme", "dark")
    await fingers.press("Control+k")
    await expect(page.get_by_role("dialog").get_by_role("combobox")).to_be_focused()
    await fingers.type("light")
    await fingers.press("Enter")
    await expect(root).to_have_attribute("data-theme", "light")
    assert view_of(page) == "settings"


@requirement("C59")
async def test_keys_fold_a_team_in_list_and_map_and_unfold_it(page: Page, fingers: Fingers) -> None:
    row, below = page.get_by_role("treeitem", name="Research"), page.get_by_role("treeitem", name="Reader")
    card = page.get_by_role("group", name=MAP).get_by_role("button", name="Reader")
    await fingers.go_to(page.get_by_role("treeitem", name="Lead"))
    await fingers.press("r", "ArrowLeft")
    await expect(row).to_have_attribute("aria-expanded", "false")
    await expect(below).to_be_hidden()
    await expect(card).to_be_hidden()
    await fingers.press("ArrowRight")
    await expect(below).to_be_visible()
    await expect(card).to_be_visible()
    assert await row.get_attribute("aria-expanded") == "true"


@requirement("C51", "C59", "C67")
async def test_keys_zoom_the_map_move_it_and_show_everything(page: Page, fingers: Fingers) -> None:
    zoom = page.get_by_role("group", name="Map controls")
    card = page.get_by_role("group", name=MAP).get_by_role("button", name="Lead Online")
    await fingers.go_to(page.get_by_role("group", name=MAP))
    at_first, fitted = await card.bounding_box(), (await camera_of(page))[2]
    await fingers.press("+")
    await expect(zoom).to_contain_text(f"{fitted * 125:.0f} %")
    await fingers.press("-", "-")
    await expect(zoom).to_contain_text(f"{fitted * 80:.0f} %")
    before = await card.bounding_box()
    await fingers.press("ArrowLeft", "ArrowUp")
    after = await card.bounding_box()
    assert before is not None
    assert after is not None
    assert after["x"] - before["x"] == pytest.approx(64)
    assert after["y"] - before["y"] == pytest.approx(64)
    await fingers.press("0")
    await expect(zoom).to_contain_text(f"{fitted * 100:.0f} %")
    assert await card.bounding_box() == at_first


@requirement("C59", "C62")
async def test_keys_open_an_agent_read_about_it_and_return_to_its_row(page: Page, fingers: Fingers) -> None:
    row = page.get_by_role("treeitem", name="Engineering")
    await fingers.go_to(page.get_by_role("treeitem", name="Lead"))
    await fingers.press("ArrowDown", "Enter")
    panel = page.get_by_role("complementary", name="Engineering")
    await expect_focus(panel.get_by_role("heading", name="Engineering"))
    await fingers.go_to(panel.get_by_role("tab", name="Chat"))
    await fingers.press("ArrowRight")
    await expect_focus(panel.get_by_role("tab", name="Messages"))
    await fingers.press("End")
    await expect_focus(panel.get_by_role("tab", name="About"))
    await fingers.use(panel.get_by_role("link", name="Quality"))
    await expect_focus(page.get_by_role("complementary", name="Quality").get_by_role("heading", name="Quality"))
    await page.go_back()
    await expect(panel.get_by_role("tab", name="About")).to_have_attribute("aria-selected", "true")
    await fingers.press("Escape")
    await expect(panel).to_be_hidden()
    await expect_focus(row)


@requirement("C55", "C59")
async def test_keys_narrow_the_list_to_a_word_and_show_all_again(page: Page, fingers: Fingers) -> None:
    await fingers.go_to(page.get_by_role("searchbox", name="Filter agents"))
    await fingers.type("line")
    await expect(page.get_by_role("treeitem")).to_have_count(4)
    await page.reload()
    await expect(page.get_by_role("treeitem")).to_have_count(4)
    await fingers.go_to(page.get_by_role("searchbox", name="Filter agents"))
    await fingers.type("zzz")
    await fingers.use(page.get_by_role("button", name="Show all agents"))
    await expect(page.get_by_role("treeitem")).to_have_count(12)
    assert view_of(page) == "org"


@requirement("C59", "C63")
async def test_keys_walk_through_the_chats_and_copy_a_message(desk: Desk, page: Page, fingers: Fingers) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for name in ("Reader", "Writer"):
        await desk.stage.say(name, f"News from {name}")
    await fingers.use(page.get_by_role("link", name="Chats"))
    await fingers.go_to(page.get_by_role("link", name="Writer"))
    await fingers.press("Enter")
    await expect_focus(page.get_by_role("textbox", name="Message to Writer"))
    chat = page.get_by_role("region", name="Chat with Writer")
    await fingers.press("Shift+Tab", "Shift+Tab", "Shift+Tab", "Shift+Tab")
    await fingers.use(chat.get_by_role("button", name="Copy message"))
    await expect(page.get_by_text("Copied")).to_be_attached()
    assert await page.evaluate("() => navigator.clipboard.readText()") == "News from Writer"
    await fingers.press("j")
    await expect_focus(page.get_by_role("link", name="Reader"))
    await fingers.press("Enter")
    await expect(page.get_by_role("region", name="Chat with Reader")).to_be_visible()


@requirement("C59")
async def test_keys_lead_out_and_the_way_back_is_shut(desk: Desk, page: Page, fingers: Fingers) -> None:
    await fingers.use(page.get_by_role("link", name="Settings"))
    await fingers.use(page.get_by_role("button", name="Log out"))
    await expect(page.get_by_role("heading", name="Log in to Molecule")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("heading", name="Log in to Molecule")).to_be_visible()
    assert (await page.request.get(desk.stage.server.url + "/session")).status == 401
