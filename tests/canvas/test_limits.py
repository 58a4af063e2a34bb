"""A vendor's limit on the page: until when, why in plain text, and its end by a person."""

import re

from testing.canvas.page_user import Desk
from testing.workspaces import beat
from tests.canvas.expectations import expect
from tests.canvas.views import go

UNTIL = "2999-01-01T14:05:00Z"  # shortened by the server
REASON = "<img src=x onerror=alert(1)> 5-hour limit reached"


async def test_a_limited_agent_is_shown_with_time_and_reason_and_a_person_ends_it(desk: Desk) -> None:
    stage, name = desk.stage, "Reader"
    seat = stage.seats[name]
    await beat(seat)
    page = await desk.open(path="/app/org")
    card = page.get_by_role("group", name="Map of the organisation").get_by_role("button", name=f"{name} ")
    await expect(card).to_contain_text("Online")
    await seat.api.post(f"/workspaces/{seat.id}/limit", {"until": UNTIL, "reason": REASON})
    await expect(card).to_contain_text(re.compile(r"Limited until \d+ \w+( \d+)?"))
    await expect(page.get_by_role("treeitem", name=f"{name} Limited")).to_be_visible()

    await go(page, stage, f"org?focus={seat.id}&panel=about")
    panel = page.get_by_role("complementary", name=name)
    await expect(panel).to_contain_text(REASON)
    assert await panel.locator("img").count() == 0
    await panel.get_by_role("button", name="End limit").click()
    await expect(panel.locator("header")).to_contain_text("Online")
    await expect(panel.get_by_text("Limited until")).to_have_count(0)
    assert (await stage.admin.get(f"/workspaces/{seat.id}"))["limited_until"] is None
