"""A person's own message: at once on the page, and never lost or doubled, whatever the connection does."""

import asyncio

from playwright.async_api import Page, Route

from testing.canvas.page_user import Desk
from testing.waits import bounded
from tests.canvas.chat import Chat, chat_path
from tests.canvas.expectations import expect
from tests.canvas.live_channel import Wire
from tests.requirements import requirement

# From Enter until the own message is painted; the best of three, for the machine may do other things too.
SENDING = "**/a2a"
POLICY = {"content-security-policy": "default-src 'none'"}
OFFLINE = ("net::ERR_INTERNET_DISCONNECTED", "net::ERR_FAILED", "WebSocket connection to")


async def opened(desk: Desk) -> tuple[Page, Chat]:
    """The chat with the lead, on a page whose connection may fail without that being a fault."""
    desk.forgiven.extend(OFFLINE)
    page = await desk.open(chat_path(desk.stage, "Lead"))
    chat = Chat(page, "Lead")
    await expect(page.get_by_text("No messages yet").last).to_be_visible()
    return page, chat


@requirement("C19")
async def test_the_own_message_is_there_before_the_server_answers_and_stays_the_same_element(desk: Desk) -> None:
    page, chat = await opened(desk)
    may_pass = asyncio.Event()

    async def hold(route: Route) -> None:
        await may_pass.wait()
        await route.continue_()

    await page.route(SENDING, hold)
    await chat.write("are you there?")
    own = chat.message("are you there?")
    await expect(own).to_contain_text("Sending")
    element = await own.element_handle()
    assert await desk.stage.heard_by("Lead") == []
    may_pass.set()
    await expect(own).to_contain_text("Sent")
    assert await element.evaluate("element => element.isConnected")
    assert await chat.texts() == await desk.stage.heard_by("Lead") == ["are you there?"]


@requirement("C19")
async def test_the_event_may_come_before_the_answer_and_the_message_is_there_once(desk: Desk) -> None:
    page, chat = await opened(desk)
    may_pass = asyncio.Event()

    async def hold_answer(route: Route) -> None:
        answer = await route.fetch()
        await may_pass.wait()
        await route.fulfill(response=answer)

    await page.route(SENDING, hold_answer)
    await chat.write("are you there?")
    await expect(chat.message("are you there?")).to_contain_text("Sent")
    may_pass.set()
    await desk.stage.say("Lead", "yes")
    await chat.shows("yes")
    assert await chat.texts() == ["are you there?", "yes"]


@requirement("C19")
async def test_the_own_message_is_there_before_the_server_has_it(desk: Desk) -> None:
    page, chat = await opened(desk)
    may_pass = asyncio.Event()

    async def hold(route: Route) -> None:
        await may_pass.wait()
        await route.continue_()

    await page.route(SENDING, hold)
    await chat.field.fill("first")
    await chat.field.press("Enter")
    await expect(chat.message("first")).to_be_visible()
    assert await desk.stage.heard_by("Lead") == []
    may_pass.set()
    await expect(chat.message("first")).to_contain_text("Sent")


@requirement("C6")
async def test_a_message_written_while_offline_is_kept_and_sent_once(desk: Desk) -> None:
    page, chat = await opened(desk)
    await page.context.set_offline(True)
    await chat.write("written in a tunnel")
    own = chat.message("written in a tunnel")
    await expect(own).to_contain_text("Not sent")
    await expect(own.get_by_role("button", name="Retry")).to_be_visible()
    await expect(own.get_by_role("button", name="Discard")).to_be_visible()
    await expect(chat.field).to_have_value("")
    await page.context.set_offline(False)
    await expect(own).to_contain_text("Sent")
    assert await chat.texts() == await desk.stage.heard_by("Lead") == ["written in a tunnel"]


@requirement("C6")
async def test_a_part_of_the_page_that_fails_to_load_is_loaded_again_and_leaves_the_draft(desk: Desk) -> None:
    desk.forgiven.extend(OFFLINE)
    context, tries, is_loaded = await desk.context(), list[str](), asyncio.Event()

    async def fail_twice(route: Route) -> None:
        tries.append(route.request.url)
        await (route.continue_() if len(tries) > 2 else route.abort())
        if len(tries) > 2:
            is_loaded.set()

    await context.route("**/assets/Notifier-*.js", fail_twice)
    page = await desk.enter(context, chat_path(desk.stage, "Lead"))
    chat = Chat(page, "Lead")
    await chat.field.fill("half a thought")
    await bounded(is_loaded.wait())
    await expect(chat.field).to_have_value("half a thought")


@requirement("C6")
async def test_a_discarded_message_is_never_sent_and_the_others_go_in_their_order(desk: Desk) -> None:
    page, chat = await opened(desk)
    await page.context.set_offline(True)
    for words in ("one", "two", "three"):
        await chat.write(words)
        await expect(chat.message(words)).to_contain_text("Not sent")
    await chat.message("two").get_by_role("button", name="Discard").click()
    await expect(chat.message("two")).to_have_count(0)
    await page.context.set_offline(False)
    for words in ("one", "three"):
        await expect(chat.message(words)).to_contain_text("Sent")
    assert await chat.texts() == await desk.stage.heard_by("Lead") == ["one", "three"]


@requirement("C6")
async def test_a_message_that_was_not_sent_outlives_reloads_and_is_sent_when_asked(desk: Desk) -> None:
    page, chat = await opened(desk)
    await page.route(SENDING, lambda route: route.abort())
    await chat.write("do not lose me")
    await expect(chat.message("do not lose me")).to_contain_text("Not sent")
    await page.reload()
    own = chat.message("do not lose me")
    await expect(own).to_contain_text("Not sent")
    await expect(own.get_by_role("button", name="Discard")).to_be_visible()
    assert await desk.stage.heard_by("Lead") == []
    await page.unroute(SENDING)
    await own.get_by_role("button", name="Retry").click()
    await expect(own).to_contain_text("Sent")
    await page.reload()
    await expect(own).to_contain_text("Sent")
    assert await chat.texts() == await desk.stage.heard_by("Lead") == ["do not lose me"]


@requirement("C6")
async def test_a_page_that_is_left_while_it_sends_loses_nothing(desk: Desk) -> None:
    page, chat = await opened(desk)
    given_up = asyncio.Event()

    async def hang(_: Route) -> None:
        await given_up.wait()

    await page.route(SENDING, hang)
    await chat.write("on its way")
    own = chat.message("on its way")
    await expect(own).to_contain_text("Sending")
    await page.reload()
    await expect(own).to_contain_text("Not sent")
    given_up.set()
    await page.unroute(SENDING)
    await own.get_by_role("button", name="Retry").click()
    await expect(own).to_contain_text("Sent")
    assert await chat.texts() == await desk.stage.heard_by("Lead") == ["on its way"]


@requirement("C6", "C8")
async def test_what_one_tab_is_sending_no_other_tab_calls_unsent(desk: Desk) -> None:
    page, chat = await opened(desk)
    other = Chat(await desk.tab(page.context, chat_path(desk.stage, "Lead")), "Lead")
    may_pass = asyncio.Event()

    async def hold(route: Route) -> None:
        await may_pass.wait()
        await route.continue_()

    await page.route(SENDING, hold)
    await chat.write("on its way")
    await expect(chat.message("on its way")).to_contain_text("Sending")
    await expect(other.message("on its way")).to_contain_text("Sending")
    may_pass.set()
    for each in (chat, other):
        await expect(each.message("on its way")).to_contain_text("Sent")
        assert await each.texts() == ["on its way"]


@requirement("C6", "C19")
async def test_a_message_whose_answer_was_lost_is_sent_again_with_one_effect(desk: Desk) -> None:
    desk.forgiven.extend(OFFLINE)
    context = await desk.context()
    wire = await Wire().hold(context)
    page = await desk.enter(context, chat_path(desk.stage, "Lead"))
    chat = Chat(page, "Lead")
    await wire.until(lambda wire: wire.answers() == 1)

    async def lose_answer(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await page.route(SENDING, lose_answer)
    await wire.cut()
    await chat.write("pay the bill")
    own = chat.message("pay the bill")
    await expect(own).to_contain_text("Not sent")
    assert await desk.stage.heard_by("Lead") == ["pay the bill"]
    await page.unroute(SENDING)
    await own.get_by_role("button", name="Retry").click()
    await expect(own).to_contain_text("Sent")
    wire.mend()
    await wire.until(lambda wire: wire.answers() == 2)
    await desk.stage.say("Lead", "paid")
    await chat.shows("paid")
    assert await chat.texts() == ["pay the bill", "paid"]
    assert await desk.stage.heard_by("Lead") == ["pay the bill"]


@requirement("C6")
async def test_a_refused_message_is_kept_with_the_words_of_the_refusal(desk: Desk) -> None:
    desk.forgiven.append("the server responded with a status of 410")
    page, chat = await opened(desk)
    refused = {"error": "This agent takes no messages today.", "code": "CLOSED"}
    await page.route(SENDING, lambda route: route.fulfill(status=410, json=refused, headers=POLICY))
    await chat.write("hello?")
    await expect(chat.message("hello?")).to_contain_text("This agent takes no messages today.")
    await expect(chat.message("hello?")).to_contain_text("Not sent")
    assert await chat.texts() == ["hello?"]
