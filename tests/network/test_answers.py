"""What an answer may be: bounded in size and time, plain, whole, and of HTTP/1.1."""

import asyncio
import re
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from molecule_core.common.errors import FetchFailed
from molecule_core.common.limits import Limits
from molecule_core.common.net.safe_fetch import FetchResult
from testing.forbidden_urls import PUBLIC
from testing.loopback_internet import Internet, internet
from testing.waits import IN_PROCESS_SECONDS
from tests.requirements import requirement

Say = Callable[[asyncio.StreamWriter], Awaitable[None]]
SHORT = 0.2  # of real time: what drips for ever must be cut after it
URL = "http://public.example/hook?key=hidden"


class Server:
    """An honest address with bad manners; it remembers what it was asked."""

    def __init__(self, net: Internet) -> None:
        self.net = net
        self.asked = b""

    async def fetch(
        self, *, seconds: float = IN_PROCESS_SECONDS, most: int = 1000, limits: Limits | None = None
    ) -> FetchResult:
        """One call to it, bounded by more than its own time."""
        fetcher = self.net.fetcher(*(f"{each}/{128 if ':' in each else 32}" for each in PUBLIC), limits=limits)
        headers = {"Content-Type": "application/json", "X-Key": "k"}
        async with asyncio.timeout(IN_PROCESS_SECONDS * 2):
            return await fetcher.post(URL, headers, b'{"a":1}', timeout_seconds=seconds, max_bytes=most)


@asynccontextmanager
async def saying(say: Say | bytes) -> AsyncIterator[Server]:
    """A server that reads a request and then says so much, and closes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            server.asked = await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(7)
            if isinstance(say, bytes):
                writer.write(say)
                await writer.drain()
            else:
                await say(writer)
        except OSError:
            pass
        finally:
            writer.close()

    async with internet(serve) as net:
        server = Server(net)
        yield server


async def _turns(writer: asyncio.StreamWriter, piece: bytes) -> None:
    """Says the same piece again and again, until nobody listens."""
    while not writer.transport.is_closing():
        writer.write(piece)
        await writer.drain()
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.01, turn.set_result, None)
        await turn


async def test_a_request_says_what_it_must_and_nothing_of_its_own_is_overridden() -> None:
    async with saying(b"HTTP/1.1 202 Accepted\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 2\r\n\r\nok") as server:
        answer = await server.fetch()
        assert answer == FetchResult(202, {"x-a": "1, 2", "content-length": "2"}, b"ok")
        head, _, body = server.asked.partition(b"\r\n\r\n")
        assert head.split(b"\r\n") == [
            b"POST /hook?key=hidden HTTP/1.1",
            *(b"Host: public.example", b"Connection: close", b"Accept-Encoding: identity", b"Content-Length: 7"),
            *(b"Content-Type: application/json", b"X-Key: k"),
        ]
        assert body == b'{"a":1}'


async def test_a_caller_s_header_neither_replaces_ours_nor_breaks_the_line() -> None:
    async with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as server:
        fetcher = server.net.fetcher(f"{PUBLIC[0]}/32")
        url, bounds = f"http://{PUBLIC[0]}/", {"timeout_seconds": IN_PROCESS_SECONDS, "max_bytes": 10}
        theirs = {"HOST": "127.0.0.1", "content-length": "1", "Transfer-Encoding": "chunked", "accept-encoding": "gzip"}
        await fetcher.post(url, theirs, b"1234567", timeout_seconds=IN_PROCESS_SECONDS, max_bytes=10)
        assert server.asked.count(b"\r\n") == 6 and b"Content-Length: 7" in server.asked
        for bad in ({"X": "a\r\nHost: b"}, {"X: y\r\nZ": "a"}, {"X": "a\x00"}, {"": "a"}, {"X": "€"}, {"X": "a\nb"}):
            with pytest.raises(FetchFailed, match="a header of the request has a character"):
                await fetcher.get(url, bad, **bounds)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "body"),
    [
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: t\r\n\r\n",
            b"abcde",
        ),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.0 200 OK\r\n\r\nold", b"old"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
            b"a",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 500 No\r\n\r\n", b"a"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na and more", b"a"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nContent-Length: 1\r\n\r\na", b"a"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b"a" * 1000, b"a" * 1000),
    ],
)
async def test_an_answer_ends_where_it_says(said: bytes, body: bytes) -> None:
    async with saying(said) as server:
        assert (await server.fetch()).body == body


@pytest.mark.parametrize("status", [200, 201, 400, 401, 404, 410, 429, 500, 503])
async def test_every_status_but_a_redirect_is_an_answer(status: int) -> None:
    async with saying(f"HTTP/1.1 {status} X\r\nContent-Length: 1\r\nRetry-After: 7\r\n\r\nx".encode()) as server:
        answer = await server.fetch()
        assert (answer.status, answer.headers["retry-after"]) == (status, "7")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "it closed the connection without a complete response"),
        (b"HTTP/1.1 200 OK\r\nContent-", "it closed the connection without a complete response"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "it closed the connection without a complete response"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab", "without a complete response"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "without a complete response"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "its response is not HTTP/1.1"),
        (b"+OK POP3\r\n", "its response is not HTTP/1.1"),
        (b"HTTP/1.1 99999 X\r\n\r\n", "its response is not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "its response is not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "its response is not HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "is not HTTP/1.1"),
        (
            b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n\x81\x00",
            "its response is not HTTP/1.1",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", "its response is compressed"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: BR\r\n\r\nx", "its response is compressed"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
            "its response is compressed",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"a" * 1001, "its response is larger than 1000 bytes"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_named(said: bytes, reason: str) -> None:
    async with saying(said) as server:
        with pytest.raises(FetchFailed, match=re.escape(reason)) as caught:
            await server.fetch()
        assert "hidden" not in caught.value.text and "/hook" not in caught.value.text


@requirement("S6")
@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"", b""),
        (b"HTTP/1.1 200 OK\r\n", b""),
        (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"a"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", b""),
    ],
)
async def test_who_drips_is_cut_when_the_time_is_up(begin: bytes, piece: bytes) -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        await _turns(writer, piece)

    async with saying(drip) as server:
        with pytest.raises(FetchFailed, match=r"no response arrived within 0\.2 s"):
            await server.fetch(seconds=SHORT, most=1 << 20)


async def test_a_name_that_never_resolves_and_a_host_that_never_takes_the_connection_are_cut_too(net: Internet) -> None:
    async def never(*_: object) -> tuple[()]:
        await asyncio.get_running_loop().create_future()
        return ()

    net.resolver = never  # type: ignore[method-assign, assignment]
    with pytest.raises(FetchFailed, match=r"no response arrived within 0\.2 s"):
        await net.fetcher().get("https://public.example/", {}, timeout_seconds=SHORT, max_bytes=10)
    net.connect = never  # type: ignore[method-assign, assignment]
    with pytest.raises(FetchFailed, match=r"no response arrived within 0\.2 s"):
        await net.fetcher().get(f"https://{PUBLIC[0]}/", {}, timeout_seconds=SHORT, max_bytes=10)


@requirement("S6")
@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", b"a" * 65536),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b"a" * 65536),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + b"a" * 65536 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n" * 10000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1", b";extension=" + b"a" * 65536),
    ],
)
async def test_an_endless_body_is_cut_and_memory_stays_flat(begin: bytes, piece: bytes) -> None:
    most = 1 << 20

    async def flood(writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        while not writer.transport.is_closing():
            writer.write(piece)
            await writer.drain()

    async with saying(flood) as server:
        tracemalloc.start()
        try:
            with pytest.raises(FetchFailed, match=f"its response is larger than {most} bytes"):
                await server.fetch(most=most)
            assert tracemalloc.get_traced_memory()[1] < 6 * most
        finally:
            tracemalloc.stop()


@requirement("S6")
@pytest.mark.parametrize(
    "piece", [b"X: " + b"a" * 1000 + b"\r\n", b"a" * 5000, b"X: y\r\n", b"HTTP/1.1 102 P\r\n\r\nHTTP/1.1 200 OK\r\n"]
)
async def test_headers_without_end_are_cut(piece: bytes) -> None:
    async with saying(b"HTTP/1.1 200 OK\r\n" + piece * 20_000) as server:
        with pytest.raises(FetchFailed, match=r"the headers of its response are larger than 4000 bytes|not HTTP/1\.1"):
            await server.fetch(limits=Limits(answer_header_bytes=4000))


@requirement("S6")
async def test_headers_that_come_in_one_piece_with_the_body_are_measured_too_and_so_are_trailers() -> None:
    large = b"X: " + b"a" * 5000 + b"\r\n"
    for said in (
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + large + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + large + b"\r\n",
    ):
        async with saying(said) as server:
            with pytest.raises(FetchFailed, match="the headers of its response are larger than 4000 bytes"):
                await server.fetch(limits=Limits(answer_header_bytes=4000))


async def test_the_next_address_is_tried_if_one_does_not_take_the_connection() -> None:
    async with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as server:
        net, real = server.net, server.net.connect

        async def connect(address, port, tls, name):  # type: ignore[no-untyped-def]
            if address == PUBLIC[0]:
                raise ConnectionRefusedError
            return await real(address, port, tls, name)

        net.connect = connect  # type: ignore[method-assign]
        assert (await server.fetch()).status == 200
        net.names["public.example"] = PUBLIC[:1]
        with pytest.raises(FetchFailed, match="connection refused"):
            await server.fetch()


async def test_an_address_that_is_silent_has_only_its_share_of_the_time() -> None:
    async with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as server:
        net, real = server.net, server.net.connect

        async def connect(address, port, tls, name):  # type: ignore[no-untyped-def]
            if address == PUBLIC[0]:
                await asyncio.get_running_loop().create_future()
            return await real(address, port, tls, name)

        net.connect = connect  # type: ignore[method-assign]
        assert (await server.fetch(seconds=1)).status == 200


async def test_a_server_that_answers_before_it_has_read_all_is_not_a_crash() -> None:
    async with saying(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n") as server:
        fetcher = server.net.fetcher(f"{PUBLIC[0]}/32")
        url, body = f"http://{PUBLIC[0]}/", b"a" * (8 << 20)
        try:
            answer = await fetcher.post(url, {}, body, timeout_seconds=IN_PROCESS_SECONDS, max_bytes=10)
        except FetchFailed as error:
            assert "it closed the connection" in error.text
        else:
            assert answer.status == 413


async def test_no_proxy_of_the_environment_is_asked(net: Internet, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{net.canary.port}")
        monkeypatch.setenv(name.upper(), f"http://127.0.0.1:{net.canary.port}")
    fetcher = net.fetcher(f"{PUBLIC[0]}/32")
    answer = await fetcher.get(f"http://{PUBLIC[0]}/", {}, timeout_seconds=IN_PROCESS_SECONDS, max_bytes=10)
    assert (answer.status, net.canary.hits, net.reached) == (200, 0, [PUBLIC[0]])


async def test_a_fetch_that_is_cancelled_leaves_no_connection(net: Internet) -> None:
    gone = asyncio.Event()

    async def wait(writer: asyncio.StreamWriter) -> None:
        began.set()
        try:
            await _turns(writer, b"HTTP/1.1 102 Processing\r\n\r\n")
        finally:
            gone.set()

    began = asyncio.Event()
    async with saying(wait) as server:
        fetching = asyncio.create_task(server.fetch())
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            await began.wait()
            fetching.cancel()
            with pytest.raises(asyncio.CancelledError):
                await fetching
            await gone.wait()
    assert gone.is_set()
