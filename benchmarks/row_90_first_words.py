"""Row 90: how soon a person sees the first words of a turn, and how soon an agent hears that it shall stop.

`molecule serve` and a Chromium that paints in software, which shows the chat with an agent. In each try a person has
written, the agent's program reports the first piece of its answer through `LiveReporter`, and the time ends behind the
frame that shows it. Then the page's stop is pressed, and the time ends when the reporter has the request.
"""

import asyncio
import time

from playwright.async_api import Page

from benchmarks.browser import chromium, person_at
from benchmarks.figures import Figure, Options, Say
from benchmarks.load import Seat
from benchmarks.machine import percentile
from benchmarks.nuisance import Target
from benchmarks.seats import make_seats
from benchmarks.servers import START_SECONDS, Server, molecule, new_place
from molecule_core.agent.config import AgentSettings
from molecule_core.agent.live.reporter import LiveReporter
from molecule_core.client.api import ApiClient
from molecule_core.common.clock import SystemClock

_TRIES, _FEW = 30, 8
_SHOWN_MS, _STOPPED_MS = 300.0, 1000.0
# Resolves with the time at which a painted page shows words of the turn.
_SEEN = """id => new Promise(seen => {
  const look = () => {
    if (document.querySelector(`[data-live="${id}"] [data-live-text]`) === null) return;
    watch.disconnect();
    requestAnimationFrame(() => seen(Date.now()));
  };
  const watch = new MutationObserver(look);
  watch.observe(document.body, { subtree: true, childList: true, characterData: true });
})"""


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    count = (_FEW if options.quick else _TRIES) * options.rounds
    with new_place() as place, molecule(place) as server, chromium() as browser:
        (seat,) = make_seats(server, place, "Streams", 1)

        async def look() -> list[tuple[float, float]]:
            async with person_at(browser, server, place) as person:
                page = await (await person.context()).new_page()
                await page.goto(f"{person.url}/chat/{seat.id}")
                await page.get_by_role("textbox", name="Message to").wait_for()
                return await _tries(page, server, seat, count)

        times = asyncio.run(look())
    for number, (shown, stopped) in enumerate(times, 1):
        say(f"  try {number}: first words after {shown:.0f} ms, stop after {stopped:.0f} ms")
    return [
        _figure("first delta of a turn to its words on the page, p95", [each[0] for each in times], _SHOWN_MS),
        _figure("stop pressed to the agent's program, p95", [each[1] for each in times], _STOPPED_MS),
    ]


def _figure(name: str, times: list[float], must: float) -> Figure:
    beside = f"p50 {percentile(times, 50):.0f} ms, longest {max(times):.0f} ms, {len(times)} tries"
    return Figure(row=90, name=name, value=percentile(times, 95), unit="ms", must=must, beside=beside)


async def _tries(page: Page, server: Server, seat: Seat, count: int) -> list[tuple[float, float]]:
    """Milliseconds of each try: first words shown, stop received."""
    times = []
    async with ApiClient(f"http://127.0.0.1:{server.port}", seat.token) as api:
        reporter = LiveReporter(Target(seat.id, api), SystemClock(), AgentSettings())
        for number in range(count):
            async with asyncio.timeout(START_SECONDS):
                times.append(await _try(page, api, reporter, seat, number))
        await reporter.close()
    return times


async def _try(page: Page, api: ApiClient, reporter: LiveReporter, seat: Seat, number: int) -> tuple[float, float]:
    await page.get_by_role("textbox", name="Message to").fill(f"Question {number}")
    await page.get_by_role("textbox", name="Message to").press("Enter")
    (message,) = await api.claim(seat.id)
    await api.ack(seat.id, message)
    turn = reporter.begin(str(message["id"]))
    await page.locator(f"[data-live='{message['id']}']").wait_for()
    seen = asyncio.create_task(page.evaluate(_SEEN, message["id"]))
    await asyncio.sleep(0.2)  # the script watches, and the reporter rests: a model thinks before its first word
    said = time.time()
    turn.text("First words")
    shown = await seen / 1000 - said
    pressed = time.time()
    await page.get_by_role("button", name="Stop Streams").click()
    await turn.stop_requested()
    stopped = time.time() - pressed
    await turn.end("stopped")
    return shown * 1000, stopped * 1000
