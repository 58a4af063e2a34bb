"""What one client of the dialect may ask of the server at most, and what becomes of one that does not read."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from anyio.lowlevel import checkpoint
from msgspec.structs import replace
from websockets.frames import Opcode

from molecule_core.api.live.subscribers import LiveSubscriber
from testing.app_server_client import client
from testing.live_clients import UPGRADE, HandMade, hand_made, packed
from testing.raw_http import request
from testing.running_server import UNHURRIED, Running, Seat, running
from testing.thread_world import BASE, Engine, said
from testing.waits import eventually
from tests.requirements import requirement

# A client that keeps so few bytes: what the system takes for it is soon full.
_SMALL = 4096
# As large as a line may be that is told as a whole.
_LARGE = "x" * 15_000


@asynccontextmanager
async def bounded_by(tmp_path: Path, **limits: int) -> AsyncIterator[Running]:
    """A server with limits of the test's own."""
    async with running("sqlite", str(tmp_path / "store.db"), tmp_path, limits=replace(UNHURRIED, **limits)) as server:
        yield server


async def says(opened: HandMade, *wishes: dict[str, Any]) -> None:
    """Requests, all in one packet."""
    await opened.send(b"".join(packed(json.dumps({"id": n, **each})) for n, each in enumerate(wishes, 1)))


async def shaken(opened: HandMade, seat: Seat) -> None:
    """Opens the channel by hand."""
    await opened.send(request("GET", "/threads/ws", token=seat.token, headers=UPGRADE))
    assert (await opened.reply()).status == 101


@requirement("TH13")
async def test_a_client_that_follows_as_many_trees_as_it_may_is_told_to_leave_one(tmp_path: Path) -> None:
    async with bounded_by(tmp_path, appserver_trees=1) as server:
        ops = await server.seat("Ops")
        async with client(server, ops.token) as one:
            await one.begins()
            first = (await one.does("thread/start", baseInstructions=BASE))["thread"]["id"]
            refused = (await one.asks("thread/start", baseInstructions=BASE))["error"]
            assert (refused["code"], "thread/unsubscribe" in refused["message"]) == (-32600, True)
            assert [each["id"] for each in (await one.does("thread/list"))["data"]] == [first]
            await one.does("thread/unsubscribe", threadId=first)
            await one.does("thread/start", baseInstructions=BASE)


@requirement("TH13")
async def test_requests_beyond_those_that_may_wait_are_refused_and_the_others_are_answered(tmp_path: Path) -> None:
    async with bounded_by(tmp_path, appserver_requests=3) as server:
        ops = await server.seat("Ops")
        async with hand_made(server) as opened:
            await shaken(opened, ops)
            begin = {"method": "initialize", "params": {}}
            await says(opened, begin, *({"method": "thread/list"} for _ in range(9)))
            answers = [await opened.told() for _ in range(10)]
            refused = [each["error"] for each in answers if "error" in each]
            assert {each["code"] for each in refused} == {-32001}
            assert "try again" in refused[0]["message"]
            assert (len(refused), sorted(each["id"] for each in answers)) == (7, list(range(1, 11)))


@requirement("TH13")
async def test_a_client_that_does_not_read_is_cut_and_goes_on_behind_its_cursor(tmp_path: Path) -> None:
    limit = 128 << 10
    async with bounded_by(tmp_path, subscriber_bytes=limit) as server:
        ops = await server.seat("Ops")
        item = await ops.api.post(f"/workspaces/{ops.id}/threads", {"base_instructions": BASE, "input": "Go"})
        engine = Engine(ops.api, item)
        await engine.claim()
        await engine.begin()
        follows = {"method": "initialize", "params": {"threads": [item["thread_id"]]}}
        async with hand_made(server, reads=_SMALL) as slow:
            await shaken(slow, ops)
            await says(slow, follows)
            cursor = (await slow.told())["result"]["cursor"]

            async def deaf() -> list[LiveSubscriber]:
                await checkpoint()
                return server.server.live_hub._subscribers()

            (listener,) = await eventually(deaf, lambda found: [each.is_live for each in found] == [True])
            line = listener.transport._channel._transport.get_extra_info("socket")  # type: ignore[attr-defined]
            line.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SMALL)  # else the system takes megabytes for it
            largest, count = 0, 0
            while listener.is_live and count < 1000:
                await engine.adds(*[said(_LARGE)] * 10)
                count += 10
                largest = max(largest, listener.transport.unread_bytes())
            assert not await eventually(deaf, lambda found: not found)
            assert limit // 2 < largest < 2 * limit
        async with client(server, ops.token) as again:
            await again.begins(cursor=cursor, threads=[item["thread_id"]])
            ended = await again.hears("item/completed", count)
            assert ended["item"]["text"] == _LARGE


@requirement("TH13")
async def test_a_client_whose_credential_ends_is_cut(tmp_path: Path) -> None:
    async with bounded_by(tmp_path) as server:
        ops = await server.seat("Ops")
        async with hand_made(server) as opened:
            await shaken(opened, ops)
            await says(opened, {"method": "initialize"})
            assert "result" in await opened.told()
            await server.admin.call("DELETE", f"/workspaces/{ops.id}", query={"confirm": "true"})
            opcode, data = await opened.frame()
            while opcode == Opcode.TEXT:
                assert "method" in msgspec.json.decode(data)
                opcode, data = await opened.frame()
            assert (opcode, int.from_bytes(data[:2])) == (Opcode.CLOSE, 4001)
