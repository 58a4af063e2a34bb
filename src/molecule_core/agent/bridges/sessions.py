"""The protocol between the core of a session bridge and its drivers.

The core (`session_bridge`) decides which message is answered when, asks persons and the server, and reports outcomes. A
driver speaks one program's protocol: it keeps a session per conversation, sends turns, and converts what the program
reports. A driver never calls the server.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from molecule_core.agent.engines.toolbox import ToolOutput

TurnEndKind = Literal["answered", "failed", "stopped", "limited"]
ToolStatus = Literal["started", "completed", "failed"]
LiveStatus = Literal["working", "waiting_for_approval", "retrying", "limited"]


class DriverDied(Exception):
    """The program ended, or its connection broke, while a turn ran; the text says why.

    The core runs the turn again with `is_repeat`, at most as often as the settings allow."""


class Turn(Struct, frozen=True, kw_only=True):
    """One message to answer.

    `turn_id`: a UUID that is the same for every try of this turn, also in later processes; the program gets it as the
    id of its message, so that a program that deduplicates runs it once. `run`: number of the try, from 1.
    `conversation`: key of the conversation, usable as a file name. `session_id`: the session of an earlier turn; empty
    for a new session. `text`: the envelope with instructions and the quoted body. `is_repeat`: an earlier try may have
    sent this very turn, so the program may have run it in whole or in part. `has_memory`: the session has had an
    answer; nothing is lost with one that has not. `delegation_id`: the delegated task that is worked on; empty if none.
    """

    activity_id: str
    turn_id: str
    run: int
    conversation: str
    session_id: str
    system_prompt: str
    text: str
    cwd: Path
    is_repeat: bool = False
    has_memory: bool = False
    delegation_id: str = ""


class TurnUsage(Struct, frozen=True, kw_only=True):
    """What a turn used. `input_tokens`: without cached ones. `cost_usd`: of this turn alone.

    `cost_usd` is None, and `model` empty, if the program does not report it."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None
    model: str = ""


class TurnEnd(Struct, frozen=True, kw_only=True):
    """How a turn ended.

    `text`: the final text, or what was written before a stop or failure. `reason`: of a failed or limited turn: what
    happened and what to do. `limited_until`: Unix milliseconds at which a vendor's limit ends; None if unknown.
    `folded_turn_ids`: steered turns that this answer covers too.
    """

    kind: TurnEndKind
    text: str = ""
    reason: str = ""
    limited_until: int | None = None
    usage: TurnUsage | None = None
    folded_turn_ids: tuple[str, ...] = ()


class ToolPermission(Struct, frozen=True, kw_only=True):
    """A permission that the program asks for.

    `request_id`: the program's id of the call, the same if the program asks again. `tool_input`: the whole input.
    `can_edit`: the program runs an edited input. `suggestions`: what the program offers to remember, in its own form.
    """

    request_id: str
    tool: str
    title: str
    tool_input: Any
    suggestions: Sequence[Any] = ()
    can_edit: bool = True


class PermissionDecision(Struct, frozen=True, kw_only=True):
    """The decision about a permission.

    `edited_input`: the input to run in place of the requested one; None: as requested. `reason`: why it was denied, for
    the model. `is_remembered`: the person chose not to be asked again.
    """

    is_allowed: bool
    edited_input: Any = None
    reason: str = ""
    is_remembered: bool = False


class QuestionOption(Struct, frozen=True, kw_only=True):
    """An option of a question to the user."""

    label: str
    description: str = ""


class UserQuestion(Struct, frozen=True, kw_only=True):
    """A question of the program to its user. `options`: empty for free text."""

    question: str
    header: str = ""
    options: tuple[QuestionOption, ...] = ()
    is_multiple: bool = False


class SessionTool(Protocol):
    """A tool that a program may call; a `ToolSpec` is one."""

    @property
    def name(self) -> str:
        """Return the name of the tool."""

    @property
    def description(self) -> str:
        """Return the description for models."""

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """Return the JSON Schema of the arguments."""

    @property
    def always_load(self) -> bool:
        """Return whether the tool must be offered at once where programs hide tools behind a search."""


class DriverInfo(Struct, frozen=True, kw_only=True):
    """The program of a driver. `missing`: abilities that this version lacks, each a phrase for the agent card."""

    program: str
    version: str = ""
    abilities: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class TurnEvents(Protocol):
    """Receiver of what happens in a turn; the core implements it. The methods that are not async never block."""

    async def session_started(self, session_id: str) -> None:
        """Store the session id; the driver sends the first message only after this returned."""

    def text(self, delta: str) -> None:
        """Report text that the model has written."""

    def tool(self, call_id: str, tool: str, title: str, status: ToolStatus) -> None:
        """Report a call of a tool."""

    def status(self, status: LiveStatus, text: str = "") -> None:
        """Report what the turn does now, with a short line."""

    def limited(self, seconds: float, reason: str) -> None:
        """Report that a limit of the vendor was reached, and that the program tries again by itself after this time."""

    async def find_denial(self, tool: str) -> str:
        """Return why the turn's delegations do not allow a tool, for the model; empty if they do."""

    async def ask_permission(self, request: ToolPermission) -> PermissionDecision:
        """Wait for the decision about a permission, which the turn's delegations must allow too.

        A turn that is stopped meanwhile denies."""

    async def ask_questions(self, questions: Sequence[UserQuestion]) -> Mapping[str, str] | None:
        """Return the answers by question; None if they are not answered."""

    async def call_tool(self, name: str, arguments: Any, call_id: str) -> ToolOutput:
        """Run one of the platform's tools in this process. Never raises for an error of the tool."""


class SessionDriver(Protocol):
    """Driver of one program. It may run turns of several conversations in parallel, one per conversation.

    The constructor gets the tools (`Sequence[SessionTool]`), the environment and the settings.
    """

    @property
    def name(self) -> str:
        """Return the name: `claude`, `codex`, `acp`."""

    async def start(self) -> DriverInfo:
        """Check that the program can run; return its version and abilities. Raises ProgramNotStartedError."""

    async def run_turn(self, turn: Turn, events: TurnEvents) -> TurnEnd:
        """Run a turn and return how it ended. Starts the program and resumes the session if necessary.

        A turn that `steer` has sent and that no answer covered is awaited, not sent again. Cancelled, the program stops
        working on the turn, but the session stays usable. Raises DriverDied if the program ended meanwhile, and
        ProgramNotStartedError.
        """

    async def steer(self, conversation: str, turn: Turn) -> bool:
        """Send a turn into the running turn of a conversation; return False if it must be queued instead."""

    async def stop(self, conversation: str) -> None:
        """Stop the running turn of a conversation; its `run_turn` then returns a stopped end."""

    async def close(self) -> None:
        """End the program with all its children."""
