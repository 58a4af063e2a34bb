"""Row 92: how soon a page that missed 5,000 events is right again.

`molecule serve` with 100 agents. A Chromium that paints in software shows the chat with one of them, or the map, over a
connection that the row cuts. While it is away, the agents write as many messages to their users as a page may resume
(`resume_events`); then the line is there again. The time begins when the page opens the connection that succeeds and
ends behind the first frame in which all of the page is right: in the chats the last message of each agent and that of
the open chat, on the map the number of unread messages of each. Beside it is the time until the page tried again.
Each try has a server and a page of its own. One in which the server asks for a snapshot instead, or in which the page
got another number of events, is an error.
"""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from playwright.async_api import Page

from benchmarks.browser import Chromium, chromium, person_at
from benchmarks.cut_line import CuttableLine, cuttable_line
from benchmarks.figures import Failed, Figure, Options, Say
from benchmarks.machine import median
from benchmarks.seats import make_seats
from benchmarks.servers import START_SECONDS, molecule, new_place
from benchmarks.storm import Agents
from molecule_core.common.limits import Limits

_AGENTS = 100
_EVENTS = Limits().resume_events
_EACH = _EVENTS // _AGENTS
_MUST_MS = 1000.0
_WRITING_SECONDS = 120.0
_PROBE = Path(__file__).with_name("probe.js")
_NOW = "() => performance.timeOrigin + performance.now()"
# Resolves with the time behind the first frame in which the page is live and each element has its text.
_RIGHT = """expected => new Promise(done => {
  const has = ([selector, text]) => document.querySelector(selector)?.textContent.includes(text) ?? false;
  const look = () => {
    if (!has(["header", "Live"]) || !expected.every(has)) return requestAnimationFrame(look);
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => done(performance.timeOrigin + performance.now());
    port2.postMessage(null);
  };
  requestAnimationFrame(look);
})"""


class Return(Struct, frozen=True):
    """One return of a page, in milliseconds. `waited`: from the mended line to the attempt that succeeded."""

    right: float
    waited: float
    first_frame: float
    cpu: float


class _Noted(Struct):
    """What probe.js noted, as far as it matters here."""

    frames: list[tuple[float, str]]
    opened: list[float]


class _Frame(Struct):
    """A frame of the live channel."""

    type: str = ""
    seq: int | None = None


def measure(options: Options, say: Say) -> list[Figure]:
    """Return the figures of the row."""
    found: dict[str, list[Return]] = {"chats": [], "map": []}
    with chromium() as browser:
        for number in range(options.rounds):
            for view, returns in found.items():
                one = _one_return(browser, view)
                returns.append(one)
                say(
                    f"  round {number + 1}, {view}: right after {one.right:.0f} ms, first frame after "
                    f"{one.first_frame:.0f} ms; {one.waited:.0f} ms until the page tried"
                )
    return [_figure(view, returns) for view, returns in found.items()]


def _figure(view: str, returns: list[Return]) -> Figure:
    return Figure(
        row=92,
        name=f"{_EVENTS:,} missed events, {view}: from the reconnect to a page that is right",
        value=median([each.right for each in returns]),
        unit="ms",
        must=_MUST_MS,
        beside=f"longest {max(each.right for each in returns):.0f}; first frame after "
        f"{median([each.first_frame for each in returns]):.0f}; "
        f"{median([each.waited for each in returns]):.0f} ms until the page tried again; "
        f"{median([each.cpu for each in returns]):.0f} ms CPU of the browser",
    )


def _one_return(browser: Chromium, view: str) -> Return:
    with new_place() as place, molecule(place) as server:
        seats = make_seats(server, place, "Agent", _AGENTS)

        async def look() -> Return:
            agents = Agents(server, seats)
            await agents.register()
            async with person_at(browser, server, place) as person, cuttable_line(server.port) as line:
                context = await person.context(_PROBE.read_text(encoding="utf-8"))
                try:
                    page = await context.new_page()
                    address = person.url.replace(f":{server.port}/", f":{line.port}/")
                    await page.goto(f"{address}/chat/{seats[0].id}" if view == "chats" else f"{address}/org")
                    return await _away(browser, page, line, agents, [each.id for each in seats], view)
                finally:
                    await context.close()
                    await agents.close()

        return asyncio.run(look())


async def _away(browser: Chromium, page: Page, line: CuttableLine, agents: Agents, ids: list[str], view: str) -> Return:
    """Let a page be away while the agents write, and measure its return."""
    await _until_right(page, {f'[data-{"chat" if view == "chats" else "agent"}="{ids[0]}"]': "Agent 0"})
    line.cut()
    await page.get_by_text("Connection lost").first.wait_for()
    async with asyncio.timeout(_WRITING_SECONDS):
        last = await agents.write(_EACH)
    if view == "chats":
        # The list shows the first line of each text, without its formatting.
        expected = {f'[data-chat="{id_}"]': f"Report {_EACH - 1} is read" for id_ in ids}
        expected[f'[data-message="{last[0]}"]'] = f"Report {_EACH - 1}"
    else:
        expected = {f'[data-agent="{id_}"]': f"{_EACH} unread" for id_ in ids}
    known, cpu = await _noted(page), browser.cpu()
    mended = float(await page.evaluate(_NOW))
    line.mend()
    right = await _until_right(page, expected)
    spent, noted = browser.cpu().since(cpu), await _noted(page)
    _check([text for _, text in noted.frames[len(known.frames) :]])
    opened = max(at for at in noted.opened if at < right)
    return Return(right - opened, opened - mended, noted.frames[len(known.frames)][0] - opened, spent)


def _check(frames: list[str]) -> None:
    """Check that a page was sent what it missed, each event once. Raises Failed."""
    found = [msgspec.json.decode(each, type=_Frame) for each in frames]
    numbers = [each.seq for each in found if each.seq is not None]
    if len(numbers) != _EVENTS or len(set(numbers)) != _EVENTS:
        kinds = sorted({each.type for each in found if each.type})
        raise Failed(f"the page got {len(numbers)} events, {len(set(numbers))} different ones, and {kinds}")


async def _until_right(page: Page, expected: dict[str, str]) -> float:
    """Wait until a page is live and its elements have these texts; return when, in milliseconds of the epoch."""
    async with asyncio.timeout(START_SECONDS):
        return float(await page.evaluate(_RIGHT, list(expected.items())))


async def _noted(page: Page) -> _Noted:
    found: Any = await page.evaluate("() => probe.noted")
    return msgspec.convert(found, _Noted)
