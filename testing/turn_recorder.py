"""What a driver of a session bridge reports, kept in order, with answers that a test sets."""

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from molecule_core.agent.bridges.sessions import (
    LiveStatus,
    PermissionDecision,
    ToolPermission,
    ToolStatus,
    Turn,
    UserQuestion,
)
from molecule_core.agent.engines.toolbox import ToolOutput


class TurnRecorder:
    """Receives the events of turns. (A `TurnEvents`.) `decide`: answers permissions; a test may wait in it."""

    def __init__(self) -> None:
        self.sessions: list[str] = []
        self.written = ""
        self.tools: list[tuple[str, str, str, ToolStatus]] = []
        self.statuses: list[tuple[LiveStatus, str]] = []
        self.limits: list[tuple[float, str]] = []
        self.permissions: list[ToolPermission] = []
        self.calls: list[tuple[str, Any]] = []
        self.questions: list[UserQuestion] = []
        self.decision = PermissionDecision(is_allowed=True)
        self.denials: dict[str, str] = {}
        """Why tools are denied, by tool."""
        self.answers: Mapping[str, str] | None = None
        self.output: Callable[[str, Any], ToolOutput] = lambda name, arguments: ToolOutput(f"{name} {arguments}")
        self.has_text = asyncio.Event()
        self.is_asked = asyncio.Event()
        self.may_decide = asyncio.Event()
        self.may_decide.set()

    async def session_started(self, session_id: str) -> None:
        self.sessions.append(session_id)

    def text(self, delta: str) -> None:
        self.written += delta
        self.has_text.set()

    def tool(self, call_id: str, tool: str, title: str, status: ToolStatus) -> None:
        self.tools.append((call_id, tool, title, status))

    def status(self, status: LiveStatus, text: str = "") -> None:
        self.statuses.append((status, text))

    def limited(self, seconds: float, reason: str) -> None:
        self.limits.append((seconds, reason))

    async def find_denial(self, tool: str) -> str:
        return self.denials.get(tool, "")

    async def ask_permission(self, request: ToolPermission) -> PermissionDecision:
        self.permissions.append(request)
        self.is_asked.set()
        await self.may_decide.wait()
        return self.decision

    async def ask_questions(self, questions: Sequence[UserQuestion]) -> Mapping[str, str] | None:
        self.questions += questions
        return self.answers

    async def call_tool(self, name: str, arguments: Any, call_id: str) -> ToolOutput:
        self.calls.append((name, arguments))
        return self.output(name, arguments)


def turn_of(text: str, cwd: Path, *, conversation: str = "c1", session_id: str = "", **fields: Any) -> Turn:
    """A turn with this text; its ids follow from it."""
    turn_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{conversation}/{text}"))
    wanted = {"activity_id": f"act-{turn_id[:8]}", "turn_id": turn_id, "run": 1, "system_prompt": "You are Ops."}
    return Turn(conversation=conversation, session_id=session_id, text=text, cwd=cwd, **{**wanted, **fields})
