"""The first minutes of a person: from the printed link to an answer, an empty chat, the way in."""

import asyncio
import re
import shlex
from pathlib import Path

from playwright.async_api import Browser, Page

from testing.canvas.page_user import Desk
from testing.ports import free_port
from testing.processes import MOLECULE, environment, started
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.canvas.expectations import expect
from tests.requirements import requirement
from tests.system.demo.demo_process import started_demo

# What the requirement grants a person, the start of the browser included.
FIRST_ANSWER_SECONDS = 60


class Clicks:
    """Counts what a person has to press."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.count = 0

    async def on(self, name: str) -> None:
        """Presses a button."""
        self.count += 1
        await self.page.get_by_role("button", name=name).click(timeout=PROCESS_START_SECONDS * 1000)


@requirement("C110", "C111")
async def test_from_the_link_of_the_demo_to_the_first_answer_in_few_clicks(browser: Browser, tmp_path: Path) -> None:
    async with started_demo(tmp_path / "state", free_port()) as process:
        await process.says("Ctrl-C")
        link = re.search(r"^ +open +(\S+)$", process.said, flags=re.MULTILINE)
        assert link is not None, process.said
        context = await browser.new_context(viewport={"width": 1440, "height": 900})
        try:
            async with asyncio.timeout(FIRST_ANSWER_SECONDS):
                page = await context.new_page()
                await page.goto(link[1], timeout=PROCESS_START_SECONDS * 1000)
                clicks = Clicks(page)
                panel = page.get_by_role("complementary", name="Lead")
                await expect(panel.get_by_role("list", name="Example requests").get_by_role("button")).to_have_count(3)
                await expect(page.get_by_role("group", name="Map of the organisation")).to_be_visible()
                await clicks.on("Plan a landing page for our launch")
                await panel.get_by_text("Effort", exact=True).last.wait_for(timeout=FIRST_ANSWER_SECONDS * 1000)
            assert clicks.count <= 3
            assert await panel.get_by_role("list", name="Example requests").count() == 0
        finally:
            await context.close()


# -- an empty chat -----------------------------------------------------------------------------------------------------


async def describe(desk: Desk, name: str, *examples: object) -> None:
    """Registers an agent whose card has examples."""
    seat = desk.stage.seats[name]
    card = {"name": name, "skills": [{"id": "requests", "name": "Requests", "examples": list(examples)}]}
    await seat.api.post("/registry/register", {"id": seat.id, "agent_card": card})


@requirement("C111")
async def test_an_empty_chat_offers_the_examples_of_its_agent_until_something_is_said(desk: Desk) -> None:
    hostile = ("Pay\u202eEveP", "two\nlines", "x" * 121, 5, {"text": "a"})
    await describe(desk, "Reader", *hostile, "Read the *news*", "<b>Sum</b> it up", "Find the source", "A fourth")
    page = await desk.open(f"/app/org?focus={desk.stage.seats['Reader'].id}&panel=chat")
    examples = page.get_by_role("list", name="Example requests").get_by_role("button")
    await expect(examples).to_have_text(["Read the *news*", "<b>Sum</b> it up", "Find the source"])
    await examples.nth(1).click()
    await expect(page.get_by_role("list", name="Messages with Reader")).to_be_visible()
    await expect(page.get_by_role("textbox", name="Message to Reader")).to_be_focused()
    assert await examples.count() == 0
    await eventually(lambda: desk.stage.heard_by("Reader"), lambda said: said == ["<b>Sum</b> it up"])


@requirement("C111")
async def test_examples_that_an_agent_tells_later_appear_at_once(desk: Desk) -> None:
    page = await desk.open(f"/app/chat/{desk.stage.seats['Reader'].id}")
    await expect(page.get_by_text("Write a question or a task for Reader below.")).to_be_visible()
    await describe(desk, "Reader", "Read the news")
    await expect(page.get_by_role("button", name="Read the news")).to_be_visible()


@requirement("C111")
async def test_an_empty_chat_says_what_to_do_where_there_are_no_examples(desk: Desk) -> None:
    await desk.stage.server.seat("Archive")
    page = await desk.open("/app/chat")
    await page.get_by_role("link", name="Archive").click()
    await expect(page.get_by_text("The agent of Archive has not connected yet.")).to_be_visible()


@requirement("C111")
async def test_a_viewer_is_offered_nothing_to_send(desk: Desk) -> None:
    await describe(desk, "Reader", "Read the news")
    page = await desk.enter(
        await desk.context(), f"/app/chat/{desk.stage.seats['Reader'].id}", await desk.stage.link_for("viewer")
    )
    await expect(page.get_by_role("heading", name="No messages yet")).to_be_visible()
    await expect(page.get_by_text("Operators and owners can send them")).to_be_visible()
    assert await page.get_by_role("button", name="Read the news").count() == 0


# -- the way in --------------------------------------------------------------------------------------------------------


@requirement("C112")
async def test_the_command_of_the_login_page_prints_a_link_that_lets_in(browser: Browser, tmp_path: Path) -> None:
    state, port = tmp_path / "state of a person", free_port()
    env = environment(state, port)
    del env["MOLECULE_ADMIN_TOKEN"]
    async with started(MOLECULE, "up", "--no-runner", env=env) as server:
        await server.says("listening on")
        context = await browser.new_context()
        try:
            page = await context.new_page()
            await page.goto(f"http://127.0.0.1:{port}/app/", timeout=PROCESS_START_SECONDS * 1000)
            shown = page.get_by_text("login-link --state-dir")
            await expect(shown).to_be_visible()
            program, *arguments = shlex.split(await shown.inner_text())
            assert (Path(program), str(state) in arguments) == (Path(MOLECULE), True)
            # Not the environment of the server: another terminal.
            elsewhere = {name: value for name, value in env.items() if not name.startswith("MOLECULE_")}
            async with started(MOLECULE, *arguments, env=elsewhere, cwd=tmp_path) as command:
                assert await command.ended() == 0, command.said
                await page.goto((await command.output()).strip())
            await expect(page.get_by_role("heading", name="No agents yet")).to_be_visible()
        finally:
            await context.close()


@requirement("C112")
async def test_the_login_page_of_another_machine_shows_no_path_of_the_server(desk: Desk) -> None:
    context = await desk.context(extra_http_headers={"X-Forwarded-For": "203.0.113.9"})
    page = await context.new_page()
    async with page.expect_response("**/login") as answered:
        await page.goto(desk.stage.server.url + "/app/")
    assert (await (await answered.value).json())["is_exact"] is False
    await expect(page.get_by_text("molecule login-link", exact=True)).to_be_visible()
    await expect(page.get_by_text("Add --state-dir with the folder of the server")).to_be_visible()
    assert desk.stage.server.server.settings.state_dir not in await page.content()
