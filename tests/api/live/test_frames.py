"""WebSockets and event streams byte by byte: handshakes, frames, early words, ends."""

import asyncio
import contextlib
import json
from typing import Any

import pytest
from websockets.frames import Close, Opcode

from testing.live_clients import (
    UPGRADE,
    HandMade,
    channel,
    check_chain,
    hand_made,
    packed,
    streaming,
    subscribe_frame,
    token_of,
)
from testing.raw_http import request
from testing.running_server import ADMIN_TOKEN, Running
from testing.waits import IN_PROCESS_SECONDS, bounded
from tests.requirements import requirement

HEALTH = request("GET", "/health")


# -- handshake ---------------------------------------------------------------------------------------------------------


@requirement("M24")
async def test_the_answer_to_the_handshake_is_the_one_of_the_standard(server: Running) -> None:
    async with hand_made(server) as opened:
        reply = await opened.handshake()
        assert reply.status == 101
        assert reply.headers["upgrade"].lower() == "websocket"
        assert reply.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # RFC 6455, 1.3
        assert "sec-websocket-extensions" not in reply.headers
        assert (await opened.told())["type"] == "hello"


BAD_HANDSHAKES: dict[str, dict[str, str | None]] = {
    "version 8": {"Sec-WebSocket-Version": "8"},
    "no version": {"Sec-WebSocket-Version": None},
    "no key": {"Sec-WebSocket-Key": None},
    "a key that is too short": {"Sec-WebSocket-Key": "c2hvcnQ="},
    "a key that is no base64": {"Sec-WebSocket-Key": "%%%"},
    "no upgrade": {"Upgrade": None, "Connection": None},
    "no connection header": {"Connection": "keep-alive"},
    "another protocol": {"Upgrade": "h2c"},
}


@requirement("M24", "S14")
@pytest.mark.parametrize("kind", BAD_HANDSHAKES)
async def test_a_bad_handshake_is_told_what_this_path_speaks(server: Running, kind: str) -> None:
    changes = BAD_HANDSHAKES[kind]
    headers = {name: changes.get(name, value) for name, value in UPGRADE.items()}
    async with hand_made(server) as opened:
        reply = await opened.ask("GET", "/ws", token=ADMIN_TOKEN, headers=_kept(headers))
        assert (reply.status, reply.json["code"]) == (426, "websocket_needed")
        assert "WebSocket" in reply.error
        # RFC 9110, 15.5.22: the answer names the protocol that is needed. RFC 6455, 4.4: and its version.
        assert reply.headers["upgrade"].lower() == "websocket"
        assert reply.headers["sec-websocket-version"] == "13"


def _kept(headers: dict[str, str | None]) -> dict[str, str]:
    """The headers that are sent at all."""
    return {name: value for name, value in headers.items() if value is not None}


@requirement("M24", "S20")
async def test_other_methods_and_other_credentials_are_refused_before_the_handshake(server: Running) -> None:
    async with hand_made(server) as opened:
        reply = await opened.ask("POST", "/ws", {}, token=ADMIN_TOKEN)
        assert (reply.status, reply.headers["allow"]) == (405, "GET")
    for token in (None, "nonsense"):
        async with hand_made(server) as opened:
            reply = await opened.handshake(token)
            assert reply.status == 401, reply
    async with hand_made(server) as opened:
        await opened.send(request("GET", "/ws", token=ADMIN_TOKEN, headers={**UPGRADE, "Host": "evil.example"}))
        assert (await opened.reply()).status == 421


@requirement("M24", "M3")
async def test_the_token_of_a_removed_workspace_opens_no_channel(server: Running) -> None:
    lead = await server.seat("Lead")
    gone = await server.seat("Gone", parent_id=lead.id)
    await server.admin.call("DELETE", f"/workspaces/{gone.id}", query={"confirm": "true"})
    async with hand_made(server) as opened:
        assert (await opened.handshake(gone.token)).status == 410
    for path in ("/events/stream", f"/workspaces/{gone.id}/events/stream"):
        async with hand_made(server) as opened:
            await opened.send(request("GET", path, token=gone.token))
            assert (await opened.head()).status == 410, path


@requirement("M24")
@pytest.mark.parametrize("headers", [UPGRADE, {"Connection": "Upgrade", "Upgrade": "websocket"}])
async def test_an_upgrade_on_another_path_is_declined_and_the_request_served(
    plain: Running, headers: dict[str, str]
) -> None:
    async with hand_made(plain) as opened:
        assert (await opened.ask("GET", "/health", headers=headers)).json["status"] == "ok"
    body = b'{"name": "Over the offer"}'
    for cut in (0, 5, len(body)):
        async with hand_made(plain) as opened:
            data = request("POST", "/orgs", body, token=ADMIN_TOKEN, headers=headers)
            await opened.send(data[: len(data) - cut])
            await plain.admin.get("/orgs")
            await opened.send(data[len(data) - cut :])
            reply = await opened.reply()
            assert reply.status in (201, 409), reply


@requirement("M24", "S14")
async def test_requests_before_an_upgrade_are_answered_first(server: Running) -> None:
    async with hand_made(server) as opened:
        assert (await opened.ask("GET", "/health")).status == 200
        assert (await opened.handshake()).status == 101
        assert (await opened.told())["type"] == "hello"


@requirement("M24", "S14")
async def test_an_upgrade_sent_ahead_of_the_answer_before_it_is_answered_in_its_turn(server: Running) -> None:
    """Behind a request that is still being answered nothing can be opened: said, not ignored."""
    first = request("POST", "/orgs", b'{"name": "First"}', token=ADMIN_TOKEN)
    async with hand_made(server) as opened:
        await opened.send(first + request("GET", "/ws", token=ADMIN_TOKEN, headers=UPGRADE) + HEALTH)
        statuses = [(await opened.reply()).status for _ in range(3)]
    assert statuses == [201, 426, 200]


# -- early words -------------------------------------------------------------------------------------------------------


@requirement("M24")
async def test_a_wish_in_the_packet_of_the_handshake_is_heard_and_hello_comes_first(server: Running) -> None:
    seat = await server.seat("Ops")
    await server.admin.send(seat.id, "hello")
    async with hand_made(server) as opened:
        assert (await opened.handshake(more=subscribe_frame(0))).status == 101
        frames = [await opened.told() for _ in range(4)]
    assert [frame.get("type") for frame in frames[:2]] == ["hello", "resumed"]
    check_chain(frames[2:], 0)


@requirement("M24")
async def test_many_wishes_in_the_packet_of_the_handshake_wait_for_the_greeting_and_the_last_one_counts(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    seat = await server.seat("Ops")
    await server.admin.send(seat.id, "hello")
    gate, head, calls = asyncio.Event(), server.server.live_hub._feed.head, 0

    async def first_held(org_id: str) -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            await bounded(gate.wait())
        return await head(org_id)

    async with channel(server):  # the organisation is told already, so only the greeting has to look
        monkeypatch.setattr(server.server.live_hub._feed, "head", first_held)
        async with hand_made(server) as opened:
            wishes = subscribe_frame(0) + subscribe_frame(0) + subscribe_frame(1)
            assert (await opened.handshake(more=wishes)).status == 101
            for _ in range(5):
                await server.admin.get("/orgs")
            gate.set()
            frames = [await opened.told() for _ in range(3)]
    assert [frame.get("type") for frame in frames[:2]] == ["hello", "resumed"]
    check_chain(frames[2:], 1)


@requirement("M24")
async def test_who_hangs_up_with_a_wish_before_the_greeting_leaves_no_listener(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.seat("Ops")
    gate, started, head = asyncio.Event(), asyncio.Event(), server.server.live_hub._feed.head

    async def held(org_id: str) -> int:
        started.set()
        await bounded(gate.wait())
        return await head(org_id)

    monkeypatch.setattr(server.server.live_hub._feed, "head", held)
    async with hand_made(server) as opened:
        await opened.send(request("GET", "/ws", token=ADMIN_TOKEN, headers=UPGRADE) + subscribe_frame(0))
        await bounded(started.wait())
    await _all_gone(server)
    gate.set()
    await server.admin.get("/orgs")
    assert server.server.live_hub.count_subscribers() == 0


@requirement("M24")
@pytest.mark.parametrize("cut", [1, 4, 7])
async def test_a_wish_that_comes_in_two_packets_around_the_look_up_of_the_credential_is_whole(
    server: Running, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    await server.seat("Ops")
    token, wish = await token_of(server), subscribe_frame(0)
    started, gate, rows = asyncio.Event(), asyncio.Event(), server.server.store.rows

    async def held(name: str, params: Any) -> Any:
        if name == "person_by_token":
            started.set()
            await bounded(gate.wait())
        return await rows(name, params)

    monkeypatch.setattr(server.server.store, "rows", held)
    async with hand_made(server) as opened:
        await opened.send(request("GET", "/ws", token=token, headers=UPGRADE) + wish[:cut])
        await bounded(started.wait())
        await opened.send(wish[cut:])
        await server.admin.get("/orgs")
        gate.set()
        assert (await opened.reply()).status == 101
        assert [(await opened.told()).get("type") for _ in range(2)] == ["hello", "resumed"]
        check_chain([await opened.told()], 0)


@requirement("M24", "S14")
async def test_who_talks_too_much_before_the_answer_is_cut(plain: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    token = await token_of(plain)
    started, rows = asyncio.Event(), plain.server.store.rows

    async def held(name: str, params: Any) -> Any:
        if name == "person_by_token":
            started.set()
            await asyncio.get_running_loop().create_future()
        return await rows(name, params)

    monkeypatch.setattr(plain.server.store, "rows", held)
    async with hand_made(plain) as opened:
        await opened.send(request("GET", "/ws", token=token, headers=UPGRADE))
        await bounded(started.wait())
        await opened.send(b"x" * 5000)
        assert await opened.hung_up()


# -- frames ------------------------------------------------------------------------------------------------------------


async def opened_by_hand(opened: HandMade) -> dict[str, Any]:
    """Shakes hands and reads the hello."""
    assert (await opened.handshake()).status == 101
    return await opened.told()


@requirement("M24", "S14")
async def test_frames_that_nobody_knows_are_left_alone(server: Running) -> None:
    deep = '{"type":"subscribe","x":' + "[" * 1900 + "]" * 1900 + "}"
    unknown = [
        "",
        "nonsense",
        "5",
        "null",
        "[]",
        "{}",
        '{"type":"later"}',
        '{"type":5}',
        '{"type":"subscribe","after":"x"}',
        '{"type":"subscribe","epoch":5}',
        '{"event":"WORKSPACE_REMOVED"}',
        "\ufeff{}",
        "[" * 4000,
        deep,
    ]
    await server.seat("Ops")
    for text in unknown:
        async with hand_made(server) as opened:
            await opened_by_hand(opened)
            await opened.send(packed(text))
            await opened.send(packed(b"\xff\xfe", Opcode.TEXT))
            await opened.send(packed(b'{"type":"subscribe"}', Opcode.BINARY))
            await opened.send(packed(b"still there", Opcode.PING))
            assert await opened.frame() == (Opcode.PONG, b"still there"), text[:60]


@requirement("M24")
async def test_a_wish_in_fragments_is_one_wish(server: Running) -> None:
    """RFC 6455, 5.4: whoever receives messages receives fragmented ones."""
    text = json.dumps({"type": "subscribe", "after": 0})
    await server.seat("Ops")
    async with hand_made(server) as opened:
        await opened_by_hand(opened)
        await opened.send(packed(text[:7], fin=False))
        await opened.send(packed(b"in between", Opcode.PING))
        await opened.send(packed(text[7:9], Opcode.CONT, fin=False) + packed(text[9:], Opcode.CONT))
        assert await opened.frame() == (Opcode.PONG, b"in between")
        assert (await opened.told())["type"] == "resumed"


@requirement("M24")
async def test_bytes_that_come_one_by_one_are_the_same_frames(server: Running) -> None:
    await server.seat("Ops")
    async with hand_made(server) as opened:
        await opened_by_hand(opened)
        for byte in subscribe_frame(0):
            await opened.send(bytes([byte]))
            await server.admin.get("/orgs")
        assert (await opened.told())["type"] == "resumed"


BROKEN_FRAMES = {
    "too large": (packed("x" * 5000), 1009),
    "too large in pieces": (packed("x" * 3000, fin=False) + packed("x" * 3000, Opcode.CONT), 1009),
    "not masked": (b"\x81\x02hi", 1002),
    "an opcode that is none": (b"\x83\x80\0\0\0\0", 1002),
    "a bit that is reserved": (b"\xc1\x80\0\0\0\0", 1002),
    "a long ping": (b"\x89\xfe\0\x7e\0\0\0\0" + b"x" * 126, 1002),
    "a piece of nothing": (packed("x", Opcode.CONT), 1002),
    "a close code that is none": (packed(b"\x03\xed", Opcode.CLOSE), 1002),
}


@requirement("M24", "S14")
@pytest.mark.parametrize("kind", BROKEN_FRAMES)
async def test_a_broken_frame_ends_the_channel_with_the_code_of_the_standard(plain: Running, kind: str) -> None:
    data, code = BROKEN_FRAMES[kind]
    async with hand_made(plain) as opened:
        await opened_by_hand(opened)
        await opened.send(data)
        opcode, farewell = await opened.frame()
        assert (opcode, Close.parse(farewell).code) == (Opcode.CLOSE, code)
        assert await opened.hung_up()
    await _all_gone(plain)


@requirement("M24")
async def test_a_goodbye_is_answered_and_nothing_is_left(plain: Running) -> None:
    async with hand_made(plain) as opened:
        await opened_by_hand(opened)
        await opened.send(packed(Close(1000, "bye").serialize(), Opcode.CLOSE))
        opcode, farewell = await opened.frame()
        assert (opcode, Close.parse(farewell).code) == (Opcode.CLOSE, 1000)
        assert await opened.hung_up()
    async with hand_made(plain) as opened:
        await opened_by_hand(opened)  # and goes without a word
    await _all_gone(plain)


async def _all_gone(server: Running) -> None:
    """Nobody listens any more, and no task is left of those who did."""
    own = asyncio.current_task()

    def left() -> list[str]:
        names = [repr(task.get_coro()) for task in asyncio.all_tasks() if task is not own]
        return [name for name in names if any(word in name for word in ("_Channel", "Live.", "_served"))]

    async with asyncio.timeout(IN_PROCESS_SECONDS):
        # The clock of the signs of life ends at its next turn; all that belongs to a channel ends with it.
        while server.server.live_hub.count_subscribers() or [name for name in left() if "Live._ping" not in name]:
            await server.admin.get("/health")


@requirement("M24", "S14")
@pytest.mark.parametrize("flood", ["pings", "wishes", "resumes"])
async def test_a_client_that_asks_and_never_reads_cannot_fill_the_memory(plain: Running, flood: str) -> None:
    seat = await plain.seat("Ops")
    await plain.admin.send(seat.id, "x" * 200_000)
    frames = {
        "pings": packed(b"p" * 125, Opcode.PING),
        "wishes": subscribe_frame(99),
        "resumes": subscribe_frame(0),
    }
    piece = frames[flood] * 500
    largest = 0
    async with hand_made(plain, reads=4096) as opened:
        await opened_by_hand(opened)
        (listener,) = plain.server.live_hub._subscribers()
        for _ in range(200):
            try:
                async with asyncio.timeout(0.2):
                    await opened.send(piece)
            except (TimeoutError, ConnectionError):  # it is not listened to any more: just as well
                break
            largest = max(largest, listener.transport.unread_bytes())
        largest = max(largest, listener.transport.unread_bytes())
    assert largest < plain.server.settings.limits.subscriber_bytes * 2, f"{largest} bytes were kept for it"


# -- event streams -----------------------------------------------------------------------------------------------------


@requirement("M24")
async def test_a_stream_tells_the_same_events_as_a_socket(server: Running) -> None:
    seat = await server.seat("Ops")
    async with channel(server) as socket, streaming(server) as stream:
        hello = await stream.block()
        assert hello["event"] == "hello"
        assert json.loads(hello["data"])["head"] == socket.frames[0]["head"]
        for text in ("one", "two\nlines", "three"):
            await server.admin.send(seat.id, text)
            event, block = await socket.event(), await stream.block()
            assert json.loads(block["data"]) == event
            assert block["id"] == f"{server.server.store.epoch}:{event['seq']}"
            assert "event" not in block


@requirement("M24")
async def test_a_stream_goes_on_behind_its_last_event(server: Running) -> None:
    seat = await server.seat("Ops")
    async with streaming(server) as stream:
        await stream.block()
        for text in ("one", "two", "three"):
            await server.admin.send(seat.id, text)
        last = (await stream.block())["id"]
    async with streaming(server, Last_Event_ID=last) as stream:
        resumed = await stream.block()
        assert (resumed["event"], json.loads(resumed["data"])["count"]) == ("resumed", 2)
        blocks = [json.loads((await stream.block())["data"]) for _ in range(2)]
        assert [block["payload"]["summary"] for block in blocks] == ["two", "three"]
        await server.admin.send(seat.id, "four")
        blocks.append(json.loads((await stream.block())["data"]))
    check_chain(blocks, 2)


@requirement("M24")
async def test_a_stream_that_ends_before_its_first_event_misses_nothing(server: Running) -> None:
    """Clients repeat the last id they were told: so the first block has to carry one."""
    seat = await server.seat("Ops")
    for path in ("/events/stream", f"/workspaces/{seat.id}/events/stream"):
        async with streaming(server, path) as stream:
            first = await stream.block()
        assert first["id"].startswith(f"{server.server.store.epoch}:")
        await server.admin.send(seat.id, "meanwhile")
        async with streaming(server, path, Last_Event_ID=first["id"]) as stream:
            while "meanwhile" not in (await stream.block()).get("data", ""):
                pass


@requirement("M24")
async def test_a_stream_of_another_epoch_is_told_to_load_a_snapshot(server: Running) -> None:
    await server.seat("Ops")
    for last, reason in (("another:1", "epoch_changed"), (f"{server.server.store.epoch}:99", "ahead")):
        async with streaming(server, Last_Event_ID=last) as stream:
            block = await stream.block()
            assert (block["event"], json.loads(block["data"])["reason"]) == ("snapshot_required", reason)


@requirement("M24", "S14")
@pytest.mark.parametrize("last", ["", "5", ":", "x:", "x:-1", "x:1.5", "x:²", "x:" + "9" * 20, "1:2:3"])
async def test_an_id_that_was_never_given_is_refused(plain: Running, last: str) -> None:
    async with hand_made(plain) as opened:
        headers = {"Last-Event-ID": last}
        reply = await opened.ask("GET", "/events/stream", token=ADMIN_TOKEN, headers=headers)
        assert (reply.status, reply.json["code"]) == (422, "invalid_field")
        assert "Last-Event-ID" in reply.error
        assert (await opened.ask("GET", "/health")).status == 200


@requirement("M24")
async def test_an_older_stream_tells_one_workspace_in_the_older_shape(server: Running) -> None:
    lead = await server.seat("Lead")
    ops = await server.seat("Ops", parent_id=lead.id)
    other = await server.seat("Other", parent_id=lead.id)
    for token in (ops.token, ADMIN_TOKEN, await token_of(server, "viewer")):
        async with streaming(server, f"/workspaces/{ops.id}/events/stream", token) as stream:
            # Its channel is open once what happens to others has passed it by.
            async with channel(server) as opened:
                await other.api.post("/registry/register", {"id": other.id, "agent_card": {"name": token[-9:]}})
                await server.admin.send(other.id, "not for Ops")
                await opened.event("USER_MESSAGE")
            await server.admin.send(ops.id, "for Ops")
            block = await stream.block()
            while "data" not in block:
                block = await stream.block()
            data = json.loads(block["data"])
            assert data.keys() == {"type", "timestamp", "data"}
            assert (data["type"], data["data"]["summary"]) == ("USER_MESSAGE", "for Ops")
            assert 1_700_000_000_000 < data["timestamp"] < 3_000_000_000_000
            assert block["id"].startswith(f"{server.server.store.epoch}:")
    async with hand_made(server) as opened_by:
        reply = await opened_by.ask("GET", f"/workspaces/{ops.id}/events/stream", token=other.token)
        assert reply.status == 404


@requirement("M24")
async def test_an_older_stream_with_an_outdated_id_does_not_fall_silent(server: Running) -> None:
    """Its clients know no `snapshot_required`: the stream ends, is refused, or goes on from now."""
    seat = await server.seat("Ops")
    path = f"/workspaces/{seat.id}/events/stream"
    async with hand_made(server) as opened:
        await opened.send(request("GET", path, token=seat.token, headers={"Last-Event-ID": "another:1"}))
        head = await opened.head()
        if head.status == 200:
            await server.admin.send(seat.id, "something new")
            with contextlib.suppress(asyncio.IncompleteReadError):
                while "data" not in (block := await opened.block()):  # the first tells only where the stream begins
                    pass
                assert "something new" in block["data"]
        else:
            assert head.status in (410, 422)
