"""The conformance kit of A2A against a workspace whose agent is an ordinary polling client, in both lines.

The kit is not part of this repository: MOLECULE_A2A_TCK names a folder with its two lines as checkouts, `1.0` (branch
1.0-dev, 357c4a8) and `0.3` (branch 0.3.x, eb1f804). docs/interop/a2a.md lists what fails for the kit's own reasons.
"""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from molecule_core.common.limits import Limits
from molecule_core.common.net.ip_policy import NetPolicy
from molecule_core.common.net.safe_fetch import SafeFetcher, resolve_name
from testing.engines import Engine
from testing.ports import free_port
from testing.running_server import UNHURRIED, running
from tests.interop.conformance_agent import ConformanceAgent
from tests.interop.credential_proxy import CredentialProxy
from tests.interop.python_kits import A2A_TCK
from tests.requirements import requirement

pytestmark = pytest.mark.long
_SECONDS = 900.0
_PUBLIC = "93.184.215.14"
"""An address of example.com, whose name the kits use and a test machine may not resolve."""

_CORE, _REST = "tests/compatibility/core_operations", "tests/compatibility/http_json"
_CAPABILITIES = "tests/optional/capabilities"
# Failures of the kit itself, and those of ours. docs/interop/a2a.md says why.
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
OWN_FAILURES = {
    "1.0": {
        f"{_CORE}/test_artifacts.py::TestDataArtifact::test_task_has_data_artifact[jsonrpc]",
        f"{_CORE}/test_artifacts.py::TestDataArtifact::test_task_has_data_artifact[http_json]",
    },
    "0.3": set[str](),
}
LEAST_PASSED = {"1.0": 172, "0.3": 76}
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


async def resolve(name: str, port: int) -> Sequence[str]:
    """Resolve the name that the kits use without a network."""
    return [_PUBLIC] if name == "example.com" else await resolve_name(name, port)


@contextlib.asynccontextmanager
async def conformance_url(engine: Engine, place: str, state: Path, line: str) -> AsyncIterator[str]:
    """A server, a workspace with the scripted agent, and a proxy with a person's credential: the proxy's address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    limits = UNHURRIED
    fetcher = SafeFetcher(NetPolicy.from_networks(("127.0.0.0/8", "::1/128")), Limits(), resolver=resolve)
    more: dict[str, Any] = {"push_instructions_enabled": True, "public_url": url, "a2a_legacy_cards": line != "1.0"}
    async with running(engine, place, state, limits=limits, fetcher=fetcher, **more) as server:
        seat = await server.seat("Conformance")
        org_id = (await server.admin.get("/orgs"))[0]["id"]
        person = await server.admin.post(f"/orgs/{org_id}/people", {"name": "The kit", "role": "operator"})
        proxy = CredentialProxy(person["auth_token"], seat.id, version="0.3" if line == "0.3" else "")
        proxy.targets.append(server.port)
        agent = asyncio.create_task(
            ConformanceAgent(seat.api, seat.id, otherwise="ask" if line == "0.3" else "complete").run()
        )
        async with proxy.listening(port):
            yield url
        agent.cancel()
        await asyncio.gather(agent, return_exceptions=True)


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
@pytest.mark.parametrize("line", ["1.0", "0.3"])
async def test_the_kit_finds_no_failure_but_its_own(line: str, engine: Engine, place: str, tmp_path: Path) -> None:
    folder, outcomes = kit_folder(line), dict[str, str]()
    async with conformance_url(engine, place, tmp_path, line) as url:
        for number, arguments in enumerate(COMMANDS[line]):
            filled = [each.format(url=url) for each in arguments]
            outcomes |= await run_kit(folder, filled, tmp_path / f"report-{number}.json")

    failed = {test for test, outcome in outcomes.items() if outcome in ("failed", "error")}
    assert failed == KIT_FAILURES[line] | OWN_FAILURES[line]
    assert sum(outcome == "passed" for outcome in outcomes.values()) >= LEAST_PASSED[line]
