"""What an agent says is words to the page, whatever it says: nothing runs, is fetched, or leads away unseen."""

from typing import Any

import pytest
from playwright.async_api import Page

from testing.canvas.company import Stage
from testing.canvas.hostile_markdown import TEXTS
from testing.canvas.page_user import Desk
from testing.canvas.page_violations import INTRUDERS, Watch
from tests.canvas.expectations import expect
from tests.requirements import requirement

_LEADS = "() => [...document.querySelectorAll('[data-message] a')].map((each) => each.getAttribute('href'))"


async def expect_harmless(page: Page, watch: Watch) -> None:
    """Nothing has run, nothing has come in, nobody was led away. (Desk sees to it that nobody else was asked.)"""
    assert await page.evaluate("() => window.pwned") is None
    assert await page.evaluate(INTRUDERS) == []
    assert watch.noted == []


async def tell(stage: Stage, name: str, texts: list[str]) -> None:
    """The agent says them all."""
    for text in texts:
        await stage.say(name, text)


@requirement("C70")
@pytest.mark.parametrize("half", [0, 1])
async def test_sixty_hostile_texts_are_words_to_the_page(desk: Desk, half: int) -> None:
    texts = TEXTS[half::2]
    await tell(desk.stage, "Reader", texts)
    page = await desk.open("/app/settings")
    watch = Watch(page.context, page)
    await page.get_by_role("link", name="Chats").click()
    await expect(page.get_by_role("region", name="Conversations")).to_be_visible()
    await page.get_by_role("region", name="Conversations").get_by_role("link", name="Reader").click()
    await expect(page.locator("[data-message]")).to_have_count(len(texts))
    await expect(page.get_by_text("<base href=").or_(page.get_by_text("<iframe src=")).first).to_be_visible()
    watch.noted = [each for each in watch.noted if not each.startswith(f"went to: {desk.stage.server.url}/app/chat")]
    assert len(TEXTS) == 60
    hrefs: list[Any] = await page.evaluate(_LEADS)
    assert all(href.startswith("https://evil.example") for href in hrefs)
    await expect_harmless(page, watch)


@requirement("C70")
async def test_hostile_texts_that_arrive_while_the_chat_is_open_are_words_too(desk: Desk) -> None:
    page = await desk.open(f"/app/org?focus={desk.stage.seats['Reader'].id}&panel=chat")
    await expect(page.get_by_text("No messages yet")).to_be_visible()
    watch = Watch(page.context, page)
    await tell(desk.stage, "Reader", TEXTS[::6])
    await expect(page.locator("[data-message]")).to_have_count(len(TEXTS[::6]))
    await expect_harmless(page, watch)


@requirement("C70")
async def test_hostile_names_roles_cards_and_tasks_are_words_in_every_view(desk: Desk) -> None:
    stage = desk.stage
    names = [text for text in TEXTS if len(text) <= 100 and text.isprintable()][::4]
    for at, text in enumerate(names):
        seat = await stage.add(text, "Support", role=names[at - 1])
        skills = [{"name": text, "description": names[at - 2]}]
        card = {"name": text, "description": names[at - 1], "version": text, "skills": skills}
        await seat.api.post("/registry/update-card", {"workspace_id": seat.id, "agent_card": card})
        await seat.api.post("/registry/heartbeat", {"workspace_id": seat.id, "active_tasks": 1, "current_task": text})
        await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": text})
    page = await desk.open("/app/org")
    watch = Watch(page.context, page)
    await expect(page.get_by_role("treeitem")).to_have_count(12 + len(names))
    await expect_harmless(page, watch)
    await page.get_by_role("tree").get_by_text(names[0], exact=True).click()
    panel = page.get_by_role("complementary", name=names[0], exact=True)
    await panel.get_by_role("tab", name="About").click()
    await expect(panel.get_by_role("list", name="Skills")).to_contain_text(names[0])
    await page.keyboard.press("Control+k")
    await expect(page.get_by_role("listbox").get_by_text(names[1], exact=True).first).to_be_visible()
    await page.keyboard.press("Escape")
    await page.get_by_role("link", name="Chats").click()
    await expect(page.get_by_role("region", name="Conversations").get_by_text(names[-1]).first).to_be_visible()
    watch.noted = [each for each in watch.noted if not each.startswith(f"went to: {stage.server.url}/app/")]
    await expect_harmless(page, watch)


@requirement("C70", "C73")
async def test_characters_told_by_name_are_shown_and_break_nothing(desk: Desk) -> None:
    await desk.stage.say("Reader", "Tom &amp; Jerry &lt;b&gt; &copy; &nosuch; &#9731;")
    page = await desk.open(f"/app/chat/{desk.stage.seats['Reader'].id}")
    await expect(page.locator("[data-message] p").last).to_have_text("Tom & Jerry <b> © &nosuch; ☃")
    assert await page.get_by_role("navigation").is_visible()


@requirement("C71")
async def test_a_remote_picture_is_a_link_with_its_host_and_is_not_fetched(desk: Desk) -> None:
    await desk.stage.say("Reader", "See ![the plan](https://pictures.example:8443/plan.png) and ![](http://x.example/)")
    page = await desk.open(f"/app/chat/{desk.stage.seats['Reader'].id}")
    shown = page.locator("[data-message]")
    links = shown.get_by_role("link")
    await expect(links).to_have_text(["image “the plan” on pictures.example:8443", "image on x.example"])
    assert await links.first.get_attribute("href") == "https://pictures.example:8443/plan.png"
    assert await page.locator("img").count() == 0


@requirement("C71")
async def test_a_picture_inside_the_message_itself_is_named_and_not_shown(desk: Desk) -> None:
    await desk.stage.say("Reader", "See ![dot](data:image/gif;base64,R0lGODlhAQABAAAAACw=) here")
    page = await desk.open(f"/app/chat/{desk.stage.seats['Reader'].id}")
    await expect(page.locator("[data-message]")).to_contain_text("See [image “dot”] here")
    assert await page.locator("img").count() == 0


@requirement("C72")
async def test_links_open_elsewhere_and_tell_nobody_where_the_reader_was(desk: Desk) -> None:
    await desk.stage.say("Reader", "[docs](https://docs.example/a?b#c), www.plain.example and <mailto:a@b.example>")
    page = await desk.open(f"/app/chat/{desk.stage.seats['Reader'].id}")
    links = page.locator("[data-message]").get_by_role("link")
    await expect(links).to_have_count(3)
    hrefs = ["https://docs.example/a?b#c", "http://www.plain.example/", "mailto:a@b.example"]
    for link, href in zip(await links.all(), hrefs, strict=True):
        told = [await link.get_attribute(name) for name in ("href", "title", "target", "rel")]
        assert told == [href, href, "_blank", "noopener noreferrer"]


@requirement("C72")
async def test_an_address_of_another_kind_is_words_and_no_link(desk: Desk) -> None:
    addresses = ["javascript:pwned", "data:text/html,x", "file:///etc/passwd", "ftp://x.example/", "/logout"]
    addresses += ["//x.example", "blob:x"]
    await tell(desk.stage, "Reader", [f"**Please** [open this]({address}) now" for address in addresses])
    page = await desk.open(f"/app/chat/{desk.stage.seats['Reader'].id}")
    messages = page.locator("[data-message]")
    await expect(messages.locator("strong")).to_have_text(["Please"] * len(addresses))
    await expect(messages).to_contain_text(["open this"] * len(addresses))
    assert await messages.get_by_role("link").count() == 0


@requirement("C72")
async def test_a_link_whose_text_names_another_place_says_where_it_leads(desk: Desk) -> None:
    lies = [
        "[https://bank.example](https://evil.example/bank)",
        "[**bank**.example/login](https://evil.example)",
        "[bank.example](https://bank.example.evil.example/)",
        "[bank.example](https://bank.example@evil.example/)",
        "[mail@bank.example](mailto:mail@evil.example)",
        "[bank\u3002example](https://evil.example)",
    ]
    truths = [
        "[https://bank.example/a](https://bank.example/b)",
        "[www.bank.example](https://bank.example)",
        "[here](https://evil.example)",
    ]
    await tell(desk.stage, "Reader", [*lies, *truths])
    page = await desk.open(f"/app/chat/{desk.stage.seats['Reader'].id}")
    messages = page.locator("[data-message]")
    await expect(messages.get_by_role("link")).to_have_count(len(lies) + len(truths))
    told = [await each.inner_text() for each in await messages.all()]
    assert ["leads to" in each for each in told] == [True] * len(lies) + [False] * len(truths)
    assert all("evil.example)" in each for each in told[: len(lies)])
