"""The API served by uvicorn in a process of its own, as docs/how-to/asgi-server.md shows it."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from molecule_core.client.api import ApiClient
from molecule_core.server.composition import Server
from testing.engines import Engine
from testing.mcp_clients import ERAS, Era, hosted
from testing.ports import free_port
from testing.processes import Process, environment, started
from testing.running_server import ADMIN_TOKEN, Running
from testing.waits import bounded, eventually, refused
from tests.api.asgi.scenario import BODY_LIMIT, SENDS_PER_MINUTE, client_of, walk

_UVICORN = (sys.executable, "-m", "uvicorn", "--factory", "molecule_core.server.asgi:create_app")
_GRACE_SECONDS = "1"


class Served:
    """A uvicorn process and clients of it."""

    def __init__(self, process: Process, port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.running = Running(cast(Server, None), port)  # its server is in the other process
        self.admin: ApiClient = self.running.admin

    @contextlib.asynccontextmanager
    async def websocket(self, path: str = "/ws", token: str = ADMIN_TOKEN) -> AsyncIterator[ClientConnection]:
        url = self.url.replace("http:", "ws:") + path
        headers = {"authorization": f"Bearer {token}"}
        async with connect(url, additional_headers=headers, proxy=None, close_timeout=1) as socket:
            yield socket


async def frame_of(socket: ClientConnection, **members: Any) -> dict[str, Any]:
    """The next message that has these members."""
    while True:
        found: dict[str, Any] = msgspec.json.decode(await bounded(socket.recv()))
        if members.items() <= found.items():
            return found


@contextlib.asynccontextmanager
async def served(state: Path, **more: str) -> AsyncIterator[Served]:
    port = free_port()
    env = environment(
        state,
        port,
        MOLECULE_PUSH_INSTRUCTIONS_ENABLED="true",
        MOLECULE_LIMIT_BODY_BYTES=str(BODY_LIMIT),
        MOLECULE_LIMIT_SENDS_PER_MINUTE=str(SENDS_PER_MINUTE),
        **more,
    )
    arguments = ("--port", str(port), "--timeout-graceful-shutdown", _GRACE_SECONDS)
    async with started(*_UVICORN, *arguments, env=env) as process:
        await process.says("Uvicorn running")
        found = Served(process, port)
        try:
            yield found
        finally:
            await found.running.close()


@pytest.fixture
async def server(engine: Engine, place: str, tmp_path: Path) -> AsyncIterator[Served]:
    """A server on each engine."""
    more = {"MOLECULE_DATABASE": place} if engine == "postgres" else {}
    async with served(tmp_path / "state", **more) as found:
        yield found


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Served]:
    """A server on SQLite."""
    async with served(tmp_path / "state") as found:
        yield found


async def test_http_and_a_websocket_work_on_both_engines_and_a_signal_ends_it(server: Served) -> None:
    async with client_of(None, server.url) as api, server.websocket() as socket:
        hello = await frame_of(socket, type="hello")
        seat = await walk(api)
        online = await frame_of(socket, event="WORKSPACE_ONLINE")
        assert online["workspace_id"] == seat["id"]
        resuming = {"type": "subscribe", "after": hello["head"], "epoch": hello["epoch"]}
        await socket.send(msgspec.json.encode(resuming).decode())
        await frame_of(socket, type="resumed")
        assert (await frame_of(socket, event="WORKSPACE_ONLINE"))["seq"] == online["seq"]
        server.process.send(signal.SIGTERM)
        with pytest.raises(ConnectionClosed) as closed:
            await frame_of(socket, type="never")
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
    assert await server.process.ended() in (0, -signal.SIGTERM)
    assert "Application shutdown complete" in server.process.said
    assert "ERROR" not in server.process.said


async def test_the_products_client_reads_events_claims_and_meets_errors(sqlite: Served) -> None:
    events = sqlite.admin.events()
    assert (await bounded(anext(events)))["type"] == "hello"
    ops = await sqlite.running.seat("Ops")
    await ops.api.post("/registry/register", {"id": ops.id, "delivery_mode": "poll", "agent_card": {"name": "Ops"}})
    while (await bounded(anext(events))).get("event") != "WORKSPACE_ONLINE":
        pass
    await events.aclose()
    claiming = asyncio.create_task(ops.api.claim(ops.id))
    receipt = await sqlite.admin.send(ops.id, "hi")
    (row,) = await bounded(claiming)
    assert row["id"] == receipt["activity_id"]
    await ops.api.ack(ops.id, row)
    assert (await refused(ops.api.get("/orgs"))).status == 403


async def test_the_metric_of_live_subscribers_falls_when_a_client_goes(sqlite: Served) -> None:
    async with sqlite.websocket() as socket:
        await frame_of(socket, type="hello")
        assert 'molecule_live_listeners{kind="websocket"} 1' in await _metrics(sqlite)
    await eventually(lambda: _metrics(sqlite), lambda text: 'molecule_live_listeners{kind="websocket"} 1' not in text)


async def _metrics(served_api: Served) -> str:
    async with client_of(None, served_api.url) as api:
        return (await bounded(api.get("/metrics"))).text


async def test_a_handshake_without_a_credential_gets_the_same_error_as_a_request(sqlite: Served) -> None:
    with pytest.raises(InvalidStatus) as rejected:
        async with sqlite.websocket(token="mol_ad_wrong"):
            pass
    response = rejected.value.response
    assert (response.status_code, msgspec.json.decode(response.body or b"")["code"]) == (401, "invalid_credential")


@pytest.mark.parametrize("era", ERAS)
async def test_an_mcp_client_waits_for_a_message_and_replies(sqlite: Served, era: Era) -> None:
    ops = await sqlite.running.seat("Ops")
    async with hosted(sqlite.running, ops.token, era) as host:
        waiting = asyncio.create_task(host.call("wait_for_message", timeout_secs=20))
        await sqlite.admin.send(ops.id, "how are you?")
        message = (await bounded(waiting))["message"]
        await host.call(
            "reply_to_workspace",
            text="well",
            workspace_id=message["arrival_workspace_id"],
            activity_id=message["activity_id"],
            attempt=message["attempt"],
        )
    chat = await sqlite.admin.get(f"/workspaces/{ops.id}/chat-history")
    assert [line["content"] for line in chat["messages"]] == ["how are you?", "well"]


async def test_a_store_that_does_not_open_ends_the_start_with_a_reason(tmp_path: Path) -> None:
    env = environment(tmp_path / "state", 1, MOLECULE_DATABASE="postgresql://nobody@127.0.0.1:1/none")
    async with started(*_UVICORN, "--port", str(free_port()), env=env) as process:
        assert await process.ended() == 3
        assert "the store cannot be opened" in process.said
        assert "Traceback" not in process.said
