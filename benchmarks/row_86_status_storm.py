"""Row 86: what a storm of status changes costs the page that shows the map of 1,000 agents.

`molecule serve`, 1,000 agents with a token each, the map open in a Chromium that paints in software, the whole
organisation in view. For some seconds 300 heartbeats a second say what agents are doing now, over 16 connections. CPU
is of all processes of the browser, over the frames that it has painted meanwhile.
"""

import asyncio
import time
from collections.abc import Sequence

from benchmarks.browser import Chromium, Person, chromium, person_at
from benchmarks.figures import Figure, Options, Say
from benchmarks.load import Seat
from benchmarks.machine import median
from benchmarks.row_84_ready import READY
from benchmarks.row_85_map import COUNT_FRAMES, count_frames
from benchmarks.seats import make_seats
from benchmarks.servers import Server, molecule, new_place
from molecule_core.client.api import ApiClient

_AGENTS, _RATE, _CONNECTIONS = 1_000, 300, 16
_SECONDS, _QUICK_SECONDS = 4.0, 1.5
_MUST_MS = 12.0


def measure(options: Options, say: Say) -> list[Figure]:
    """Return the figure of the row."""
    seconds = _QUICK_SECONDS if options.quick else _SECONDS
    with new_place() as place, molecule(place) as server:
        seats = make_seats(server, place, "Agent", _AGENTS)
        with chromium() as browser:

            async def look() -> list[tuple[float, float]]:
                async with person_at(browser, server, place) as person:
                    return [await _round(browser, person, server, seats, seconds) for _ in range(options.rounds)]

            rounds = asyncio.run(look())
    costs = [cost for cost, _ in rounds]
    say("  " + ", ".join(f"{cost:.1f} ms at {rate:.0f} fps" for cost, rate in rounds))
    return [
        Figure(
            row=86,
            name=f"{_RATE} status changes a second, {_AGENTS:,} agents: CPU a frame",
            value=median(costs),
            unit="ms",
            must=_MUST_MS,
            beside=f"least {min(costs):.1f}, most {max(costs):.1f}; "
            f"{median([rate for _, rate in rounds]):.0f} frames a second",
        )
    ]


async def _round(
    browser: Chromium, person: Person, server: Server, seats: Sequence[Seat], seconds: float
) -> tuple[float, float]:
    """Return CPU milliseconds a frame, and frames a second."""
    context = await person.context()
    page = await context.new_page()
    await page.goto(f"{person.url}/org", wait_until="commit")
    await page.evaluate(READY)
    await page.evaluate(COUNT_FRAMES)
    await _storm(server, seats, 0.5)  # all come online, and what is done once is done
    frames, before, start = await count_frames(page), browser.cpu(), time.monotonic()
    await _storm(server, seats, seconds)
    painted, taken = await count_frames(page) - frames, time.monotonic() - start
    cost = browser.cpu().since(before) / max(1, painted)
    await context.close()
    return cost, painted / taken


async def _storm(server: Server, seats: Sequence[Seat], seconds: float) -> None:
    """Send heartbeats at the rate, whether or not earlier ones were answered."""
    apis = [ApiClient(f"http://127.0.0.1:{server.port}", seat.token) for seat in seats[:_CONNECTIONS]]
    loop = asyncio.get_running_loop()
    start, calls = loop.time(), []
    for number in range(int(seconds * _RATE)):
        await asyncio.sleep(max(0.0, start + number / _RATE - loop.time()))
        at = number % _CONNECTIONS
        task = {"workspace_id": seats[at].id, "active_tasks": number % 2, "current_task": f"Reading report {number}"}
        calls.append(asyncio.create_task(apis[at].post("/registry/heartbeat", task)))
    await asyncio.gather(*calls)
    for api in apis:
        await api.close()
