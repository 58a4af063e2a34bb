"""Offers the registry's tools to an engine's model and runs its calls.

A call is keyed by its thread and call id: operations with a key are done once, even if a killed process did them
before.
"""

import hashlib
from collections.abc import Awaitable, Callable, Collection
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from molecule_core.agent.engines.models import ToolDefinition
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.tools.mcp_dispatcher import CallContext, ToolResult
from molecule_core.tools.registry import TOOLS
from molecule_core.tools.runners.collaboration_tools import COLLAB_SECTION as COLLAB
from molecule_core.tools.runners.message_tools import CALL_META_KEY, THREAD_META_KEY
from molecule_core.tools.spec import RouteCall, ToolError, ToolSpec

EXCLUDED_TOOLS = ("wait_for_message", "inbox_peek", "inbox_pop", "get_runtime_identity")
"""Tools for hosts that read their messages themselves."""
_IDEMPOTENT_TOOLS = (
    "reply",
    "decline",
    "reply_to_workspace",
    "delegate_task",
    "delegate_task_async",
    "request_approval",
)
"""Tools with several requests that are done once for all calls with one name."""
# Half of a SHA-256 hash: still unique, and short enough for a key that begins with the workspace's id.
_NAME_LENGTH = 32


class ToolOutput(NamedTuple):
    """Output of a call, for the model."""

    text: str
    is_error: bool = False


class ThreadToolCall(Struct, frozen=True):
    """A call of a tool in a thread."""

    thread_id: str
    call_id: str
    tool: str
    arguments: Any


class ToolCaller(Protocol):
    """Runner of registry tools."""

    async def call(self, spec: ToolSpec, arguments: Struct, context: CallContext) -> ToolResult:
        """Run a tool and return its result. Raises ToolError."""


CollabRunner = Callable[[str, Struct, str], Awaitable[dict[str, Any]]]
"""Runs a tool about threads: thread, arguments, call id. Raises ToolError."""


class _ThreadCallContext:
    """A `CallContext` identified by thread and call.

    Call ids are unique only within a thread, so the platform gets a hash of both.
    """

    def __init__(self, call: ThreadToolCall) -> None:
        name = hashlib.sha256(f"{call.thread_id} {call.call_id}".encode()).hexdigest()[:_NAME_LENGTH]
        self.meta = {CALL_META_KEY: name, "threadId": call.thread_id, THREAD_META_KEY: call.thread_id}

    async def progress(self, value: float, total: float | None, message: str) -> None:
        """Do nothing: the call is in the thread's log."""


class Toolbox:
    """Tools offered to a model.

    `chosen`: all, none, or the tools with these names. `on_result`: called with each result.
    """

    def __init__(
        self,
        chosen: bool | list[str],
        caller: ToolCaller,
        collab: CollabRunner,
        *,
        on_result: Callable[[ThreadToolCall, dict[str, Any]], None],
        max_bytes: int,
    ) -> None:
        chosen_names = chosen if isinstance(chosen, list) else [spec.name for spec in TOOLS if chosen]
        self._specs = {
            spec.name: spec for spec in TOOLS if spec.name in chosen_names and spec.name not in EXCLUDED_TOOLS
        }
        self._caller = caller
        self._collab = collab
        self._on_result = on_result
        self._max_bytes = max_bytes

    def definitions(self, allowed: Collection[str] | None) -> list[ToolDefinition]:
        """Return the tool definitions, always in the same order. `allowed`: the thread's tools; None: all."""
        specs = [spec for spec in self._specs.values() if allowed is None or spec.name in allowed]
        return [ToolDefinition(spec.name, spec.description, spec.input_schema) for spec in specs]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the tool names."""
        return tuple(self._specs)

    def is_repeatable(self, name: str) -> bool:
        """Return whether a call that may have been run can be run again without acting twice."""
        spec = self._specs.get(name)
        if spec is None:
            return True  # it was never run
        keyed = spec.call.keyed if isinstance(spec.call, RouteCall) else spec.name in _IDEMPOTENT_TOOLS
        return spec.annotations.read_only or keyed or spec.section == COLLAB

    async def run_call(self, call: ThreadToolCall, allowed: Collection[str] | None) -> ToolOutput:
        """Return the output of a call; errors become output for the model."""
        spec = self._specs.get(call.tool)
        if spec is None or (allowed is not None and spec.name not in allowed):
            available = ", ".join(each.name for each in self.definitions(allowed)) or "none"
            return ToolOutput(f"tool {sanitize_line(call.tool)!r} not found. Available tools: {available}", True)
        try:
            return ToolOutput(self._truncate(await self._call_tool(spec, call)))
        except ToolError as error:
            return ToolOutput(self._truncate(error.text), True)
        except ApiError as error:
            return ToolOutput(self._truncate(str(error.problem.get("error", error))), True)

    async def _call_tool(self, spec: ToolSpec, call: ThreadToolCall) -> str:
        if spec.section == COLLAB:
            arguments = spec.parse_arguments(call.arguments)
            if getattr(arguments, "thread_id", "") not in ("", call.thread_id):
                raise ToolError("you always act from your own thread. Omit thread_id.", "wrong_thread")
            return msgspec.json.encode(await self._collab(call.thread_id, arguments, call.call_id)).decode()
        try:
            outcome = await self._caller.call(spec, spec.parse_arguments(call.arguments), _ThreadCallContext(call))
        except NoAnswerError as error:
            raise ToolError(
                f"the server did not answer ({error}). It is unknown whether the call took effect."
            ) from None
        self._on_result(call, outcome.structured)
        text = outcome.text or msgspec.json.encode(outcome.structured).decode()
        note = spec.unknown_note(call.arguments)
        return f"{text}\n{note}" if note else text

    def _truncate(self, text: str) -> str:
        whole = text.encode()
        if len(whole) <= self._max_bytes:
            return text
        return (
            f"{whole[: self._max_bytes].decode(errors='ignore')}\n… ({len(whole) - self._max_bytes} more bytes omitted)"
        )
