"""Runs the platform's tools inside the server: each calls the route table as the caller of the MCP request.

Called by `tools/mcp_dispatcher.py`; calls `Application.call_internally` and the tool runners.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO, NamedTuple, Protocol
from urllib.parse import urlencode

import msgspec
from msgspec import Struct, structs

from molecule_core.api.application import InternalCall, InternalRequest
from molecule_core.api.host_context import HostContextReader
from molecule_core.api.http.response import StreamedBody
from molecule_core.api.live.hub import LiveHub
from molecule_core.api.mcp.changes import JournalChanges
from molecule_core.api.mcp.responses import PostResponse, current_response
from molecule_core.api.routing import Request
from molecule_core.common.clock import Clock
from molecule_core.common.ids import IdGenerator, Randomness
from molecule_core.common.settings import Settings
from molecule_core.common.text import file_name_of
from molecule_core.org.reader import OrgReader
from molecule_core.tools.docs import server_instructions
from molecule_core.tools.host_context import render_host_contexts
from molecule_core.tools.mcp_dispatcher import CallContext, ExtraMethods, ToolResult
from molecule_core.tools.mcp_features import CallerWorkspace
from molecule_core.tools.registry import TOOLS
from molecule_core.tools.runners import (
    approval_tools,
    collaboration_tools,
    delegation_tools,
    file_tools,
    message_tools,
)
from molecule_core.tools.runners.requester import Requester, with_approval
from molecule_core.tools.schemas import messages as types
from molecule_core.tools.schemas import replies
from molecule_core.tools.spec import LocalCall, RouteCall, ToolError, ToolSpec
from molecule_core.wire.protocols.jsonrpc import JsonRpcMessage, as_object
from molecule_core.wire.schemas.runtimes import Runtime

INSTRUCTIONS = server_instructions()
_PIECE_BYTES = 1 << 16
# Bound of remembered claim attempts, for agents that do not name the attempt when they acknowledge.
_MAX_HELD_ATTEMPTS = 10_000
ToolHandler = Callable[["ToolInvocation", Any], Awaitable[dict[str, Any] | ToolResult]]


class TestExtensions(Protocol):
    """Additional tools of a test server."""

    specs: Sequence[ToolSpec]
    extra: ExtraMethods

    async def call(self, spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
        """Run one of these tools."""

    def client_answered(self, message: JsonRpcMessage) -> None:
        """Handle a client's answer to a request of the server."""


class McpDependencies(NamedTuple):
    """Dependencies of the MCP endpoint. `extensions` is set on test servers only."""

    clock: Clock
    ids: IdGenerator
    randomness: Randomness
    settings: Settings
    version: str
    extensions: TestExtensions | None


class ToolInvocation(NamedTuple):
    """Call of a tool: its request, its progress context and its idempotency key."""

    post_response: PostResponse
    context: CallContext
    key: str

    @property
    def workspace_id(self) -> str:
        """Return the id of the calling workspace."""
        return self.post_response.workspace_id


class InProcessRequester:
    """Calls the public API as the caller of another request. Implements `Requester`."""

    def __init__(self, call_internally: InternalCall, request: Request, is_closing: Callable[[], bool]) -> None:
        self._call_internally = call_internally
        self._request = request
        self._is_closing = is_closing

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Return the decoded response. Raises ToolError."""
        encoded_headers = {name.encode(): value.encode() for name, value in (headers or {}).items()}
        data = b"" if body is None else msgspec.json.encode(body)
        query_string = urlencode(query or {}).encode()
        response = await self._call_internally(
            self._request, InternalRequest(method, path, query_string, data, encoded_headers)
        )
        found = msgspec.json.decode(response.body) if response.body else None
        if response.status >= 400:
            raise tool_error(found)
        if _is_empty_long_poll(found, query, path) and self._is_closing():
            raise ToolError("the server is restarting. Call again in a few seconds.", "restarting")
        return found


class InProcessTransfer:
    """Transfers files as the caller of another request. Implements `FileTransfer`."""

    def __init__(self, call_internally: InternalCall, request: Request, boundary: str) -> None:
        """Initialize with `boundary`, which separates the parts of an upload."""
        self._call_internally = call_internally
        self._request = request
        self._boundary = boundary.encode()

    async def download(self, path: str, write: Callable[[bytes], object]) -> str:
        """Call `write` with each piece of a file, and return its name. Raises ToolError."""
        response = await self._call_internally(self._request, InternalRequest("GET", path, b"", b"", {}))
        if not isinstance(response.takeover, StreamedBody):
            raise tool_error(msgspec.json.decode(response.body))
        source = response.takeover.source
        try:
            while piece := await source.read(_PIECE_BYTES):
                write(piece)
        finally:
            source.close()
        return file_name_of(dict(response.headers).get(b"content-disposition", b"").decode())

    async def upload(self, path: str, name: str, content: bytes | BinaryIO, mime_type: str) -> Any:
        """Upload one file and return the decoded response. Raises ToolError."""
        data = content if isinstance(content, bytes) else content.read()
        boundary = self._boundary
        plain = name.translate({ord('"'): "%22", ord("\r"): "%0D", ord("\n"): "%0A"})
        disposition = f'form-data; name="files"; filename="{plain}"'.encode()
        head = b"--%s\r\nContent-Disposition: %s\r\nContent-Type: %s\r\n\r\n"
        body = head % (boundary, disposition, mime_type.encode()) + data + b"\r\n--%s--\r\n" % boundary
        headers = {b"content-type": b"multipart/form-data; boundary=%s" % boundary}
        response = await self._call_internally(self._request, InternalRequest("POST", path, b"", body, headers))
        found = msgspec.json.decode(response.body) if response.body else None
        if response.status >= 400:
            raise tool_error(found)
        return found


def _is_empty_long_poll(found: Any, query: dict[str, Any] | None, path: str) -> bool:
    """Return whether a waiting request returned without a result."""
    if path.endswith("/agents/wait"):
        return bool(as_object(as_object(found).get("call")).get("status") == collaboration_tools.IN_PROGRESS)
    if path.endswith("/wait"):
        return not as_object(found).get("settled")
    if approval_tools.is_approval_wait(path, query):
        return not approval_tools.has_ended(found)
    return found == [] and bool(query and query.get("wait"))


def tool_error(problem: Any) -> ToolError:
    """Convert a route's error to one for models."""
    details = as_object(problem)
    if details.get("code") == approval_tools.APPROVAL_NEEDED:
        return approval_tools.approval_needed_error(details)
    inner = as_object(details.get("error"))  # JSON-RPC error
    text = inner.get("message") or details.get("error") or "the server rejected this call."
    reasons = inner.get("data")
    reason = as_object(reasons[0]).get("reason", "") if isinstance(reasons, list) and reasons else ""
    if isinstance(details.get("hint"), str):
        text = f"{text}. {details['hint']}"
    if "retry_after" in details:
        text = f"{text.removesuffix('.')}. Try again in {details['retry_after']} seconds."
    return ToolError(str(text), str(details.get("code") or reason.lower() or "tool_failed"))


class McpToolHost:
    """Tool host that acts as the calling workspace. Implements `mcp_dispatcher.ToolHost`."""

    name = "molecule"
    instructions = INSTRUCTIONS
    """The instructions before those about a workspace."""

    def __init__(
        self,
        call_internally: InternalCall,
        org: OrgReader,
        contexts: HostContextReader,
        live: LiveHub,
        dependencies: McpDependencies,
    ) -> None:
        self.version = dependencies.version
        self._follow_changes = JournalChanges(live, org, dependencies.clock).follow
        self.local_tools: Mapping[str, ToolHandler] = {
            "reply": self._answer_by_handle,
            "decline": self._decline_by_handle,
            "reply_to_workspace": self._reply_to_workspace,
            "get_runtime_identity": self._runtime_identity,
            "wait_for_message": self._wait_for_message,
            "inbox_peek": self._peek_inbox,
            "inbox_pop": self._pop_inbox,
            "chat_history": self._chat_history,
            **dict.fromkeys(delegation_tools.TOOL_NAMES, self._run_delegation_tool),
            **dict.fromkeys(approval_tools.TOOL_NAMES, self._run_approval_tool),
            **dict.fromkeys(collaboration_tools.TOOL_NAMES, self._run_collab_tool),
            **dict.fromkeys(file_tools.TOOL_NAMES, self._run_file_tool),
        }
        self._call_internally = call_internally
        self._org = org
        self._contexts = contexts
        self._is_closing = live.is_closing
        self._clock = dependencies.clock
        self._ids = dependencies.ids
        self._limits = dependencies.settings.limits
        self._public_url = dependencies.settings.url
        self._extensions = dependencies.extensions
        self._tools = (*TOOLS, *(() if dependencies.extensions is None else dependencies.extensions.specs))
        self._held_attempts: OrderedDict[tuple[str, str, str], int] = OrderedDict()

    async def load_instructions(self) -> str:
        """Return the instructions for the calling workspace: the convention, then its surroundings."""
        post_response = current_response()
        if post_response is None:
            return self.instructions
        context = await self._contexts.read_context(self._org.active_workspace(post_response.workspace_id))
        left = self._limits.mcp_instruction_length - len(self.instructions) - 2
        surroundings = render_host_contexts([context], Runtime.BARE, left)
        return f"{self.instructions}\n\n{surroundings}" if surroundings else self.instructions

    def tools(self) -> Sequence[ToolSpec]:
        """Return the tools in listing order; for a connection that may only read, those that only read."""
        post_response = current_response()
        if post_response is None or not post_response.caller.is_read_only:
            return self._tools
        return [spec for spec in self._tools if spec.annotations.read_only]

    async def caller_workspaces(self) -> tuple[CallerWorkspace, ...]:
        """Return the workspace of the current MCP request."""
        post_response = current_response()
        if post_response is None:
            raise LookupError("the method has no request")
        requester = InProcessRequester(self._call_internally, post_response.request, self._is_closing)
        transfer = InProcessTransfer(self._call_internally, post_response.request, "")
        changes = partial(self._follow_changes, post_response.caller, post_response.credential)
        return (CallerWorkspace(post_response.workspace_id, requester, transfer.download, changes),)

    async def call(self, spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
        """Run a tool as the caller of the current MCP request. Raises ToolError."""
        post_response = current_response()
        if post_response is None:
            raise LookupError("the tool has no request")
        if post_response.caller.is_read_only and not spec.annotations.read_only:
            raise ToolError(
                f"this connection may only read, and {spec.name} does more. Ask a person to connect the app again.",
                "insufficient_scope",
            )
        if self._extensions is not None and spec in self._extensions.specs:
            return await self._extensions.call(spec, arguments, calling)
        invocation = ToolInvocation(post_response, calling, self._idempotency_key(calling))
        workspace_id = spec.caller_workspace(arguments)
        if workspace_id not in ("", invocation.workspace_id):
            raise ToolError(
                f"this connection is workspace {invocation.workspace_id} and cannot act as {workspace_id}. Omit "
                f"{spec.identity_argument}, or use the connection of that workspace.",
                "wrong_workspace",
            )
        if isinstance(spec.call, LocalCall):
            found = await self.local_tools[spec.call.name](invocation, arguments)
            return found if isinstance(found, ToolResult) else ToolResult(found)
        return ToolResult(await self._call_route(spec, spec.call, invocation, arguments))

    async def _call_route(
        self, spec: ToolSpec, route: RouteCall, invocation: ToolInvocation, arguments: Struct
    ) -> dict[str, Any]:
        request = spec.to_request(invocation.workspace_id, arguments)
        headers = message_tools.idempotency_headers(invocation.key) if route.keyed else {}
        requester = with_approval(self._requester_for(invocation), arguments, read_only=True)
        response = await requester.call(
            request.method, request.path, body=request.body, query=request.query, headers=headers
        )
        result = spec.convert_result(invocation.workspace_id, response)
        if spec.result_type is types.SendMessageToUserResult:
            await self._ack_unnamed(invocation, requester, result)
        return result

    def _requester_for(self, invocation: ToolInvocation) -> Requester:
        return InProcessRequester(self._call_internally, invocation.post_response.request, self._is_closing)

    def _idempotency_key(self, calling: CallContext) -> str:
        """Return the call id given by the agent's host, or a new one."""
        return message_tools.host_call_id(calling.meta) or self._ids.new()

    # -- tools without a route of their own ----------------------------------------------------------------------------

    async def _reply_to_workspace(
        self, invocation: ToolInvocation, arguments: types.ReplyToWorkspaceArguments
    ) -> dict[str, Any]:
        arguments = structs.replace(
            arguments, attempt=arguments.attempt or self._attempt_of(invocation, arguments.activity_id)
        )
        requester = self._requester_for(invocation)
        result = await message_tools.reply_to_workspace(requester, invocation.workspace_id, arguments, invocation.key)
        await self._ack_unnamed(invocation, requester, result)
        return result

    async def _ack_unnamed(self, invocation: ToolInvocation, requester: Requester, result: dict[str, Any]) -> None:
        """Acknowledge what a call answered without naming it, if this client was shown it."""
        attempt = self._attempt_of(invocation, result["answers"]) if result["answers"] else 0
        if attempt and not result.get("acknowledged"):
            await message_tools.ack_unnamed(requester, invocation.workspace_id, result, attempt)

    async def _answer_by_handle(
        self, invocation: ToolInvocation, arguments: replies.ReplyByHandleArguments
    ) -> dict[str, Any]:
        return await message_tools.reply_by_handle(
            self._requester_for(invocation), invocation.workspace_id, arguments, invocation.key
        )

    async def _decline_by_handle(
        self, invocation: ToolInvocation, arguments: replies.DeclineArguments
    ) -> dict[str, Any]:
        return await message_tools.decline_by_handle(
            self._requester_for(invocation), invocation.workspace_id, arguments, invocation.key
        )

    async def _runtime_identity(self, invocation: ToolInvocation, _arguments: types.NoArguments) -> dict[str, Any]:
        workspace = self._org.active_workspace(invocation.workspace_id)
        details = types.ConnectedWorkspace(
            workspace_id=workspace.id, platform_url=self._public_url, name=workspace.name, status=workspace.status.value
        )
        identity = types.RuntimeIdentityResult(runtime="molecule server", version=self.version, workspaces=[details])
        found: dict[str, Any] = msgspec.to_builtins(identity)
        return found

    async def _wait_for_message(
        self, invocation: ToolInvocation, arguments: types.WaitForMessageArguments
    ) -> dict[str, Any]:
        """Wait for a message and claim it.

        A client that disconnects while waiting claims nothing. A message claimed at that very moment is redelivered
        when its lease ends."""
        requester, lease = (
            self._requester_for(invocation),
            min(self._limits.mcp_lease_seconds, self._limits.lease_seconds),
        )
        message = await message_tools.wait_for_message(
            requester,
            invocation.workspace_id,
            arguments.timeout_secs,
            clock=self._clock,
            lease=lease,
            progress=invocation.context.progress,
        )
        if message is None:
            return _to_builtins(
                types.WaitForMessageResult(message=None, note="No message came. Call again to go on waiting.")
            )
        self._remember_attempt(invocation, message.activity_id, message.attempt)
        return _to_builtins(
            types.WaitForMessageResult(
                message=message, waiting=await self._count_others(requester, invocation.workspace_id)
            )
        )

    async def _count_others(self, requester: Requester, own: str) -> int:
        """Return the number of other open messages; 0 on errors, which must not lose the claimed message."""
        try:
            return max(0, len(await message_tools.peek_messages(requester, own, types.MAX_PEEKED_MESSAGES)) - 1)
        except ToolError:
            return 0

    async def _peek_inbox(self, invocation: ToolInvocation, arguments: types.InboxPeekArguments) -> dict[str, Any]:
        return _to_builtins(
            types.InboxPeekResult(
                messages=await message_tools.peek_messages(
                    self._requester_for(invocation), invocation.workspace_id, arguments.limit
                )
            )
        )

    async def _pop_inbox(self, invocation: ToolInvocation, arguments: types.InboxPopArguments) -> dict[str, Any]:
        arguments = structs.replace(
            arguments, attempt=arguments.attempt or self._attempt_of(invocation, arguments.activity_id)
        )
        return await message_tools.ack_message(self._requester_for(invocation), invocation.workspace_id, arguments)

    async def _chat_history(self, invocation: ToolInvocation, arguments: types.ChatHistoryArguments) -> dict[str, Any]:
        return await message_tools.chat_history(self._requester_for(invocation), invocation.workspace_id, arguments)

    async def _run_file_tool(self, invocation: ToolInvocation, arguments: Struct) -> ToolResult:
        """Run a tool about files. The agent's machine is another one, so files have no path there."""
        transfer = InProcessTransfer(self._call_internally, invocation.post_response.request, self._ids.new())
        return await file_tools.run(transfer, invocation.workspace_id, arguments, None, self._public_url)

    async def _run_delegation_tool(self, invocation: ToolInvocation, arguments: Struct) -> dict[str, Any]:
        """Run a delegation tool. A client that disconnects while waiting cancels nothing."""
        workspaces = ((invocation.workspace_id, self._requester_for(invocation)),)
        meta, details = (
            invocation.context.meta,
            delegation_tools.requested_progress(invocation.context.progress, invocation.context.meta),
        )
        return await delegation_tools.run(
            workspaces, arguments, message_tools.host_call_id(meta), clock=self._clock, progress=details
        )

    async def _run_approval_tool(self, invocation: ToolInvocation, arguments: Struct) -> dict[str, Any]:
        """Run an approval tool. Its arguments identify the decided revision; no state is kept here."""
        workspaces = ((invocation.workspace_id, self._requester_for(invocation)),)
        meta, details = (
            invocation.context.meta,
            delegation_tools.requested_progress(invocation.context.progress, invocation.context.meta),
        )
        return await approval_tools.run(
            workspaces, arguments, message_tools.host_call_id(meta), clock=self._clock, progress=details
        )

    async def _run_collab_tool(self, invocation: ToolInvocation, arguments: Struct) -> dict[str, Any]:
        """Run a collaboration tool from the caller's session thread. A client that disconnects ends only its wait."""
        workspaces = ((invocation.workspace_id, self._requester_for(invocation)),)
        meta, details = (
            invocation.context.meta,
            delegation_tools.requested_progress(invocation.context.progress, invocation.context.meta),
        )
        session = collaboration_tools.host_session(meta)
        return await collaboration_tools.run(
            workspaces, arguments, invocation.key, clock=self._clock, session=session, progress=details
        )

    # -- claim attempts ------------------------------------------------------------------------------------------------

    def _remember_attempt(self, invocation: ToolInvocation, activity_id: str, attempt: int) -> None:
        key = (invocation.workspace_id, invocation.post_response.holder, activity_id)
        self._held_attempts[key] = attempt
        self._held_attempts.move_to_end(key)
        if len(self._held_attempts) > _MAX_HELD_ATTEMPTS:
            self._held_attempts.popitem(last=False)

    def _attempt_of(self, invocation: ToolInvocation, activity_id: str) -> int:
        """Return the attempt of this client's claim of a message; 0 if unknown."""
        return self._held_attempts.get((invocation.workspace_id, invocation.post_response.holder, activity_id), 0)


def _to_builtins(details: Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(details)
    return found
