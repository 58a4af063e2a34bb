"""What happens in one turn of a session bridge: live activity, permissions, questions, calls of our tools."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.agent.bridges.permission_approvals import PermissionApprovals
from molecule_core.agent.bridges.session_store import SessionStore
from molecule_core.agent.bridges.session_tools import SessionToolbox
from molecule_core.agent.bridges.sessions import (
    LiveStatus,
    PermissionDecision,
    ToolPermission,
    ToolStatus,
    Turn,
    UserQuestion,
)
from molecule_core.agent.bridges.user_questions import UserQuestions
from molecule_core.agent.engines.toolbox import ToolOutput
from molecule_core.agent.host.tool_scopes import ToolScopes
from molecule_core.agent.live.reporter import ReportedTurn
from molecule_core.client.task_headers import acting_for
from molecule_core.common.clock import Clock

# What is logged of a turn stays small, whatever the program calls.
_MAX_TOOLS, _MAX_NAME = 50, 100
STOPPED_REASON = "A person stopped the work on this message."


class ToolCounts:
    """Number of calls of each tool in the tries of one turn."""

    def __init__(self) -> None:
        self.by_tool: dict[str, int] = {}
        self._call_ids: set[str] = set()

    def add(self, call_id: str, tool: str) -> None:
        """Count a call; drivers report a call again when it ends."""
        name = tool[:_MAX_NAME]
        if call_id in self._call_ids or (name not in self.by_tool and len(self.by_tool) >= _MAX_TOOLS):
            return
        self._call_ids.add(call_id)
        self.by_tool[name] = self.by_tool.get(name, 0) + 1


class TurnServices(Struct, frozen=True, kw_only=True):
    """What the events of a turn are handled with."""

    store: SessionStore
    approvals: PermissionApprovals
    questions: UserQuestions
    toolbox: SessionToolbox
    scopes: ToolScopes
    clock: Clock


class BridgeTurn:
    """Events of one turn; a `TurnEvents`.

    `waits_for_person`: whether a permission or a question is open, which does not count as time of the program.
    """

    def __init__(self, turn: Turn, message_text: str, *, live: ReportedTurn, services: TurnServices) -> None:
        self.turn = turn
        self._message_text = message_text
        self._live = live
        self._store = services.store
        self._approvals = services.approvals
        self._questions = services.questions
        self._toolbox = services.toolbox
        self._scopes = services.scopes
        self._clock = services.clock
        self._open_waits: dict[object, float] = {}
        self._waited = 0.0
        self._question_count = 0
        self._person_waits: set[asyncio.Task[Any]] = set()
        self._is_stopped = False
        self.on_limit: Callable[[float, str], None] = lambda seconds, reason: None
        """Called with the seconds that the program waits for a limit of the vendor, and with the reason."""
        self.on_tool: Callable[[str, str], None] = lambda call_id, tool: None
        """Called with id and tool of a call, when it starts and when it ends."""

    @property
    def waits_for_person(self) -> bool:
        """Return whether a person must decide or answer now."""
        return bool(self._open_waits)

    def seconds_waited(self) -> float:
        """Return for how long persons were waited for, in finished waits."""
        return self._waited

    def stop_waits(self) -> None:
        """Cancel open permissions and questions, since the turn is being stopped."""
        self._is_stopped = True
        for task in self._person_waits:
            task.cancel()

    async def session_started(self, session_id: str) -> None:
        """Store the session id of the conversation. Raises OSError."""
        self._store.set_session(self.turn.conversation, session_id)

    def text(self, delta: str) -> None:
        """Report text."""
        self._live.text(delta)

    def tool(self, call_id: str, tool: str, title: str, status: ToolStatus) -> None:
        """Report a call of a tool."""
        self.on_tool(call_id, tool)
        self._live.tool(call_id, tool, title, status)

    def status(self, status: LiveStatus, text: str = "") -> None:
        """Report what the turn does now."""
        self._live.status(status, text)

    def limited(self, seconds: float, reason: str) -> None:
        """Report a limit of the vendor that the program waits for."""
        self.on_limit(seconds, reason)

    async def find_denial(self, tool: str) -> str:
        """Return why the delegations that the agent works on do not allow a tool; a stopped turn denies."""
        denial: str | None = await self._wait_for_person(self._scopes.find_denial(tool, self.turn.delegation_id))
        return STOPPED_REASON if denial is None else denial

    async def ask_permission(self, request: ToolPermission) -> PermissionDecision:
        """Wait for a person's decision; a stopped turn denies. No person is asked for what a delegation denies."""
        if denial := await self.find_denial(request.tool):
            return PermissionDecision(is_allowed=False, reason=denial)
        self._live.status("waiting_for_approval", request.tool)
        with acting_for(self.turn.delegation_id):
            decision: PermissionDecision | None = await self._wait_for_person(
                self._approvals.decide(request, self.turn.turn_id, self._message_text)
            )
        self._live.status("working")
        return decision or PermissionDecision(is_allowed=False, reason=STOPPED_REASON)

    async def ask_questions(self, questions: Sequence[UserQuestion]) -> Mapping[str, str] | None:
        """Return a person's answers; None if the turn is stopped or the questions cannot be shown."""
        self._live.status("waiting_for_approval", "question")
        self._question_count += 1
        key = f"question:{self.turn.turn_id}:{self.turn.run}:{self._question_count}:{hash_of(questions)}"
        with acting_for(self.turn.delegation_id):
            answers: Mapping[str, str] | None = await self._wait_for_person(
                self._questions.ask(self.turn.conversation, questions, key)
            )
        self._live.status("working")
        return answers

    async def call_tool(self, name: str, arguments: Any, call_id: str) -> ToolOutput:
        """Run one of the platform's tools; the server decides whether the turn's delegation allows it."""
        with acting_for(self.turn.delegation_id):
            return await self._toolbox.run(self.turn.conversation, name, arguments, call_id)

    async def _wait_for_person(self, work: Any) -> Any:
        """Wait for work that depends on a person; None if the turn is stopped meanwhile."""
        if self._is_stopped:
            work.close()
            return None
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self._person_waits.add(task)
        self._open_waits[task] = self._clock.monotonic()
        try:
            await asyncio.wait((task,))
            return None if task.cancelled() else task.result()
        finally:
            task.cancel()
            self._person_waits.discard(task)
            self._waited += self._clock.monotonic() - self._open_waits.pop(task)
            await asyncio.gather(task, return_exceptions=True)


def hash_of(questions: Sequence[UserQuestion]) -> str:
    """Return a short name of questions, the same in every process."""
    return hashlib.sha256(msgspec.json.encode(list(questions))).hexdigest()[:16]
