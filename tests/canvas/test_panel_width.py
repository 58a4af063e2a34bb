"""The border of the panel: width by drag, keys and a button, remembered in the browser, with a map that follows."""

from playwright.async_api import Locator, Page

from testing.canvas.page_user import Desk
from testing.waits import eventually
from tests.canvas.expectations import expect
from tests.canvas.map_actions import camera_of
from tests.canvas.views import NARROW
from tests.requirements import requirement

_FITS = """() => {
  const stage = document.querySelector("[aria-label='Map of the organisation']").getBoundingClientRect();
  return [...document.querySelectorAll("[data-id]")].every((card) => {
    const { left, right } = card.getBoundingClientRect();
    return left >= stage.left && right <= stage.right;
  });
}"""


async def open_panel(desk: Desk, **choices: object) -> tuple[Page, Locator]:
    """A page with the panel of Backend, and that panel."""
    page = await desk.open(f"/app/org?focus={desk.stage.seats['Backend'].id}&panel=chat", **choices)
    return page, page.get_by_role("complementary", name="Backend")


async def drag(page: Page, start: float, end: float) -> None:
    """Drag the border from a place to another."""
    await page.mouse.move(start, 400)
    await page.mouse.down()
    await page.mouse.move(end, 420, steps=6)
    await page.mouse.up()


async def width_of(panel: Locator) -> float:
    """The width of the panel in pixels."""
    box = await panel.bounding_box()
    assert box is not None
    return box["width"]


@requirement("C51", "C67")
async def test_the_border_of_the_panel_is_dragged_and_the_map_is_fitted_anew(desk: Desk) -> None:
    page, panel = await open_panel(desk)
    border = panel.get_by_role("separator", name="Width of the panel")
    before, zoom = await width_of(panel), (await camera_of(page))[2]
    box = await border.bounding_box()
    assert box is not None and box["width"] >= 24
    middle = box["x"] + box["width"] / 2
    await drag(page, middle, middle + 64)
    await expect(border).to_have_attribute("aria-valuenow", "22")
    assert abs(before - await width_of(panel) - 64) <= 2
    await eventually(lambda: page.evaluate(_FITS), bool)
    assert (await camera_of(page))[2] > zoom

    await drag(page, middle + 64, middle - 240)
    await expect(border).to_have_attribute("aria-valuenow", "41")
    agent = page.locator(f"[data-id='{desk.stage.seats['Backend'].id}']")
    await expect(agent).to_be_in_viewport(ratio=0.999)
    shown, seen = await agent.bounding_box(), await panel.bounding_box()
    assert shown is not None and seen is not None and shown["x"] + shown["width"] <= seen["x"]

    await drag(page, middle - 240, 0)
    scene = page.get_by_role("group", name="Map of the organisation")
    widest = await scene.bounding_box()
    assert widest is not None and widest["width"] >= 200  # the map is never covered

    await border.dblclick()
    await expect(border).to_have_attribute("aria-valuenow", "26")
    assert await width_of(panel) == before
    assert abs((await camera_of(page))[2] - zoom) < 0.01


@requirement("C59", "C67")
async def test_keys_and_a_button_change_the_width_and_the_browser_remembers_it(desk: Desk) -> None:
    page, panel = await open_panel(desk)
    border = panel.get_by_role("separator", name="Width of the panel")
    await border.focus()
    for key, width in (("ArrowLeft", "27"), ("Shift+ArrowLeft", "32"), ("ArrowRight", "31"), ("Home", "20")):
        await border.press(key)
        await expect(border).to_have_attribute("aria-valuenow", width)
    await border.press("Enter")
    await expect(border).to_have_attribute("aria-valuenow", "26")
    await panel.get_by_role("button", name="Widen panel").click()
    await expect(border).to_have_attribute("aria-valuenow", "44")
    wide = await width_of(panel)

    await page.reload()
    await expect(border).to_have_attribute("aria-valuenow", "44")
    assert await width_of(panel) == wide
    await page.get_by_role("treeitem", name="Reader").click()
    reader = page.get_by_role("complementary", name="Reader")
    assert await width_of(reader) == wide
    await reader.get_by_role("button", name="Narrow panel").click()
    await expect(reader.get_by_role("separator")).to_have_attribute("aria-valuenow", "26")


@requirement("C65")
async def test_a_phone_has_no_border_to_drag(desk: Desk) -> None:
    _, panel = await open_panel(desk, viewport=NARROW)
    await expect(panel).to_be_visible()
    await expect(panel.get_by_role("separator")).to_have_count(0)
    assert await width_of(panel) == NARROW["width"]
