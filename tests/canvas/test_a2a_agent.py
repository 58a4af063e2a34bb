"""*Add an A2A agent by its card*, against a real agent of a2a-sdk: its first answer, and what a credential shows."""

from pathlib import Path

import pytest
from playwright.async_api import Browser

from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from testing.running_server import running
from tests.canvas.chat import Chat
from tests.canvas.expectations import expect
from tests.interop.python_kits import A2A_KITS, Kit
from tests.interop.test_real_a2a_client import MORE, worker_of

SECRET = "s3cret-of-the-agent"
pytestmark = pytest.mark.long


@pytest.mark.parametrize("kit", A2A_KITS, ids=[each.name for each in A2A_KITS])
async def test_an_agent_added_by_its_card_answers_and_its_credential_is_not_shown_again(
    kit: Kit, browser: Browser, tmp_path: Path
) -> None:
    async with (
        worker_of(kit, "stream", tmp_path) as card_url,
        running("sqlite", str(tmp_path / "molecule.db"), tmp_path, **MORE) as server,
    ):
        desk = Desk(browser, Stage(server))
        desk.forgiven.append("status of 422")  # of the wrong address
        page = await desk.open("/app/connect")
        await page.get_by_role("button", name="Add an A2A agent by its card").click()
        form = page.get_by_role("form", name="Add an A2A agent")
        await form.get_by_label("Agent card").fill(card_url.replace("agent-card", "no-card"))
        await form.get_by_label("Name").fill("Translator")
        await form.get_by_label("Credential").select_option("bearer")
        await form.get_by_label("Token").fill(SECRET)
        await form.get_by_role("button", name="Add agent").click()
        await expect(form.get_by_role("alert")).to_contain_text("The agent card could not be fetched")
        await form.get_by_label("Agent card").fill(card_url)
        await form.get_by_role("button", name="Add agent").click()
        chat = Chat(page, "Translator")
        await chat.write("count to three")
        await chat.shows("done: count to three")
        await page.get_by_role("tab", name="About").click()
        section = page.locator("section").filter(has=page.get_by_role("heading", name="A2A agent"))
        await expect(section).to_contain_text("Bearer token")
        await expect(section).to_contain_text("Stream")
        await section.get_by_role("button", name="Change A2A agent").click()
        dialog = page.get_by_role("dialog", name="A2A agent of Translator")
        await expect(dialog.get_by_label("Agent card")).to_have_value(card_url)
        await expect(dialog.get_by_label("Credential")).to_have_value("")
        shown = await page.content()
        values = await page.evaluate("() => [...document.querySelectorAll('input')].map((each) => each.value)")
        await desk.close()
    assert SECRET not in shown
    assert SECRET not in values
