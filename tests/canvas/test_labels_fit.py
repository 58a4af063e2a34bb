"""No label is cut or hyphenated: in the navigation, tabs, buttons, links, headings and form labels of every view."""

import pytest
from playwright.async_api import Page

from testing.canvas.page_user import Desk
from tests.canvas.views import OUTSIDE, VIEWS, WIDE, fill, open_outside
from tests.requirements import requirement

SIZES = [
    pytest.param({"width": 1280, "height": 800}, id="1280"),
    pytest.param({"width": 1440, "height": 900}, id="1440", marks=pytest.mark.exhaustive),
    pytest.param({"width": 390, "height": 844}, id="phone"),
]
# An inline box has no width of its own. A pixel more is rounding.
_CUT = """
() => {
  const labels = "nav *, [role=tab], button, summary, label, legend, h1, h2, h3, h4, th, dt, kbd";
  const isCut = (element) => {
    const { display, hyphens } = getComputedStyle(element);
    // For screen readers alone: clipped away as a whole, by itself or by what it is in.
    const clip = (each) => getComputedStyle(each).clipPath;
    const isClipped = (each) => each !== null && (clip(each) !== "none" || isClipped(each.parentElement));
    const isHidden = !element.checkVisibility() || isClipped(element);
    if (display === "inline" || isHidden) return false;
    const mayBreak = hyphens === "auto" || element.textContent.includes("\\u00ad");
    return mayBreak || element.scrollWidth > element.clientWidth + 1;
  };
  // As wide as a select must be for its chosen words.
  const widthFor = (select) => {
    const copy = select.cloneNode();
    copy.append(...[...select.selectedOptions].map((each) => each.cloneNode(true)));
    Object.assign(copy.style, { position: "absolute", width: "max-content", maxWidth: "none", minWidth: "0" });
    select.after(copy);
    const width = copy.offsetWidth;
    copy.remove();
    return width;
  };
  const selects = [...document.querySelectorAll("select")].filter((each) => each.checkVisibility());
  return [
    ...[...document.querySelectorAll(labels)].filter(isCut).map((each) =>
      `${each.localName} “${each.textContent.trim()}”: ${each.scrollWidth} of ${each.clientWidth} px`),
    ...selects.filter((each) => widthFor(each) > each.offsetWidth + 1).map((each) =>
      `select “${each.selectedOptions[0]?.textContent}”: ${widthFor(each)} of ${each.offsetWidth} px`),
  ];
}
"""


async def cut_labels(page: Page) -> list[str]:
    """List the labels that are wider than their box, or may be hyphenated."""
    found: list[str] = await page.evaluate(_CUT)
    return found


@requirement("C64")
@pytest.mark.parametrize("size", SIZES)
async def test_no_label_of_any_view_is_cut(desk: Desk, size: dict[str, int]) -> None:
    await fill(desk.stage)
    page = await desk.open(viewport=size, reduced_motion="reduce")
    found = []
    for name, show in VIEWS.items():
        await show(page, desk.stage)
        found += [f"{name}: {each}" for each in await cut_labels(page)]
    for name, show in OUTSIDE.items():
        outside = await open_outside(desk, show, viewport=size, reduced_motion="reduce")
        found += [f"{name}: {each}" for each in await cut_labels(outside)]
    assert found == [], "\n".join(found)


@requirement("C64")
async def test_a_label_that_is_too_long_is_found(desk: Desk) -> None:
    page = await desk.open(viewport=WIDE)
    assert await cut_labels(page) == []
    await (
        page.get_by_role("link", name="Inbox")
        .locator("span")
        .first.evaluate(
            "(label) => { label.textContent = 'Antidisestablishmentarianism'; label.style.display = 'block'; }"
        )
    )
    assert any("Antidisestablishmentarianism" in each for each in await cut_labels(page))
