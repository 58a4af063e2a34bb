"""Connections on which the server keeps sending, at their end."""

import asyncio
from typing import Any

import pytest

from molecule_core.api.http import held_connection
from molecule_core.api.http.held_connection import EventStreamConnection
from testing.waits import PROCESS_START_SECONDS

_MANY_BYTES = 8 << 20  # more than the socket takes at once


class _Handler:
    """Closes the stream gracefully as soon as it is open, with much that is unread."""

    lost = False

    def on_open(self, channel: Any) -> None:
        channel.write(bytes(_MANY_BYTES))
        assert channel.unread_bytes()
        channel.close_gracefully()

    def on_lost(self) -> None:
        self.lost = True

    def on_shutdown(self) -> None:
        raise AssertionError("the server does not stop")


class _Entrance(asyncio.Protocol):
    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        EventStreamConnection(self._handler).take_over(transport, set(), b"head")


async def test_a_slow_reader_that_reads_all_within_the_grace_is_not_aborted_after_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grace = 0.5
    monkeypatch.setattr(held_connection, "CLOSE_GRACE_SECONDS", grace)
    loop, handler, errors = asyncio.get_running_loop(), _Handler(), []
    loop.set_exception_handler(lambda _loop, context: errors.append(context))
    server = await loop.create_server(lambda: _Entrance(handler), "127.0.0.1", 0)
    async with server, asyncio.timeout(PROCESS_START_SECONDS):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
        assert len(await reader.read(-1)) == len(b"head") + _MANY_BYTES and handler.lost
        writer.close()
        is_over = asyncio.Event()
        loop.call_later(grace, is_over.set)
        await is_over.wait()
    assert not errors
