"""A crowd of downloads: they take turns, and one that nobody reads takes no more than its window."""

import asyncio
import gc
import socket
import weakref
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

from anyio.lowlevel import checkpoint

from molecule_core.api.http.response import Response
from molecule_core.api.http.streaming_response import StreamingResponse, new_send_semaphore
from testing.waits import IN_PROCESS_SECONDS, eventually
from tests.requirements import requirement

_FILE_BYTES = 16 << 20
_CROWD = 60
_AT_ONCE = 2
_TURNS_OF_A_READ = 5
# A system that may keep what it likes takes some 3 MiB from us for a reader that takes nothing.
_LITTLE = 1 << 20


class Shelf:
    """What all files of a test tell."""

    def __init__(self) -> None:
        self.reading = 0
        self.most_reading = 0
        self.files: list[File] = []

    def new_file(self) -> "File":
        file = File(self)
        self.files.append(file)
        return file


class File:
    """A source of zeros that says how much of it was read."""

    def __init__(self, shelf: Shelf) -> None:
        self.size = _FILE_BYTES
        self.read_bytes = 0
        self._shelf = shelf

    async def read(self, count: int) -> bytes:
        self._shelf.reading += 1
        self._shelf.most_reading = max(self._shelf.most_reading, self._shelf.reading)
        for _ in range(_TURNS_OF_A_READ):
            await checkpoint()
        self._shelf.reading -= 1
        self.read_bytes += count
        return bytes(count)

    def close(self) -> None:
        """Nothing to close."""


@asynccontextmanager
async def giving(shelf: Shelf, *, patience: float = IN_PROCESS_SECONDS) -> AsyncIterator[tuple[int, set[Any]]]:
    """A server that gives each who comes a file of their own: its port, and what it is sending."""
    turns, open_ = new_send_semaphore(), set[Any]()

    class Door(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            sending = StreamingResponse(Response(b""), shelf.new_file(), turns, stall_seconds=patience)
            sending.take_over(cast(asyncio.Transport, transport), open_, b"")

    server = await asyncio.get_running_loop().create_server(Door, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], open_
    finally:
        server.close()
        for sending in list(open_):
            sending._transport.abort()
        await eventually(lambda: _nothing(open_), bool)


async def _nothing(things: Collection[Any]) -> bool:
    await checkpoint()
    return not things


async def _visitor(stack: AsyncExitStack, port: int) -> socket.socket:
    visitor = stack.enter_context(socket.socket())
    visitor.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    visitor.setblocking(False)
    await asyncio.get_running_loop().sock_connect(visitor, ("127.0.0.1", port))
    return visitor


@requirement("S14")
async def test_a_crowd_that_asks_at_once_is_served_in_turns_and_each_gets_its_share() -> None:
    shelf = Shelf()
    async with AsyncExitStack() as stack:
        port, _ = await stack.enter_async_context(giving(shelf))
        await asyncio.gather(*(_visitor(stack, port) for _ in range(_CROWD)))

        async def all_served() -> bool:
            await checkpoint()
            return len(shelf.files) == _CROWD and all(each.read_bytes for each in shelf.files)

        await eventually(all_served, bool)
    assert shelf.most_reading == _AT_ONCE


@requirement("S14")
async def test_of_a_file_that_nobody_takes_little_is_read_before_its_reader_is_cut_off() -> None:
    shelf = Shelf()
    async with AsyncExitStack() as stack:
        port, open_ = await stack.enter_async_context(giving(shelf, patience=0.5))
        await asyncio.gather(*(_visitor(stack, port) for _ in range(8)))
        await eventually(lambda: _all_cut(shelf, open_), bool)
    assert max(each.read_bytes for each in shelf.files) < _LITTLE


async def _all_cut(shelf: Shelf, open_: set[Any]) -> bool:
    return await _nothing(open_) and len(shelf.files) == 8


@requirement("S14")
async def test_whoever_hangs_up_in_the_middle_leaves_nothing_for_the_collector() -> None:
    shelf = Shelf()
    async with AsyncExitStack() as stack:
        port, open_ = await stack.enter_async_context(giving(shelf))
        visitors = [await _visitor(stack, port) for _ in range(8)]
        await eventually(lambda: _all_reading(shelf), bool)
        left = [weakref.ref(each) for each in open_]
        gc.collect()
        gc.disable()
        try:
            for visitor in visitors:
                visitor.close()
            await eventually(lambda: _nothing([each for each in left if each() is not None]), bool)
        finally:
            gc.enable()
        assert len(left) == 8, "all of them were under way, and are gone"


async def _all_reading(shelf: Shelf) -> bool:
    await checkpoint()
    return len(shelf.files) == 8 and all(each.read_bytes for each in shelf.files)
