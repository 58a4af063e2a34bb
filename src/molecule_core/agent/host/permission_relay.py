"""Relays the host's permission requests to the platform as approvals.

The first decision counts, whether made at the host or on the platform. Only decisions are sent to the host: if the
server cannot be reached, the host's own dialog stays open and a warning is logged.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

from msgspec import Struct

from molecule_core.agent.async_utils import is_cancelling, sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.tools.runners import approval_tools
from molecule_core.tools.runners.message_tools import idempotency_headers
from molecule_core.tools.runners.requester import Requester
from molecule_core.tools.spec import ToolError

PERMISSION_CAPABILITY = "claude/channel/permission"
PERMISSION_METHOD = "notifications/claude/channel/permission_request"
DECISION_METHOD = "notifications/claude/channel/permission"
ACTION_PREFIX = "permission:"
"""Prefix of the action of such an approval; the name of the host's tool follows."""
ALLOW, DENY = "allow", "deny"
_MAX_PENDING = 100
_WAIT_SECONDS = 20
# Error codes of the server for an approval that allows nothing, or nothing more.
_DENYING_CODES = ("not_approved", "approval_changed", "approval_used")
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 30.0
_log = logging.getLogger("molecule.agent")
Notify = Callable[[str, dict[str, Any]], Awaitable[None]]


class PermissionRequest(Struct, frozen=True):
    """A host's permission request. All fields are untrusted text of the host and its model."""

    request_id: str
    tool_name: str
    description: str
    input_preview: str


class PendingPermissions:
    """The latest permission requests, oldest first. `is_relayed`: whether they are also requested on the platform."""

    def __init__(self, *, is_relayed: bool = True) -> None:
        self._is_relayed = is_relayed
        self._recent: deque[PermissionRequest] = deque(maxlen=_MAX_PENDING)
        self._queue: asyncio.Queue[PermissionRequest] = asyncio.Queue(_MAX_PENDING)

    @property
    def recent_requests(self) -> tuple[PermissionRequest, ...]:
        """Return the recent permission requests."""
        return tuple(self._recent)

    def add_request(self, params: dict[str, Any]) -> PermissionRequest | None:
        """Queue and log a request; None if it has no id. Never blocks the host's next line."""
        request = PermissionRequest(*(_text(params.get(name)) for name in PermissionRequest.__struct_fields__))
        if not request.request_id:
            return None
        self._recent.append(request)
        _log.info(
            "the host asks for permission %s: %s (%s)", request.request_id, request.tool_name, request.description
        )
        if not self._is_relayed:
            _log.warning("permission %s is not relayed: no workspace is set for it", request.request_id)
        elif self._queue.full():
            _log.warning("permission %s is not relayed: too many wait; the host's own dialog stays", request.request_id)
        else:
            self._queue.put_nowait(request)
        return request

    async def iter_requests(self) -> AsyncIterator[PermissionRequest]:
        """Yield each request once, as it arrives."""
        while True:
            yield await self._queue.get()


class PermissionRelay:
    """Relay between a host's permission requests and approvals of one workspace.

    `process_key`: distinguishes this process from earlier ones, whose hosts may have used the same request ids.
    """

    def __init__(
        self,
        workspace_id: str,
        requester: Requester,
        notify: Notify,
        *,
        process_key: str,
        clock: Clock,
        randomness: Randomness,
    ) -> None:
        self._workspace_id = workspace_id
        self._requester = requester
        self._notify = notify
        self._process_key = process_key
        self._clock = clock
        self._randomness = randomness
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._approvals: dict[str, approval_tools.ApprovalSummary] = {}

    async def run(self, permissions: PendingPermissions) -> None:
        """Relay until cancelled; each request in its own task, so that none waits for another's decision."""
        async for request in permissions.iter_requests():
            if request.request_id in self._tasks:  # the host repeats the same request
                continue
            task = self._tasks[request.request_id] = asyncio.create_task(self._relay_request(request))
            task.add_done_callback(partial(self._on_task_done, request.request_id))

    def _on_task_done(self, request_id: str, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(request_id, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("permission %s could not be relayed", request_id, exc_info=error)

    async def stop(self, seconds: float) -> None:
        """Withdraw undecided approvals when the host ends, waiting at most `seconds`."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        withdrawals = [asyncio.create_task(self._withdraw_approval(approval)) for approval in self._approvals.values()]
        if withdrawals:
            await asyncio.wait(withdrawals, timeout=seconds)
        for task in withdrawals:
            task.cancel()
        await asyncio.gather(*withdrawals, return_exceptions=True)

    async def _withdraw_approval(self, approval: approval_tools.ApprovalSummary) -> None:
        path = approval_tools.approval_path(self._workspace_id, approval.approval_id, "withdraw")
        try:
            await self._requester.call("POST", path, body={"note": "the host that asked has ended"})
        except ToolError as error:
            _log.info(
                "approval %s stays open until it expires: %s", approval.approval_id, sanitize_line(error.text, 300)
            )

    # -- one request ---------------------------------------------------------------------------------------------------

    async def _relay_request(self, request: PermissionRequest) -> None:
        try:
            approval = await self._wait_for_decision(request, await self._request_approval(request))
            behavior = await self._resolve_behavior(request, approval)
        except ToolError as error:
            _log.warning(
                "permission %s is not decided on the platform, the host's own dialog stays: %s",
                request.request_id,
                sanitize_line(error.text, 300),
            )
            return
        finally:
            if not is_cancelling():  # otherwise `stop` withdraws it
                self._approvals.pop(request.request_id, None)
        _log.info(
            "permission %s: %s (approval %s)", request.request_id, behavior or approval.status, approval.approval_id
        )
        if behavior:
            await self._notify(DECISION_METHOD, {"request_id": request.request_id, "behavior": behavior})

    async def _request_approval(self, request: PermissionRequest) -> approval_tools.ApprovalSummary:
        """Request the approval; retries return the same one. Raises ToolError."""
        body = {
            "action": f"{ACTION_PREFIX}{request.tool_name or 'unknown'}",
            "reason": request.description,
            "details": {"tool": request.tool_name, "input_preview": request.input_preview},
            "source": "relay",
        }
        path = approval_tools.approval_path(self._workspace_id)
        approval = approval_tools.parse_approval(
            await self._requester.call("POST", path, body=body, headers=self._idempotency_headers(request))
        )
        self._approvals[request.request_id] = approval
        return approval

    async def _wait_for_decision(
        self, request: PermissionRequest, approval: approval_tools.ApprovalSummary
    ) -> approval_tools.ApprovalSummary:
        """Wait for the decision, also while the server is away. Raises ToolError."""
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        while approval_tools.is_open(approval):
            try:
                approval = await approval_tools.wait_for_change(
                    self._requester, self._workspace_id, approval, _WAIT_SECONDS, self._clock
                )
                back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
            except ToolError as error:
                if not error.is_transient:
                    raise
                _log.warning(
                    "permission %s: the decision cannot be asked for now, the host's own dialog stays: %s",
                    request.request_id,
                    sanitize_line(error.text, 300),
                )
                await sleep(self._clock, back_off.next_delay())
        return approval

    def _idempotency_headers(self, request: PermissionRequest) -> dict[str, str]:
        return idempotency_headers(f"relay:{self._process_key}:{request.request_id}")

    async def _resolve_behavior(self, request: PermissionRequest, approval: approval_tools.ApprovalSummary) -> str:
        """Return the decision for the host; empty: none. Raises ToolError if it is not known.

        An approval is used up before it is reported. A host cannot run an edited action, so an edited approval denies.
        """
        if approval.status != "approved":
            return DENY if approval.status in ("denied", "expired") else ""
        if approval.edited is not None:
            _log.warning("approval %s was given for something else than the host asked for", approval.approval_id)
            return DENY
        path = approval_tools.approval_path(self._workspace_id, approval.approval_id, "use")
        back_off, was_tried = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness), False
        while True:
            try:
                use_body = {"action_hash": approval.action_hash}
                await self._requester.call("POST", path, body=use_body, headers=self._idempotency_headers(request))
                return ALLOW
            except ToolError as error:
                _log.warning("approval %s cannot be used: %s", approval.approval_id, sanitize_line(error.text, 300))
                # An earlier try may have used it up; no other rejection says anything about the decision.
                if error.code in _DENYING_CODES and not was_tried:
                    return DENY
                if not error.is_transient:
                    raise
            was_tried = True
            await sleep(self._clock, back_off.next_delay())


def _text(value: object) -> str:
    return sanitize_line(value, 1000) if isinstance(value, str) else ""
