"""A small internet in one process: real listeners on loopback, and a resolver and a network that lead to them."""

import asyncio
import ipaddress
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from molecule_core.common.limits import Limits
from molecule_core.common.net.ip_policy import NetPolicy
from molecule_core.common.net.safe_fetch import SafeFetcher
from testing.forbidden_urls import NAMES, PUBLIC
from testing.waits import IN_PROCESS_SECONDS

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_TLS = b"\x16"
"""How somebody begins who wants to be encrypted, which a plain server does not understand."""
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Canary:
    """Listens on 127.0.0.1 and ::1, at one port. Nobody is ever to come."""

    def __init__(self) -> None:
        self.port = 0
        self.hits = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Counts whoever comes, and is kind to them."""
        self.hits += 1
        await answer(reader, writer, OK)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, text: bytes) -> None:
    """Reads a request's head, or what there is of it, and says something."""
    try:
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            if await reader.readexactly(1) == _TLS:
                return
            head = await reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length:")[2].split(b"\r")[0]
            await reader.readexactly(int(length or 0))
            writer.write(text)
            await writer.drain()
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()


class Internet:
    """Every address leads to the canary, but for those of PUBLIC: behind them are honest servers."""

    def __init__(self, canary: Canary, public_port: int) -> None:
        self.canary = canary
        self.public_port = public_port
        self.names: dict[str, Sequence[str]] = dict(NAMES)
        self.turns: dict[str, list[Sequence[str]]] = {}
        """Names whose addresses change: each look-up takes the next ones, and the last for ever."""
        self.lookups: Counter[str] = Counter()
        self.reached: list[str] = []
        """The addresses that connections were asked for."""

    async def resolver(self, name: str, _port: int) -> Sequence[str]:
        """The machine's resolver."""
        self.lookups[name] += 1
        if turns := self.turns.get(name):
            return turns.pop(0) if len(turns) > 1 else turns[0]
        if name in self.names:
            return self.names[name]
        try:
            return (socket.inet_ntoa(socket.inet_aton(name)),)
        except OSError:
            raise socket.gaierror(socket.EAI_NONAME, "unknown name") from None

    async def connect(
        self, address: str, _port: int, tls: ssl.SSLContext | None, name: str | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The network. If it is asked for a name, it resolves that once more, as a careless client would."""
        try:
            place = ipaddress.ip_address(address)
        except ValueError:
            place = ipaddress.ip_address((await self.resolver(address, 0))[0])
        self.reached.append(str(place))
        host, port = "::1" if place.version == 6 else "127.0.0.1", self.canary.port
        if str(place) in PUBLIC:
            host, port = "127.0.0.1", self.public_port
        return await asyncio.open_connection(host, port, ssl=tls, server_hostname=name)

    def fetcher(
        self, *networks: str, limits: Limits | None = None, tls: Callable[[], ssl.SSLContext] | None = None
    ) -> SafeFetcher:
        """A fetcher that lives here, with what its operator allows."""
        return SafeFetcher(
            NetPolicy.from_networks(networks),
            limits or Limits(),
            resolver=self.resolver,
            connect=self.connect,
            create_tls_context=tls or ssl.create_default_context,
        )


def _pair() -> tuple[socket.socket, socket.socket]:
    """Two listeners at one port, of both families."""
    while True:
        four, six = socket.socket(), socket.socket(socket.AF_INET6)
        try:
            four.bind(("127.0.0.1", 0))
            six.bind(("::1", four.getsockname()[1]))
        except OSError:
            four.close()
            six.close()
        else:
            return four, six


@asynccontextmanager
async def canary() -> AsyncIterator[Canary]:
    """A canary that listens, until the block ends."""
    found = Canary()
    four, six = _pair()
    found.port = four.getsockname()[1]
    servers = [await asyncio.start_server(found.serve, sock=each) for each in (four, six)]
    try:
        yield found
    finally:
        for server in servers:
            server.close()


@asynccontextmanager
async def internet(serve: Serve | None = None, tls: ssl.SSLContext | None = None) -> AsyncIterator[Internet]:
    """The small internet; `serve` is what the honest servers do, 200 if nothing else is said."""

    async def kind(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer(reader, writer, OK)

    async with canary() as bird:
        server = await asyncio.start_server(serve or kind, "127.0.0.1", 0, ssl=tls)
        try:
            yield Internet(bird, server.sockets[0].getsockname()[1])
        finally:
            server.close()
