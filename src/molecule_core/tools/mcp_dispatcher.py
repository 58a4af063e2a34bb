"""Model Context Protocol dispatcher for a server of tools, for stdio and HTTP, without I/O.

Called by transports (agent: stdio; api: HTTP); calls a `ToolHost` to list and run tools. Two modes of the protocol:
up to 2025-11-25 a session begins with `initialize`; from 2026-07-28 on each request names its version. A host that
pushes messages to its client needs the handshake: clients that detect the stateless mode offer no push.
"""

import asyncio
import codecs
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from molecule_core.common.errors import MoleculeError
from molecule_core.common.text import truncate_line
from molecule_core.tools.mcp_features import (
    FeatureMethod,
    FeatureRequest,
    McpFeature,
    Notification,
    TaskRunner,
    WatchSet,
)
from molecule_core.tools.spec import ToolError, ToolSpec
from molecule_core.wire.protocols import strict_json
from molecule_core.wire.protocols.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    JsonRpcMessage,
    RpcError,
    as_object,
    valid_id,
)

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSIONS = ("2026-07-28",)

UNSUPPORTED_VERSION = -32022

_META = "io.modelcontextprotocol/"
VERSION_KEY = f"{_META}protocolVersion"
CAPABILITIES_KEY = f"{_META}clientCapabilities"
SERVER_INFO_KEY = f"{_META}serverInfo"

MAX_CONCURRENT_CALLS = 32
"""Concurrent tool calls of one session; docs/reference/limits.md has the setting."""
# Requests without a delivered response; at the limit, further requests wait.
_MAX_OPEN_REQUESTS = 1000
_MAX_JSON_DEPTH = 64
_MAX_QUOTED_LENGTH = 100
# Results of the stateless mode that say how long a client may keep them: not at all, since they are the caller's.
_CACHEABLE_METHODS = (
    *("server/discover", "tools/list", "prompts/list"),
    *("resources/list", "resources/templates/list", "resources/read"),
)

MethodHandler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class SessionMode(Enum):
    """The protocol modes that a session accepts."""

    HANDSHAKE = "handshake"
    BOTH = "both"


class CallContext(Protocol):
    """The context of one call, beside its arguments."""

    meta: dict[str, Any]
    """`_meta` of the request: progressToken, and members added by hosts (claudecode/toolUseId, threadId, ...)."""

    async def progress(self, value: float, total: float | None, message: str) -> None:
        """Notify the client of progress, if it asked for that and the value has grown."""


class ToolResult(Struct):
    """The result of a tool call."""

    structured: dict[str, Any]
    text: str = ""
    """For hosts that show text; empty: the structured result as JSON."""
    is_error: bool = False
    content: list[dict[str, Any]] = []
    """Content blocks in place of the text, for tools that return images and the like."""


class ToolHost(Protocol):
    """The owner of the tools."""

    name: str
    version: str

    async def load_instructions(self) -> str:
        """Return the instructions that a client receives at the start of a session."""

    def tools(self) -> Sequence[ToolSpec]:
        """Return the tools in the order of the listing."""

    async def call(self, spec: ToolSpec, arguments: Struct, context: CallContext) -> ToolResult:
        """Run a tool. May raise ToolError. Cancelled when the client cancels the request."""


class ExtraMethods(Struct, frozen=True):
    """Methods of a session beside the tools: those of features, and single ones of test servers, which replace them."""

    methods: Mapping[str, MethodHandler] = {}
    capabilities: dict[str, Any] = {}
    """How the single methods are announced to the client."""
    features: tuple[McpFeature, ...] = ()
    tasks: TaskRunner | None = None
    """One of the features, if there is one that runs calls as tasks."""


class _RunningCall:
    """A running `tools/call`; implements CallContext."""

    def __init__(self, session: "McpClientSession", meta: dict[str, Any]) -> None:
        self.meta = meta
        self.ended = False
        self._session = session
        self._token = valid_id(meta.get("progressToken"))
        self._last_progress = float("-inf")

    async def progress(self, value: float, total: float | None, message: str) -> None:
        if self._token is None or self.ended or value <= self._last_progress:
            return
        self._last_progress = value
        payload: JsonRpcMessage = {"progressToken": self._token, "progress": value}
        if total is not None:
            payload["total"] = total
        if message:
            payload["message"] = message
        await self._session.notify("notifications/progress", payload)


class McpClientSession:
    """A connection of one client.

    `send` writes one JSON-RPC message; it may be called concurrently, and its exceptions do not end the session.
    `experimental`: returns the experimental capabilities for a client, from its `clientInfo`."""

    def __init__(
        self,
        host: ToolHost,
        send: Callable[[JsonRpcMessage], Awaitable[None]],
        *,
        mode: SessionMode,
        experimental: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
        on_notification: Callable[[str, dict[str, Any]], Awaitable[None]] | None = None,
        on_fault: Callable[[BaseException], None] | None = None,
        max_calls: int = MAX_CONCURRENT_CALLS,
        extra: ExtraMethods | None = None,
    ) -> None:
        self.protocol_version = ""
        """The version agreed on in the handshake; empty before."""
        self.client: dict[str, Any] = {}
        """The client's `clientInfo`: `name`, `version`."""
        self.client_capabilities: dict[str, Any] = {}
        self.initialized = asyncio.Event()
        """Set once the client has sent `notifications/initialized`."""
        self._host = host
        self._send = send
        self._mode = mode
        self._experimental = experimental
        self._on_notification = on_notification
        self._on_fault = on_fault or (lambda _error: None)
        self._max_calls = max_calls
        self._extra = extra or ExtraMethods()
        self._open_requests: dict[str | int, asyncio.Task[None]] = {}
        self._running_calls = 0
        self._closed = False
        self.watches = WatchSet(self._send_notification)

    # -- in ------------------------------------------------------------------------------------------------------------

    async def receive_line(self, line: bytes) -> None:
        """Handle one line. Never raises.

        Lines that do not look like JSON are ignored: hosts write them by mistake and could not match an error
        response. Half of a surrogate pair is U+FFFD. What cannot be read is rejected under the request's own id where
        that can be read, so that its call does not wait for ever."""
        text = line.removeprefix(codecs.BOM_UTF8).strip()
        if text[:1] not in (b"{", b"["):
            return
        try:
            message = strict_json.decode(_repair_text(text), max_depth=_MAX_JSON_DEPTH)
        except MoleculeError as error:
            id_ = _echoable_id(strict_json.read_member(text, "id"))
            await self._write(RpcError(PARSE_ERROR, error.text).to_response(id_))
            return
        await self.receive(message)

    async def receive(self, message: object) -> None:
        """Handle one message or a batch, each request in its own task. Never raises.

        Returns at once, unless the client has too many unread responses."""
        for each in message if isinstance(message, list) and message else [message]:
            await self._receive_one(each)

    async def _receive_one(self, message: object) -> None:
        if self._closed:
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            error = RpcError(INVALID_REQUEST, 'the message must be a JSON-RPC object with "jsonrpc": "2.0"')
            await self._write(error.to_response(None))
            return
        method = message.get("method")
        if method is None and ("result" in message or "error" in message):
            return  # a response; this side sends no requests
        if "id" not in message:
            if isinstance(method, str):
                await self._handle_notification(method, as_object(message.get("params")))
            return
        await self._handle_request(message["id"], method, message.get("params"))

    async def _handle_notification(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/cancelled":
            request_id = valid_id(params.get("requestId"))
            task = None if request_id is None else self._open_requests.get(request_id)
            if task is not None:
                task.cancel()
        elif method == "notifications/initialized":
            self.initialized.set()
        if self._on_notification is not None:
            try:
                await self._on_notification(method, params)
            except Exception as error:
                self._on_fault(error)

    async def _handle_request(self, request_id: Any, method: Any, params: Any) -> None:
        id_ = valid_id(request_id)
        if id_ is None or not isinstance(method, str) or not isinstance(params, dict | None):
            error = RpcError(INVALID_REQUEST, "id must be a string or an integer, method a string, params an object")
            await self._write(error.to_response(id_))
        elif id_ in self._open_requests:
            error = RpcError(INVALID_REQUEST, "a request with this id is still running. Use another id.")
            await self._write(error.to_response(id_))
        else:
            if len(self._open_requests) >= _MAX_OPEN_REQUESTS:
                await asyncio.wait(list(self._open_requests.values()), return_when=asyncio.FIRST_COMPLETED)
            task = asyncio.create_task(self._serve_request(id_, method, params or {}))
            self._open_requests[id_] = task
            task.add_done_callback(lambda _: self._open_requests.pop(id_, None))

    async def drain(self) -> None:
        """Wait until no request is running."""
        while self._open_requests:
            await asyncio.wait(list(self._open_requests.values()))

    async def close(self) -> None:
        """Cancel all running requests. Nothing is sent afterwards."""
        self._closed = True
        for task in self._open_requests.values():
            task.cancel()
        await self.drain()
        await self.watches.close()

    # -- out -----------------------------------------------------------------------------------------------------------

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification to the client. Never raises."""
        await self._write({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    async def _send_notification(self, notification: Notification) -> None:
        await self.notify(*notification)

    async def _write(self, message: JsonRpcMessage) -> None:
        """Send one message completely, even if the caller is cancelled meanwhile."""
        if not self._closed:
            await asyncio.shield(self._send_message(message))

    async def _send_message(self, message: JsonRpcMessage) -> None:
        try:
            await self._send(message)
        except Exception as error:  # the reader of the connection detects its loss
            self._on_fault(error)

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _serve_request(self, id_: str | int, method: str, params: dict[str, Any]) -> None:
        try:
            result = await self._dispatch(id_, method, params)
        except RpcError as error:
            await self._write(error.to_response(id_))
        except asyncio.CancelledError:
            return  # a cancelled request gets no response
        except Exception as error:
            self._on_fault(error)
            await self._write(
                RpcError(INTERNAL_ERROR, "the server had an internal error. Retry the request.").to_response(id_)
            )
        else:
            task = asyncio.current_task()
            if task is None or not task.cancelling():  # the tool may have suppressed the cancellation
                await self._write({"jsonrpc": "2.0", "id": id_, "result": result})

    async def _dispatch(self, id_: str | int, method: str, params: dict[str, Any]) -> JsonRpcMessage:
        meta = as_object(params.get("_meta"))
        if VERSION_KEY in meta and method != "initialize":
            return await self._dispatch_stateless(id_, method, params, meta)
        if method == "initialize":
            return await self._initialize(params)
        if method == "ping":
            return {}
        version = self.protocol_version or HANDSHAKE_VERSIONS[-1]
        request = FeatureRequest(params, meta, id_, version, self.client_capabilities, self)
        return await self._dispatch_common(method, request)

    async def _dispatch_common(self, method: str, request: FeatureRequest) -> JsonRpcMessage:
        """Run a method that both modes may have."""
        if method == "tools/list":
            return {"tools": [self._listing(spec, request.version) for spec in self._host.tools()]}
        if method == "tools/call":
            return await self._call_tool(request)
        if method in self._extra.methods:
            return await self._extra.methods[method](request.params)
        feature_method = self._find_feature_method(method, request.version)
        if feature_method is not None:
            return await feature_method(request)
        raise RpcError(METHOD_NOT_FOUND, f"this server has no method {truncate_line(method, _MAX_QUOTED_LENGTH)!r}")

    def _listing(self, spec: ToolSpec, version: str) -> JsonRpcMessage:
        tasks = self._extra.tasks
        return tool_listing(spec) | ({} if tasks is None else tasks.listing_members(spec, version))

    def _find_feature_method(self, method: str, version: str) -> FeatureMethod | None:
        found = (feature.methods(version).get(method) for feature in self._extra.features)
        return next((each for each in found if each is not None), None)

    async def _initialize(self, params: dict[str, Any]) -> JsonRpcMessage:
        requested_version = params.get("protocolVersion")
        if not isinstance(requested_version, str):
            raise RpcError(INVALID_PARAMS, "protocolVersion must be a string")
        self.protocol_version = requested_version if requested_version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        self.client = as_object(params.get("clientInfo"))
        self.client_capabilities = as_object(params.get("capabilities"))
        return {
            "protocolVersion": self.protocol_version,
            "capabilities": self._capabilities(self.protocol_version),
            "serverInfo": self._server_info(),
            "instructions": await self._host.load_instructions(),
        }

    def _capabilities(self, version: str) -> dict[str, Any]:
        experimental = dict(self._experimental(self.client)) if self._experimental is not None else {}
        found: dict[str, Any] = {"tools": {}, **({"experimental": experimental} if experimental else {})}
        for feature in self._extra.features:
            found |= feature.capabilities(version)
        return found | self._extra.capabilities

    def _server_info(self) -> dict[str, str]:
        return {"name": self._host.name, "version": self._host.version}

    async def _dispatch_stateless(
        self, id_: str | int, method: str, params: dict[str, Any], meta: dict[str, Any]
    ) -> JsonRpcMessage:
        """Run a request of the stateless mode, which names its protocol version."""
        if self._mode is SessionMode.HANDSHAKE and method == "server/discover":
            raise RpcError(METHOD_NOT_FOUND, "this server requires the handshake. Send initialize first.")
        requested_version = meta[VERSION_KEY]
        if not isinstance(requested_version, str) or not isinstance(meta.get(CAPABILITIES_KEY), dict):
            raise RpcError(
                INVALID_PARAMS, f"_meta must contain {VERSION_KEY} (a string) and {CAPABILITIES_KEY} (an object)"
            )
        versions = STATELESS_VERSIONS if self._mode is SessionMode.BOTH else ()
        if requested_version not in versions:
            payload = {"supported": list(versions), "requested": requested_version[:_MAX_QUOTED_LENGTH]}
            raise RpcError(UNSUPPORTED_VERSION, "this protocol version is not supported", payload)
        if method == "server/discover":
            capabilities = self._capabilities(requested_version)
            result: JsonRpcMessage = {"supportedVersions": list(versions), "capabilities": capabilities}
            result["instructions"] = await self._host.load_instructions()
        else:
            client_capabilities = as_object(meta[CAPABILITIES_KEY])
            request = FeatureRequest(params, meta, id_, requested_version, client_capabilities, self)
            result = await self._dispatch_common(method, request)
        if method in _CACHEABLE_METHODS:
            result = {"ttlMs": 0, "cacheScope": "private", **result}
        result_meta = {**as_object(result.get("_meta")), SERVER_INFO_KEY: self._server_info()}
        return {"resultType": "complete", **result, "_meta": result_meta}

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def _call_tool(self, request: FeatureRequest) -> JsonRpcMessage:
        params, tasks = request.params, self._extra.tasks
        name = params.get("name")
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "name must be the name of a tool")
        if self._running_calls >= self._max_calls:
            return _error_result(
                f"{self._running_calls} calls are running, the limit for one session. Wait until one has ended, then "
                "call again."
            )
        context = _RunningCall(self, request.meta)
        self._running_calls += 1
        try:
            spec = self._find_tool(name)
            arguments = spec.parse_arguments(params.get("arguments"))
            task = None if tasks is None else await tasks.begin(spec, arguments, request)
            if task is not None:
                return task
            outcome = await self._host.call(spec, arguments, context)
        except RpcError:
            raise
        except ToolError as error:
            if tasks is not None and tasks.is_wanted(request):  # a result would not be the task that was asked for
                raise RpcError(INVALID_PARAMS, error.text, {"code": error.code}) from None
            return _error_result(error.text, error.code)
        except Exception as error:  # a failing tool must not end the agent's connection
            self._on_fault(error)
            return _error_result(
                f"{name} failed with an internal error, and its effect is unknown. Check the effect, then retry once."
            )
        finally:
            self._running_calls -= 1
            context.ended = True
        return _add_note(call_result(outcome), spec, spec.unknown_note(params.get("arguments")))

    def _find_tool(self, name: str) -> ToolSpec:
        for spec in self._host.tools():
            if spec.name == name:
                return spec
        known = ", ".join(spec.name for spec in self._host.tools())
        raise ToolError(
            f"tool {truncate_line(name, _MAX_QUOTED_LENGTH)!r} not found. Available tools: {known}", "unknown_tool"
        )


def _repair_text(text: bytes) -> bytes:
    """Return the repaired text of a message, or the text itself if its id would change."""
    repaired = strict_json.repair_text(text)
    if repaired is text or strict_json.read_member(text, "id") == strict_json.read_member(repaired, "id"):
        return repaired
    return text


def _echoable_id(value: object) -> str | int | None:
    """Return the id of a request that was rejected, or None if it cannot be written unchanged."""
    id_ = valid_id(value)
    return None if isinstance(id_, str) and not id_.isprintable() else id_


def tool_listing(spec: ToolSpec) -> JsonRpcMessage:
    """Return the tool's entry in `tools/list`."""
    hints = spec.annotations
    listing: JsonRpcMessage = {
        "name": spec.name,
        "description": spec.description,
        "inputSchema": spec.input_schema,
        "outputSchema": spec.output_schema,
        "annotations": {
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": hints.open_world,
        },
    }
    if spec.always_load:  # else Claude Code hides it behind its search for tools
        listing["_meta"] = {"anthropic/alwaysLoad": True}
    return listing


def call_result(outcome: ToolResult) -> JsonRpcMessage:
    """Return the result of a tool's call."""
    text = outcome.text or msgspec.json.encode(outcome.structured).decode()
    content = outcome.content or [{"type": "text", "text": text}]
    return {"content": content, "structuredContent": outcome.structured, "isError": outcome.is_error}


def _add_note(result: JsonRpcMessage, spec: ToolSpec, text: str) -> JsonRpcMessage:
    """Add a note to a result: in its own note if it has one, since models of some hosts see nothing else."""
    if not text:
        return result
    result["content"] = [*result["content"], {"type": "text", "text": text}]
    if "note" in spec.output_schema.get("properties", {}):
        note = result["structuredContent"].get("note")
        result["structuredContent"] = {**result["structuredContent"], "note": f"{note}; {text}" if note else text}
    return result


def _error_result(text: str, code: str = "tool_failed") -> JsonRpcMessage:
    """Return an error as the result of a tool call, so that the model reads it and can react."""
    return {"content": [{"type": "text", "text": text}], "isError": True, "_meta": {"molecule/code": code}}
