"""Rows 53, 85, 87 and 91: what the map of an organisation costs while a person pans it, and how large the page gets.

`molecule serve` with a store that holds the organisation of row 84 and 200 running delegations, whose lines are drawn;
a Chromium that paints in software, its window 1440 x 900. The person sees the whole organisation (the page as it
opens), and drags the map in circles for some seconds. CPU is of all processes of the browser, over the frames that the
page has painted meanwhile. Afterwards the elements of the document are counted, and the heap is measured once its
garbage is collected. Then the name of an agent that lay far below is put into the filter, until the list shows it.
"""

import asyncio
import math
import time
from collections.abc import Sequence

from msgspec import Struct
from playwright.async_api import Page

from benchmarks.browser import Chromium, Person, chromium, person_at
from benchmarks.company import fill_company, run_delegations
from benchmarks.figures import Figure, Options, Say
from benchmarks.machine import median
from benchmarks.row_84_ready import READY
from benchmarks.servers import molecule, new_place

_CPU_MS = {150: 17.0, 1_000: 25.0, 10_000: 30.0}
_FOUND_MS = 300.0
_HEAP_MIB = {1_000: 40.0, 10_000: 120.0}
_ELEMENTS = 5_000
_DELEGATIONS = 200
_SECONDS, _QUICK_SECONDS = 3.0, 1.0
_MOVES_A_SECOND = 60
_RADIUS_PX = 120
_CENTRE = (760, 420)
COUNT_FRAMES = """() => {
  window.frames_painted = 0;
  const count = () => { window.frames_painted += 1; requestAnimationFrame(count); };
  requestAnimationFrame(count);
}"""


class Look(Struct, frozen=True):
    """One look at the map: CPU milliseconds a frame, frames a second, elements of the document, MiB of its heap, and
    milliseconds until the filter has found one agent."""

    cpu_ms: float
    frames: float
    elements: int
    heap_mib: float
    found_ms: float


def measure(options: Options, say: Say) -> list[Figure]:
    """Return the figures of the row."""
    seconds = _QUICK_SECONDS if options.quick else _SECONDS
    return [figure for agents in _CPU_MS for figure in _measure(agents, options.rounds, seconds, say)]


def _measure(agents: int, rounds: int, seconds: float, say: Say) -> list[Figure]:
    with new_place() as place:
        fill_company(place, agents)
        run_delegations(place, agents, _DELEGATIONS)
        with molecule(place) as server, chromium() as browser:

            async def look() -> list[Look]:
                async with person_at(browser, server, place) as person:
                    return [await _look(browser, person, f"Seat {agents - 1:,}", seconds) for _ in range(rounds)]

            looks = asyncio.run(look())
    say(f"  {agents:,} agents: " + ", ".join(f"{each.cpu_ms:.1f} ms at {each.frames:.0f} fps" for each in looks))
    return list(_figures(agents, looks))


async def _look(browser: Chromium, person: Person, last: str, seconds: float) -> Look:
    context = await person.context()
    page = await context.new_page()
    await page.goto(f"{person.url}/org", wait_until="commit")
    await page.evaluate(READY)
    await page.evaluate(COUNT_FRAMES)
    await _pan(page, 0.3)  # what is done once is done
    frames = await count_frames(page)
    before, start = browser.cpu(), time.monotonic()
    await _pan(page, seconds)
    painted, taken = await count_frames(page) - frames, time.monotonic() - start
    cpu = browser.cpu().since(before)
    elements: int = await page.evaluate("() => document.querySelectorAll('*').length")
    heap = await _heap_mib(page)
    start = time.monotonic()
    await page.get_by_role("searchbox", name="Filter agents").fill(last)
    await page.get_by_role("treeitem", name=last).wait_for()
    found_ms = (time.monotonic() - start) * 1000
    await context.close()
    return Look(cpu / max(1, painted), painted / taken, elements, heap, found_ms)


async def _pan(page: Page, seconds: float) -> None:
    """Drag the map in circles."""
    x, y = _CENTRE
    await page.mouse.move(x + _RADIUS_PX, y)
    await page.mouse.down()
    start, number = time.monotonic(), 0
    while (elapsed := time.monotonic() - start) < seconds:
        angle = elapsed * math.pi
        await page.mouse.move(x + _RADIUS_PX * math.cos(angle), y + _RADIUS_PX * math.sin(angle))
        number += 1
        await asyncio.sleep(max(0.0, start + number / _MOVES_A_SECOND - time.monotonic()))
    await page.mouse.up()


async def count_frames(page: Page) -> int:
    """Return how many frames the page has painted since `COUNT_FRAMES` ran."""
    painted: int = await page.evaluate("() => window.frames_painted")
    return painted


async def _heap_mib(page: Page) -> float:
    """Return the used heap of the page after a collection."""
    session = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.collectGarbage")
    used = await session.send("Runtime.getHeapUsage")
    return float(used["usedSize"]) / 2**20


def _figures(agents: int, looks: Sequence[Look]) -> Sequence[Figure]:
    cpu, rate = [each.cpu_ms for each in looks], median([each.frames for each in looks])
    figures = [
        Figure(
            row=85,
            name=f"{agents:,} agents, {_DELEGATIONS} running delegations: CPU a frame while the map is panned",
            value=median(cpu),
            unit="ms",
            must=_CPU_MS[agents],
            beside=f"least {min(cpu):.1f}, most {max(cpu):.1f}; {rate:.0f} frames a second",
        ),
        Figure(
            row=87,
            name=f"{agents:,} agents: elements of the document",
            value=max(each.elements for each in looks),
            unit="",
            must=_ELEMENTS,
            beside="the whole organisation in view, with its list",
        ),
    ]
    if agents == max(_CPU_MS):
        found = [each.found_ms for each in looks]
        figures.append(
            Figure(
                row=53,
                name=f"{agents:,} agents: name put into the filter until the list shows that agent",
                value=median(found),
                unit="ms",
                must=_FOUND_MS,
                beside=f"least {min(found):.0f}, most {max(found):.0f}",
            )
        )
    if agents in _HEAP_MIB:
        heap = [each.heap_mib for each in looks]
        figures.append(
            Figure(
                row=91,
                name=f"{agents:,} agents: heap of the page",
                value=median(heap),
                unit="MiB",
                must=_HEAP_MIB[agents],
                beside=f"most {max(heap):.1f}; after a collection of garbage",
            )
        )
    return figures
