"""Who waits for an answer sees it: in the chat, among the problems, on the map; and what was said elsewhere goes out
with one click."""

import re
from typing import Any

import pytest
from playwright.async_api import Locator, Page

from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from tests.canvas.chat import Chat, chat_path
from tests.canvas.expectations import expect
from tests.canvas.live_channel import Wire
from tests.canvas.message_actions import ask, decline, hurry, mutter, obligation, offer, take
from tests.canvas.page_watchers import expect_same_story, is_marked, mark
from tests.requirements import requirement

DRAFT = "It is done: `make check` is green, <b>all</b> of it."


# The longest status, beside a badge.
_BADGE_AND_STATUS = """
(card) => {
  const [badge, glyph] = [card.querySelector("[title]"), card.querySelector("svg")];
  const status = glyph.nextSibling.firstChild;
  status.data = "Limited until 23:59";
  const text = document.createRange();
  text.selectNodeContents(status);
  const [one, other] = [badge.getBoundingClientRect(), text.getBoundingClientRect()];
  const covered = one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
  return { status: status.data, covered };
}
"""


def draft_of(page: Page, name: str) -> Locator:
    return page.get_by_role("group", name=f"Unsent answer of {name}")


def owing(page: Page) -> Locator:
    """The cards of messages without an answer."""
    return page.get_by_role("region", name="Unanswered messages").get_by_role("listitem")


async def said_by(stage: Stage, name: str) -> list[str]:
    """What an agent wrote to its user, oldest first."""
    page = await stage.admin.get(f"/workspaces/{stage.seats[name].id}/chat-history")
    return [each["content"] for each in page["messages"] if each["role"] == "agent"]


@requirement("C30", "M26")
async def test_what_a_mute_agent_said_is_a_card_and_one_click_makes_it_the_answer(desk: Desk) -> None:
    stage = desk.stage
    page = await desk.open("/app/problems")
    await expect(page.get_by_role("heading", name="No problems")).to_be_visible()
    row = await ask(stage, "Reader", "Is it <i>done</i>?")
    await mutter(stage, "Reader", row["id"], DRAFT)
    card = owing(page)
    await expect(card).to_contain_text("Is it <i>done</i>?")
    await expect(card).to_contain_text("Answered outside Molecule")
    await expect(draft_of(page, "Reader")).to_contain_text("make check is green, <b>all</b> of it.")
    await expect(page.get_by_role("region", name="Needs attention")).to_contain_text("Answer not sent")
    await draft_of(page, "Reader").get_by_role("button", name="Accept as answer").click()
    await expect(page.get_by_role("heading", name="No problems")).to_be_visible()
    assert await said_by(stage, "Reader") == [DRAFT]
    assert (await obligation(stage, "Reader"))["state"] == "answered"


@requirement("C30", "M28")
async def test_an_overdue_answer_is_told_in_the_chat_the_problems_and_the_map_and_is_gone_with_the_answer(
    desk: Desk,
) -> None:
    stage = desk.stage
    await hurry(stage, "Reader")
    chat = await desk.open(chat_path(stage, "Reader"))
    problems = await desk.tab(chat.context, "/app/problems")
    org = await desk.tab(chat.context, "/app/org")
    await ask(stage, "Reader", "Are you there?")
    message = Chat(chat, "Reader").message("Are you there?")
    await expect(message).to_contain_text("Answer overdue")
    await expect(owing(problems)).to_contain_text("The answer is overdue")
    seat = org.get_by_role("treeitem", name="Reader")
    card = org.get_by_role("group", name="Map of the organisation").get_by_role("button", name="Reader")
    for each in (seat, card):
        await expect(each).to_contain_text("1 unanswered")
    assert await card.evaluate(_BADGE_AND_STATUS) == {"status": "Limited until 23:59", "covered": False}
    for tab in (chat, problems, org):
        await tab.reload()
    await expect(message).to_contain_text("Answer overdue")
    await expect(owing(problems)).to_have_count(1)
    await expect(seat).to_contain_text("1 unanswered")
    await stage.say("Reader", "Yes, sorry")
    await expect(message).to_contain_text("Answered")
    await expect(problems.get_by_role("heading", name="No problems")).to_be_visible()
    for each in (seat, card):
        await expect(each).not_to_contain_text("unanswered")


@requirement("C30", "M26")
async def test_a_message_says_until_when_it_waits_and_why_it_was_declined(desk: Desk) -> None:
    stage = desk.stage
    page = await desk.open(chat_path(stage, "Reader"))
    message = Chat(page, "Reader").message("Please book")
    await Chat(page, "Reader").write("Please book a table")
    await expect(message).to_contain_text("Sent")
    await take(stage, "Reader")
    await expect(message).to_contain_text(re.compile(r"Delivered, answer due in \d min"))
    await decline(stage, "Reader", "I have <b>no</b> phone")
    await expect(message).to_contain_text("Declined: I have <b>no</b> phone")
    await page.reload()
    await expect(message).to_contain_text("Declined: I have <b>no</b> phone")


@requirement("C30", "M26")
async def test_a_draft_in_the_chat_is_changed_before_it_is_sent_and_the_other_tab_sees_it_go(desk: Desk) -> None:
    stage = desk.stage
    page = await desk.open(chat_path(stage, "Reader"))
    other = await desk.tab(page.context, chat_path(stage, "Reader"))
    row = await ask(stage, "Reader", "Is it done?")
    await mutter(stage, "Reader", row["id"], "Yes, mostly")
    await expect(draft_of(other, "Reader")).to_contain_text("Yes, mostly")
    draft = draft_of(page, "Reader")
    await draft.get_by_role("button", name="Edit").click()
    await draft.get_by_role("textbox", name="Answer to send").fill("Yes, all of it")
    await draft.get_by_role("button", name="Accept edited answer").click()
    for each in (page, other):
        await expect(Chat(each, "Reader").message("Is it done?")).to_contain_text("Answered")
        await Chat(each, "Reader").shows("Yes, all of it")
        await expect(draft_of(each, "Reader")).to_have_count(0)
    assert await said_by(stage, "Reader") == ["Yes, all of it"]


@requirement("C30", "M26")
async def test_a_draft_that_is_dismissed_reaches_nobody_and_the_message_waits_on(desk: Desk) -> None:
    stage = desk.stage
    page = await desk.open(chat_path(stage, "Reader"))
    row = await ask(stage, "Reader", "Is it done?")
    await mutter(stage, "Reader", row["id"], "What do I know")
    await draft_of(page, "Reader").get_by_role("button", name="Dismiss").click()
    await expect(draft_of(page, "Reader")).to_have_count(0)
    await expect(Chat(page, "Reader").message("Is it done?")).to_contain_text("answer due")
    assert await said_by(stage, "Reader") == []
    assert (await obligation(stage, "Reader"))["state"] == "open"


@pytest.mark.long
@requirement("C30", "C1", "M34")
async def test_what_became_of_answers_while_the_channel_was_cut_is_as_on_a_fresh_page(desk: Desk) -> None:
    stage, wire = desk.stage, Wire()
    for name in ("Reader", "Writer"):
        await hurry(stage, name)
    context = await desk.context()
    await wire.hold(context)
    page = await desk.enter(context, chat_path(stage, "Reader"))
    await wire.until(lambda wire: wire.answers() == 1)
    asked = {name: await ask(stage, name, f"{name}, are you there?") for name in ("Reader", "Writer", "Frontend")}
    message = Chat(page, "Reader").message("are you there?")
    await expect(message).to_contain_text("Answer overdue")
    await mark(page)
    await wire.cut()
    await mutter(stage, "Reader", asked["Reader"]["id"], "I am")
    await stage.say("Writer", "Yes")
    await mutter(stage, "Frontend", asked["Frontend"]["id"], "Who asks?")
    wire.mend()
    await expect(draft_of(page, "Reader")).to_contain_text("I am")
    fresh = await desk.tab(context, chat_path(stage, "Reader"))
    await expect(draft_of(fresh, "Reader")).to_contain_text("I am")
    await expect_same_story(page, fresh)
    for each in (page, fresh):
        await each.get_by_role("link", name="Problems").click()
        await expect(owing(each)).to_have_count(2)
    await expect_same_story(page, fresh)
    assert await is_marked(page)


@requirement("C30", "C39", "M29")
async def test_an_option_is_chosen_with_one_click_reaches_the_agent_and_is_seen_by_all(desk: Desk) -> None:
    stage = desk.stage
    page = await desk.open(chat_path(stage, "Reader"))
    other = await desk.tab(page.context, chat_path(stage, "Reader"))
    question = await offer(stage, "Reader", "Which day?", ["Monday", "Tuesday <b>noon</b>"])
    options = page.get_by_role("group", name="Options")
    await options.get_by_role("button", name="Tuesday <b>noon</b>").click()
    row = await take(stage, "Reader")
    message: dict[str, Any] = row["request_body"]["params"]["message"]
    assert message["parts"][0]["text"] == "Tuesday <b>noon</b>"
    assert {name: message["metadata"][name] for name in ("option_of", "option")} == {"option_of": question, "option": 1}
    for each in (page, other):
        chosen = each.get_by_role("group", name="Options").get_by_role("button", name="Tuesday <b>noon</b>")
        await expect(chosen).to_have_attribute("aria-pressed", "true")
    await page.reload()
    await expect(options.get_by_role("button", name="Tuesday <b>noon</b>")).to_have_attribute("aria-pressed", "true")
    for button in await options.get_by_role("button").all():
        await expect(button).to_be_disabled()


@requirement("C30", "S20")
async def test_who_may_only_look_reads_a_draft_and_sends_none(desk: Desk) -> None:
    stage = desk.stage
    row = await ask(stage, "Reader", "Is it done?")
    await mutter(stage, "Reader", row["id"], "Yes")
    await offer(stage, "Writer", "Which day?", ["Monday", "Tuesday"])
    page = await desk.enter(await desk.context(), chat_path(stage, "Writer"), await stage.link_for("viewer"))
    await expect(page.get_by_role("group", name="Options").get_by_role("button", name="Monday")).to_be_disabled()
    await page.get_by_role("link", name="Problems").click()
    await expect(draft_of(page, "Reader")).to_contain_text("Only operators and owners can accept it.")
    assert await page.get_by_role("button", name="Accept as answer").count() == 0


@requirement("C30", "M28")
async def test_how_long_an_agent_has_and_what_becomes_of_its_drafts_is_set_in_its_panel(desk: Desk) -> None:
    stage = desk.stage
    reader = stage.seats["Reader"]
    page = await desk.open(f"/app/org?focus={reader.id}&panel=about")
    panel = page.get_by_role("complementary", name="Reader")
    seconds = panel.get_by_label("Answer due after (seconds)")
    await seconds.fill("7")
    await panel.get_by_role("button", name="Save", exact=True).click()
    await panel.get_by_label("Send the final text of a turn as the answer").uncheck()
    await panel.get_by_label("Instruction format").select_option("xml")
    await panel.get_by_label("Always compact").check()
    await page.reload()
    await expect(seconds).to_have_value("7")
    seat = await stage.admin.get(f"/workspaces/{reader.id}")
    wanted = {"reply_seconds": 7, "send_drafts": False, "instruction_shape": "xml", "instruction_compact": True}
    assert {name: seat[name] for name in wanted} == wanted
    row = await ask(stage, "Reader", "Is it done?")
    await mutter(stage, "Reader", row["id"], "Yes", send=True)
    await page.get_by_role("tab", name="Chat").click()
    await expect(draft_of(page, "Reader")).to_contain_text("Yes")
    assert await said_by(stage, "Reader") == []
    await panel.get_by_role("tab", name="About").click()
    await panel.get_by_label("Send the final text of a turn as the answer").check()
    await page.reload()
    await mutter(stage, "Reader", row["id"], "Yes", send=True)
    await page.get_by_role("tab", name="Chat").click()
    await expect(Chat(page, "Reader").message("Is it done?")).to_contain_text("Answered")
    assert await said_by(stage, "Reader") == ["Yes"]


@requirement("C30", "C70")
@pytest.mark.parametrize("path", ["chat", pytest.param("problems", marks=pytest.mark.long)])
async def test_hostile_drafts_reasons_and_options_are_words_to_the_page(desk: Desk, path: str) -> None:
    stage = desk.stage
    hostile = '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>'
    row = await ask(stage, "Reader", f"A question {hostile}")
    await mutter(
        stage, "Reader", row["id"], f"{hostile}\n\n[press](javascript:window.pwned=1) ![x](https://evil.example/x.png)"
    )
    await offer(stage, "Writer", "Which?", [f"{number} {hostile}" for number in range(2)])
    await ask(stage, "Frontend", "Will you?")
    await decline(stage, "Frontend", hostile)
    page = await desk.open(chat_path(stage, "Reader") if path == "chat" else "/app/problems")
    await expect(draft_of(page, "Reader")).to_contain_text("<script>")
    for name in ("Writer", "Frontend"):
        await page.get_by_role("link", name="Chats").click()
        await page.get_by_role("region", name="Conversations").get_by_role("link", name=name).click()
        await expect(page.get_by_role("list", name=f"Messages with {name}")).to_contain_text("onerror")
    assert await page.evaluate("() => window.pwned") is None
    assert await page.locator("img, script[src*=evil], #view script").count() == 0
