"""Scripts that measure a page: what is cut off, what is too small to hit, what is covered, what moves."""

from playwright.async_api import Page

# Texts and controls that lie outside the window, or outside what their holder shows, where no scrolling brings them in.
# What is only read out is no loss, and neither is what the map holds: the list beside it says the same.
_LOST = """
() => {
  const map = "[aria-label='Map of the organisation'], canvas";
  const style = (element) => getComputedStyle(element);
  const isHidden = (element) => !element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const clips = (element) => ["hidden", "clip"].includes(style(element).overflowX);
  const scrolls = (element) => ["auto", "scroll"].includes(style(element).overflowX);
  const isReadOnly = (element) => style(element).clipPath !== "none";
  const words = (element) => (element.innerText || element.ariaLabel || "").slice(0, 40);
  const name = (element) => `${element.tagName.toLowerCase()} “${words(element)}”`;
  // The first words of a long text that stands whole behind a link.
  const isPreview = (element) => style(element).textOverflow === "ellipsis" && element.innerText.length > 40;
  const lost = [];
  const look = (element, box) => {
    for (let holder = element; holder !== null; holder = holder.parentElement) {
      if (isReadOnly(holder) || holder.matches(map)) return;
      if (scrolls(holder) && holder !== element && holder.id !== "view" && holder !== document.documentElement) return;
      const room = holder.getBoundingClientRect();
      if (isPreview(holder)) return;
      const isOut = box.right > room.right + 1 || box.left < room.left - 1;
      if (clips(holder) && isOut) return lost.push(`${name(element)} is cut`);
    }
    if (box.left < -1 || box.right > innerWidth + 1) lost.push(`${name(element)} lies outside the window`);
  };
  const controls = "a, button, input, select, textarea, [role=treeitem], [role=option], [role=tab]";
  for (const each of document.querySelectorAll(controls)) if (!isHidden(each)) look(each, each.getBoundingClientRect());
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node !== null; node = texts.nextNode()) {
    // The text node of a text area is its first value, and is not drawn.
    if (node.data.trim() === "" || isHidden(node.parentElement) || node.parentElement.matches("textarea")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    look(node.parentElement, range.getBoundingClientRect());
  }
  for (const each of document.querySelectorAll("html, #view")) {
    if (each.scrollWidth > each.clientWidth + 1) lost.push(`${each.tagName} scrolls sideways: ${each.scrollWidth}`);
  }
  for (const dialog of document.querySelectorAll("dialog[open]")) {
    const { top, bottom } = dialog.getBoundingClientRect();
    if (top < 0 || bottom > innerHeight + 1) lost.push(`the dialog reaches from ${top} to ${bottom} of ${innerHeight}`);
  }
  return [...new Set(lost)];
}
"""
# Whatever can be pressed, and is smaller than 24 pixels. Links inside a sentence are as high as its lines; a field's
# label presses it too.
_SMALL = """
() => {
  const rows = "[role=treeitem], [role=option], [role=tab], [data-fold], [data-unfold]";
  const all = document.querySelectorAll(`a, button, input, select, textarea, ${rows}`);
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true });
  const isSeen = (element) => isShown(element) && element.getBoundingClientRect().width > 1;
  const said = "[data-message], [data-delegation], [data-said], [aria-label^='Unsent answer of']";
  const isInSentence = (element) => element.tagName === "A" && element.closest(said) !== null;
  // What lies on the map is measured at 100 %: it grows with the zoom, and the outline does the same.
  const fits = (element) => {
    const { width, height } = element.getBoundingClientRect();
    const onMap = element.matches("[data-fold], [data-unfold]");
    return Math.min(...(onMap ? [element.offsetWidth, element.offsetHeight] : [width, height])) >= 23.99;
  };
  return [...all]
    .filter((each) => isSeen(each) && !isInSentence(each) && ![each, ...(each.labels ?? [])].some(fits))
    .map((each) => [each.outerHTML.slice(0, 90), JSON.stringify(each.getBoundingClientRect())].join(" "));
}
"""
# What hides the element that has the focus: nothing, if most of it is seen, or a part of what is higher than its
# holder.
_COVERED = """
() => {
  const element = document.activeElement;
  if (element === null || element === document.body) return null;
  const box = element.getBoundingClientRect();
  let holder = element.parentElement;
  while (holder.parentElement && !/auto|scroll/.test(getComputedStyle(holder).overflowY)) holder = holder.parentElement;
  const isHigher = box.height > holder.clientHeight;
  const room = holder.getBoundingClientRect();
  const [highest, lowest] = isHigher ? [room.top, room.top + holder.clientHeight] : [-Infinity, Infinity];
  const spots = (from, to) => [0.1, 0.5, 0.9].map((share) => from + (to - from) * share);
  const rows = spots(Math.max(box.top, highest), Math.min(box.bottom, lowest));
  const seen = spots(box.left, box.right).flatMap((x) => rows.filter((y) => {
    const front = document.elementFromPoint(x, y);
    return front !== null && (element.contains(front) || front.contains(element));
  }));
  if (seen.length >= (isHigher ? 1 : 5)) return "";
  const name = `${element.tagName.toLowerCase()} “${(element.innerText || element.ariaLabel || "").slice(0, 40)}”`;
  return `${name} is covered: at ${box.top} to ${box.bottom} of ${room.top} to ${room.top + holder.clientHeight}`;
}
"""
# Texts are laid out late: whoever looks where the focus is waits until nothing has grown for twenty frames.
_AT_REST = """() => new Promise((done) => {
    let [last, same, left] = [-1, 0, 300];
    const look = () => {
        const now = [...document.querySelectorAll("*")].reduce((sum, each) => sum + each.scrollHeight, 0);
        same = now === last ? same + 1 : 0;
        last = now;
        left -= 1;
        if (same >= 20 || left === 0) done();
        else requestAnimationFrame(look);
    };
    look();
})"""
# Scrolling to what has the focus, and drawing anew what lies above it, take some frames, on a busy machine more.
_STILL_COVERED = f"""() => new Promise((done) => {{
    let left = 60;
    const look = () => {{
        const at = ({_COVERED})();
        left -= 1;
        if (!at || left === 0) done(at);
        else requestAnimationFrame(look);
    }};
    requestAnimationFrame(look);
}})"""
_NOTE_MOTION = """
window.moved = [];
for (const kind of ["transitionrun", "animationstart"]) {
  const note = (event) => window.moved.push(`${kind} of ${event.target.className}`);
  document.addEventListener(kind, note, { capture: true });
}
"""


async def find_lost(page: Page) -> list[str]:
    """What cannot be seen however one scrolls down."""
    found: list[str] = await page.evaluate(_LOST)
    return found


async def find_small(page: Page) -> list[str]:
    """What is too small to hit."""
    found: list[str] = await page.evaluate(_SMALL)
    return found


async def find_covered(page: Page, stops: int) -> list[str]:
    """Tabs through the page; the stops at which the focus could not be seen."""
    found = []
    await page.evaluate(_AT_REST)
    for _ in range(stops):
        await page.keyboard.press("Tab")
        at = await page.evaluate(_COVERED)
        if at is None:  # the focus went around, by way of the browser's own bar
            break
        if at:
            at = await page.evaluate(_STILL_COVERED)
        if at:
            found.append(str(at))
    return found


async def note_motion(page: Page) -> None:
    """Notes in this page and in those it will load whatever begins to move."""
    await page.add_init_script(_NOTE_MOTION)


async def motions(page: Page) -> list[str]:
    """What has begun to move since the page was loaded, and what moves now."""
    running = "() => document.getAnimations().filter((each) => each.playState === 'running').map((each) => `${each}`)"
    found: list[str] = [*(await page.evaluate("() => window.moved")), *(await page.evaluate(running))]
    return found
