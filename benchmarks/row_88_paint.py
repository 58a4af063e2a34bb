"""Row 88: how soon a person sees what happened, and what they type, while much happens.

`molecule serve` with 50 agents; one of them has written 10,000 messages to its user. A Chromium that paints in software
shows, with the page as shipped, first the chat with that agent, which writes 50 more a second, then the map, while all
agents in turns write or say what they work on, 50 times a second. Meanwhile real key presses go to the message field,
or move the map and the list of agents.

Event to paint is told from two points: from the frame's arrival in the page, before the page's own code sees it, and
from the moment at which the agent's POST was answered, by the clock that agent and browser share. Both end behind the
frame that shows the message (probe.js), at most one frame too late. Key to paint is from the key press to the task
behind the next frame. An interaction is what browsers count for INP: from a key press to the next paint, in steps of
8 ms; shorter ones than 16 ms count as 16. Figures are medians of the rounds.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from playwright.async_api import Page

from benchmarks.browser import Chromium, Person, chromium, person_at
from benchmarks.drive import drive
from benchmarks.figures import Failed, Figure, Options, Say
from benchmarks.load import Plan, Seat
from benchmarks.machine import median, percentile
from benchmarks.seats import make_seats
from benchmarks.servers import START_SECONDS, Server, molecule, new_place
from benchmarks.storm import RATE, Agents, Told, storm

_AGENTS, _MESSAGES, _WRITERS = 50, 10_000, 16
_SECONDS, _QUICK_SECONDS = 6.0, 3.0
_CALM_KEYS = 60
_KEY_EVERY_SECONDS = 0.08
_SHORTEST_MS = 16.0
_JUMP = re.compile(r"^(Jump to latest|\d+ new)$")
_PROBE = Path(__file__).with_name("probe.js")
_MAP_KEYS = ("ArrowRight", "ArrowDown", "+", "ArrowLeft", "-", "ArrowUp")
_LIST_KEYS = ("ArrowDown", "ArrowDown", "ArrowUp")


class Probe(Struct, frozen=True):
    """What probe.js noted."""

    frames: list[tuple[float, str]]
    painted: dict[str, float | None]
    keys: list[float]
    interactions: dict[str, float]

    def interaction_times(self) -> list[float]:
        """Of every key press, also of those that the browser found too short to tell."""
        told = list(self.interactions.values())
        return told + [_SHORTEST_MS] * (len(self.keys) - len(told))

    def arrivals(self) -> dict[str, float]:
        """When the frame of each thing came, by its id."""
        frames = ((at, msgspec.json.decode(text)) for at, text in self.frames)
        return {frame["entity"]["id"]: at for at, frame in frames if "entity" in frame}


class Round(Struct, frozen=True):
    """One round, in milliseconds."""

    from_frame: list[float]
    from_answer: list[float]
    from_sent: list[float]
    calm_keys: list[float]
    busy_keys: list[float]
    interactions: list[float]
    cpu_an_event: float


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    seconds = _QUICK_SECONDS if options.quick else _SECONDS
    with new_place() as place, molecule(place) as server:
        seats = make_seats(server, place, "Agent", _AGENTS)
        _write_much(server, seats[0])
        with chromium() as browser:

            async def look() -> list[Round]:
                agents = Agents(server, seats)
                await agents.register()
                async with person_at(browser, server, place) as person:
                    rounds = [await _round(browser, person, agents, seats[0], seconds) for _ in range(options.rounds)]
                await agents.close()
                return rounds

            rounds = asyncio.run(look())
    for number, each in enumerate(rounds, 1):
        say(f"  round {number}: {_words(each)}")
    return _figures(rounds)


def _write_much(server: Server, seat: Seat) -> None:
    """The agent writes its first messages."""
    body = msgspec.json.encode({"message": "The report is **read**: `make check` passes, and nothing is left to do."})
    head = f"POST /workspaces/{seat.id}/notify HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {seat.token}\r\n"
    request = f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body.decode()}"
    drive(server, Plan(port=server.port, count=_MESSAGES, requests=[request] * _WRITERS))


async def _round(browser: Chromium, person: Person, agents: Agents, seat: Seat, seconds: float) -> Round:
    context = await person.context(_PROBE.read_text(encoding="utf-8"))
    page = await context.new_page()
    await page.goto(f"{person.url}/chat/{seat.id}")
    field = page.get_by_role("textbox", name="Message to Agent 0")
    await field.wait_for()
    # A chat with unread messages opens at the first of them; new ones are painted where the end is followed.
    jump = page.get_by_role("button", name=_JUMP)
    if await jump.count():
        await jump.click()
    await _until_shown(page, await agents.say(0))
    await field.focus()
    await _press(page, ["a"] * _CALM_KEYS)
    calm = await _noted(page)
    before = browser.cpu()
    told = await _while_typing(page, storm(agents.say, seconds), ("a", "b", " "))
    await _until_shown(page, told[-1].id)
    cpu = browser.cpu().since(before)
    chat = await _noted(page)
    await page.goto(f"{person.url}/org")
    await page.get_by_role("group", name="Map of the organisation").focus()
    await _while_typing(page, storm(agents.report, seconds / 2), _MAP_KEYS)
    await page.get_by_role("treeitem").first.focus()
    await _while_typing(page, storm(agents.report, seconds / 2), _LIST_KEYS)
    org = await _noted(page)
    await context.close()
    return _made_of(told, calm, chat, org, cpu / len(told))


def _made_of(told: Sequence[Told], calm: Probe, chat: Probe, org: Probe, cpu_an_event: float) -> Round:
    came, painted = chat.arrivals(), {id_: at for id_, at in chat.painted.items() if at is not None}
    if lost := [each.id for each in told if each.id not in came or each.id not in painted]:
        raise Failed(f"{len(lost)} of {len(told)} messages were not shown")
    return Round(
        from_frame=[painted[each.id] - came[each.id] for each in told],
        from_answer=[painted[each.id] - each.answered for each in told],
        from_sent=[painted[each.id] - each.sent for each in told],
        calm_keys=calm.keys,
        busy_keys=chat.keys[len(calm.keys) :],
        interactions=chat.interaction_times() + org.interaction_times(),
        cpu_an_event=cpu_an_event,
    )


async def _while_typing(page: Page, work: Awaitable[list[Told]], keys: Sequence[str]) -> list[Told]:
    """Presses these keys again and again until the work is done."""
    working = asyncio.ensure_future(work)
    while not working.done():
        await _press(page, keys)
    return await working


async def _press(page: Page, keys: Sequence[str]) -> None:
    for key in keys:
        await page.keyboard.press(key)
        await asyncio.sleep(_KEY_EVERY_SECONDS)


async def _until_shown(page: Page, message_id: str) -> None:
    """Waits until a message is painted."""
    async with asyncio.timeout(START_SECONDS):
        await page.evaluate("id => probe.shown(id)", message_id)


async def _noted(page: Page) -> Probe:
    """What the probe has noted so far, once the last key's frame is over."""
    await asyncio.sleep(_KEY_EVERY_SECONDS)
    noted: Any = await page.evaluate("() => probe.noted")
    return msgspec.convert(noted, Probe)


def _words(each: Round) -> str:
    return (
        f"frame to paint {_span(each.from_frame)}, POST answered to paint {_span(each.from_answer)}, "
        f"key to paint {_span(each.calm_keys)}, in the storm {_span(each.busy_keys)}, "
        f"interactions {_span(each.interactions)} ms; {each.cpu_an_event:.1f} ms CPU an event"
    )


def _span(times: Sequence[float]) -> str:
    return f"p50 {percentile(times, 50):.0f} p95 {percentile(times, 95):.0f}"


def _figures(rounds: list[Round]) -> list[Figure]:
    def p95(times: Callable[[Round], list[float]]) -> float:
        return median([percentile(times(each), 95) for each in rounds])

    def p50(times: Callable[[Round], list[float]]) -> str:
        return f"p50 {median([percentile(times(each), 50) for each in rounds]):.0f}"

    def least(times: Callable[[Round], list[float]]) -> str:
        return f"least of the rounds {min(percentile(times(each), 95) for each in rounds):.0f}"

    cpu = median([each.cpu_an_event for each in rounds])
    count = sum(len(each.interactions) for each in rounds)
    return [
        Figure(
            row=88,
            name=f"event to paint at {RATE} a second: from the frame's arrival, p95",
            value=p95(lambda each: each.from_frame),
            unit="ms",
            must=100,
            beside=f"{p50(lambda each: each.from_frame)}, {least(lambda each: each.from_frame)}; "
            f"{cpu:.1f} ms CPU of the browser an event",
        ),
        Figure(
            row=88,
            name="the same from the answer to the agent's POST, p95",
            value=p95(lambda each: each.from_answer),
            unit="ms",
            must=100,
            beside=f"{p50(lambda each: each.from_answer)}, {least(lambda each: each.from_answer)}; "
            f"from its beginning p95 {p95(lambda each: each.from_sent):.0f}",
        ),
        Figure(
            row=88,
            name="interaction to next paint meanwhile, p95",
            value=p95(lambda each: each.interactions),
            unit="ms",
            must=200,
            beside=f"{count} key presses in the chat and on the map; browsers resolve steps of 8 ms",
        ),
        Figure(
            row=88,
            name=f"key to paint in a chat of {_MESSAGES:,} messages, p95",
            value=p95(lambda each: each.calm_keys),
            unit="ms",
            must=50,
            beside=f"{p50(lambda each: each.calm_keys)}; "
            f"while {RATE} messages a second come p95 {p95(lambda each: each.busy_keys):.0f}",
        ),
    ]
