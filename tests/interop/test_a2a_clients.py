"""Unmodified clients of the A2A SDKs against a workspace whose agent is an ordinary polling client."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from testing.push_agents import HttpAgent, http_agent, plain
from testing.running_server import Running, running
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.interop.conformance_agent import GREETING, ConformanceAgent
from tests.interop.npm_packages import NODE
from tests.interop.python_kits import A2A_JS, A2A_KITS, KITS
from tests.requirements import requirement

pytestmark = pytest.mark.long


class StockClient(NamedTuple):
    """A program written with an SDK, the line that the SDK speaks, and the binding that it uses."""

    name: str
    line: str
    binding: str

    def command(self) -> list[str]:
        """Return the command that runs it; skip the test if the SDK is not installed."""
        if self.name.startswith("javascript"):
            return [str(NODE), str(A2A_JS.sources / "client.mjs"), str(A2A_JS.require().folder)]
        kit = A2A_KITS[1] if self.line == "1.0" else A2A_KITS[0]
        return [str(kit.require().python), str(KITS / f"{kit.name}_client.py")]


CLIENTS = (
    StockClient("python-1-jsonrpc", "1.0", "JSONRPC"),
    StockClient("python-1-rest", "1.0", "HTTP+JSON"),
    StockClient("python-0.3-jsonrpc", "0.3", "JSONRPC"),
    StockClient("javascript-jsonrpc", "1.0", "JSONRPC"),
    StockClient("javascript-rest", "1.0", "HTTP+JSON"),
)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    """A server that may post to this machine."""
    async with running(
        "sqlite",
        str(tmp_path / "molecule.db"),
        tmp_path,
        push_networks=("127.0.0.0/8",),
        push_instructions_enabled=True,
    ) as found:
        yield found


async def run_client(client: StockClient, base: str, token: str, hook: str) -> dict[str, Any]:
    """Run the program; return what it saw."""
    process = await asyncio.create_subprocess_exec(
        *client.command(),
        base,
        client.binding,
        hook,
        env={"A2A_TOKEN": token, "OTEL_INSTRUMENTATION_A2A_SDK_ENABLED": "false"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(2 * PROCESS_START_SECONDS):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()[-3000:]
    return dict(json.loads(out))


@requirement("HK4")
@pytest.mark.parametrize("client", CLIENTS, ids=[each.name for each in CLIENTS])
async def test_a_stock_client_sends_streams_answers_cancels_and_gets_files_and_notifications(
    client: StockClient, server: Running
) -> None:
    seat = await server.seat("Ops")
    org_id = (await server.admin.get("/orgs"))[0]["id"]
    person = await server.admin.post(f"/orgs/{org_id}/people", {"name": "A client", "role": "operator"})
    agent = asyncio.create_task(ConformanceAgent(seat.api, seat.id).run())
    is_v1 = client.line == "1.0"
    spelled = (lambda state: f"TASK_STATE_{state.upper().replace('-', '_')}") if is_v1 else str
    async with http_agent(HttpAgent()) as receiver:
        receiver.reply = lambda _pushed: answer_nothing()
        base = f"{server.url}/workspaces/{seat.id}"
        seen = await run_client(client, base, person["auth_token"], receiver.url)

        async def look() -> list[str]:
            return [state_of(each.body) for each in receiver.pushed]

        states = await eventually(look, lambda found: spelled("completed") in found)
    agent.cancel()

    assert seen["card"] == "Ops"
    assert seen["send"] == [spelled("completed"), GREETING]
    assert seen["asked"][0] == spelled("input-required")
    assert seen["answered"][:2] == [spelled("completed"), True]
    assert seen["cancel"] == spelled("canceled")
    assert seen["file"] == ["output.txt", "output"]
    assert seen["get"] == [spelled("completed"), True]
    assert seen["push"][:3] == ["mine", True, ""]
    # The first notification is the task as it is when it is sent, which on a slow machine is after the answer.
    order = [spelled(each) for each in ("input-required", "working", "completed")]
    places = [order.index(each) for each in states if each]
    assert (places, places[-1]) == (sorted(places), 2)
    assert {each.headers["x-a2a-notification-token"] for each in receiver.pushed} == {"the-token"}
    assert {each.headers["authorization"] for each in receiver.pushed} == {"Bearer the-credentials"}
    if is_v1:
        assert seen["stream"][0] == "task" and seen["stream_end"] == spelled("completed")
        assert seen["push"][3:] == ["", 1] and seen["listed"] is True
    else:
        assert seen["stream"][0] is None and seen["stream_end"] == ["completed", True]


async def answer_nothing() -> tuple[int, dict[str, str], bytes]:
    """What a receiver answers."""
    return plain(204)


def state_of(body: dict[str, Any]) -> str:
    """Return the state that a notification says, of either line; empty for a result."""
    found = body.get("task") or body.get("statusUpdate") or (body if body.get("kind") == "task" else {})
    return str(msgspec.to_builtins(found).get("status", {}).get("state", ""))
