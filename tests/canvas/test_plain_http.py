"""A page that came over plain http from another machine: browsers keep some of their tools from it, and it works."""

from playwright.async_api import Page

from testing.canvas.page_user import Desk
from tests.canvas.chat import Chat, chat_path
from tests.canvas.expectations import expect
from tests.canvas.message_actions import offer
from tests.canvas.thread_actions import start
from tests.requirements import requirement

# What a browser offers to https and to its own machine only.
KEPT_BACK = "delete Crypto.prototype.randomUUID"


async def opened(desk: Desk, path: str) -> Page:
    """A page without what browsers keep from plain http."""
    context = await desk.context()
    await context.add_init_script(KEPT_BACK)
    page = await desk.enter(context, path)
    assert await page.evaluate("() => typeof crypto.randomUUID") == "undefined"
    return page


@requirement("C19", "C6")
async def test_what_a_person_writes_and_chooses_over_plain_http_arrives(desk: Desk) -> None:
    page = await opened(desk, chat_path(desk.stage, "Lead"))
    chat = Chat(page, "Lead")
    await chat.write("over plain http")
    await expect(chat.message("over plain http")).to_contain_text("Sent")
    await offer(desk.stage, "Lead", "Which day?", ["Monday", "Tuesday"])
    await page.get_by_role("group", name="Options").get_by_role("button", name="Tuesday").click()
    await expect(chat.message("Tuesday").last).to_contain_text("Sent")
    assert await desk.stage.heard_by("Lead") == ["over plain http", "Tuesday"]


@requirement("CT4")
async def test_a_thread_is_driven_over_plain_http(desk: Desk) -> None:
    thread, _ = await start(desk.stage, "Lead", nickname="Chief")
    page = await opened(desk, f"/app/threads/{thread['thread_id']}")
    talk = page.get_by_role("region", name="Conversation")
    await page.get_by_label("Message Chief").fill("Look in the cellar first")
    await page.get_by_role("button", name="Steer").click()
    await expect(talk.locator("[data-said=user]").last).to_contain_text("Look in the cellar first")
    await page.get_by_role("button", name="Fork…").click()
    form = page.get_by_role("dialog", name="Fork Chief")
    await form.get_by_label("Nickname").fill("Second")
    await form.get_by_role("button", name="Fork").click()
    await expect(page.get_by_label("Message Second")).to_be_visible()
