"""The API below a prefix of another ASGI application."""

import runpy
from collections.abc import Callable, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from molecule_core.server.asgi import asgi_application
from molecule_core.server.composition import Server
from testing.running_server import ADMIN_TOKEN
from testing.waits import bounded
from tests.api.asgi.asgi_client import HOST, lifespan, websocket
from tests.api.asgi.scenario import client_of, walk

PREFIX = "/agents/molecule"


def _in_starlette(server: Server) -> Any:
    api = asgi_application(server)

    @asynccontextmanager
    async def opened(_application: Starlette) -> Any:
        async with api.running():
            yield

    async def own_page(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("the host's own page")

    return Starlette(routes=[Route("/own", own_page), Mount(PREFIX, api)], lifespan=opened)


def _in_a_function(server: Server) -> Any:
    """An application that cuts its prefix off the path, as older ones do, and hands the lifespan on."""
    api = asgi_application(server)

    async def application(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan" and scope["path"] == "/own":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"the host's own page"})
        elif scope["type"] == "lifespan":
            await api(scope, receive, send)
        else:
            path = {"path": scope["path"].removeprefix(PREFIX), "raw_path": None}
            await api({**scope, **path, "root_path": PREFIX}, receive, send)

    return application


@pytest.mark.parametrize("mounted", [_in_starlette, _in_a_function])
async def test_the_journey_goes_through_a_host_application(
    sqlite_server: Server, mounted: Callable[[Server], Any]
) -> None:
    application = mounted(sqlite_server)
    transport = httpx2.ASGITransport(application)
    async with lifespan(application), client_of(transport, f"http://{HOST}{PREFIX}") as api:
        seat = await walk(api)
        assert (await bounded(api.get(f"http://{HOST}/own"))).text == "the host's own page"
        async with websocket(application, f"{PREFIX}/ws", ADMIN_TOKEN) as socket:
            assert (await socket.frame(type="hello"))["org_id"] == seat["org_id"]


async def test_the_example_of_the_documentation_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLECULE_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("MOLECULE_ADMIN_TOKEN", ADMIN_TOKEN)
    page = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "asgi-server.md"
    example = page.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    application = runpy.run_path(str(script))["app"]
    async with lifespan(application), client_of(httpx2.ASGITransport(application), f"http://{HOST}") as api:
        assert (await bounded(api.get("/molecule/health"))).json()["status"] == "ok"
