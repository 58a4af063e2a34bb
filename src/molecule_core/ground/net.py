"""Safe fetch: the one way by which the server itself asks another server, since others write the urls.

Every url passes one path: read strictly, resolved once, every address checked, and then the connection goes to exactly
the address that was checked. docs/fetch.md tells operators what is allowed, docs/decisions/0011-safe-fetch.md why.
"""

import asyncio
import ipaddress
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NoReturn, Protocol

import httptools
from msgspec import Struct

from molecule_core.ground.addresses import Address, NetPolicy, is_public, unwrapped
from molecule_core.ground.errors import FetchFailed, UnsafeUrl
from molecule_core.ground.limits import Limits
from molecule_core.ground.targets import Target, read_url

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a name for a port, best first; OSError if there are none."""
Connect = Callable[[str, int, ssl.SSLContext | None, str | None], Awaitable[Streams]]
"""A connection to an address and port, encrypted if there is a context, with the name that the certificate is for."""

# A name may have a hundred addresses. All are checked, and so many are tried until one takes the connection.
_MOST_TRIES = 4
_READ_BYTES = 64 << 10
# A chunk of one byte takes six on the wire: no honest answer takes more than this for each byte of its body.
_WIRE_PER_BYTE = 6
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# These say how the request itself is sent; the caller's are left out.
_OURS = frozenset("host connection content-length transfer-encoding accept-encoding te trailer upgrade expect".split())
_WRONG_NAME = {62, 64}
"""OpenSSL's numbers for a certificate of another name or address."""


class Fetched(Struct, frozen=True):
    """An answer. The names of the headers are in lower case; a name that came twice has its values joined by commas."""

    status: int
    headers: dict[str, str]
    body: bytes


class Fetcher(Protocol):
    """What a part that pushes or fetches is given; a test gives it one that stays at home.

    Raises UnsafeUrl if the url leads, or may lead, to where nobody allowed it to; no connection was made then.
    Raises FetchFailed if there is no usable answer: nobody there, too late, too large, a redirect (3xx), not HTTP. Its
    `details["sent"]` says whether any of the request was sent, so that the other side may have acted on it, and
    `details["status"]` that it has answered (with which status; 0: with what is no HTTP); None if no answer came.
    `details["reason"]` of both is for people: it names a host at most, never a path, a query or a header. Every other
    status is an answer and is returned, also 4xx and 5xx."""

    async def post(
        self, url: str, headers: dict[str, str], body: bytes, *, timeout_seconds: float, max_bytes: int
    ) -> Fetched:
        """Sends a body. The time is for everything from the name's resolution to the answer's last byte."""

    async def get(self, url: str, headers: dict[str, str], *, timeout_seconds: float, max_bytes: int) -> Fetched:
        """Asks for what is there."""

    async def check(self, url: str) -> None:
        """For the moment somebody registers a url: all that a fetch would check, without a connection. Raises
        UnsafeUrl, also if the name does not resolve."""


async def resolve(name: str, port: int) -> Sequence[str]:
    """Asks the machine's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in found]


async def connect(address: str, port: int, tls: ssl.SSLContext | None, name: str | None) -> Streams:
    """Opens a connection. AI_NUMERICHOST: whatever stands there, nothing is resolved a second time."""
    return await asyncio.open_connection(
        address, port, ssl=tls, server_hostname=name, limit=_READ_BYTES, flags=socket.AI_NUMERICHOST
    )


class SafeFetcher(Fetcher):
    """One connection for each fetch, made to a checked address. Knows no proxy, no cookie and no redirect.

    `tls` makes the context once it is needed: reading the machine's certificates takes time and memory."""

    def __init__(
        self,
        policy: NetPolicy,
        limits: Limits,
        *,
        resolver: Resolver = resolve,
        connect: Connect = connect,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self._policy = policy
        self._limits = limits
        self._resolver = resolver
        self._connect = connect
        self._make_tls = tls
        self._tls: ssl.SSLContext | None = None

    async def post(
        self, url: str, headers: dict[str, str], body: bytes, *, timeout_seconds: float, max_bytes: int
    ) -> Fetched:
        target = read_url(url, self._limits.url_length)
        request = _head("POST", target, headers, {"Content-Length": str(len(body))}) + body
        return await self._fetch(target, request, timeout_seconds, max_bytes)

    async def get(self, url: str, headers: dict[str, str], *, timeout_seconds: float, max_bytes: int) -> Fetched:
        target = read_url(url, self._limits.url_length)
        return await self._fetch(target, _head("GET", target, headers, {}), timeout_seconds, max_bytes)

    async def check(self, url: str) -> None:
        target = read_url(url, self._limits.url_length)
        try:
            async with asyncio.timeout(self._limits.resolve_seconds):
                await self._addresses(target)
        except TimeoutError:
            raise UnsafeUrl(reason=f"the name {target.host} could not be resolved in time; try again") from None
        except FetchFailed as error:
            raise UnsafeUrl(reason=error.details["reason"]) from None

    async def _fetch(self, target: Target, request: bytes, seconds: float, max_bytes: int) -> Fetched:
        answer, sent = _Answer(self._limits.answer_header_bytes, max_bytes), False
        try:
            async with asyncio.timeout(seconds) as bound:
                addresses = await self._addresses(target)
                async with self._connection(target, addresses, bound.when() or 0.0) as (reader, writer):
                    sent = True
                    writer.write(request)
                    await writer.drain()
                    await answer.read(reader)
        except TimeoutError:
            raise FetchFailed(reason=f"no answer within {seconds:g} s", sent=sent, status=None) from None
        except OSError as error:
            raise FetchFailed(reason=_why(error), sent=sent, status=None) from None
        return answer.fetched()

    async def _addresses(self, target: Target) -> list[str]:
        """Every address of the target, all of them checked."""
        found = [target.address] if target.address else await self._resolved(target)
        for address in found:
            self._judge(target, address)  # control: address-check
        return list(dict.fromkeys(str(unwrapped(address)) for address in found))

    async def _resolved(self, target: Target) -> list[Address]:
        try:
            texts = await self._resolver(target.host, target.port)
        except (OSError, UnicodeError):
            texts = ()
        if not texts:
            raise FetchFailed(reason=f"the name {target.host} does not resolve", sent=False, status=None)
        return [ipaddress.ip_address(text) for text in texts]

    def _judge(self, target: Target, address: Address) -> None:
        if self._policy.is_listed(address):
            return
        if not is_public(address):
            lead = "" if target.address else f"the name {target.host} resolves to "
            rest = "is not public; the operator can allow it with push_networks"
            raise UnsafeUrl(reason=f"{lead}{address}{', which' if lead else ''} {rest}")
        if not target.is_https:
            raise UnsafeUrl(
                reason="http is only taken for networks that the operator has listed with push_networks; use https"
            )

    @asynccontextmanager
    async def _connection(self, target: Target, addresses: list[str], end: float) -> AsyncIterator[Streams]:
        reader, writer = await self._connected(target, addresses[:_MOST_TRIES], end)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()  # nothing is left to say, and nobody to wait for

    async def _connected(self, target: Target, addresses: list[str], end: float) -> Streams:
        """The first of the addresses that takes the connection; all but the last get only their share of the time."""
        tls, name = (await self._trust(), target.host) if target.is_https else (None, None)
        *others, last = addresses
        for done, address in enumerate(others):
            share = (end - asyncio.get_running_loop().time()) / (len(addresses) - done)
            with suppress(OSError):
                async with asyncio.timeout(share):
                    return await self._connect(address, target.port, tls, name)
        return await self._connect(last, target.port, tls, name)  # control: resolved-address

    async def _trust(self) -> ssl.SSLContext:
        if self._tls is None:  # 60 ms for a usual set of certificates: nobody else is to wait for that
            self._tls = await asyncio.to_thread(self._make_tls)
        return self._tls


def _head(method: str, target: Target, headers: dict[str, str], more: dict[str, str]) -> bytes:
    """A request as far as its body. Raises FetchFailed for a header that would not stay one line."""
    for name, value in headers.items():
        if not (_TOKEN.fullmatch(name) and _VALUE.fullmatch(value)):
            reason = "a header that is to be sent holds a character that HTTP does not allow"
            raise FetchFailed(reason=reason, sent=False, status=None)
    ours = {"Host": target.authority, "Connection": "close", "Accept-Encoding": "identity", **more}
    kept = {name: value for name, value in headers.items() if name.lower() not in _OURS}
    lines = [f"{method} {target.path} HTTP/1.1", *(f"{name}: {value}" for name, value in {**ours, **kept}.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _why(error: OSError) -> str:
    """What went wrong with a connection, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _WRONG_NAME:
            return "its certificate is not valid for this name"
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return "it does not speak TLS as it should"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionError):
        return "it closed the connection without a complete answer"
    return os.strerror(error.errno).lower() if error.errno else "no connection"


class _Answer:
    """One answer as it comes in. Whatever it holds too much of ends it with FetchFailed."""

    def __init__(self, most_head: int, most_body: int) -> None:
        self._most_head = most_head
        self._most_body = most_body
        self._parser = httptools.HttpResponseParser(self)
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._head = 0
        self._wire = 0
        self._in_body = False
        self._complete = False

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Reads to the end of the answer. Raises FetchFailed, or OSError if the connection breaks."""
        while not self._complete:
            data = await reader.read(_READ_BYTES)
            if data:
                self._take(data)
            else:
                self._end()

    def fetched(self) -> Fetched:
        """The complete answer."""
        return Fetched(self._status, self._headers, bytes(self._body))

    def _fail(self, reason: str) -> NoReturn:
        raise FetchFailed(reason=reason, sent=True, status=self._status)

    def _take(self, data: bytes) -> None:
        self._wire += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._complete:  # behind its end it may say what it likes
                self._fail("its answer is not HTTP/1.1")
        if self._head > self._most_head or (not self._in_body and self._wire > self._most_head):
            self._fail(f"the headers of its answer are larger than {self._most_head} bytes")
        if len(self._body) > self._most_body or self._wire > self._most_head + _WIRE_PER_BYTE * self._most_body:
            self._fail(f"its answer is larger than {self._most_body} bytes")
        if self._in_body:
            self._judge_head()

    def _judge_head(self) -> None:
        if 300 <= self._status < 400:  # control: redirect-refused
            self._fail(f"it answered with a redirect ({self._status}), which is not followed; use the final url")
        coding = self._headers.get("content-encoding", "identity").lower()
        if coding != "identity" or self._headers.get("transfer-encoding", "chunked").lower() != "chunked":
            self._fail("its answer is compressed, which was not asked for")

    def _end(self) -> None:
        """The other side has closed the connection: the end of an answer that does not tell its length."""
        if not self._in_body or self._headers.keys() & {"content-length", "transfer-encoding"}:
            raise FetchFailed(reason="it closed the connection without a complete answer", sent=True, status=None)
        self._complete = True

    # -- what the parser finds -----------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which nobody asked for."""
        self._head += len(name) + len(value)
        if self._in_body:
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        """All headers of an answer, or of a mere interim one (1xx)."""
        status = self._parser.get_status_code()
        if status < 200:
            self._headers.clear()
        elif not self._complete:
            self._status, self._in_body = status, True

    def on_body(self, data: bytes) -> None:
        """Some of the body. One reading may hold no more than _READ_BYTES, so what is too much stays small."""
        if not self._complete:
            self._body += data

    def on_message_complete(self) -> None:
        """The end, unless it was an interim answer."""
        self._complete = self._in_body
