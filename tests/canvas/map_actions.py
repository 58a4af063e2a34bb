"""The map as a person sees it: its camera, what is in view, and what lines and texts are drawn over."""

from playwright.async_api import Locator, Page

# The camera as x, y and zoom.
_CAMERA = """() => {
  const { e, f, a } = new DOMMatrix(document.querySelector("[data-detail]").style.transform);
  return [e, f, a];
}"""
# Lines that cross a card or the title of a frame, other than at their ends.
_CROSSED = """() => {
  const zoom = new DOMMatrix(document.querySelector("[data-detail]").style.transform).a;
  const boxes = document.querySelectorAll("[data-id], [data-title]");
  const areas = [...boxes].map((each) => [each, each.getBoundingClientRect()]);
  const found = [];
  for (const line of document.querySelectorAll("[data-link] [data-line]")) {
    const matrix = line.getScreenCTM();
    for (let far = 0; far <= line.getTotalLength(); far += 2) {
      const { x, y } = line.getPointAtLength(far).matrixTransform(matrix);
      for (const [element, { left, right, top, bottom }] of areas) {
        const margin = zoom; // a pixel of the map: the border of a card
        if (x > left + margin && x < right - margin && y > top + margin && y < bottom - margin) {
          found.push(`${line.parentElement.dataset.link} over ${element.textContent} at ${x}, ${y}`);
        }
      }
    }
  }
  return [...new Set(found)];
}"""
# Texts of the map that are seen and smaller than 12 pixels, and those that are seen above another one.
_TEXTS = """() => {
  const stage = document.querySelector("[aria-label='Map of the organisation']");
  const zoom = new DOMMatrix(document.querySelector("[data-detail]").style.transform).a;
  const isCut = (each) => getComputedStyle(each).clipPath !== "none";
  const isClipped = (each) => each !== null && each !== stage && (isCut(each) || isClipped(each.parentElement));
  const texts = document.createTreeWalker(stage, NodeFilter.SHOW_TEXT);
  const found = [];
  const boxes = [];
  for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
    const element = node.parentElement;
    if (node.data.trim() === "" || element.localName === "title") continue;
    if (!element.checkVisibility() || isClipped(element)) continue;
    const pixels = parseFloat(getComputedStyle(element).fontSize) * zoom;
    if (pixels === 0) continue;
    if (pixels < 11.99) found.push(`“${node.data}” has ${pixels} pixels at ${zoom}`);
    const range = document.createRange();
    range.selectNodeContents(node);
    const holder = element.closest("[data-title], [data-id]");
    const { left, right, top, bottom } = range.getBoundingClientRect();
    const room = holder?.getBoundingClientRect() ?? { left, right };
    boxes.push([node.data, holder, Math.max(left, room.left), Math.min(right, room.right), top, bottom]);
  }
  boxes.forEach(([text, holder, left, right, top, bottom], at) => {
    for (const [other, beside, l, r, t, b] of boxes.slice(at + 1)) {
      const isOver = left < r - 1 && l < right - 1 && top < b - 3 && t < bottom - 3;
      if (holder !== beside && isOver) found.push(`“${text}” is over “${other}” at ${zoom}`);
    }
  });
  return found;
}"""


def stage_of(page: Page) -> Locator:
    """The map."""
    return page.get_by_role("group", name="Map of the organisation")


async def camera_of(page: Page) -> list[float]:
    """The camera as x, y and zoom."""
    await page.wait_for_selector("[data-detail]", state="attached")  # the map is loaded after the first script
    found: list[float] = await page.evaluate(_CAMERA)
    return found


async def crossed_by_lines(page: Page) -> list[str]:
    """List the cards and titles that lines run over."""
    found: list[str] = await page.evaluate(_CROSSED)
    return found


async def unreadable_texts(page: Page) -> list[str]:
    """List texts that are too small, and those that lie over one another."""
    found: list[str] = await page.evaluate(_TEXTS)
    return found


async def cards_outside(page: Page) -> list[str]:
    """List the cards that are not wholly in view."""
    found: list[str] = await stage_of(page).evaluate("""(stage) => {
      const { left, right, top, bottom } = stage.getBoundingClientRect();
      const isOutside = (box) => box.left < left || box.right > right || box.top < top || box.bottom > bottom;
      const cards = [...stage.querySelectorAll("[data-id]")];
      return cards.filter((card) => isOutside(card.getBoundingClientRect())).map((card) => card.textContent);
    }""")
    return found


async def painted_spot(page: Page, hint: str) -> tuple[float, float]:
    """Find a point of the painted map with this tooltip, as a person who moves the pointer over it would."""
    box = await stage_of(page).bounding_box()
    assert box is not None
    # A coarse grid first: the events are those of a real pointer, without its way.
    found: list[float] | None = await stage_of(page).evaluate(
        """(stage, hint) => {
          const { left, top, width, height } = stage.getBoundingClientRect();
          const canvas = stage.querySelector("canvas");
          for (const step of [8, 3]) {
            for (let y = top; y < top + height; y += step) {
              for (let x = left; x < left + width; x += step) {
                canvas.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: x, clientY: y }));
                if (canvas.title.startsWith(hint)) return [x, y];
              }
            }
          }
          return null;
        }""",
        hint,
    )
    assert found is not None, f"nothing on the map says {hint!r}"
    return found[0], found[1]
