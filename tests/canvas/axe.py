"""axe-core in a page: what keeps people out who use it by other means than eyes and a mouse.

Its source is evaluated, for a script element would break the page's own policy.
"""

from pathlib import Path
from typing import Any

from playwright.async_api import Page

_SOURCE = Path(__file__).resolve().parents[2] / "canvas" / "node_modules" / "axe-core" / "axe.min.js"
_RUN = """
async (rules) => {
  const { violations, incomplete } = await axe.run(document, {
    runOnly: rules,
    resultTypes: ["violations", "incomplete"],
  });
  const brush = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const own = (element) => getComputedStyle(element).backgroundColor;
  const layers = (element) => (element === null ? ["white"] : [...layers(element.parentElement), own(element)]);
  const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const luminance = (colours) => {
    for (const colour of colours) {
      brush.fillStyle = colour;
      brush.fillRect(0, 0, 1, 1);
    }
    const [red, green, blue] = [...brush.getImageData(0, 0, 1, 1).data].map((part) => linear(part / 255));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  // Where axe is unsure because something covers the text in part (it is scrolled, or a button stands over its end),
  // the backgrounds behind it still say what the contrast is.
  const isReadable = (target) => {
    const element = document.querySelector(target.at(-1));
    if (element.closest("[aria-label='Map of the organisation']")) return true;
    const behind = layers(element);
    const [one, other] = [luminance(behind), luminance([...behind, getComputedStyle(element).color])];
    return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05) >= 4.5;
  };
  const told = (rule, node) => `${rule.id} at ${node.target.join(" ")}: ${node.failureSummary ?? rule.help}`;
  const unsure = incomplete.filter((rule) => rule.id === "color-contrast");
  return [
    ...violations.flatMap((rule) => rule.nodes.map((node) => told(rule, node))),
    ...unsure.flatMap((rule) => rule.nodes.filter((node) => !isReadable(node.target)).map((node) => told(rule, node))),
  ];
}
"""
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


async def find_barriers(page: Page, *, only_colours: bool = False) -> list[str]:
    """What axe finds on the page as it is now. Only colours are to be looked at again in another scheme."""
    if not await page.evaluate("() => 'axe' in window"):
        await page.evaluate(_SOURCE.read_text(encoding="utf-8"))
    found: list[Any] = await page.evaluate(_RUN, ["color-contrast"] if only_colours else TAGS)
    return [str(each) for each in found]
