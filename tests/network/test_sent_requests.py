"""Whether a request that failed was sent: what was not may be sent again, what was may have been acted on."""

import asyncio
import socket

import pytest

from molecule_core.common.errors import FetchFailed, UnsafeUrl
from testing.forbidden_urls import PUBLIC
from testing.loopback_internet import Internet
from tests.network.test_answers import SHORT, Server, saying
from tests.requirements import requirement


async def failed(server: Server, seconds: float = 5.0) -> tuple[bool, int | None]:
    """Whether what failed was sent, and the status that came."""
    with pytest.raises(FetchFailed) as caught:
        await server.fetch(seconds=seconds)
    return caught.value.details["sent"], caught.value.details["status"]


@requirement("D8")
async def test_a_name_without_addresses_and_a_host_that_refuses_were_sent_nothing() -> None:
    async def refuse(*_: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ConnectionRefusedError

    async with saying(b"") as server:
        server.net.connect = refuse  # type: ignore[method-assign, assignment]
        assert await failed(server) == (False, None)
        server.net.names["public.example"] = ()
        assert await failed(server) == (False, None)
        assert server.asked == b""


@requirement("D8")
async def test_a_time_that_ends_before_the_connection_was_sent_nothing() -> None:
    async def never(*_: object) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async with saying(b"") as server:
        server.net.connect = never  # type: ignore[method-assign, assignment]
        assert await failed(server, SHORT) == (False, None)


@requirement("D8")
async def test_a_header_that_cannot_be_sent_was_not(net: Internet) -> None:
    with pytest.raises(FetchFailed) as caught:
        await net.fetcher().post(f"https://{PUBLIC[0]}/", {"X": "a\nb"}, b"", timeout_seconds=1, max_bytes=1)
    assert (caught.value.details["sent"], caught.value.details["status"]) == (False, None)
    assert net.reached == []


@requirement("D8")
async def test_a_connection_that_breaks_behind_the_request_leaves_open_what_became_of_it() -> None:
    async def cut(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
        await writer.drain()
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        writer.transport.abort()

    for said in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", b"HTTP/1.1 100 Continue\r\n\r\n", cut):
        async with saying(said) as server:
            assert await failed(server) == (True, None)
            assert server.asked.endswith(b'{"a":1}')


@requirement("D8")
async def test_an_answer_that_does_not_come_in_time_leaves_it_open_too() -> None:
    gate = asyncio.Event()

    async def wait(_writer: asyncio.StreamWriter) -> None:
        await gate.wait()

    async with saying(wait) as server:
        assert await failed(server, SHORT) == (True, None)
        gate.set()


@requirement("D8")
@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"HTTP/1.1 302 Found\r\nLocation: https://x.example/\r\n\r\n", 302),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", 200),
        (b"HTTP/1.1 500 No\r\nContent-Length: 1001\r\n\r\n" + b"a" * 1001, 500),
        (b"SSH-2.0-OpenSSH_9.9\r\n", 0),
    ],
)
async def test_an_answer_that_cannot_be_used_is_one_all_the_same(said: bytes, status: int) -> None:
    async with saying(said) as server:
        assert await failed(server) == (True, status)


@requirement("D16")
async def test_an_unsafe_url_is_no_failed_fetch_at_all(net: Internet) -> None:
    with pytest.raises(UnsafeUrl):
        await net.fetcher().post("http://127.0.0.1/", {}, b"", timeout_seconds=1, max_bytes=1)
    assert net.reached == []
