"""One inbox: everything that waits for a person, each thing once, with what can be done about it."""

import json
import re
import time

from playwright.async_api import Locator, Page, Route

from molecule_core.common.clock import SECOND, to_rfc3339
from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from testing.message_chains import frozen_chain
from tests.canvas.approval_actions import HELD_MS, ask_leave, let_go, now_of
from tests.canvas.chat import Chat, chat_path
from tests.canvas.delegation_actions import by_http, take_work
from tests.canvas.expectations import expect
from tests.canvas.message_actions import ask, mutter, offer, take
from tests.canvas.views import NARROW
from tests.requirements import requirement

INBOX = "/app/inbox"


def items(page: Page) -> Locator:
    """All that the inbox lists."""
    return page.locator("[data-item]")


def badge(page: Page) -> Locator:
    """The inbox in the rail, with its number."""
    return page.get_by_role("navigation", name="Main").get_by_role("link", name="Inbox")


async def fill(stage: Stage) -> None:
    """Gives the person one thing of most kinds, oldest first."""
    await ask_leave(stage, "Lead", "Restart the server", details={"host": "one"})
    await offer(stage, "Writer", "Which day?", ["Monday", "Tuesday"])
    asked = await ask(stage, "Reader", "Is it done?")
    await mutter(stage, "Reader", asked["id"], "It is.")
    org_id = (await stage.admin.get("/orgs"))[0]["id"]
    await frozen_chain(stage.server, org_id, stage.seats["Support"].id)
    delegation_id = await by_http(stage, "Engineering", "Backend", "Ship it")
    await take_work(stage, "Backend")
    seat = stage.seats["Backend"]
    await seat.api.post(
        f"/workspaces/{seat.id}/delegations/{delegation_id}/update", {"status": "failed", "error": "no disk"}
    )


@requirement("CN1", "C10")
async def test_all_that_waits_is_one_list_with_one_number(desk: Desk) -> None:
    await fill(desk.stage)
    page = await desk.open(INBOX)
    await expect(items(page)).to_have_count(5)
    for text in ("Needs approval", "Asks a question", "Answer not sent", "Message chain stopped", "Task failed"):
        await expect(items(page).filter(has_text=text)).to_have_count(1)
    await expect(badge(page)).to_contain_text("5 waiting for you")
    rail = page.get_by_role("navigation", name="Main")
    await expect(rail.get_by_role("link", name="Problems")).to_have_text("Problems")
    strip = page.get_by_role("region", name="Needs attention")
    await expect(strip.get_by_role("button", name="All")).to_have_text("All 5")
    await page.get_by_role("link", name="Questions").click()
    await expect(items(page)).to_have_count(1)
    assert page.url.endswith("/app/inbox?kind=question")
    await page.reload()
    await expect(items(page)).to_have_count(1)
    await expect(badge(page)).to_contain_text("5 waiting for you")


@requirement("CN1", "M29")
async def test_a_question_stays_until_it_is_answered_and_is_answered_in_place(desk: Desk) -> None:
    stage = desk.stage
    page = await desk.open(chat_path(stage, "Writer"))
    other = await desk.tab(page.context, INBOX)
    question = await offer(stage, "Writer", "Which day?", ["Monday", "Tuesday <b>noon</b>"])
    await Chat(page, "Writer").shows("Which day?")
    await expect(badge(page)).to_contain_text("1 waiting for you")  # although it was read
    await page.goto(stage.server.url + INBOX)
    await expect(items(page)).to_contain_text("Which day?")
    await items(page).get_by_role("button", name="Tuesday <b>noon</b>").click()
    row = await take(stage, "Writer")
    metadata = row["request_body"]["params"]["message"]["metadata"]
    assert (metadata["option_of"], metadata["option"]) == (question, 1)
    for each in (page, other):
        await expect(each.get_by_role("main").get_by_text("You’re all caught up")).to_be_visible()
        await expect(badge(each)).not_to_contain_text("waiting for you")


@requirement("CN1", "C45")
async def test_a_request_is_decided_in_its_row_with_the_time_to_undo_it(desk: Desk) -> None:
    stage = desk.stage
    made = await ask_leave(stage, "Lead", "Restart the server", details={"host": "one"})
    context = await desk.context()
    await context.clock.install()
    page = await desk.enter(context, INBOX)
    await items(page).get_by_role("button", name="Deny").click()
    await page.get_by_role("button", name="Undo").click()
    await page.clock.run_for(2 * HELD_MS)
    assert (await now_of(stage, made))["status"] == "pending"
    await items(page).get_by_role("button", name="Approve").click()
    await expect(items(page)).to_contain_text("not sent yet")
    await let_go(page)
    await expect(items(page)).to_have_count(0)
    assert (await now_of(stage, made))["status"] == "approved"


@requirement("CN1", "C45")
async def test_a_request_is_decided_in_its_chat_too(desk: Desk) -> None:
    stage = desk.stage
    made = await ask_leave(stage, "Lead", "Restart the server", details={"host": "one"})
    context = await desk.context()
    await context.clock.install()
    page = await desk.enter(context, chat_path(stage, "Lead"))
    item = page.locator(f"li[data-approval='{made['approval_id']}']")
    await item.get_by_role("button", name="Approve").click()
    await let_go(page)
    await expect(item).to_contain_text("Approved")
    assert (await now_of(stage, made))["status"] == "approved"


@requirement("CN1")
async def test_a_request_with_more_than_fits_is_opened_beside_the_list(desk: Desk) -> None:
    details = {str(number): "much to read " * 20 for number in range(5)}
    made = await ask_leave(desk.stage, "Lead", "Deploy", details=details, reason="It is tested")
    page = await desk.open(INBOX)
    await expect(items(page)).to_contain_text("It is tested")
    await expect(items(page)).to_contain_text("Open the request to see all details.")
    await expect(items(page).get_by_role("button", name="Approve")).to_have_count(0)
    await items(page).get_by_role("link", name="Deploy").click()
    await expect(page.get_by_role("article", name="Request")).to_be_visible()
    await expect(page).to_have_url(re.compile(f"/app/inbox/{made['approval_id']}"))


@requirement("CN1", "M26")
async def test_an_unsent_answer_says_whose_it_is_and_to_whom_it_goes(desk: Desk) -> None:
    stage = desk.stage
    asked = await ask(stage, "Reader", "Is it done?")
    await mutter(stage, "Reader", asked["id"], "It is.")
    page = await desk.open(INBOX)
    draft = items(page).get_by_role("group", name="Unsent answer of Reader")
    await expect(draft).to_contain_text("Reader’s unsent answer. Accepting it sends it to")
    chat = await desk.tab(page.context, chat_path(stage, "Reader"))
    card = await chat.get_by_role("group", name="Unsent answer of Reader").bounding_box()
    bubble = await Chat(chat, "Reader").message("Is it done?").locator("[data-text]").first.bounding_box()
    assert card is not None and bubble is not None
    assert card["x"] + card["width"] < bubble["x"] + bubble["width"]  # on the side of the agent
    await draft.get_by_role("button", name="Accept as answer").click()
    await expect(items(page)).to_have_count(0)
    await Chat(chat, "Reader").shows("It is.")


@requirement("CN1", "C59")
async def test_keys_go_through_the_inbox(desk: Desk) -> None:
    await fill(desk.stage)
    page = await desk.open(INBOX)
    await expect(items(page)).to_have_count(5)
    for number in (0, 1, 2):
        await page.keyboard.press("j")
        await expect(items(page).nth(number)).to_be_focused()
    await page.keyboard.press("k")
    await expect(items(page).nth(1)).to_be_focused()
    await page.keyboard.press("k")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("article", name="Request")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.keyboard.press("a")  # the first one
    await expect(page.get_by_role("article", name="Request")).to_be_visible()
    await page.keyboard.press("a")
    await expect(page).to_have_url(re.compile("item=question"))
    await expect(items(page).nth(1)).to_be_focused()


@requirement("CN1", "C65")
async def test_on_a_phone_the_inbox_is_one_column(desk: Desk) -> None:
    await fill(desk.stage)
    page = await desk.open(INBOX, viewport=NARROW)
    await expect(items(page)).to_have_count(5)
    assert await page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    await items(page).get_by_role("button", name="Monday").click()
    await expect(items(page)).to_have_count(4)


async def cut_off(page: Page, name: str) -> None:
    """Lets the snapshot tell of an agent that is gone."""

    async def change(route: Route) -> None:
        response = await route.fetch()
        snapshot = await response.json()
        for workspace in snapshot["workspaces"]:
            if workspace["name"] == name:
                workspace["status"] = "offline"
        await route.fulfill(response=response, body=json.dumps(snapshot))

    await page.route("**/snapshot", change)


@requirement("CN1", "C14")
async def test_a_peer_that_is_gone_is_listed_once_with_who_waits_for_it(desk: Desk) -> None:
    stage = desk.stage
    for task in ("Ship it", "Test it"):
        await by_http(stage, "Engineering", "Backend", task)
    page = await desk.open("/app/settings")
    await cut_off(page, "Backend")
    await page.goto(stage.server.url + INBOX)
    await expect(items(page)).to_have_count(1)
    await expect(items(page)).to_contain_text("Offline, Engineering waits for it")
    await expect(items(page)).to_contain_text("Engineering waits for Ship it")
    await expect(badge(page)).to_contain_text("1 waiting for you")


@requirement("C12", "C13")
async def test_an_agent_that_waits_for_its_peer_is_not_shown_as_working(desk: Desk) -> None:
    stage = desk.stage
    await by_http(stage, "Engineering", "Backend", "Ship it")
    busy = {"active_tasks": 1, "current_task": "in attempt 5"}
    for name in ("Engineering", "Backend"):
        seat = stage.seats[name]
        await seat.api.post("/registry/heartbeat", {"workspace_id": seat.id, **busy})
    page = await desk.open("/app/org")
    await expect(page.get_by_role("treeitem", name="Engineering Waiting for Backend")).to_be_visible()
    await expect(page.get_by_role("treeitem", name="Backend Working")).to_be_visible()
    cards = page.get_by_role("group", name="Map of the organisation")
    await expect(cards.get_by_role("button", name="Engineering Waiting for Backend")).to_be_visible()
    await page.get_by_role("treeitem", name="Engineering").click()
    panel = page.get_by_role("complementary", name="Engineering")
    await expect(panel.locator("header")).to_contain_text("Waiting for Backend")


@requirement("C12", "M22")
async def test_a_paused_agent_with_tasks_has_them_queued_and_a_limit_says_until_when(desk: Desk) -> None:
    stage = desk.stage
    await by_http(stage, "Engineering", "Backend", "Ship it")
    await stage.admin.post(f"/workspaces/{stage.seats['Backend'].id}/pause", {})
    seat = stage.seats["Reader"]
    until = to_rfc3339((int(time.time()) + 3600) * SECOND)
    await seat.api.post(f"/workspaces/{seat.id}/limit", {"until": until, "reason": "quota"})
    page = await desk.open("/app/org")
    await expect(page.get_by_role("treeitem", name="Backend Queued, paused")).to_be_visible()
    limited = re.compile(r"Reader Limited until \d\d:\d\d")
    await expect(page.get_by_role("treeitem", name=limited)).to_be_visible()
    cards = page.get_by_role("group", name="Map of the organisation")
    await expect(cards.get_by_role("button", name=limited)).to_be_visible()
    await expect(cards.get_by_role("button", name="Backend Queued, paused")).to_be_visible()
