"""The work that agents give each other, as lines on the map."""

import time

from playwright.async_api import Page

from testing.canvas.page_user import Desk
from testing.message_chains import speak
from tests.canvas.delegation_actions import Begin, answer_work, by_http, take_work
from tests.canvas.expectations import expect
from tests.requirements import requirement

SOON_SECONDS = 3.0
"""Whatever the machine does besides, for the best of three."""


async def on_the_map(desk: Desk, path: str = "/app/org") -> Page:
    """The map, live and without lines."""
    page = await desk.open(path)
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    await page.get_by_role("group", name="Map of the organisation").wait_for()
    await expect(page.locator("[data-edge]")).to_have_count(0)
    return page


@requirement("C54")
async def test_work_is_a_line_on_the_map_that_tells_how_it_stands(desk: Desk, begin: Begin) -> None:
    stage = desk.stage
    page = await on_the_map(desk)
    waits = []
    for turn, name in enumerate(("Research", "Support", "Engineering"), start=1):
        began = time.monotonic()
        await begin(stage, "Lead", name, "Dig")
        await expect(page.locator("[data-edge=waiting]")).to_have_count(turn)
        waits.append(time.monotonic() - began)
    assert min(waits) < SOON_SECONDS, waits
    await take_work(stage, "Engineering")
    await expect(page.locator("[data-edge=working]")).to_have_count(1)
    dashes = [await page.locator("[data-edge=working] [data-line]").get_attribute("stroke-dasharray")]
    await answer_work(stage, "Engineering", "There it is.")
    await expect(page.locator("[data-edge=done]")).to_have_count(1)
    dashes.append(await page.locator("[data-edge=done] [data-line]").get_attribute("stroke-dasharray"))
    assert dashes[0] != dashes[1]


@requirement("C54")
async def test_a_line_goes_after_a_minute_and_those_of_the_chosen_agent_stay(desk: Desk) -> None:
    stage = desk.stage
    page = await on_the_map(desk)
    await page.clock.install()
    await page.reload()
    await by_http(stage, "Lead", "Engineering", "Dig")
    await expect(page.locator("[data-edge]")).to_have_count(1)
    await page.clock.run_for(62_000)
    await expect(page.locator("[data-edge]")).to_have_count(0)
    await page.locator(f"[data-id='{stage.seats['Engineering'].id}']").click()
    await expect(page.locator("[data-edge=waiting]")).to_have_count(1)


@requirement("C54")
async def test_lines_between_folded_teams_are_one(desk: Desk) -> None:
    stage = desk.stage
    page = await on_the_map(desk)
    await by_http(stage, "Backend", "Frontend", "Ask one")
    await by_http(stage, "Engineering", "Research", "Ask two")
    await expect(page.locator("[data-edge]")).to_have_count(2)
    await page.locator(f"[data-fold='{stage.seats['Engineering'].id}']").click()
    await expect(page.locator("[data-edge]")).to_have_count(1)
    await expect(page.locator("[data-edge]")).to_have_attribute("data-count", "1")


MOTION = "path => getComputedStyle(path).animationName"


@requirement("C98")
async def test_a_message_is_a_dotted_line_for_a_moment_beside_the_tasks(desk: Desk) -> None:
    stage = desk.stage
    page = await on_the_map(desk)
    await page.clock.install()
    await page.reload()
    await expect(page.get_by_role("banner")).to_contain_text("Live")
    await by_http(stage, "Engineering", "Backend", "Dig")
    await expect(page.locator("[data-edge=waiting]")).to_have_count(1)
    await expect(page.locator("[data-edge=message]")).to_have_count(0)
    await speak(stage.seats["Backend"], stage.seats["Frontend"].id, "Where is the spade?")
    await page.clock.run_for(500)
    line = page.locator("[data-edge=message] [data-line]")
    await expect(line).to_have_count(1)
    task = page.locator("[data-edge=waiting] [data-line]")
    assert await line.get_attribute("stroke-dasharray") != await task.get_attribute("stroke-dasharray")
    assert [await each.evaluate(MOTION) == "none" for each in (line, task)] == [False, True]
    await page.emulate_media(reduced_motion="reduce")
    assert await line.evaluate(MOTION) == "none"
    await expect(page.locator("[data-sample=message]")).to_have_text("messages")
    await page.clock.run_for(8_000)
    await expect(page.locator("[data-edge=message]")).to_have_count(0)
    await expect(task).to_have_count(1)
