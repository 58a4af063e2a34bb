"""What agents ask leave for: it is seen at once, answered with care, and whatever happens meanwhile is told."""

import asyncio
import re
from datetime import datetime
from typing import Any

import pytest
from playwright.async_api import Dialog as BrowserDialog
from playwright.async_api import Page, Request, Route

from testing.canvas.page_user import Desk
from testing.waits import eventually
from tests.canvas.approval_actions import HELD_MS, ask_leave, let_go, now_of, open_request, path_of, request, row, say
from tests.canvas.expectations import expect
from tests.canvas.live_channel import Wire
from tests.canvas.views import NARROW
from tests.requirements import requirement

INBOX = "/app/inbox?kind=approval&state=waiting"
# From the first event until a person can read it; the best of three, for the machine may do other things too.
SEEN_SECONDS = 3.0
_SEEN = """words => new Promise(seen => {
  const look = () => {
    if (![...document.querySelectorAll("[data-approval]")].some(each => each.textContent.includes(words))) return;
    watch.disconnect();
    requestAnimationFrame(() => seen(Date.now()));
  };
  const watch = new MutationObserver(look);
  watch.observe(document.body, { subtree: true, childList: true, characterData: true });
  look();
})"""


async def inbox(desk: Desk, path: str = INBOX, **choices: Any) -> Page:
    """The inbox, live, with a clock that the test moves on."""
    context = await desk.context(**choices)
    await context.clock.install()
    page = await desk.enter(context, path)
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    return page


def note_decisions(page: Page) -> list[str]:
    """What the page sends from now on to decide something."""
    sent: list[str] = []

    def note(asked: Request) -> None:
        if asked.url.endswith("/decide"):
            sent.append(str(asked.post_data))

    page.on("request", note)
    return sent


@requirement("C40")
async def test_a_request_is_in_the_inbox_within_half_a_second_with_all_that_it_says(desk: Desk) -> None:
    stage = desk.stage
    page = await desk.open(INBOX)
    await expect(page.get_by_text("No requests waiting for you")).to_be_visible()
    waits, made = [], {}
    for turn in range(3):
        seen = asyncio.create_task(page.evaluate(_SEEN, f"number {turn}"))
        made = await ask_leave(stage, "Lead", f"number {turn}", details={"to": "<b>all</b>"}, reason="It is tested")
        waits.append(float(await seen) / 1000 - datetime.fromisoformat(made["created_at"]).timestamp())
    assert min(waits) < SEEN_SECONDS, waits
    await expect(row(page, made)).to_contain_text("Waiting for you")
    await expect(page.get_by_role("link", name="Inbox")).to_contain_text("3 waiting for you")
    opened = await open_request(page, made)
    for words in ("Lead requests approval", "It is tested", "Lead requested approval", "expires in"):
        await expect(opened).to_contain_text(words)
    await expect(opened.get_by_role("region", name="Details")).to_contain_text('"to": "<b>all</b>"')


@requirement("C10", "C40")
async def test_what_waits_is_in_the_strip_and_the_key_goes_to_it_and_back_to_the_list(desk: Desk) -> None:
    page = await desk.open("/app/chat")
    made = await ask_leave(desk.stage, "Lead")
    await expect(page.get_by_role("region", name="Needs attention")).to_contain_text("Needs approval")
    await page.keyboard.press("a")
    await expect(request(page).get_by_role("heading", name="deploy")).to_be_focused()
    await expect(page).to_have_url(re.compile(rf"/app/inbox/{made['approval_id']}\?of={made['workspace_id']}$"))
    await page.keyboard.press("Escape")
    await expect(request(page)).to_be_hidden()
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(request(page)).to_be_visible()


@requirement("C41", "C48")
async def test_a_decision_goes_down_through_each_level_and_says_who_made_it_when_and_where(desk: Desk) -> None:
    stage = desk.stage
    page = await inbox(desk)
    made = await ask_leave(stage, "Backend", details={"to": "production"})
    await say(stage, "Engineering", made, "escalate", note="not mine")
    opened = await open_request(page, made)
    await expect(opened).to_contain_text("Assigned to Lead and a person")
    await opened.get_by_role("button", name="Approve", exact=True).click()
    await let_go(page)
    await expect(opened).to_contain_text("Approved")
    for words in ("Backend requested approval", "Engineering escalated", "Lead was asked", "“not mine”", "approved"):
        await expect(opened).to_contain_text(words)
    seat = stage.seats["Backend"]
    kinds = [each.get("kind") for each in await seat.api.claim(seat.id, wait=5)]
    assert "approval_decision" in kinds
    decided = (await now_of(stage, made))["decided"]
    assert decided["decision"] == "approve" and decided["by"]["kind"] == "person"
    assert decided["at"] and decided["by"]["session"] and decided["by"]["name"]
    await expect(opened).to_contain_text(f"in session {decided['by']['session']}")

    denied = await ask_leave(stage, "Frontend", "drop the table")
    await say(stage, "Engineering", denied, "escalate")
    opened = await open_request(page, denied)
    await opened.get_by_role("button", name="Deny…").click()
    await opened.get_by_label("Reason").fill("Not on a Friday")
    await opened.get_by_role("button", name="Deny", exact=True).click()
    await let_go(page)
    await expect(opened).to_contain_text("Not on a Friday")
    assert (await now_of(stage, denied))["status"] == "denied"


@requirement("C42")
async def test_edited_details_are_kept_beside_the_proposed_ones_and_are_what_may_be_done(desk: Desk) -> None:
    stage = desk.stage
    page = await inbox(desk)
    made = await ask_leave(stage, "Lead", details={"to": "production", "count": 3})
    opened = await open_request(page, made)
    await opened.get_by_role("button", name="Approve with edits…").click()
    field = opened.get_by_role("textbox", name="Details to approve")
    await field.fill('{\n  "to": "staging",\n  "count": "three"\n}')
    await expect(opened).to_contain_text("Line 3: “count” must be a number, not a string.")
    await expect(opened.get_by_role("button", name="Approve edited details")).to_be_disabled()
    await field.fill('{"to": "staging", "count": 1}')
    await opened.get_by_role("button", name="Approve edited details").click()
    await let_go(page)
    await expect(opened.get_by_role("region", name="Edited (in effect)")).to_contain_text("staging")
    await expect(opened.get_by_role("region", name="Proposed")).to_contain_text("production")
    now = await now_of(stage, made)
    assert now["proposed"] == {"to": "production", "count": 3}
    assert now["edited"] == now["details"] == {"to": "staging", "count": 1}
    assert now["action_hash"] != made["action_hash"]


@requirement("C43")
async def test_whoever_is_second_sees_who_decided_first_and_nothing_happens_twice(desk: Desk) -> None:
    stage, wire = desk.stage, Wire()
    first = await inbox(desk)
    context = await desk.context()
    await context.clock.install()
    await wire.hold(context)
    second = await desk.enter(context, INBOX, await stage.link_for("operator"))
    made = await ask_leave(stage, "Lead")
    for page in (first, second):
        await open_request(page, made)
    await wire.cut()  # the second one does not hear of the first
    desk.forgiven.append("status of 409")
    await request(second).get_by_role("button", name="Deny…").click()
    await request(second).get_by_role("button", name="Deny", exact=True).click()
    await request(first).get_by_role("button", name="Approve", exact=True).click()
    await let_go(first)
    await expect(request(first)).to_contain_text("Approved")
    await let_go(second)
    by = (await now_of(stage, made))["decided"]["by"]["name"]
    await expect(request(second).get_by_role("alert")).to_contain_text(f"Approved by {by}.")
    now = await now_of(stage, made)
    assert now["status"] == "approved"
    assert [each["what"] for each in now["path"]].count("approved") == 1


@requirement("C44")
async def test_together_exactly_those_are_answered_that_were_ticked(desk: Desk) -> None:
    stage = desk.stage
    page = await inbox(desk)
    made = [await ask_leave(stage, "Lead", f"number {turn}", details={"turn": turn}) for turn in range(3)]
    long = await ask_leave(stage, "Lead", "much", details={"words": "long " * 100})
    await expect(row(page, long)).to_contain_text("Open the request to see all details.")
    await expect(row(page, long).get_by_role("checkbox")).to_have_count(0)
    for each in made[:2]:
        await row(page, each).get_by_role("checkbox").check()
    await page.get_by_role("button", name="Approve…").click()
    dialog = page.get_by_role("dialog", name="Approve 2 requests?")
    late = await ask_leave(stage, "Lead", "late", details={"turn": 9})
    await expect(row(page, late)).to_be_attached()
    await expect(dialog).not_to_contain_text("late")
    await dialog.get_by_role("button", name="Approve 2 requests").click()
    await let_go(page)
    await expect(row(page, made[0])).to_be_hidden()
    stands = [(await now_of(stage, each))["status"] for each in (*made, long, late)]
    assert stands == ["approved", "approved", "pending", "pending", "pending"]


@requirement("C45")
async def test_what_is_taken_back_within_five_seconds_is_never_sent_and_afterwards_it_is_final(desk: Desk) -> None:
    page = await inbox(desk)
    sent = note_decisions(page)
    made = await ask_leave(desk.stage, "Lead")
    opened = await open_request(page, made)
    approve = opened.get_by_role("button", name="Approve", exact=True)
    await approve.click()
    await expect(page.get_by_role("status").filter(has_text="Closing this page sends it at once")).to_be_visible()
    await page.clock.run_for(HELD_MS // 10)  # the page's clock goes on by itself besides
    await page.get_by_role("button", name="Undo").click()
    await page.clock.run_for(2 * HELD_MS)
    assert sent == [] and (await now_of(desk.stage, made))["status"] == "pending"
    await approve.click()
    await let_go(page)
    await expect(opened).to_contain_text("Approved")
    assert len(sent) == 1
    await expect(page.get_by_role("button", name="Undo")).to_have_count(0)
    await expect(approve).to_be_disabled()


@requirement("C45")
@pytest.mark.parametrize("way", ["close", "reload", "log out"])
async def test_a_decision_that_is_held_is_sent_once_when_its_page_goes(desk: Desk, way: str) -> None:
    stage = desk.stage
    page = await inbox(desk)
    sent = note_decisions(page)
    made = await ask_leave(stage, "Lead")
    await (await open_request(page, made)).get_by_role("button", name="Approve", exact=True).click()
    await expect(page.get_by_role("button", name="Undo")).to_be_visible()
    if way == "close":
        await page.close()
    elif way == "reload":
        await page.reload()
    else:
        await page.get_by_role("link", name="Settings").click()
        await page.get_by_role("button", name="Log out").click()
        await expect(page.get_by_role("button", name="Log out")).to_have_count(0)
    now = await eventually(lambda: now_of(stage, made), lambda now: now["status"] == "approved")
    assert [each["what"] for each in now["path"]].count("approved") == 1
    if way != "close":
        await page.clock.run_for(2 * HELD_MS)
        assert len(sent) <= 1  # a request of a page that goes is not reported


@requirement("C45")
async def test_the_browser_asks_before_a_page_closes_that_can_not_send_its_decision(desk: Desk) -> None:
    stage = desk.stage
    page = await inbox(desk)
    made = await ask_leave(stage, "Lead", details={"words": "much"})
    opened = await open_request(page, made)
    await opened.get_by_role("button", name="Approve with edits…").click()
    field = opened.get_by_role("textbox", name="Details to approve")
    await field.fill(f'{{"words": "{"more " * 13_000}"}}')
    await opened.get_by_role("button", name="Approve edited details").click()
    await expect(page.get_by_role("status").filter(has_text="Keep this page open")).to_be_visible()
    asked: list[str] = []

    async def stay(dialog: BrowserDialog) -> None:
        asked.append(dialog.type)
        await dialog.dismiss()

    page.on("dialog", stay)
    await page.close(run_before_unload=True)
    await let_go(page)
    await expect(opened).to_contain_text("Approved")
    assert asked == ["beforeunload"] and (await now_of(stage, made))["status"] == "approved"


@requirement("C46")
async def test_what_ends_while_somebody_decides_says_so_and_nothing_can_be_pressed(desk: Desk) -> None:
    stage, seat = desk.stage, desk.stage.seats["Lead"]
    page = await desk.open(INBOX)
    made = await ask_leave(stage, "Lead")
    opened = await open_request(page, made)
    await opened.get_by_role("button", name="Deny…").click()
    await seat.api.post(f"/workspaces/{seat.id}/approvals/{made['approval_id']}/withdraw", {})
    await expect(opened).to_contain_text("Withdrawn by Lead. No decision is needed.")
    for name in ("Approve", "Approve with edits…", "Deny…", "Ask a question…"):
        await expect(opened.get_by_role("button", name=name, exact=True)).to_be_disabled()
    short = await ask_leave(stage, "Lead", "soon over", expires_in=1)
    await page.goto(stage.server.url + path_of(stage, short, "open"))
    await expect(request(page)).to_contain_text("Expired without a decision, which counts as denied")
    await expect(request(page).get_by_role("button", name="Approve", exact=True)).to_be_disabled()


@requirement("C47")
async def test_a_list_that_cannot_be_read_keeps_what_was_there_and_says_so(desk: Desk) -> None:
    page = await desk.open("/app/settings")
    made = await ask_leave(desk.stage, "Lead")
    desk.forgiven.append("net::ERR_FAILED")

    async def refuse(route: Route) -> None:
        await route.abort()

    await page.route("**/approvals/pending*", refuse)
    await page.get_by_role("link", name="Inbox").click()
    await expect(page.get_by_role("alert")).to_contain_text("Could not load the list.")
    await page.get_by_role("link", name="Approvals").click()
    await expect(row(page, made)).to_be_visible()
    seat = desk.stage.seats["Lead"]
    await seat.api.post(f"/workspaces/{seat.id}/approvals/{made['approval_id']}/withdraw", {})
    await expect(page.get_by_role("alert")).to_contain_text("Some requests may not be shown.")
    await expect(page.get_by_text("No requests waiting for you")).to_have_count(0)
    await page.unroute("**/approvals/pending*")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_text("No requests waiting for you")).to_be_visible()


@requirement("C41")
async def test_it_stands_in_the_chats_of_who_asks_and_of_who_is_asked_over_a_reload(desk: Desk) -> None:
    stage = desk.stage
    page = await desk.open(f"/app/chat/{stage.seats['Backend'].id}")
    made = await ask_leave(stage, "Backend", details={"to": "production"})
    item = page.locator(f"li[data-approval='{made['approval_id']}']")
    await expect(item).to_contain_text("Backend requests approval")
    await expect(item).to_contain_text("to: production")
    await say(stage, "Engineering", made, "deny", note="not today")
    await expect(item).to_contain_text("Denied by Engineering.")
    await page.goto(f"{stage.server.url}/app/chat/{stage.seats['Engineering'].id}")
    await expect(item).to_contain_text("Denied")
    await item.get_by_role("link", name="View request").click()
    await expect(request(page)).to_contain_text("Decided by Engineering")


@requirement("C40", "C65")
async def test_on_a_phone_the_list_leads_to_a_full_page_and_back(desk: Desk) -> None:
    made = await ask_leave(desk.stage, "Lead")
    page = await inbox(desk, viewport=NARROW)
    opened = await open_request(page, made)
    await expect(row(page, made)).to_have_count(0)
    await opened.get_by_role("button", name="Approve", exact=True).click()
    await let_go(page)
    await expect(opened).to_contain_text("Approved")
    await opened.get_by_role("button", name="Back to requests").click()
    await expect(page.get_by_text("No requests waiting for you")).to_be_visible()


@requirement("C40")
async def test_who_may_only_look_reads_requests_and_decides_nothing(desk: Desk) -> None:
    made = await ask_leave(desk.stage, "Lead")
    page = await desk.enter(await desk.context(), INBOX, await desk.stage.link_for("viewer"))
    opened = await open_request(page, made)
    await expect(opened).to_contain_text("Only operators and owners can decide this request.")
    await expect(opened.get_by_role("button", name="Approve")).to_have_count(0)
