"""The wizard: what to do for each host in the server's words, and a list that turns green as the agent arrives."""

import asyncio
import os
from pathlib import Path

from playwright.async_api import Locator, Page

from molecule_core.tools.host_config import HOSTS
from testing.canvas.page_user import Desk
from testing.waits import IN_PROCESS_SECONDS, PROCESS_START_SECONDS
from tests.canvas.expectations import expect
from tests.canvas.keyboard import Fingers
from tests.canvas.views import NARROW
from tests.requirements import requirement

STEPS = ["Token created", "First contact", "Agent registered", "Heartbeat", "First message read", "First answer"]


async def make_seat(page: Page, host: str = "Claude Code") -> str:
    """Makes a seat by the form; its token."""
    await page.get_by_label("Agent runs in").select_option(label=host)
    await page.get_by_label("Name").fill("Scout")
    await page.get_by_role("button", name="Create workspace").click()
    await page.get_by_role("button", name="Copy token").wait_for()
    return await page.get_by_text("This token is shown only once").locator("xpath=../..").locator("code").inner_text()


def steps(page: Page) -> Locator:
    """The list of what has happened and what has not."""
    return page.get_by_role("region", name="Connection status").get_by_role("listitem")


async def expect_done(page: Page, done: list[str]) -> None:
    """Which steps are green, in words as well."""
    await expect(steps(page).filter(has_text=": done")).to_have_text([f"{each}: done" for each in done])
    await expect(steps(page)).to_have_count(len(STEPS))


async def pasted(text: str, home: Path, told: str = "") -> None:
    """What a person does with lines that they copied from the page."""
    pipe = asyncio.subprocess.PIPE
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    process = await asyncio.create_subprocess_exec("sh", "-ec", text, stdin=pipe, stdout=pipe, stderr=pipe, env=env)
    async with asyncio.timeout(PROCESS_START_SECONDS):
        _, err = await process.communicate(told.encode())
    assert (process.returncode, err) == (0, b"")


async def copied(page: Page, label: str) -> str:
    """What the copy button beside a text puts on the clipboard."""
    await page.get_by_role("button", name=f"Copy: {label}").click()
    text: str = await page.evaluate("() => navigator.clipboard.readText()")
    return text


@requirement("C81")
async def test_the_copied_lines_for_curl_turn_every_step_green(empty_desk: Desk, tmp_path: Path) -> None:
    page = await empty_desk.open("/app/connect")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    token = await make_seat(page, "curl")
    await expect_done(page, STEPS[:1])
    await pasted(await copied(page, "Store the token in a file that only you can read"), tmp_path, token + "\n")
    lines = (await copied(page, "Requests with curl")).splitlines()
    define, register, beat, claim, answer = lines[:5]
    await pasted(f"{define}\n{register}", tmp_path)
    await expect_done(page, STEPS[:3])
    await page.get_by_role("button", name="Send test message").click()
    await pasted(f"{define}\n{beat}", tmp_path)
    await expect_done(page, STEPS[:4])
    await pasted(f"{define}\n{claim}", tmp_path)
    await expect_done(page, STEPS[:5])
    await pasted(f"{define}\n{answer}", tmp_path)
    await expect_done(page, STEPS)
    await expect(page.get_by_text("The agent is connected.")).to_be_attached()


@requirement("C81")
async def test_each_host_shows_its_command_and_its_file_with_this_seats_values(empty_desk: Desk) -> None:
    page = await empty_desk.open("/app/connect")
    token = await make_seat(page)
    (seat,) = await empty_desk.stage.admin.get("/workspaces")
    assert (seat["runtime"], seat["external"]) == ("claude-code", True)
    there = page.get_by_role("region", name="Setup")
    for host in HOSTS:
        await there.get_by_label("Agent runs in").select_option(host.name)
        if host.entry_path:
            command = there.get_by_role("region", name=f"Connect {host.title}")
            await expect(command).to_contain_text(
                f"molecule connect {host.name} --workspace {seat['id']} --server http"
            )
            await there.get_by_text("Set up manually").click()
            await expect(there.get_by_role("region", name=f"Add this to {host.file}")).to_contain_text(seat["id"])
        else:
            await expect(there.get_by_role("region")).to_have_count(2)
            await expect(there.get_by_role("region").last).to_contain_text(seat["id"])
        assert token not in await there.inner_text()


@requirement("C81")
async def test_the_number_of_tools_is_told_and_a_step_that_is_late_says_why(empty_desk: Desk) -> None:
    context = await empty_desk.context()
    await context.clock.install()
    page = await empty_desk.enter(context, "/app/connect")
    token = await make_seat(page)
    await context.clock.run_for(45_000)
    await expect(steps(page).filter(has_text="First contact")).to_contain_text("Was the host restarted")
    (seat,) = await empty_desk.stage.admin.get("/workspaces")
    agent = empty_desk.stage.server.api(token)
    await agent.post("/registry/register", {"id": seat["id"], "agent_card": {"name": "Scout", "tools": 11}})
    await expect(steps(page).filter(has_text="Agent registered, 11 tools")).to_contain_text("done")


@requirement("C59", "C81")
async def test_the_wizard_is_walked_by_keys_alone(empty_desk: Desk) -> None:
    page = await empty_desk.open("/app/connect")
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    fingers = Fingers(page)
    await fingers.go_to(page.get_by_label("Agent runs in"))
    await fingers.type("Cod")
    await expect(page.get_by_label("Agent runs in")).to_have_value("codex")
    await fingers.go_to(page.get_by_label("Name"))
    await fingers.type("Scout")
    await fingers.press("Enter")
    await fingers.use(page.get_by_role("button", name="Copy token"))
    await fingers.use(page.get_by_role("button", name="Done"))
    await fingers.use(page.get_by_text("Set up manually"))
    await fingers.use(page.get_by_role("button", name="Copy: Add this to ~/.codex/config.toml"))
    text: str = await page.evaluate("() => navigator.clipboard.readText()")
    assert text.startswith("[mcp_servers.molecule]")


@requirement("C65", "C81")
async def test_on_a_narrow_page_nothing_of_the_wizard_scrolls_sideways(empty_desk: Desk) -> None:
    page = await empty_desk.open("/app/connect", viewport=NARROW)
    await make_seat(page)
    await page.get_by_text("Set up manually").click()
    await page.get_by_role("region", name="Store the token").wait_for()
    wide = await page.evaluate("() => document.scrollingElement.scrollWidth - innerWidth")
    assert wide <= 0
    assert await page.locator("#view").evaluate("(view) => view.scrollWidth - view.clientWidth") <= 0


@requirement("C81")
async def test_a_server_that_does_not_say_how_is_told_beside_the_checklist(empty_desk: Desk) -> None:
    page = await empty_desk.open("/app/connect")
    empty_desk.forgiven.append("net::ERR_FAILED")
    await page.route("**/connect?host=*", lambda route: route.abort())
    await make_seat(page)
    alert = page.get_by_role("region", name="Setup").get_by_role("alert")
    await expect(alert).to_have_text("The server did not respond.", timeout=IN_PROCESS_SECONDS * 1000)
    await expect_done(page, STEPS[:1])
