"""The tools of the registry in the hands of an engine: which a model is given, and how a call of one is run.

A call is keyed by its thread and its id there: what the platform does by key is done once, also if a life that was
killed has done it before. Above: driving. Below: the agent's own verbs; leave.
"""

import hashlib
from collections.abc import Awaitable, Callable, Collection
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from molecule_core.agent.engines.models import ToolDef
from molecule_core.agent.neutral import line
from molecule_core.client.api import ApiError, NoAnswer
from molecule_core.wire.collaborating import SECTION as COLLAB
from molecule_core.wire.mcp import Calling, Outcome
from molecule_core.wire.tools import TOOLS
from molecule_core.wire.toolspec import Route, ToolError, ToolSpec
from molecule_core.wire.verbs import CALL_NAME, THREAD_NAME

NOT_OURS = ("wait_for_message", "inbox_peek", "inbox_pop", "get_runtime_identity")
"""Tools for hosts that read their mail themselves."""
_BY_KEY = ("reply", "decline", "reply_to_workspace", "delegate_task", "delegate_task_async", "request_approval")
"""Verbs of more than one route that are done once for all calls of one name."""
# Half of a hash: no two are the same, and with the workspace's id before it, it is no longer than a key may be.
_NAME_LENGTH = 32


class Done(NamedTuple):
    """What a call gave, for the model."""

    text: str
    is_error: bool = False


class Call(Struct, frozen=True):
    """A call of a tool in a thread."""

    thread_id: str
    call_id: str
    tool: str
    arguments: Any


class Runs(Protocol):
    """Runs a tool of the registry. Raises ToolError."""

    async def call(self, spec: ToolSpec, arguments: Struct, calling: Calling) -> Outcome:
        """What it gives."""


Collab = Callable[[str, Struct, str], Awaitable[dict[str, Any]]]
"""Runs a tool about threads from one of them: thread, arguments, what the call is called. Raises ToolError."""


class _Calling:
    """A `Calling` by the ids of thread and call; nobody listens to its progress. The id of a call is one of its thread:
    two threads may have the same, and the platform must not take one call for the other."""

    def __init__(self, call: Call) -> None:
        name = hashlib.sha256(f"{call.thread_id} {call.call_id}".encode()).hexdigest()[:_NAME_LENGTH]
        self.meta = {CALL_NAME: name, "threadId": call.thread_id, THREAD_NAME: call.thread_id}

    async def progress(self, value: float, total: float | None, message: str) -> None:
        """Told to nobody: the call stands in the thread."""


class Toolbox:
    """The tools that a model is given. `chosen`: all, none, or those of these names; `gave`: told of each result."""

    def __init__(
        self,
        chosen: bool | list[str],
        runs: Runs,
        collab: Collab,
        *,
        gave: Callable[[Call, dict[str, Any]], None],
        most_bytes: int,
    ) -> None:
        named = chosen if isinstance(chosen, list) else [spec.name for spec in TOOLS if chosen]
        self._specs = {spec.name: spec for spec in TOOLS if spec.name in named and spec.name not in NOT_OURS}
        self._runs = runs
        self._collab = collab
        self._gave = gave
        self._most = most_bytes

    def definitions(self, only: Collection[str] | None) -> list[ToolDef]:
        """What a model is told of them, always in the same order; `only`: those that its thread may use, None: all."""
        mine = [spec for spec in self._specs.values() if only is None or spec.name in only]
        return [ToolDef(spec.name, spec.description, spec.input_schema) for spec in mine]

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called."""
        return tuple(self._specs)

    def repeatable(self, name: str) -> bool:
        """Whether a call that may have been run can be run once more without being done twice."""
        spec = self._specs.get(name)
        if spec is None:
            return True  # it was never run
        keyed = spec.call.keyed if isinstance(spec.call, Route) else spec.name in _BY_KEY
        return spec.annotations.read_only or keyed or spec.section == COLLAB

    async def run(self, call: Call, only: Collection[str] | None) -> Done:
        """What a call gives; a refusal is told to the model."""
        spec = self._specs.get(call.tool)
        if spec is None or (only is not None and spec.name not in only):
            mine = ", ".join(each.name for each in self.definitions(only)) or "none"
            return Done(f"there is no tool {line(call.tool)!r} here; you have {mine}", True)
        try:
            return Done(self._short(await self._run(spec, call)))
        except ToolError as error:
            return Done(self._short(error.text), True)
        except ApiError as error:
            return Done(self._short(str(error.problem.get("error", error))), True)

    async def _run(self, spec: ToolSpec, call: Call) -> str:
        if spec.section == COLLAB:
            given = spec.arguments(call.arguments)
            if getattr(given, "thread_id", "") not in ("", call.thread_id):
                raise ToolError("you act from your own thread; leave thread_id out", "wrong_thread")
            return msgspec.json.encode(await self._collab(call.thread_id, given, call.call_id)).decode()
        try:
            outcome = await self._runs.call(spec, spec.arguments(call.arguments), _Calling(call))
        except NoAnswer as error:
            raise ToolError(f"the server did not answer ({error}); whether it was done is not known") from None
        self._gave(call, outcome.structured)
        return outcome.text or msgspec.json.encode(outcome.structured).decode()

    def _short(self, text: str) -> str:
        whole = text.encode()
        if len(whole) <= self._most:
            return text
        return f"{whole[: self._most].decode(errors='ignore')}\n… ({len(whole) - self._most} bytes more are left out)"
