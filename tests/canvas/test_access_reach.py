"""Everything can be seen, reached and hit: with large text, on a small screen, by keys, by an unsteady hand."""

import re
from typing import Any

import pytest
from playwright.async_api import Page

from testing.canvas.page_user import Desk
from tests.canvas.expectations import expect
from tests.canvas.map_actions import camera_of
from tests.canvas.page_measurements import find_covered, find_lost, find_small, motions, note_motion
from tests.canvas.views import NARROW, OUTSIDE, VIEWS, WIDE, fill, open_outside
from tests.requirements import requirement

# 1280 x 1024 at 400 %.
ENLARGED = {"width": 320, "height": 256}
MOST_STOPS = 70
_PHONE = pytest.param(NARROW, id="phone", marks=pytest.mark.exhaustive)
_WIDE = pytest.param(WIDE, id="wide", marks=pytest.mark.exhaustive)


async def enlarge_text(page: Page) -> None:
    """What a browser does whose person has set a text size of 200 %."""
    session = await page.context.new_cdp_session(page)
    await session.send("Page.setFontSizes", {"fontSizes": {"standard": 32, "fixed": 26}})


@requirement("C65")
@pytest.mark.parametrize("size", [pytest.param(ENLARGED, id="400-percent"), _PHONE])
async def test_at_320_pixels_nothing_is_lost_and_nothing_scrolls_sideways(desk: Desk, size: dict[str, int]) -> None:
    await fill(desk.stage)
    page = await desk.open(viewport=size)
    found = []
    for name, show in VIEWS.items():
        await show(page, desk.stage)
        found += [f"{name}: {each}" for each in await find_lost(page)]
    for name, show in OUTSIDE.items():
        found += [f"{name}: {each}" for each in await find_lost(await open_outside(desk, show, viewport=size))]
    assert found == [], "\n".join(found)


@requirement("C65")
async def test_with_text_twice_as_large_nothing_is_lost(desk: Desk) -> None:
    await fill(desk.stage)
    page = await desk.open(viewport=WIDE)
    await enlarge_text(page)
    found = []
    for name, show in VIEWS.items():
        await show(page, desk.stage)
        found += [f"{name}: {each}" for each in await find_lost(page)]
    assert await page.evaluate("() => getComputedStyle(document.documentElement).fontSize") == "32px"
    assert found == [], "\n".join(found)


@requirement("C65")
@pytest.mark.parametrize("size", [ENLARGED, WIDE], ids=["400-percent", "wide-with-large-text"])
async def test_the_first_view_of_an_empty_organisation_loses_nothing(empty_desk: Desk, size: dict[str, int]) -> None:
    page = await empty_desk.open(viewport=size)
    if size is WIDE:
        await enlarge_text(page)
    await page.get_by_role("heading", name="No agents yet").wait_for()
    assert await find_lost(page) == []


@requirement("C65")
async def test_another_view_begins_at_its_top_however_far_the_last_was_scrolled(desk: Desk) -> None:
    page = await desk.open("/app/connect", viewport=NARROW)
    await page.get_by_role("button", name="Create workspace").scroll_into_view_if_needed()
    assert await page.locator("#view").evaluate("(view) => view.scrollTop") > 0
    await page.get_by_role("link", name="Settings").click()
    await page.get_by_role("heading", name="Settings").wait_for()
    assert await page.locator("#view").evaluate("(view) => view.scrollTop") == 0


@requirement("C67")
@pytest.mark.parametrize("size", [pytest.param(WIDE, id="wide"), _PHONE])
async def test_whatever_can_be_pressed_is_at_least_24_pixels_large(desk: Desk, size: dict[str, int]) -> None:
    await fill(desk.stage)
    page = await desk.open(viewport=size)
    found = []
    for name, show in VIEWS.items():
        await show(page, desk.stage)
        found += [f"{name}: {each}" for each in await find_small(page)]
    assert found == [], "\n".join(found)


@requirement("C51", "C67")
async def test_buttons_do_what_dragging_and_pinching_the_map_do(desk: Desk) -> None:
    page = await desk.open()
    zoom = page.get_by_role("group", name="Map controls")
    card = page.get_by_role("group", name="Map of the organisation").get_by_role("button", name="Lead Online")
    at_first, fitted = await card.bounding_box(), (await camera_of(page))[2]
    await zoom.get_by_role("button", name="Zoom in").click()
    await expect(zoom).to_contain_text(f"{fitted * 125:.0f} %")
    await zoom.get_by_role("button", name="Zoom out").click()
    await expect(zoom).to_contain_text(f"{fitted * 100:.0f} %")
    for way in ("left", "right", "up", "down"):
        before = await card.bounding_box()
        await zoom.get_by_role("button", name=f"Pan {way}").click()
        assert await card.bounding_box() != before
    await zoom.get_by_role("button", name="Fit to screen").click()
    assert await card.bounding_box() == at_first


@requirement("C67")
async def test_a_team_is_unfolded_by_a_click_where_it_was_folded_by_one(desk: Desk) -> None:
    page = await desk.open()
    scene = page.get_by_role("group", name="Map of the organisation")
    await page.locator(f"[data-fold='{desk.stage.seats['Research'].id}']").click()
    await expect(page.get_by_role("treeitem", name="Reader")).to_be_hidden()
    await expect(page.get_by_role("treeitem", name="Research")).to_have_attribute("aria-expanded", "false")
    await scene.get_by_text("+2").click()
    await expect(page.get_by_role("treeitem", name="Reader")).to_be_visible()
    assert await scene.get_by_role("button", name="Reader").is_visible()


@requirement("C68")
@pytest.mark.parametrize("size", [_WIDE, pytest.param({"width": 320, "height": 480}, id="small")])
async def test_the_focus_is_never_hidden_by_what_lies_above_a_view(desk: Desk, size: dict[str, int]) -> None:
    await fill(desk.stage)
    for number in range(12):
        await desk.stage.say("Writer", f"Chapter {number} is ready, and it is a long one: " + "so it goes. " * 12)
    page = await desk.open(viewport=size)
    found = []
    for name, show in VIEWS.items():
        await show(page, desk.stage)
        found += [f"{name}: {each}" for each in await find_covered(page, MOST_STOPS)]
    assert found == [], "\n".join(found)


@requirement("C68")
async def test_the_focus_is_not_hidden_by_the_banner_either(desk: Desk) -> None:
    await fill(desk.stage)
    page = await desk.open(viewport=NARROW)
    await page.route_web_socket(re.compile(r"/ws\?"), lambda socket: None)
    await page.get_by_role("tree").wait_for()
    await page.evaluate("() => window.dispatchEvent(new Event('offline'))")
    await expect(page.get_by_text("Connection lost, retrying.")).to_be_visible()
    assert await find_covered(page, MOST_STOPS) == []


@requirement("C69")
@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
async def test_nothing_moves_for_whoever_wants_no_motion(desk: Desk, motion: Any) -> None:
    await fill(desk.stage)
    page = await desk.open("/app/settings", reduced_motion=motion)
    await note_motion(page)
    await page.reload()
    found = []
    for name, show in VIEWS.items():
        await show(page, desk.stage)
        found += [f"{name}: {each}" for each in await motions(page)]
    await VIEWS["organisation"](page, desk.stage)
    await page.locator(f"[data-fold='{desk.stage.seats['Engineering'].id}']").click()
    await page.get_by_role("button", name="Zoom in").hover()
    await page.get_by_role("link", name="Chats").hover()
    await expect(page.get_by_role("treeitem", name="Backend")).to_be_hidden()
    await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    found += await motions(page)
    assert (found == []) == (motion == "reduce"), found
