"""Row 92: how soon a page that was away has caught up with 5,000 events.

`molecule serve` with 50 agents. A Chromium that paints in software shows the chat with one of them, or the map, over a
connection that the row cuts. Meanwhile the agents write to their users as often as the server lets a page resume
(`resume_events`), and then the connection is back. The time begins when the first frame of the resumed channel arrives
in the page and ends behind the frame that shows the newest message, or its number on the card of the map. Beside it is
the time from the moment at which the connection was back, in which the page may still wait for its next attempt.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from playwright.async_api import Page

from benchmarks.browser import Chromium, Person, chromium, person_at
from benchmarks.drive import drive
from benchmarks.figures import Failed, Figure, Options, Say
from benchmarks.load import Plan, Seat
from benchmarks.machine import median
from benchmarks.seats import make_seats
from benchmarks.servers import START_SECONDS, Server, molecule, new_place
from benchmarks.storm import Agents
from molecule_core.common.limits import Limits

_AGENTS = 50
_EVENTS = Limits().resume_events
_MUST_MS = 1000.0
_PROBE = Path(__file__).with_name("probe.js")
_CHUNK_BYTES = 64 * 1024
_NOW = "() => performance.timeOrigin + performance.now()"
# Resolves with the time at which a painted page says that nothing is missing any more.
_LIVE = """() => new Promise(done => {
  const look = () => {
    if (!document.body.innerText.includes("Live")) return requestAnimationFrame(look);
    requestAnimationFrame(() => setTimeout(() => done(performance.timeOrigin + performance.now())));
  };
  look();
})"""


class Resume(Struct, frozen=True):
    """One return, in milliseconds, with the number of events that came. `waited`: until the first frame came."""

    caught_up: float
    waited: float
    events: int
    cpu: float


class CuttableLine:
    """Forwards connections to a server while it is not cut."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_cut = False
        self._writers = set[asyncio.StreamWriter]()
        self.port = 0

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward one connection until one of its ends is closed."""
        if self._is_cut:
            writer.transport.abort()
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers |= {writer, far_writer}
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_copy(reader, far_writer))
                tasks.create_task(_copy(far_reader, writer))
        finally:
            self._writers -= {writer, far_writer}

    def cut(self) -> None:
        """Abort all connections and refuse new ones."""
        self._is_cut = True
        for each in self._writers:
            each.transport.abort()

    def mend(self) -> None:
        """Forward new connections again."""
        self._is_cut = False


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.close()


@asynccontextmanager
async def _cuttable(port: int) -> AsyncIterator[CuttableLine]:
    line = CuttableLine(port)
    listener = await asyncio.start_server(line.forward, "127.0.0.1", 0)
    line.port = listener.sockets[0].getsockname()[1]
    try:
        yield line
    finally:
        line.cut()
        listener.close()


def measure(options: Options, say: Say) -> list[Figure]:
    """Return the figures of the row."""
    with new_place() as place, molecule(place) as server:
        seats = make_seats(server, place, "Agent", _AGENTS)
        with chromium() as browser:

            async def look() -> tuple[list[Resume], list[Resume]]:
                agents = Agents(server, seats)
                await agents.register()
                async with person_at(browser, server, place) as person:
                    chat = [await _round(browser, person, server, seats, agents, "chat") for _ in range(options.rounds)]
                    org = [await _round(browser, person, server, seats, agents, "org") for _ in range(options.rounds)]
                await agents.close()
                return chat, org

            chat, org = asyncio.run(look())
    for name, rounds in (("chat", chat), ("map", org)):
        for each in rounds:
            say(f"  {name}: {each.events} events in {each.caught_up:.0f} ms after {each.waited:.0f} ms")
    return [_figure("in an open chat", chat), _figure("on the map", org)]


def _figure(where: str, rounds: list[Resume]) -> Figure:
    return Figure(
        row=92,
        name=f"{_EVENTS:,} missed events {where}: first frame to painted",
        value=median([each.caught_up for each in rounds]),
        unit="ms",
        must=_MUST_MS,
        beside=f"longest {max(each.caught_up for each in rounds):.0f}; "
        f"{median([each.waited for each in rounds]):.0f} ms until the page had tried again; "
        f"{median([each.cpu for each in rounds]):.0f} ms CPU of the browser",
    )


async def _round(
    browser: Chromium, person: Person, server: Server, seats: list[Seat], agents: Agents, view: str
) -> Resume:
    async with _cuttable(server.port) as line:
        context = await person.context(_PROBE.read_text(encoding="utf-8"))
        page = await context.new_page()
        path = f"chat/{seats[0].id}" if view == "chat" else "org"
        await page.goto(person.url.replace(f":{server.port}", f":{line.port}") + f"/{path}")
        await page.get_by_role("navigation", name="Main").wait_for()
        await page.evaluate(_LIVE)
        line.cut()
        await page.get_by_text("Connection lost").first.wait_for()
        # Two events for each message: the message, and that of its agent's user. The last one is that of the chat.
        await asyncio.to_thread(_write, server, seats, _EVENTS - 1)
        last = await agents.say(0)
        shown = asyncio.create_task(page.evaluate("id => probe.shown(id)", last)) if view == "chat" else None
        before, frames = browser.cpu(), len(await _frames(page))
        line.mend()
        mended = float(await page.evaluate(_NOW))
        async with asyncio.timeout(START_SECONDS):
            if shown is not None:
                await shown
            live = float(await page.evaluate(_LIVE))
        cpu = browser.cpu().since(before)
        came = (await _frames(page))[frames:]
        painted = (await page.evaluate("() => probe.noted.painted")).get(last) if shown is not None else live
        await context.close()
    if any(msgspec.json.decode(text).get("type") == "snapshot_required" for _, text in came):
        raise Failed("the server asked for a snapshot instead of sending what was missed")
    first = next(at for at, text in came if '"resumed"' in text)
    return Resume(float(painted) - first, first - mended, sum('"seq"' in text for _, text in came), cpu)


async def _frames(page: Page) -> list[tuple[float, str]]:
    found: Any = await page.evaluate("() => probe.noted.frames")
    return msgspec.convert(found, list[tuple[float, str]])


def _write(server: Server, seats: list[Seat], count: int) -> None:
    """Have all agents write to their users, in turns."""
    body = msgspec.json.encode({"message": "The report is **read**: `make check` passes, and nothing is left to do."})
    requests = [
        f"POST /workspaces/{seat.id}/notify HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {seat.token}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body.decode()}"
        for seat in seats
    ]
    drive(server, Plan(port=server.port, count=count, requests=requests))
