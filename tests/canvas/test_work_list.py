"""The view *Work*: what runs, has failed and is done in the whole organisation, live and page by page."""

import pytest
from playwright.async_api import Locator, Page

from testing.canvas.page_user import Desk
from tests.canvas.delegation_actions import answer_work, by_http, decline_work, take_work
from tests.canvas.expectations import expect
from tests.requirements import requirement


def tasks(page: Page) -> Locator:
    """The listed tasks."""
    return page.get_by_role("list", name="Tasks").get_by_role("listitem")


@requirement("CT2")
async def test_tasks_move_from_open_to_failed_and_done_while_the_page_is_open(desk: Desk) -> None:
    stage = desk.stage
    page = await desk.open("/app/work")
    await expect(page.get_by_role("heading", name="No open tasks")).to_be_visible()
    first = await by_http(stage, "Lead", "Engineering", "Build the page")
    await take_work(stage, "Engineering")
    second = await by_http(stage, "Engineering", "Backend", "Measure the query")
    await take_work(stage, "Backend")
    await expect(tasks(page)).to_contain_text(["Engineering delegated to Backend", "Lead delegated to Engineering"])

    await decline_work(stage, "Backend", "no disk")
    await answer_work(stage, "Engineering", "Built")
    await expect(page.get_by_role("heading", name="No open tasks")).to_be_visible()
    lists = page.get_by_role("navigation", name="Filter work")
    await lists.get_by_role("link", name="Failed").click()
    await expect(tasks(page)).to_contain_text(["no disk"])
    await lists.get_by_role("link", name="Done").click()
    await expect(tasks(page)).to_contain_text(["Build the page"])
    await tasks(page).get_by_role("link", name="Build the page").click()
    await expect(page).to_have_url(f"{stage.server.url}/app/delegations/{first}")
    await page.goto(f"{stage.server.url}/app/work?state=all")
    await expect(tasks(page)).to_have_count(2)
    await tasks(page).first.get_by_role("link", name="Whole request").click()
    await expect(page).to_have_url(f"{stage.server.url}/app/trace/{second}")


@requirement("CT2")
@pytest.mark.long
async def test_older_tasks_come_page_by_page_without_gaps(desk: Desk) -> None:
    stage = desk.stage
    for number in range(120):
        await by_http(stage, "Lead", "Engineering", f"Task number {number:03}")
        await take_work(stage, "Engineering")
        await answer_work(stage, "Engineering", "Done")
    page = await desk.open("/app/work?state=completed")
    await expect(tasks(page).first).to_contain_text("Task number 119")
    older = page.get_by_role("button", name="Load older tasks")
    while await older.is_visible():
        count = await tasks(page).count()
        await older.click()
        await expect(tasks(page).nth(count)).to_be_visible()
    texts = await tasks(page).all_inner_texts()
    assert [number for number in range(120) if sum(f"number {number:03}" in text for text in texts) != 1] == []
