"""A delegation and all below it: a tree that grows, a time line of waiting and working, children opened in place."""

import pytest
from playwright.async_api import Locator, Page

from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from tests.canvas.axe import find_barriers
from tests.canvas.delegation_actions import Begin, answer_work, by_http, decline_work, take_work
from tests.canvas.expectations import expect
from tests.canvas.page_measurements import find_lost, find_small
from tests.canvas.views import NARROW, WIDE
from tests.requirements import requirement


async def three_levels(stage: Stage, begin: Begin) -> tuple[str, str, str]:
    """Lead asks Engineering, which asks Backend, which asks Quality; the three delegations."""
    first = await begin(stage, "Lead", "Engineering", "Make it fast")
    await take_work(stage, "Engineering")
    second = await begin(stage, "Engineering", "Backend", "Measure the query")
    await take_work(stage, "Backend")
    third = await begin(stage, "Backend", "Quality", "Write a test")
    return first, second, third


def row(page: Page, delegation_id: str) -> Locator:
    """A delegation in the tree."""
    return page.locator(f"[role=treeitem][data-node='{delegation_id}']")


@requirement("C30w")
async def test_a_tree_of_three_levels_grows_and_folds_nothing_that_is_open(desk: Desk, begin: Begin) -> None:
    stage = desk.stage
    first = await begin(stage, "Lead", "Engineering", "Make it fast")
    page = await desk.open(f"/app/delegations/{first}")
    await expect(row(page, first)).to_have_attribute("aria-level", "1")
    await take_work(stage, "Engineering")
    await expect(row(page, first)).to_contain_text("Working")
    second = await begin(stage, "Engineering", "Backend", "Measure the query")
    await expect(row(page, second)).to_have_attribute("aria-level", "2")
    await row(page, second).evaluate("element => { window.held = element; }")
    await take_work(stage, "Backend")
    third = await begin(stage, "Backend", "Quality", "Write a test")
    await expect(row(page, third)).to_have_attribute("aria-level", "3")
    assert await row(page, second).evaluate("element => element === window.held")
    await take_work(stage, "Quality")
    await decline_work(stage, "Quality", "no disk")
    await expect(row(page, third)).to_contain_text("no disk")
    await expect(row(page, first)).to_contain_text("3 delegations, 2 open, 1 failed")
    # Growth under a folded branch leaves it folded.
    await row(page, second).locator("[data-twist]").click()
    await expect(row(page, third)).to_have_count(0)
    fourth = await begin(stage, "Backend", "Frontend", "Count the requests")
    await expect(row(page, second)).to_contain_text("3 delegations")
    await expect(row(page, fourth)).to_have_count(0)


@requirement("C32")
async def test_the_time_line_tells_waiting_from_working_and_is_zoomed_by_keys(desk: Desk) -> None:
    stage = desk.stage
    first, second, third = await three_levels(stage, by_http)
    page = await desk.open(f"/app/delegations/{first}")
    line = page.get_by_role("region", name="Timeline")
    bars = "element => [...element.querySelectorAll('[data-bar]')].map(each => each.dataset.bar)"
    for each, last in ((first, "working"), (second, "working"), (third, "waiting")):
        track = line.locator(f"[data-track='{each}']")
        await expect(track.locator("[data-bar]").last).to_have_attribute("data-bar", last)
        assert (await track.evaluate(bars))[-1] == last
    looks = "element => getComputedStyle(element).backgroundImage.startsWith('repeating-linear-gradient')"
    assert await line.locator("[data-bar=waiting]").last.evaluate(looks)
    assert not await line.locator("[data-bar=working]").first.evaluate(looks)
    await expect(line.get_by_role("listitem").last).to_contain_text("waited")
    box = line.get_by_role("group", name="Timeline bars")
    await box.focus()
    await page.keyboard.press("+")
    await page.keyboard.press("+")
    await expect(line.get_by_role("status")).to_have_text("225 %")
    wide = "element => element.scrollWidth > element.clientWidth"
    assert await box.evaluate(wide)
    await page.keyboard.press("0")
    await expect(line.get_by_role("status")).to_have_text("100 %")
    await page.mouse.move(*await middle(box))
    await page.mouse.wheel(0, -100)
    await expect(line.get_by_role("status")).to_have_text("150 %")


async def middle(box: Locator) -> tuple[float, float]:
    """Where the pointer is in the middle of it."""
    await box.scroll_into_view_if_needed()
    found = await box.bounding_box()
    assert found is not None
    return found["x"] + found["width"] / 2, found["y"] + found["height"] / 2


@requirement("C33")
async def test_a_child_opens_in_place_and_the_breadcrumb_leads_back_to_the_same_place(desk: Desk) -> None:
    stage = desk.stage
    first, second, _ = await three_levels(stage, by_http)
    page = await desk.open(f"/app/delegations/{first}", viewport={"width": 900, "height": 500})
    await row(page, second).scroll_into_view_if_needed()
    await page.locator("#view").evaluate("element => { element.scrollTop = 200; }")
    scrolled = "element => element.scrollTop"
    before = await page.locator("#view").evaluate(scrolled)
    assert before > 100
    await row(page, second).click()
    await expect(page).to_have_url(f"{stage.server.url}/app/delegations/{first}?node={second}")
    await expect(page.get_by_role("heading", name="Engineering delegated to Backend")).to_be_visible()
    await expect(page.get_by_role("region", name="Task")).to_contain_text("Measure the query")
    trail = page.get_by_role("navigation", name="Breadcrumb")
    await trail.get_by_role("link", name="Engineering").click()
    await expect(page.get_by_role("heading", name="Lead delegated to Engineering")).to_be_visible()
    await expect(row(page, second)).to_be_visible()
    assert abs(await page.locator("#view").evaluate(scrolled) - before) <= 1


@requirement("C33", "C30w")
async def test_a_person_walks_through_work_without_a_pointer(desk: Desk) -> None:
    stage = desk.stage
    first, second, third = await three_levels(stage, by_http)
    page = await desk.open("/app/org")
    await page.get_by_role("tree").wait_for()
    await page.locator("#view").focus()
    await page.keyboard.press("w")
    await expect(page).to_have_url(f"{stage.server.url}/app/delegations/{third}")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("make it fast")
    await page.get_by_role("option", name="Make it fast").wait_for()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Lead delegated to Engineering")).to_be_visible()
    await row(page, first).focus()
    await page.keyboard.press("ArrowDown")
    await expect(row(page, second)).to_be_focused()
    await page.keyboard.press("ArrowLeft")
    await expect(row(page, third)).to_have_count(0)
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowRight")
    await expect(row(page, third)).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Backend delegated to Quality")).to_be_visible()
    await expect(page).to_have_url(f"{stage.server.url}/app/delegations/{first}?node={third}")


@requirement("C21", "C30w")
async def test_the_whole_answer_is_there_when_it_has_come(desk: Desk, begin: Begin) -> None:
    stage = desk.stage
    work = await begin(stage, "Lead", "Engineering", "Say much " * 40)
    page = await desk.open(f"/app/delegations/{work}")
    await expect(page.get_by_role("region", name="Task")).to_contain_text("Say much " * 39)
    await take_work(stage, "Engineering")
    await answer_work(stage, "Engineering", "word " * 100 + "and the end")
    await expect(page.get_by_role("region", name="Answer")).to_contain_text("and the end")
    await expect(page.get_by_role("region", name="History")).to_contain_text("Answered")


@pytest.mark.long
@requirement("C64")
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
async def test_the_work_keeps_nobody_out(desk: Desk, size: dict[str, int]) -> None:
    stage = desk.stage
    first, second, third = await three_levels(stage, by_http)
    await take_work(stage, "Quality")
    await decline_work(stage, "Quality", "no disk")
    page = await desk.open(f"/app/delegations/{first}", viewport=size, reduced_motion="reduce")
    found = []
    for path in (first, f"{first}?node={second}", third):
        await page.goto(f"{stage.server.url}/app/delegations/{path}")
        await page.get_by_role("region", name="History").wait_for()
        found += await find_lost(page) + await find_small(page)
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            found += [f"{path}, {scheme}: {each}" for each in await find_barriers(page)]
    assert found == [], "\n".join(found)
