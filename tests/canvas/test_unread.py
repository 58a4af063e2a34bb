"""What was not read: counted per chat and in all, in every tab, and gone everywhere once it was read."""

import asyncio
import re

import pytest
from playwright.async_api import Locator, Page

from testing.canvas.page_user import Desk
from testing.message_chains import speak
from tests.canvas.chat import Chat, chat_path
from tests.canvas.expectations import expect
from tests.canvas.long_chats import say_many
from tests.requirements import requirement

HIDDEN = """() => {
  let hidden = false;
  Object.defineProperty(document, "visibilityState", { get: () => hidden ? "hidden" : "visible" });
  window.hide = value => { hidden = value; document.dispatchEvent(new Event("visibilitychange")); };
}"""

NOTE_TITLES = """() => {
  window.titles = [];
  const note = () => window.titles.push(document.title);
  new MutationObserver(note).observe(document.querySelector("title"), { childList: true, characterData: true });
}"""

HEARD = """() => {
  const channel = new BroadcastChannel("molecule");
  window.heard = new Promise(resolve => { channel.onmessage = () => resolve(true); });
}"""


@pytest.fixture
async def page(desk: Desk) -> Page:
    """The list of chats."""
    page = await desk.open("/app/chat")
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    return page


def entry(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name="Conversations").get_by_role("link", name=name)


async def expect_unread(page: Page, chats: dict[str, int]) -> None:
    """The chats have so many unread messages, and the whole page agrees."""
    total = sum(chats.values())
    for name, count in chats.items():
        unread = entry(page, name).get_by_text("unread")
        await (
            expect(entry(page, name)).to_contain_text(f"{count} unread") if count else expect(unread).to_have_count(0)
        )
    main = page.get_by_role("navigation", name="Main").get_by_role("link", name="Chats")
    await expect(main).to_have_accessible_name(f"Chats {total} unread" if total else "Chats")
    shown = rf"\({total}\) " if total else ""
    await expect(page).to_have_title(re.compile(rf"^{shown}[\w ]+ · Default · Molecule$"))


@requirement("C17")
async def test_unread_messages_are_counted_per_chat_in_all_and_in_the_title(desk: Desk, page: Page) -> None:
    await expect_unread(page, {"Lead": 0, "Reader": 0})
    for words in ("one", "two", "three"):
        await desk.stage.say("Lead", words)
    await desk.stage.say("Reader", "other")
    await expect_unread(page, {"Lead": 3, "Reader": 1})
    await page.reload()
    await expect_unread(page, {"Lead": 3, "Reader": 1})


@requirement("C17")
async def test_reading_a_chat_clears_it_in_all_tabs_and_for_good(desk: Desk, page: Page) -> None:
    await desk.stage.say("Lead", "news")
    await desk.stage.say("Reader", "other")
    other = await desk.tab(page.context, "/app/chat")
    await expect_unread(other, {"Lead": 1, "Reader": 1})
    async with page.expect_response("**/chat/read"):
        await entry(page, "Lead").click()
    for each in (page, other):
        await expect_unread(each, {"Lead": 0, "Reader": 1})
    elsewhere = await desk.open("/app/chat")
    await expect_unread(elsewhere, {"Lead": 0, "Reader": 1})


@requirement("C17")
async def test_what_arrives_in_an_open_chat_is_read_at_once_in_all_tabs(desk: Desk, page: Page) -> None:
    await entry(page, "Lead").click()
    other = await desk.tab(page.context, "/app/chat")
    await expect(other.get_by_role("banner")).to_contain_text("Live")
    await desk.stage.say("Lead", "look here")
    await Chat(page, "Lead").shows("look here")
    await expect(entry(other, "Lead")).to_contain_text("look here")
    for each in (page, other):
        await expect_unread(each, {"Lead": 0})


@requirement("C17")
async def test_what_another_tab_has_read_before_it_came_here_is_not_unread(desk: Desk, page: Page) -> None:
    stage = desk.stage
    (org,) = await stage.admin.get("/orgs")
    (person,) = await stage.admin.get(f"/orgs/{org['id']}/people")
    word = {"kind": "read", "owner": f"{org['id']}/{person['id']}", "workspaceId": stage.seats["Lead"].id, "seq": 1}
    other = await desk.tab(page.context, "/app/chat")
    await expect(other.get_by_role("banner")).to_contain_text("Live")
    await other.evaluate(HEARD)
    await page.evaluate("word => new BroadcastChannel('molecule').postMessage(word)", word)
    await other.evaluate("() => window.heard")
    await stage.say("Lead", "look here")
    await expect(entry(other, "Lead")).to_contain_text("look here")
    await expect_unread(other, {"Lead": 0})


@requirement("C17")
async def test_what_is_below_the_part_one_looks_at_is_not_read_until_one_gets_there(desk: Desk) -> None:
    await say_many(desk.stage, "Lead", [f"line {number:02}" for number in range(50)])
    page = await desk.open("/app/chat")
    await entry(page, "Lead").click()
    async with page.expect_response("**/chat/read"):
        await page.get_by_role("button", name="Jump to latest").click()
    chat = Chat(page, "Lead")
    # The browser tells the page of scrolling with its next frame.
    scroll = "list.parentElement.scrollTop = 300; requestAnimationFrame(() => requestAnimationFrame(done));"
    await chat.list.evaluate(f"list => new Promise((done) => {{ {scroll} }})")
    await desk.stage.say("Lead", "far below")
    await expect_unread(page, {"Lead": 1})
    await page.get_by_role("button", name="1 new", exact=True).click()
    await expect_unread(page, {"Lead": 0})


@requirement("C17")
async def test_a_hidden_page_reads_nothing_until_it_is_seen_and_marks_what_is_new(desk: Desk) -> None:
    context = await desk.context()
    await context.add_init_script(f"({HIDDEN})()")
    page = await desk.enter(context, chat_path(desk.stage, "Lead"))
    chat = Chat(page, "Lead")
    await expect(chat.field).to_be_visible()  # what comes before the chat is open is new in it
    await desk.stage.say("Lead", "seen")
    await chat.shows("seen")
    await expect_unread(page, {"Lead": 0})
    await page.evaluate("window.hide(true)")
    await desk.stage.say("Lead", "not seen yet")
    await expect_unread(page, {"Lead": 1})
    async with page.expect_response("**/chat/read"):
        await page.evaluate("window.hide(false)")
    await expect_unread(page, {"Lead": 0})
    items = await chat.list.get_by_role("listitem").all_inner_texts()
    assert items.index("New") == len(items) - 2


@requirement("C17")
async def test_the_count_of_a_chat_ends_where_the_server_stops_counting(desk: Desk, page: Page) -> None:
    await say_many(desk.stage, "Lead", [f"line {number}" for number in range(120)])
    await expect(entry(page, "Lead")).to_contain_text("99+ unread")
    await page.reload()
    await expect(entry(page, "Lead")).to_contain_text("99+ unread")
    await entry(page, "Lead").click()
    await page.get_by_role("button", name="Jump to latest").click()
    await expect_unread(page, {"Lead": 0})


@requirement("C17")
async def test_what_was_read_without_a_connection_is_told_to_the_server_later(desk: Desk, page: Page) -> None:
    desk.forgiven.append("net::ERR_FAILED")
    await desk.stage.say("Lead", "news")
    await expect_unread(page, {"Lead": 1})
    await page.route("**/chat/read", lambda route: route.abort())
    async with page.expect_event("requestfailed"):
        await entry(page, "Lead").click()
    await expect_unread(page, {"Lead": 0})
    await page.unroute("**/chat/read")
    async with page.expect_response("**/chat/read"):
        await desk.stage.say("Lead", "more news")
    fresh = await desk.open("/app/chat")
    await expect_unread(fresh, {"Lead": 0})


@requirement("C17")
async def test_what_arrives_in_the_open_chat_never_counts_as_unread_not_for_one_paint(desk: Desk) -> None:
    stage = desk.stage
    page = await desk.open(chat_path(stage, "Lead"))
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    chat = Chat(page, "Lead")
    await stage.say("Lead", "first")
    await chat.shows("first")
    await page.evaluate(NOTE_TITLES)
    told: list[str] = []
    page.on("request", lambda request: told.append(request.url) if request.method == "POST" else None)
    await asyncio.gather(*(stage.say("Lead", f"burst {number}") for number in range(30)))
    await chat.shows("burst 29", "burst 0")
    assert await page.evaluate("() => window.titles") == []
    assert 1 <= len(told) < 30  # a burst is told to the server now and then
    await page.reload()
    await chat.shows("burst 29", "burst 0")
    await expect_unread(page, {"Lead": 0})


@requirement("C18")
async def test_all_is_marked_as_read_and_as_before_when_that_is_undone_also_in_other_tabs(
    desk: Desk, page: Page
) -> None:
    for words in ("one", "two"):
        await desk.stage.say("Lead", words)
    await desk.stage.say("Reader", "other")
    other = await desk.tab(page.context, "/app/chat")
    await expect_unread(other, {"Lead": 2, "Reader": 1})
    await page.get_by_role("button", name="Mark all read").click()
    for each in (page, other):
        await expect_unread(each, {"Lead": 0, "Reader": 0})
    await page.get_by_role("button", name="Undo").click()
    await expect_unread(page, {"Lead": 2, "Reader": 1})
    await expect(entry(other, "Lead").get_by_text("unread")).to_have_count(1)
    await page.reload()
    await expect_unread(page, {"Lead": 2, "Reader": 1})


@requirement("C63")
async def test_u_marks_a_chat_as_unread_for_good(desk: Desk, page: Page) -> None:
    await desk.stage.say("Lead", "read me")
    async with page.expect_response("**/chat/read"):
        await entry(page, "Lead").click()
    await expect_unread(page, {"Lead": 0})
    await entry(page, "Lead").focus()
    await page.keyboard.press("u")
    await expect_unread(page, {"Lead": 1})
    await page.reload()
    await expect_unread(page, {"Lead": 1})


@requirement("C17")
async def test_chats_are_in_sections_and_found_by_name(desk: Desk, page: Page) -> None:
    await desk.stage.say("Reader", "news")
    await expect(page.get_by_role("region", name="Unread").get_by_role("link")).to_have_text([re.compile("Reader")])
    field = page.get_by_role("searchbox", name="Search chats")
    await field.fill("night")
    side = page.get_by_role("region", name="Conversations")
    await expect(side.get_by_role("link")).to_have_text([re.compile("Night shift")])
    await field.press("Enter")
    await expect(page.get_by_role("region", name="Chat with Night shift")).to_be_visible()
    await field.fill("")
    await entry(page, "Reader").click()
    await expect(page.get_by_role("textbox", name="Message to Reader")).to_be_visible()
    await expect(page.get_by_role("region", name="Unread").get_by_role("link")).to_have_text([re.compile("Reader")])
    await expect(page.get_by_role("button", name="Mark all read")).to_have_count(0)
    await entry(page, "Lead").click()
    await expect(page.get_by_role("region", name="Recent").get_by_role("link")).to_have_text([re.compile("Reader")])


@requirement("C17")
async def test_messages_between_agents_count_as_unread_until_this_browser_shows_them(desk: Desk) -> None:
    first, second = desk.stage.seats["Support"], desk.stage.seats["First line"]
    await speak(first, second.id, "before")
    page = await desk.open(f"/app/org?focus={first.id}&panel=messages")
    peer = page.get_by_role("list", name="Agents").get_by_role("link", name="First line")
    await expect(peer).to_contain_text("before")
    await expect(peer.get_by_text("unread")).to_have_count(0)
    await speak(second, first.id, "after")
    await expect(peer).to_contain_text("1 unread")
    await page.reload()
    await expect(peer).to_contain_text("1 unread")
    await peer.click()
    await expect(page.get_by_role("list", name="Messages of Support and First line")).to_contain_text("after")
    await page.goto(f"{desk.stage.server.url}/app/org?focus={first.id}&panel=messages")
    await expect(peer).to_contain_text("after")
    await expect(peer.get_by_text("unread")).to_have_count(0)
