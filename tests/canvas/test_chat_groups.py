"""A chat stays readable: parts of a question are a group, long answers begin at their first line, news at its mark."""

import re

from playwright.async_api import Locator, Page

from testing.canvas.page_user import Desk
from tests.canvas.approval_actions import ask_leave, say
from tests.canvas.chat import Chat, chat_path
from tests.canvas.delegation_actions import answer_work, bubble, by_http, decline_work, open_groups, take_work
from tests.canvas.expectations import expect
from tests.canvas.long_chats import say_many
from tests.requirements import requirement

TALL = "\n\n".join(f"Paragraph {number} of a long answer." for number in range(60))
FIRST_LINE_FROM_TOP = """(message) => {
  const box = message.closest("ol").parentElement;
  return message.getBoundingClientRect().top - box.getBoundingClientRect().top;
}"""
NEAR_TOP_PX = 40


async def open_chat(desk: Desk, name: str = "Lead") -> tuple[Page, Chat]:
    """The chat with an agent, live."""
    page = await desk.open(chat_path(desk.stage, name))
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    return page, Chat(page, name)


async def from_top(message: Locator) -> float:
    """How far below the top of the view a message begins."""
    return float(await message.evaluate(FIRST_LINE_FROM_TOP))


@requirement("C21")
async def test_the_parts_of_a_question_are_one_group_that_counts_and_opens(desk: Desk) -> None:
    stage = desk.stage
    page, chat = await open_chat(desk)
    ids = [await by_http(stage, "Lead", each, f"Ask {each}") for each in ("Engineering", "Research", "Support")]
    group = chat.list.get_by_role("button", name=re.compile("^Lead asked 3 agents"))
    await expect(group).to_have_text("Lead asked 3 agents · 0 done")
    await expect(bubble(page, ids[0])).to_have_count(0)
    await take_work(stage, "Engineering")
    await answer_work(stage, "Engineering", "Long " * 100)
    await expect(group).to_have_text("Lead asked 3 agents · 1 done")
    await take_work(stage, "Research")
    await decline_work(stage, "Research", "not ours")
    await expect(group).to_have_text("Lead asked 3 agents · 1 done, 1 failed")
    bar = chat.list.get_by_role("progressbar", name="Tasks ended")
    await expect(bar).to_have_attribute("aria-valuetext", "1 done, 1 failed")
    await expect(bar).to_have_attribute("aria-valuenow", "2")
    await group.focus()
    await page.keyboard.press("Enter")
    await expect(group).to_have_attribute("aria-expanded", "true")
    for each in ids:
        await expect(bubble(page, each)).to_be_visible()
    await expect(bubble(page, ids[1])).to_contain_text("not ours")
    await page.reload()
    await expect(group).to_have_text("Lead asked 3 agents · 1 done, 1 failed")
    await page.goto(f"{stage.server.url}{chat_path(stage, 'Lead')}?m={ids[2]}")
    await expect(bubble(page, ids[2])).to_be_focused()


@requirement("C22")
async def test_a_group_built_from_history_is_the_group_built_live(desk: Desk) -> None:
    stage = desk.stage
    page, chat = await open_chat(desk)
    for each in ("Engineering", "Research"):
        await by_http(stage, "Lead", each, f"Ask {each}")
    await take_work(stage, "Research")
    await answer_work(stage, "Research", "Done")
    await expect(chat.list).to_contain_text("1 done")
    await open_groups(page)
    html = "list => [...list.querySelectorAll('[data-group], [data-delegation]')].map(each => each.innerHTML)"
    times = "list => list.querySelectorAll('[data-elapsed], time').forEach(each => each.remove())"
    fresh, other = await open_chat(desk)
    await open_groups(fresh)
    shown = []
    for open_one in (chat, other):
        await expect(open_one.list.locator("[data-delegation]")).to_have_count(2)
        await open_one.list.evaluate(times)
        shown.append(await open_one.list.evaluate(html))
    assert shown[0] == shown[1]


@requirement("C41")
async def test_requests_of_others_are_one_line_in_the_chat_that_they_passed(desk: Desk) -> None:
    stage = desk.stage
    page, _ = await open_chat(desk, "Engineering")
    made = await ask_leave(stage, "Backend", "Deploy the page", details={"to": "production"})
    item = page.locator(f"li[data-approval='{made['approval_id']}']")
    await expect(item).to_contain_text("Backend requests approval: Deploy the page")
    await expect(item).not_to_contain_text("production")
    box = await item.bounding_box()
    assert box is not None
    assert box["height"] < 48
    await say(stage, "Engineering", made, "deny", note="not today")
    await expect(item).to_contain_text("Denied")
    await item.get_by_role("link", name="View request").click()
    await expect(page.get_by_role("article", name="Request")).to_contain_text("not today")


@requirement("C24")
async def test_an_answer_taller_than_the_view_is_shown_from_its_first_line(desk: Desk) -> None:
    page, chat = await open_chat(desk)
    await chat.write("Tell me all")
    await desk.stage.say("Lead", TALL)
    answer = chat.message("Paragraph 0 of")
    await expect(answer).to_be_visible()
    await expect(page.get_by_role("button", name="Jump to latest")).to_be_visible()
    assert 0 <= await from_top(answer) <= NEAR_TOP_PX
    await desk.stage.say("Lead", "and one more thing")
    await expect(page.get_by_role("button", name="1 new", exact=True)).to_be_visible()
    assert 0 <= await from_top(answer) <= NEAR_TOP_PX
    await page.get_by_role("button", name="1 new", exact=True).click()
    await expect(chat.message("and one more thing")).to_be_in_viewport(ratio=1)
    await desk.stage.say("Lead", "a short one")
    await expect(chat.message("a short one")).to_be_in_viewport(ratio=1)


@requirement("C24")
async def test_a_chat_with_news_opens_at_its_mark_and_a_read_one_at_its_end(desk: Desk) -> None:
    await say_many(desk.stage, "Lead", [f"line {number:02}" for number in range(30)])
    page, chat = await open_chat(desk)
    await page.get_by_role("button", name="Jump to latest").click()
    await expect(chat.message("line 29")).to_be_in_viewport(ratio=1)
    async with page.expect_response("**/chat/read"):
        await desk.stage.say("Lead", "read too")
    await page.goto(f"{desk.stage.server.url}/app/chat")
    await say_many(desk.stage, "Lead", [f"news {number:02}" for number in range(40)])
    entry = page.get_by_role("region", name="Conversations").get_by_role("link", name="Lead")
    await expect(entry).to_contain_text("40 unread")
    await entry.click()
    await expect(chat.message("news 00")).to_be_in_viewport(ratio=1)
    mark = chat.list.get_by_role("listitem").filter(has_text=re.compile("^New$"))
    assert 0 <= await from_top(mark) <= NEAR_TOP_PX
    await expect(entry).to_contain_text("40 unread")
    await page.get_by_role("button", name="Jump to latest").click()
    await expect(entry.get_by_text("unread")).to_have_count(0)
    await page.reload()
    await expect(chat.message("news 39")).to_be_in_viewport(ratio=1)
