"""A demo agent in an MCP host, like an agent in Claude Code or Codex.

It reads and answers its messages only through the tools of `molecule mcp`."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from molecule_core.common.clock import Clock
from molecule_core.common.settings import environment
from molecule_core.demo.api_rows import build_agent_card, parse_approval
from molecule_core.demo.decisions import AgentMemory, decide
from molecule_core.demo.mcp_client import McpServerProcess, ToolCallError, start_mcp_server
from molecule_core.demo.model import (
    AckAction,
    Action,
    AgentAssignment,
    AnswerAction,
    DemoMessage,
    DemoWorkspace,
    EscalateAction,
    ReportAction,
    SayAction,
    WorkAction,
)
from molecule_core.wire.schemas.activity import Intent, MessageKind

_COMMAND = (sys.executable, "-P", "-m", "molecule_core", "mcp")
_WAIT_SECONDS = 60
_RETRY_SECONDS = 1.0


class McpAgent:
    """Agent of one workspace."""

    def __init__(self, seat: DemoWorkspace, tools: McpServerProcess, clock: Clock) -> None:
        self._seat = seat
        self._tools = tools
        self._clock = clock

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Update the agent card, then handle messages for ever. Raises McpServerEndedError.

        The first look into the inbox registers the agent, which could overwrite an earlier card."""
        result = await self._call_until_answered(lambda: self._tools.call_tool("wait_for_message", timeout_secs=0))
        await self._call_until_answered(
            lambda: self._tools.call_tool("update_agent_card", card=build_agent_card(self._seat))
        )
        on_ready()
        while True:
            if result["message"] is not None:
                await self._handle_message(message_from_tool(result["message"]))
            result = await self._call_until_answered(
                lambda: self._tools.call_tool("wait_for_message", timeout_secs=_WAIT_SECONDS)
            )

    async def _handle_message(self, message: DemoMessage) -> None:
        """Handle a message.

        A specialist needs no memory: an unacknowledged message is delivered again, also after a restart."""
        for action in decide(self._seat, AgentMemory(), message).actions:
            try:
                await self._perform_action(action, message)
            except ToolCallError as error:  # a peer may have been removed
                sys.stderr.write(f"{self._seat.name}: {error}\n")

    async def _perform_action(self, action: Action, about: DemoMessage) -> None:
        answers = {"activity_id": about.id, "attempt": about.attempt}
        match action:
            case WorkAction():
                await self._clock.wait(asyncio.get_running_loop().create_future(), action.seconds)
            case SayAction():
                await self._tools.call_tool("reply_to_workspace", text=action.text, **answers)
            case AnswerAction():
                await self._tools.call_tool("reply_to_workspace", peer_id=about.sender, text=action.text, **answers)
            case ReportAction():
                fields = {"current_step": action.step, "percent": action.percent}
                await self._tools.call_tool("report_progress", task_id=action.delegation_id, **fields)
            case AckAction():
                await self._tools.call_tool("inbox_pop", **answers)
            case EscalateAction():
                approval = action.approval
                fields = {
                    "approval_id": approval.id,
                    "revision": approval.revision,
                    "action_hash": approval.action_hash,
                }
                await self._tools.call_tool("decide_approval", decision="escalate", note=action.note, **fields)
            case _:  # a specialist does not delegate, and one in a host asks for no approvals
                raise AssertionError(action)

    async def _call_until_answered(self, call: Callable[[], Any]) -> Any:
        """Retry until the tool answers: the server of the company may be unreachable."""
        while True:
            try:
                return await call()
            except ToolCallError as error:
                sys.stderr.write(f"{self._seat.name}: {error}\n")
            await self._clock.wait(asyncio.get_running_loop().create_future(), _RETRY_SECONDS)


def message_from_tool(fields: dict[str, Any]) -> DemoMessage:
    """Build a message from the result of `wait_for_message`."""
    approval = fields.get("kind") == MessageKind.APPROVAL_REQUEST
    return DemoMessage(
        id=fields["activity_id"],
        attempt=fields.get("attempt", 0),
        text=fields["text"],
        sender=fields.get("peer_id") or None,
        delegation_id=fields.get("delegation_id", ""),
        wants_answer=fields.get("intent", Intent.REQUEST) == Intent.REQUEST and not approval,
        approval=parse_approval({"status": "pending", **fields}) if approval else None,
        needs_decision=approval,
    )


async def run_mcp_agent(
    assignment: AgentAssignment, clock: Clock, on_ready: Callable[[], None], *, lease: int, beat: float
) -> None:
    """Run `molecule mcp` and the agent of a workspace. `lease`, `beat`: seconds, as for the other agents.

    Raises McpServerEndedError."""
    own = {
        "WORKSPACE_ID": assignment.workspace_id,
        "MOLECULE_WORKSPACE_TOKEN": assignment.token,
        "PLATFORM_URL": assignment.url,
        "CONFIGS_DIR": assignment.folder,
        "MOLECULE_AGENT_NAME": assignment.seat.name,
        "MOLECULE_MCP_LEASE_SECONDS": str(lease),
        "MOLECULE_MCP_HEARTBEAT_SECONDS": str(beat),
    }
    async with start_mcp_server(_COMMAND, {**environment(), **own}) as tools:
        await McpAgent(assignment.seat, tools, clock).run(on_ready)
