"""Answers as events: when they are, what they hold, how they end; and the stream that stands beside them."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from molecule_core.tools.mcp_dispatcher import CallContext, ExtraMethods, ToolResult
from molecule_core.tools.spec import ToolSpec
from testing.clocks import FakeClock, settle
from testing.engines import Engine
from testing.live_clients import HandMade
from testing.mcp_clients import (
    ERAS,
    Era,
    Line,
    answering,
    calling,
    line_of,
    listening,
    rpc,
    stateless,
    until,
    until_answering,
    within,
)
from testing.running_server import Running, running
from testing.waits import bounded, until_waiting
from tests.api.mcp.conformance_server import Nothing
from tests.api.mcp.conformance_server import _spec as spec_of
from tests.requirements import requirement


class Chatter:
    """A tool that tells as much progress as it is let, and one that tells nothing until it is let go."""

    def __init__(self) -> None:
        self.specs: Sequence[ToolSpec] = (spec_of("chatter"), spec_of("silence"))
        self.extra = ExtraMethods()
        self.told = 0
        self.ended = asyncio.Event()
        self.go = asyncio.Event()
        self.answer = "done"

    async def call(self, spec: Any, _arguments: Struct, calling: CallContext) -> ToolResult:
        if spec.name == "silence":
            await self.go.wait()
            return ToolResult({}, text=self.answer)
        try:
            while not self.go.is_set():
                await calling.progress(self.told, None, "x" * 1000)
                self.told += 1
                await settle(1)
        finally:
            self.ended.set()
        return ToolResult({}, text="done")

    def client_answered(self, _message: dict[str, Any]) -> None: ...


@pytest.fixture
async def chatter() -> Chatter:
    return Chatter()


@pytest.fixture
async def timed(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, chatter: Chatter
) -> AsyncIterator[Running]:
    """A server whose time stands still, with these tools."""
    # Nothing looks again by itself: after it has saved heartbeats, a process that shares its store waits for a second.
    limits = within(subscriber_bytes=200_000, sweep_seconds=10_000_000, look_again_seconds=10_000_000)
    async with running(engine, place, tmp_path, clock=clock, limits=limits, mcp_additions=chatter) as server:
        yield server


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Era:
    """Each era of the protocol in turn."""
    chosen: Era = request.param
    return chosen


async def line_in(era: Era, server: Running) -> Line:
    """A client by hand, ready to call."""
    line = line_of(server, await server.seat("Ops"), "/mcp")
    if era == "handshake":
        await line.begin()
    return line


def call_in(era: Era, tool: str, arguments: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    """A call of a tool, in the form of an era."""
    given = {"name": tool, "arguments": arguments or {}}
    return calling(tool, arguments, **meta) if era == "handshake" else stateless("tools/call", {**given, "_meta": meta})


async def events(stream: HandMade) -> AsyncIterator[dict[str, Any]]:
    """The messages of a stream until it ends."""
    while True:
        try:
            block = await stream.block()
        except asyncio.IncompleteReadError:
            return
        yield json.loads(block["data"])


@requirement("G13")
async def test_progress_comes_as_events_before_the_answer(server: Running, era: Era) -> None:
    line = await line_in(era, server)
    limits = server.server.settings.limits
    assert limits.wait_seconds > 1
    person = await server.person()
    ops = (await line.post(call_in(era, "get_runtime_identity"))).json["result"]["structuredContent"]["workspaces"][0]
    async with answering(line, call_in(era, "wait_for_message", {"timeout_secs": 60}, progressToken="p")) as stream:
        await until_waiting(server.server, 1)
        await person.send(ops["workspace_id"], "hello")
        reply = await stream.reply()
        # It came before there was progress to tell: one JSON answer.
        assert reply.headers["content-type"] == "application/json"
        assert reply.json["result"]["structuredContent"]["message"]["text"] == "hello"


@requirement("G13")
async def test_a_wait_tells_its_progress_while_it_lasts(timed: Running, clock: FakeClock, era: Era) -> None:
    line = await line_in(era, timed)
    message = call_in(era, "wait_for_message", {"timeout_secs": 60}, progressToken="p")
    async with answering(line, message) as stream:
        for _ in range(3):
            await until_waiting(timed.server, 1)
            await clock.advance(25)
        head = await stream.head()
        found = [each async for each in events(stream)]

    assert (head.status, head.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    assert head.headers["x-accel-buffering"] == "no"
    *progress, answer = found
    assert [each["method"] for each in progress] == ["notifications/progress"] * len(progress)
    values = [each["params"]["progress"] for each in progress]
    assert values == sorted(values) and len(values) >= 2
    assert {each["params"]["progressToken"] for each in progress} == {"p"}
    assert {each["params"]["total"] for each in progress} == {60}
    assert (answer["id"], answer["result"]["structuredContent"]["message"]) == (message["id"], None)


async def test_who_takes_json_only_gets_the_answer_only(timed: Running, clock: FakeClock, era: Era) -> None:
    line = await line_in(era, timed)
    message = call_in(era, "wait_for_message", {"timeout_secs": 30}, progressToken="p")
    async with answering(line, message, Accept="application/json") as stream:
        for _ in range(2):
            await until_waiting(timed.server, 1)
            await clock.advance(25)
        reply = await stream.reply()
    assert (reply.headers["content-type"], reply.json["id"]) == ("application/json", message["id"])


async def test_an_answer_that_is_long_in_coming_shows_signs_of_life(
    timed: Running, clock: FakeClock, chatter: Chatter, era: Era
) -> None:
    line = await line_in(era, timed)
    async with answering(line, call_in(era, "silence")) as stream:
        await until_answering(timed, 1)
        for _ in range(4):
            await settle()
            await clock.advance(15)
        head = await stream.head()
        assert head.headers["content-type"].startswith("text/event-stream")
        assert (await bounded(stream._reader.readuntil(b"\n\n"))) == b": alive\n\n"
        chatter.go.set()
        assert [each["result"]["content"][0]["text"] async for each in events(stream)] == ["done"]
    await until_answering(timed, 0)


@requirement("G13", "S22")
async def test_an_answer_larger_than_a_client_may_leave_unread_comes_whole_to_who_reads_it(
    timed: Running, clock: FakeClock, chatter: Chatter, era: Era
) -> None:
    chatter.answer = "x" * (2 << 20)
    line = await line_in(era, timed)
    async with answering(line, call_in(era, "silence"), reads=4 << 20) as stream:
        await become_streams(timed, clock)
        await stream.head()
        chatter.go.set()
        (told,) = [each["result"]["content"][0]["text"] async for each in events(stream)]
    assert told == chatter.answer
    assert timed.server.mcp_routes.open_responses.disconnects["too slow"] == 0
    await until_answering(timed, 0)


async def become_streams(server: Running, clock: FakeClock) -> None:
    """Lets the answer that is due be so long in coming that it begins as events."""
    await until_answering(server, 1)
    for _ in range(4):
        await settle()
        await clock.advance(15)


@requirement("G13", "S22")
@pytest.mark.parametrize("size", [150_000, 1 << 20])
async def test_the_answers_of_one_list_come_whole_also_where_they_come_together(
    timed: Running, clock: FakeClock, chatter: Chatter, size: int
) -> None:
    chatter.answer = "x" * size
    line = line_of(timed, await timed.seat("Ops"), "/mcp")
    await line.begin("2025-03-26")
    calls = [calling("silence") for _ in range(3)]
    async with answering(line, calls, reads=8 << 20) as stream:
        await become_streams(timed, clock)
        await stream.head()
        chatter.go.set()
        told = {each["id"]: each["result"]["content"][0]["text"] async for each in events(stream)}
    assert told == {each["id"]: chatter.answer for each in calls}
    assert timed.server.mcp_routes.open_responses.disconnects["too slow"] == 0
    await until_answering(timed, 0)


async def some_of(stream: HandMade) -> bytes:
    """What comes next of a stream that has not ended."""
    found = await bounded(stream._reader.read(1 << 16))
    assert found, "it was cut"
    return found


@requirement("G13", "S22")
async def test_a_client_that_takes_its_time_over_a_large_answer_of_a_list_is_not_cut_while_it_takes_some(
    timed: Running, clock: FakeClock, chatter: Chatter
) -> None:
    chatter.answer = "x" * (2 << 20)
    line = line_of(timed, await timed.seat("Ops"), "/mcp")
    await line.begin("2025-03-26")
    calls = [calling("silence"), calling("wait_for_message", {"timeout_secs": 300})]
    async with answering(line, calls, reads=1 << 16) as stream:
        await become_streams(timed, clock)
        await stream.head()
        (outlet,) = timed.server.mcp_routes.open_responses._all
        held = outlet._stream._channel  # type: ignore[attr-defined]
        chatter.go.set()
        await until(lambda: held.unread_bytes() > 1 << 20)
        read = b""
        for _ in range(4):
            before = held.unread_bytes()
            while held.unread_bytes() == before:
                read += await some_of(stream)
            await clock.advance(15)
        while chatter.answer.encode() not in read:
            read += await some_of(stream)
    assert timed.server.mcp_routes.open_responses.disconnects["too slow"] == 0
    await until_answering(timed, 0)


@requirement("S14", "S22")
async def test_of_a_list_whose_client_reads_nothing_one_answer_is_written_at_a_time_until_it_is_cut(
    timed: Running, clock: FakeClock, chatter: Chatter
) -> None:
    chatter.answer = "x" * (1 << 20)
    line = line_of(timed, await timed.seat("Ops"), "/mcp")
    await line.begin("2025-03-26")
    async with answering(line, [calling("silence") for _ in range(3)], reads=4096):
        await become_streams(timed, clock)
        (outlet,) = timed.server.mcp_routes.open_responses._all
        held = outlet._stream._channel  # type: ignore[attr-defined]
        chatter.go.set()
        await until(lambda: held.unread_bytes() > 0)
        for _ in range(4):
            await settle(200)
            assert held.unread_bytes() <= len(chatter.answer) + 1000
            await clock.advance(15)
    assert timed.server.mcp_routes.open_responses.disconnects["too slow"] == 1
    await until_answering(timed, 0)


@requirement("S14", "S22")
async def test_a_client_that_reads_nothing_is_cut_and_its_call_ends(
    timed: Running, clock: FakeClock, chatter: Chatter, era: Era
) -> None:
    line = await line_in(era, timed)
    async with answering(line, call_in(era, "chatter", progressToken="p"), reads=4096):
        await until(lambda: chatter.told > 100)
        before = -1
        while before != chatter.told:  # until it has to wait for its client
            before = chatter.told
            await settle(200)
        assert not chatter.ended.is_set()
        for _ in range(4):
            await clock.advance(15)
        await bounded(chatter.ended.wait())
    assert timed.server.mcp_routes.open_responses.disconnects["too slow"] == 1
    await until_answering(timed, 0)


@requirement("N1")
async def test_a_standing_stream_shows_signs_of_life_and_a_second_one_replaces_it(
    timed: Running, clock: FakeClock
) -> None:
    line = await line_in("handshake", timed)
    async with listening(line) as first:
        assert await bounded(first._reader.readuntil(b"\n\n")) == b": alive\n\n"
        await clock.advance(15)
        assert await bounded(first._reader.readuntil(b"\n\n")) == b": alive\n\n"
        async with listening(line) as second:
            assert await first.hung_up()
            assert await bounded(second._reader.readuntil(b"\n\n")) == b": alive\n\n"
            await until_answering(timed, 1)
    await until_answering(timed, 0)


async def test_what_answers_nothing_goes_to_the_standing_stream(timed: Running) -> None:
    line = await line_in("handshake", timed)
    async with listening(line) as stream:
        (session,) = timed.server.mcp_routes.sessions._all.values()
        await session.dispatcher.notify("notifications/tools/list_changed")
        block = await stream.block()
    assert block["event"] == "message"
    assert json.loads(block["data"])["method"] == "notifications/tools/list_changed"


@requirement("O1")
async def test_a_server_that_stops_ends_its_streams_and_lets_waits_end(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path) as server:
        line = await line_in("handshake", server)
        async with (
            listening(line) as standing,
            answering(line, calling("wait_for_message", {"timeout_secs": 300})) as waiting,
            answering(line_of(server, await server.seat("Other"), "/mcp"), _wait_stateless()) as other,
        ):
            await until_waiting(server.server, 2)
            server.server.wakeups.close()
            for each in (waiting, other):
                told = (await each.reply()).json["result"]
                assert (told["isError"], told["_meta"]["molecule/code"]) == (True, "restarting")
            stopping = asyncio.create_task(_stop(server))
            await standing.hung_up()
            await bounded(stopping)
    assert len(server.server.mcp_routes.sessions) == 0


def _wait_stateless() -> dict[str, Any]:
    return stateless("tools/call", {"name": "wait_for_message", "arguments": {"timeout_secs": 300}})


async def _stop(server: Running) -> None:
    """As uvicorn does, once it has been told to."""
    for connection in list(server.server.mcp_routes.open_responses._all):
        connection._stream.on_shutdown()  # type: ignore[attr-defined]


def test_the_helper_tools_give_nothing() -> None:
    assert spec_of("chatter").result_type is Nothing


async def test_many_calls_of_both_eras_run_side_by_side(server: Running) -> None:
    ops, person = await server.seat("Ops"), await server.person()
    line = line_of(server, ops, "/mcp")
    await line.begin()
    for number in range(20):
        await person.send(ops.id, f"message {number}")
    calls = [call_in(era, "wait_for_message", {"timeout_secs": 5}) for _ in range(10) for era in ERAS]
    replies = await bounded(asyncio.gather(*(line.post(each) for each in calls)))
    texts = {each.json["result"]["structuredContent"]["message"]["text"] for each in replies}
    assert texts == {f"message {number}" for number in range(20)}
    assert (await line.post(rpc("ping"))).status == 200
