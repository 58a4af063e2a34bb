"""Texts that say what they mean: the title of the page, the filter, durations, why a prompt was rebuilt."""

from testing.canvas.page_user import Desk
from tests.canvas.delegation_actions import answer_work, by_http, take_work
from tests.canvas.expectations import expect
from tests.canvas.prompt_actions import tell_prompt
from tests.requirements import requirement

_CAMERA = "() => document.querySelector('[data-id]').parentElement.style.transform"


@requirement("C64")
async def test_the_title_names_the_view_and_its_agent(desk: Desk) -> None:
    page = await desk.open()
    await expect(page).to_have_title("Org · Default · Molecule")
    for name in ("Inbox", "Chats", "Problems", "Settings"):
        await page.get_by_role("navigation", name="Main").get_by_role("link", name=name).click()
        await expect(page).to_have_title(f"{name} · Default · Molecule")
    await page.goto(f"{desk.stage.server.url}/app/chat/{desk.stage.seats['Reader'].id}")
    await expect(page).to_have_title("Reader · Default · Molecule")


@requirement("C56")
async def test_enter_in_the_filter_goes_through_the_matches_and_the_map_shows_the_only_one(desk: Desk) -> None:
    page = await desk.open()
    stage = page.get_by_role("group", name="Map of the organisation")
    for _ in range(12):
        await stage.press("ArrowRight")
    night = page.locator(f"[data-id='{desk.stage.seats['Night shift'].id}']")
    field = page.get_by_role("searchbox", name="Filter agents")
    camera = await page.evaluate(_CAMERA)
    await field.fill("night")
    await expect(page.get_by_role("treeitem", name="Night shift")).to_be_visible()
    await expect(night).to_be_in_viewport(ratio=0.999)
    assert await page.evaluate(_CAMERA) != camera
    await field.fill("line")
    for name in ("First line", "Second line", "First line"):
        await field.press("Enter")
        await expect(page.get_by_role("treeitem", name=name)).to_have_attribute("aria-selected", "true")
    await expect(field).to_be_focused()


@requirement("C79")
async def test_a_prompt_says_in_words_which_event_rebuilt_it(desk: Desk) -> None:
    stage = desk.stage
    await tell_prompt(stage, "Writer", {(1, "system-prompt.md"): "Write."}, "start")
    event = f"WORKSPACE_OFFLINE {stage.seats['Reader'].id}"
    await tell_prompt(stage, "Writer", {(1, "system-prompt.md"): "Write well."}, "event", event)
    page = await desk.open(f"/app/prompt/{stage.seats['Writer'].id}")
    facts = page.get_by_role("region", name="Prompt build")
    await expect(facts).to_contain_text("Rebuilt because Reader went offline")
    await expect(facts).not_to_contain_text("WORKSPACE_OFFLINE")


@requirement("C26")
async def test_short_times_are_said_as_such(desk: Desk) -> None:
    stage = desk.stage
    await by_http(stage, "First line", "Second line", "Answer at once")
    await take_work(stage, "Second line")
    await answer_work(stage, "Second line", "Done")
    page = await desk.open(f"/app/org?focus={stage.seats['First line'].id}&panel=work")
    await expect(page.get_by_role("list", name="Delegations").locator("[data-elapsed]")).not_to_have_text("0:00")


@requirement("C64")
async def test_a_name_in_the_tree_has_the_room_of_the_word_online(desk: Desk) -> None:
    name = "Customer success north"
    await desk.stage.add(name, "Support")
    page = await desk.open()
    row = page.get_by_role("treeitem", name=f"{name} Online", exact=True)
    label = row.get_by_text(name, exact=True)
    await expect(label).to_be_visible()
    assert await label.evaluate("label => label.scrollWidth <= label.clientWidth")
