"""Names that stay whole, initials that differ, and previews that are text and no Markdown."""

import re
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Page

from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from testing.message_chains import speak
from tests.canvas.delegation_actions import answer_work, by_http, take_work
from tests.canvas.expectations import expect
from tests.canvas.message_actions import offer
from tests.requirements import requirement

MARKDOWN = """## Engineering

The **landing page** is `ready`:

- [x] [text](https://text.example)
- [ ] ~~colours~~

| part | state |
| --- | --- |
| text | *done* |
"""
_MARKS = re.compile(r"\*\*|##|`|~~|\]\(|\[x\]|---|\| ")
# What of each title of a team is cut: its name, and what else is seen of it.
_TITLES = """() => [...document.querySelectorAll("[data-title]")].map((title) => {
  const name = title.querySelector("[data-name]");
  const range = document.createRange();
  const seen = [...title.querySelectorAll("[data-unit], [data-count]")].filter((each) => {
    range.selectNodeContents(each);
    const text = range.getBoundingClientRect();
    const box = each.closest("[data-line-end]").getBoundingClientRect();
    return text.top < box.bottom - 2 && text.width > 0;
  });
  const cut = name.scrollWidth > name.clientWidth;
  return { name: name.textContent, cut, seen: seen.map((each) => each.textContent.trim()) };
})"""


@requirement("C51")
async def test_the_name_of_a_team_has_the_room_of_its_count(desk: Desk) -> None:
    stage = desk.stage
    await stage.add("Customer happiness", "Support")
    await stage.add("Night", "Customer happiness")
    page = await desk.open()
    title = page.locator("[data-title]").filter(has_text="Customer happiness")
    await expect(title).to_be_visible()
    for _ in range(12):  # until the text has the size of the map
        if await page.locator("[data-detail]").get_attribute("data-detail") == "full":
            break
        await page.get_by_role("button", name="Zoom in").click()
    found = {each["name"]: each for each in await page.evaluate(_TITLES)}
    assert [name for name, each in found.items() if each["cut"]] == []
    assert "agents" in found["Lead"]["seen"]  # where there is room, all is shown
    assert "agents" not in found["Customer happiness"]["seen"]
    fold = title.locator("[data-fold]")
    assert await fold.get_attribute("title") == "Collapse team: Customer happiness, 2 agents"


@requirement("C51")
async def test_agents_with_equal_initials_have_distinct_ones_everywhere(desk: Desk) -> None:
    stage = desk.stage
    await stage.add("Leaders", "Support")
    await stage.say("Lead", "Hello.")
    await stage.say("Leaders", "Hello.")
    page = await desk.open()

    def letters(name: str) -> str:
        return f"[data-id='{stage.seats[name].id}'] [aria-hidden=true]"

    await expect(page.locator(letters("Lead")).first).to_have_text("LE")
    await expect(page.locator(letters("Leaders")).first).to_have_text("LA")
    await page.get_by_role("treeitem", name="Leaders").click()
    panel = page.get_by_role("complementary", name="Leaders")
    shown = panel.locator("span[aria-hidden=true]").filter(has_text=re.compile("^L[A-Z]$"))
    await expect(shown.first).to_be_visible()
    assert set(await shown.all_text_contents()) == {"LA"}
    await page.goto(f"{stage.server.url}/app/chat")
    for name, expected in {"Lead": "LE", "Leaders": "LA"}.items():
        entry = page.get_by_role("link", name=re.compile(rf"^{name}\b"))
        await expect(entry.locator("[aria-hidden=true]").first).to_have_text(expected)


async def _work(page: Page, stage: Stage) -> None:
    await page.goto(f"{stage.server.url}/app/work?state=all")


async def _chats(page: Page, stage: Stage) -> None:
    await page.goto(f"{stage.server.url}/app/chat")


async def _inbox(page: Page, stage: Stage) -> None:
    await page.goto(f"{stage.server.url}/app/inbox")


async def _activity(page: Page, stage: Stage) -> None:
    await page.goto(f"{stage.server.url}/app/activity")


async def _peers(page: Page, stage: Stage) -> None:
    await page.goto(f"{stage.server.url}/app/org?focus={stage.seats['Reader'].id}&panel=messages")
    await expect(page.get_by_role("complementary", name="Reader").get_by_role("link").first).to_be_visible()


async def _delegations(page: Page, stage: Stage) -> None:
    await page.goto(f"{stage.server.url}/app/org?focus={stage.seats['Lead'].id}&panel=work")


async def _search(page: Page, stage: Stage) -> None:
    await page.goto(f"{stage.server.url}/app/org")
    await page.get_by_role("tree").wait_for()
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox").fill("landing")


@requirement("C22")
@pytest.mark.parametrize("show", [_work, _chats, _inbox, _activity, _peers, _delegations, _search])
async def test_a_preview_of_a_text_shows_no_marks_of_markdown(
    desk: Desk, show: Callable[[Page, Stage], Awaitable[None]]
) -> None:
    stage = desk.stage
    await by_http(stage, "Lead", "Engineering", MARKDOWN)
    await by_http(stage, "Lead", "Support", MARKDOWN)
    await take_work(stage, "Support")
    await answer_work(stage, "Support", MARKDOWN)
    await speak(stage.seats["Reader"], stage.seats["Writer"].id, MARKDOWN)
    await stage.say("Reader", MARKDOWN)
    await offer(stage, "Frontend", "Which day?", ["Monday"])
    heartbeat = {"workspace_id": stage.seats["Backend"].id, "active_tasks": 1, "current_task": "Write **all** of `it`"}
    await stage.seats["Backend"].api.post("/registry/heartbeat", heartbeat)
    page = await desk.open()
    await show(page, stage)
    texts = page.locator("body")
    if show is not _inbox:
        await expect(texts).to_contain_text(re.compile("landing page|Write all of it"))
    await expect(page.get_by_text("Loading", exact=False)).to_have_count(0)
    assert _MARKS.findall(await texts.inner_text()) == []
