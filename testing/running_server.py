"""A whole server in the test's own process, reached over a real socket."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from molecule_core.api.mcp.tool_host import TestExtensions
from molecule_core.client.api import ApiClient
from molecule_core.common.clock import Clock
from molecule_core.common.limits import Limits
from molecule_core.common.net.safe_fetch import Fetcher
from molecule_core.common.settings import Settings
from molecule_core.common.tracing import Tracing
from molecule_core.server.composition import Server
from molecule_core.server.listener import HttpListener
from testing.clocks import SeededRandomness
from testing.engines import Engine
from testing.waits import IN_PROCESS_SECONDS

ADMIN_TOKEN = "test-" + "a" * 32
# Tests ask far more often than agents and people do; those about rates set their own limits.
UNHURRIED = Limits(
    requests_per_minute=10**9,
    sends_per_minute=10**9,
    org_sends_per_minute=10**9,
    anonymous_per_minute=10**9,
    logins_per_minute=10**9,
    push_stop_seconds=1,  # tests leave pushes that are never answered
)


class Seat:
    """A workspace of a test: its id, its token, and a client that holds it."""

    def __init__(self, answer: dict[str, Any], api: ApiClient) -> None:
        self.id: str = answer["id"]
        self.name: str = answer["name"]
        self.token: str = answer["connection"]["auth_token"]
        self.api = api


class Running:
    """A server that listens. Clients that it hands out are closed with it."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._apis: list[ApiClient] = []
        self.admin = self.api(ADMIN_TOKEN)

    def api(self, token: str | None = None) -> ApiClient:
        """A client with a credential, or with none."""
        api = ApiClient(self.url, token, seconds=IN_PROCESS_SECONDS * 6)
        self._apis.append(api)
        return api

    async def seat(self, name: str = "Ops", **fields: Any) -> Seat:
        """A new workspace."""
        answer = await self.admin.post("/workspaces", {"name": name, **fields})
        return Seat(answer, self.api(answer["connection"]["auth_token"]))

    async def org(self, name: str) -> str:
        """A new organisation's id."""
        answer = await self.admin.post("/orgs", {"name": name})
        return str(answer["id"])

    async def person(self, role: str = "operator", org_id: str | None = None) -> ApiClient:
        """A client of a new person."""
        org_id = org_id or (await self.admin.get("/orgs"))[0]["id"]
        answer = await self.admin.post(f"/orgs/{org_id}/people", {"name": f"A {role}", "role": role})
        return self.api(answer["auth_token"])

    async def let_broadcast(self, workspace_id: str) -> None:
        """Switches a workspace's ability to write to all others on."""
        await self.server.org_writer.update_workspace(workspace_id, {"broadcast_enabled": True})

    async def close(self) -> None:
        """Closes the clients."""
        for api in self._apis:
            await api.close()


@asynccontextmanager
async def running(
    engine: Engine,
    place: str,
    state: Path,
    *,
    clock: Clock | None = None,
    limits: Limits | None = None,
    fetcher: Fetcher | None = None,
    seed: int = 0,
    tracing: Tracing | None = None,
    mcp_additions: TestExtensions | None = None,
    has_public_url: bool = False,
    on_port: int = 0,
    **more: Any,
) -> AsyncIterator[Running]:
    """A server on an engine, until the block ends. Servers of one database need a `seed` each.

    `on_port`: 0 for a free one. `has_public_url`: its own address is the configured one, as OAuth needs it."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", on_port))
        port = listener.getsockname()[1]
        more.setdefault("push_instructions_enabled", False)  # tests of instructions ask for them
        if has_public_url:
            more["public_url"] = f"http://127.0.0.1:{port}"
        settings = Settings(
            port=port,
            state_dir=str(Path(place).parent if engine == "sqlite" else state),
            database=place if engine == "postgres" else "",
            limits=limits or UNHURRIED,
            **more,
        )
        server = Server(
            settings,
            admin_token=ADMIN_TOKEN,
            clock=clock,
            randomness=SeededRandomness(seed),
            fetcher=fetcher,
            tracing=tracing,
            test_extensions=mcp_additions,
        )
        await server.open()
        http = HttpListener(server)
        serving = asyncio.create_task(http.serve(sockets=[listener]))
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            await http.listening.wait()
        test_server = Running(server, port)
        try:
            yield test_server
        finally:
            await test_server.close()
            http.stop()
            async with asyncio.timeout(IN_PROCESS_SECONDS):
                await serving
            await server.close()


def decoded(raw: Any) -> Any:
    """A value as plain data."""
    return msgspec.to_builtins(raw)
