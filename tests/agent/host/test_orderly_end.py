"""A message that the server has sent to a session that ends now waits for the next session, and not for a lease."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

from testing.mcp_host import agent, single
from testing.running_server import Running
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.requirements import requirement

ROUNDS = 5


class HeldLink:
    """A way to the server that keeps answers back, until the process at the other end does something about its end."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_open = asyncio.Event()
        self.has_ended = asyncio.Event()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection."""
        task = asyncio.ensure_future(self._join(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await asyncio.gather(self._requests(reader, to_server), self._answers(from_server, writer))
        finally:
            to_server.close()
            writer.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                if b"/activity/release" in data:
                    self.has_ended.set()
            writer.close()
        self.has_ended.set()

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                await self.is_open.wait()
                writer.write(data)
            writer.close()

    def end(self) -> None:
        """Cut all connections."""
        for task in self._tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def held_link(one: Running) -> AsyncIterator[tuple[str, HeldLink]]:
    """The address of the server behind that link."""
    link = HeldLink(urlsplit(one.url).port or 0)
    server = await asyncio.start_server(link.accept, "127.0.0.1", 0)
    link.is_open.set()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", link
    finally:
        link.end()
        server.close()


@requirement("G14")
async def test_mail_on_its_way_to_a_session_that_ends_is_there_for_the_next_at_once(one: Running, state: Path) -> None:
    seat, person = await one.seat(), await one.person()
    for number in range(ROUNDS):
        async with held_link(one) as (url, link), agent(state, **single(one, seat) | {"PLATFORM_URL": url}) as process:
            await process.greet()
            await process.call("inbox_peek")
            link.is_open.clear()
            link.has_ended.clear()
            sent = (await person.send(seat.id, f"message {number}"))["activity_id"]

            async def ticks(sent: str = sent) -> list[str]:
                told = await person.get(f"/workspaces/{seat.id}/messages/{sent}/ticks")
                return [tick["tick"] for tick in told["ticks"]]

            await eventually(ticks, lambda found: "in_inbox" in found)
            process.close()
            async with asyncio.timeout(PROCESS_START_SECONDS):
                await link.has_ended.wait()
            link.is_open.set()
            assert await process.ended() == 0
        async with one.api(seat.token) as next_session:
            rows = await next_session.claim(seat.id, lease=30, wait=0)
            assert [row["id"] for row in rows] == [sent], number
            await next_session.ack(seat.id, rows[0])
