"""What a person changes in the page: names, roles, teams; and the menus that offer it."""

import pytest
from playwright.async_api import Locator, Page

from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from testing.waits import eventually
from tests.canvas.expectations import expect
from tests.requirements import requirement

READING = ["Open chat", "About"]


def card(page: Page, stage: Stage, name: str) -> Locator:
    """An agent on the map."""
    return page.locator(f"[data-id='{stage.seats[name].id}']")


async def menu_of(page: Page, stage: Stage, name: str) -> Locator:
    """The menu of a card, opened by the pointer."""
    await card(page, stage, name).click(button="right")
    menu = page.get_by_role("menu", name=f"Actions for {name}")
    await expect(menu).to_be_visible()
    return menu


async def names_of(stage: Stage, parent: str) -> list[str]:
    """The names below a workspace, oldest first."""
    rows = await stage.admin.get("/workspaces")
    return [row["name"] for row in rows if row["parent_id"] == stage.seats[parent].id]


# -- editing -----------------------------------------------------------------------------------------------------------


@requirement("C113", "C114")
async def test_name_role_and_runtime_are_edited_and_every_open_page_follows(desk: Desk) -> None:
    stage = desk.stage
    page, other = await desk.open(), await desk.open("/app/chat")
    menu = await menu_of(page, stage, "Reader")
    await menu.get_by_role("menuitem", name="Edit…").click()
    dialog = page.get_by_role("dialog", name="Edit Reader")
    await expect(dialog.get_by_label("Name")).to_be_focused()
    await dialog.get_by_label("Name").fill("Scout")
    await dialog.get_by_label("Role").fill("Reads what is new")
    await dialog.get_by_label("Runtime").select_option("codex")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_be_hidden()
    await expect(page.get_by_role("treeitem", name="Scout")).to_be_visible()
    await expect(card(page, stage, "Reader")).to_contain_text("Reads what is new")
    await expect(other.get_by_role("link", name="Scout")).to_be_visible()
    row = await stage.admin.get(f"/workspaces/{stage.seats['Reader'].id}")
    assert (row["name"], row["role"], row["runtime"]) == ("Scout", "Reads what is new", "codex")


@requirement("C113")
async def test_only_what_a_person_changed_is_sent(desk: Desk) -> None:
    stage, path = desk.stage, f"/workspaces/{desk.stage.seats['Reader'].id}"
    page = await desk.open()
    menu = await menu_of(page, stage, "Reader")
    await menu.get_by_role("menuitem", name="Edit…").click()
    dialog = page.get_by_role("dialog", name="Edit Reader")
    await dialog.get_by_label("Role").fill("Reads")
    await stage.admin.call("PATCH", path, body={"name": "Renamed meanwhile"})
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_be_hidden()
    row = await stage.admin.get(path)
    assert (row["name"], row["role"]) == ("Renamed meanwhile", "Reads")


@requirement("C113")
async def test_a_name_that_the_server_refuses_is_said_in_the_dialog(desk: Desk) -> None:
    desk.forgiven.append("status of 422")
    page = await desk.open()
    menu = await menu_of(page, desk.stage, "Reader")
    await menu.get_by_role("menuitem", name="Edit…").click()
    dialog = page.get_by_role("dialog", name="Edit Reader")
    await dialog.get_by_label("Name").fill("Evil\u202eeman")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_role("alert")).to_be_visible()
    await expect(dialog).to_be_visible()


@requirement("C113")
async def test_an_owner_renames_the_organisation_in_the_settings(desk: Desk) -> None:
    page, other = await desk.open("/app/settings"), await desk.open()
    section = page.get_by_role("region", name="Organisation")
    await expect(section.get_by_role("button", name="Rename")).to_be_disabled()
    await section.get_by_label("Name").fill("Acme")
    await section.get_by_role("button", name="Rename").click()
    for each in (page, other):
        await expect(each.get_by_role("heading", level=1, name="Acme")).to_be_visible()
        await eventually(each.title, lambda title: "· Acme ·" in title)
    await expect(page.get_by_role("region", name="Account")).to_contain_text("in Acme")
    await other.reload()
    await expect(other.get_by_role("heading", level=1, name="Acme")).to_be_visible()


@requirement("C113")
@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_only_owners_rename_the_organisation(desk: Desk, role: str) -> None:
    page = await desk.enter(await desk.context(), "/app/settings", await desk.stage.link_for(role))
    await expect(page.get_by_role("button", name="Log out")).to_be_visible()
    assert await page.get_by_role("button", name="Rename").count() == 0


# -- the menu of an agent ----------------------------------------------------------------------------------------------


@requirement("C114")
async def test_the_menu_has_what_the_role_allows(desk: Desk) -> None:
    stage = desk.stage
    writing = ["Edit…", "Add agent below…", "Create team below…", "Move…", "Pause"]
    page = await desk.open()
    menu = await menu_of(page, stage, "Research")
    await expect(menu.get_by_role("menuitem")).to_have_text(
        [*READING, "Collapse team", *writing, "Remove team…", "Remove…"]
    )
    await page.keyboard.press("Escape")
    await expect(menu).to_be_hidden()
    menu = await menu_of(page, stage, "Reader")
    await expect(menu.get_by_role("menuitem")).to_have_text([*READING, *writing, "Remove…"])
    viewer = await desk.enter(await desk.context(), "/app/org", await stage.link_for("viewer"))
    menu = await menu_of(viewer, stage, "Reader")
    await expect(menu.get_by_role("menuitem")).to_have_text(READING)


@requirement("C114", "C59")
@pytest.mark.parametrize("key", ["Shift+F10", "ContextMenu"])
async def test_the_menu_opens_by_keys_and_gives_the_focus_back(desk: Desk, key: str) -> None:
    page = await desk.open()
    row = page.get_by_role("treeitem", name="Lead")
    await row.focus()
    await page.keyboard.press(key)
    menu = page.get_by_role("menu", name="Actions for Lead")
    await expect(menu.get_by_role("menuitem", name="Open chat")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await expect(menu.get_by_role("menuitem", name="About")).to_be_focused()
    await page.keyboard.press("End")
    await expect(menu.get_by_role("menuitem", name="Remove…")).to_be_focused()
    await page.keyboard.press("e")
    await expect(menu.get_by_role("menuitem", name="Edit…")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(menu).to_be_hidden()
    await expect(row).to_be_focused()
    await page.keyboard.press(key)
    await page.keyboard.press("e")
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Edit Lead")
    await expect(dialog).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await expect(row).to_be_focused()


@requirement("C114")
async def test_the_panel_has_the_menu_too(desk: Desk) -> None:
    page = await desk.open(f"/app/org?focus={desk.stage.seats['Reader'].id}&panel=chat")
    button = page.get_by_role("button", name="Actions for Reader")
    await button.click()
    menu = page.get_by_role("menu", name="Actions for Reader")
    await menu.get_by_role("menuitem", name="About").click()
    await expect(page.get_by_role("tab", name="About")).to_have_attribute("aria-selected", "true")
    await button.click()
    await expect(menu).to_be_visible()
    await button.click()
    await expect(menu).to_be_hidden()
    await button.click()
    await page.get_by_role("heading", level=1).click()
    await expect(menu).to_be_hidden()


@requirement("C114", "C27")
async def test_an_agent_is_paused_and_resumed_by_its_menu(desk: Desk) -> None:
    stage, page = desk.stage, await desk.open()
    for item, shown in (("Pause", "Paused"), ("Resume", "Online")):
        menu = await menu_of(page, stage, "Reader")
        await menu.get_by_role("menuitem", name=item).click()
        await expect(card(page, stage, "Reader")).to_contain_text(shown)
        await expect(menu).to_be_hidden()


@requirement("C114")
async def test_an_agent_is_added_below_another_one(desk: Desk) -> None:
    stage, page = desk.stage, await desk.open()
    menu = await menu_of(page, stage, "Reader")
    await menu.get_by_role("menuitem", name="Add agent below…").click()
    dialog = page.get_by_role("dialog", name="Add agent below Reader")
    await dialog.get_by_label("Name").fill("Helper")
    await dialog.get_by_role("button", name="Create workspace").click()
    await expect(page.get_by_text("This token is shown only once")).to_be_visible()
    assert await names_of(stage, "Reader") == ["Helper"]


@requirement("C114")
async def test_a_team_is_created_below_an_agent_and_collapsed_on_the_map(desk: Desk) -> None:
    stage, page = desk.stage, await desk.open()
    menu = await menu_of(page, stage, "Reader")
    await menu.get_by_role("menuitem", name="Create team below…").click()
    dialog = page.get_by_role("dialog", name="Create team below Reader")
    await expect(dialog.get_by_role("button", name="Create 0")).to_be_disabled()
    await dialog.get_by_label("Members").fill("Tester: runs tests\n\nClerk")
    await dialog.get_by_role("button", name="Create 2 workspaces").click()
    await expect(page.get_by_role("treeitem", name="Tester")).to_be_visible()
    assert await names_of(stage, "Reader") == ["Tester", "Clerk"]
    menu = await menu_of(page, stage, "Reader")
    await menu.get_by_role("menuitem", name="Collapse team").click()
    await expect(page.get_by_role("treeitem", name="Tester")).to_be_hidden()


# -- the menu of the person --------------------------------------------------------------------------------------------


@requirement("C115")
async def test_the_persons_menu_shows_who_is_logged_in_and_changes_the_theme(desk: Desk) -> None:
    page = await desk.enter(await desk.context(), "/app/org", await desk.stage.link_for("operator"))
    button = page.get_by_role("button", name="Account of A operator")
    await button.click()
    menu = page.get_by_role("menu", name="Account")
    await expect(page.get_by_text("A operator", exact=True)).to_be_visible()
    await expect(page.get_by_text("operator", exact=True)).to_be_visible()
    await expect(menu.get_by_role("menuitemradio", name="System theme")).to_have_attribute("aria-checked", "true")
    await menu.get_by_role("menuitemradio", name="Dark theme").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await expect(button).to_be_focused()
    await button.click()
    await menu.get_by_role("menuitem", name="Settings").click()
    await expect(page.get_by_role("heading", name="Settings")).to_be_visible()


@requirement("C115", "C74")
async def test_a_person_logs_out_by_the_menu(desk: Desk) -> None:
    page = await desk.open()
    await page.get_by_role("button", name="Account of Owner").click()
    await page.get_by_role("menuitem", name="Log out").click()
    await expect(page.get_by_role("heading", name="Log in to Molecule")).to_be_visible()
