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

from molecule_core.ground.errors import MoleculeError
from molecule_core.ground.text import shorten
from molecule_core.wire import strictjson
from molecule_core.wire.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    Message,
    RpcError,
    object_of,
    usable_id,
)
from molecule_core.wire.toolspec import ToolError, ToolSpec

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSIONS = ("2026-07-28",)

UNSUPPORTED_VERSION = -32022

_META = "io.modelcontextprotocol/"
VERSION_KEY = f"{_META}protocolVersion"
CAPABILITIES_KEY = f"{_META}clientCapabilities"
SERVER_KEY = f"{_META}serverInfo"

MOST_CALLS = 32
"""Calls of tools that one session runs at the same time; docs/limits.md has the setting."""
# Answers that a client lets lie unread before no more of its requests are taken.
_MOST_OPEN = 1000
_MOST_DEPTH = 64
_MOST_REPEATED = 100

Method = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class Eras(Enum):
    """Which protocol a session speaks."""

    HANDSHAKE = "handshake"
    BOTH = "both"


class Calling(Protocol):
    """What a host learns of one call, beside its arguments."""

    meta: dict[str, Any]
    """`_meta` of the request: progressToken, and what hosts add of their own (claudecode/toolUseId, threadId, ...)."""

    async def progress(self, value: float, total: float | None, message: str) -> None:
        """Tells how far the work is, if the client asked to be told; only what is further than before."""


class Outcome(Struct):
    """What a tool gives back."""

    structured: dict[str, Any]
    text: str = ""
    """For hosts that show text; empty: the structured result as JSON."""
    is_error: bool = False
    content: list[dict[str, Any]] = []
    """Content blocks instead of the text, for tools that give pictures and the like."""


class Host(Protocol):
    """Who has the tools."""

    name: str
    version: str

    @property
    def instructions(self) -> str:
        """The convention in a paragraph, asked for when a client begins."""

    def tools(self) -> Sequence[ToolSpec]:
        """The tools in the order in which they are listed."""

    async def call(self, spec: ToolSpec, arguments: Struct, calling: Calling) -> Outcome:
        """Runs a tool. May raise ToolError; is cancelled when the client gives up."""


class Extra(Struct, frozen=True):
    """What a session answers beside tools."""

    methods: Mapping[str, Method] = {}
    capabilities: dict[str, Any] = {}
    """How it tells its client so."""


class _Call:
    """One `tools/call` under way. (A Calling.)"""

    def __init__(self, session: "Session", meta: dict[str, Any]) -> None:
        self.meta = meta
        self.over = False
        self._session = session
        self._token = usable_id(meta.get("progressToken"))
        self._far = float("-inf")

    async def progress(self, value: float, total: float | None, message: str) -> None:
        if self._token is None or self.over or value <= self._far:
            return
        self._far = value
        told: Message = {"progressToken": self._token, "progress": value}
        if total is not None:
            told["total"] = total
        if message:
            told["message"] = message
        await self._session.notify("notifications/progress", told)


class Session:
    """One client's connection. `send` writes one JSON-RPC message, and may be called while it is still writing another
    one; whatever it raises ends nothing here. `experimental`: what a client is offered by what it says of itself."""

    def __init__(
        self,
        host: Host,
        send: Callable[[Message], Awaitable[None]],
        *,
        eras: Eras,
        experimental: Callable[[dict[str, Any]], Mapping[str, Any]] | None = None,
        on_notification: Callable[[str, dict[str, Any]], Awaitable[None]] | None = None,
        on_fault: Callable[[BaseException], None] | None = None,
        most_calls: int = MOST_CALLS,
        extra: Extra | None = None,
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
        self._eras = eras
        self._experimental = experimental
        self._on_notification = on_notification
        self._fault = on_fault or (lambda _error: None)
        self._most_calls = most_calls
        self._extra = extra or Extra()
        self._open: dict[str | int, asyncio.Task[None]] = {}
        self._calls = 0
        self._closed = False

    # -- in ------------------------------------------------------------------------------------------------------------

    async def take_line(self, line: bytes) -> None:
        """Takes one line. What does not even look like JSON is passed over: hosts write such things by mistake, and an
        answer that they cannot match to anything helps nobody. Never raises."""
        text = line.strip()
        if text[:1] not in (b"{", b"["):
            return
        try:
            message = strictjson.decode(text, max_depth=_MOST_DEPTH)
        except MoleculeError as error:
            await self._write(RpcError(PARSE_ERROR, error.text).answer(None))
            return
        await self.take(message)

    async def take(self, message: object) -> None:
        """Takes one message, or a batch of them; a request is worked on in a task of its own. Returns at once, unless
        the client leaves very many answers unread. Never raises."""
        for each in message if isinstance(message, list) and message else [message]:
            await self._take_one(each)

    async def _take_one(self, message: object) -> None:
        if self._closed:
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            refusal = RpcError(INVALID_REQUEST, 'send JSON-RPC objects with "jsonrpc": "2.0"')
            await self._write(refusal.answer(None))
            return
        method = message.get("method")
        if method is None and ("result" in message or "error" in message):
            return  # an answer, although nothing was asked
        if "id" not in message:
            if isinstance(method, str):
                await self._notified(method, object_of(message.get("params")))
            return
        await self._requested(message["id"], method, message.get("params"))

    async def _notified(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/cancelled":
            given = usable_id(params.get("requestId"))
            task = None if given is None else self._open.get(given)
            if task is not None:
                task.cancel()
        elif method == "notifications/initialized":
            self.initialized.set()
        if self._on_notification is not None:
            try:
                await self._on_notification(method, params)
            except Exception as error:
                self._fault(error)

    async def _requested(self, given: Any, method: Any, params: Any) -> None:
        id_ = usable_id(given)
        if id_ is None or not isinstance(method, str) or not isinstance(params, dict | None):
            refusal = RpcError(INVALID_REQUEST, "id must be text or a whole number, method text, params an object")
            await self._write(refusal.answer(id_))
        elif id_ in self._open:
            refusal = RpcError(INVALID_REQUEST, "a request with this id is under way; take another id")
            await self._write(refusal.answer(id_))
        else:
            if len(self._open) >= _MOST_OPEN:
                await asyncio.wait(list(self._open.values()), return_when=asyncio.FIRST_COMPLETED)
            task = asyncio.create_task(self._serve(id_, method, params or {}))
            self._open[id_] = task
            task.add_done_callback(lambda _: self._open.pop(id_, None))

    async def drain(self) -> None:
        """Returns when nothing is under way."""
        while self._open:
            await asyncio.wait(list(self._open.values()))

    async def close(self) -> None:
        """Ends all that is under way; nothing is sent any more."""
        self._closed = True
        for task in self._open.values():
            task.cancel()
        await self.drain()

    # -- out -----------------------------------------------------------------------------------------------------------

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Tells the client something that it did not ask for. Never raises."""
        await self._write({"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})})

    async def _write(self, message: Message) -> None:
        """One message goes out whole, also if whoever wrote it is cancelled meanwhile."""
        if not self._closed:
            await asyncio.shield(self._sent(message))

    async def _sent(self, message: Message) -> None:
        try:
            await self._send(message)
        except Exception as error:  # a lost connection is noticed by whoever reads from it
            self._fault(error)

    # -- requests ------------------------------------------------------------------------------------------------------

    async def _serve(self, id_: str | int, method: str, params: dict[str, Any]) -> None:
        try:
            result = await self._result(method, params)
        except RpcError as error:
            await self._write(error.answer(id_))
        except asyncio.CancelledError:
            return  # who gives up wants no answer
        except Exception as error:
            self._fault(error)
            await self._write(RpcError(INTERNAL_ERROR, "the server made a mistake; try it once more").answer(id_))
        else:
            task = asyncio.current_task()
            if task is None or not task.cancelling():  # a tool may have held the cancellation back
                await self._write({"jsonrpc": "2.0", "id": id_, "result": result})

    async def _result(self, method: str, params: dict[str, Any]) -> Message:
        meta = object_of(params.get("_meta"))
        if VERSION_KEY in meta and method != "initialize":
            return await self._stateless(method, params, meta)
        if method == "initialize":
            return self._greet(params)
        if method == "ping":
            return {}
        return await self._common(method, params, meta)

    async def _common(self, method: str, params: dict[str, Any], meta: dict[str, Any]) -> Message:
        """What both eras have."""
        if method == "tools/list":
            return {"tools": [listed(spec) for spec in self._host.tools()]}
        if method == "tools/call":
            return await self._call(params, meta)
        if method in self._extra.methods:
            return await self._extra.methods[method](params)
        raise RpcError(METHOD_NOT_FOUND, f"this server has no method {shorten(method, _MOST_REPEATED)!r}")

    def _greet(self, params: dict[str, Any]) -> Message:
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            raise RpcError(INVALID_PARAMS, "protocolVersion must be text")
        self.protocol_version = asked if asked in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
        self.client = object_of(params.get("clientInfo"))
        self.client_capabilities = object_of(params.get("capabilities"))
        return {
            "protocolVersion": self.protocol_version,
            "capabilities": self._offers(),
            "serverInfo": self._itself(),
            "instructions": self._host.instructions,
        }

    def _offers(self) -> dict[str, Any]:
        offered = dict(self._experimental(self.client)) if self._experimental is not None else {}
        return {"tools": {}, **({"experimental": offered} if offered else {}), **self._extra.capabilities}

    def _itself(self) -> dict[str, str]:
        return {"name": self._host.name, "version": self._host.version}

    async def _stateless(self, method: str, params: dict[str, Any], meta: dict[str, Any]) -> Message:
        """A request of the second era, which says by itself what it speaks."""
        if self._eras is Eras.HANDSHAKE and method == "server/discover":
            raise RpcError(METHOD_NOT_FOUND, "this server speaks the handshake: begin with initialize")
        asked = meta[VERSION_KEY]
        if not isinstance(asked, str) or not isinstance(meta.get(CAPABILITIES_KEY), dict):
            raise RpcError(INVALID_PARAMS, f"_meta must hold {VERSION_KEY} (text) and {CAPABILITIES_KEY} (an object)")
        versions = STATELESS_VERSIONS if self._eras is Eras.BOTH else ()
        if asked not in versions:
            told = {"supported": list(versions), "requested": asked[:_MOST_REPEATED]}
            raise RpcError(UNSUPPORTED_VERSION, "this protocol version is not supported", told)
        if method == "server/discover":
            result: Message = {"supportedVersions": list(versions), "capabilities": self._offers()}
            result["instructions"] = self._host.instructions
        else:
            result = await self._common(method, params, meta)
        if method in ("server/discover", "tools/list"):
            result = {"ttlMs": 0, "cacheScope": "private", **result}
        told_meta = {**object_of(result.get("_meta")), SERVER_KEY: self._itself()}
        return {"resultType": "complete", **result, "_meta": told_meta}

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def _call(self, params: dict[str, Any], meta: dict[str, Any]) -> Message:
        name = params.get("name")
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "name must be the name of a tool")
        if self._calls >= self._most_calls:
            return _refused(f"{self._calls} calls are under way already; wait until one has ended, then call again.")
        calling = _Call(self, meta)
        self._calls += 1
        try:
            spec = self._find(name)
            outcome = await self._host.call(spec, spec.arguments(params.get("arguments")), calling)
        except ToolError as error:
            return _refused(error.text, error.code)
        except Exception as error:  # a tool that breaks must not end the agent's connection
            self._fault(error)
            return _refused(f"{name} broke inside Molecule; what it did is not known. Look, then try it once more.")
        finally:
            self._calls -= 1
            calling.over = True
        return _told(outcome)

    def _find(self, name: str) -> ToolSpec:
        for spec in self._host.tools():
            if spec.name == name:
                return spec
        known = ", ".join(spec.name for spec in self._host.tools())
        raise ToolError(f"there is no tool {shorten(name, _MOST_REPEATED)!r}; there are: {known}", "unknown_tool")


def listed(spec: ToolSpec) -> Message:
    """A tool as `tools/list` shows it."""
    hints = spec.annotations
    shown: Message = {
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
        shown["_meta"] = {"anthropic/alwaysLoad": True}
    return shown


def _told(outcome: Outcome) -> Message:
    text = outcome.text or msgspec.json.encode(outcome.structured).decode()
    content = outcome.content or [{"type": "text", "text": text}]
    return {"content": content, "structuredContent": outcome.structured, "isError": outcome.is_error}


def _refused(text: str, code: str = "tool_failed") -> Message:
    """A refusal as the result of a tool, so that the model reads it and can do better."""
    return {"content": [{"type": "text", "text": text}], "isError": True, "_meta": {"molecule/code": code}}
