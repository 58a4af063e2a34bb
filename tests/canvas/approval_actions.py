"""Agents of the company that ask for leave, and those that are asked."""

from typing import Any

from playwright.async_api import Locator, Page

from testing.canvas.company import Stage
from tests.canvas.expectations import expect

HELD_MS = 5_000
"""So long an answer can be taken back on the page before it is sent."""


async def ask_leave(stage: Stage, name: str, action: str = "deploy", **more: Any) -> dict[str, Any]:
    """An agent asks for leave; the approval as it was opened."""
    seat = stage.seats[name]
    return dict(await seat.api.post(f"/workspaces/{seat.id}/approvals", {"action": action, **more}))


async def say(stage: Stage, name: str, approval: dict[str, Any], decision: str, **more: Any) -> dict[str, Any]:
    """An agent that was asked says what it decides."""
    seat = stage.seats[name]
    path = f"/workspaces/{seat.id}/approvals/{approval['approval_id']}/decide"
    return dict(await seat.api.post(path, {"decision": decision, **more}))


async def now_of(stage: Stage, approval: dict[str, Any]) -> dict[str, Any]:
    """How an approval stands on the server."""
    path = f"/workspaces/{approval['workspace_id']}/approvals/{approval['approval_id']}"
    return dict(await stage.admin.get(path))


def row(page: Page, approval: dict[str, Any]) -> Locator:
    """An approval in the list of the inbox."""
    return page.get_by_role("region", name="Requests").locator(f"li[data-approval='{approval['approval_id']}']")


def request(page: Page) -> Locator:
    """The approval that is open in the inbox."""
    return page.get_by_role("article", name="Request")


async def open_request(page: Page, approval: dict[str, Any]) -> Locator:
    """Opens an approval of the list, and waits for it."""
    await row(page, approval).get_by_role("link").click()
    await expect(request(page).get_by_role("heading", name=approval["action"])).to_be_visible()
    return request(page)


async def let_go(page: Page) -> None:
    """The time in which answers can be taken back goes by; the page's clock is the test's."""
    await expect(page.get_by_role("button", name="Undo")).to_be_visible()
    await page.clock.run_for(HELD_MS)


def path_of(stage: Stage, approval: dict[str, Any], state: str = "waiting") -> str:
    """Where the page shows one."""
    assert approval["workspace_id"] in {seat.id for seat in stage.seats.values()}
    query = f"kind=approval&state={state}&of={approval['workspace_id']}"
    return f"/app/inbox/{approval['approval_id']}?{query}"
