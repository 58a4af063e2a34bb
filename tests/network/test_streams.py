"""Responses that arrive over time: piece by piece, bounded in size and silence, from checked addresses only."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from molecule_core.common.errors import FetchFailed, UnsafeUrl
from molecule_core.common.limits import Limits
from molecule_core.common.net.ip_policy import NetPolicy
from molecule_core.common.net.safe_fetch import FetchStream, SafeFetcher
from testing.waits import IN_PROCESS_SECONDS

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
Script = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def streaming(script: Script) -> AsyncIterator[str]:
    """A server whose response a test writes; its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            await script(writer)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/rpc"
    finally:
        server.close()


async def open_stream(url: str, *, idle_seconds: float = IN_PROCESS_SECONDS, max_bytes: int = 1000) -> FetchStream:
    """Open a stream with a fetcher that may call this machine."""
    fetcher = SafeFetcher(NetPolicy.from_networks(["127.0.0.0/8"]), Limits())
    return await fetcher.open_stream(
        url, {"Accept": "text/event-stream"}, b"", idle_seconds=idle_seconds, max_bytes=max_bytes
    )


async def read_all(stream: FetchStream) -> list[bytes]:
    """Read a stream to its end."""
    pieces = []
    while piece := await stream.read():
        pieces.append(piece)
    return pieces


async def test_pieces_arrive_before_the_response_ends() -> None:
    gate = asyncio.Event()

    async def two_pieces(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"data: 1\n\n")
        await gate.wait()
        writer.write(b"data: 2\n\n")

    async with streaming(two_pieces) as url:
        stream = await open_stream(url)
        first = await stream.read()
        gate.set()
        rest = await read_all(stream)
        stream.close()
    assert (stream.status, first, b"".join(rest)) == (200, b"data: 1\n\n", b"data: 2\n\n")


async def test_a_silent_stream_is_cut() -> None:
    gate = asyncio.Event()

    async def silent(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        await writer.drain()
        await gate.wait()

    async with streaming(silent) as url:
        stream = await open_stream(url, idle_seconds=0.2)
        with pytest.raises(FetchFailed, match=r"nothing arrived within 0\.2 s"):
            await stream.read()
        stream.close()
        gate.set()


async def test_the_size_of_all_pieces_is_bounded() -> None:
    async def flood(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        while not writer.transport.is_closing():
            writer.write(b"x" * 100)
            await writer.drain()

    async with streaming(flood) as url:
        with pytest.raises(FetchFailed, match="larger than 1000 bytes"):
            await read_all(await open_stream(url))


async def test_a_redirect_is_refused() -> None:
    async def redirect(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n")

    async with streaming(redirect) as url:
        with pytest.raises(FetchFailed, match="redirect"):
            await open_stream(url)


async def test_a_forbidden_address_is_not_connected_to() -> None:
    connected = []

    async def note(_writer: asyncio.StreamWriter) -> None:
        connected.append(1)

    async with streaming(note) as url:
        fetcher = SafeFetcher(NetPolicy(), Limits())
        with pytest.raises(UnsafeUrl):
            await fetcher.open_stream(url, {}, b"", idle_seconds=1, max_bytes=10)
    assert connected == []
