"""The picture keeps its place in a person's mind: what does not change does not move."""

import pytest
from playwright.async_api import Page

from testing.canvas.page_user import Desk
from tests.canvas.expectations import expect
from tests.requirements import requirement

# Where every card lies in the picture, by name, whatever part of the picture the window shows.
_SPOTS = """
() => Object.fromEntries([...document.querySelectorAll("[data-id]")].map((card) => {
  const { e, f } = new DOMMatrix(card.style.transform);
  return [card.dataset.id, [e, f]];
}))
"""
# When the map was drawn, in ms from the start of the navigation.
_READY = """() => new Promise(done => {
  const look = list => list.getEntriesByName("molecule:ready").forEach(mark => done(mark.startTime));
  new PerformanceObserver(look).observe({ type: "mark", buffered: true });
})"""
_CAMERA = "() => document.querySelector('[data-id]').parentElement.style.transform"


async def spots(page: Page) -> dict[str, list[float]]:
    """Where every card lies, by the id of its agent."""
    found: dict[str, list[float]] = await page.evaluate(_SPOTS)
    return found


@requirement("C50")
@pytest.mark.parametrize(
    "team", ["Engineering", *(pytest.param(each, marks=pytest.mark.long) for each in ("Research", "Support"))]
)
async def test_one_agent_more_or_less_moves_its_own_team_only(desk: Desk, team: str) -> None:
    stage = desk.stage
    page = await desk.open()
    cards = page.locator("[data-id]")
    await expect(cards).to_have_count(12)
    before, camera = await spots(page), await page.evaluate(_CAMERA)
    own = {seat.id for name, seat in stage.seats.items() if name == team}
    tree = await stage.admin.get("/workspaces")
    own |= {each["id"] for each in tree if each["parent_id"] in own}

    added = await stage.add("Apprentice", team)
    await expect(cards).to_have_count(13)
    grown = await spots(page)
    assert {id_ for id_ in before if grown[id_] != before[id_]} <= own

    await stage.admin.call("DELETE", f"/workspaces/{added.id}", query={"confirm": "true"})
    await expect(cards).to_have_count(12)
    shrunk = await spots(page)
    assert {id_ for id_ in before if shrunk[id_] != grown[id_]} <= own
    assert await page.evaluate(_CAMERA) == camera


@requirement("C50")
async def test_the_window_stays_where_the_person_put_it_while_agents_come(desk: Desk) -> None:
    page = await desk.open()
    await page.get_by_role("button", name="Zoom in").click()
    await page.get_by_role("group", name="Map of the organisation").press("ArrowRight")
    camera = await page.evaluate(_CAMERA)
    for number in range(3):
        await desk.stage.add(f"Helper {number}", "Research")
    await expect(page.locator("[data-id]")).to_have_count(15)
    assert await page.evaluate(_CAMERA) == camera


@requirement("C84")
async def test_the_page_marks_in_its_own_timeline_when_the_map_is_drawn(desk: Desk) -> None:
    page = await desk.open()
    await expect(page.locator("[data-id]")).to_have_count(12)
    assert await page.evaluate(_READY) > 0
    await page.get_by_role("button", name="Zoom in").click()
    assert await page.evaluate("() => performance.getEntriesByName('molecule:ready').length") == 1
