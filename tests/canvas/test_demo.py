"""What the demo shows of checked answers and of budgets, to a person who opens its printed link."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser, Page

from testing.ports import free_port
from testing.waits import PROCESS_START_SECONDS
from tests.canvas.expectations import expect
from tests.canvas.page_watchers import when_seen
from tests.requirements import requirement
from tests.system.demo.demo_process import started_demo


@asynccontextmanager
async def at_the_demo(browser: Browser, state: Path) -> AsyncIterator[Page]:
    """The page behind the link that the demo prints."""
    async with started_demo(state, free_port()) as process:
        await process.says("Ctrl-C")
        link = re.search(r"^ +open +(\S+)$", process.said, flags=re.MULTILINE)
        assert link is not None, process.said
        context = await browser.new_context(viewport={"width": 1440, "height": 900})
        context.set_default_timeout(PROCESS_START_SECONDS * 1000)
        try:
            page = await context.new_page()
            await page.goto(link[1])
            yield page
        finally:
            await context.close()


async def write_to(page: Page, name: str, text: str) -> None:
    """Opens the chat with an agent and writes."""
    await page.get_by_role("link", name="Chats").first.click()
    await page.get_by_role("region", name="Conversations").get_by_role("link", name=name).click()
    field = page.get_by_role("textbox", name=f"Message to {name}")
    await field.fill(text)
    await field.press("Enter")


@requirement("C117")
async def test_an_answer_that_fails_a_check_is_worked_on_again_and_then_verified(
    browser: Browser, tmp_path: Path
) -> None:
    async with at_the_demo(browser, tmp_path / "state") as page:
        await write_to(page, "Support", "Write an announcement of our release")
        seen = [when_seen(page, words) for words in ("being checked", "needs work", "passed all checks")]
        times = await asyncio.gather(*seen)
        assert times == sorted(times)
        card = page.locator("[data-delegation]").last
        await card.get_by_text("Checks of the answer").click()
        await expect(card.locator("[data-outcome=failed]")).to_contain_text('"parts" is a required property')
        await page.get_by_role("link", name="View task").click()
        checks = page.get_by_role("region", name="Checks").get_by_role("listitem")
        await expect(checks.filter(has_text="Answer 1: failed")).to_contain_text(["parts", "parts"])
        for answer in (1, 2):
            await expect(checks.filter(has_text=f"Answer {answer}: passed").last).to_contain_text("text.json")
        history = page.get_by_role("region", name="History")
        await expect(history).to_contain_text("Passed all checks")
        await expect(page.get_by_text("Verified: it passed all checks.")).to_be_visible()
        await page.get_by_role("link", name="Show the whole request").click()
        events = page.get_by_role("region", name="Events")
        delegated = events.get_by_role("listitem").filter(has_text="Support delegated to Writer, verified")
        await delegated.get_by_text("Checks of the answer").click()
        await expect(delegated.locator("[data-outcome=passed]")).to_have_count(3)
        await expect(page.get_by_role("article", name="Request")).to_contain_text("0.02")


@requirement("C118")
async def test_a_budget_asks_a_person_and_work_goes_on_after_the_decision(browser: Browser, tmp_path: Path) -> None:
    async with at_the_demo(browser, tmp_path / "state") as page:
        await write_to(page, "Translator", "Translate our launch page into German")
        said = page.get_by_role("list", name="Messages with Translator")
        await expect(said.get_by_text("total: 1.5 days")).to_be_visible()
        await write_to(page, "Translator", "Translate the newsletter into French")
        await page.get_by_role("link", name="Inbox").first.click()
        request = page.get_by_role("listitem").filter(has=page.get_by_role("link", name="Raise the budget"))
        await expect(request).to_contain_text("0.02 of 0.03 per day are used or leased")
        await expect(request).to_contain_text("Approve to raise it by 0.015 for this day.")
        await request.get_by_role("button", name="Approve").click()
        await page.get_by_role("link", name="Chats").first.click()
        await page.get_by_role("region", name="Conversations").get_by_role("link", name="Translator").click()
        await expect(said.get_by_text("total: 1 day")).to_be_visible()
