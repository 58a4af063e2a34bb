"""Live channels in trouble: readers that do not read, a store that does not answer, mistakes of ours, the end."""

import asyncio
import contextlib
import gc
import logging
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest
from anyio.lowlevel import checkpoint
from websockets.frames import Close, Opcode

from molecule_core.api.live.subscribers import LiveSubscriber
from molecule_core.common.errors import StoreUnavailable
from molecule_core.common.limits import Limits
from molecule_core.server.composition import Server
from molecule_core.server.listener import HttpListener
from molecule_core.views.feed import EncodedEvent
from testing.engines import Engine
from testing.live_clients import (
    HandMade,
    all_live,
    channel,
    check_chain,
    hand_made,
    journal_of,
    streaming,
    subscribe_frame,
    told,
)
from testing.raw_http import request
from testing.running_server import ADMIN_TOKEN, Running, Seat, running
from testing.waits import IN_PROCESS_SECONDS, bounded, eventually
from tests.polling_agent import PollingAgent
from tests.requirements import requirement

LARGE = "x" * 200_000
# A client that keeps so few bytes: what the system takes for it is soon full.
SMALL = 4096
# A system that may keep what it likes takes some 3 MiB from us for a reader that takes nothing.
LITTLE = 1 << 20


async def write_many(server: Running, seat: Seat, count: int) -> None:
    """Large messages, one after the other."""
    for number in range(count):
        await server.admin.send(seat.id, f"{number} {LARGE}")


async def listeners_of(server: Running) -> int:
    """How many listen."""
    await checkpoint()
    return server.server.live_hub.count_subscribers()


async def shaken(opened: HandMade) -> int:
    """Opens a WebSocket by hand; the head that its hello names."""
    assert (await opened.handshake()).status == 101
    hello = await opened.told()
    return int(hello["head"])


# -- readers that do not read ------------------------------------------------------------------------------------------


@requirement("M24")
async def test_a_reader_that_does_not_read_is_cut_and_the_others_go_on(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    limit = 256 << 10
    async with running(engine, place, tmp_path, limits=Limits(subscriber_bytes=limit)) as server:
        seat = await server.seat("Ops")
        async with channel(server) as fast, hand_made(server, reads=SMALL) as slow:
            head = await shaken(slow)
            await all_live(server)
            (deaf,) = [
                each
                for each in server.server.live_hub._subscribers()
                if each.transport.unread_bytes() or _peer_is(each, slow)
            ]
            largest, taken, count = 0, 0, 0
            while server.server.live_hub.count_subscribers() == 2 and count < 60:
                await write_many(server, seat, 1)
                count += 1
                await fast.event()
                largest, taken = (
                    max(largest, deaf.transport.unread_bytes()),
                    max(taken, deaf.transport.delivered_bytes()),
                )
            await eventually(lambda: listeners_of(server), lambda left: left == 1)
            assert largest <= limit + 2 * len(LARGE)
            assert taken < LITTLE, "what the system takes for who does not read hides it, and is memory too"
            await server.admin.send(seat.id, "after")
            events = [frame for frame in fast.frames if "seq" in frame] + [await fast.event()]
        check_chain(events, head)
        # It comes back, and nothing is missing.
        again = await journal_of(server, after=head)
        assert told(again) == told(events)
        assert len(again) == count + 1


def state_of(listener: LiveSubscriber) -> str:
    """The state of a WebSocket as the server sees it."""
    return str(listener.transport._channel._protocol._protocol.state.name)  # type: ignore[attr-defined]


def _peer_is(listener: LiveSubscriber, opened: HandMade) -> bool:
    """Whether a listener's channel is this connection."""
    transport: asyncio.Transport = listener.transport._channel._transport  # type: ignore[attr-defined]
    return bool(transport.get_extra_info("peername") == opened._writer.get_extra_info("sockname"))


@requirement("M24")
async def test_what_a_reader_was_being_told_goes_with_it(engine: Engine, place: str, tmp_path: Path) -> None:
    """A page of events is large, and nobody comes by soon to find out that it is in nobody's hands."""
    async with running(engine, place, tmp_path, limits=Limits(subscriber_bytes=64 << 10)) as server:
        await write_many(server, await server.seat("Ops"), 5)
        gc.collect()
        gc.disable()
        try:
            async with hand_made(server, reads=SMALL) as deaf:
                await shaken(deaf)
                await all_live(server)
                before = notices()
                await deaf.send(subscribe_frame(after=0))
                await eventually(lambda: unread_by_all(server), lambda unread: unread > (64 << 10))
                # The page of events is read in pieces: on a busy machine the first ones are unread before the last.
                await eventually(notices_now, lambda count: count >= before + 5)
            await eventually(lambda: listeners_of(server), lambda left: left == 0)
            assert notices() <= before
        finally:
            gc.enable()


def notices() -> int:
    """How many stand in memory."""
    return sum(isinstance(each, EncodedEvent) for each in gc.get_objects())


async def notices_now() -> int:
    """The same, after others had their turn."""
    await checkpoint()
    return notices()


async def unread_by_all(server: Running) -> int:
    """Bytes that listeners have not taken."""
    await checkpoint()
    return sum(each.transport.unread_bytes() for each in server.server.live_hub._subscribers())


@requirement("M24")
async def test_the_farewell_of_a_slow_reader_says_why(engine: Engine, place: str, tmp_path: Path) -> None:
    """One that begins to read again in time is told the code."""
    async with running(engine, place, tmp_path, limits=Limits(subscriber_bytes=64 << 10)) as server:
        seat = await server.seat("Ops")
        async with hand_made(server, reads=SMALL) as slow:
            await shaken(slow)
            await all_live(server)
            (listener,) = server.server.live_hub._subscribers()
            for _ in range(60):
                await write_many(server, seat, 1)
                if listener.transport.unread_bytes() > (64 << 10):
                    break

            async def state() -> str:
                await checkpoint()
                return state_of(listener)

            await eventually(state, lambda found: found != "OPEN")
            opcode, data = await slow.frame()
            while opcode == Opcode.TEXT:
                opcode, data = await slow.frame()
            assert (opcode, Close.parse(data).code) == (Opcode.CLOSE, 4008)
            assert "resume" in Close.parse(data).reason


@requirement("M24")
@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_reader_that_reads_is_not_cut_however_much_comes_at_once(server: Running) -> None:
    """A burst that is told in one go is more than one may leave unread: that is not the reader's fault."""
    seat = await server.seat("Ops")
    async with channel(server) as opened:
        head = opened.frames[0]["head"]
        await all_live(server)
        await asyncio.gather(*(server.admin.send(seat.id, f"{number} {LARGE}") for number in range(40)))
        events = await opened.upto(head + 40)
    check_chain(events, head)


@requirement("M24")
async def test_a_resume_that_nobody_reads_waits_and_is_cut_by_the_clock(poller: PollingAgent) -> None:
    await write_many(poller.server, poller.ops, 40)
    async with hand_made(poller.server, reads=SMALL) as slow:
        await shaken(slow)
        (listener,) = poller.server.server.live_hub._subscribers()
        await slow.send(subscribe_frame(0))

        async def unread() -> int:
            await checkpoint()
            return listener.transport.unread_bytes()

        await eventually(unread, lambda size: size > (512 << 10))
        assert listener.transport.unread_bytes() < (1 << 20) + 2 * len(LARGE)  # it waits, it does not pile up
        for _ in range(3):
            await poller.clock.advance(15)
        await eventually(lambda: listeners_of(poller.server), lambda left: left == 0)


@requirement("M24")
@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_resume_that_is_read_slowly_but_steadily_is_not_cut(poller: PollingAgent) -> None:
    await write_many(poller.server, poller.ops, 60)
    async with hand_made(poller.server, reads=1 << 16) as slow:
        head = await shaken(slow)
        (listener,) = poller.server.server.live_hub._subscribers()
        await slow.send(subscribe_frame(0))
        events: list[dict[str, Any]] = []

        async def pending() -> int:
            await checkpoint()
            return listener.transport.unread_bytes()

        while len(events) < head:
            if len(events) < head - 40:
                await eventually(pending, lambda size: size > 0)
            await poller.clock.advance(15)
            assert state_of(listener) == "OPEN", f"cut after {len(events)} of {head} events"
            for _ in range(4):
                while len(events) < head and "seq" not in (frame := await slow.told()):
                    pass
                if len(events) < head:
                    events.append(frame)
    check_chain(events, 0)


@requirement("M24")
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_a_wish_that_takes_the_place_of_one_that_waits_for_its_reader_is_served(poller: PollingAgent) -> None:
    await write_many(poller.server, poller.ops, 40)
    async with hand_made(poller.server, reads=SMALL) as slow:
        head = await shaken(slow)
        (listener,) = poller.server.server.live_hub._subscribers()
        await slow.send(subscribe_frame(0))

        async def waits() -> bool:
            await checkpoint()
            return listener.transport.unread_bytes() > (512 << 10) and not listener.is_live

        await eventually(waits, bool)
        for _ in range(3):
            await slow.send(subscribe_frame(1))
            await poller.server.admin.get("/orgs")
        events: list[dict[str, Any]] = []
        while not events or events[-1]["seq"] < head:
            frame = await slow.told()
            if frame.get("type") == "resumed":
                events = []
            elif "seq" in frame:
                events.append(frame)
        await poller.server.admin.send(poller.ops.id, "live")
        events.append(await slow.told())
    check_chain(events, 1)
    assert events[-1]["payload"]["summary"] == "live"


# -- signs of life -----------------------------------------------------------------------------------------------------


@requirement("M24")
async def test_a_quiet_channel_is_told_every_so_often_what_it_was_sent_last(poller: PollingAgent) -> None:
    async with channel(poller.server) as opened, streaming(poller.server) as stream:
        head = opened.frames[0]["head"]
        await stream.block()
        await all_live(poller.server)
        await poller.clock.advance(14)
        await poller.say("one")
        assert (await opened.frame())["seq"] == head + 1
        for _ in range(3):
            await poller.clock.advance(15)
            assert await opened.frame() == {"type": "ping", "head_sent": head + 1}
        text = b""
        while text.count(b": alive\n\n") < 3:
            text += await bounded(stream._reader.read(1000))


@requirement("M24")
async def test_a_ping_does_not_overtake_what_it_counts(poller: PollingAgent) -> None:
    """A workspace is told of its own alone: `head_sent` is the last it got, not the organisation's last."""
    other = await poller.server.seat("Other")
    async with channel(poller.server, poller.ops.token) as opened:
        await all_live(poller.server)
        await poller.server.admin.send(other.id, "for the other")
        await poller.say("for Ops")
        event = await opened.event()
        await poller.server.admin.send(other.id, "for the other")
        await poller.clock.advance(15)
        assert (await opened.control("ping"))["head_sent"] == event["seq"]


# -- a store that does not answer --------------------------------------------------------------------------------------


@requirement("M24", "M33")
async def test_channels_go_on_after_the_store_was_gone_and_miss_nothing(
    poller: PollingAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, gone, refusals = poller.server.server.store, False, 0
    rows = store.rows

    async def failing(name: str, params: Any) -> Any:
        nonlocal refusals
        if gone and name.startswith("events_after"):
            refusals += 1
            raise StoreUnavailable
        return await rows(name, params)

    monkeypatch.setattr(store, "rows", failing)
    async with channel(poller.server) as opened, streaming(poller.server) as stream:
        head = opened.frames[0]["head"]
        await stream.block()
        await all_live(poller.server)
        gone = True
        for text in ("one", "two", "three"):
            await poller.say(text)
        await eventually(lambda: _number(lambda: refusals), lambda count: count >= 1)
        await poller.clock.advance(1)
        await eventually(lambda: _number(lambda: refusals), lambda count: count >= 2)
        gone = False
        await poller.clock.advance(1)
        events = await opened.upto(head + 3)
        blocks = [msgspec.json.decode((await stream.block())["data"]) for _ in range(3)]
    check_chain(events, head)
    assert blocks == events


async def _number(look: Any) -> int:
    await checkpoint()
    return int(look())


@requirement("M24")
async def test_a_wish_while_the_store_is_gone_ends_the_channel_with_the_advice_to_resume(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with channel(server) as opened, channel(server) as other:
        await all_live(server)

        async def failing(_name: str, _params: Any) -> Any:
            raise StoreUnavailable

        with monkeypatch.context() as planted:
            planted.setattr(server.server.store, "rows", failing)
            await opened.subscribe(0)
            bye = await opened.bye()
        assert (bye.code, "resume" in bye.reason) == (1011, True)
        await server.seat("Ops")
        assert (await other.event())["event"] == "WORKSPACE_PROVISIONING"


@requirement("M24", "M33")
@pytest.mark.parametrize("engine", ["postgres"])
async def test_channels_miss_nothing_when_postgresql_ends_all_sessions(server: Running, place: str) -> None:
    seat = await server.seat("Ops")
    async with channel(server) as opened:
        head = opened.frames[0]["head"]
        await all_live(server)
        killer = await asyncpg.connect(place)
        for number in range(3):
            await killer.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )

            async def sent(number: int = number) -> str:
                try:
                    return str((await server.admin.send(seat.id, str(number), message_id=f"m-{number}"))["status"])
                except Exception as error:
                    return str(error)

            assert await eventually(sent, lambda said: said == "queued") == "queued"
        await killer.close()
        events = await opened.upto(head + 3)
    check_chain(events, head)
    assert [event["client_id"] for event in events] == ["m-0", "m-1", "m-2"]


@requirement("M24", "P1")
@pytest.mark.parametrize("engine", ["postgres"])
async def test_a_session_that_ended_in_the_middle_of_something_is_an_outage_and_no_mistake(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What asyncpg says when the session it is about to use has just been lost is neither of its two usual families."""
    fetch, planted = asyncpg.Pool.fetch, 2

    async def lost(pool: Any, sql: str, *values: Any) -> Any:
        nonlocal planted
        if "FROM events" in sql and planted:
            planted -= 1
            raise asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress")
        return await fetch(pool, sql, *values)

    async with channel(server) as opened:
        head = opened.frames[0]["head"]
        await all_live(server)
        monkeypatch.setattr(asyncpg.Pool, "fetch", lost)
        await server.seat("Ops")
        check_chain([await opened.event()], head)

        async def left() -> int:
            await checkpoint()
            return planted

        # A read that was under way as the loss began may have brought the first event; the next look meets it.
        assert await eventually(left, lambda found: found == 0) == 0
        await server.seat("QA")
        await opened.event("WORKSPACE_PROVISIONING")


# -- mistakes of ours --------------------------------------------------------------------------------------------------


@requirement("M24")
async def test_a_mistake_of_ours_is_logged_and_ends_the_channels_so_that_they_start_over(
    server: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who comes back at once, while another has not gone yet, is told what happens all the same."""
    seat, feed = await server.seat("Ops"), server.server.live_hub._feed
    wait = feed.wait_for_events

    async def mistaken(*args: Any) -> Any:
        await wait(*args)
        raise ZeroDivisionError("planted")

    await write_many(server, seat, 30)
    async with hand_made(server, reads=SMALL) as lingering:
        monkeypatch.setattr(feed, "wait_for_events", mistaken)
        await shaken(lingering)
        (listener,) = server.server.live_hub._subscribers()
        await lingering.send(subscribe_frame(0))  # and does not read: its line stays open for a while
        await eventually(lambda: _number(listener.transport.unread_bytes), lambda size: size > (512 << 10))
        async with channel(server) as opened:
            head = opened.frames[0]["head"]
            await opened.subscribe(head)
            await opened.control("current")
            with caplog.at_level(logging.ERROR, "molecule.live"):
                await server.admin.send(seat.id, "one")
                bye = await opened.bye()
        assert (bye.code, "resume" in bye.reason) == (1011, True)
        assert any(record.exc_info and "planted" in str(record.exc_info[1]) for record in caplog.records)
        monkeypatch.undo()
        async with channel(server) as again:
            await again.subscribe(head)
            await again.control("resumed")
            await again.event()
            await server.admin.send(seat.id, "two")
            assert (await again.event())["payload"]["summary"] == "two"


@requirement("M24")
async def test_a_mistake_while_somebody_catches_up_ends_that_channel_alone(
    server: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await server.seat("Ops")
    feed = server.server.live_hub._feed

    async def mistaken(*_args: Any) -> Any:
        raise ZeroDivisionError("planted")

    async with channel(server) as opened, channel(server) as other:
        await all_live(server)
        with monkeypatch.context() as planted, caplog.at_level(logging.ERROR):
            planted.setattr(feed, "read_after", mistaken)
            await opened.subscribe(0)
            assert (await opened.bye()).code == 1011
        assert any("planted" in str((record.exc_info or (0, ""))[1]) for record in caplog.records)
        await server.seat("More")
        assert (await other.event())["event"] == "WORKSPACE_PROVISIONING"


# -- the end -----------------------------------------------------------------------------------------------------------


@requirement("M24", "O1")
async def test_a_server_that_stops_says_goodbye_and_leaves_nothing_behind(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    before = asyncio.all_tasks()
    async with contextlib.AsyncExitStack() as stack:
        async with running(engine, place, tmp_path) as server:
            seat = await server.seat("Ops")
            sockets = [await stack.enter_async_context(channel(server)) for _ in range(5)]
            streams = [await stack.enter_async_context(streaming(server)) for _ in range(5)]
            await stack.enter_async_context(streaming(server, f"/workspaces/{seat.id}/events/stream"))
            for stream in streams:
                await stream.block()  # its hello: only then does it live
            own = ours(asyncio.all_tasks() - before)
            assert len(own) > 2
        for opened in sockets:
            bye = await opened.bye()
            assert (bye.code, "resume" in bye.reason) == (1012, True)
        for stream in streams:
            assert await stream.hung_up()
        assert [task for task in own if not task.done()] == []


def ours(tasks: set[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
    """The tasks that live channels started."""
    rooms = ("molecule_core/api/", "molecule_core/views/")
    files = ((task, task.get_coro().cr_code.co_filename) for task in tasks)  # type: ignore[union-attr]
    return [task for task, file in files if any(room in file for room in rooms)]


@requirement("M24", "O1")
@pytest.mark.parametrize("kind", ["socket", "stream"])
@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_reader_that_does_not_read_does_not_hold_up_the_end(
    engine: Engine, place: str, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endlessly_patient(server: Server) -> HttpListener:
        http = HttpListener(server)
        http.grace_seconds = None
        return http

    monkeypatch.setattr("testing.running_server.HttpListener", endlessly_patient)
    async with contextlib.AsyncExitStack() as stack:
        async with running(engine, place, tmp_path) as server:
            seat = await server.seat("Ops")
            await write_many(server, seat, 40)
            slow = await stack.enter_async_context(hand_made(server, reads=SMALL))
            if kind == "socket":
                await shaken(slow)
                await slow.send(subscribe_frame(0))
            else:
                last = {"Last-Event-ID": f"{server.server.store.epoch}:0"}
                await slow.send(request("GET", "/events/stream", token=ADMIN_TOKEN, headers=last))
                await slow.head()
            (listener,) = server.server.live_hub._subscribers()

            async def unread() -> int:
                await checkpoint()
                return listener.transport.unread_bytes()

            held_up = await eventually(unread, lambda size: size > (512 << 10))
            await stack.enter_async_context(asyncio.timeout(4 * IN_PROCESS_SECONDS))
        assert held_up > 0


@requirement("M24")
async def test_nothing_is_left_of_clients_that_have_gone(poller: PollingAgent) -> None:
    """No task of live channels; the clock of the signs of life ends at its next turn."""
    before = asyncio.all_tasks()
    for _ in range(3):
        async with channel(poller.server), channel(poller.server, poller.ops.token), streaming(poller.server):
            await all_live(poller.server)
        async with hand_made(poller.server) as rude:
            await shaken(rude)
        async with hand_made(poller.server) as rude:
            await rude.send(request("GET", "/events/stream", token=ADMIN_TOKEN))
    await eventually(lambda: listeners_of(poller.server), lambda left: left == 0)
    await poller.clock.advance(30)

    async def left() -> list[str]:
        await checkpoint()
        return [repr(task) for task in ours(asyncio.all_tasks() - before)]

    assert await eventually(left, lambda tasks: not tasks) == []
