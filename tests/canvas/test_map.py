"""The map tells the truth: lines run in gutters and can be followed, names can be read or are left out."""

import re

import pytest
from playwright.async_api import Page

from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from testing.message_chains import speak
from testing.waits import eventually
from tests.canvas.delegation_actions import by_http, take_work
from tests.canvas.expectations import expect
from tests.canvas.map_actions import (
    camera_of,
    cards_outside,
    crossed_by_lines,
    painted_spot,
    stage_of,
    unreadable_texts,
)
from tests.requirements import requirement

PAINTED = 170
"""More agents than the map renders as cards."""


async def lively(desk: Desk) -> Page:
    """A page whose map has lines of all kinds."""
    stage = desk.stage
    page = await desk.open()
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    pairs = [("Lead", "Support"), ("Lead", "Engineering"), ("Engineering", "Quality"), ("Engineering", "Backend")]
    pairs += [("Backend", "Frontend"), ("Research", "Support"), ("Lead", "Support")]
    for number, (source, target) in enumerate(pairs):
        await by_http(stage, source, target, f"Look after part {number} until noon")
    await take_work(stage, "Quality")
    await expect(page.locator("[data-edge=waiting]")).to_have_count(5)
    await expect(page.locator("[data-edge=working]")).to_have_count(1)
    return page


async def crowd(stage: Stage) -> None:
    """Gives a team more agents than the map renders."""
    for number in range(PAINTED):
        await stage.add(f"Clerk {number:03}", "Research")


@requirement("C51")
async def test_wheel_and_trackpad_pan_and_zoom_with_ctrl(desk: Desk) -> None:
    page = await desk.open()
    await stage_of(page).hover()
    x, y, zoom = await camera_of(page)
    await page.mouse.wheel(30, 50)
    await eventually(lambda: camera_of(page), lambda now: now == pytest.approx([x - 30, y - 50, zoom], abs=0.1))
    await page.keyboard.down("Shift")
    await page.mouse.wheel(0, 20)
    await page.keyboard.up("Shift")
    await eventually(lambda: camera_of(page), lambda now: now == pytest.approx([x - 50, y - 50, zoom], abs=0.1))
    await page.keyboard.down("Control")
    await page.mouse.wheel(0, -50)
    await page.keyboard.up("Control")
    assert (await eventually(lambda: camera_of(page), lambda now: now[2] > zoom * 1.2))[2] > zoom


@requirement("C51", "C52")
async def test_with_the_space_bar_held_a_drag_on_a_card_pans_while_the_org_is_edited(desk: Desk) -> None:
    page = await desk.open()
    await page.get_by_role("button", name="Edit org").click()
    card = page.locator(f"[data-id='{desk.stage.seats['Writer'].id}']")
    before = await camera_of(page)
    await page.keyboard.down("Space")
    await card.drag_to(page.locator(f"[data-id='{desk.stage.seats['Quality'].id}']"))
    await page.keyboard.up("Space")
    assert await camera_of(page) != before
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.get_by_role("button", name="Edit org")).to_have_attribute("aria-pressed", "true")


@requirement("C54")
async def test_no_line_is_over_a_card_or_a_title_at_any_zoom(desk: Desk) -> None:
    page = await lively(desk)
    found = await crossed_by_lines(page)
    for _ in range(8):
        await page.get_by_role("button", name="Zoom out").click()
        found += await crossed_by_lines(page)
    assert found == [], "\n".join(found)


@requirement("C54")
async def test_a_line_says_what_it_is_and_opens_it(desk: Desk) -> None:
    stage = desk.stage
    page = await lively(desk)
    ids = {name: seat.id for name, seat in stage.seats.items()}
    several = page.locator(f"[data-link='{ids['Lead']} {ids['Support']} waiting']")
    for text in ("Waiting · 2", "Look after"):
        await expect(page.locator("[data-link] text").filter(has_text=text).first).to_be_visible()
    await expect(several.locator("title").first).to_have_text("Lead → Support: waiting · 2")
    hit = page.locator(f"g[data-link='{ids['Engineering']} {ids['Quality']} working'] path").last
    assert await hit.evaluate("path => getComputedStyle(path).cursor") == "pointer"
    await follow(page, f"{ids['Engineering']} {ids['Quality']} working")
    await expect(page).to_have_url(re.compile("/app/delegations/"))
    await page.go_back()
    await follow(page, f"{ids['Lead']} {ids['Support']} waiting")
    await expect(page).to_have_url(re.compile(f"focus={ids['Lead']}&panel=work"))
    await speak(stage.seats["Backend"], ids["Quality"], "Where is the spade?")
    await expect(page.locator("[data-edge=message]")).to_have_count(1)
    await follow(page, f"{ids['Backend']} {ids['Quality']} message")
    await expect(page).to_have_url(re.compile(f"/chat/{ids['Backend']}\\?peer={ids['Quality']}"))


async def follow(page: Page, link: str) -> None:
    """Click on a line, in the middle of its longest part."""
    x, y = await page.locator(f"g[data-link='{link}'] [data-line]").evaluate("""(line) => {
      const matrix = line.getScreenCTM();
      const stage = document.querySelector("[aria-label='Map of the organisation']");
      const { left, right, top, bottom } = stage.getBoundingClientRect();
      const { link } = line.parentElement.dataset;
      for (let share = 0.02; share < 1; share += 0.02) {
        const { x, y } = line.getPointAtLength(line.getTotalLength() * share).matrixTransform(matrix);
        if (x < left || x > right || y < top || y > bottom) continue;
        if (document.elementFromPoint(x, y)?.closest("[data-link]")?.dataset.link === link) return [x, y];
      }
      return [0, 0];
    }""")
    await page.mouse.click(x, y)


@requirement("C51")
async def test_no_text_of_the_map_is_too_small_or_over_another_one_at_any_zoom(desk: Desk) -> None:
    page = await lively(desk)
    found = await unreadable_texts(page)
    for _ in range(12):
        await page.get_by_role("button", name="Zoom out").click()
        found += await unreadable_texts(page)
    assert found == [], "\n".join(found)


@requirement("C51")
async def test_a_panel_that_opens_leaves_all_of_a_fitted_map_in_view(desk: Desk) -> None:
    page = await desk.open()
    await expect(page.locator("[data-id]")).to_have_count(12)
    assert await cards_outside(page) == []
    await page.locator(f"[data-id='{desk.stage.seats['Night shift'].id}']").click()
    await expect(page.get_by_role("complementary", name="Night shift")).to_be_visible()
    await eventually(lambda: cards_outside(page), lambda now: now == [])
    assert await unreadable_texts(page) == []
    await page.get_by_role("button", name="Zoom in").click()
    await page.get_by_role("button", name="Zoom in").click()
    await page.get_by_role("treeitem", name="Frontend").click()
    await expect(page.locator(f"[data-id='{desk.stage.seats['Frontend'].id}']")).to_be_in_viewport(ratio=0.999)


@requirement("C51")
async def test_a_small_organisation_is_enlarged_to_fill_the_map(desk: Desk) -> None:
    page = await desk.open(viewport={"width": 2560, "height": 1440})
    await expect(page.locator("[data-id]")).to_have_count(12)
    assert (await camera_of(page))[2] == pytest.approx(1.5)


@requirement("C51", "C54")
async def test_the_painted_map_collapses_and_expands_teams_and_follows_lines(desk: Desk) -> None:
    stage = desk.stage
    await crowd(stage)
    page = await desk.open()
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    await expect(page.locator("canvas").first).to_be_visible()
    await by_http(stage, "Lead", "Support", "Look after the mail")
    await page.mouse.click(*await painted_spot(page, "Lead → Support"))
    await expect(page).to_have_url(re.compile("/app/delegations/"))
    await page.go_back()
    await page.mouse.click(*await painted_spot(page, "Collapse team: Engineering"))
    await expect(page.get_by_role("treeitem", name="Engineering")).to_have_attribute("aria-expanded", "false")
    await page.mouse.click(*await painted_spot(page, "Expand team: Engineering"))
    await expect(page.get_by_role("treeitem", name="Engineering")).to_have_attribute("aria-expanded", "true")


@requirement("C51")
async def test_the_minimap_moves_the_view_and_can_be_switched_off(desk: Desk) -> None:
    page = await desk.open()
    mini = page.locator("[data-minimap]")
    await expect(page.locator("[data-id]")).to_have_count(12)
    await expect(mini).to_be_hidden()  # all is in view
    for _ in range(4):
        await page.get_by_role("button", name="Zoom in").click()
    await expect(mini).to_be_visible()
    assert await mini.get_attribute("aria-hidden") == "true"
    box = await mini.bounding_box()
    assert box is not None
    await page.mouse.click(box["x"] + 4, box["y"] + 4)
    first = await camera_of(page)
    await page.mouse.down()
    await page.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 4)
    await page.mouse.up()
    assert (await camera_of(page))[0] < first[0] - 100
    await page.get_by_role("button", name="Minimap").click()
    await expect(mini).to_have_count(0)
    await page.reload()
    await expect(page.locator("[data-id]")).to_have_count(12)
    await expect(page.get_by_role("button", name="Minimap")).to_have_attribute("aria-pressed", "false")
