"""Scripts that watch a page from inside: when something was to be seen, and what was touched."""

import asyncio
import re
from typing import Any

from playwright.async_api import Page

from testing.waits import bounded, eventually

# Presses a button that may be gone before a person could.
PRESS_IF_THERE = "words => [...document.querySelectorAll('button')].find(each => each.textContent === words)?.click()"

# When a page that is painted shows a message with the words, in ms by the clock that this machine and the test share.
_SEEN = """words => new Promise(seen => {
  const watch = new MutationObserver(() => look());
  const look = () => {
    const lines = [...document.querySelectorAll("[data-message] [data-text], [data-delegation]")];
    if (!lines.some(line => line.textContent.includes(words))) return;
    watch.disconnect();
    requestAnimationFrame(() => seen(Date.now()));
  };
  watch.observe(document.body, { subtree: true, childList: true, characterData: true });
  look();
})"""
_TOUCHED = """() => {
  window.touched = [];
  const name = node => node.nodeType === Node.TEXT_NODE ? `"${node.data}"` : node.outerHTML?.slice(0, 80) ?? "document";
  const note = each => window.touched.push(`${each.type} of ${name(each.target)}`);
  const watch = new MutationObserver(all => all.forEach(note));
  const whole = { subtree: true, childList: true, characterData: true, attributes: true };
  watch.observe(document.body, whole);
  watch.observe(document.querySelector("title"), whole);
  watch.observe(document.documentElement, { attributes: true });
}"""
# A group and all that is indented below it.
_MAP = re.compile(r'^( *)- group "(?:Map of the organisation|Map controls)":\n(?:\1 +.*\n)*', re.MULTILINE)
_ANNOUNCED = re.compile(r"^- status.*\n?", re.MULTILINE)
_PAINTED = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def when_seen(page: Page, words: str) -> "asyncio.Task[Any]":
    """The time, in seconds since the epoch, at which a page first showed a message with the words."""

    async def watch() -> float:
        return float(await bounded(page.evaluate(_SEEN, words))) / 1000

    return asyncio.create_task(watch())


async def note_touches(page: Page) -> None:
    """Notes from now on whatever changes of what the document shows.

    Its head is left out, but for the title: parts of the page that are loaded ahead are named there."""
    await page.evaluate(_TOUCHED)


async def touches(page: Page) -> list[str]:
    """What has changed in the document since, after whatever was to be painted is painted."""
    await page.evaluate(_PAINTED)
    found: list[str] = await page.evaluate("() => window.touched")
    return found


async def mark(page: Page) -> None:
    """Marks this load of the page."""
    await page.evaluate("() => { window.marked = true; }")


async def is_marked(page: Page) -> bool:
    """Whether it is still the load that was marked: no reload came between."""
    return bool(await page.evaluate("() => window.marked === true"))


async def words(page: Page) -> str:
    """All the text of a page, with its title."""
    return str(await page.evaluate("() => `${document.title}\\n${document.getElementById('root').textContent}`"))


async def story(page: Page) -> str:
    """All that a page tells of the organisation as a screen reader would find it, with its title.

    Without the map, where each page keeps its own place, and without what was announced on it."""
    whole = await page.locator("body").aria_snapshot()
    return f"{await page.title()}\n{_ANNOUNCED.sub('', _MAP.sub('', whole))}"


async def expect_same_story(page: Page, *others: Page) -> None:
    """Wait until all pages tell the same. Parts of a page load after it is live, so that each needs its time."""

    async def look() -> list[str]:
        return [await story(each) for each in (page, *others)]

    stories = await eventually(look, lambda stories: len(set(stories)) == 1)
    assert len(set(stories)) == 1
