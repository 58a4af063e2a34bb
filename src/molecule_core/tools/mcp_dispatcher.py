"""The Model Context Protocol as a server of tools speaks it: one dispatcher for stdio and HTTP, without I/O.

Above: who reads and writes the bytes (agent: lines; edges: HTTP), and a `Host` that has the tools and runs them.
Below: the registry's types. Two eras of the protocol: up to 2025-11-25 a client begins with `initialize`; from
2026-07-28 on each request says by itself which version it speaks. A host that pushes messages into its client needs
the first one: a client that finds the second one offers no way for that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from molecule_core.common.errors import MoleculeError
from molecule_core.common.text import truncate_line
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
"""Calls of tools that one session runs at the same time; docs/limits.md has the setting."""
# Answers that a client lets lie unread before no more of its requests are taken.
_MAX_OPEN_REQUESTS = 1000
_MAX_JSON_DEPTH = 64
_MAX_QUOTED_LENGTH = 100

MethodHandler = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class SessionMode(Enum):
    """Which protocol a session speaks."""

    HANDSHAKE = "handshake"
    BOTH = "both"


class CallContext(Protocol):
    """What a host learns of one call, beside its arguments."""

    meta: dict[str, Any]
    """`_meta` of the request: progressToken, and what hosts add of their own (claudecode/toolUseId, threadId, ...)."""

    async def progress(self, value: float, total: float | None, message: str) -> None:
        """Tells how far the work is, if the client asked to be told; only what is further than before."""


class ToolResult(Struct):
    """What a tool gives back."""

    structured: dict[str, Any]
    text: str = ""
    """For hosts that show text; empty: the structured result as JSON."""
    is_error: bool = False
    content: list[dict[str, Any]] = []
    """Content blocks instead of the text, for tools that give pictures and the like."""


class ToolHost(Protocol):
    """Who has the tools."""

    name: str
    version: str

    @property
    def instructions(self) -> str:
        """The convention in a paragraph, asked for when a client begins."""

    def tools(self) -> Sequence[ToolSpec]:
        """The tools in the order in which they are listed."""

    async def call(self, spec: ToolSpec, arguments: Struct, context: CallContext) -> ToolResult:
        """Runs a tool. May raise ToolError; is cancelled when the client gives up."""


class ExtraMethods(Struct, frozen=True):
    """What a session answers beside tools."""

    methods: Mapping[str, MethodHandler] = {}
    capabilities: dict[str, Any] = {}
    """How it tells its client so."""


class _RunningCall:
    """One `tools/call` under way. (A Calling.)"""

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
    """One client's connection. `send` writes one JSON-RPC message, and may be called while it is still writing another
    one; whatever it raises ends nothing here. `experimental`: what a client is offered by what it says of itself."""

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
        """What was agreed on by handshake; empty before it."""
        self.client: dict[str, Any] = {}
        """What the client said of itself: `name`, `version`."""
        self.client_capabilities: dict[str, Any] = {}
        self.initialized = asyncio.Event()
        """The client has said that it is ready."""
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

    # -- in ------------------------------------------------------------------------------------------------------------

    async def receive_line(self, line: bytes) -> None:
        """Takes one line. What does not even look like JSON is passed over: hosts write such things by mistake, and an
        answer that they cannot match to anything helps nobody. Never raises."""
        text = line.strip()
        if text[:1] not in (b"{", b"["):
            return
        try:
            message = strict_json.decode(text, max_depth=_MAX_JSON_DEPTH)
        except MoleculeError as error:
            await self._write(RpcError(PARSE_ERROR, error.text).to_response(None))
            return
        await self.receive(message)

    async def receive(self, message: object) -> None:
        """Takes one message, or a batch of them; a request is worked on in a task of its own. Returns at once, unless
        the client leaves very many answers unread. Never raises."""
        for each in message if isinstance(message, list) and message else [message]:
            await self._receive_one(each)

    async def _receive_one(self, message: object) -> None:
        if self._closed:
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            error = RpcError(INVALID_REQUEST, 'send JSON-RPC objects with "jsonrpc": "2.0"')
            await self._write(error.to_response(None))
            return
        method = message.get("method")
        if method is None and ("result" in message or "error" in message):
            return  # an answer, although nothing was asked
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
            error = RpcError(INVALID_REQUEST, "id must be text or a whole number, method text, params an object")
            await self._write(error.to_response(id_))
        elif id_ in self._open_requests:
            error = RpcError(INVALID_REQUEST, "a request with this id is under way; take another id")
            await self._write(error.to_response(id_))
        else:
            if len(self._open_requests) >= _MAX_OPEN_REQUESTS:
                await asyncio.wait(list(self._open_requests.values()), return_when=asyncio.FIRST_COMPLETED)
            task = asyncio.create_task(self._serve_request(id_, method, params or {}))
            self._open_requests[id_] = task
            task.add_done_callback(lambda _: self._open_requests.pop(id_, None))

    async def drain(self) -> None:
        """Returns when nothing is under way."""
        while self._open_requests:
            await asyncio.wait(list(self._open_requests.values()))

    async def close(self) -> None:
        """Ends all that is under way; nothing is sent any more."""
        self._closed = True
        for task in self._open_requests.values():
            task.cancel()
        await self.drain()

    # -- out -----------------------------------------------------------------------------------------------------------

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Tells the client something that it did not ask for. Never raises."""
        await self._write({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    async def _write(self, message: JsonRpcMessage) -> None:
        """One message goes out whole, also if whoever wrote it is cancelled meanwhile."""
        if not self._closed:
            await asyncio.shield(self._send_message(message))

    async def _send_message(self, message: JsonRpcMessage) -> None:
        try:
            await self._send(message)
        except Exception as error:  # a lost connection is noticed by whoever reads from it
            self._on_fault(error)

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _serve_request(self, id_: str | int, method: str, params: dict[str, Any]) -> None:
        try:
            result = await self._dispatch(method, params)
        except RpcError as error:
            await self._write(error.to_response(id_))
        except asyncio.CancelledError:
            return  # who gives up wants no answer
        except Exception as error:
            self._on_fault(error)
            await self._write(RpcError(INTERNAL_ERROR, "the server made a mistake; try it once more").to_response(id_))
        else:
            task = asyncio.current_task()
            if task is None or not task.cancelling():  # a tool may have held the cancellation back
                await self._write({"jsonrpc": "2.0", "id": id_, "result": result})

    async def _dispatch(self, method: str, params: dict[str, Any]) -> JsonRpcMessage:
        meta = as_object(params.get("_meta"))
        if VERSION_KEY in meta and method != "initialize":
            return await self._dispatch_stateless(method, params, meta)
        if method == "initialize":
            return self._initialize(params)
        if method == "ping":
            return {}
        return await self._dispatch_common(method, params, meta)

    async def _dispatch_common(self, method: str, params: dict[str, Any], meta: dict[str, Any]) -> JsonRpcMessage:
        """What both eras have."""
        if method == "tools/list":
            return {"tools": [tool_listing(spec) for spec in self._host.tools()]}
        if method == "tools/call":
            return await self._call_tool(params, meta)
        if method in self._extra.methods:
            return await self._extra.methods[method](params)
        raise RpcError(METHOD_NOT_FOUND, f"this server has no method {truncate_line(method, _MAX_QUOTED_LENGTH)!r}")

    def _initialize(self, params: dict[str, Any]) -> JsonRpcMessage:
        requested_version = params.get("protocolVersion")
        if not isinstance(requested_version, str):
            raise RpcError(INVALID_PARAMS, "protocolVersion must be text")
        self.protocol_version = requested_version if requested_version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        self.client = as_object(params.get("clientInfo"))
        self.client_capabilities = as_object(params.get("capabilities"))
        return {
            "protocolVersion": self.protocol_version,
            "capabilities": self._capabilities(),
            "serverInfo": self._server_info(),
            "instructions": self._host.instructions,
        }

    def _capabilities(self) -> dict[str, Any]:
        experimental = dict(self._experimental(self.client)) if self._experimental is not None else {}
        return {"tools": {}, **({"experimental": experimental} if experimental else {}), **self._extra.capabilities}

    def _server_info(self) -> dict[str, str]:
        return {"name": self._host.name, "version": self._host.version}

    async def _dispatch_stateless(self, method: str, params: dict[str, Any], meta: dict[str, Any]) -> JsonRpcMessage:
        """A request of the second era, which says by itself what it speaks."""
        if self._mode is SessionMode.HANDSHAKE and method == "server/discover":
            raise RpcError(METHOD_NOT_FOUND, "this server speaks the handshake: begin with initialize")
        requested_version = meta[VERSION_KEY]
        if not isinstance(requested_version, str) or not isinstance(meta.get(CAPABILITIES_KEY), dict):
            raise RpcError(INVALID_PARAMS, f"_meta must hold {VERSION_KEY} (text) and {CAPABILITIES_KEY} (an object)")
        versions = STATELESS_VERSIONS if self._mode is SessionMode.BOTH else ()
        if requested_version not in versions:
            payload = {"supported": list(versions), "requested": requested_version[:_MAX_QUOTED_LENGTH]}
            raise RpcError(UNSUPPORTED_VERSION, "this protocol version is not supported", payload)
        if method == "server/discover":
            result: JsonRpcMessage = {"supportedVersions": list(versions), "capabilities": self._capabilities()}
            result["instructions"] = self._host.instructions
        else:
            result = await self._dispatch_common(method, params, meta)
        if method in ("server/discover", "tools/list"):
            result = {"ttlMs": 0, "cacheScope": "private", **result}
        result_meta = {**as_object(result.get("_meta")), SERVER_INFO_KEY: self._server_info()}
        return {"resultType": "complete", **result, "_meta": result_meta}

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def _call_tool(self, params: dict[str, Any], meta: dict[str, Any]) -> JsonRpcMessage:
        name = params.get("name")
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "name must be the name of a tool")
        if self._running_calls >= self._max_calls:
            return _error_result(
                f"{self._running_calls} calls are under way already; wait until one has ended, then call again."
            )
        context = _RunningCall(self, meta)
        self._running_calls += 1
        try:
            spec = self._find_tool(name)
            outcome = await self._host.call(spec, spec.parse_arguments(params.get("arguments")), context)
        except ToolError as error:
            return _error_result(error.text, error.code)
        except Exception as error:  # a tool that breaks must not end the agent's connection
            self._on_fault(error)
            return _error_result(
                f"{name} broke inside Molecule; what it did is not known. Look, then try it once more."
            )
        finally:
            self._running_calls -= 1
            context.ended = True
        return _success_result(outcome)

    def _find_tool(self, name: str) -> ToolSpec:
        for spec in self._host.tools():
            if spec.name == name:
                return spec
        known = ", ".join(spec.name for spec in self._host.tools())
        raise ToolError(
            f"there is no tool {truncate_line(name, _MAX_QUOTED_LENGTH)!r}; there are: {known}", "unknown_tool"
        )


def tool_listing(spec: ToolSpec) -> JsonRpcMessage:
    """A tool as `tools/list` shows it."""
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
    if spec.always_load:  # or Claude Code hides it behind its search for tools
        listing["_meta"] = {"anthropic/alwaysLoad": True}
    return listing


def _success_result(outcome: ToolResult) -> JsonRpcMessage:
    text = outcome.text or msgspec.json.encode(outcome.structured).decode()
    content = outcome.content or [{"type": "text", "text": text}]
    return {"content": content, "structuredContent": outcome.structured, "isError": outcome.is_error}


def _error_result(text: str, code: str = "tool_failed") -> JsonRpcMessage:
    """A refusal as the result of a tool, so that the model reads it and can do better."""
    return {"content": [{"type": "text", "text": text}], "isError": True, "_meta": {"molecule/code": code}}
