"""Dialogs: their content keeps its distance from their border, and what destroys something is red and readable."""

import pytest
from playwright.async_api import Page

from testing.canvas.company import Stage
from testing.canvas.page_user import Desk
from tests.canvas.axe import find_barriers
from tests.canvas.expectations import expect
from tests.canvas.views import NARROW, VIEWS, WIDE, View, fill, show_about_beside
from tests.requirements import requirement

LEAST_PX = 12
_TOO_CLOSE = """
(least) => {
  const dialog = document.querySelector("dialog[open]");
  const frame = dialog.getBoundingClientRect();
  const parts = "p, li, label, legend, input, select, textarea, button, pre, h2";
  return [...dialog.querySelectorAll(parts)].flatMap((each) => {
    if (!each.checkVisibility() || each.getAttribute("aria-label") === "Close") return [];
    const box = each.getBoundingClientRect();
    // What is scrolled ends below what shows it.
    const ends = (above) => above.getBoundingClientRect().bottom;
    const isCut = (above) => above !== dialog && (ends(above) < box.bottom || isCut(above.parentElement));
    const below = isCut(each.parentElement) ? least : frame.bottom - box.bottom;
    const gaps = [box.left - frame.left, frame.right - box.right, box.top - frame.top, below];
    const what = `${each.localName} “${each.textContent.slice(0, 40)}”`;
    return Math.min(...gaps) < least ? [`${what}: ${gaps.map(Math.round)}`] : [];
  });
}
"""
_REDNESS = """
(button) => {
  const [red, green, blue] = getComputedStyle(button).backgroundColor.match(/[0-9.]+/g).map(Number);
  return red - Math.max(green, blue);
}
"""


async def show_remove_team(page: Page, stage: Stage) -> None:
    await show_about_beside(page, stage)
    await page.get_by_role("button", name="Remove team…").click()


async def show_new_token(page: Page, stage: Stage) -> None:
    await show_about_beside(page, stage)
    await page.get_by_role("button", name="New token…").click()
    await expect(page.get_by_role("button", name="Issue new token")).to_be_visible()


async def show_issued_token(page: Page, stage: Stage) -> None:
    await show_new_token(page, stage)
    await page.get_by_role("button", name="Issue new token").click()
    await expect(page.get_by_role("region", name="New token")).to_be_visible()


async def show_token_question(page: Page, stage: Stage) -> None:
    await show_issued_token(page, stage)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog", name="Have you copied the token?")).to_be_visible()


DIALOGS: dict[str, View] = {
    **{name: VIEWS[name] for name in ("move", "remove", "discard", "new template", "several requests", "keys")},
    "remove team": show_remove_team,
    "new token": show_new_token,
    "issued token": show_issued_token,
    "token question": show_token_question,
}
DESTRUCTIVE = {
    "remove": "Remove 4 workspaces",
    "remove team": "Remove 3 workspaces",
    "discard": "Discard",
    "new token": "Issue new token",
}


async def leave(page: Page) -> None:
    """Close the dialogs that are open."""
    dialog, token = page.locator("dialog[open]"), page.get_by_role("region", name="New token")
    await dialog.get_by_role("button", name="Close").click()
    if await dialog.count():  # the question about a token, or the token again
        await dialog.get_by_role("button", name="Done" if await token.count() else "Continue").click()
    await expect(dialog).to_have_count(0)


@requirement("C64")
@pytest.mark.parametrize(
    "size", [pytest.param(WIDE, id="wide"), pytest.param(NARROW, id="narrow", marks=pytest.mark.long)]
)
async def test_nothing_in_a_dialog_touches_its_border(desk: Desk, size: dict[str, int]) -> None:
    await fill(desk.stage)
    page = await desk.open(viewport=size, reduced_motion="reduce")
    found = []
    for name, show in DIALOGS.items():
        await show(page, desk.stage)
        found += [f"{name}: {each}" for each in await page.evaluate(_TOO_CLOSE, LEAST_PX)]
        await leave(page)
    assert found == [], "\n".join(found)


@requirement("C64")
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
async def test_the_button_that_destroys_is_red_and_readable(desk: Desk, scheme: str) -> None:
    await fill(desk.stage)
    page = await desk.open(color_scheme=scheme, reduced_motion="reduce")
    for name, button in DESTRUCTIVE.items():
        await DIALOGS[name](page, desk.stage)
        confirm = page.get_by_role("dialog").get_by_role("button", name=button)
        typed = page.get_by_role("textbox", name="to confirm")
        if await typed.count():
            await typed.fill("Engineering")
        await expect(confirm).to_be_enabled()
        assert await confirm.evaluate(_REDNESS) > 80, name
        assert await find_barriers(page) == [], name
        await leave(page)
