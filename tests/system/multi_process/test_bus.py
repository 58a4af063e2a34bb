"""The bus: what is gathered, how it travels, and what becomes of it when the connection goes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from molecule_core.store.bus import MAX_CHANNEL_IDS, Bus, BusTransportLost
from molecule_core.store.wakeups import Notifier, Poll, channel_id_of
from testing.clocks import FakeClock, SeededRandomness, settle
from testing.waits import IN_PROCESS_SECONDS
from tests.requirements import requirement


class Wire:
    """A link whose other end is the test."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.tries = 0
        self.checks = 0
        self.down = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.heard: Callable[[str], None] = lambda _payload: None
        self.lost: Callable[[], None] = lambda: None

    async def connect(self, heard: Callable[[str], None], lost: Callable[[], None]) -> None:
        self.tries += 1
        if self.down:
            raise BusTransportLost("down")
        self.heard, self.lost = heard, lost

    async def send(self, payload: str) -> None:
        self.sent.append(payload)
        await self.gate.wait()
        if self.down:
            raise BusTransportLost("down")

    async def check(self) -> None:
        self.checks += 1
        if self.down:
            raise BusTransportLost("down")

    async def close(self) -> None:
        """Nothing to do."""


class Office:
    """A bus with its wire, and a record of who was rung."""

    def __init__(self, clock: FakeClock) -> None:
        self.wire = Wire()
        self.wakeups = Notifier(clock, look_again_seconds=3600)
        self.looked: list[str] = []
        self.bus = Bus(
            self.wire,
            self.wakeups,
            process="me",
            clock=clock,
            randomness=SeededRandomness(),
            check_seconds=5,
        )

    def wait_for(self, key: str) -> "asyncio.Task[None]":
        """Somebody waits for a key, and looks each time it is rung."""

        async def look() -> Poll[None]:
            self.looked.append(key)
            return Poll(None)

        return asyncio.create_task(self.wakeups.wait_until(key, look, 86_400))

    def payloads(self) -> list[list[str]]:
        """The marks of every notification."""
        texts = [each.removeprefix(channel_id_of("me")) for each in self.wire.sent]
        return [[text[at : at + 8] for at in range(0, len(text), 8)] for text in texts]


@pytest.fixture
async def office(clock: FakeClock) -> AsyncIterator[Office]:
    """A bus that is connected."""
    async with opened(clock) as office:
        yield office


@asynccontextmanager
async def opened(clock: FakeClock) -> AsyncIterator[Office]:
    office = Office(clock)
    await office.bus.open()
    try:
        yield office
    finally:
        office.wire.down = False
        office.wire.gate.set()
        office.wakeups.close()
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            await office.bus.close()


@requirement("M38")
async def test_what_comes_while_one_notification_is_on_its_way_goes_with_the_next(office: Office) -> None:
    office.wire.gate.clear()
    office.bus.publish(["log:a", "org:1"])
    await settle()
    for number in range(50):
        office.bus.publish([f"log:{number % 3}", "org:1"])
    await settle()
    assert len(office.wire.sent) == 1
    office.wire.gate.set()
    await settle()
    assert [sorted(each) for each in office.payloads()] == [
        sorted(map(channel_id_of, ("log:a", "org:1"))),
        sorted(map(channel_id_of, ("log:0", "log:1", "log:2", "org:1"))),
    ]


@requirement("M38")
@pytest.mark.parametrize("count", [MAX_CHANNEL_IDS, MAX_CHANNEL_IDS + 1, 5000])
async def test_a_notification_always_fits_and_too_many_keys_mean_everybody(office: Office, count: int) -> None:
    office.bus.publish(f"log:{number}" for number in range(count))
    await settle()
    (payload,) = office.wire.sent
    assert len(payload.encode()) < 8000
    assert payload.endswith("*") == (count > MAX_CHANNEL_IDS)


@requirement("M38", "M33")
async def test_others_ring_those_whom_they_name_everybody_or_nobody_here(office: Office) -> None:
    for key in ("log:a", "log:b"):
        office.wait_for(key)
    await settle()
    office.looked.clear()
    other = channel_id_of("another")
    for payload, rung in (
        (other + channel_id_of("log:b") + channel_id_of("log:unknown"), ["log:b"]),
        (other + "*", ["log:a", "log:b"]),
        (channel_id_of("me") + channel_id_of("log:a"), []),  # the own echo
        (other + "what is this", ["log:a", "log:b"]),
    ):
        office.wire.heard(payload)
        await settle()
        assert sorted(office.looked) == rung
        office.looked.clear()


@requirement("M38")
async def test_after_a_lost_connection_it_tries_ever_more_patiently_and_then_everybody_looks(
    office: Office, clock: FakeClock
) -> None:
    office.wait_for("log:a")
    await settle()
    office.looked.clear()
    office.wire.down = True
    office.wire.lost()
    await settle()
    tries = []
    for _ in range(60):
        await clock.advance(1)
        tries.append(office.wire.tries)
    assert 10 < tries[-1] < 30
    assert office.looked == []
    office.bus.publish(["log:z"])
    office.wire.down = False
    await clock.advance(8)
    assert office.bus.listening
    assert office.looked == ["log:a"]
    assert office.payloads()[-1] == [channel_id_of("log:z")]  # what was rung meanwhile is told now


@requirement("M38")
async def test_a_connection_that_died_in_silence_is_found_out(office: Office, clock: FakeClock) -> None:
    await clock.advance(5.1)
    heard_from = [(office.wire.checks, office.bus.listening)]
    office.wire.down = True
    await clock.advance(5.1)
    heard_from.append((office.wire.checks, office.bus.listening))
    assert heard_from == [(1, True), (2, False)]


@requirement("M38")
async def test_a_link_that_fails_as_nobody_foresaw_is_made_anew(office: Office, clock: FakeClock) -> None:
    office.wire.heard, before = lambda _payload: None, office.wire.tries
    office.wire.gate = None  # type: ignore[assignment]
    office.bus.publish(["log:a"])
    await settle()
    office.wire.gate = asyncio.Event()
    office.wire.gate.set()
    await clock.advance(1)
    assert (office.wire.tries, office.bus.listening) == (before + 1, True)


async def test_a_bus_that_cannot_connect_at_first_opens_all_the_same(clock: FakeClock) -> None:
    office = Office(clock)
    office.wire.down = True
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        await office.bus.open()
        assert not office.bus.listening
        await office.bus.close()
