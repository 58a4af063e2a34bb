"""What agents write to each other is read on the page: whom an agent wrote with, and the conversation of two agents."""

from playwright.async_api import Locator, Page

from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from testing.message_chains import loop, speak, take
from tests.canvas.approval_actions import ask_leave
from tests.canvas.delegation_actions import answer_work, by_http, take_work
from tests.canvas.expectations import expect
from tests.canvas.live_channel import Wire
from tests.requirements import requirement

PHONE = {"width": 390, "height": 844}
MOST_ITEMS = 300
SIDEWAYS = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
TEXTS = "list => [...list.querySelectorAll('[data-message] [data-text]')].map(each => each.textContent)"
FROM_TOP = "list => list.parentElement.scrollTo(0, 0)"
COUNT = "list => list.querySelectorAll('[data-message]').length"


async def write(stage: Stage, source: str, target: str, text: str) -> str:
    """An agent writes to another one; the id of the message."""
    sent = await speak(stage.seats[source], stage.seats[target].id, text)
    return str(sent["activity_id"])


def path_of(stage: Stage, name: str, peer: str, more: str = "") -> str:
    """The address of the conversation of two agents."""
    return f"/app/chat/{stage.seats[name].id}?peer={stage.seats[peer].id}{more}"


def conversation(page: Page, name: str, peer: str) -> Locator:
    """The messages of two agents on the page."""
    return page.get_by_role("list", name=f"Messages of {name} and {peer}")


@requirement("C98")
async def test_the_messages_tab_lists_all_peers_newest_first_with_counts_and_follows(desk: Desk) -> None:
    stage = desk.stage
    await write(stage, "Backend", "Frontend", "Which port is it?")
    await write(stage, "Frontend", "Backend", "It is 8080.")
    await write(stage, "Engineering", "Backend", "Are you done?")
    page = await desk.open(f"/app/org?focus={stage.seats['Backend'].id}&panel=chat")
    panel = page.get_by_role("complementary", name="Backend")
    await panel.get_by_role("tab", name="Messages").click()
    rows = panel.get_by_role("list", name="Agents").get_by_role("listitem")
    await expect(rows).to_have_count(2)
    await expect(rows.nth(0)).to_contain_text("Engineering")
    await expect(rows.nth(0)).to_contain_text("1 message")
    await expect(rows.nth(1)).to_contain_text("It is 8080.")
    await expect(rows.nth(1)).to_contain_text("2 messages")
    await write(stage, "Backend", "Frontend", "Thanks.")
    await expect(rows.nth(0)).to_contain_text("Backend: Thanks.")
    await expect(rows.nth(0)).to_contain_text("3 messages")
    await write(stage, "Quality", "Backend", "May I test it?")
    await expect(rows).to_have_count(3)
    await rows.filter(has_text="Frontend").get_by_role("link").click()
    await expect(conversation(page, "Backend", "Frontend")).to_contain_text("It is 8080.")
    assert page.url.endswith(path_of(stage, "Backend", "Frontend"))


@requirement("C98")
async def test_an_agent_without_messages_says_so(desk: Desk) -> None:
    page = await desk.open(f"/app/org?focus={desk.stage.seats['Reader'].id}&panel=messages")
    await expect(page.get_by_role("complementary")).to_contain_text(
        "Messages between Reader and other agents appear here."
    )


@requirement("C98")
async def test_a_conversation_is_live_and_read_only_with_markdown_and_ticks(desk: Desk) -> None:
    stage = desk.stage
    await write(stage, "Backend", "Frontend", "Do you have **the port**?")
    page = await desk.open(path_of(stage, "Frontend", "Backend"))
    shown = conversation(page, "Frontend", "Backend")
    await expect(shown.locator("strong")).to_have_text("the port")
    first = shown.get_by_role("listitem").filter(has_text="the port")
    await expect(first).to_contain_text("Sent")
    await take(stage.seats["Frontend"])
    await expect(first).to_contain_text("Delivered")
    await write(stage, "Frontend", "Backend", "It is 8080, <b>not</b> 80.")
    await expect(shown).to_contain_text("It is 8080, <b>not</b> 80.")
    await expect(first).to_contain_text("Answered")
    assert await shown.evaluate(TEXTS) == ["Do you have the port?", "It is 8080, <b>not</b> 80."]
    await expect(page.get_by_role("main").get_by_role("textbox")).to_have_count(0)
    await expect(page.get_by_role("link", name="Chats")).to_have_attribute("aria-current", "page")


@requirement("C98")
async def test_delegations_and_approvals_of_the_two_are_in_their_conversation(desk: Desk) -> None:
    stage = desk.stage
    await write(stage, "Backend", "Engineering", "What is next?")
    await by_http(stage, "Engineering", "Backend", "Move the table")
    page = await desk.open(path_of(stage, "Engineering", "Backend"))
    shown = conversation(page, "Engineering", "Backend")
    task = shown.locator("[data-delegation]")
    await expect(task).to_contain_text("Engineering delegated to Backend")
    await take_work(stage, "Backend")
    await expect(task).to_contain_text("Working")
    await ask_leave(stage, "Backend", "Drop the table")
    await expect(shown.locator("[data-approval]")).to_contain_text("Drop the table")
    await answer_work(stage, "Backend", "It is moved.")
    await expect(task).to_contain_text("It is moved.")
    await expect(shown.locator("[data-delegation]")).to_have_count(1)


@requirement("C98")
async def test_a_long_conversation_is_read_page_by_page_and_a_link_leads_to_its_message(desk: Desk) -> None:
    stage = desk.stage
    ids = [
        await write(stage, *(("Lead", "Support") if at % 2 else ("Support", "Lead")), f"line {at:03}")
        for at in range(130)
    ]
    page = await desk.open(path_of(stage, "Lead", "Support"))
    shown = conversation(page, "Lead", "Support")
    await expect(shown).to_contain_text("line 129")
    for wanted in ("line 075", "line 030", "line 000"):
        while wanted not in await shown.evaluate(TEXTS):
            before = await shown.evaluate(TEXTS)
            await shown.evaluate(FROM_TOP)
            await page.wait_for_function(
                "([list, first]) => list.querySelector('[data-message] [data-text]').textContent !== first",
                arg=[await shown.element_handle(), before[0]],
            )
        assert await shown.evaluate(COUNT) < MOST_ITEMS
    found = await shown.evaluate(TEXTS)
    assert found == [f"line {at:03}" for at in range(len(found))]
    await page.goto(f"{stage.server.url}{path_of(stage, 'Support', 'Lead', f'&m={ids[20]}')}")
    await expect(page.locator(f"[data-message='{ids[20]}']")).to_be_focused()


@requirement("C98")
async def test_messages_of_a_cut_connection_are_there_once_after_it(desk: Desk) -> None:
    stage = desk.stage
    await write(stage, "Lead", "Support", "before")
    context = await desk.context()
    channel = await Wire().hold(context)
    page = await desk.enter(context, path_of(stage, "Lead", "Support"))
    shown = conversation(page, "Lead", "Support")
    await expect(shown).to_contain_text("before")
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    await channel.cut()
    await write(stage, "Support", "Lead", "meanwhile")
    channel.mend()
    await expect(shown).to_contain_text("meanwhile")
    assert await shown.evaluate(TEXTS) == ["before", "meanwhile"]


@requirement("C98")
async def test_a_conversation_is_opened_and_read_with_keys_alone(desk: Desk) -> None:
    stage = desk.stage
    for text in ("one", "two"):
        await write(stage, "Backend", "Frontend", text)
    page = await desk.open(f"/app/org?focus={stage.seats['Backend'].id}&panel=chat")
    await page.get_by_role("tab", name="Chat").focus()
    await page.keyboard.press("ArrowRight")
    await expect(page.get_by_role("list", name="Agents").get_by_role("link")).to_have_count(1)
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    shown = conversation(page, "Backend", "Frontend")
    last = shown.locator("[data-message]").last
    await expect(last).to_contain_text("two")
    await last.focus()
    await page.keyboard.press("ArrowUp")
    await expect(shown.locator("[data-message]").first).to_be_focused()


@requirement("C98")
async def test_a_viewer_reads_a_conversation_on_a_phone(desk: Desk) -> None:
    stage = desk.stage
    await write(
        stage, "Backend", "Frontend", "| a table | of many | columns |\n| - | - | - |\n| " + "word " * 30 + "| 2 | 3 |"
    )
    link = await stage.link_for("viewer")
    context = await desk.context(viewport=PHONE)
    page = await context.new_page()
    await page.goto(link)
    await expect(page.get_by_role("navigation", name="Main")).to_be_visible()
    await page.goto(f"{stage.server.url}{path_of(stage, 'Frontend', 'Backend')}")
    await expect(conversation(page, "Frontend", "Backend").get_by_role("table")).to_be_visible()
    assert await page.evaluate(SIDEWAYS) == 0
    await page.get_by_role("button", name="Back to messages of Frontend").click()
    await expect(page.get_by_role("list", name="Agents").get_by_role("link")).to_contain_text("Backend")
    assert await page.evaluate(SIDEWAYS) == 0


@requirement("C99")
async def test_a_stopped_chain_names_both_agents_shows_their_messages_and_leads_to_the_conversation(desk: Desk) -> None:
    stage = desk.stage
    await stage.admin.send(stage.seats["Backend"].id, "begin")
    ended = await loop(stage.seats["Backend"], stage.seats["Frontend"], 70)
    assert ended.refusal is not None
    page = await desk.open("/app/problems")
    card = page.get_by_role("region", name="Stopped message chains").get_by_role("listitem").first
    for name in ("Backend", "Frontend"):
        await expect(card.get_by_role("link", name=name)).to_be_visible()
    shown = card.get_by_role("list", name="Last messages of the chain").get_by_role("listitem")
    await expect(shown).to_have_count(6)
    await expect(shown.last).to_contain_text(f"your turn, number {ended.sent - 1}")
    await card.get_by_role("link", name="View conversation").click()
    last = page.locator("[data-message]").last
    await expect(last).to_be_focused()
    await expect(last).to_contain_text(f"your turn, number {ended.sent - 1}")
