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

from molecule_core.agent.async_utils import is_cancelling
from molecule_core.agent.host.host_approvals import HostApprovals
from molecule_core.agent.host.tool_scopes import ToolScopes
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.tools.runners import approval_tools
from molecule_core.tools.spec import ToolError
from molecule_core.wire.schemas.approvals import ApprovalStatus

PERMISSION_CAPABILITY = "claude/channel/permission"
PERMISSION_METHOD = "notifications/claude/channel/permission_request"
DECISION_METHOD = "notifications/claude/channel/permission"
ALLOW, DENY = "allow", "deny"
HOST_ENDED = "the requesting host has ended"
_MAX_PENDING = 100
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
            _log.warning("permission %s is not relayed: no workspace is configured for it", request.request_id)
        elif self._queue.full():
            _log.warning(
                "permission %s is not relayed: too many requests are waiting; the host's own dialog stays open",
                request.request_id,
            )
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
    `is_replaced`: whether the host's hooks relay its permissions instead.
    """

    def __init__(
        self,
        approvals: HostApprovals,
        scopes: ToolScopes,
        notify: Notify,
        *,
        process_key: str,
        is_replaced: Callable[[], bool],
    ) -> None:
        self._approvals = approvals
        self._scopes = scopes
        self._notify = notify
        self._process_key = process_key
        self._is_replaced = is_replaced
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._open: dict[str, approval_tools.ApprovalSummary] = {}

    async def run(self, permissions: PendingPermissions) -> None:
        """Relay until cancelled; each request in its own task, so that none waits for another's decision."""
        async for request in permissions.iter_requests():
            if request.request_id in self._tasks or self._is_replaced():  # the host repeats the same request
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
        withdrawals = [
            asyncio.create_task(self._approvals.withdraw(approval.approval_id, HOST_ENDED))
            for approval in self._open.values()
        ]
        if withdrawals:
            await asyncio.wait(withdrawals, timeout=seconds)
        for withdrawal in withdrawals:
            withdrawal.cancel()
        await asyncio.gather(*withdrawals, return_exceptions=True)

    # -- one request ---------------------------------------------------------------------------------------------------

    async def _relay_request(self, request: PermissionRequest) -> None:
        if denial := await self._scopes.find_denial(request.tool_name):  # the host has no place for the reason
            _log.info("permission %s: %s", request.request_id, denial)
            await self._notify(DECISION_METHOD, {"request_id": request.request_id, "behavior": DENY})
            return
        try:
            approval = await self._approvals.wait_for_decision(
                request.request_id, await self._request_approval(request)
            )
            behavior = await self._resolve_behavior(request, approval)
        except ToolError as error:
            _log.warning(
                "permission %s is not decided on the platform; the host's own dialog stays open: %s",
                request.request_id,
                sanitize_line(error.text, 300),
            )
            return
        finally:
            if not is_cancelling():  # otherwise `stop` withdraws it
                self._open.pop(request.request_id, None)
        _log.info(
            "permission %s: %s (approval %s)", request.request_id, behavior or approval.status, approval.approval_id
        )
        if behavior:
            await self._notify(DECISION_METHOD, {"request_id": request.request_id, "behavior": behavior})

    async def _request_approval(self, request: PermissionRequest) -> approval_tools.ApprovalSummary:
        """Request the approval. Raises ToolError."""
        approval = await self._approvals.request(
            self._key(request),
            source="relay",
            tool=request.tool_name,
            reason=request.description,
            details={"tool": request.tool_name, "input_preview": request.input_preview},
        )
        self._open[request.request_id] = approval
        return approval

    def _key(self, request: PermissionRequest) -> str:
        return f"relay:{self._process_key}:{request.request_id}"

    async def _resolve_behavior(self, request: PermissionRequest, approval: approval_tools.ApprovalSummary) -> str:
        """Return the decision for the host; empty: none. Raises ToolError if it is not known.

        An approval is used up before it is reported. A host cannot run an edited action, so an edited approval denies.
        """
        if approval.status != ApprovalStatus.APPROVED:
            return DENY if approval.status in (ApprovalStatus.DENIED, ApprovalStatus.EXPIRED) else ""
        if approval.edited is not None:
            _log.warning("approval %s was given for another action than the host requested", approval.approval_id)
            return DENY
        return ALLOW if await self._approvals.use(self._key(request), approval) else DENY


def _text(value: object) -> str:
    return sanitize_line(value, 1000) if isinstance(value, str) else ""
