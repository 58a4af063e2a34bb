"""Runs the platform's tools for the program of a session, in the bridge's process.

The program needs no token of the workspace for them. A call is keyed by its conversation and the program's call id, so
that a program that repeats it acts once.
"""

import hashlib
from typing import Any

import msgspec

from molecule_core.agent.engines.conversations import Conversations, awaited_id_in, is_settled
from molecule_core.agent.engines.toolbox import EXCLUDED_TOOLS, ToolCaller, ToolOutput
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.tools.registry import TOOLS
from molecule_core.tools.runners.collaboration_tools import COLLAB_SECTION
from molecule_core.tools.runners.message_tools import CALL_META_KEY
from molecule_core.tools.spec import ToolError, ToolSpec

SESSION_TOOLS: tuple[ToolSpec, ...] = tuple(
    spec for spec in TOOLS if spec.name not in EXCLUDED_TOOLS and spec.section != COLLAB_SECTION
)
"""The tools that programs of sessions are offered. Messages arrive on their own; threads are those of our engine."""
_NAME_LENGTH = 32


class _SessionCall:
    """A `CallContext` that names a call by its conversation and id."""

    def __init__(self, conversation: str, call_id: str) -> None:
        name = hashlib.sha256(f"{conversation} {call_id}".encode()).hexdigest()[:_NAME_LENGTH]
        self.meta: dict[str, Any] = {CALL_META_KEY: name}

    async def progress(self, value: float, total: float | None, message: str) -> None:
        """Do nothing: the person sees the call in the live activity."""


class SessionToolbox:
    """The tools of one workspace's bridge. `conversations`: which of them awaits which result."""

    def __init__(self, caller: ToolCaller, conversations: Conversations) -> None:
        self._specs = {spec.name: spec for spec in SESSION_TOOLS}
        self._caller = caller
        self._conversations = conversations

    async def run(self, conversation: str, name: str, arguments: Any, call_id: str) -> ToolOutput:
        """Run a tool and return its output for the model; errors become output."""
        spec = self._specs.get(name)
        if spec is None:
            return ToolOutput(f"the tool {name!r} does not exist. Use one of: {', '.join(self._specs)}.", True)
        try:
            parsed = spec.parse_arguments(arguments)
            result = await self._caller.call(spec, parsed, _SessionCall(conversation, call_id))
        except ToolError as error:
            return ToolOutput(error.text, True)
        except ApiError as error:
            return ToolOutput(str(error.problem.get("error", error)), True)
        except NoAnswerError as error:
            return ToolOutput(f"the server did not answer ({error}). It is unknown whether the call took effect.", True)
        if not is_settled(result.structured) and (awaited_id := awaited_id_in(name, result.structured)):
            self._conversations.expect_result(awaited_id, conversation)  # the result goes to this conversation
        text = result.text or msgspec.json.encode(result.structured).decode()
        note = spec.unknown_note(arguments)
        return ToolOutput(f"{text}\n{note}" if note else text, result.is_error)
