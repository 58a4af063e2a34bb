"""The server's own MCP endpoint before the public conformance suite and the Inspector."""

import json
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from molecule_core.tools.registry import TOOLS
from testing.engines import Engine
from testing.running_server import Running, running
from tests.api.mcp.conformance_server import Fixtures
from tests.interop.node_tools import CONFORMANCE, INSPECTOR, SOURCES, Ended, require_tools, run
from tests.requirements import requirement
from tests.system.setup.test_canvas_lock import faults

# Of this version of the suite. `active` leaves two scenarios out; all of them pass here.
_SCENARIOS, _CHECKS = 32, 43
_TOTAL = re.compile(r"Total: (\d+) passed, (\d+) failed")
_SCENARIO = re.compile(r"^✓ ([\w-]+): \d+ passed, 0 failed$", re.MULTILINE)


@pytest.fixture(scope="session")
def tools() -> Path:
    """The folder of the suite and the Inspector."""
    return require_tools()


@pytest.fixture
async def tested(engine: Engine, place: str, tmp_path: Path) -> AsyncIterator[Running]:
    """A server that has what the suite wants beside the product's tools."""
    async with running(engine, place, tmp_path, mcp_additions=Fixtures()) as server:
        yield server


def test_the_tools_are_pinned_without_addresses() -> None:
    packages = json.loads((SOURCES / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    wanted = json.loads((SOURCES / "package.json").read_text(encoding="utf-8"))["dependencies"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert list(faults(packages)) == []


@requirement("N1")
@pytest.mark.parametrize("suite", ["active", "all"])
async def test_the_public_conformance_suite_passes(tested: Running, tools: Path, suite: str) -> None:
    ops = await tested.seat("Ops")
    ended = await run(
        tools,
        CONFORMANCE,
        *("server", "--url", f"{tested.url}/mcp", "--suite", suite),
        preload="with-token.mjs",
        MOLECULE_TEST_TOKEN=ops.token,
    )
    total = _TOTAL.search(ended.out)
    assert total is not None, ended
    sys.stdout.write(f"conformance, {suite} suite: {len(_SCENARIO.findall(ended.out))} scenarios, {total[0]}\n")
    assert (ended.code, int(total[2])) == (0, 0), ended.out
    left_out = 2 if suite == "active" else 0
    assert len(_SCENARIO.findall(ended.out)) == _SCENARIOS - left_out
    # What is left out: the schema's four checks, and server-sse-polling, which wants resumption and makes none without.
    assert int(total[1]) == _CHECKS - (4 if left_out else 0)


async def _inspected(server: Running, tools: Path, token: str, era: str, *wish: str) -> Ended:
    return await run(
        tools,
        INSPECTOR,
        *("--cli", "--format", "json", "-q", "--protocol-era", era, "--transport", "http"),
        *("--server-url", f"{server.url}/mcp", "--header", f"Authorization: Bearer {token}", *wish),
    )


@requirement("N1")
@pytest.mark.parametrize("era", ["legacy", "modern", "auto"])
async def test_the_inspector_lists_and_calls_our_tools_in_each_era(server: Running, tools: Path, era: str) -> None:
    ops = await server.seat("Ops")

    found = await _inspected(server, tools, ops.token, era, "--method", "tools/list", "--strict")
    assert found.code == 0, found
    assert [tool["name"] for tool in json.loads(found.out)["result"]["tools"]] == [spec.name for spec in TOOLS]
    assert re.search(r"\b0 errors", found.err), found.err

    called = await _inspected(
        server, tools, ops.token, era, "--method", "tools/call", "--tool-name", "get_runtime_identity"
    )
    assert called.code == 0, called
    assert ops.id in called.out


@requirement("N1")
async def test_the_inspector_loads_a_tool_without_an_error(server: Running, tools: Path) -> None:
    ops = await server.seat("Ops")
    wish = ("--method", "tools/call", "--tool-name", "list_peers", "--load", "--load-requests", "200")
    ended = await _inspected(server, tools, ops.token, "modern", *wish, "--load-concurrency", "10")
    sys.stdout.write(ended.out)
    assert ended.code == 0, ended
    told = json.loads(ended.out)["result"]
    assert (told["requests"], told["ok"], told["errors"], told["toolErrors"]) == (200, 200, 0, 0)
