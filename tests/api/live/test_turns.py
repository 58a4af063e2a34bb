"""Live turns: what an agent does now reaches live channels, people stop it, nothing is stored, nobody is slowed."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from molecule_core.client.api import ApiError
from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.engines import Engine, place_for
from testing.live_clients import Channel, all_live, channel, check_shape, hand_made, head_of, streaming, token_of
from testing.running_server import Running, Seat, running
from testing.waits import bounded, eventually

TURN = "act-1"


async def _report(seat: Seat, *events: dict[str, Any], turn: str = TURN, **more: Any) -> list[dict[str, Any]]:
    body = {"activity_id": turn, "events": list(events), **more}
    answer = await bounded(seat.api.post(f"/workspaces/{seat.id}/live", body))
    return list(answer["controls"])


async def _controls(seat: Seat, **query: str) -> list[dict[str, Any]]:
    answer = await seat.api.get(f"/workspaces/{seat.id}/live/controls", wait=25, **query)
    return list(answer["controls"])


def _text(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def _status(status: str, text: str = "") -> dict[str, Any]:
    return {"type": "status", "status": status, "text": text}


def _tool(call_id: str, status: str) -> dict[str, Any]:
    return {"type": "tool", "call_id": call_id, "tool": "Bash", "title": "ls -l", "status": status}


async def _turn_event(opened: Channel) -> dict[str, Any]:
    while (frame := await opened.frame()).get("event") != "LIVE_TURN":
        pass
    check_shape(frame)
    return dict(frame["payload"])


async def _text_of(opened: Channel, upto: str) -> str:
    """The text of the turn as a client puts it together, once it ends with `upto`."""
    text, start = "", 0
    while not text.endswith(upto):
        sent = await _turn_event(opened)
        if sent["whole"]:
            text, start = "", sent["text_at"]
        assert start + len(text) == sent["text_at"]
        text += sent["text"]
    return text


async def test_text_tools_and_status_reach_a_person_and_are_not_journaled(server: Running) -> None:
    ops = await server.seat("Ops")
    head = await head_of(server)
    async with channel(server, await token_of(server)) as opened:
        await all_live(server)
        assert await _report(ops, _status("working", "Reads the logs"), _text("Hel")) == []
        first = await _turn_event(opened)
        assert (first["activity_id"], first["status"], first["status_text"]) == (TURN, "working", "Reads the logs")
        assert (first["text"], first["text_at"], first["whole"], first["tools"]) == ("Hel", 0, True, [])
        await _report(ops, _text("lo"), _tool("1", "started"))
        second = await _turn_event(opened)
        assert (second["text"], second["text_at"], second["whole"]) == ("lo", 3, False)
        assert [(each["tool"], each["title"], each["status"]) for each in second["tools"]] == [
            ("Bash", "ls -l", "started")
        ]
        await _report(ops, _tool("1", "completed"), _status("ended"))
        third = await _turn_event(opened)
        assert (third["status"], third["text"], third["tools"][0]["status"]) == ("ended", "", "completed")
    assert await head_of(server) == head + 1  # the person, and no more


async def test_a_new_subscriber_and_an_event_stream_are_sent_the_running_turn(server: Running) -> None:
    ops = await server.seat("Ops")
    async with channel(server) as first:  # with a channel open, the turn is known before the next one
        await all_live(server)
        await _report(ops, _text("Hello"))
        await _turn_event(first)
        async with channel(server) as second:
            sent = await _turn_event(second)
            assert (sent["text"], sent["whole"]) == ("Hello", True)
        async with streaming(server) as stream:
            while (frame := msgspec.json.decode((await stream.block())["data"])).get("event") != "LIVE_TURN":
                pass
            assert frame["payload"]["text"] == "Hello"
    async with channel(server) as third:
        assert (await _turn_event(third))["text"] == "Hello"


async def test_the_own_workspace_is_sent_its_turn_and_a_peer_is_not(server: Running) -> None:
    ops, desk = await server.seat("Ops"), await server.seat("Desk")
    async with channel(server, ops.token) as own, channel(server, desk.token) as other:
        await all_live(server)
        await _report(ops, _text("secret"), _status("ended"))
        assert (await _turn_event(own))["text"] == "secret"
        await _report(desk, _text("mine"))
        assert (await _turn_event(other))["text"] == "mine"  # the first turn that it is sent


async def test_a_stop_reaches_the_agent_by_its_wait_and_by_its_next_report(server: Running) -> None:
    ops, ada = await server.seat("Ops"), await server.person()
    async with channel(server) as opened:
        await all_live(server)
        await _report(ops, _text("Hello"))
        await _turn_event(opened)
        waiting = asyncio.create_task(_controls(ops, activity_id=TURN))
        answer = await ada.post(f"/workspaces/{ops.id}/live/stop", {"activity_id": TURN})
        assert answer == {"status": "stop_requested"}
        assert await bounded(waiting) == [{"type": "stop", "activity_id": TURN}]
        assert (await _turn_event(opened))["stop_requested_by"] == "A operator"
        assert await _report(ops, _text(" you")) == []  # it has had the request just now
        await ada.post(f"/workspaces/{ops.id}/live/stop", {"activity_id": TURN})  # pressed twice
        assert await _report(ops, _status("stopped")) == []
        # A turn that begins again with this id, for a reminder, knows nothing of it.
        assert await _report(ops, _status("working")) == []
        other = await ada.post(f"/workspaces/{ops.id}/live/stop", {"activity_id": TURN})
        assert other == answer
        assert await _report(ops, _text("x"), turn="act-2") == []  # of another turn


async def test_a_lost_request_to_stop_is_repeated(plain: Running) -> None:
    ops = await plain.seat("Ops")
    await _report(ops, _text("Hello"))
    await plain.admin.post(f"/workspaces/{ops.id}/live/stop", {"activity_id": TURN})
    for _ in range(2):
        assert await bounded(_controls(ops)) == [{"type": "stop", "activity_id": TURN}]


@pytest.mark.parametrize("status", ["ended", "failed", "stopped"])
async def test_only_a_running_turn_can_be_stopped(server: Running, status: str) -> None:
    ops = await server.seat("Ops")
    await _report(ops, _status(status))
    for turn in (TURN, "unknown"):
        with pytest.raises(ApiError, match="does not report it as running") as refused:
            await server.admin.post(f"/workspaces/{ops.id}/live/stop", {"activity_id": turn})
        assert (refused.value.status, refused.value.code) == (409, "turn_not_running")


async def test_stopping_a_thread_on_the_page_also_stops_the_program_that_runs_its_turn(server: Running) -> None:
    ops, ada = await server.seat("Ops"), await server.person()
    started = await ops.api.post(f"/workspaces/{ops.id}/threads", {"base_instructions": "Be kind.", "input": "hi"})
    thread_id = started["thread_id"]
    claim = await ops.api.post(f"/threads/{thread_id}/claim", {"owner": "engine"})
    turn = started["queued"][0]
    await ops.api.post(f"/threads/{thread_id}/turns/{turn}/begin", {"generation": claim["generation"]})
    await _report(ops, _text("Hello"), thread_id=thread_id)
    await ada.post(f"/threads/{thread_id}/interrupt", {})
    assert await _report(ops, _text("!"), thread_id=thread_id) == [{"type": "stop", "activity_id": TURN}]


async def test_a_turn_cannot_be_reported_in_the_thread_of_another_workspace(server: Running) -> None:
    ops, desk = await server.seat("Ops"), await server.seat("Desk")
    started = await desk.api.post(f"/workspaces/{desk.id}/threads", {"base_instructions": "Be kind."})
    for thread_id in (started["thread_id"], "unknown"):
        with pytest.raises(ApiError) as refused:
            await _report(ops, _text("spoofed"), thread_id=thread_id)
        assert (refused.value.status, refused.value.code) == (404, "not_found")


async def test_many_reports_become_few_events(plain: Running) -> None:
    ops = await plain.seat("Ops")
    async with channel(plain) as opened:
        await all_live(plain)
        for number in range(100):
            await _report(ops, _text(f"{number} "))
        await _report(ops, _text("done"))
        text = await _text_of(opened, "done")
        assert text == "".join(f"{number} " for number in range(100)) + "done"
        count = sum(frame.get("event") == "LIVE_TURN" for frame in opened.frames)
        assert count <= 60  # a hundred reports take less than six seconds


async def test_the_next_live_turn_of_a_workspace_is_refused_at_the_limit(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=Limits(live_turns=2)) as server:
        ops, desk = await server.seat("Ops"), await server.seat("Desk")
        for turn in ("1", "2", "2"):
            await _report(ops, _text("x"), turn=turn)
        with pytest.raises(ApiError, match="limit of 2 live turns of one workspace") as refused:
            await _report(ops, _text("x"), turn="3")
        assert refused.value.status == 429
        await _report(desk, _text("x"), turn="3")
        await _report(ops, _status("ended"), turn="1")  # ended turns do not count
        await _report(ops, _text("x"), turn="3")


async def test_a_silent_turn_is_forgotten_and_an_ended_one_soon(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    limits = Limits(live_turns=2, live_silence_seconds=60, live_ended_seconds=5, requests_per_minute=10**6)
    async with running(engine, place, tmp_path, limits=limits, clock=clock) as server:
        ops = await server.seat("Ops")
        turns = server.server.live_turns.reader
        await _report(ops, _text("x"), turn="silent")
        await _report(ops, _status("ended"), turn="over")
        await clock.advance(6)
        assert [each.activity_id for each in await turns.of_workspace(ops.id)] == ["silent"]
        await clock.advance(50)
        await bounded(ops.api.get(f"/workspaces/{ops.id}/live/controls"))  # its agent is there, and asks
        await clock.advance(50)
        assert len(await turns.of_workspace(ops.id)) == 1
        await clock.advance(20)
        assert await turns.of_workspace(ops.id) == []
        with pytest.raises(ApiError, match="does not report it as running"):
            await server.admin.post(f"/workspaces/{ops.id}/live/stop", {"activity_id": "silent"})
        for turn in ("3", "4"):  # forgotten ones do not count
            await _report(ops, _text("x"), turn=turn)


async def test_subscribers_learn_that_a_turn_was_lost(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, limits=Limits(live_silence_seconds=1)) as server:
        ops = await server.seat("Ops")
        async with channel(server) as opened:
            await all_live(server)
            await _report(ops, _text("x"))
            assert (await _turn_event(opened))["status"] == "working"
            lost = await _turn_event(opened)
            assert (lost["status"], lost["text"]) == ("lost", "")


async def test_a_client_that_reads_nothing_loses_text_and_later_gets_the_whole(tmp_path: Path) -> None:
    limits = Limits(subscriber_bytes=64 << 10, live_text_bytes=32 << 10, live_updates=100, requests_per_minute=10**6)
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, limits=limits) as server:
        ops = await server.seat("Ops")
        async with hand_made(server, reads=4096) as slow, channel(server) as quick:
            await slow.handshake()
            assert (await slow.told())["type"] == "hello"
            await all_live(server)
            hub = server.server.live_hub
            by_port = {each.transport.unread_bytes: each for each in hub._subscribers()}
            piece = "x" * 8000
            sent = 0

            async def unread() -> int:
                nonlocal sent
                await _report(ops, _text(piece))
                sent += len(piece)
                return max(read() for read in by_port)

            await eventually(unread, lambda count: count > 8 << 10)  # the share of live turns is full
            for _ in range(40):
                await unread()
                await _turn_event(quick)
            assert await unread() < 64 << 10  # and stays so: nothing is queued for the slow one beyond it
            await _report(ops, _text("THE END"))
            assert hub.count_subscribers() == 2
            text, start = "", 0
            while not text.endswith("THE END"):
                frame = await slow.told()
                if frame.get("event") != "LIVE_TURN":
                    continue
                told = frame["payload"]
                if told["whole"]:
                    text, start = "", told["text_at"]
                assert start + len(text) == told["text_at"]  # it never misses a part in between
                text += told["text"]
            assert start + len(text) == sent + len("THE END")


async def test_processes_of_one_database_share_live_turns(tmp_path: Path, postgres: str) -> None:
    place = await place_for("postgres", tmp_path, postgres)
    async with (
        running("postgres", place, tmp_path / "1", seed=1) as one,
        running("postgres", place, tmp_path / "2", seed=2) as two,
    ):
        ops = await one.seat("Ops")
        elsewhere = two.api(ops.token)
        async with channel(one) as first, channel(two) as second:
            await all_live(one)
            await all_live(two)
            for number in range(20):  # a balancer may send each report to another process
                body = {"activity_id": TURN, "events": [_text(f"{number} ")]}
                api = ops.api if number % 2 else elsewhere
                await bounded(api.post(f"/workspaces/{ops.id}/live", body))
            for opened in (first, second):
                assert await _text_of(opened, "19 ") == "".join(f"{number} " for number in range(20))
            waiting = asyncio.create_task(_controls(ops))
            await two.admin.post(f"/workspaces/{ops.id}/live/stop", {"activity_id": TURN})
            assert await bounded(waiting) == [{"type": "stop", "activity_id": TURN}]
            await _report(ops, _status("stopped"))
            for opened in (first, second):
                while (await _turn_event(opened))["status"] != "stopped":
                    pass
