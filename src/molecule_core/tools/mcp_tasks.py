"""Tasks of the MCP servers: calls that go on after their request has been answered.

A task is a view and is stored nowhere: a delegation (its id is the task's id), an approval that the caller requested,
or a wait for a message (its id says since when and how long). So it is the same after a new connection, after a restart
and at another process of the server.

Two protocols: the experimental tasks of version 2025-11-25, which a client asks for call by call, and the extension
`io.modelcontextprotocol/tasks` of the stateless versions, in which the server decides. Called by
`tools/mcp_dispatcher.py`.
"""

import contextlib
import math
import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from molecule_core.common.clock import SECOND, Clock, to_rfc3339
from molecule_core.common.text import truncate_line
from molecule_core.tools.mcp_dispatcher import CallContext, ToolHost, ToolResult, call_result
from molecule_core.tools.mcp_features import (
    STATELESS_SINCE,
    UNKNOWN_CODES,
    CallerWorkspace,
    CallerWorkspaces,
    FeatureMethod,
    FeatureRequest,
    Notification,
    Watch,
    cursor_member,
    read_cursor,
    to_rpc_error,
    unknown_cursor,
)
from molecule_core.tools.runners import approval_tools, delegation_tools, message_tools
from molecule_core.tools.schemas.approvals import RequestApprovalArguments
from molecule_core.tools.schemas.delegations import (
    CancelTaskArguments,
    DelegateTaskArguments,
    DelegateTaskAsyncArguments,
)
from molecule_core.tools.schemas.messages import WaitForMessageArguments
from molecule_core.tools.spec import ToolError, ToolSpec
from molecule_core.wire.protocols.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError, as_object
from molecule_core.wire.schemas.activity import ActivityMethod, ActivityType
from molecule_core.wire.schemas.approvals import ApprovalStatus
from molecule_core.wire.schemas.delegations import DelegationItem, DelegationStatus

TASK_VERSION, TASK_EXTENSION = "2025-11-25", "io.modelcontextprotocol/tasks"
MISSING_CAPABILITY = -32021
RELATED_TASK_KEY = "io.modelcontextprotocol/related-task"
MODEL_RESPONSE_KEY = "io.modelcontextprotocol/model-immediate-response"
POLL_MILLISECONDS = 5000
WORKING, COMPLETED, FAILED, CANCELLED = "working", "completed", "failed", "cancelled"
_APPROVAL, _WAIT = "approval.", "wait."
_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_WAIT_ID = re.compile(r"wait\.(\d{1,17})\.(\d{1,6})\.([01])")
_PAGE = 50
_MAX_MESSAGE = 500
# Waits that their clients have cancelled are remembered as long as they are among the last ones.
_MAX_CANCELLED_WAITS = 10_000
_MAX_ROWS = 100
# Tools that begin something with an id of its own: the only ones that the server turns into tasks by itself.
_DURABLE_TOOLS = ("delegate_task", "request_approval")
_TASK_TOOLS = (*_DURABLE_TOOLS, "wait_for_message")


class TaskState(Struct, frozen=True):
    """The state of a task. `message`: what happens at present, or why it has ended."""

    id: str
    status: str
    message: str
    created_at: str
    updated_at: str

    @property
    def has_ended(self) -> bool:
        """Return whether the status is final."""
        return self.status != WORKING


class TaskKind(Protocol):
    """One kind of tasks. `find` and `load_result` raise ToolError with a code of UNKNOWN_CODES for ids of others."""

    async def find(self, workspace: CallerWorkspace, task_id: str) -> TaskState:
        """Return the state of a task of the workspace."""

    async def load_result(self, workspace: CallerWorkspace, task_id: str, request: FeatureRequest) -> dict[str, Any]:
        """Return what the tool returns, after one waiting request at most."""

    async def cancel(self, workspace: CallerWorkspace, task_id: str) -> None:
        """Cancel a task."""


class DelegationTasks:
    """Delegations of the caller. Implements `TaskKind`."""

    async def find(self, workspace: CallerWorkspace, task_id: str) -> TaskState:
        """Return the state of a delegation that the workspace has sent. Raises ToolError."""
        item = await delegation_tools.fetch_delegation(workspace.requester, task_id)
        if item.source_id != workspace.id:
            raise ToolError("task not found.", "not_found")
        return delegation_state(item)

    async def load_result(self, workspace: CallerWorkspace, task_id: str, request: FeatureRequest) -> dict[str, Any]:
        """Return the result of `delegate_task`. Raises ToolError."""
        return await delegation_tools.wait_for_result(workspace.requester, workspace.id, task_id)

    async def cancel(self, workspace: CallerWorkspace, task_id: str) -> None:
        """Cancel the delegation. Raises ToolError."""
        arguments = CancelTaskArguments(task_id=task_id)
        await delegation_tools.cancel_task(workspace.requester, workspace.id, arguments)

    async def list_page(self, workspace: CallerWorkspace, before: str) -> tuple[list[TaskState], str]:
        """Return a page of delegations, newest first, and where the next one begins. Raises ToolError."""
        query = {"limit": _PAGE, **({"before": before} if before else {})}
        rows = await workspace.requester.call("GET", f"/workspaces/{workspace.id}/delegations", query=query)
        items = msgspec.convert(rows, list[DelegationItem])
        return [delegation_state(each) for each in items], items[-1].delegation_id if items else ""


def delegation_state(item: DelegationItem) -> TaskState:
    """Return a delegation as a task."""
    status = {
        DelegationStatus.COMPLETED: COMPLETED,
        DelegationStatus.FAILED: FAILED,
        DelegationStatus.CANCELLED: CANCELLED,
    }.get(DelegationStatus(item.status), WORKING)
    if status in (FAILED, CANCELLED):
        message = item.error or item.reason or item.status
    else:
        message = "" if status == COMPLETED else delegation_tools.progress_of(item)
    return TaskState(item.delegation_id, status, message, item.created_at, item.settled_at or item.updated_at)


class _ApprovalRow(Struct, frozen=True):
    """The parts of an approval (`ApprovalItem`) that a task has."""

    approval_id: str
    workspace_id: str
    action: str
    status: str
    created_at: str
    decided: dict[str, Any] | None = None

    def to_state(self) -> TaskState:
        """Return the approval as a task: any decision completes it."""
        is_open = self.status in (ApprovalStatus.PENDING, ApprovalStatus.INFO)
        is_withdrawn = self.status == ApprovalStatus.WITHDRAWN
        status = WORKING if is_open else CANCELLED if is_withdrawn else COMPLETED
        message = f"{self.action}: {self.status.replace('_', ' ')}"
        at = (self.decided or {}).get("at") or self.created_at
        return TaskState(_APPROVAL + self.approval_id, status, message, self.created_at, at)


class ApprovalTasks:
    """Approvals that the caller has requested. Implements `TaskKind`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def find(self, workspace: CallerWorkspace, task_id: str) -> TaskState:
        """Return the state of a request of the workspace. Raises ToolError."""
        path = approval_tools.approval_path(workspace.id, task_id.removeprefix(_APPROVAL))
        row = msgspec.convert(await workspace.requester.call("GET", path), _ApprovalRow)
        if row.workspace_id != workspace.id:
            raise ToolError("task not found.", "not_found")
        return row.to_state()

    async def load_result(self, workspace: CallerWorkspace, task_id: str, request: FeatureRequest) -> dict[str, Any]:
        """Return the result of `request_approval`. Raises ToolError."""
        seconds = delegation_tools.LONG_POLL_SECONDS
        return await approval_tools.fetch_result(
            workspace.requester, workspace.id, task_id.removeprefix(_APPROVAL), clock=self._clock, seconds=seconds
        )

    async def cancel(self, workspace: CallerWorkspace, task_id: str) -> None:
        """Withdraw the request. Raises ToolError."""
        await approval_tools.withdraw_approval(workspace.requester, workspace.id, task_id.removeprefix(_APPROVAL))

    async def list_page(self, workspace: CallerWorkspace, before: str) -> tuple[list[TaskState], str]:
        """Return a page of approvals, newest first, and where the next one begins. Raises ToolError."""
        query = {"limit": _PAGE, **({"before": before} if before else {})}
        page = await workspace.requester.call("GET", f"/workspaces/{workspace.id}/approvals", query=query)
        rows = msgspec.convert(page["approvals"], list[_ApprovalRow])
        return [each.to_state() for each in rows], "" if page["reached_end"] or not rows else rows[-1].approval_id


class _QuietContext:
    """The context of a call that reports no progress. Implements `CallContext`."""

    def __init__(self, meta: dict[str, Any]) -> None:
        self.meta = meta

    async def progress(self, value: float, total: float | None, message: str) -> None:
        """Do nothing."""


class WaitTasks:
    """Waits for a message. The message is claimed when the result is read, not before. Implements `TaskKind`."""

    def __init__(self, host: ToolHost, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._cancelled: OrderedDict[str, str] = OrderedDict()

    async def begin(self, workspaces: tuple[CallerWorkspace, ...], arguments: WaitForMessageArguments) -> TaskState:
        """Begin a wait. Raises ToolError."""
        is_ready = False
        for each in workspaces:
            is_ready = is_ready or bool(await message_tools.peek_messages(each.requester, each.id, 1))
        created, seconds = self._clock.now(), math.ceil(arguments.timeout_secs)
        return self._state(f"{_WAIT}{created}.{seconds}.{int(is_ready)}", is_ready=is_ready)

    def _state(self, task_id: str, *, is_ready: bool) -> TaskState:
        created, seconds, _ = self._parts(task_id)
        end = created + seconds * SECOND
        is_over = self._clock.now() >= end
        if task_id in self._cancelled:
            return TaskState(task_id, CANCELLED, "cancelled", to_rfc3339(created), self._cancelled[task_id])
        status = COMPLETED if is_ready or is_over else WORKING
        message = "a message has arrived" if is_ready else "no message came" if is_over else "no message yet"
        return TaskState(task_id, status, message, to_rfc3339(created), to_rfc3339(created))

    def _parts(self, task_id: str) -> tuple[int, int, bool]:
        found = _WAIT_ID.fullmatch(task_id)
        created = 0 if found is None else int(found[1])
        # An id of the future was not made here.
        if found is None or created > self._clock.now():
            raise ToolError("task not found.", "not_found")
        return created, int(found[2]), found[3] == "1"

    async def find(self, workspace: CallerWorkspace, task_id: str) -> TaskState:
        """Return the state of a wait. Raises ToolError."""
        created, seconds, is_ready = self._parts(task_id)
        if not is_ready and self._clock.now() < created + seconds * SECOND:
            is_ready = await self._has_arrived(workspace, created)
        return self._state(task_id, is_ready=is_ready)

    async def _has_arrived(self, workspace: CallerWorkspace, since: int) -> bool:
        """Return whether a message has arrived since a time, handled or not. Raises ToolError."""
        query = {"since_secs": math.ceil((self._clock.now() - since) / SECOND) + 1, "limit": _MAX_ROWS}
        rows = await workspace.requester.call("GET", f"/workspaces/{workspace.id}/activity", query=query)
        return any(
            row["activity_type"] == ActivityType.RECEIVE
            and row["method"] != ActivityMethod.UPLOAD
            and row["created_at"] >= to_rfc3339(since)
            for row in rows
        )

    async def load_result(self, workspace: CallerWorkspace, task_id: str, request: FeatureRequest) -> dict[str, Any]:
        """Wait until the end of the wait, and return the result of `wait_for_message`. Raises ToolError."""
        created, seconds, is_ready = self._parts(task_id)
        left = 0.0 if is_ready else max(0.0, (created + seconds * SECOND - self._clock.now()) / SECOND)
        spec = next(each for each in self._host.tools() if each.name == "wait_for_message")
        context: CallContext = _QuietContext(request.meta)
        return (await self._host.call(spec, WaitForMessageArguments(timeout_secs=left), context)).structured

    async def cancel(self, workspace: CallerWorkspace, task_id: str) -> None:
        """Cancel a wait: it has claimed nothing, so that this process only remembers it."""
        self._cancelled[task_id] = to_rfc3339(self._clock.now())
        if len(self._cancelled) > _MAX_CANCELLED_WAITS:
            self._cancelled.popitem(last=False)


class TaskFeature:
    """Tasks in both protocols. Implements `McpFeature` and `TaskRunner`."""

    def __init__(self, workspaces: CallerWorkspaces, host: ToolHost, clock: Clock) -> None:
        self._workspaces = workspaces
        self._clock = clock
        self._delegations = DelegationTasks()
        self._approvals = ApprovalTasks(clock)
        self._waits = WaitTasks(host, clock)

    def capabilities(self, version: str) -> dict[str, Any]:
        """Return the announcement; empty for versions without tasks."""
        if version >= STATELESS_SINCE:
            return {"extensions": {TASK_EXTENSION: {}}}
        own: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        return {"tasks": own} if version == TASK_VERSION else {}

    def methods(self, version: str) -> Mapping[str, FeatureMethod]:
        """Return the methods of a version."""
        if version >= STATELESS_SINCE:
            return {"tasks/get": self._get, "tasks/update": self._update, "tasks/cancel": self._cancel}
        if version != TASK_VERSION:
            return {}
        return {
            "tasks/get": self._get,
            "tasks/result": self._wait_for_result,
            "tasks/list": self._list,
            "tasks/cancel": self._cancel,
        }

    def listing_members(self, spec: ToolSpec, version: str) -> dict[str, Any]:
        """Return the member that says which tools can run as tasks."""
        is_listed = version == TASK_VERSION and spec.name in _TASK_TOOLS
        return {"execution": {"taskSupport": "optional"}} if is_listed else {}

    # -- begin ---------------------------------------------------------------------------------------------------------

    def is_wanted(self, request: FeatureRequest) -> bool:
        """Return whether the client asks for a task."""
        return request.version == TASK_VERSION and isinstance(request.params.get("task"), dict)

    async def begin(self, spec: ToolSpec, arguments: Struct, request: FeatureRequest) -> dict[str, Any] | None:
        """Begin a call as a task.

        Where the server decides, a call that may wait for another workspace or a person becomes a task unless its end
        is known at once. Raises ToolError, RpcError."""
        is_wanted = self.is_wanted(request)
        if is_wanted and spec.name not in _TASK_TOOLS:
            raise RpcError(METHOD_NOT_FOUND, f"{spec.name} cannot run as a task. Call it without task.")
        is_offered = request.is_stateless and _is_declared(request) and spec.name in _DURABLE_TOOLS
        if not is_wanted and not (is_offered and getattr(arguments, "wait", 0) > 0):
            return None
        task_id, structured, text = await self._start(arguments, request)
        if request.is_stateless and structured.get("settled"):
            return call_result(ToolResult(structured))
        state = await self._find_state(task_id, request)
        if request.is_stateless:
            return {"resultType": "task", **_to_extension(state)}
        with contextlib.suppress(RpcError, ToolError):  # notifications are optional, and the task has begun
            await request.session.watches.add(_watch_key(task_id), await self.find_watch(task_id, request))
        meta = {RELATED_TASK_KEY: {"taskId": task_id}, MODEL_RESPONSE_KEY: text}
        return {"task": _to_task(state), "_meta": meta}

    async def _start(self, arguments: Struct, request: FeatureRequest) -> tuple[str, dict[str, Any], str]:
        """Begin what a tool begins. Returns the id of the task, the result so far, and what the model reads."""
        workspaces = await self._workspaces()
        requesters = tuple((each.id, each.requester) for each in workspaces)
        call_id = message_tools.host_call_id(request.meta)
        if isinstance(arguments, DelegateTaskArguments):
            fields = {name: getattr(arguments, name) for name in DelegateTaskAsyncArguments.__struct_fields__}
            begun = await delegation_tools.run(
                requesters, DelegateTaskAsyncArguments(**fields), call_id, clock=self._clock
            )
            return begun["task_id"], begun, begun["note"]
        if isinstance(arguments, RequestApprovalArguments):
            at_once = msgspec.structs.replace(arguments, wait=0)
            begun = await approval_tools.run(requesters, at_once, call_id, clock=self._clock)
            return _APPROVAL + begun["approval_id"], begun, begun["note"]
        assert isinstance(arguments, WaitForMessageArguments)  # `_TASK_TOOLS` has no other
        state = await self._waits.begin(workspaces, arguments)
        return state.id, {}, "You are waiting for a message. Do other work until it arrives."

    # -- methods -------------------------------------------------------------------------------------------------------

    async def _get(self, request: FeatureRequest) -> dict[str, Any]:
        self.check_declared(request)
        workspace, kind, state = await self._find(request.text_param("taskId"), request)
        if not request.is_stateless:
            return _to_task(state)
        return await self._detailed(workspace, kind, state, request)

    async def _detailed(
        self, workspace: CallerWorkspace, kind: TaskKind, state: TaskState, request: FeatureRequest
    ) -> dict[str, Any]:
        """Return a task of the extension, with the result if it has ended. Raises RpcError."""
        found = _to_extension(state)
        if found["status"] == COMPLETED:
            # Whole, as the call would have been answered: clients check the result by itself.
            found["result"] = {"resultType": "complete", **await self._load_result(workspace, kind, state.id, request)}
        return found

    async def _load_result(
        self, workspace: CallerWorkspace, kind: TaskKind, task_id: str, request: FeatureRequest
    ) -> dict[str, Any]:
        try:
            return call_result(ToolResult(await kind.load_result(workspace, task_id, request)))
        except ToolError as error:
            raise to_rpc_error(error) from None

    async def _wait_for_result(self, request: FeatureRequest) -> dict[str, Any]:
        """Return the result of a call as soon as it has ended. A client that disconnects ends only its wait."""
        task_id = request.text_param("taskId")
        while True:
            workspace, kind, state = await self._find(task_id, request)
            result = await self._load_result(workspace, kind, task_id, request)
            if state.has_ended or kind is self._waits:
                return {**result, "_meta": {RELATED_TASK_KEY: {"taskId": task_id}}}

    async def _list(self, request: FeatureRequest) -> dict[str, Any]:
        """List delegations and requested approvals. A wait is known to the client that began it only."""
        workspaces, parts = await self._workspaces(), (self._delegations.list_page, self._approvals.list_page)
        cursor = read_cursor(request.params.get("cursor"), parts=len(parts), workspaces=len(workspaces))
        try:
            states, before = await parts[cursor.part](workspaces[cursor.workspace], cursor.before)
        except ToolError as error:
            raise (unknown_cursor() if error.code in UNKNOWN_CODES else to_rpc_error(error)) from None
        following = cursor.following(before, parts=len(parts), workspaces=len(workspaces))
        return {"tasks": [_to_task(each) for each in states], **cursor_member(following)}

    async def _cancel(self, request: FeatureRequest) -> dict[str, Any]:
        self.check_declared(request)
        task_id = request.text_param("taskId")
        workspace, kind, state = await self._find(task_id, request)
        if state.has_ended:
            if request.is_stateless:
                return {}
            raise RpcError(INVALID_PARAMS, f"the task has ended ({state.status}) and cannot be cancelled.")
        try:
            await kind.cancel(workspace, task_id)
        except ToolError as error:
            raise to_rpc_error(error) from None
        return {} if request.is_stateless else _to_task(await self._find_state(task_id, request))

    async def _update(self, request: FeatureRequest) -> dict[str, Any]:
        """Accept input for a task. No task of ours asks its client for input, so there is nothing to match."""
        self.check_declared(request)
        await self._find(request.text_param("taskId"), request)
        return {}

    def check_declared(self, request: FeatureRequest) -> None:
        """Check that a client of a stateless version knows tasks. Raises RpcError."""
        if request.is_stateless and not _is_declared(request):
            needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASK_EXTENSION: {}}}}
            raise RpcError(MISSING_CAPABILITY, f"the client must declare the extension {TASK_EXTENSION}.", needed)

    # -- lookup --------------------------------------------------------------------------------------------------------

    async def find_watch(self, task_id: str, request: FeatureRequest) -> Watch:
        """Return the watch of a task of the caller. Raises RpcError."""
        workspace, kind, _ = await self._find(task_id, request)

        async def load() -> tuple[object, Notification] | None:
            state = await kind.find(workspace, task_id)
            if request.is_stateless:
                params = await self._detailed(workspace, kind, state, request)
                return state, Notification("notifications/tasks", params)
            return state, Notification("notifications/tasks/status", _to_task(state))

        return Watch(workspace, task_id.removeprefix(_APPROVAL), load)

    async def _find_state(self, task_id: str, request: FeatureRequest) -> TaskState:
        return (await self._find(task_id, request))[2]

    async def _find(self, task_id: str, request: FeatureRequest) -> tuple[CallerWorkspace, TaskKind, TaskState]:
        """Return the task of one of the caller's workspaces. Raises RpcError."""
        kind = self._kind_of(task_id)
        for workspace in await self._workspaces() if _ID.fullmatch(task_id) else ():
            try:
                return workspace, kind, await kind.find(workspace, task_id)
            except ToolError as error:
                if error.code not in UNKNOWN_CODES:
                    raise to_rpc_error(error) from None
        raise RpcError(INVALID_PARAMS, f"task {truncate_line(task_id, 100)!r} not found.")

    def _kind_of(self, task_id: str) -> TaskKind:
        if task_id.startswith(_APPROVAL):
            return self._approvals
        return self._waits if task_id.startswith(_WAIT) else self._delegations


def _is_declared(request: FeatureRequest) -> bool:
    return TASK_EXTENSION in as_object(request.client_capabilities.get("extensions"))


def _watch_key(task_id: str) -> str:
    return f"task {task_id}"


def _to_task(state: TaskState) -> dict[str, Any]:
    """Return a task of version 2025-11-25. Nothing is deleted after a time, so `ttl` is null."""
    found: dict[str, Any] = {"taskId": state.id, "status": state.status, "createdAt": state.created_at}
    found |= {"lastUpdatedAt": state.updated_at, "ttl": None, "pollInterval": POLL_MILLISECONDS}
    return {**found, "statusMessage": truncate_line(state.message, _MAX_MESSAGE)} if state.message else found


def _to_extension(state: TaskState) -> dict[str, Any]:
    """Return a task of the extension, in which a failed delegation is a completed call with a result that says so."""
    status = COMPLETED if state.status == FAILED else state.status
    found: dict[str, Any] = {"taskId": state.id, "status": status, "createdAt": state.created_at}
    found |= {"lastUpdatedAt": state.updated_at, "ttlMs": None, "pollIntervalMs": POLL_MILLISECONDS}
    return {**found, "statusMessage": truncate_line(state.message, _MAX_MESSAGE)} if state.message else found
