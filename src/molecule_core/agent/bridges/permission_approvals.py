"""Requests approvals for the permissions that a session's program asks for, and waits for the decisions.

The details are the whole input, so that a person may approve another one. An approval is used up before the program is
allowed anything, and those of a killed bridge are withdrawn at the next start.
"""

import logging
from typing import Any

import msgspec

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.bridges.session_store import SessionStore
from molecule_core.agent.bridges.sessions import PermissionDecision, ToolPermission
from molecule_core.agent.host.host_approvals import HostApprovals
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.tools.runners.approval_tools import ApprovalSummary
from molecule_core.tools.spec import ToolError
from molecule_core.wire.schemas.approvals import ApprovalStatus

_log = logging.getLogger("molecule.bridge")
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
_MAX_REASON = 1000
_TOOL_KEY, _INPUT_KEY, _PREVIEW_KEY, _REMEMBER_KEY = "tool", "input", "input_preview", "remember"


class PermissionApprovals:
    """Approvals of one workspace's bridge. `max_bytes`: longest input that the details of an approval hold."""

    def __init__(
        self,
        approvals: HostApprovals,
        store: SessionStore,
        *,
        clock: Clock,
        randomness: Randomness,
        max_bytes: int,
    ) -> None:
        self._approvals = approvals
        self._store = store
        self._clock = clock
        self._randomness = randomness
        self._max_bytes = max_bytes

    async def withdraw_left(self) -> None:
        """Withdraw the approvals of an earlier process: its program has ended, so nothing waits for them."""
        for approval_id in self._store.open_approvals:
            await self._withdraw(approval_id)

    async def decide(self, request: ToolPermission, turn_id: str, message_text: str) -> PermissionDecision:
        """Request an approval and wait for its decision; cancelled, withdraw it. Never raises for a server error.

        Without a known approval nothing is allowed. `message_text`: what the turn works on, for the person."""
        approval_id = ""
        try:
            approval = await self._request(request, turn_id, message_text)
            approval_id = approval.approval_id
            self._store.add_approval(approval_id)
            approval = await self._approvals.wait_for_decision(request.tool, approval)
            decision = await self._to_decision(request, approval, turn_id)
            self._store.remove_approval(approval_id)
            return decision
        except ToolError as error:
            reason = sanitize_line(error.text, _MAX_REASON)
            _log.warning("permission for %s cannot be decided: %s", request.tool, reason)
            return PermissionDecision(
                is_allowed=False, reason=f"The permission could not be requested: {reason} Do not try another way."
            )
        except BaseException:
            if approval_id:
                await self._withdraw(approval_id)
            raise

    async def _request(self, request: ToolPermission, turn_id: str, message_text: str) -> ApprovalSummary:
        """Request the approval, also while the server is away; retries return the same one. Raises ToolError."""
        key, back_off = _key("permission", turn_id, request), BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        reason, details = _reason(request, message_text), self._details(request)
        while True:
            try:
                return await self._approvals.request(
                    key, source="host", tool=request.tool, reason=reason, details=details
                )
            except ToolError as error:
                if not error.is_transient:
                    raise
            await sleep(self._clock, back_off.next_delay())

    async def _to_decision(
        self, request: ToolPermission, approval: ApprovalSummary, turn_id: str
    ) -> PermissionDecision:
        if approval.status != ApprovalStatus.APPROVED:
            return PermissionDecision(is_allowed=False, reason=_denial(approval))
        edited_input, is_remembered = None, False
        if approval.edited is not None:
            if _is_edit(approval.details, request.tool) and approval.details[_INPUT_KEY] != request.tool_input:
                edited_input = approval.details[_INPUT_KEY]
            if not _is_edit(approval.details, request.tool) or (edited_input is not None and not request.can_edit):
                return PermissionDecision(
                    is_allowed=False, reason="The approver changed the details, and this tool cannot run them changed."
                )
            is_remembered = approval.details.get(_REMEMBER_KEY) is True
        if not await self._approvals.use(_key("use", turn_id, request), approval):
            return PermissionDecision(is_allowed=False, reason="The approval was used already.")
        return PermissionDecision(is_allowed=True, edited_input=edited_input, is_remembered=is_remembered)

    async def _withdraw(self, approval_id: str) -> None:
        """Withdraw an approval, now or at the next start."""
        if await self._approvals.withdraw(approval_id, "the turn has ended"):
            self._store.remove_approval(approval_id)

    def _details(self, request: ToolPermission) -> dict[str, Any]:
        """Return the details of the approval; a person may set `remember` to allow the same for good."""
        encoded = msgspec.json.encode(request.tool_input)
        if len(encoded) > self._max_bytes:
            preview = encoded[: self._max_bytes // 2].decode(errors="ignore")
            return {_TOOL_KEY: request.tool, _PREVIEW_KEY: preview, "input_bytes": len(encoded)}
        details = {_TOOL_KEY: request.tool, _INPUT_KEY: request.tool_input}
        return {**details, _REMEMBER_KEY: False} if request.suggestions else details


def _reason(request: ToolPermission, message_text: str) -> str:
    title = sanitize_line(request.title, _MAX_REASON // 2)
    about = sanitize_line(message_text, 200)
    return f"{title or request.tool}. The agent works on the message: {about}" if about else title or request.tool


def _key(what: str, turn_id: str, request: ToolPermission) -> str:
    return f"{what}:{turn_id}:{request.request_id}"[:128]


def _is_edit(details: dict[str, Any], tool: str) -> bool:
    return details.get(_TOOL_KEY) == tool and _INPUT_KEY in details


def _denial(approval: ApprovalSummary) -> str:
    """Return the reason of a denial for the model."""
    decided = approval.decided
    if approval.status == ApprovalStatus.DENIED and decided is not None:
        name = sanitize_line(decided.by.name or "the approver", 100)
        note = sanitize_line(decided.note, _MAX_REASON)
        return f"{name} says: {note}" if note else f"{name} denied it. Do not try another way."
    return f"The approval is {approval.status}. Do not try another way."
