"""Work that ended badly or never began is among the problems of every page, also of one that is opened later."""

from playwright.async_api import Locator, Page

from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from testing.waits import refused
from tests.canvas.delegation_actions import by_http, decline_work, take_work
from tests.canvas.expectations import expect
from tests.requirements import requirement

TASK = "Find out why it is slow"


async def stop_one(stage: Stage) -> None:
    """An agent gives the work that it has back, in the same words: a guard stops that."""
    await by_http(stage, "Lead", "Engineering", TASK)
    await take_work(stage, "Engineering")
    error = await refused(by_http(stage, "Engineering", "Lead", TASK))
    assert error.status == 409


def stopped(page: Page) -> Locator:
    """What guards stopped, as a list of the problems."""
    return page.get_by_role("region", name="Blocked delegations").get_by_role("listitem")


@requirement("S11", "C21")
async def test_what_a_guard_stopped_is_a_problem_live_after_a_reload_and_in_another_browser(desk: Desk) -> None:
    stage = desk.stage
    page = await desk.open("/app/problems")
    await expect(page.get_by_role("heading", name="No problems")).to_be_visible()
    await stop_one(stage)
    other = await desk.open("/app/problems")
    for each in (page, other):
        await expect(stopped(each)).to_have_count(1)
        await expect(stopped(each)).to_contain_text("Engineering tried to delegate to Lead")
        await expect(stopped(each)).to_contain_text("The task was delegated back to an agent that had delegated it")
    texts = [await stopped(each).inner_text() for each in (page, other)]
    await page.reload()
    await expect(stopped(page)).to_have_count(1)
    texts.append(await stopped(page).inner_text())
    assert len(set(texts)) == 1, texts

    await stopped(page).get_by_role("button", name="Dismiss").click()
    await expect(page.get_by_role("heading", name="No problems")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("heading", name="No problems")).to_be_visible()


@requirement("C34")
async def test_work_that_failed_stays_a_problem_until_somebody_has_seen_it_or_tries_it_again(desk: Desk) -> None:
    stage = desk.stage
    for target in ("Engineering", "Research"):
        await by_http(stage, "Lead", target, f"{TASK}, {target}")
        await take_work(stage, target)
        await decline_work(stage, target, "We have no spade.")
    page = await desk.open("/app/problems")
    rows = page.get_by_role("region", name="Failed tasks").get_by_role("listitem")
    await expect(rows).to_have_count(2)
    await rows.filter(has_text="Research").get_by_role("button", name="Retry").click()
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("We have no spade.")
    await rows.get_by_role("button", name="Dismiss").click()
    await expect(page.get_by_role("heading", name="No problems")).to_be_visible()
