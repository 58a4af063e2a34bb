"""Texts in the palette: found by the server, grouped by kind, each with a link to its place."""

import re

import pytest
from playwright.async_api import Page

from testing.canvas.page_user import Desk
from testing.waits import bounded
from tests.canvas.axe import find_barriers
from tests.canvas.expectations import expect
from tests.canvas.keyboard import Fingers
from tests.requirements import requirement


@pytest.fixture
async def page(desk: Desk) -> Page:
    """The page of the owner, when the company has said what is to be found."""
    team, backend = desk.stage.seats["Engineering"], desk.stage.seats["Backend"]
    await desk.stage.say("Lead", "The <b>kiwi</b> is ripe")
    await bounded(backend.api.post(f"/workspaces/{backend.id}/memories", {"content": "Kiwi crates are green"}))
    await bounded(team.api.post(f"/workspaces/{team.id}/delegate", {"target_id": backend.id, "task": "Count the kiwi"}))
    await bounded(desk.stage.server.server.search.indexer.index_all())
    return await desk.open()


@requirement("SE3")
async def test_texts_are_found_in_the_palette_by_kind_and_lead_to_their_place(desk: Desk, page: Page) -> None:
    fingers = Fingers(page)
    await fingers.press("Control+k")
    await fingers.type('"kiwi"')
    texts = page.get_by_role("option").filter(has=page.locator("mark"))
    await expect(texts).to_have_count(3)
    assert await find_barriers(page) == []
    assert [re.sub(r"\s+", " ", each) for each in await texts.all_inner_texts()] == [
        "The <b>kiwi</b> is ripe Lead",
        "Count the kiwi Engineering, Backend",
        "Kiwi crates are green Backend",
    ]
    assert await texts.locator("mark").all_inner_texts() == ["kiwi", "kiwi", "Kiwi"]
    headings = page.get_by_role("listbox").locator("li[role=presentation]")
    assert await headings.all_inner_texts() == ["Messages", "Delegations", "Memories"]
    lead = desk.stage.seats["Lead"]
    await texts.first.click()
    await expect(page).to_have_url(re.compile(f"/app/chat/{lead.id}\\?m="))
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.get_by_text("The <b>kiwi</b> is ripe").first).to_be_visible()

    await fingers.press("Control+k")
    await fingers.type("the kiwi")
    await expect(texts).to_have_count(1)  # the open task is listed already, without its text
    await page.get_by_role("combobox").fill('"the kiwi"')
    await expect(texts).to_contain_text("Count the kiwi")
    await fingers.press("Enter")
    await expect(page).to_have_url(re.compile("/app/delegations/"))


@requirement("SE3")
async def test_a_text_that_no_one_wrote_and_signs_alone_find_nothing(page: Page) -> None:
    fingers = Fingers(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/search?" in request.url else None)
    await fingers.press("Control+k")
    await fingers.type("cellar")
    await expect(page.get_by_role("status").filter(has_text="No results for “cellar”.")).to_be_visible()
    assert len(asked) <= len("cellar") - 1
    await page.get_by_role("combobox").fill("?!")
    await expect(page.get_by_role("status").filter(has_text="No results for “?!”.")).to_be_visible()
    assert all("%3F" not in each for each in asked)
