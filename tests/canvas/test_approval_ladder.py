"""A request climbs to a person, seen from both ends: at the desk of who decides, and in the chat of who asks."""

import asyncio
from typing import Any

from playwright.async_api import Locator, Page

from testing.canvas.page_user import Desk
from testing.running_server import Seat
from testing.waits import bounded
from tests.canvas.approval_actions import ask_leave, let_go, open_request, say
from tests.canvas.expectations import expect
from tests.requirements import requirement

INBOX = "/app/inbox?kind=approval&state=open"


def card(page: Page, name: str) -> Locator:
    """An agent on the map."""
    return page.get_by_role("group", name="Map of the organisation").locator("[data-id]").filter(has_text=name).first


async def stands_apart(page: Page, url: str, asker: Seat) -> None:
    """On the map and in the tree, who waits is not taken for one that works."""
    await page.goto(f"{url}/app/org")
    pulse = {"workspace_id": asker.id, "active_tasks": 1, "current_task": "deploys"}
    await asker.api.post("/registry/heartbeat", pulse)
    await expect(card(page, "Deployer")).to_contain_text("Waiting for you")
    await expect(page.get_by_role("treeitem", name="Deployer Waiting for you")).to_be_visible()


@requirement("C13", "C40", "C41", "C42")
async def test_a_request_climbs_to_a_person_and_each_step_is_seen_at_both_ends(desk: Desk) -> None:
    stage = desk.stage
    asker = await stage.add("Deployer", "Backend")
    context = await desk.context()
    await context.clock.install()
    page = await desk.enter(context, INBOX)
    chat = await desk.tab(context, f"/app/chat/{asker.id}")
    made = await ask_leave(stage, "Deployer", details={"to": "production"}, reason="The page is ready")
    own = f"/workspaces/{asker.id}/approvals/{made['approval_id']}"
    item = chat.locator(f"li[data-approval='{made['approval_id']}']")
    opened = await open_request(page, made)

    def waiting(since: dict[str, Any]) -> asyncio.Task[Any]:
        """The call in which who asks waits for what comes next."""
        return asyncio.create_task(asker.api.get(own, wait=30, seq=since["seq"]))

    now = made
    for name, above in (("Backend", "Engineering"), ("Engineering", "Lead")):
        await expect(item).to_contain_text(f"PendingAssigned to {name}")
        waits = waiting(now)
        await say(stage, name, made, "escalate", note=f"not for {name}")
        await expect(opened).to_contain_text(f"Assigned to {above}")
        now = await bounded(waits)
        assert now["holder"]["name"] == above
    way = opened.get_by_role("region", name="Escalation path").get_by_role("listitem")
    await expect(way).to_contain_text(
        [
            *("Deployer requested approval", "Backend was asked", "“not for Backend”"),
            *("Engineering was asked", "“not for Engineering”", "Lead was asked"),
        ]
    )
    await expect(opened.locator("[data-countdown]").filter(has_text="expires in 59:")).to_be_visible()
    await expect(item).to_contain_text("Waiting for you")

    await stands_apart(chat, stage.server.url, asker)
    await chat.goto(f"{stage.server.url}/app/chat/{asker.id}")

    # The person asks back; who asks hears it, answers, and asks for something else with that.
    waits = waiting(now)
    await opened.get_by_role("button", name="Ask a question…").click()
    await opened.get_by_label("Your question").fill("Which page?")
    await opened.get_by_role("button", name="Ask", exact=True).click()
    await let_go(page)
    await expect(opened).to_contain_text("Question asked")
    await expect(item).to_contain_text("Waiting for Deployer to answer a question")
    await bounded(waits)
    await asker.api.post(f"{own}/answer", {"text": "The landing page", "details": {"to": "production", "page": "/"}})
    await expect(opened).to_contain_text("“The landing page”")
    await opened.get_by_role("button", name="Mark as reviewed").click()

    # It waits for the decision, which comes with other details than it asked for.
    waits = waiting(await asker.api.get(own))
    await opened.get_by_role("button", name="Approve with edits…").click()
    await opened.get_by_role("textbox", name="Details to approve").fill('{"to": "staging", "page": "/"}')
    await opened.get_by_role("button", name="Approve edited details").click()
    await let_go(page)
    await expect(item).to_contain_text("Approved")
    told = await bounded(waits)
    assert (told["status"], told["details"]) == ("approved", {"to": "staging", "page": "/"})
    await expect(way.last).to_contain_text("approved")
    await asker.api.post(f"{own}/use", {"action_hash": told["action_hash"]})
    await expect(opened).to_contain_text("Used at")
    await page.get_by_role("link", name="Decided").click()
    await expect(page.get_by_role("region", name="Requests")).to_contain_text("Deployer")
