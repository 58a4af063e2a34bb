"""Fetches urls from outside: the only way for the server to make requests to other servers.

Every url is parsed strictly and resolved once, every address is checked, and the connection goes to a checked address.
docs/explanation/outbound-requests.md says what is allowed, docs/decisions/0011-safe-fetch.md why.
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

from molecule_core.common.errors import FetchFailed, UnsafeUrl
from molecule_core.common.limits import Limits
from molecule_core.common.net.ip_policy import Address, NetPolicy, is_public, unwrap_mapped_ipv4
from molecule_core.common.net.parsed_url import ParsedUrl, parse_url

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a name for a port, best first; raises OSError if there are none."""
Connector = Callable[[str, int, ssl.SSLContext | None, str | None], Awaitable[Streams]]
"""Connects to an address and port; with TLS if there is a context, verified for the given name."""

# A name may have a hundred addresses: all are checked, and only the first of them are tried.
_MAX_TRIES = 4
_READ_BYTES = 64 << 10
# A chunk of one byte needs six on the wire: no reasonable response needs more for each byte of its body.
_MAX_WIRE_BYTES_PER_BYTE = 6
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# These describe the transport of the request; the caller's values are dropped.
_TRANSPORT_HEADERS = frozenset(
    "host connection content-length transfer-encoding accept-encoding te trailer upgrade expect".split()
)
_NAME_MISMATCH_CODES = {62, 64}
"""OpenSSL's error numbers for a certificate of another name or address."""


class FetchResult(Struct, frozen=True):
    """A response. Header names are in lower case; values of a repeated header are joined by commas."""

    status: int
    headers: dict[str, str]
    body: bytes


class FetchStream(Protocol):
    """A response that arrives over time, such as server-sent events. It must be closed."""

    status: int
    headers: dict[str, str]

    async def read(self) -> bytes:
        """Return what has arrived, empty at the end. Raises FetchFailed: a limit, an idle connection, or a break."""

    def close(self) -> None:
        """Close the connection."""


class Fetcher(Protocol):
    """Client for urls from outside; tests pass one that makes no connections.

    Raises UnsafeUrl, before any connection is made, if the url leads or may lead to an address that is not allowed.

    Raises FetchFailed if there is no usable response: no connection, too late, too large, a redirect (3xx), not HTTP.
    `details["sent"]`: whether any of the request was sent, so that the remote server may have acted on it.
    `details["status"]`: the status of the response, 0 if it was not HTTP, None if none came.

    `details["reason"]` of both errors is for people: it names a host at most, never a path, query or header. Every
    other status, also 4xx and 5xx, is returned."""

    async def post(
        self, url: str, headers: dict[str, str], body: bytes, *, timeout_seconds: float, max_bytes: int
    ) -> FetchResult:
        """Send a body. `timeout_seconds` covers everything from name resolution to the last byte of the response."""

    async def get(self, url: str, headers: dict[str, str], *, timeout_seconds: float, max_bytes: int) -> FetchResult:
        """Request a url with GET."""

    async def open_stream(
        self, url: str, headers: dict[str, str], body: bytes | None, *, idle_seconds: float, max_bytes: int
    ) -> FetchStream:
        """Send a request (POST if it has a body) and return its response once the headers are there.

        `idle_seconds`: until the headers, and between two reads. `max_bytes`: of the whole response. A client without
        streams raises FetchFailed."""
        raise FetchFailed(reason="this client has no streams", sent=False, status=None)

    async def check_url(self, url: str) -> None:
        """Check a url at registration as a fetch would, without connecting.

        Raises UnsafeUrl, also if the name does not resolve."""


async def resolve_name(name: str, port: int) -> Sequence[str]:
    """Resolve a name with the machine's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [str(sockaddr[0]) for *_, sockaddr in found]


async def open_connection(address: str, port: int, tls: ssl.SSLContext | None, name: str | None) -> Streams:
    """Open a connection. AI_NUMERICHOST ensures that nothing is resolved a second time."""
    return await asyncio.open_connection(
        address, port, ssl=tls, server_hostname=name, limit=_READ_BYTES, flags=socket.AI_NUMERICHOST
    )


class SafeFetcher(Fetcher):
    """Fetcher with one connection for each request, made to a checked address. No proxies, cookies or redirects.

    `tls` creates the context on first use: loading the machine's certificates takes time and memory."""

    def __init__(
        self,
        policy: NetPolicy,
        limits: Limits,
        *,
        resolver: Resolver = resolve_name,
        connect: Connector = open_connection,
        create_tls_context: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        self._policy = policy
        self._limits = limits
        self._resolver = resolver
        self._connect = connect
        self._create_tls_context = create_tls_context
        self._tls_context: ssl.SSLContext | None = None

    async def post(
        self, url: str, headers: dict[str, str], body: bytes, *, timeout_seconds: float, max_bytes: int
    ) -> FetchResult:
        target = parse_url(url, self._limits.url_length)
        request = _encode_request_head("POST", target, headers, {"Content-Length": str(len(body))}) + body
        return await self._fetch(target, request, timeout_seconds, max_bytes)

    async def get(self, url: str, headers: dict[str, str], *, timeout_seconds: float, max_bytes: int) -> FetchResult:
        target = parse_url(url, self._limits.url_length)
        return await self._fetch(target, _encode_request_head("GET", target, headers, {}), timeout_seconds, max_bytes)

    async def open_stream(
        self, url: str, headers: dict[str, str], body: bytes | None, *, idle_seconds: float, max_bytes: int
    ) -> FetchStream:
        target = parse_url(url, self._limits.url_length)
        length = {} if body is None else {"Content-Length": str(len(body))}
        request = _encode_request_head("GET" if body is None else "POST", target, headers, length) + (body or b"")
        response, sent = _ResponseReader(self._limits.answer_header_bytes, max_bytes), False
        try:
            async with asyncio.timeout(idle_seconds) as bound:
                addresses = await self._resolve_addresses(target)
                reader, writer = await self._connect_first(target, addresses[:_MAX_TRIES], bound.when() or 0.0)
                stream = _ResponseStream(response, reader, writer, idle_seconds)
                try:
                    sent = True
                    writer.write(request)
                    await writer.drain()
                    await response.read_head(reader)
                except BaseException:
                    stream.close()
                    raise
        except TimeoutError:
            raise FetchFailed(reason=f"no response arrived within {idle_seconds:g} s", sent=sent, status=None) from None
        except OSError as error:
            raise FetchFailed(reason=_describe_error(error), sent=sent, status=None) from None
        stream.start()
        return stream

    async def check_url(self, url: str) -> None:
        target = parse_url(url, self._limits.url_length)
        try:
            async with asyncio.timeout(self._limits.resolve_seconds):
                await self._resolve_addresses(target)
        except TimeoutError:
            raise UnsafeUrl(reason=f"the name {target.host} was not resolved in time", advice="Try again.") from None
        except FetchFailed as error:
            raise UnsafeUrl(reason=error.details["reason"], advice="Check the host name.") from None

    async def _fetch(self, target: ParsedUrl, request: bytes, seconds: float, max_bytes: int) -> FetchResult:
        response, sent = _ResponseReader(self._limits.answer_header_bytes, max_bytes), False
        try:
            async with asyncio.timeout(seconds) as bound:
                addresses = await self._resolve_addresses(target)
                async with self._open_connection(target, addresses, bound.when() or 0.0) as (reader, writer):
                    sent = True
                    writer.write(request)
                    await writer.drain()
                    await response.read(reader)
        except TimeoutError:
            raise FetchFailed(reason=f"no response arrived within {seconds:g} s", sent=sent, status=None) from None
        except OSError as error:
            raise FetchFailed(reason=_describe_error(error), sent=sent, status=None) from None
        return response.to_result()

    async def _resolve_addresses(self, target: ParsedUrl) -> list[str]:
        """Return every address of the target, all checked."""
        found = [target.address] if target.address else await self._resolve_host(target)
        for address in found:
            self._check_address(target, address)  # control: address-check
        return list(dict.fromkeys(str(unwrap_mapped_ipv4(address)) for address in found))

    async def _resolve_host(self, target: ParsedUrl) -> list[Address]:
        try:
            texts = await self._resolver(target.host, target.port)
        except (OSError, UnicodeError):
            texts = ()
        if not texts:
            raise FetchFailed(reason=f"the name {target.host} does not resolve", sent=False, status=None)
        return [ipaddress.ip_address(text) for text in texts]

    def _check_address(self, target: ParsedUrl, address: Address) -> None:
        if self._policy.is_listed(address):
            return
        if not is_public(address):
            subject = "" if target.address else f"the name {target.host} resolves to "
            rest, advice = "is not public", "Ask the operator to allow it with push_networks."
            raise UnsafeUrl(reason=f"{subject}{address}{', which' if subject else ''} {rest}", advice=advice)
        if not target.is_https:
            raise UnsafeUrl(
                reason="http is accepted only for networks in the setting push_networks", advice="Use https."
            )

    @asynccontextmanager
    async def _open_connection(self, target: ParsedUrl, addresses: list[str], end: float) -> AsyncIterator[Streams]:
        reader, writer = await self._connect_first(target, addresses[:_MAX_TRIES], end)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()  # the exchange is over: no graceful close needed

    async def _connect_first(self, target: ParsedUrl, addresses: list[str], end: float) -> Streams:
        """Connect to the first address that accepts; all but the last get only their share of the time."""
        tls, name = (await self._load_tls_context(), target.host) if target.is_https else (None, None)
        *others, last = addresses
        for tried, address in enumerate(others):
            share = (end - asyncio.get_running_loop().time()) / (len(addresses) - tried)
            with suppress(OSError):
                async with asyncio.timeout(share):
                    return await self._connect(address, target.port, tls, name)
        return await self._connect(last, target.port, tls, name)  # control: resolved-address

    async def _load_tls_context(self) -> ssl.SSLContext:
        if self._tls_context is None:  # 60 ms for a usual set of certificates, which must not block the loop
            self._tls_context = await asyncio.to_thread(self._create_tls_context)
        return self._tls_context


def _encode_request_head(
    method: str, target: ParsedUrl, headers: dict[str, str], extra_headers: dict[str, str]
) -> bytes:
    """Encode a request up to its body. Raises FetchFailed for a header that would not stay on one line."""
    for name, value in headers.items():
        if not (_TOKEN.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            reason = "a header of the request has a character that HTTP does not allow"
            raise FetchFailed(reason=reason, sent=False, status=None)
    transport_headers = {
        "Host": target.authority,
        "Connection": "close",
        "Accept-Encoding": "identity",
        **extra_headers,
    }
    caller_headers = {name: value for name, value in headers.items() if name.lower() not in _TRANSPORT_HEADERS}
    lines = [
        f"{method} {target.path} HTTP/1.1",
        *(f"{name}: {value}" for name, value in {**transport_headers, **caller_headers}.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _describe_error(error: OSError) -> str:
    """Describe a connection error for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _NAME_MISMATCH_CODES:
            return "its certificate is not valid for this name"
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return "its TLS handshake failed"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionError):
        return "it closed the connection without a complete response"
    return os.strerror(error.errno).lower() if error.errno else "no connection"


class _ResponseReader:
    """Reader of one response. Exceeding a bound raises FetchFailed."""

    def __init__(self, max_head_bytes: int, max_body_bytes: int) -> None:
        self._max_head_bytes = max_head_bytes
        self._max_body_bytes = max_body_bytes
        self._parser = httptools.HttpResponseParser(self)
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._taken_bytes = 0
        self._head_bytes = 0
        self._wire_bytes = 0
        self._in_body = False
        self._complete = False

    async def read(self, reader: asyncio.StreamReader) -> None:
        """Read to the end of the response. Raises FetchFailed, or OSError if the connection breaks."""
        while not self._complete:
            await self._read_more(reader)

    async def read_head(self, reader: asyncio.StreamReader) -> None:
        """Read until the headers are there, perhaps with a part of the body."""
        while not self._in_body:
            await self._read_more(reader)

    async def read_piece(self, reader: asyncio.StreamReader) -> bytes:
        """Return the next bytes of the body, empty at its end."""
        while not self._body and not self._complete:
            await self._read_more(reader)
        piece, self._body = bytes(self._body), bytearray()
        self._taken_bytes += len(piece)
        return piece

    async def _read_more(self, reader: asyncio.StreamReader) -> None:
        data = await reader.read(_READ_BYTES)
        if data:
            self._feed(data)
        else:
            self._handle_eof()

    def to_result(self) -> FetchResult:
        """Return the complete response."""
        return FetchResult(self._status, self._headers, bytes(self._body))

    def _fail(self, reason: str) -> NoReturn:
        raise FetchFailed(reason=reason, sent=True, status=self._status)

    def _feed(self, data: bytes) -> None:
        self._wire_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._complete:  # bytes after the end are ignored
                self._fail("its response is not HTTP/1.1")
        if self._head_bytes > self._max_head_bytes or (not self._in_body and self._wire_bytes > self._max_head_bytes):
            self._fail(f"the headers of its response are larger than {self._max_head_bytes} bytes")
        if (
            self._taken_bytes + len(self._body) > self._max_body_bytes
            or self._wire_bytes > self._max_head_bytes + _MAX_WIRE_BYTES_PER_BYTE * self._max_body_bytes
        ):
            self._fail(f"its response is larger than {self._max_body_bytes} bytes")
        if self._in_body:
            self._check_head()

    def _check_head(self) -> None:
        if 300 <= self._status < 400:  # control: redirect-refused
            self._fail(f"it responded with a redirect ({self._status}), which is not followed")
        coding = self._headers.get("content-encoding", "identity").lower()
        if coding != "identity" or self._headers.get("transfer-encoding", "chunked").lower() != "chunked":
            self._fail("its response is compressed, which was not requested")

    def _handle_eof(self) -> None:
        """Handle a closed connection: the end of a response without a length."""
        if not self._in_body or self._headers.keys() & {"content-length", "transfer-encoding"}:
            raise FetchFailed(reason="it closed the connection without a complete response", sent=True, status=None)
        self._complete = True

    # -- what the parser finds -----------------------------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header; trailers are ignored."""
        self._head_bytes += len(name) + len(value)
        if self._in_body:
            return
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        """Start the body, or discard an interim response (1xx)."""
        status = self._parser.get_status_code()
        if status < 200:
            self._headers.clear()
        elif not self._complete:
            self._status, self._in_body = status, True

    def on_body(self, data: bytes) -> None:
        """Append to the body. One read has at most _READ_BYTES, so the excess stays small."""
        if not self._complete:
            self._body += data

    def on_message_complete(self) -> None:
        """Finish, unless it was an interim response."""
        self._complete = self._in_body


class _ResponseStream(FetchStream):
    """A response that is read piece by piece."""

    def __init__(
        self,
        response: _ResponseReader,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        idle_seconds: float,
    ) -> None:
        self._response = response
        self._reader = reader
        self._writer = writer
        self._idle_seconds = idle_seconds

    def start(self) -> None:
        """Take status and headers, which have been read."""
        head = self._response.to_result()
        self.status, self.headers = head.status, head.headers

    async def read(self) -> bytes:
        try:
            async with asyncio.timeout(self._idle_seconds):
                return await self._response.read_piece(self._reader)
        except TimeoutError:
            reason = f"nothing arrived within {self._idle_seconds:g} s"
            raise FetchFailed(reason=reason, sent=True, status=None) from None
        except OSError as error:
            raise FetchFailed(reason=_describe_error(error), sent=True, status=None) from None

    def close(self) -> None:
        self._writer.transport.abort()
