"""The way to a server: through the proxy of the environment, except to this machine and what NO_PROXY names."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from molecule_core.client.api import ApiClient
from molecule_core.client.one_shot import get_json
from molecule_core.common.net.proxies import proxy_for

PROXY = "http://proxy.example:3128"
BODY = b'{"waiting": 1}'


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("http://molecule.example", {"HTTP_PROXY": PROXY}, PROXY),
        ("https://molecule.example", {"https_proxy": "proxy.example:3128"}, PROXY),
        ("https://molecule.example", {"HTTP_PROXY": PROXY}, None),
        ("https://molecule.example", {"ALL_PROXY": PROXY}, PROXY),
        ("https://molecule.example", {"ALL_PROXY": "socks5://proxy.example:1080"}, None),
        ("http://127.0.0.1:8080", {"ALL_PROXY": PROXY}, None),
        ("http://[::1]:8080", {"ALL_PROXY": PROXY}, None),
        ("http://localhost:8080", {"ALL_PROXY": PROXY}, None),
        ("http://10.1.2.3", {"ALL_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, None),
        ("http://11.1.2.3", {"ALL_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, PROXY),
        ("http://a.corp.example", {"ALL_PROXY": PROXY, "no_proxy": "x.example, .corp.example"}, None),
        ("http://corp.example", {"ALL_PROXY": PROXY, "no_proxy": "*.corp.example"}, None),
        ("http://notcorp.example", {"ALL_PROXY": PROXY, "no_proxy": "corp.example"}, PROXY),
        ("http://corp.example:81", {"ALL_PROXY": PROXY, "no_proxy": "corp.example:80"}, PROXY),
        ("http://corp.example", {"ALL_PROXY": PROXY, "no_proxy": "corp.example:80"}, None),
        ("http://corp.example", {"ALL_PROXY": PROXY, "no_proxy": "*"}, None),
        ("http://corp.example", {"ALL_PROXY": PROXY, "no_proxy": "a/b,:,.,"}, PROXY),
        ("http://corp.example", {}, None),
    ],
)
def test_the_proxy_of_an_address(url: str, environ: dict[str, str], proxy: str | None) -> None:
    assert proxy_for(url, environ) == proxy


class Proxy:
    """A proxy that answers by itself."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request of a connection."""
        self.lines.append((await reader.readuntil(b"\r\n\r\n")).decode().splitlines()[0])
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY) + BODY
        )
        writer.close()


@pytest.fixture
async def proxy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Proxy]:
    """The proxy that the environment names."""
    made = Proxy()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    for name in ("NO_PROXY", "no_proxy", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{made.port}")
    yield made
    server.close()


async def test_an_agent_and_its_hook_reach_a_server_through_the_proxy(proxy: Proxy) -> None:
    async with ApiClient("http://molecule.example:8080", "token") as api:
        assert await api.get("/workspaces/w/waiting") == {"waiting": 1}
    found = await asyncio.to_thread(get_json, "http://molecule.example:8080", "/workspaces/w/waiting", "token", 5.0)
    assert found == {"waiting": 1}
    assert proxy.lines == ["GET http://molecule.example:8080/workspaces/w/waiting HTTP/1.1"] * 2


async def test_requests_to_this_machine_do_not_go_to_the_proxy(proxy: Proxy) -> None:
    other = Proxy()
    server = await asyncio.start_server(other.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with ApiClient(url, "token") as api:
        assert await api.get("/workspaces/w/waiting") == {"waiting": 1}
    assert await asyncio.to_thread(get_json, url, "/workspaces/w/waiting", "token", 5.0) == {"waiting": 1}
    server.close()
    assert (proxy.lines, len(other.lines)) == ([], 2)
