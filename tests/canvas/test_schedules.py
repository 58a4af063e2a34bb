"""Schedules on the page: added with a preview, changed, paused, deleted, and followed while they run."""

from playwright.async_api import Page

from testing.canvas.page_user import Desk
from tests.canvas.axe import find_barriers
from tests.canvas.expectations import expect
from tests.requirements import requirement

_REFUSED = "Failed to load resource: the server responded with a status of 4"


async def fill(page: Page, name: str, cron: str) -> None:
    """Fill the form of a schedule that sends a message to Writer."""
    form = page.get_by_role("form", name="Add a schedule")
    await form.get_by_label("Name").fill(name)
    await form.get_by_label("To", exact=True).select_option(label="Writer")
    await form.get_by_label("Text").fill("Report <b>what</b> is open.")
    await form.get_by_label("Minute, hour").fill(cron)
    await form.get_by_label("Time zone").fill("Europe/Berlin")


@requirement("SC5")
async def test_an_operator_adds_changes_pauses_and_deletes_a_schedule(desk: Desk) -> None:
    desk.forgiven.append(_REFUSED)
    org_id = (await desk.stage.admin.get("/orgs"))[0]["id"]
    page = await desk.open("/app/work")
    await page.get_by_role("link", name="Schedules").click()
    await page.get_by_role("button", name="Add schedule").click()
    await fill(page, "Morning <i>report</i>", "0 8 * *")
    form = page.get_by_role("form", name="Add a schedule")
    await expect(form.get_by_role("status")).to_contain_text("five fields")
    await form.get_by_label("Minute, hour").fill("0 8 * * MON")
    await expect(form.get_by_role("status")).to_contain_text("Next: Mon ")
    assert await find_barriers(page) == []
    await form.get_by_role("button", name="Save schedule").click()
    row = page.get_by_role("list", name="Schedules").get_by_role("listitem").first
    await expect(row).to_contain_text("Morning <i>report</i>")
    await expect(row).to_contain_text("at 0 8 * * MON (Europe/Berlin)")
    await expect(row).to_contain_text("Active · Next: Mon ")
    (made,) = (await desk.stage.admin.get(f"/orgs/{org_id}/schedules"))["schedules"]
    assert (made["text"], made["target_id"]) == ("Report <b>what</b> is open.", desk.stage.seats["Writer"].id)

    await row.get_by_role("button", name="Pause").click()
    await expect(row).to_contain_text("Paused")
    await row.get_by_role("button", name="Change…").click()
    change = page.get_by_role("form", name="Change a schedule")
    await change.get_by_label("Text").fill("Report briefly.")
    await change.get_by_role("button", name="Save schedule").click()
    await expect(row).to_contain_text("Report briefly.")
    await expect(row).to_contain_text("Paused")
    await page.set_viewport_size({"width": 320, "height": 640})
    assert await page.evaluate("document.documentElement.scrollWidth") == 320
    await row.get_by_role("button", name="Delete…").click()
    await row.get_by_role("button", name="Delete schedule").click()
    await expect(page.get_by_text("No schedules")).to_be_visible()
    assert (await desk.stage.admin.get(f"/orgs/{org_id}/schedules"))["schedules"] == []


@requirement("SC5", "SC3")
async def test_a_viewer_sees_what_others_save_and_what_its_runs_did(desk: Desk) -> None:
    org_id, seat = (await desk.stage.admin.get("/orgs"))[0]["id"], desk.stage.seats["Engineering"]
    context = await desk.context()
    page = await desk.enter(context, "/app/schedules", await desk.stage.link_for("viewer"))
    await expect(page.get_by_text("No schedules")).to_be_visible()
    body = {
        "name": "Soon",
        "target_id": seat.id,
        "source_id": desk.stage.seats["Lead"].id,
        "text": "Look.",
        "cron": "0 0 1 1 *",
    }
    await desk.stage.admin.post(f"/orgs/{org_id}/schedules", body)
    row = page.get_by_role("list", name="Schedules").get_by_role("listitem").first
    await expect(row).to_contain_text("Lead sends a message to Engineering")
    await expect(row.get_by_role("button")).to_have_count(0)
    await row.get_by_text("Runs of Soon").click()
    await expect(row.get_by_text("It has not run yet.")).to_be_visible()
