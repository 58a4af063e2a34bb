"""The process of one demo agent: `python -m molecule_core.demo.agent`.

Its first line of standard input is its `SeatAssignment` as JSON, so that the token is neither in the arguments nor in
the environment. It prints `seated` on standard output once it is registered. It ends when its input ends, which is when
its parent process has ended, also after a kill -9."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.clock import Clock, SystemClock
from molecule_core.demo.api_rows import build_agent_card, parse_approval, parse_message_row, parse_peer_row
from molecule_core.demo.decisions import (
    AgentMemory,
    Reaction,
    current_tasks,
    decide,
    on_approval,
    on_approval_rejected,
    on_delegated,
    on_delegation_rejected,
)
from molecule_core.demo.engine_agent import LOG_FILE, EngineEndedError, run_engine_agent
from molecule_core.demo.heartbeat import HEARTBEAT_SECONDS, HeartbeatSender, WorkspaceLostError
from molecule_core.demo.mcp_agent import run_mcp_agent
from molecule_core.demo.mcp_client import McpServerEndedError
from molecule_core.demo.model import (
    MICROS,
    AckAction,
    Action,
    AgentAssignment,
    AnswerAction,
    AskApprovalAction,
    DelegateAction,
    DemoApproval,
    DemoFile,
    DemoMessage,
    DemoPeer,
    EscalateAction,
    ReportAction,
    ReportCostAction,
    SayAction,
    UseApprovalAction,
    WithdrawAction,
    WorkAction,
)
from molecule_core.demo.prompt_agent import watch_prompt
from molecule_core.demo.push_agent import PushAgent
from molecule_core.demo.stdout_agent import BridgeEndedError, run_stdout_agent
from molecule_core.demo.text_analysis import split_words
from molecule_core.wire.schemas.activity import Intent

T = TypeVar("T")
READY_LINE = "seated"
# 5 s: agents in a host release nothing when they are killed, and a person should not wait long for the restart.
HOSTED_LEASE_SECONDS = 5
# 60 s: longer than a team takes, since each redelivery counts as a new attempt. Claims of a previous run are released
# at the next start.
_LEASE_SECONDS = 60
_WAIT_SECONDS = 25
_RETRY_SECONDS = 1.0
# 20: a page is handled before the next is claimed, so the last rows of a long one would wait.
_PAGE_SIZE = 20
_MAX_LEFTOVERS = 500
_MAX_ASSIGNMENT_BYTES = 1 << 20
# 409: the same was done before with other content, or a later delivery of the message counts.
_DONE_BEFORE = 409
# The one transient error that waiting does not resolve.
_FULL_TREE = "delegation_limit"


class DemoAgent:
    """Agent of one workspace: claims messages, decides, acts, and sends heartbeats meanwhile."""

    def __init__(self, assignment: AgentAssignment, api: ApiClient, clock: Clock) -> None:
        self._seat = assignment.seat
        self._id = assignment.workspace_id
        self._api = api
        self._clock = clock
        self._parent_id: str | None = None
        self._state = AgentMemory()
        self._heartbeat = HeartbeatSender(self._id, api, clock)

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Register, call `on_ready`, then handle messages for ever. Ends only by raising SeatLostError."""
        body = {"id": self._id, "agent_card": build_agent_card(self._seat), "delivery_mode": "poll"}
        await self._call_as_owner(lambda: self._api.post("/registry/register", body))
        self._parent_id = (await self._call_as_owner(lambda: self._api.get(f"/workspaces/{self._id}")))["parent_id"]
        await self._call_as_owner(self._release_leftovers)
        on_ready()
        heartbeat_task = asyncio.create_task(self._heartbeat.send_heartbeats())
        try:
            while True:
                for row in await self._call_as_owner(self._claim_messages):
                    await self._handle_message(parse_message_row(row))
        finally:
            heartbeat_task.cancel()
            await asyncio.wait((heartbeat_task,))

    # -- messages ------------------------------------------------------------------------------------------------------

    async def _release_leftovers(self) -> None:
        """Release the claims of a previous run, so that they need not wait for the end of their lease."""
        rows = await self._api.get(f"/workspaces/{self._id}/activity", waiting="true", limit=_MAX_LEFTOVERS)
        claims = [{"activity_id": row["id"], "attempt": row["attempt"]} for row in rows if row.get("attempt")]
        if claims:
            await self._api.post(f"/workspaces/{self._id}/activity/release", {"claims": claims})

    async def _claim_messages(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = await self._api.claim(
            self._id, lease=_LEASE_SECONDS, wait=_WAIT_SECONDS, limit=_PAGE_SIZE, include="instructions"
        )
        return rows

    async def _handle_message(self, message: DemoMessage) -> None:
        peers = await self._list_peers() if message.wants_answer else []
        await self._apply_reaction(decide(self._seat, self._state, message, peers))
        self._heartbeat.set_current_task(None)

    async def _apply_reaction(self, reaction: Reaction) -> None:
        self._state = reaction.state
        self._heartbeat.set_waiting(current_tasks(self._state))
        for action in reaction.actions:
            await self._perform_action(action)

    async def _list_peers(self) -> list[DemoPeer]:
        rows = await self._call_as_owner(lambda: self._api.get(f"/registry/{self._id}/peers"))
        return [parse_peer_row(row, self._id, self._parent_id) for row in rows]

    async def _perform_action(self, action: Action) -> None:
        match action:
            case WorkAction():
                self._heartbeat.set_current_task(action.task)
                await self._clock.wait(_never_done(), action.seconds)
            case SayAction():
                await self._call_once(lambda: self._notify_user(action))
            case AnswerAction():
                await self._call_once(lambda: self._answer_peer(action))
            case ReportCostAction():
                await self._call_once(lambda: self._report_cost(action))
            case DelegateAction():
                await self._apply_reaction(await self._delegate(action))
            case ReportAction():
                await self._report_progress(action)
            case AskApprovalAction():
                await self._apply_reaction(await self._ask_approval(action))
            case EscalateAction():
                body = {"decision": "escalate", "note": action.note, "revision": action.approval.revision}
                await self._call_once(lambda: self._post_approval(action.approval, "decide", body))
            case UseApprovalAction():
                body = {"action_hash": action.approval.action_hash}
                await self._call_once(lambda: self._post_approval(action.approval, "use", body))
            case WithdrawAction():
                await self._call_once(lambda: self._post_approval(action.approval, "withdraw", {"note": action.note}))
            case AckAction():
                handled = {"id": action.message.id, "attempt": action.message.attempt}
                await self._call_once(lambda: self._api.ack(self._id, handled))

    async def _notify_user(self, action: SayAction) -> Any:
        headers = {"idempotency-key": action.key}
        body = {"message": action.text, "in_reply_to": action.answers, "progress": action.progress}
        return await self._api.call("POST", f"/workspaces/{self._id}/notify", body=body, headers=headers)

    async def _answer_peer(self, action: AnswerAction) -> Any:
        """Answer by the reply handle, or with a new message if the message has none."""
        message = action.message
        if message.handle:
            files = [] if action.file is None else await self._upload_file(action.file)
            reply = {"handle": message.handle, "text": action.text, "attachments": files}
            return await self._api.post(f"/workspaces/{self._id}/reply", reply)
        return await self._api.post(f"/workspaces/{message.sender}/a2a", _envelope(message, action.text))

    async def _upload_file(self, file: DemoFile) -> Any:
        path = f"/workspaces/{self._id}/chat/uploads"
        uploaded = await self._api.upload(path, file.name, file.content.encode(), "application/json")
        return uploaded["files"]

    async def _report_cost(self, action: ReportCostAction) -> Any:
        """Report what an answer has cost, with its words as tokens."""
        report = {
            "key": f"answer-{action.message.id}",
            "activity_id": action.message.id,
            "model": "scripted",
            "input_tokens": len(split_words(action.message.text)),
            "output_tokens": len(split_words(action.text)),
            "cost_micros": round(action.cost * MICROS),
        }
        return await self._api.post(f"/workspaces/{self._id}/usage", report)

    async def _delegate(self, action: DelegateAction) -> Reaction:
        """Delegate a task; return the reaction to its start or its rejection."""
        task = {"target_id": action.to, "task": action.text, "in_reply_to": action.about}
        if self._seat.accept:
            task["accept"] = msgspec.to_builtins(self._seat.accept)
        headers = {"idempotency-key": action.key}
        path = f"/workspaces/{self._id}/delegate"
        try:
            receipt = await self._call_until_answered(lambda: self._api.call("POST", path, body=task, headers=headers))
        except ApiError as error:
            return on_delegation_rejected(self._seat, self._state, action, f"{error.problem.get('error', error)}")
        return on_delegated(self._seat, self._state, action, receipt["delegation_id"])

    async def _ask_approval(self, action: AskApprovalAction) -> Reaction:
        """Ask for an approval; return the reaction to its status or to the rejection."""
        body = {"action": action.action, "reason": action.reason, "details": {"task": action.task}}
        headers = {"idempotency-key": action.key}
        path = f"/workspaces/{self._id}/approvals"
        try:
            item = await self._call_until_answered(lambda: self._api.call("POST", path, body=body, headers=headers))
        except ApiError as error:
            return on_approval_rejected(self._state, action, f"{error.problem.get('error', error)}")
        approval = parse_approval(item)
        if approval is None:
            return on_approval_rejected(self._state, action, "the response of the server cannot be read")
        return on_approval(self._seat, self._state, action, approval)

    async def _post_approval(self, approval: DemoApproval, verb: str, body: dict[str, Any]) -> Any:
        return await self._api.post(f"/workspaces/{self._id}/approvals/{approval.id}/{verb}", body)

    async def _report_progress(self, report: ReportAction) -> None:
        """Report progress without retrying: the next report makes up for a lost one."""
        body = {"current_step": report.step, "percent": report.percent}
        with suppress(NoAnswerError, ApiError):
            await self._api.post(f"/delegations/{report.delegation_id}/status", body)

    # -- retries -------------------------------------------------------------------------------------------------------

    async def _call_as_owner(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call the API about the agent's own workspace. Raises SeatLostError if the server rejects the call."""
        try:
            return await self._call_until_answered(call)
        except ApiError as error:
            raise WorkspaceLostError(str(error)) from error

    async def _call_once(self, call: Callable[[], Awaitable[Any]]) -> None:
        """Call the API; report an error unless the same was done before. A peer may have been removed."""
        try:
            await self._call_until_answered(call)
        except ApiError as error:
            if error.status != _DONE_BEFORE:
                sys.stderr.write(f"{self._seat.name}: {error}\n")

    async def _call_until_answered(self, call: Callable[[], Awaitable[T]]) -> T:
        """Retry until the server answers. Raises ApiError for permanent errors."""
        while True:
            try:
                return await call()
            except NoAnswerError:
                pass
            except ApiError as error:
                if not error.is_transient or error.code == _FULL_TREE:
                    raise
            await self._clock.wait(_never_done(), _RETRY_SECONDS)


def _envelope(request: DemoMessage, text: str) -> dict[str, Any]:
    key = f"answer-{request.id}"
    message = {
        "role": "agent",
        "messageId": key,
        "parts": [{"kind": "text", "text": text}],
        "metadata": {"intent": Intent.INFORM, "in_reply_to": request.id},
    }
    return {"jsonrpc": "2.0", "id": key, "method": "message/send", "params": {"message": message}}


def _never_done() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


# -- process -----------------------------------------------------------------------------------------------------------


async def _standard_input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_MAX_ASSIGNMENT_BYTES)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    return reader


def _announce_ready() -> None:
    os.write(sys.stdout.fileno(), f"{READY_LINE}\n".encode())


async def _run_until_eof(assignment: AgentAssignment, stdin: asyncio.StreamReader) -> None:
    """Run the agent until the input ends. Raises SeatLostError."""
    agent_task = asyncio.create_task(_run_agent(assignment))
    eof_task = asyncio.create_task(stdin.read())
    await asyncio.wait((agent_task, eof_task), return_when=asyncio.FIRST_COMPLETED)
    if agent_task.done():
        agent_task.result()
    agent_task.cancel()
    await asyncio.wait((agent_task,))


async def _run_agent(assignment: AgentAssignment) -> None:
    """Run the agent in the way of its host. Raises SeatLostError."""
    clock = SystemClock()
    if assignment.seat.host == "mcp":
        try:
            await run_mcp_agent(assignment, clock, _announce_ready, lease=HOSTED_LEASE_SECONDS, beat=HEARTBEAT_SECONDS)
        except McpServerEndedError:
            raise WorkspaceLostError("`molecule mcp` has exited; its output is above") from None
    if assignment.seat.host == "stdout":
        try:
            await run_stdout_agent(
                assignment, clock, _announce_ready, lease=HOSTED_LEASE_SECONDS, beat=HEARTBEAT_SECONDS
            )
        except BridgeEndedError:
            raise WorkspaceLostError("`molecule bridge` has exited; its output is above") from None
    if assignment.seat.host == "agent":
        try:
            await run_engine_agent(
                assignment, clock, _announce_ready, lease=HOSTED_LEASE_SECONDS, beat=HEARTBEAT_SECONDS
            )
        except EngineEndedError:
            log = Path(assignment.folder) / LOG_FILE
            raise WorkspaceLostError(f"`molecule agent run` has exited; its output is in {log}") from None
    async with ApiClient(assignment.url, assignment.token) as api:
        agent = (
            PushAgent(assignment, api, clock) if assignment.seat.host == "push" else DemoAgent(assignment, api, clock)
        )
        async with watch_prompt(assignment):
            await agent.run(_announce_ready)


async def main() -> str | None:
    """Run one agent. Return why it ended, or None if it was asked to."""
    stdin = await _standard_input()
    line = await stdin.readline()
    if not line:
        return None  # the parent process ended before it wrote the assignment
    assignment = msgspec.json.decode(line, type=AgentAssignment)
    try:
        await _run_until_eof(assignment, stdin)
    except WorkspaceLostError as error:
        return f"{assignment.seat.name} has lost access to its workspace: {error}"
    return None


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
