"""Three real servers on one database: one is killed, and nobody loses anything."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from testing.live_clients import channel
from testing.ports import free_port
from testing.processes import Process, client, serving
from testing.running_server import Running
from testing.waits import PROCESS_START_SECONDS, bounded
from tests.requirements import requirement
from tests.system.test_kill9 import new_seat

_SERVERS = 3


@contextlib.asynccontextmanager
async def three(place: str, folder: Path, **more: str) -> AsyncIterator[tuple[list[int], list[Process]]]:
    """Three servers that start at once on an empty database: ports and processes."""
    ports = [free_port() for _ in range(_SERVERS)]
    more = {"MOLECULE_DATABASE": place, "MOLECULE_LIMIT_LOOK_AGAIN_SECONDS": "3600", **more}
    async with contextlib.AsyncExitStack() as stack:
        starting = [
            asyncio.create_task(stack.enter_async_context(serving(folder / f"{port}", port, **more))) for port in ports
        ]
        yield ports, await asyncio.gather(*starting)


@requirement("M38", "P1", "M18")
async def test_what_a_killed_process_had_handed_out_comes_again_elsewhere(place: str, tmp_path: Path) -> None:
    async with three(place, tmp_path) as (ports, processes):
        async with client(ports[0]) as admin:
            ops, token = await new_seat(admin)
            sent = [await admin.send(ops, f"{number}", message_id=f"m-{number}") for number in range(5)]
        async with client(ports[1], token) as agent:
            first = await agent.claim(ops, lease=2)
            await agent.ack(ops, first[0])
            late = asyncio.create_task(agent.claim(ops, lease=2, wait=25))
            await processes[1].kill()
            await asyncio.gather(late, return_exceptions=True)
        async with client(ports[2], token) as agent:
            again: list[dict[str, Any]] = []
            async with asyncio.timeout(PROCESS_START_SECONDS):
                while len(again) < 4:
                    again += await agent.claim(ops, lease=60, wait=5)
            assert [row["id"] for row in again] == [each["activity_id"] for each in sent[1:]]
            assert {row["attempt"] for row in again} == {2}
        async with client(ports[0], token) as agent:
            answers = await asyncio.gather(*(agent.ack(ops, row) for row in first[1:]), return_exceptions=True)
            assert [getattr(each, "code", each) for each in answers] == ["stale_attempt"] * 4
            for row in again:
                await agent.ack(ops, row)


@requirement("M38", "M24")
async def test_a_page_on_one_process_sees_what_comes_in_at_the_others(place: str, tmp_path: Path) -> None:
    async with three(place, tmp_path) as (ports, processes), client(ports[1]) as admin:
        ops, _ = await new_seat(admin)
        page = cast(Running, SimpleNamespace(port=ports[0]))
        async with channel(page) as socket:
            for port in ports:
                async with client(port) as there:
                    sent = await there.send(ops, f"by {port}")
                assert (await bounded(socket.event("USER_MESSAGE")))["entity"]["id"] == sent["activity_id"]
            await processes[1].kill()
            async with client(ports[2]) as there:
                sent = await there.send(ops, "after")
            assert (await bounded(socket.event("USER_MESSAGE")))["entity"]["id"] == sent["activity_id"]
        ids = set()
        for port in (ports[0], ports[2]):
            async with client(port) as there:
                ids.add((await there.get("/health"))["process"])
        assert len(ids) == 2
