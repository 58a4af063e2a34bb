"""The official TypeScript SDKs with OAuth, unmodified: found, connected by a person, refreshed within a session."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from testing.engines import Engine
from testing.oauth_apps import answer_of, browser_of, decided
from testing.running_server import Running, running
from testing.waits import PROCESS_START_SECONDS
from tests.interop.node_tools import require_tools
from tests.interop.npm_packages import NODE
from tests.requirements import requirement

_CLIENT = Path(__file__).with_name("oauth_client.mjs")


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
