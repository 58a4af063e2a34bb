"""Threads on the page: a tree that grows while one looks, what a model will see, and a person at the wheel."""

import asyncio
import re
from hashlib import sha256

from molecule_core.common.limits import Limits
from testing.canvas.page_user import Desk
from testing.thread_world import Engine, code, said, turn
from tests.canvas.expectations import expect
from tests.canvas.thread_actions import BASE, HOSTILE, call, spawn, start
from tests.requirements import requirement


@requirement("C82", "C70")
async def test_the_tree_grows_without_reload_and_shows_waits_refusals_and_receipts(desk: Desk) -> None:
    stage, api = desk.stage, desk.stage.seats["Lead"].api
    thread, lead = await start(stage, "Lead", nickname="Chief")
    page = await desk.open(f"/app/org?focus={stage.seats['Lead'].id}&panel=threads")
    await page.get_by_role("list", name="Threads").get_by_role("link", name="Chief").click()
    await expect(page).to_have_url(re.compile(f"/app/threads/{thread['thread_id']}$"))
    await page.get_by_role("tab", name="Agents").click()
    await page.evaluate("() => { window.stays = true; }")
    tree = page.get_by_role("region", name="Agents in this tree")
    await expect(tree.get_by_role("listitem")).to_have_count(1)

    dig = await spawn(stage, "Lead", thread, "dig", nickname=HOSTILE)
    await spawn(stage, "Lead", thread, "look")
    await expect(tree.get_by_role("listitem")).to_have_count(3)
    row = tree.locator("[data-thread='root/dig']")
    await expect(row).to_contain_text(HOSTILE)
    letters, calls = page.get_by_role("region", name="Messages"), page.get_by_role("region", name="Calls")
    await expect(letters.locator("[data-mail=accepted]")).to_have_count(2)
    assert await code(call(api, thread, "spawn", "again", task_name="dig", message="Once more")) == (
        422,
        "invalid_task",
    )
    refused = calls.locator("[data-call=spawn][data-status=failed]")
    await expect(refused).to_contain_text("rejected or failed")
    await expect(refused).to_contain_text("agent root/dig already exists")

    waiting = asyncio.ensure_future(call(api, thread, "wait", "w", targets=["dig"], timeout=600))
    wait = tree.locator("[data-thread=root] [data-wait]")
    await expect(wait).to_contain_text(re.compile(r"Waiting for .*(10:00|9:\d\d) left"))
    await expect(tree.locator("[data-thread=root]")).to_contain_text("Running: waiting for other agents")
    digger = Engine(api, dig)
    await digger.claim()
    await digger.begin()
    await expect(letters.locator("[data-mail=delivered]")).to_have_count(1)
    await expect(row).to_contain_text("Running")
    await digger.adds(said("found it"), {"type": "usage", "record_key": "r", "input": 30, "output": 12})
    await digger.ends(final="found it")
    await waiting
    await expect(wait).to_have_count(0)
    await expect(row).to_contain_text("Done")
    await expect(row).to_contain_text("42 tokens")
    await expect(calls.locator("[data-call=wait][data-status=completed]")).to_contain_text("“found it”")
    await lead.ends(final="all done")
    await expect(tree.locator("[data-thread=root]")).to_contain_text("Done")
    assert await page.evaluate("() => [window.stays, window.pwned]") == [True, None]
    await page.go_back()
    await expect(page.get_by_role("tab", name="Conversation")).to_have_attribute("aria-selected", "true")


@requirement("C80", "C70")
async def test_what_the_model_will_see_is_shown_with_origins_and_its_base_with_its_hash(desk: Desk) -> None:
    thread, lead = await start(desk.stage, "Lead", developer="Answer in one line.", nickname="Chief")
    child = await spawn(desk.stage, "Lead", thread, "dig")
    await Engine(desk.stage.seats["Lead"].api, child).works(HOSTILE)
    await lead.adds({"type": "tool_call", "call_id": "c", "tool": "look", "arguments": {"where": HOSTILE}})
    await lead.adds({"type": "tool_output", "call_id": "c", "text": HOSTILE})
    await lead.ends(final="so far")
    await lead.begin((await desk.stage.admin.get(f"/threads/{thread['thread_id']}"))["queued"][0])
    page = await desk.open(f"/app/threads/{thread['thread_id']}?show=sight")
    seen = page.get_by_role("region", name="Model context")
    sight = await desk.stage.admin.get(f"/threads/{thread['thread_id']}/sight")
    await expect(seen.locator("[data-role]")).to_have_count(len(sight["items"]))
    await expect(seen).to_contain_text(f"about {sight['tokens']} tokens")
    first = seen.locator("[data-role]").first
    for words in ("Instructions", "version 1", thread["base"]["item_id"], sight["items"][0]["origin"], HOSTILE):
        await expect(first).to_contain_text(words)

    digest = sha256(BASE.encode()).hexdigest()
    await expect(first.locator("[data-sha]")).to_have_text(digest)
    await expect(seen.locator("[data-role=peer]")).to_contain_text("Other agent (data)")
    await page.get_by_role("tab", name="Instructions").click()
    base = page.get_by_role("region", name="Base instructions", exact=True)
    await expect(base).to_contain_text("Base instructions, version 1")
    await expect(base.locator("[data-sha]")).to_have_text(digest)
    await expect(base).to_contain_text("set manually")
    await lead.ends(final="thanks")
    await page.get_by_role("button", name="Resume…").click()
    form = page.get_by_role("dialog", name="Resume Chief")
    await form.get_by_label("Model").fill("large")
    await form.get_by_role("button", name="Resume").click()
    await expect(form).to_have_count(0)
    await expect(page.locator("header").get_by_text("large")).to_be_visible()
    await expect(base.locator("[data-sha]")).to_have_text(digest)
    await expect(page.get_by_role("region", name="Layers")).to_contain_text("Answer in one line.")

    await page.get_by_role("tab", name="Conversation").click()
    talk = page.get_by_role("region", name="Conversation")
    await talk.get_by_text("look", exact=True).click()
    await expect(talk.get_by_role("region", name="Output")).to_have_text(HOSTILE)
    peer = talk.locator("[data-said=peer]")
    await expect(peer).to_contain_text("Final answer to root · from another agent: data, not a user instruction")
    # As in a chat: markup is text, and a link of a script is its words.
    await expect(peer).to_contain_text(HOSTILE.partition("[press]")[0] + "press")
    await expect(peer.get_by_role("link")).to_have_count(0)
    assert await page.evaluate("() => window.pwned") is None


@requirement("CT4")
async def test_a_person_steers_queues_and_stops_a_thread_and_loses_no_word(desk: Desk) -> None:
    thread, lead = await start(desk.stage, "Lead", nickname="Chief")
    await spawn(desk.stage, "Lead", thread, "dig")
    page = await desk.open(f"/app/threads/{thread['thread_id']}")
    talk, field = page.get_by_role("region", name="Conversation"), page.get_by_label("Message Chief")
    await expect(talk.locator("[data-said=user]")).to_contain_text("Find out where it leaks")
    await field.fill("Look in the cellar first")
    await page.get_by_role("button", name="Steer").click()
    await expect(talk.locator("[data-said=user]").last).to_contain_text("Look in the cellar first")
    await expect(field).to_have_value("")
    news = (await lead.adds(said("I will")))["news"]
    assert [each["entry"]["text"] for each in news if each["type"] == "user_message"] == ["Look in the cellar first"]
    await expect(talk.locator("[data-said=agent]")).to_contain_text("I will")
    await field.fill("And then the roof")
    await page.get_by_role("button", name="Queue").click()
    await expect(talk).to_contain_text("queued")

    await page.get_by_role("button", name="Stop").click()
    dialog = page.get_by_role("dialog", name="Stop Chief")
    await dialog.get_by_label("Stop them").check()
    await dialog.get_by_role("button", name="Stop").click()
    await expect(talk).to_contain_text("Turn ended: stopped")
    assert (await lead.adds(said("too late")))["stop"] == "interrupted"

    words = "much " * (Limits().thread_input_bytes // len("much ") + 1)
    await field.fill(words)
    desk.forgiven.append("status of 422")
    await page.get_by_role("button", name="Send").click()
    await expect(page.get_by_role("alert")).to_contain_text("Send a link to large content")
    await page.reload()
    await expect(field).to_have_value(words)


@requirement("CT4")
async def test_a_viewer_sees_a_thread_and_cannot_drive_it(desk: Desk) -> None:
    thread, _ = await start(desk.stage, "Lead")
    await turn(desk.stage.seats["Lead"].api, thread, "More", mode="queue")
    page = await desk.enter(
        await desk.context(), f"/app/threads/{thread['thread_id']}", await desk.stage.link_for("viewer")
    )
    await expect(page.get_by_role("region", name="Conversation")).to_contain_text("Find out where it leaks")
    await expect(page.get_by_text("Viewers can read this thread")).to_be_visible()
    for name in ("Stop", "Send", "Steer", "Compact", "Close…"):
        await expect(page.get_by_role("button", name=name)).to_have_count(0)
