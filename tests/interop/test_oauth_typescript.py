"""The official TypeScript SDKs and the Inspector with OAuth, unmodified: found, connected by a person, used again."""

import asyncio
import contextlib
import json
import os
import pty
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from testing.engines import Engine
from testing.oauth_apps import answer_of, browser_of, decided
from testing.ports import free_port
from testing.running_server import Running, running
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.interop.node_tools import INSPECTOR, require_tools
from tests.interop.npm_packages import NODE
from tests.requirements import requirement

_CLIENT = Path(__file__).with_name("oauth_client.mjs")
_AUTHORIZE = re.compile(r"navigate to: (\S+)\s")
_CALL = ("--method", "tools/call", "--tool-name", "get_runtime_identity")


@pytest.fixture(scope="session")
def tools() -> Path:
    """The folder that has the SDKs, since the Inspector needs them."""
    return require_tools()


@pytest.fixture
async def issuer(engine: Engine, place: str, tmp_path: Path) -> AsyncIterator[Running]:
    """A server on which clients may register themselves."""
    async with running(engine, place, tmp_path, has_public_url=True, oauth_dynamic_registration=True) as server:
        yield server


@requirement("M39", "N1")
@pytest.mark.parametrize("line", ["1", "2"])
async def test_a_typescript_client_is_connected_and_refreshes_its_token(
    issuer: Running, tools: Path, line: str
) -> None:
    seat = await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    process = await asyncio.create_subprocess_exec(
        *(str(NODE), str(_CLIENT), str(tools), line, f"{issuer.url}/mcp"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        async with asyncio.timeout(PROCESS_START_SECONDS):
            address = (await process.stdout.readline()).decode().strip()
            answer = answer_of(await decided(browser, urlsplit(address).query, seat.id))
            out, err = await process.communicate(json.dumps(answer).encode() + b"\n")
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, err.decode()
    said = json.loads(out)
    assert [seat.id in str(said[each]) for each in ("first", "second")] == [True, True]
    assert said["refreshed"] is True
    [grant] = await issuer.admin.get(f"/workspaces/{seat.id}/oauth-grants")
    assert grant["client_name"] == f"TypeScript SDK {line}"


@requirement("M39", "N1")
async def test_the_inspector_is_connected_by_a_person_and_uses_its_token_again(
    issuer: Running, tools: Path, tmp_path: Path
) -> None:
    seat = await issuer.seat("Ops")
    browser, _ = await browser_of(issuer)
    callback = f"http://127.0.0.1:{free_port()}/oauth/callback"
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NO_COLOR": "1"}
    environment |= {"MCP_AUTO_OPEN_ENABLED": "false", "MCP_OAUTH_CALLBACK_URL": callback}
    # A machine without a keychain would keep the token in memory, and lose it.
    environment["MCP_INSPECTOR_SECRET_STORE"] = "file"

    async def start(errors: int, *flags: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *(str(NODE), str(tools / INSPECTOR), "--cli", "--format", "json", "--protocol-era", "modern"),
            *("--transport", "http", "--server-url", f"{issuer.url}/mcp", *_CALL, *flags),
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )

    terminal, errors = pty.openpty()  # it asks a person only at a terminal
    os.set_blocking(terminal, False)
    process = await start(errors)
    shown = ""

    async def look() -> re.Match[str] | None:
        nonlocal shown
        with contextlib.suppress(BlockingIOError):
            shown += os.read(terminal, 1 << 16).decode()
        return _AUTHORIZE.search(shown)

    try:
        address = await eventually(look, lambda found: found is not None, PROCESS_START_SECONDS)
        assert address is not None
        reply = await decided(browser, urlsplit(address[1]).query, seat.id)
        location = urlsplit(reply.headers["location"])
        assert reply.headers["location"].startswith(callback)
        async with asyncio.timeout(PROCESS_START_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", location.port)
            writer.write(f"GET {location.path}?{location.query} HTTP/1.1\r\nHost: {location.netloc}\r\n\r\n".encode())
            assert (await reader.readline()).split()[1] == b"200"
            writer.close()
            out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
        os.close(errors)
        os.close(terminal)
    assert (process.returncode, seat.id in out.decode()) == (0, True), shown + out.decode()

    again = await start(asyncio.subprocess.PIPE, "--stored-auth-only")
    async with asyncio.timeout(PROCESS_START_SECONDS):
        out, err = await again.communicate()
    assert (again.returncode, seat.id in out.decode()) == (0, True), err.decode()
    [grant] = await issuer.admin.get(f"/workspaces/{seat.id}/oauth-grants")
    assert "nspector" in grant["client_name"]
