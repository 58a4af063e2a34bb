"""The outline is a tree to whoever cannot see the picture, and walks in step with it."""

import pytest
from playwright.async_api import Locator, Page

from testing.canvas.page_user import Desk
from tests.canvas.expectations import expect
from tests.canvas.keyboard import Fingers, expect_focus
from tests.requirements import requirement

NAMES = [
    *("Lead", "Engineering", "Backend", "Frontend", "Quality", "Research", "Reader", "Writer"),
    *("Support", "First line", "Second line", "Night shift"),
]


@pytest.fixture
async def page(desk: Desk) -> Page:
    """The page of a person who is logged in."""
    return await desk.open()


@pytest.fixture
async def fingers(page: Page) -> Fingers:
    """That person's, at the first row."""
    fingers = Fingers(page)
    await fingers.go_to(row(page, "Lead"))
    return fingers


def row(page: Page, name: str) -> Locator:
    """The row of an agent."""
    return page.get_by_role("treeitem", name=name)


def card(page: Page, name: str) -> Locator:
    """The card of an agent on the map."""
    return page.get_by_role("group", name="Map of the organisation").get_by_role("button", name=f"{name} Online")


async def expect_in_step(page: Page, name: str) -> None:
    """One row has the focus and is selected, and so is its card, which is in view."""
    await expect_focus(row(page, name))
    await expect(page.get_by_role("treeitem", selected=True)).to_have_count(1)
    await expect(row(page, name)).to_have_attribute("aria-selected", "true")
    await expect(card(page, name)).to_have_attribute("aria-current", "true")
    await expect(card(page, name)).to_be_in_viewport(ratio=0.999)  # the zoom is no whole number
    assert await page.locator("[role=treeitem][tabindex='0']").count() == 1


@requirement("C56")
async def test_the_outline_tells_roles_levels_and_places(page: Page) -> None:
    tree = page.get_by_role("tree", name="Agents")
    await expect(tree.get_by_role("treeitem")).to_have_count(len(NAMES))
    told = [
        [await each.get_attribute(f"aria-{name}") for name in ("level", "posinset", "setsize", "expanded")]
        for each in await tree.get_by_role("treeitem").all()
    ]
    team = [[["2", str(at), "3", "true"]] for at in (1, 2, 3)]
    below = [[["3", str(at), str(size), None] for at in range(1, size + 1)] for size in (3, 2, 3)]
    assert told == [["1", "1", "1", "true"], *team[0], *below[0], *team[1], *below[1], *team[2], *below[2]]
    assert await page.locator("[role=treeitem][tabindex='0']").count() == 1


@requirement("C56")
async def test_arrows_home_and_end_walk_the_outline_and_the_map_follows(page: Page, fingers: Fingers) -> None:
    for keys, name in (
        (["ArrowDown"], "Engineering"),
        (["ArrowDown", "ArrowDown"], "Frontend"),
        (["ArrowUp"], "Backend"),
        (["End"], "Night shift"),
        (["ArrowDown"], "Night shift"),
        (["Home"], "Lead"),
        (["ArrowUp"], "Lead"),
        (["ArrowRight"], "Engineering"),
        (["ArrowRight"], "Backend"),
        (["ArrowRight"], "Backend"),
        (["ArrowLeft"], "Engineering"),
        (["ArrowLeft", "ArrowLeft"], "Lead"),
    ):
        await fingers.press(*keys)
        await expect_in_step(page, name)
    assert await row(page, "Engineering").get_attribute("aria-expanded") == "false"


@requirement("C56")
async def test_letters_go_to_the_name_that_begins_so(page: Page) -> None:
    await page.clock.install()
    await page.reload()
    fingers = Fingers(page)
    await fingers.go_to(row(page, "Lead"))
    for typed, name in (("s", "Support"), ("se", "Second line"), ("r", "Research"), ("r", "Reader"), ("rea", "Reader")):
        await fingers.type(typed)
        await expect_in_step(page, name)
        await page.clock.fast_forward(1_000)
    await fingers.type("res")
    await expect_in_step(page, "Research")
    assert page.url.endswith(f"focus={await card(page, 'Research').get_attribute('data-id')}")


@requirement("C56")
async def test_an_agent_chosen_on_the_map_is_chosen_in_the_outline(page: Page) -> None:
    await card(page, "Night shift").click()
    await expect(row(page, "Night shift")).to_have_attribute("aria-selected", "true")
    await expect(row(page, "Night shift")).to_be_in_viewport()
    await page.get_by_role("button", name="Close panel").click()
    await expect_focus(card(page, "Night shift"))
    assert await row(page, "Lead").get_attribute("aria-selected") == "false"


@requirement("C56")
async def test_what_is_chosen_is_chosen_again_after_a_reload(page: Page, fingers: Fingers) -> None:
    await fingers.press("End")
    await expect(row(page, "Night shift")).to_have_attribute("aria-selected", "true")
    await page.reload()
    await expect(row(page, "Night shift")).to_have_attribute("aria-selected", "true")
    assert await card(page, "Night shift").get_attribute("aria-current") == "true"
