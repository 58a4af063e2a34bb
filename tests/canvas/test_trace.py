"""Everything that one request caused is on one page, which grows while agents work."""

from playwright.async_api import Locator, Page

from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from tests.canvas.approval_actions import ask_leave
from tests.canvas.axe import find_barriers
from tests.canvas.delegation_actions import answer_work, by_http, take_work
from tests.canvas.expectations import expect
from tests.canvas.message_actions import ask
from tests.canvas.views import NARROW
from tests.requirements import requirement


def node(page: Page, delegation_id: str) -> Locator:
    """A delegation in the tree."""
    return page.locator(f"[role=treeitem][data-node='{delegation_id}']")


def head(page: Page) -> Locator:
    """What is said of the request itself."""
    return page.get_by_role("article", name="Request")


def events(page: Page) -> Locator:
    """All events by time."""
    return page.get_by_role("region", name="Events").get_by_role("listitem")


async def three_agents(stage: Stage) -> tuple[str, str, str]:
    """A person asks Lead, which delegates to Engineering, which delegates to Backend; the ids."""
    asked = await ask(stage, "Lead", "Ship the page")
    first = await by_http(stage, "Lead", "Engineering", "Build the page")
    await take_work(stage, "Engineering")
    second = await by_http(stage, "Engineering", "Backend", "Measure the query")
    await take_work(stage, "Backend")
    return str(asked["id"]), first, second


@requirement("CT1")
async def test_a_message_leads_to_its_trace_which_grows_until_the_answer(desk: Desk) -> None:
    stage = desk.stage
    asked = str((await ask(stage, "Lead", "Ship the page"))["id"])
    page = await desk.open(f"/app/chat/{stage.seats['Lead'].id}")
    line = page.locator(f"[data-message='{asked}']")
    await line.hover()
    await line.get_by_role("button", name="Show everything this request caused").click()
    await expect(page).to_have_url(f"{stage.server.url}/app/trace/{asked}")
    await expect(head(page)).to_contain_text("No answer yet")

    first = await by_http(stage, "Lead", "Engineering", "Build the page")
    await take_work(stage, "Engineering")
    second = await by_http(stage, "Engineering", "Backend", "Measure the query")
    await expect(node(page, first)).to_have_attribute("aria-level", "1")
    await expect(node(page, second)).to_have_attribute("aria-level", "2")
    await take_work(stage, "Backend")
    await ask_leave(stage, "Backend", "Drop the table")
    await expect(events(page).filter(has_text="Backend requested approval for Drop the table")).to_have_count(1)

    await answer_work(stage, "Backend", "Fast enough")
    await answer_work(stage, "Engineering", "Built")
    await answer_work(stage, "Lead", "Shipped")
    await expect(head(page)).to_contain_text("Answered after")
    await expect(events(page).last).to_contain_text("Shipped")
    await expect(events(page)).to_contain_text(
        [
            *("A person wrote to Lead", "Lead delegated to Engineering", "Engineering delegated to Backend"),
            *("Backend requested approval for Drop the table", "Lead wrote to the person"),
        ]
    )
    timeline = page.get_by_role("region", name="Timeline")
    for each, kind in ((asked, "working"), (first, "working"), (second, "working")):
        await expect(timeline.locator(f"[data-track='{each}'] [data-bar]").last).to_have_attribute("data-bar", kind)
    await node(page, second).click()
    await expect(page).to_have_url(f"{stage.server.url}/app/delegations/{second}")


@requirement("CT1")
async def test_a_task_leads_a_viewer_to_the_trace_of_its_request(desk: Desk) -> None:
    stage = desk.stage
    asked, _, second = await three_agents(stage)
    context = await desk.context(viewport=NARROW)
    page = await desk.enter(context, f"/app/delegations/{second}", await stage.link_for("viewer"))
    await page.get_by_role("link", name="Show the whole request").click()
    await expect(head(page)).to_contain_text("Ship the page")
    await expect(page.get_by_role("tree", name="Delegations").get_by_role("treeitem")).to_have_count(2)
    assert await find_barriers(page) == []
    await page.get_by_role("link", name="Open in chat").click()
    await expect(page).to_have_url(f"{stage.server.url}/app/chat/{stage.seats['Lead'].id}?m={asked}")


@requirement("CT1")
async def test_a_request_that_does_not_exist_is_said_to_be_missing(desk: Desk) -> None:
    desk.forgiven.append("status of 404")
    page = await desk.open("/app/trace/01a00000-0000-7000-8000-000000000000")
    await expect(page.get_by_role("heading", name="Request not found")).to_be_visible()
