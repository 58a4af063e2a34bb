"""The server dies, is started again, or comes back from a backup: the page finds its own way, and tells no lies."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.store.sqlite.backup import back_up_sqlite, restore_sqlite
from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from testing.ports import free_port
from testing.processes import serving
from testing.running_server import ADMIN_TOKEN, Running
from testing.waits import PROCESS_START_SECONDS, bounded
from tests.canvas.chat import Chat, chat_path
from tests.canvas.expectations import expect
from tests.canvas.page_watchers import expect_same_story, is_marked, mark
from tests.requirements import requirement

# What a browser says by itself while nobody listens.
NOBODY = (
    "net::ERR_CONNECTION_REFUSED",
    "net::ERR_CONNECTION_RESET",
    "net::ERR_EMPTY_RESPONSE",
    "net::ERR_SOCKET_NOT_CONNECTED",
    "WebSocket connection to",
)


# When the words of a lost connection have gone, in ms by the clock that this machine and the test share.
_WORDS_GONE = """() => new Promise(gone => {
  const words = [...document.querySelectorAll("[role=status]")];
  const isTold = () => words.some(each => each.isConnected && /Connection lost/.test(each.textContent));
  const watch = new MutationObserver(() => {
    if (isTold()) return;
    watch.disconnect();
    gone(Date.now());
  });
  watch.observe(document.body, { subtree: true, childList: true, characterData: true });
})"""
BACK_SECONDS = 4.0
"""A second from the first answer of the server, and what a shared machine adds; without the quick tries it is 5 s."""
LONG_TRIES = 6
"""After so many failed tries the waits between two of them have grown to seconds."""


class Away(Running):
    """A server in a process of its own, through all its lives on one port."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._apis = []
        self.admin = self.api(ADMIN_TOKEN)


class Lives(Stage):
    """A company on such a server."""

    async def link(self) -> str:
        """A one-time login link for the owner."""
        org_id = (await self.admin.get("/orgs"))[0]["id"]
        return str((await self.admin.post(f"/orgs/{org_id}/login-links", {}))["url"])


def again(stage: Stage) -> None:
    """The server lives anew: nobody's old connection leads anywhere."""
    stage.server.admin = stage.server.api(ADMIN_TOKEN)
    for seat in stage.seats.values():
        seat.api = stage.server.api(seat.token)


@pytest.fixture
def port() -> int:
    """A port that is the server's in all its lives."""
    return free_port()


@pytest.fixture
async def desk(browser: Browser, port: int) -> AsyncIterator[Desk]:
    """A person who knows the address of such a server."""
    server = Away(port)
    desk = Desk(browser, Lives(server))
    desk.forgiven.extend(NOBODY)
    yield desk
    await desk.close()
    await server.close()


async def arrive(desk: Desk) -> tuple[Page, Chat]:
    """A company with a lead, and the person reads the lead's chat."""
    for name in ("Lead", "Writer"):
        await desk.stage.add(name)
    page = await desk.open(chat_path(desk.stage, "Lead"))
    await mark(page)
    return page, Chat(page, "Lead")


async def expect_live(page: Page) -> None:
    """The page finds the server by itself; how long it pauses between two tries is at most five seconds."""
    live = expect(page.get_by_role("banner"))
    await live.to_contain_text("Live", timeout=PROCESS_START_SECONDS * 1000)
    assert await is_marked(page)


@requirement("C1")
async def test_after_kill_9_the_page_goes_on_by_itself_and_shows_all_once(
    desk: Desk, port: int, tmp_path: Path
) -> None:
    async with serving(tmp_path, port) as first:
        page, chat = await arrive(desk)
        await chat.write("a question")
        await expect(chat.message("a question")).to_contain_text("Sent")
        said = ["a question", *(f"before {number}" for number in range(5))]
        for words in said[1:]:
            await desk.stage.say("Lead", words)
        await first.kill()
    await expect(page.get_by_role("status").filter(has_text="Connection lost")).to_be_visible()
    await chat.write("while nobody was there")
    await expect(chat.message("while nobody was there")).to_contain_text("Not sent")
    async with serving(tmp_path, port):
        again(desk.stage)
        after = [f"after {number}" for number in range(5)]
        for words in after:
            await desk.stage.say("Lead", words)
        await expect_live(page)
        await chat.shows(after[-1])
        await expect(chat.message("while nobody was there")).to_contain_text("Sent")
        assert sorted(await chat.texts()) == sorted([*said, *after, "while nobody was there"])
        assert [words for words in await chat.texts() if words in said + after] == said + after
        assert await desk.stage.heard_by("Lead") == ["a question", "while nobody was there"]


@requirement("C5")
async def test_the_page_is_back_within_a_second_of_a_server_that_was_away_for_long(
    desk: Desk, port: int, tmp_path: Path
) -> None:
    async with serving(tmp_path, port) as first:
        page, _ = await arrive(desk)
        tries: list[str] = []
        page.on("requestfailed", lambda request: tries.append(request.url) if "/session" in request.url else None)
        await first.kill()
    await expect(page.get_by_role("status").filter(has_text="Connection lost")).to_be_visible()
    while len(tries) < LONG_TRIES:
        async with page.expect_event("requestfailed"):
            pass
    gone = asyncio.create_task(page.evaluate(_WORDS_GONE))
    async with serving(tmp_path, port):
        began = time.time()
        waited = float(await bounded(gone)) / 1000 - began
        again(desk.stage)
        await expect_live(page)
    assert waited <= BACK_SECONDS, f"the page was back {waited:.2f} s after the server"


@pytest.mark.long
@requirement("C4")
async def test_after_a_restore_from_a_backup_the_page_shows_what_a_fresh_one_shows(
    desk: Desk, port: int, tmp_path: Path
) -> None:
    state, copy = tmp_path / "state", tmp_path / "copy"
    async with serving(state, port) as first:
        page, chat = await arrive(desk)
        await desk.stage.say("Lead", "said before the backup")
        await chat.shows("said before the backup")
        await asyncio.to_thread(back_up_sqlite, state, copy)
        await chat.write("asked after it")
        await desk.stage.say("Lead", "answered after it")
        await desk.stage.say("Writer", "news after it")
        await desk.stage.add("Latecomer", "Lead")
        await chat.shows("asked after it", "answered after it")
        await expect(page.get_by_role("link", name="Latecomer")).to_be_visible()
        await first.kill()
    clock = SystemClock()
    await asyncio.to_thread(restore_sqlite, copy, state, clock=clock, ids=IdGenerator(clock, SystemRandomness()))
    async with serving(state, port):
        again(desk.stage)
        await expect_live(page)
        await expect(page.get_by_role("link", name="Latecomer")).to_have_count(0)
        await expect(chat.message("after it")).to_have_count(0)
        assert await chat.texts() == ["said before the backup"]
        await desk.stage.say("Lead", "said in the new life")
        await chat.shows("said in the new life")
        fresh = await desk.tab(page.context, chat_path(desk.stage, "Lead"))
        await Chat(fresh, "Lead").shows("said in the new life")
        await expect(fresh.get_by_role("banner")).to_contain_text("Live")
        await expect_same_story(page, fresh)
