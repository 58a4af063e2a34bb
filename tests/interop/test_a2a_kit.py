"""The conformance kit of A2A against a workspace whose agent is an ordinary polling client, in both lines.

The kit is not part of this repository: MOLECULE_A2A_TCK names a folder with its two lines as checkouts, `1.0` (branch
1.0-dev, 357c4a8) and `0.3` (branch 0.3.x, eb1f804). docs/interop/a2a.md lists what fails for the kit's own reasons.
"""

import asyncio
import contextlib
import itertools
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiClient
from molecule_core.common.clock import SystemClock
from testing.engines import Engine
from testing.ports import free_port
from testing.processes import Process, client, started
from tests.interop.conformance_agent import ConformanceAgent
from tests.interop.conformance_server import conformance_server
from tests.interop.credential_proxy import CredentialProxy
from tests.interop.python_kits import A2A_TCK
from tests.requirements import requirement

pytestmark = pytest.mark.long
_SECONDS = 1200.0
# What the agent does with a message whose id names nothing: the kit for 0.3 continues such tasks.
_OTHERWISE = {"1.0": "complete", "0.3": "ask"}
# How long a process of the agent lives, and how long after a kill the next server is killed.
_LIFE_SECONDS = (4.0, 10.0)
_SERVERS = 3
LINES = pytest.mark.parametrize("line", ["1.0", "0.3"])

_CORE, _REST = "tests/compatibility/core_operations", "tests/compatibility/http_json"
_CAPABILITIES = "tests/optional/capabilities"
# Failures of the kit itself. docs/interop/a2a.md says why.
KIT_FAILURES = {
    "1.0": {
        f"{_CORE}/test_error_handling.py::TestRestErrorStructure::test_error_uses_aip193_format",
        f"{_CORE}/test_transport_behavior.py::TestRestFormat::test_response_content_type",
        f"{_REST}/test_http_status.py::TestHttpJsonStatusCodes::test_content_type_not_supported_returns_415",
        f"{_REST}/test_problem_details.py::TestAIP193ErrorFormat::test_error_content_type",
        f"{_CORE}/test_artifacts.py::TestMessageResponse::test_returns_message_with_text_part[jsonrpc]",
        f"{_CORE}/test_artifacts.py::TestMessageResponse::test_returns_message_with_text_part[http_json]",
    },
    "0.3": {
        "tests/mandatory/protocol/test_a2a_v030_new_methods.py::TestAuthenticatedExtendedCard"
        "::test_authenticated_extended_card_without_auth",
        f"{_CAPABILITIES}/test_streaming_methods.py::test_tasks_resubscribe_nonexistent",
    },
}
LEAST_PASSED = {"1.0": 174, "0.3": 76}
_MANDATORY, _OPTIONAL = "tests/mandatory", "tests/optional"
# As the kits' own runners call their tests, category after category.
COMMANDS: dict[str, Sequence[Sequence[str]]] = {
    "1.0": [["tests/compatibility/", "--sut-host={url}", "--webhook-host=localhost"]],
    "0.3": [
        [f"{_MANDATORY}/", "--sut-url={url}", "--test-scope=all", "-m", "mandatory_jsonrpc or mandatory_protocol"],
        [f"{_OPTIONAL}/capabilities/", "--sut-url={url}", "--test-scope=all"],
        [f"{_OPTIONAL}/multi_transport/", "--sut-url={url}", "--test-scope=all", "-m", "transport_equivalence"],
    ],
}


def kit_folder(line: str) -> Path:
    """Return the checkout of a line; skip the test if there is none."""
    place = os.environ.get("MOLECULE_A2A_TCK")
    folder = Path(place or "", line)
    if not place or not (folder / "run_tck.py").exists():
        missing = f"the A2A conformance kit is not there: MOLECULE_A2A_TCK must name a folder with its checkout {line}/"
        if os.environ.get("MOLECULE_INTEROP") == "required" and place:
            pytest.fail(missing)
        pytest.skip(missing)
    return folder


@contextlib.asynccontextmanager
async def one_server(engine: Engine, place: str, state: Path, line: str) -> AsyncIterator[str]:
    """A server, a workspace with the scripted agent, and a proxy with a person's credential: the proxy's address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with conformance_server(engine, place, state, url, line) as server:
        seat, proxy = await hired(server.admin, line)
        proxy.targets.append(server.port)
        api = server.api(seat["connection"]["auth_token"])
        agent = asyncio.create_task(ConformanceAgent(api, seat["id"], otherwise=_OTHERWISE[line]).run())
        async with proxy.listening(port):
            yield url
        agent.cancel()
        await asyncio.gather(agent, return_exceptions=True)


class ServerProcess:
    """A server on a database that has others, which can be killed and started again on its port."""

    def __init__(self, number: int, arguments: Sequence[str]) -> None:
        self.port = free_port()
        self.kills = 0
        self._number = number
        self._arguments = arguments
        self._stack = contextlib.AsyncExitStack()
        self._process: Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it listens. Each start has a number of its own among the servers of the database."""
        number = str(self._number + _SERVERS * self.kills)
        program = (sys.executable, "-m", "tests.interop.conformance_server", number, str(self.port))
        running = started(*program, *self._arguments, env=_environment())
        self._process = await self._stack.enter_async_context(running)
        assert await self._process.line()

    async def kill(self) -> None:
        """End it by SIGKILL."""
        assert self._process is not None
        self.kills += 1
        await self._process.kill()
        await self.close()

    async def close(self) -> None:
        """Release what is left of it."""
        await self._stack.aclose()


@contextlib.asynccontextmanager
async def three_servers(place: str, folder: Path, line: str) -> AsyncIterator[str]:
    """Three processes on a database, which get requests in turn, and an agent. Most of them are killed again and again.

    The agent keeps to one server, which is not killed. The agent is killed in 0.3 only: the kit for 1.0 does not wait
    for the next one."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    arguments = [(place, str(folder / f"server-{number}"), url, line) for number in range(_SERVERS)]
    servers = [ServerProcess(number, each) for number, each in enumerate(arguments)]
    async with contextlib.AsyncExitStack() as stack:
        for each in servers:
            stack.push_async_callback(each.close)
            await each.start()
        async with client(servers[0].port) as admin:
            seat, proxy = await hired(admin, line)
        proxy.targets += [each.port for each in servers]
        agent = (f"http://127.0.0.1:{servers[0].port}", seat["id"], str(folder / "claims.json"), _OTHERWISE[line])
        token = {"MOLECULE_WORKSPACE_TOKEN": seat["connection"]["auth_token"]}
        life = _LIFE_SECONDS if line == "0.3" else (_SECONDS, _SECONDS)
        killing = [
            asyncio.create_task(run_killed_agent(agent, {**_environment(), **token}, life)),
            asyncio.create_task(kill_servers(servers[1:], proxy)),
        ]
        async with proxy.listening(port):
            yield url
        for task in killing:
            task.cancel()
        ended = await asyncio.gather(*killing, return_exceptions=True)
        assert [type(each) for each in ended] == [asyncio.CancelledError] * 2, ended
    assert all(each.kills for each in servers[1:])


async def kill_servers(servers: Sequence[ServerProcess], proxy: CredentialProxy) -> None:
    """Kill one server after the other and start it again, also while it works on requests that it has not answered."""
    clock, draw = SystemClock(), random.Random(31)
    for server in itertools.cycle(servers):
        await clock.wait(asyncio.get_running_loop().create_future(), draw.uniform(*_LIFE_SECONDS))
        async with proxy.without(server.port):
            await server.kill()
            await server.start()


async def run_killed_agent(arguments: Sequence[str], environment: dict[str, str], life: tuple[float, float]) -> None:
    """Run the agent as one process after the other; each is killed after its life, whatever it is doing."""
    clock, draw = SystemClock(), random.Random(30)
    while True:
        async with started(sys.executable, "-m", "tests.interop.conformance_agent", *arguments, env=environment):
            await clock.wait(asyncio.get_running_loop().create_future(), draw.uniform(*life))


def _environment() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(sys.path), "PATH": os.environ["PATH"]}


async def hired(admin: ApiClient, line: str) -> tuple[dict[str, Any], CredentialProxy]:
    """A workspace for the agent, and a proxy with a person's credential in front of it."""
    seat = await admin.post("/workspaces", {"name": "Conformance"})
    org_id = (await admin.get("/orgs"))[0]["id"]
    person = await admin.post(f"/orgs/{org_id}/people", {"name": "The kit", "role": "operator"})
    return seat, CredentialProxy(person["auth_token"], seat["id"], version="0.3" if line == "0.3" else "")


async def run_kit(folder: Path, arguments: Sequence[str], report: Path) -> dict[str, str]:
    """Run the kit; return the outcome of each of its tests."""
    program = (str(A2A_TCK.require().python), "-m", "pytest", "-q", "-p", "no:cacheprovider")
    command = [*program, "--json-report", f"--json-report-file={report}", *arguments]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
    )
    async with asyncio.timeout(_SECONDS):
        await process.wait()
    found: dict[str, Any] = json.loads(report.read_text())
    return {each["nodeid"]: each["outcome"] for each in found["tests"]}


@requirement("HK4")
@LINES
async def test_the_kit_finds_no_failure_but_its_own(line: str, engine: Engine, place: str, tmp_path: Path) -> None:
    folder = kit_folder(line)
    async with one_server(engine, place, tmp_path, line) as url:
        await check_line(line, folder, url, tmp_path)


@pytest.mark.timeout(2 * _SECONDS)  # what the agent had claimed waits for its next process
@requirement("HK4", "P1", "P2")
@LINES
@pytest.mark.parametrize("engine", ["postgres"])
async def test_the_kit_finds_the_same_behind_three_processes_that_are_killed(
    line: str, engine: Engine, place: str, tmp_path: Path
) -> None:
    folder = kit_folder(line)
    async with three_servers(place, tmp_path, line) as url:
        await check_line(line, folder, url, tmp_path)


async def check_line(line: str, folder: Path, url: str, reports: Path) -> None:
    """Run all tests of a line of the kit against an address, and compare with what is known to fail."""
    outcomes = dict[str, str]()
    for number, arguments in enumerate(COMMANDS[line]):
        filled = [each.format(url=url) for each in arguments]
        outcomes |= await run_kit(folder, filled, reports / f"report-{number}.json")
    failed = {test for test, outcome in outcomes.items() if outcome in ("failed", "error")}
    assert failed == KIT_FAILURES[line]
    assert sum(outcome == "passed" for outcome in outcomes.values()) >= LEAST_PASSED[line]
