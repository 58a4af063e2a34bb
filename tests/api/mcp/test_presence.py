"""An agent at the server's own endpoint, and one of LangChain, are present as one behind `molecule mcp` is."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from molecule_core.langchain import Toolkit
from molecule_core.tools.registry import TOOLS
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.mcp_clients import ERAS, Era, hosted, until_answering, within
from testing.running_server import Running, Seat, running
from testing.waits import eventually
from testing.workspaces import beat, status_of
from tests.requirements import requirement

pytestmark = pytest.mark.parametrize("engine", ["sqlite"])
NAMES = [spec.name for spec in TOOLS]


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Era:
    """Each era of the protocol in turn."""
    chosen: Era = request.param
    return chosen


async def card_of(server: Running, seat: Seat) -> dict[str, Any]:
    """The card of a workspace's agent; empty if it has none."""
    return (await server.admin.get(f"/workspaces/{seat.id}"))["agent_card"] or {}


@contextlib.asynccontextmanager
async def asking(call: Any) -> AsyncIterator[asyncio.Task[Any]]:
    """A call under way, until the block ends."""
    task = asyncio.ensure_future(call)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@requirement("M2")
async def test_an_agent_at_the_endpoint_is_online_with_the_tools_that_it_listed(server: Running, era: Era) -> None:
    ops = await server.seat("Ops", external=True)
    assert await status_of(server.admin, ops)() == "awaiting_agent"

    async with hosted(server, ops.token, era) as host:
        assert await status_of(server.admin, ops)() == "online"
        await host.client.list_tools()
        assert await card_of(server, ops) == {"name": "Ops", "loaded_mcp_tools": NAMES}


@requirement("M2")
async def test_an_agent_that_waits_for_a_message_stays_online_and_one_that_left_does_not(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock) as server:
        ops, stands = (seat := await server.seat("Ops")), status_of(server.admin, seat)
        async with hosted(server, ops.token, "stateless") as host:
            async with asking(host.call("wait_for_message", timeout_secs=300)):
                await until_answering(server, 1)
                for _ in range(13):  # 195 s, of which an agent may be silent for 90
                    await clock.advance(15)
                    assert await stands() == "online"
            await until_answering(server, 0)

        for _ in range(7):
            await clock.advance(15)
        assert await eventually(stands, lambda status: status != "online") == "offline"


@requirement("M2")
async def test_an_approver_at_the_endpoint_is_asked(server: Running) -> None:
    lead = await server.seat("Lead")
    ops = await server.seat("Ops", parent_id=lead.id)
    body = {"action": "deploy", "reason": "it is late"}
    async with hosted(server, lead.token, "handshake") as host:
        asked = await ops.api.post(f"/workspaces/{ops.id}/approvals", body)
        message = (await host.call("wait_for_message", timeout_secs=1))["message"]
    assert asked["holder"]["name"] == "Lead"
    assert "it is late" in message["text"]


@requirement("M2")
async def test_what_a_runtime_reports_stays_when_another_program_uses_the_workspace(server: Running) -> None:
    ops = await server.seat("Ops")
    card = {"name": "Ops' runtime", "loaded_mcp_tools": ["wait_for_message", "reply"]}
    await ops.api.post("/registry/register", {"id": ops.id, "agent_card": card})
    await beat(ops, active_tasks=2, current_task="sorting", error_rate=0.9)

    async with hosted(server, ops.token, "handshake") as host:
        await host.client.list_tools()
        await host.call("inbox_peek")

    row = await server.admin.get(f"/workspaces/{ops.id}")
    assert row["agent_card"] == card
    assert (row["status"], row["active_tasks"]) == ("degraded", 2)
    assert server.server.registry.last_heartbeat(ops.id).current_task == "sorting"


@requirement("M2")
async def test_the_endpoint_replaces_what_a_runtime_reported_that_has_ended(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock) as server:
        ops = await server.seat("Ops")
        await ops.api.post("/registry/register", {"id": ops.id, "agent_card": {"loaded_mcp_tools": ["reply"]}})
        await beat(ops, active_tasks=2)
        await clock.advance(106)
        await eventually(status_of(server.admin, ops), lambda status: status == "offline")

        async with hosted(server, ops.token, "handshake") as host:
            await host.client.list_tools()

        row = await server.admin.get(f"/workspaces/{ops.id}")
        assert (row["status"], row["active_tasks"], row["agent_card"]["loaded_mcp_tools"]) == ("online", 0, NAMES)


@requirement("M2")
async def test_a_paused_workspace_stays_paused_whatever_its_agent_calls(server: Running, era: Era) -> None:
    ops = await server.seat("Ops")
    await server.admin.post(f"/workspaces/{ops.id}/pause")

    async with hosted(server, ops.token, era) as host:
        await host.client.list_tools()

    assert await status_of(server.admin, ops)() == "paused"


@requirement("M2", "G1")
async def test_a_langchain_agent_is_online_with_its_tools_while_it_waits(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=within(silence_seconds=3)) as server:
        ops = await server.seat("Ops", external=True)
        own = {"WORKSPACE_ID": ops.id, "MOLECULE_WORKSPACE_TOKEN": ops.token, "PLATFORM_URL": server.url}
        environ = {**own, "CONFIGS_DIR": str(tmp_path), "MOLECULE_MCP_HEARTBEAT_SECONDS": "1"}

        async def heard_at() -> int:
            return server.server.registry.last_heartbeat(ops.id).heard_at

        with Toolkit(environ) as kit:
            (wait,) = (tool for tool in kit.tools if tool.name == "wait_for_message")
            assert await status_of(server.admin, ops)() == "awaiting_agent"
            async with asking(wait.ainvoke({"timeout_secs": 300})):
                await eventually(status_of(server.admin, ops), lambda status: status == "online")
                assert await card_of(server, ops) == {"name": "Ops", "loaded_mcp_tools": NAMES}
                first = await heard_at()
                assert await eventually(heard_at, lambda at: at > first) > first
