"""What the page does while it is not connected, and when it is again; and what it does with frames that do not fit."""

import asyncio
import re
from functools import partial
from pathlib import Path

import pytest
from playwright.async_api import Browser, Locator, Page, Route

from molecule_core.common.limits import Limits
from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from testing.running_server import running
from testing.waits import bounded
from tests.canvas.chat import Chat, chat_path
from tests.canvas.expectations import expect
from tests.canvas.live_channel import Wire
from tests.canvas.page_watchers import PRESS_IF_THERE, expect_same_story, is_marked, mark, note_touches, touches
from tests.requirements import requirement

MOST_RESUMES = 3
MANY_EVENTS_SECONDS = 180.0
"""Thousands of messages take 10 s alone, and several times that beside other tests."""


@pytest.fixture
async def wire() -> Wire:
    """The live channel of the page, in the test's hands."""
    return Wire()


async def connected(desk: Desk, wire: Wire, path: str) -> Page:
    """A page whose channel the test holds, live."""
    context = await desk.context()
    await wire.hold(context)
    page = await desk.enter(context, path)
    await wire.until(lambda wire: wire.answers() == 1)
    return page


def banner(page: Page) -> Locator:
    return page.get_by_role("status").filter(has_text="Connection lost")


def forged(wire: Wire, seat: str, seq: int, prev: int) -> dict[str, object]:
    """An agent's message that no agent wrote."""
    return {
        "event": "AGENT_MESSAGE",
        "workspace_id": seat,
        "timestamp": "2026-01-01T00:00:00Z",
        "payload": {"message": "a forgery", "name": "Lead", "seq": 1_000},
        "entity": {"kind": "activity", "id": "forged", "rev": 0},
        "seq": wire.last_seq() + seq,
        "prev": wire.last_seq() + prev,
    }


@requirement("C1")
async def test_what_was_said_while_the_channel_was_cut_appears_once_and_in_order(desk: Desk, wire: Wire) -> None:
    page = await connected(desk, wire, chat_path(desk.stage, "Lead"))
    chat = Chat(page, "Lead")
    await mark(page)
    said = ["before the cut", *(f"while cut {number:02}" for number in range(30)), "after the cut"]
    await desk.stage.say("Lead", said[0])
    await chat.shows(said[0])
    await wire.cut()
    for words in said[1:-1]:
        await desk.stage.say("Lead", words)
    wire.mend()
    await wire.until(lambda wire: wire.opened == 2)
    await expect(chat.message(said[-2])).to_be_visible()
    await desk.stage.say("Lead", said[-1])
    await chat.shows(said[-1])
    assert await chat.texts() == said
    assert await is_marked(page)


@requirement("C1")
async def test_after_a_cut_the_organisation_looks_as_on_a_fresh_page(desk: Desk, wire: Wire) -> None:
    stage = desk.stage
    page = await connected(desk, wire, "/app/org")
    await mark(page)
    await wire.cut()
    newcomer = await stage.add("Newcomer", "Research")
    backend = stage.seats["Backend"]
    await backend.api.post("/registry/heartbeat", {"workspace_id": backend.id, "error_rate": 0.9})
    await stage.admin.call("PATCH", f"/workspaces/{stage.seats['Writer'].id}", body={"name": "Editor"})
    await stage.admin.call("DELETE", f"/workspaces/{stage.seats['Night shift'].id}", query={"confirm": "true"})
    await stage.say("Frontend", "done")
    wire.mend()
    tree = page.get_by_role("tree")
    await expect(tree.get_by_role("treeitem", name=newcomer.name)).to_be_visible()
    await expect(tree.get_by_role("treeitem", name="Night shift")).to_have_count(0)
    fresh = await desk.tab(page.context, "/app/org")
    await expect(fresh.get_by_role("treeitem", name=newcomer.name)).to_be_visible()
    await expect_same_story(page, fresh)
    assert await is_marked(page)


@requirement("C1", "C90")
async def test_after_almost_as_many_missed_events_as_a_page_may_resume_it_is_as_a_fresh_one(
    desk: Desk, wire: Wire
) -> None:
    # The agents may go offline meanwhile, which is an event too.
    stage, most = desk.stage, Limits().resume_events - 200
    page = await connected(desk, wire, chat_path(stage, "Lead"))
    await mark(page)
    await wire.cut()

    async def say(name: str, share: int) -> None:
        for number in range(share):
            await stage.say(name, f"{name} {number}")

    names = sorted(stage.seats)
    shares = {name: most // len(names) + (index < most % len(names)) for index, name in enumerate(names)}
    async with asyncio.timeout(MANY_EVENTS_SECONDS), asyncio.TaskGroup() as tasks:
        for name, share in shares.items():
            tasks.create_task(say(name, share))
    wire.mend()
    await wire.until(lambda wire: sum("seq" in frame for frame in wire.told) >= most, seconds=MANY_EVENTS_SECONDS)
    assert not [frame for frame in wire.told if frame.get("type") == "snapshot_required"]
    chat = Chat(page, "Lead")
    await expect(chat.message(f"Lead {shares['Lead'] - 1}")).to_be_visible()
    fresh = await desk.tab(page.context, "/app/org")
    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Org").click()
    await expect_same_story(page, fresh)
    assert await is_marked(page)


@requirement("C1")
async def test_after_a_cut_too_long_to_resume_the_page_reads_everything_anew_and_misses_nothing(
    browser: Browser, tmp_path: Path, wire: Wire
) -> None:
    place = str(tmp_path / "molecule.db")
    async with running("sqlite", place, tmp_path, limits=Limits(resume_events=10)) as server:
        stage = Stage(server)
        await stage.add("Lead")
        await stage.add("Writer", "Lead")
        desk = Desk(browser, stage)
        page = await connected(desk, wire, chat_path(stage, "Lead"))
        chat = Chat(page, "Lead")
        said = ["before the cut", *(f"while cut {number:02}" for number in range(60)), "after the cut"]
        await stage.say("Lead", said[0])
        await chat.shows(said[0])
        await wire.cut()
        for words in said[1:-1]:
            await stage.say("Lead", words)
        await stage.say("Writer", "unread")
        async with page.expect_response("**/snapshot"):
            wire.mend()
        await expect(page.get_by_role("link", name="Writer")).to_contain_text("1 unread")
        await expect(chat.message(said[-2])).to_be_visible()
        await stage.say("Lead", said[-1])
        await chat.shows(said[-1])
        shown = await chat.texts()
        assert shown == said[-len(shown) :]
        await desk.close()


@requirement("C1")
async def test_a_chat_that_went_on_before_it_is_opened_after_a_long_cut_hides_nothing(
    browser: Browser, tmp_path: Path, wire: Wire
) -> None:
    place = str(tmp_path / "molecule.db")
    async with running("sqlite", place, tmp_path, limits=Limits(resume_events=10)) as server:
        stage = Stage(server)
        await stage.add("Lead")
        await stage.add("Writer", "Lead")
        desk = Desk(browser, stage)
        page = await connected(desk, wire, chat_path(stage, "Writer"))
        chat = Chat(page, "Writer")
        said = ["before the cut", *(f"while cut {number:02}" for number in range(55)), "after the cut"]
        await stage.say("Writer", said[0])
        await chat.shows(said[0])
        chats = page.get_by_role("region", name="Conversations")
        await chats.get_by_role("link", name="Lead").click()
        await wire.cut()
        for words in said[1:-1]:
            await stage.say("Writer", words)
        async with page.expect_response("**/snapshot"):
            wire.mend()
        await expect(chats.get_by_role("link", name="Writer")).to_contain_text("55 unread")
        await stage.say("Writer", said[-1])
        await expect(chats.get_by_role("link", name="Writer")).to_contain_text("56 unread")
        await chats.get_by_role("link", name="Writer").click()
        await page.get_by_role("button", name="Jump to latest").click()  # it opens at what is new
        await chat.shows(said[-1], said[-2])
        shown = await chat.texts()
        assert shown == said[-len(shown) :]
        await page.evaluate(PRESS_IF_THERE, "Load older messages")  # a pointer scrolls to it, which reads them too
        await chat.shows(said[0])
        assert await chat.texts() == said
        await desk.close()


@requirement("C3")
async def test_a_frame_that_does_not_fit_causes_one_resume_and_touches_nothing(desk: Desk, wire: Wire) -> None:
    page = await connected(desk, wire, chat_path(desk.stage, "Lead"))
    chat = Chat(page, "Lead")
    await desk.stage.say("Lead", "the truth")
    await chat.shows("the truth")
    await expect(page.locator("[data-well]")).to_be_attached()  # what waits for a person has been read, too
    known, asked = wire.last_seq(), len(wire.resumes())
    await note_touches(page)
    wire.forge(forged(wire, desk.stage.seats["Lead"].id, seq=5, prev=4))
    await wire.until(lambda wire: wire.answers() == asked + 1)
    assert await touches(page) == []
    assert [frame["after"] for frame in wire.resumes()[asked:]] == [known]
    await desk.stage.say("Lead", "more truth")
    await chat.shows("more truth")
    assert await chat.texts() == ["the truth", "more truth"]
    assert len(wire.resumes()) == asked + 1


@requirement("C1", "C3")
async def test_a_repeated_frame_touches_nothing_and_asks_for_nothing(desk: Desk, wire: Wire) -> None:
    page = await connected(desk, wire, chat_path(desk.stage, "Lead"))
    chat = Chat(page, "Lead")
    for words in ("first", "second"):
        await desk.stage.say("Lead", words)
        await chat.shows(words)
    asked = len(wire.resumes())
    await note_touches(page)
    for frame in [frame for frame in wire.told if frame.get("event") == "AGENT_MESSAGE"]:
        wire.forge(frame)
    assert await touches(page) == []
    await desk.stage.say("Lead", "third")
    await chat.shows("third")
    assert await chat.texts() == ["first", "second", "third"]
    assert len(wire.resumes()) == asked


@requirement("C3")
async def test_a_sign_of_life_that_names_a_missing_event_causes_one_resume(desk: Desk, wire: Wire) -> None:
    await connected(desk, wire, chat_path(desk.stage, "Lead"))
    known = wire.last_seq()
    wire.forge({"type": "ping", "head_sent": known})
    wire.forge({"type": "ping", "head_sent": known + 1})
    await wire.until(lambda wire: wire.answers() == 2)
    assert [frame["after"] for frame in wire.resumes()[1:]] == [known]


@requirement("C3")
async def test_where_resuming_does_not_help_the_page_reads_everything_anew(desk: Desk, wire: Wire) -> None:
    page = await connected(desk, wire, chat_path(desk.stage, "Lead"))
    asked = len(wire.resumes())
    for turn in range(MOST_RESUMES):
        wire.forge(forged(wire, desk.stage.seats["Lead"].id, seq=5, prev=4))
        await wire.until(lambda wire, turn=turn: wire.answers() == asked + turn + 1)  # type: ignore[misc]
    async with page.expect_response("**/snapshot") as snapshot:
        wire.forge(forged(wire, desk.stage.seats["Lead"].id, seq=5, prev=4))
    assert (await snapshot.value).ok
    await wire.until(lambda wire: wire.answers() == asked + MOST_RESUMES + 1)
    await desk.stage.say("Lead", "the truth")
    await Chat(page, "Lead").shows("the truth")
    await expect(page.get_by_text("a forgery")).to_have_count(0)


@requirement("C5")
async def test_a_lost_connection_is_told_politely_and_what_was_there_stays(desk: Desk, wire: Wire) -> None:
    page = await connected(desk, wire, chat_path(desk.stage, "Lead"))
    chat = Chat(page, "Lead")
    await desk.stage.say("Lead", "still here")
    await chat.shows("still here")
    await expect(banner(page)).to_have_count(0)
    await wire.cut()
    await expect(banner(page)).to_be_visible()
    await expect(banner(page)).to_have_attribute("aria-live", "polite")
    await expect(banner(page)).to_contain_text("Connection lost, retrying.")
    hour = await page.evaluate("() => new Date().toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' })")
    await expect(banner(page)).to_contain_text(f"data from {hour[:2]}")
    await expect(page.get_by_role("banner")).to_contain_text("Reconnecting")
    await expect(chat.message("still here")).to_be_visible()
    assert await chat.texts() == ["still here"]


@requirement("C5")
async def test_the_words_of_a_lost_connection_go_when_it_is_back(desk: Desk, wire: Wire) -> None:
    page = await connected(desk, wire, "/app/org")
    await wire.cut()
    await expect(banner(page)).to_be_visible()
    await expect(page.get_by_role("button", name="Retry now")).to_be_visible()
    wire.mend()
    await page.evaluate(PRESS_IF_THERE, "Retry now")  # it may have tried by itself in that moment
    await wire.until(lambda wire: wire.answers() == 2)
    await expect(banner(page)).to_have_count(0)
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    assert wire.opened == 2


def _has_answered(times: int, wire: Wire) -> bool:
    return wire.answers() == times


@requirement("C5")
async def test_a_cut_that_heals_at_once_is_not_worth_a_word(desk: Desk, wire: Wire) -> None:
    page = await connected(desk, wire, "/app/org")
    words = []
    for turn in range(3):  # on a busy machine a cut may last longer than it should
        await note_touches(page)
        await wire.cut()
        wire.mend()
        await wire.until(partial(_has_answered, turn + 2))
        words.append([each for each in await touches(page) if "status" in each or "Connection" in each])
        await expect(page.get_by_role("banner")).to_contain_text("Live")
    assert [] in words, words
    await expect(page.get_by_role("banner")).to_contain_text("Live")


@requirement("C5")
async def test_a_page_that_reaches_nobody_when_it_is_opened_says_so_and_tries_again_when_asked(desk: Desk) -> None:
    desk.forgiven.append("net::ERR_CONNECTION_REFUSED")
    page = await desk.open("/app/org")
    await page.route("**/session", lambda route: route.abort("connectionrefused"))
    await page.reload()
    await expect(page.get_by_text("The server did not respond.")).to_be_visible()
    await page.unroute("**/session")
    await page.evaluate(PRESS_IF_THERE, "Try again")  # it may have tried by itself in that moment
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    assert await page.get_by_role("treeitem").count() == len(desk.stage.seats)


@requirement("C5")
async def test_a_page_that_is_cut_off_while_its_parts_load_stays_and_gets_them_later(desk: Desk) -> None:
    desk.forgiven.append("net::ERR_CONNECTION_RESET")
    part = re.compile(r"/assets/Notifier-")
    refusals = 0
    refused_again = asyncio.Event()

    async def refuse(route: Route) -> None:
        nonlocal refusals
        refusals += 1
        if refusals > 1:
            refused_again.set()
        await route.abort("connectionreset")

    context = await desk.context()
    await context.route(part, refuse)
    page = await desk.enter(context, "/app/org")
    await bounded(refused_again.wait())
    assert await page.get_by_role("treeitem").count() == len(desk.stage.seats)
    async with page.expect_response(part) as loaded:
        await context.unroute(part)
    assert (await loaded.value).ok
    assert await page.get_by_role("treeitem").count() == len(desk.stage.seats)


@requirement("C9")
async def test_a_tab_has_one_channel_whatever_is_opened_in_it(desk: Desk) -> None:
    context = await desk.context()
    opened: list[str] = []
    context.on("page", lambda page: page.on("websocket", lambda socket: opened.append(socket.url)))
    page = await desk.enter(context, f"/app/org?focus={desk.stage.seats['Lead'].id}&panel=chat")
    await page.get_by_role("tab", name="About").click()
    await page.get_by_role("button", name="Close panel").click()
    main = page.get_by_role("navigation", name="Main")
    for view in ("Chats", "Connect", "Settings", "Org", "Chats"):
        await main.get_by_role("link", name=view).click()
        await expect(main.get_by_role("link", name=view)).to_have_attribute("aria-current", "page")
    for name in ("Backend", "Writer"):
        await page.get_by_role("region", name="Conversations").get_by_role("link", name=name).click()
        await expect(page.get_by_role("textbox", name=f"Message to {name}")).to_be_visible()
    assert len(opened) == 1
    await desk.tab(context, "/app/org")
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    assert len(opened) == 2
    assert desk.stage.server.server.live_hub.count_subscribers() == 2
