"""The API as an ASGI application in the test's own process: no socket, no server."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from molecule_core.common.limits import Limits
from molecule_core.common.settings import Settings
from molecule_core.server.asgi import asgi_application, create_app
from molecule_core.server.composition import Server
from testing.engines import Engine
from testing.running_server import ADMIN_TOKEN
from testing.waits import bounded, until_waiting
from tests.api.asgi.asgi_client import HOST, Conversation, lifespan, opening, requesting, streaming, websocket
from tests.api.asgi.scenario import client_of, exchange_message, ok, seat_of, send, walk

URL = f"http://{HOST}"


def client(application: Any) -> httpx2.AsyncClient:
    return client_of(httpx2.ASGITransport(application), URL)


async def test_an_agent_and_a_person_make_the_whole_journey(
    new_server: Callable[[Engine, str], Server], engine: Engine, place: str
) -> None:
    application = asgi_application(new_server(engine, place))
    async with lifespan(application), client(application) as api:
        assert (await walk(api))["name"] == "Ops"


async def test_a_subscriber_gets_events_as_server_sent_events(sqlite_server: Server) -> None:
    application = asgi_application(sqlite_server)
    async with (
        lifespan(application),
        client(application) as api,
        streaming(application, "/events/stream", ADMIN_TOKEN) as events,
    ):
        assert (await events.frame())["type"] == "hello"
        seat = await seat_of(api, "Ops")
        assert (await events.frame("WORKSPACE_ONLINE"))["workspace_id"] == seat["id"]
    assert sqlite_server.live_hub.count_subscribers() == 0


async def test_an_export_of_the_activity_is_whole(sqlite_server: Server) -> None:
    application = asgi_application(sqlite_server)
    async with lifespan(application), client(application) as api:
        await seat_of(api, "Ops")
        path = f"/orgs/{sqlite_server.registry.orgs()[0].id}/activity"
        headers = {"authorization": f"Bearer {ADMIN_TOKEN}"}
        lines = (await bounded(api.get(f"{path}/export", headers=headers))).text.splitlines()
        listed = (await bounded(api.get(path, headers=headers))).json()["events"]
    *events, end = [msgspec.json.decode(line) for line in lines]
    assert [each["seq"] for each in events] == [each["seq"] for each in listed]
    assert end["export"]["events"] == len(listed) > 0


async def test_a_subscriber_gets_events_over_a_websocket_and_resumes(sqlite_server: Server) -> None:
    application = asgi_application(sqlite_server)
    async with (
        lifespan(application),
        client(application) as api,
        websocket(application, "/ws", ADMIN_TOKEN) as socket,
    ):
        hello = await socket.frame(type="hello")
        await seat_of(api, "Ops")
        event = await socket.frame(event="WORKSPACE_ONLINE")
        socket.send(type="subscribe", after=hello["head"], epoch=hello["epoch"])
        await socket.frame(type="resumed")
        assert (await socket.frame(event="WORKSPACE_ONLINE"))["seq"] == event["seq"]
    assert sqlite_server.live_hub.count_subscribers() == 0


async def test_a_websocket_message_that_is_too_large_closes_it(sqlite_server: Server) -> None:
    application = asgi_application(sqlite_server)
    async with lifespan(application), websocket(application, "/ws", ADMIN_TOKEN) as socket:
        await socket.frame(type="hello")
        socket.send(type="x" * 5000)
        assert (await socket.conversation.hear("websocket.close"))["code"] == 1009


@pytest.mark.parametrize(("path", "token", "status"), [("/ws", None, 401), ("/health", ADMIN_TOKEN, 404)])
async def test_a_handshake_is_rejected_with_a_response(
    sqlite_server: Server, path: str, token: str | None, status: int
) -> None:
    application = asgi_application(sqlite_server)
    async with lifespan(application):
        conversation = opening(application, path, token)
        assert (await conversation.hear("websocket.http.response.start"))["status"] == status
        await conversation.hear("websocket.http.response.body")
        await conversation.end()


async def test_a_plain_request_to_a_websocket_route_gets_426(sqlite_server: Server) -> None:
    application = asgi_application(sqlite_server)
    async with lifespan(application), client(application) as api:
        response = await bounded(api.get("/ws"))
    assert (response.status_code, response.headers["upgrade"]) == (426, "websocket")


async def test_a_client_that_disconnects_ends_its_long_poll(sqlite_server: Server) -> None:
    application = asgi_application(sqlite_server)
    async with lifespan(application), client(application) as api:
        seat = await seat_of(api, "Ops")
        conversation = _long_poll(application, seat)
        await until_waiting(sqlite_server, 1)
        conversation.tell("http.disconnect")
        await conversation.end()
        await until_waiting(sqlite_server, 0)
        assert conversation.is_silent, "there is nobody to answer"
        await exchange_message(api, seat)


async def test_a_shutdown_ends_long_polls_and_streams(sqlite_server: Server) -> None:
    application = asgi_application(sqlite_server)
    async with lifespan(application):
        async with client(application) as api:
            seat = await seat_of(api, "Ops")
        poll = _long_poll(application, seat)
        await until_waiting(sqlite_server, 1)
        socket = opening(application, "/ws", ADMIN_TOKEN)
        await socket.hear("websocket.accept")
        await socket.hear("websocket.send")
    assert (await poll.hear("http.response.start"))["status"] == 200
    assert (await socket.hear("websocket.close"))["code"] == 1012
    await poll.end()
    await socket.end()


async def test_a_body_that_stops_gets_408(tmp_path: Path) -> None:
    settings = Settings(state_dir=str(tmp_path), limits=Limits(body_seconds=1))
    application = asgi_application(Server(settings, admin_token=ADMIN_TOKEN))
    async with lifespan(application), client(application) as api:

        async def stops() -> Any:
            yield b"{"
            await asyncio.Event().wait()

        response = await bounded(api.post("/workspaces", content=stops()))
    assert (response.status_code, response.json()["code"]) == (408, "body_too_slow")


async def test_the_factory_reads_the_environment_and_keeps_its_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOLECULE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("MOLECULE_ADMIN_TOKEN", ADMIN_TOKEN)
    application = create_app()
    async with lifespan(application), client(application) as api:
        seat = await seat_of(api, "Ops")
        assert (await send(api, seat, "hi")).is_success
    application = create_app()
    async with lifespan(application), client(application) as api:
        assert [each["id"] for each in await ok(api.get("/workspaces"))] == [seat["id"]]


async def test_an_application_that_is_not_open_says_so(sqlite_server: Server) -> None:
    async with client(asgi_application(sqlite_server)) as api:
        with pytest.raises(RuntimeError, match="not open"):
            await bounded(api.get("/health"))


def _long_poll(application: Any, seat: dict[str, Any]) -> Conversation:
    path = f"/workspaces/{seat['id']}/activity?claim=60&wait=20"
    return requesting(application, path, seat["connection"]["auth_token"])
