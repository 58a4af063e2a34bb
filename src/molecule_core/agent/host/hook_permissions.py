"""Relays the permission prompts of a host to the platform, from its hooks: with the whole input of the tool.

The decision goes back with its reason, and with the input that the approver has edited. The host's own dialog stays
open beside it; the first decision counts. A decision in the terminal is noticed at the next hook that follows from it.
"""

import asyncio
import contextlib
import logging
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.agent.host.hook_events import HookEvent
from molecule_core.agent.host.host_approvals import HostApprovals
from molecule_core.agent.host.permission_relay import ALLOW, DENY, HOST_ENDED
from molecule_core.agent.host.tool_scopes import ToolScopes
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.common.ids import IdGenerator
from molecule_core.tools.runners.approval_tools import ApprovalSummary, is_open
from molecule_core.tools.spec import ToolError
from molecule_core.wire.schemas.approvals import ApprovalStatus

_DECIDED_AT_HOST = "decided at the host"
_INPUT = "input"
_MAX_REASON = 1000
_log = logging.getLogger("molecule.agent")


class OpenPermission(Struct, eq=False):
    """A permission prompt that is open. `is_decided_at_host`: the person decided in the terminal."""

    tool: str
    tool_input: bytes
    task: "asyncio.Task[dict[str, Any]]"
    is_decided_at_host: bool = False


class HookPermissions:
    """Relay of one session."""

    def __init__(self, approvals: HostApprovals, scopes: ToolScopes, ids: IdGenerator) -> None:
        self._approvals = approvals
        self._scopes = scopes
        self._ids = ids
        self._open: list[OpenPermission] = []

    async def decide(self, event: HookEvent) -> dict[str, Any]:
        """Return the output of a PermissionRequest hook; {} if nothing was decided on the platform."""
        task = asyncio.create_task(self._relay(event))
        permission = OpenPermission(event.tool_name, _encode(event.tool_input), task)
        self._open.append(permission)
        try:
            return await task
        except asyncio.CancelledError:
            if not permission.is_decided_at_host:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise
            return {}
        finally:
            self._open.remove(permission)

    def close_used(self, event: HookEvent) -> None:
        """Close the prompt of a tool that has run: its person allowed it in the terminal."""
        used = _encode(event.tool_input)
        match = next((each for each in self._open if (each.tool, each.tool_input) == (event.tool_name, used)), None)
        if match is not None:
            _close(match)

    def close_all(self) -> None:
        """Close all prompts: the person has gone on in the terminal."""
        for each in self._open:
            _close(each)

    async def _relay(self, event: HookEvent) -> dict[str, Any]:
        key, tool = f"hook:{self._ids.new()}", sanitize_line(event.tool_name, 200)
        if denial := await self._scopes.find_denial(tool):
            return _output({"behavior": DENY, "message": denial})
        approval = None
        try:
            approval = await self._approvals.request(
                key,
                source="host",
                tool=tool,
                reason=_reason_of(event.tool_input),
                details={"tool": tool, _INPUT: event.tool_input},
            )
            approval = await self._approvals.wait_for_decision(tool, approval)
            return await self._to_output(key, event, approval)
        except ToolError as error:
            _log.warning(
                "permission for %s is not decided on the platform; the host's own dialog stays open: %s",
                tool,
                sanitize_line(error.text, 300),
            )
            return {}
        except asyncio.CancelledError:
            if approval is not None and is_open(approval):
                note = _DECIDED_AT_HOST if self._is_decided_at_host() else HOST_ENDED
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.shield(self._approvals.withdraw(approval.approval_id, note))
            raise

    def _is_decided_at_host(self) -> bool:
        current = asyncio.current_task()
        return any(each.task is current and each.is_decided_at_host for each in self._open)

    async def _to_output(self, key: str, event: HookEvent, approval: ApprovalSummary) -> dict[str, Any]:
        """Return the decision as the host reads it. An approval is used up before. Raises ToolError."""
        if approval.status == ApprovalStatus.APPROVED:
            if not await self._approvals.use(key, approval):
                return _output({"behavior": DENY, "message": "The approval was used already."})
            edited = None if approval.edited is None else approval.edited.get(_INPUT)
            if approval.edited is not None and not isinstance(edited, dict):
                return _output({"behavior": DENY, "message": f"{_decider(approval)} approved other details only."})
            return _output({"behavior": ALLOW, **({} if edited is None else {"updatedInput": edited})})
        if approval.status in (ApprovalStatus.DENIED, ApprovalStatus.EXPIRED):
            return _output({"behavior": DENY, "message": _denial(event, approval)})
        return {}


def _close(permission: OpenPermission) -> None:
    permission.is_decided_at_host = True
    permission.task.cancel()


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _reason_of(tool_input: Any) -> str:
    """Return what the model says about the call, as some tools require it."""
    description = tool_input.get("description") if isinstance(tool_input, dict) else None
    return sanitize_line(description, _MAX_REASON) if isinstance(description, str) else ""


def _decider(approval: ApprovalSummary) -> str:
    name = approval.decided.by.name if approval.decided is not None else ""
    return sanitize_line(name) or "A person"


def _denial(event: HookEvent, approval: ApprovalSummary) -> str:
    if approval.status == ApprovalStatus.EXPIRED:
        return f"The approval of {sanitize_line(event.tool_name)} expired without a decision, which counts as denied."
    note = approval.decided.note.strip() if approval.decided is not None else ""
    return f"{_decider(approval)} denied this." + (f" Reason: {note}" if note else "")


def _output(decision: dict[str, Any]) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}
