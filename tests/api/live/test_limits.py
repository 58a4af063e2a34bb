"""Limits of one credential on live channels: how many, how much unread, how many frames."""

import asyncio
import contextlib
from pathlib import Path

import msgspec
import pytest
from anyio.lowlevel import checkpoint
from websockets.frames import Opcode

from molecule_core.common.limits import Limits
from molecule_core.messages.obligations.instructions import InstructionBuilder
from testing.engines import Engine
from testing.live_clients import (
    UPGRADE,
    all_live,
    channel,
    check_chain,
    hand_made,
    packed,
    streaming,
    subscribe_frame,
    token_of,
)
from testing.raw_http import request
from testing.running_server import ADMIN_TOKEN, Running, running
from testing.waits import eventually

LARGE = "x" * 200_000
LIMIT_REACHED = 4029
UNREAD = 1 << 20


async def opened_by(server: Running) -> int:
    """How many live channels are open."""
    await checkpoint()
    return server.server.live_hub.count_subscribers()


async def test_the_next_channel_of_a_credential_is_refused_at_the_limit(plain: Running) -> None:
    ours, theirs = await token_of(plain), await token_of(plain)
    async with contextlib.AsyncExitStack() as stack:
        for number in range(Limits().live_channels):
            await stack.enter_async_context(channel(plain, ours) if number % 2 else streaming(plain, token=ours))
        refusals = [
            request("GET", "/events/stream", token=ours),
            request("GET", "/ws", token=ours, headers=UPGRADE),
            request("GET", "/threads/ws", token=ours, headers=UPGRADE),
        ]
        for each in refusals:
            async with hand_made(plain) as wire:
                await wire.send(each)
                refused = await wire.reply()
                problem = msgspec.json.decode(refused.body)
                assert (refused.status, problem["code"]) == (429, "too_many_open")
                assert problem["error"].startswith("the limit of 64 live channels of one credential is reached.")
                assert refused.headers["retry-after"] == "5"
        async with channel(plain, theirs):
            pass  # another credential is not concerned
    await eventually(lambda: opened_by(plain), lambda count: count == 0)
    async with channel(plain, ours):
        pass  # and closed channels no longer count


async def test_2500_streams_of_a_credential_stay_at_its_limit(plain: Running) -> None:
    token = await token_of(plain)
    statuses = list[int]()
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(2500):
            wire = await stack.enter_async_context(hand_made(plain))
            await wire.send(request("GET", "/events/stream", token=token))
            statuses.append((await wire.head()).status)
            if statuses[-1] != 200:
                await wire.close()
        assert (statuses.count(200), statuses.count(429)) == (64, 2436)
        assert await opened_by(plain) == 64


async def test_channels_that_open_at_once_do_not_pass_the_limit(tmp_path: Path) -> None:
    async with (
        running("sqlite", str(tmp_path / "m.db"), tmp_path, limits=Limits(live_channels=2)) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        wires = [await stack.enter_async_context(hand_made(server)) for _ in range(8)]
        for wire in wires:
            await wire.send(request("GET", "/events/stream", token=ADMIN_TOKEN))
        await eventually(lambda: opened_by(server), lambda count: count == 2)
        for wire in wires:
            await wire.head()
        assert await opened_by(server) == 2


async def test_unread_events_of_all_channels_of_a_credential_have_one_limit(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    limits = Limits(credential_unread_bytes=UNREAD, subscriber_bytes=16 << 20)
    async with running(engine, place, tmp_path, limits=limits) as server:
        seat, theirs = await server.seat("Ops"), await token_of(server)
        async with contextlib.AsyncExitStack() as stack:
            wires = [await stack.enter_async_context(hand_made(server, reads=4096)) for _ in range(8)]
            for wire in wires:
                assert (await wire.handshake()).status == 101
                await wire.told()
            reader = await stack.enter_async_context(channel(server, theirs))
            await all_live(server)
            subscribers = [
                each
                for each in server.server.live_hub._subscribers()
                if each.caller.id != reader.frames[0]["user"]["id"]
            ]
            largest = 0
            for number in range(20):
                await server.admin.send(seat.id, f"{number} {LARGE}")
                largest = max(largest, sum(each.transport.unread_bytes() for each in subscribers))
            # One event more than the limit, since it is compared before each write.
            assert UNREAD // 2 < largest <= UNREAD + 2 * len(LARGE)
            check_chain(await reader.upto(reader.frames[0]["head"] + 20), reader.frames[0]["head"])


async def test_a_stalled_channel_makes_room_for_the_others_of_its_credential(tmp_path: Path) -> None:
    limits = Limits(credential_unread_bytes=UNREAD, subscriber_bytes=16 << 20)
    async with running("sqlite", str(tmp_path / "m.db"), tmp_path, limits=limits) as server:
        seat = await server.seat("Ops")
        async with hand_made(server, reads=4096) as deaf, channel(server) as reader:
            assert (await deaf.handshake()).status == 101
            await all_live(server)
            start = reader.frames[0]["head"]
            reading = asyncio.create_task(reader.upto(start + 30))
            for number in range(30):
                await server.admin.send(seat.id, f"{number} {LARGE}")
            check_chain(await reading, start)
            await eventually(lambda: opened_by(server), lambda count: count == 1)


async def test_an_event_with_instructions_is_rendered_once_for_all_channels_of_its_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered = list[str]()
    render = InstructionBuilder.render

    def counted(*args: object, **options: object) -> object:
        rendered.append("once")
        return render(*args, **options)  # type: ignore[arg-type]

    async with (
        running("sqlite", str(tmp_path / "m.db"), tmp_path, push_instructions_enabled=True) as server,
        contextlib.AsyncExitStack() as stack,
    ):
        agent = await server.seat("Ops")
        query = "?include=instructions"
        channels = [await stack.enter_async_context(channel(server, agent.token, query=query)) for _ in range(10)]
        await all_live(server)
        monkeypatch.setattr(InstructionBuilder, "render", counted)
        await server.admin.send(agent.id, "hello")
        for each in channels:
            assert "instructions" in (await each.event("USER_MESSAGE"))["payload"]
    assert len(rendered) == 1


@pytest.mark.parametrize("kind", ["empty fragments", "pings", "subscribe"])
async def test_a_flood_of_frames_closes_its_socket_and_others_are_served(kind: str, tmp_path: Path) -> None:
    frames = {
        "empty fragments": packed("x", fin=False) + packed(b"", Opcode.CONT, fin=False) * 20_000,
        "pings": packed(b"", Opcode.PING) * 20_000,
        "subscribe": subscribe_frame(0) * 3000,
    }
    limits = Limits(requests_per_minute=500)
    async with running("sqlite", str(tmp_path / "m.db"), tmp_path, limits=limits) as server:
        flooder, other = await token_of(server), await token_of(server)
        async with hand_made(server) as wire, channel(server, other) as calm:
            assert (await wire.handshake(flooder)).status == 101
            await wire.send(frames[kind])
            opcode, data = await wire.frame()
            while opcode != Opcode.CLOSE:
                opcode, data = await wire.frame()
            assert int.from_bytes(data[:2]) == LIMIT_REACHED
            assert data[2:].decode().startswith("the rate limit of requests is exceeded by frames; resume in")
            await server.admin.post("/workspaces", {"name": "Made meanwhile"})
            assert (await calm.event("WORKSPACE_PROVISIONING"))["payload"]["name"] == "Made meanwhile"
            await eventually(lambda: opened_by(server), lambda count: count == 1)
        assert server.server.live_hub.disconnects["limit"] == 1


async def test_a_flood_never_holds_the_loop_for_more_than_a_piece(plain: Running) -> None:
    """Requests that wait beside 100,000 small frames are answered before the frames are all read."""
    token = await token_of(plain)
    async with hand_made(plain) as wire, hand_made(plain) as other:
        assert (await wire.handshake(token)).status == 101
        await wire.send(packed("x", fin=False) + packed(b"", Opcode.CONT, fin=False) * 2000)
        await other.send(request("GET", "/health"))
        assert (await other.reply()).status == 200
        await wire.send(packed(b"", Opcode.CONT))
        await wire.send(subscribe_frame(0))
        assert (await wire.told())["type"] in ("hello", "resumed")


async def test_of_many_subscriptions_in_one_packet_the_last_one_counts(plain: Running) -> None:
    async with hand_made(plain) as wire:
        assert (await wire.handshake()).status == 101
        head = int((await wire.told())["head"])
        await wire.send(subscribe_frame(0) * 500 + subscribe_frame(head))
        assert await wire.told() == {"type": "current", "after": head}
