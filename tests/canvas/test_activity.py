"""The view *Activity*: everything that happened, with filters in the address, live, by mouse and by keys."""

import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page

from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from testing.message_chains import speak
from testing.waits import bounded
from tests.canvas.axe import find_barriers
from tests.canvas.delegation_actions import answer_work, by_http, take_work
from tests.canvas.expectations import expect
from tests.canvas.keyboard import Fingers
from tests.canvas.views import NARROW, WIDE
from tests.requirements import requirement


def rows(page: Page) -> Locator:
    """The listed events."""
    return page.get_by_role("list", name="Events").locator("a[data-event]")


def filters(page: Page) -> Locator:
    """The filters."""
    return page.get_by_role("group", name="Filters")


def details(page: Page) -> Locator:
    """The open event."""
    return page.get_by_role("region", name="Event details")


async def happens(stage: Stage) -> str:
    """A delegation that was answered, and messages; the id of the delegation."""
    delegation_id = await by_http(stage, "Lead", "Engineering", "Count the kiwi")
    await take_work(stage, "Engineering")
    await answer_work(stage, "Engineering", "There are seven")
    await stage.say("Backend", "A plum for <b>you</b>")
    await speak(stage.seats["Engineering"], stage.seats["Backend"].id, "Which plum?")
    await bounded(stage.server.server.search.indexer.index_all())
    return delegation_id


@requirement("AC3")
async def test_events_are_one_line_each_and_open_with_links_and_json(desk: Desk) -> None:
    stage = desk.stage
    delegation_id = await happens(stage)
    page = await desk.open()
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Activity").click()
    await expect(page).to_have_url(f"{stage.server.url}/app/activity")
    await expect(rows(page).first).to_be_visible()
    for text in (
        "Lead delegated to Engineering: Count the kiwi",
        "Lead got a result from Engineering: There are seven",
        "Backend wrote to people: A plum for <b>you</b>",
        "Engineering wrote to Backend: Which plum?",
    ):
        await expect(rows(page).filter(has_text=text).first).to_be_visible()
    await expect(page.get_by_role("list", name="Events").get_by_role("heading", name="Today")).to_be_visible()
    await expect(page.get_by_role("figure").locator("figcaption")).to_contain_text(
        re.compile(r"\d+ events from .* to now")
    )
    assert await find_barriers(page) == []

    await rows(page).filter(has_text="got a result").click()
    await expect(page).to_have_url(re.compile(r"/app/activity\?open=\d+$"))
    await expect(details(page)).to_contain_text("DELEGATION_COMPLETE")
    shown = json.loads(await details(page).get_by_role("region", name="JSON of the event").inner_text())
    assert (shown["entity"]["id"], shown["payload"]["response_preview"]) == (delegation_id, "There are seven")
    related = details(page).get_by_role("region", name="Related events")
    await expect(related.get_by_role("link").filter(has_text="delegated to").first).to_be_visible()
    assert await find_barriers(page) == []
    await related.get_by_role("link", name="Show all").click()
    await expect(page).to_have_url(f"{stage.server.url}/app/activity?delegation={delegation_id}")
    await expect(rows(page).filter(has_text="plum")).to_have_count(0)
    chip = filters(page).get_by_role("button", name="Remove filter: Delegation")
    await expect(chip).to_be_visible()
    await rows(page).filter(has_text="got a result").click()
    await details(page).get_by_role("link", name="Open trace").click()
    await expect(page.get_by_role("article", name="Request")).to_be_visible()
    await page.go_back()
    await details(page).get_by_role("link", name="Open delegation").click()
    await expect(page).to_have_url(f"{stage.server.url}/app/delegations/{delegation_id}")
    await page.go_back()
    await chip.click()
    await expect(rows(page).filter(has_text="plum").first).to_be_visible()


@requirement("AC3")
async def test_filters_are_in_the_address_and_survive_a_reload(desk: Desk) -> None:
    stage = desk.stage
    await happens(stage)
    engineering = stage.seats["Engineering"].id
    page = await desk.open(f"/app/org?focus={engineering}&panel=about")
    await page.get_by_role("link", name="All activity").click()
    await expect(page).to_have_url(f"{stage.server.url}/app/activity?agent={engineering}")
    await expect(filters(page).get_by_role("combobox", name="Agent")).to_have_value(engineering)
    await page.get_by_role("button", name="Clear filters").click()
    await filters(page).get_by_role("combobox", name="Agent").select_option("Engineering")
    await filters(page).get_by_role("checkbox", name="With its team").check()
    await filters(page).get_by_role("combobox", name="Kind").select_option("Messages")
    await filters(page).get_by_role("combobox", name="Time").select_option("Last hour")
    await expect(page).to_have_url(
        f"{stage.server.url}/app/activity?agent={engineering}&team=all&kind=messages&since=1h"
    )
    await expect(rows(page).filter(has_text="Which plum?").first).to_be_visible()
    await expect(rows(page).filter(has_text="got a result")).to_have_count(0)
    await page.reload()
    await expect(filters(page).get_by_role("combobox", name="Kind")).to_have_value("messages")
    await expect(rows(page).filter(has_text="A plum for").first).to_be_visible()
    await filters(page).get_by_role("combobox", name="State").select_option("Failed")
    await expect(page.get_by_role("heading", name="No event matches")).to_be_visible()
    await page.get_by_role("button", name="Clear filters").first.click()
    await expect(page).to_have_url(f"{stage.server.url}/app/activity")

    search = filters(page).get_by_role("searchbox", name="Search texts of events")
    await search.fill("kiwi count")
    await expect(page).to_have_url(f"{stage.server.url}/app/activity?q=kiwi+count")
    await expect(rows(page).filter(has_text="got a result").first).to_be_visible()
    await expect(rows(page).filter(has_text="plum")).to_have_count(0)
    await search.fill("cellar")
    await expect(page.get_by_role("heading", name="No event matches")).to_be_visible()
    await filters(page).get_by_role("combobox", name="Time").select_option("From and to…")
    await filters(page).get_by_label("To").fill("2026-01-01T10:00")
    await expect(page).to_have_url(re.compile("until=2026-01-01T09%3A00%3A00.000Z"))
    await page.go_back()
    await expect(filters(page).get_by_role("searchbox")).to_have_value("cellar")


@requirement("AC3")
async def test_the_direction_shows_what_an_agent_received_or_sent(desk: Desk) -> None:
    stage = desk.stage
    await happens(stage)
    engineering = stage.seats["Engineering"].id
    page = await desk.open(f"/app/activity?agent={engineering}")
    await filters(page).get_by_role("combobox", name="Direction").select_option("Received")
    await expect(page).to_have_url(f"{stage.server.url}/app/activity?agent={engineering}&direction=in")
    await expect(rows(page).filter(has_text="Count the kiwi").first).to_be_visible()
    await expect(rows(page).filter(has_text="Which plum?")).to_have_count(0)
    await filters(page).get_by_role("combobox", name="Direction").select_option("Sent")
    await expect(rows(page).filter(has_text="Which plum?").first).to_be_visible()
    await expect(rows(page).filter(has_text="Lead delegated to Engineering")).to_have_count(0)


@requirement("AC3")
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "phone"])
async def test_filters_are_saved_under_a_name_opened_and_deleted(desk: Desk, viewport: dict[str, int]) -> None:
    stage = desk.stage
    await happens(stage)
    page = await desk.open("/app/activity", viewport=viewport)
    await expect(rows(page).first).to_be_visible()
    await expect(page.get_by_role("button", name="Save filters…")).to_have_count(0)
    await filters(page).get_by_role("combobox", name="Kind").select_option("Delegations")
    await page.get_by_role("button", name="Save filters…").click()
    name = page.get_by_role("textbox", name="Name")
    await expect(name).to_be_focused()
    await name.fill("Who gave what <b>")
    await name.press("Enter")
    saved = page.get_by_role("group", name="Saved filters")
    link = saved.get_by_role("link", name="Who gave what <b>")
    await expect(link).to_have_attribute("aria-current", "true")
    assert await find_barriers(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    await page.get_by_role("button", name="Clear filters").click()
    await page.reload()
    await expect(rows(page).filter(has_text="plum").first).to_be_visible()
    await link.click()
    await expect(page).to_have_url(f"{stage.server.url}/app/activity?kind=delegations")
    await expect(rows(page).filter(has_text="plum")).to_have_count(0)
    await saved.get_by_role("button", name="Delete saved filters Who gave what <b>").click()
    await expect(link).to_have_count(0)


@requirement("AC3")
async def test_times_are_shown_in_the_zone_of_the_settings(desk: Desk) -> None:
    await happens(desk.stage)
    page = await desk.open("/app/settings")
    zone = page.get_by_role("combobox", name="Time zone")
    await expect(zone.get_by_role("option", name="Browser (Europe/Berlin)")).to_have_count(1)
    await zone.select_option("Asia/Tokyo")
    await expect(page.get_by_text("It is now")).to_contain_text("GMT+9")
    await page.reload()
    await expect(zone).to_have_value("Asia/Tokyo")
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Activity").click()
    time = rows(page).first.locator("time")
    at = datetime.fromisoformat(str(await time.get_attribute("datetime")))
    expected = at.astimezone(timezone(timedelta(hours=9))).strftime("%H:%M:%S")
    await expect(time).to_have_text(expected)
    await filters(page).get_by_role("combobox", name="Time").select_option("From and to…")
    await filters(page).get_by_label("To").fill("2026-01-01T10:00")
    await expect(page).to_have_url(re.compile("until=2026-01-01T01%3A00%3A00.000Z"))


@requirement("AC3")
async def test_new_events_appear_by_themselves_and_wait_while_paused_or_scrolled(desk: Desk) -> None:
    stage = desk.stage
    for number in range(30):
        await stage.say("Reader", f"Line {number}")
    page = await desk.open("/app/activity?kind=messages")
    await expect(rows(page).first).to_contain_text("Line 29")
    await stage.say("Writer", "While it is live")
    await expect(rows(page).first).to_contain_text("While it is live")

    await page.get_by_role("button", name="Pause").click()
    for number in range(3):
        await stage.say("Writer", f"While it is paused {number}")
    new = page.get_by_role("button", name="3 new")
    await expect(new).to_be_visible()
    await expect(rows(page).first).to_contain_text("While it is live")
    await new.click()
    await expect(rows(page).first).to_contain_text("While it is paused 2")
    await page.get_by_role("button", name="Paused").click()

    line = rows(page).filter(has_text="Line 10 ").or_(rows(page).filter(has_text=re.compile("Line 10$")))
    await line.scroll_into_view_if_needed()
    before = await line.bounding_box()
    await stage.say("Writer", "While it is scrolled")
    await expect(page.get_by_role("button", name="1 new")).to_be_visible()
    assert await line.bounding_box() == before
    await page.get_by_role("button", name="1 new").click()
    await expect(rows(page).first).to_contain_text("While it is scrolled")
    await expect(rows(page).first).to_be_in_viewport()


@requirement("AC3")
async def test_keys_go_through_the_rows_open_and_close_them(desk: Desk) -> None:
    stage = desk.stage
    await happens(stage)
    page = await desk.open("/app/activity")
    await expect(rows(page).first).to_be_visible()
    fingers = Fingers(page)
    await page.get_by_role("heading", name="Activity").click()
    await fingers.press("j")
    await expect(rows(page).first).to_be_focused()
    await fingers.press("j")
    await fingers.press("j")
    await fingers.press("k")
    second = rows(page).nth(1)
    await expect(second).to_be_focused()
    seq = await second.get_attribute("data-event")
    await fingers.press("Enter")
    await expect(page).to_have_url(re.compile(f"open={seq}$"))
    await expect(details(page)).to_be_visible()
    await fingers.press("Escape")
    await expect(details(page)).to_have_count(0)
    await expect(page.locator(f"a[data-event='{seq}']")).to_be_focused()


@requirement("AC3", "AC2")
async def test_the_export_has_the_events_of_the_list(desk: Desk, tmp_path: Path) -> None:
    stage = desk.stage
    await happens(stage)
    page = await desk.open("/app/activity?kind=delegations")
    await expect(rows(page).first).to_be_visible()
    listed = [await each.get_attribute("data-event") for each in await rows(page).all()]
    async with page.expect_download() as started:
        await page.get_by_role("link", name="Export").click()
    download = await started.value
    await download.save_as(tmp_path / "activity.ndjson")
    lines = [json.loads(line) for line in (tmp_path / "activity.ndjson").read_text().splitlines()]
    assert download.suggested_filename == "activity.ndjson"
    assert [str(each["seq"]) for each in lines[:-1]] == listed
    assert lines[-1]["export"]["events"] == len(listed)


@requirement("AC3")
async def test_a_long_activity_is_read_page_by_page_and_few_rows_are_rendered(desk: Desk) -> None:
    stage = desk.stage
    reader = stage.seats["Reader"]
    for number in range(260):
        await reader.api.post(
            f"/workspaces/{reader.id}/activity", {"activity_type": "agent_log", "summary": f"n{number}"}
        )
    page = await desk.open(f"/app/activity?agent={reader.id}&kind=messages")
    await expect(rows(page).first).to_contain_text("n259")
    scroller = page.get_by_role("list", name="Events").locator("xpath=..")
    while not await rows(page).filter(has_text=re.compile("n0$")).is_visible():
        await scroller.evaluate("each => each.scrollTo(0, each.scrollHeight)")
        await page.evaluate("() => new Promise(requestAnimationFrame)")
    assert await rows(page).count() < 80
    await expect(page.get_by_text("This is the first event.")).to_be_visible()


@requirement("AC3")
async def test_failures_and_unknown_events_are_explained(desk: Desk) -> None:
    stage = desk.stage
    desk.forgiven.append("Failed to load resource")
    page = await desk.open("/app/org")
    policy = {"content-security-policy": "default-src 'none'"}
    broken = {"status": 503, "headers": policy, "json": {"error": "the store is down."}}
    await page.route("**/activity?*", lambda route: route.fulfill(**broken))
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Activity").click()
    alert = page.get_by_role("alert").filter(has_text="Could not load activity")
    await expect(alert).to_contain_text("store is down")
    await page.unroute("**/activity?*")
    await alert.get_by_role("button", name="Try again").click()
    await expect(rows(page).first).to_be_visible()
    await page.goto(f"{stage.server.url}/app/activity?open=999999999")
    await expect(details(page).get_by_role("heading", name="Event not found")).to_be_visible()
    await page.goto(f"{stage.server.url}/app/activity?agent=nowhere")
    await expect(page.get_by_role("alert").filter(has_text="workspace not found")).to_be_visible()


@requirement("AC3")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_a_phone_reaches_it_from_the_settings_and_opens_events_as_pages(desk: Desk, scheme: str) -> None:
    stage = desk.stage
    await happens(stage)
    page = await desk.open("/app/settings", viewport=NARROW, color_scheme=scheme)
    await page.get_by_role("link", name="View activity").click()
    await expect(rows(page).first).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    assert await find_barriers(page) == []
    await rows(page).filter(has_text="got a result").click()
    await expect(details(page)).to_contain_text("There are seven")
    await expect(rows(page)).to_have_count(0)
    assert await find_barriers(page) == []
    await details(page).get_by_role("button", name="Back").click()
    await expect(rows(page).first).to_be_visible()
