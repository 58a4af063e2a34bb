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


@requirement("C50", "C52")
async def test_a_move_pushes_neighbours_aside_and_undo_restores_every_place(desk: Desk) -> None:
    stage = desk.stage
    page = await desk.open()
    await expect(page.locator("[data-id]")).to_have_count(12)
    ids = {name: seat.id for name, seat in stage.seats.items()}
    before = await spots(page)
    await page.get_by_role("button", name="Minimap").click()  # it would cover a card
    for _ in range(2):
        await page.get_by_role("button", name="Zoom in").click()
    await page.get_by_role("button", name="Edit org").click()
    agent, target = (page.locator(f"[data-id='{ids[name]}']") for name in ("Support", "Reader"))
    await agent.drag_to(target)
    await page.get_by_role("dialog").get_by_role("button", name="Move", exact=True).click()
    await expect(page.get_by_role("button", name="Undo")).to_be_visible()

    after = await spots(page)
    for name in ("Lead", "Research"):  # what grew keeps its corner
        assert after[ids[name]] == before[ids[name]], name
    engineering = ("Engineering", "Backend", "Frontend", "Quality")
    pushes = {
        tuple(now - then for now, then in zip(after[ids[name]], before[ids[name]], strict=True)) for name in engineering
    }
    assert len(pushes) == 1, pushes  # the team beside it moves as a whole, to the right or down
    assert min(min(push) for push in pushes) >= 0
    await expect(agent).to_be_in_viewport(ratio=0.999)
    stage_box = await page.get_by_role("group", name="Map of the organisation").bounding_box()
    box = await agent.bounding_box()
    assert stage_box is not None and box is not None
    assert stage_box["x"] <= box["x"] and box["x"] + box["width"] <= stage_box["x"] + stage_box["width"]
    assert stage_box["y"] <= box["y"] and box["y"] + box["height"] <= stage_box["y"] + stage_box["height"]

    await page.get_by_role("button", name="Undo").click()
    await expect(page.get_by_role("button", name="Undo")).to_be_hidden()
    assert await spots(page) == before


@requirement("C84")
async def test_the_page_marks_in_its_own_timeline_when_the_map_is_drawn(desk: Desk) -> None:
    page = await desk.open()
    await expect(page.locator("[data-id]")).to_have_count(12)
    assert await page.evaluate(_READY) > 0
    await page.get_by_role("button", name="Zoom in").click()
    assert await page.evaluate("() => performance.getEntriesByName('molecule:ready').length") == 1
