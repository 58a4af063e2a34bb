"""Row 84: how long the page of an organisation takes until its map is drawn, on loopback.

`molecule serve` with a store that holds the organisation, everybody leading six others; a Chromium that paints in
software, its window 1440 x 900, the person already logged in. The time is from the start of the navigation to the mark
`molecule:ready`, which the page sets in the task behind the frame that paints the map first: it holds the page's files,
the log-in's check, the snapshot, the layout and the paint. Each load without a cache is in a context that has loaded
nothing before; those with one go to the same address again. CPU is of all processes of the browser, until the mark.
"""

import asyncio
from collections.abc import Sequence

from msgspec import Struct
from playwright.async_api import Page

from benchmarks.browser import Chromium, Person, chromium, person_at
from benchmarks.company import fill_company
from benchmarks.figures import Figure, Options, Say
from benchmarks.machine import median
from benchmarks.servers import molecule, new_place

_SECONDS = {50: 1.0, 1_000: 1.5, 10_000: 3.0}
_LOADS_A_ROUND = 2
_SNAPSHOT_MB = 0.3
_SNAPSHOT_BYTES = """() => performance.getEntriesByType("resource").filter(({ name }) => name.includes("/snapshot"))
  .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)"""
READY = """() => new Promise(done => {
  const look = (list) => list.getEntriesByName("molecule:ready").forEach(mark => done(mark.startTime));
  new PerformanceObserver(look).observe({ type: "mark", buffered: true });
})"""


class Load(Struct, frozen=True):
    """One load of the page: seconds until the map was drawn, CPU milliseconds of the browser, and the bytes in which
    the snapshot came."""

    seconds: float
    cpu_ms: float
    snapshot_bytes: int


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    return [figure for agents in _SECONDS for figure in _measure(agents, options, say)]


def _measure(agents: int, options: Options, say: Say) -> list[Figure]:
    with new_place() as place:
        fill_company(place, agents)
        with molecule(place) as server, chromium() as browser:

            async def look() -> tuple[list[Load], list[Load]]:
                async with person_at(browser, server, place) as person:
                    return await _loads(browser, person, options.rounds * _LOADS_A_ROUND)

            fresh, again = asyncio.run(look())
    say(f"  {agents:,} agents: nothing cached {_words(fresh)}; cached {_words(again)}")
    figures = [_figure(agents, "nothing cached", fresh), _figure(agents, "cached", again)]
    return [*figures, _snapshot_figure(agents, fresh)] if agents == max(_SECONDS) else figures


async def _loads(browser: Chromium, person: Person, count: int) -> tuple[list[Load], list[Load]]:
    """So many loads of each kind, in turns. The first pair warms the server and the disk's cache, and is dropped."""
    fresh, again = [], []
    for _ in range(count + 1):
        context = await person.context()
        page = await context.new_page()
        fresh.append(await _load(browser, page, person.url))
        again.append(await _load(browser, page, person.url))
        await context.close()
    return fresh[1:], again[1:]


async def _load(browser: Chromium, page: Page, url: str) -> Load:
    before = browser.cpu()
    await page.goto(f"{url}/org", wait_until="commit")
    ready_ms: float = await page.evaluate(READY)
    cpu_ms = browser.cpu().since(before)
    return Load(ready_ms / 1000, cpu_ms, await page.evaluate(_SNAPSHOT_BYTES))


def _words(loads: Sequence[Load]) -> str:
    return (
        ", ".join(f"{each.seconds:.2f}" for each in loads) + f" s, CPU {median([each.cpu_ms for each in loads]):.0f} ms"
    )


def _figure(agents: int, cache: str, loads: Sequence[Load]) -> Figure:
    seconds = [each.seconds for each in loads]
    return Figure(
        row=84,
        name=f"{agents:,} agents: page opened to map drawn, {cache}",
        value=median(seconds),
        unit="s",
        must=_SECONDS[agents],
        beside=f"least {min(seconds):.2f}, most {max(seconds):.2f}; "
        f"{median([each.cpu_ms for each in loads]):.0f} ms CPU of the browser",
    )


def _snapshot_figure(agents: int, loads: Sequence[Load]) -> Figure:
    return Figure(
        row=84,
        name=f"{agents:,} agents: snapshot as it is sent",
        value=max(each.snapshot_bytes for each in loads) / 1_000_000,
        unit="MB",
        must=_SNAPSHOT_MB,
        beside="all its pages, compressed",
    )
