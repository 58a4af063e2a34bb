"""How an agent stands is told by a shape and a word, never by colour alone."""

import itertools
import json
import re
from typing import Any

import pytest
from playwright.async_api import Page, Route

from testing.canvas.page_user import Desk
from tests.canvas.expectations import expect
from tests.canvas.views import NARROW, go
from tests.requirements import requirement

STANDINGS: dict[str, dict[str, Any]] = {
    "Failed": {"status": "failed"},
    "Degraded": {"status": "degraded"},
    "Working": {"status": "online", "active_tasks": 1},
    "Online": {"status": "online"},
    "Paused": {"status": "paused"},
    "Hibernated": {"status": "hibernated"},
    "Never connected": {"status": "provisioning"},
    "Awaiting agent": {"status": "awaiting_agent"},
    "Offline": {"status": "offline"},
}
# The shapes of an element's glyph, and how its colour stands out from what is behind the text of the page.
_GLYPH = """
(element) => {
  const glyph = element.querySelector("svg[viewBox='0 0 12 12']");
  const parts = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255);
  const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const weights = [0.2126, 0.7152, 0.0722];
  const luminance = (colour) => parts(colour).map(linear).reduce((sum, part, at) => sum + part * weights[at], 0);
  const holder = element.closest("[data-id], section, aside");
  const [one, other] = [luminance(getComputedStyle(glyph).color), luminance(getComputedStyle(holder).backgroundColor)];
  const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  return { shape: glyph.innerHTML, contrast, width: glyph.getBoundingClientRect().width };
}
"""


async def cast(page: Page, names: list[str]) -> None:
    """Lets the snapshot tell of agents that stand in each of the ways there are, in the order of STANDINGS."""

    async def change(route: Route) -> None:
        response = await route.fetch()
        snapshot = await response.json()
        told = dict(zip(names, STANDINGS.values(), strict=True))
        for workspace in snapshot["workspaces"]:
            workspace.update(told.get(workspace["name"], {}))
        await route.fulfill(response=response, body=json.dumps(snapshot))

    await page.route("**/snapshot", change)


@requirement("C12")
@pytest.mark.parametrize(
    "colours",
    [pytest.param("none", id="own-colours"), pytest.param("active", id="forced-colours", marks=pytest.mark.long)],
)
async def test_every_standing_has_a_word_and_a_shape_of_its_own(desk: Desk, colours: Any) -> None:
    names = list(desk.stage.seats)[: len(STANDINGS)]
    page = await desk.open(path="/app/settings", forced_colors=colours)
    await cast(page, names)
    await page.goto(desk.stage.server.url + "/app/org")
    shapes: dict[str, list[str]] = {"row": [], "card": []}
    for name, word in zip(names, STANDINGS, strict=True):
        row = page.get_by_role("treeitem", name=f"{name} {word}", exact=True)
        card = page.get_by_role("group", name="Map of the organisation").get_by_role("button", name=f"{name} {word} ")
        for kind, element in (("row", row), ("card", card)):
            await expect(element.get_by_text(word, exact=True)).to_be_visible()
            glyph = await element.evaluate(_GLYPH)
            assert glyph["contrast"] >= 3, (name, kind)
            assert glyph["width"] >= 8
            shapes[kind].append(glyph["shape"])
    for one, other in itertools.combinations(shapes["row"], 2):
        assert one != other
    assert shapes["card"] == shapes["row"]


@requirement("C12")
async def test_a_team_on_the_map_counts_each_standing_in_words_too(desk: Desk) -> None:
    names = list(desk.stage.seats)[: len(STANDINGS)]
    page = await desk.open(path="/app/settings")
    await cast(page, names)
    await page.goto(desk.stage.server.url + "/app/org")
    counts = page.locator("[data-title]").filter(has_text="12 agents")
    words = [f"{4 if word == 'Online' else 1} {word}" for word in STANDINGS]
    await expect(counts).to_have_text(re.compile("12 agents" + "".join(words)))
    # Far away only the worst one is shown: the map is being fitted.
    await expect(counts.locator("svg[viewBox='0 0 12 12']:visible")).to_have_count(len(STANDINGS))


@requirement("C12")
async def test_an_open_agent_tells_its_standing_by_shape_and_word_on_a_phone_too(desk: Desk) -> None:
    names = list(desk.stage.seats)[: len(STANDINGS)]
    page = await desk.open(path="/app/settings", viewport=NARROW)
    await cast(page, names)
    await page.reload()
    for name, word in zip(names, STANDINGS, strict=True):
        await go(page, desk.stage, f"org?focus={desk.stage.seats[name].id}&panel=about")
        panel = page.get_by_role("complementary", name=name)
        await expect(panel.get_by_role("banner").or_(panel.locator("header"))).to_contain_text(word)
        assert await panel.locator("header svg[viewBox='0 0 12 12']").is_visible()


@requirement("C12")
async def test_a_long_role_leaves_the_standing_of_an_open_agent_whole(desk: Desk) -> None:
    await desk.stage.add("Talker", "Lead", role="Answers all questions of the whole company, however long they are")
    page = await desk.open(path=f"/app/org?focus={desk.stage.seats['Talker'].id}&panel=chat")
    word = page.get_by_role("complementary", name="Talker").locator("header").get_by_text("Online", exact=True)
    await expect(word).to_be_visible()
    assert await word.evaluate("(element) => element.scrollWidth <= element.clientWidth")


@requirement("C12")
async def test_a_long_role_takes_two_lines_of_a_chat_on_a_phone(desk: Desk) -> None:
    talker = await desk.stage.add("Talker", "Lead", role="Answers all questions of the whole company " * 4)
    page = await desk.open(path=f"/app/chat/{talker.id}", viewport={"width": 390, "height": 844})
    header = page.get_by_role("region", name="Chat with Talker").locator("header")
    await expect(header.get_by_text("Online", exact=True)).to_be_visible()
    role = header.get_by_text("Answers all questions")
    lines = "role => role.getBoundingClientRect().height / parseFloat(getComputedStyle(role).lineHeight)"
    assert round(float(await role.evaluate(lines))) == 2
    share = "role => role.getBoundingClientRect().width / role.parentElement.clientWidth"
    assert round(float(await role.evaluate(share)), 1) == 1
