"""What is stuck is seen, and a person gets it going again from the page."""

import re
from pathlib import Path

from playwright.async_api import Browser

from molecule_core.client.api import ApiClient
from molecule_core.common.limits import Limits
from testing.canvas.company import Stage, staged
from testing.canvas.page_user import Desk
from testing.message_chains import frozen_chain
from testing.running_server import running
from testing.waits import eventually
from tests.canvas.chat import chat_path
from tests.canvas.expectations import expect
from tests.canvas.page_watchers import PRESS_IF_THERE
from tests.requirements import requirement

POLICY = {"content-security-policy": "default-src 'none'"}


async def give_up(stage: Stage, name: str, text: str) -> str:
    """A message to an agent that nobody took in time; its id."""
    message = {"parts": [{"kind": "text", "text": text}]}
    params = {"message": message, "expires_in_seconds": 1}
    sent = await stage.admin.post(f"/workspaces/{stage.seats[name].id}/a2a", {"params": params})
    return str(sent["activity_id"])


async def freeze(stage: Stage, name: str) -> str:
    """A chain that was stopped; the id of its first message."""
    org_id = (await stage.admin.get("/orgs"))[0]["id"]
    return await frozen_chain(stage.server, org_id, stage.seats[name].id)


async def ticks_of(api: ApiClient, workspace_id: str, activity_id: str) -> list[str]:
    """What became of a message, step by step."""
    answer = await api.get(f"/workspaces/{workspace_id}/messages/{activity_id}/ticks")
    return [each["tick"] for each in answer["ticks"]]


@requirement("M21", "M25")
async def test_a_dead_letter_is_sent_again_from_the_page_and_arrives(desk: Desk) -> None:
    stage, seat = desk.stage, desk.stage.seats["Reader"]
    page = await desk.open("/app/problems")
    await expect(page.get_by_role("heading", name="No problems")).to_be_visible()
    sent = await give_up(stage, "Reader", "Read this, <b>please</b>")

    letters = page.get_by_role("region", name="Undelivered messages")
    row = letters.get_by_role("listitem")
    await expect(row).to_contain_text("The agent did not pick it up in time")
    await expect(row).to_contain_text("Read this, <b>please</b>")
    await expect(row.get_by_role("link", name="Reader")).to_be_visible()
    await expect(page.get_by_role("region", name="Needs attention")).to_contain_text("Message not delivered")
    await row.get_by_role("button", name="Send again").click()

    await expect(page.get_by_role("heading", name="No problems")).to_be_visible()
    (arrived,) = await seat.api.claim(seat.id, wait=5)
    assert arrived["id"] == sent
    assert await ticks_of(stage.admin, seat.id, sent) == ["stored", "dead", "handed_over"]


@requirement("M21")
async def test_nothing_is_called_well_while_the_lists_cannot_be_read(desk: Desk) -> None:
    desk.forgiven.append("status of 503")
    context = await desk.context()
    refused = {"error": "The server is busy.", "code": "BUSY"}
    await context.route("**/dead-letters*", lambda route: route.fulfill(status=503, json=refused, headers=POLICY))
    page = await desk.enter(context, "/app/problems")
    strip = page.get_by_role("region", name="Needs attention")
    await expect(page.get_by_role("heading", name="Could not load problems")).to_be_visible()
    await expect(page.get_by_role("main")).to_contain_text("The server is busy.")
    await expect(strip).to_contain_text("Could not check for problems")
    await give_up(desk.stage, "Reader", "too late")
    await context.unroute("**/dead-letters*")
    await page.evaluate(PRESS_IF_THERE, "Try again")  # it may have tried by itself in that moment
    await expect(page.get_by_role("region", name="Undelivered messages")).to_contain_text("too late")
    await expect(strip).to_contain_text("Message not delivered")
    await expect(page.get_by_text("Could not")).to_have_count(0)


@requirement("M21")
async def test_a_dead_letter_that_is_discarded_is_gone_for_everybody(desk: Desk) -> None:
    stage, seat = desk.stage, desk.stage.seats["Reader"]
    page, other = await desk.open("/app/problems"), await desk.open("/app/problems")
    await give_up(stage, "Reader", "too late")
    await page.get_by_role("button", name="Discard…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Discard").click()
    for each in (page, other):
        await expect(each.get_by_role("heading", name="No problems")).to_be_visible()
    assert await seat.api.claim(seat.id, wait=0) == []


@requirement("M30")
async def test_a_stopped_chain_is_a_card_and_goes_on_when_a_person_says_so(desk: Desk) -> None:
    page = await desk.open("/app/chat")
    root_id = await freeze(desk.stage, "Writer")
    await (
        page.get_by_role("region", name="Needs attention")
        .get_by_role("button", name=re.compile("Message chain stopped"))
        .click()
    )
    item = page.locator(f"[data-item='chain {root_id}']")
    await expect(item).to_be_focused()
    await expect(item).to_contain_text("Forwarded 24 times")
    await item.get_by_role("button", name="Resume").click()
    await expect(page.get_by_role("main").get_by_text("You’re all caught up")).to_be_visible()
    org_id = (await desk.stage.admin.get("/orgs"))[0]["id"]
    chain = await desk.stage.admin.get(f"/orgs/{org_id}/chains/{root_id}")
    assert chain["chain"]["state"] == "released"


@requirement("M25")
async def test_a_message_shows_how_far_it_has_come_live_and_after_a_reload(desk: Desk) -> None:
    stage, seat = desk.stage, desk.stage.seats["Reader"]
    page = await desk.open(chat_path(stage, "Reader"))
    field = page.get_by_role("textbox", name="Message to Reader")
    message = page.get_by_role("list", name="Messages with Reader").get_by_role("listitem").last
    await field.fill("Are you there?")
    await field.press("Enter")
    await expect(message).to_contain_text("Sent")
    (row,) = await seat.api.claim(seat.id, wait=5)
    await expect(message).to_contain_text("Delivered")
    await page.reload()
    await expect(message).to_contain_text("Delivered")
    await seat.api.post(f"/workspaces/{seat.id}/activity/ack", {"activity_id": row["id"], "attempt": 1})
    await expect(message).to_contain_text("Acknowledged")
    await page.reload()
    await expect(message).to_contain_text("Acknowledged")


@requirement("C20", "M22", "M25")
async def test_a_message_to_a_paused_agent_says_what_it_waits_for(desk: Desk) -> None:
    stage = desk.stage
    await stage.admin.post(f"/workspaces/{stage.seats['Reader'].id}/pause", {})
    page = await desk.open(chat_path(stage, "Reader"))
    await stage.write("Reader", "When you are back")
    await expect(page.get_by_text("Queued: the agent is paused")).to_be_visible()


@requirement("C20", "M22", "M25")
async def test_mail_that_nobody_takes_is_seen_until_its_agent_comes_for_it(browser: Browser, tmp_path: Path) -> None:
    limits = Limits(untaken_seconds=1)
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, limits=limits) as server:
        desk = Desk(browser, await staged(server))
        stage, seat = desk.stage, desk.stage.seats["Reader"]
        org_id = (await stage.admin.get("/orgs"))[0]["id"]
        await stage.write("Reader", "Are you there?")
        await eventually(lambda: stage.admin.get(f"/orgs/{org_id}/untaken"), lambda page: bool(page["untaken"]))

        page = await desk.open("/app/problems")

        row = page.get_by_role("region", name="Unread mail").get_by_role("listitem")
        await expect(row).to_contain_text("1 message waiting")
        await expect(row).to_contain_text("online")
        await expect(row.get_by_role("link", name="Reader")).to_be_visible()
        await expect(page.get_by_role("region", name="Needs attention")).to_contain_text("1 message not picked up")
        (message,) = await seat.api.claim(seat.id, wait=5)
        await seat.api.ack(seat.id, message)
        await expect(page.get_by_role("heading", name="No problems")).to_be_visible()
        await desk.close()


@requirement("M22", "M25")
async def test_an_open_page_lists_unread_mail_when_its_time_passes_without_a_click(
    browser: Browser, tmp_path: Path
) -> None:
    limits = Limits(untaken_seconds=2)
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, limits=limits) as server:
        desk = Desk(browser, await staged(server))
        problems, chats = await desk.open("/app/problems"), await desk.open("/app/chat")
        await expect(problems.get_by_role("heading", name="No problems")).to_be_visible()
        await expect(chats.get_by_role("region", name="Needs attention")).to_contain_text("all caught up")

        await desk.stage.write("Reader", "Are you there?")

        row = problems.get_by_role("region", name="Unread mail").get_by_role("listitem")
        await expect(row).to_contain_text("1 message waiting")
        for page in (problems, chats):
            await expect(page.get_by_role("region", name="Needs attention")).to_contain_text("1 message not picked up")
            await expect(page.get_by_role("navigation", name="Main").get_by_text("1 waiting for you")).to_have_count(1)
        await desk.close()


@requirement("M22", "M25")
async def test_a_click_on_problems_reads_the_lists_again_while_they_are_shown(desk: Desk) -> None:
    page = await desk.open("/app/problems")
    await expect(page.get_by_role("heading", name="No problems")).to_be_visible()
    await page.wait_for_load_state("networkidle")
    async with page.expect_response("**/untaken"):
        await page.get_by_role("navigation", name="Main").get_by_role("link", name="Problems").click()


@requirement("S20")
async def test_who_may_only_look_sees_what_is_stuck_and_changes_nothing(desk: Desk) -> None:
    context = await desk.context()
    page = await desk.enter(context, "/app/problems", await desk.stage.link_for("viewer"))
    await give_up(desk.stage, "Reader", "too late")
    await expect(page.get_by_role("region", name="Undelivered messages")).to_contain_text("Only operators and owners")
    assert await page.get_by_role("button", name="Send again").count() == 0
