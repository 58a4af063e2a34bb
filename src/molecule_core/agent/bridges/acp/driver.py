"""Driver of agents that speak ACP: a session per conversation in one process.

ACP has no ids of messages. After a crash the driver loads the session, and looks for the message in the history that
the agent repeats: a message that is there is continued, not sent again as new. An agent that repeats no history has
lost its memory.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from molecule_core.agent.async_utils import unless_set
from molecule_core.agent.bridges.acp.connection import AcpConnection, AcpError
from molecule_core.agent.bridges.acp.outcomes import error_reason, is_limit, limit_end, read_usage, stop_failure
from molecule_core.agent.bridges.acp.permissions import CANCELLED, read_permission, render_decision
from molecule_core.agent.bridges.acp.programs import (
    GENERIC,
    ProgramTraps,
    choose_auth_method,
    find_traps,
    is_platform_tool,
)
from molecule_core.agent.bridges.acp.tool_server import ToolServer
from molecule_core.agent.bridges.acp.turns import AcpTurn, text_of
from molecule_core.agent.bridges.line_process import LineProcess, ProgramBusyError
from molecule_core.agent.bridges.process_runner import ProcessStarter, ProgramNotStartedError
from molecule_core.agent.bridges.sessions import (
    DriverDied,
    DriverInfo,
    PermissionDecision,
    SessionTool,
    Turn,
    TurnEnd,
    TurnEvents,
)
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.bridges.shared_task import SharedTask
from molecule_core.agent.bridges.turn_texts import CONFIRM_SECONDS, LOST_LINE, compose_text, mark_lost
from molecule_core.agent.engines.toolbox import ToolOutput
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.common.clock import Clock

_log = logging.getLogger("molecule.bridge")
_ABILITIES = ("streaming", "approvals", "stop", "usage", "limits", "tools")
_MISSING = ("steer", "questions", "editing of inputs")
_AUTH_REQUIRED = -32000
_MAX_LOGGED_KINDS = 20
# Some agents repeat the history only after they have reported the session as loaded: it ends with a pause this long.
_QUIET_SECONDS = 0.5


class _Session:
    """A session that the running program has loaded."""

    def __init__(self) -> None:
        self.prompt = ""
        """The system prompt that it was sent last."""
        self.history: list[str] = []
        """Messages of the user that it repeated when it was loaded."""
        self.has_history = False
        self.is_updated = asyncio.Event()
        self.messages: frozenset[str] = frozenset()
        """Ids of the messages of earlier turns."""
        self.notes: list[str] = []
        """What the model must read before the next message: reasons of denials."""
        self.running: AcpTurn | None = None
        self.answered = asyncio.Event()
        """Whether the last prompt was answered; a second one would break off the first."""
        self.answered.set()


class AcpDriver:
    """Driver of an ACP agent. `auth_method`: the method to log in with; empty: by the table of programs."""

    name = "acp"

    def __init__(
        self,
        starter: ProcessStarter,
        tools: Sequence[SessionTool],
        *,
        slot: str,
        clock: Clock,
        settings: BridgeSettings,
        environment: Mapping[str, str],
        auth_method: str = "",
    ) -> None:
        self._starter = starter
        self._slot = slot
        self._clock = clock
        self._settings = settings
        self._environment = environment
        self._auth_method = auth_method
        self._tool_names = tuple(each.name for each in tools)
        self._tool_server = ToolServer(tools, max_line_bytes=settings.line_bytes)
        self._starting = SharedTask[AcpConnection]()
        self._connection: AcpConnection | None = None
        self._info = DriverInfo(program="ACP agent")
        self._traps: ProgramTraps = GENERIC
        self._can_load = False
        self._sessions: dict[str, _Session] = {}
        self._session_ids: dict[str, str] = {}
        """Session id by conversation."""
        self._stops: dict[str, asyncio.Event] = {}
        """By conversation: the request to stop its newest turn."""
        self._unknown_kinds: set[str] = set()
        self._endings: set[asyncio.Task[None]] = set()

    # -- the program ---------------------------------------------------------------------------------------------------

    async def start(self) -> DriverInfo:
        """Start the program; return its version and abilities. Raises ProgramNotStartedError."""
        try:
            await self._connect(ends_others=False)
        except ProgramBusyError:
            return self._info  # asked again by the first turn, which only the leader of the workspace runs
        except DriverDied as error:
            raise ProgramNotStartedError(f"the ACP agent cannot start: {error}") from None
        return self._info

    async def close(self) -> None:
        """End the program with all its children."""
        await self._starting.cancel()
        for task in self._endings:
            task.cancel()
        if self._connection is not None:
            await self._connection.end()
        await self._tool_server.close()

    async def _connect(self, *, ends_others: bool = True) -> AcpConnection:
        if self._connection is not None and self._connection.end_reason is None:
            return self._connection
        return await self._starting.join(lambda: self._start_program(ends_others=ends_others))

    async def _start_program(self, *, ends_others: bool) -> AcpConnection:
        process = LineProcess(
            self._starter,
            f"{self._slot}_acp",
            clock=self._clock,
            max_line_bytes=self._settings.line_bytes,
            max_error_bytes=self._settings.error_bytes,
            end_seconds=self._settings.end_seconds,
        )
        connection = AcpConnection(process, self._handle_update, self._answer_permission, self._handle_end)
        self._sessions.clear()
        self._session_ids.clear()
        await connection.start(ends_others=ends_others)
        try:
            if not await self._clock.wait(self._handshake(connection), self._settings.start_seconds):
                raise DriverDied(f"it did not answer within {self._settings.start_seconds:g} seconds")
        except AcpError as error:
            await connection.end()
            raise DriverDied(f"it rejected the handshake ({error})") from None
        except BaseException:
            await connection.end()
            raise
        self._connection = connection
        return connection

    async def _handshake(self, connection: AcpConnection) -> None:
        result = await connection.initialize()
        about = result.get("agentInfo")
        facts = about if isinstance(about, dict) else {}
        name = str(facts.get("name") or "")
        self._traps = find_traps(name)
        capabilities = result.get("agentCapabilities")
        self._can_load = isinstance(capabilities, dict) and capabilities.get("loadSession") is True
        program = str(facts.get("title") or name or "ACP agent")
        missing = (*_MISSING, *self._traps.missing, *(() if self._can_load else ("memory after a restart",)))
        self._info = DriverInfo(
            program=sanitize_line(program),
            version=sanitize_line(str(facts.get("version") or "")),
            abilities=_ABILITIES,
            missing=missing,
        )
        methods = result.get("authMethods")
        offered = [str(each.get("id")) for each in methods or () if isinstance(each, dict)]
        method = self._auth_method or choose_auth_method(self._traps, offered, self._environment)
        if method:
            await connection.authenticate(method)

    def _handle_end(self, reason: str) -> None:
        _log.warning("the ACP agent has ended: %s", reason)
        for session in self._sessions.values():
            if session.running is not None:
                session.running.ended.set()

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def run_turn(self, turn: Turn, events: TurnEvents) -> TurnEnd:
        """Run a turn and return how it ended. Raises DriverDied and ProgramNotStartedError."""
        stop = self._stops[turn.conversation] = asyncio.Event()
        try:
            opened = await unless_set(stop, self._open_session(turn, events))
        except AcpError as error:
            return self._failed_end("", error)
        if opened is None:
            return TurnEnd(kind="stopped")
        connection, session_id, is_lost = opened
        session = self._sessions[session_id]
        is_interrupted = turn.is_repeat and (
            is_lost or not session.has_history or _has_message(session.history, turn.text)
        )
        text = compose_text(turn.text, is_interrupted=is_interrupted, is_memory_lost=is_lost)
        texts = [*session.notes, text]
        if turn.system_prompt and session.prompt != turn.system_prompt:
            texts.insert(0, f"<system>\n{turn.system_prompt}\n</system>\n\n")
        session.prompt, session.notes = turn.system_prompt, []
        session.running = AcpTurn(events, stop, session.messages)
        session.answered.clear()
        prompting = asyncio.create_task(self._prompt(connection, session_id, session, texts))
        prompting.add_done_callback(_note_failure)
        try:
            end = await self._finish(connection, session_id, session.running, prompting)
            return mark_lost(end, self._info.program) if is_lost else end
        except asyncio.CancelledError:
            self._end_in_background(connection, session_id, session.running, prompting)
            raise

    async def steer(self, conversation: str, turn: Turn) -> bool:
        """Return False: ACP cannot add to a running turn, and a second prompt breaks some programs' first."""
        return False

    async def stop(self, conversation: str) -> None:
        """Stop the running turn of a conversation; its `run_turn` then returns a stopped end."""
        if (stop := self._stops.get(conversation)) is not None:
            stop.set()

    def _find_session(self, conversation: str) -> _Session | None:
        return self._sessions.get(self._session_ids.get(conversation, ""))

    async def _open_session(self, turn: Turn, events: TurnEvents) -> tuple[AcpConnection, str, bool]:
        """Load or create the session of a conversation; return its id, and whether an earlier one is lost."""
        if (earlier := self._find_session(turn.conversation)) is not None:
            await earlier.answered.wait()
        connection = await self._connect()
        if turn.session_id in self._sessions:
            self._sessions[turn.session_id].has_history = False  # only a session just loaded knows what it has had
            return connection, turn.session_id, False
        servers = [await self._tool_server.open_session(self._tool_caller(turn.conversation))]
        if turn.session_id and self._can_load and await self._load_session(connection, turn, servers):
            self._session_ids[turn.conversation] = turn.session_id
            return connection, turn.session_id, False
        if turn.has_memory:
            events.status("working", LOST_LINE.format(program=self._info.program))
        session_id = await connection.create_session(str(turn.cwd), servers)
        await events.session_started(session_id)
        self._sessions[session_id] = _Session()
        self._session_ids[turn.conversation] = session_id
        return connection, session_id, turn.has_memory

    async def _load_session(self, connection: AcpConnection, turn: Turn, servers: list[dict[str, Any]]) -> bool:
        """Load a session; return whether it knows its history. One whose loading was stopped counts as not loaded."""
        session = self._sessions[turn.session_id] = _Session()
        loading = connection.load_session(turn.session_id, str(turn.cwd), servers)
        try:
            if await self._clock.wait(loading, self._settings.start_seconds):
                await self._wait_for_history(session)
        except AcpError as error:
            _log.warning("the session %s cannot be loaded: %s", turn.session_id, error)
        except BaseException:
            self._sessions.pop(turn.session_id, None)
            raise
        if not session.has_history:
            self._sessions.pop(turn.session_id, None)
        return session.has_history

    async def _wait_for_history(self, session: _Session) -> None:
        """Wait until a loaded session has repeated its history: a later piece would count as text of the next turn."""
        while True:
            session.is_updated.clear()
            if not await self._clock.wait(session.is_updated.wait(), _QUIET_SECONDS):
                return

    async def _prompt(
        self, connection: AcpConnection, session_id: str, session: _Session, texts: list[str]
    ) -> dict[str, Any]:
        """Send a prompt and return the response; the session is free again afterwards."""
        running = session.running
        assert running is not None
        try:
            return await connection.prompt(session_id, texts)
        finally:
            session.messages |= running.messages
            session.running = None
            running.ended.set()
            session.answered.set()

    async def _finish(
        self,
        connection: AcpConnection,
        session_id: str,
        running: AcpTurn,
        prompting: "asyncio.Task[dict[str, Any]]",
    ) -> TurnEnd:
        """Wait for the end of a turn, or for a stop."""
        stopping = asyncio.create_task(running.stop_requested.wait())
        try:
            await asyncio.wait((prompting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not prompting.done():
                await connection.cancel(session_id)
                await asyncio.wait((prompting,), timeout=CONFIRM_SECONDS)
        finally:
            stopping.cancel()
        if running.stop_requested.is_set():
            if not prompting.done():
                self._end_in_background(connection, session_id, running, prompting)
            elif prompting.exception() is None:  # some programs report a stopped turn as complete
                return TurnEnd(kind="stopped", text=running.text_so_far, usage=read_usage(prompting.result()))
            return TurnEnd(kind="stopped", text=running.text_so_far)
        try:
            result = prompting.result()
        except AcpError as error:
            return self._failed_end(running.text_so_far, error)
        failure, usage = stop_failure(result.get("stopReason")), read_usage(result)
        if failure:
            return TurnEnd(kind="failed", text=running.text_so_far, reason=failure, usage=usage)
        return TurnEnd(kind="answered", text=running.final_text, usage=usage)

    def _failed_end(self, text: str, error: AcpError) -> TurnEnd:
        message = str(error)
        if is_limit(error.code, message, error.data):
            until = limit_end(message, error.data, self._clock.now() // 1000)
            reason = f"a limit of the vendor is reached: {message}"
            return TurnEnd(kind="limited", text=text, reason=reason, limited_until=until)
        if error.code == _AUTH_REQUIRED:
            reason = f"{self._info.program} is not logged in: {message}. Log in on the machine of the bridge"
        else:
            reason = error_reason(self._info.program, error.code, message, error.data)
        return TurnEnd(kind="failed", text=text, reason=reason)

    def _end_in_background(
        self,
        connection: AcpConnection,
        session_id: str,
        running: AcpTurn,
        prompting: "asyncio.Task[dict[str, Any]]",
    ) -> None:
        """End a turn whose result is no longer wanted; a program that goes on with it is ended."""

        async def end() -> None:
            if not running.stop_requested.is_set():
                running.stop_requested.set()
                await connection.cancel(session_id)
            await asyncio.wait((prompting,), timeout=self._settings.stop_seconds)
            if not prompting.done():
                _log.warning("%s goes on with a turn that was stopped; it is ended", self._info.program)
                await connection.end()
                await asyncio.wait((prompting,))

        task = asyncio.create_task(end())
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    # -- what the agent sends ------------------------------------------------------------------------------------------

    def _handle_update(self, session_id: str, update: dict[str, Any]) -> None:
        session = self._sessions.get(session_id)
        if session is None:
            return
        if session.running is not None:
            if not session.running.stop_requested.is_set() and not session.running.handle_update(update):
                self._note_unknown(update)
            return
        session.is_updated.set()
        if isinstance(update.get("messageId"), str):
            session.messages |= {update["messageId"]}
        if update.get("sessionUpdate") in ("user_message_chunk", "agent_message_chunk"):
            session.has_history = True
            if update["sessionUpdate"] == "user_message_chunk":
                session.history.append(text_of(update.get("content")))

    def _note_unknown(self, update: dict[str, Any]) -> None:
        kind = sanitize_line(str(update.get("sessionUpdate")), 60)
        if kind not in self._unknown_kinds and len(self._unknown_kinds) < _MAX_LOGGED_KINDS:
            self._unknown_kinds.add(kind)
            _log.info("the ACP agent sends updates of the unknown kind %s; they are skipped", kind)

    async def _answer_permission(self, session_id: str, params: dict[str, Any]) -> dict[str, Any]:
        """Ask for a permission, unless its turn has ended; a turn that ends meanwhile cancels it."""
        session = self._sessions.get(session_id)
        running = session.running if session is not None else None
        if session is None or running is None or running.stop_requested.is_set():
            return CANCELLED
        asked = params.get("toolCall")
        call = asked if isinstance(asked, dict) else {}
        if is_platform_tool(self._traps, call, self._tool_names):
            return render_decision(params, PermissionDecision(is_allowed=True))
        request = read_permission(params, running.calls.get(str(call.get("toolCallId", "")), {}))
        asking = asyncio.create_task(running.events.ask_permission(request))
        others = [asyncio.create_task(event.wait()) for event in (running.ended, running.stop_requested)]
        try:
            await asyncio.wait((asking, *others), return_when=asyncio.FIRST_COMPLETED)
            if running.ended.is_set() or running.stop_requested.is_set():
                return CANCELLED
            decision: PermissionDecision = asking.result()
        finally:
            for task in (asking, *others):
                task.cancel()
        if not decision.is_allowed and decision.reason:
            session.notes.append(f"The permission for {request.title} was denied. {decision.reason}")
        return render_decision(params, decision)

    def _tool_caller(self, conversation: str) -> Any:
        async def call_tool(name: str, arguments: Any, call_id: str) -> ToolOutput:
            session = self._find_session(conversation)
            if session is None or session.running is None:
                text = "No message is being handled in this session. Call tools during a turn."
                return ToolOutput(text, is_error=True)
            return await session.running.events.call_tool(name, arguments, call_id)

        return call_tool


def _note_failure(prompting: "asyncio.Task[dict[str, Any]]") -> None:
    """Mark the failure of a prompt as seen: nothing waits for one that was stopped."""
    if not prompting.cancelled():
        prompting.exception()


def _has_message(history: Sequence[str], text: str) -> bool:
    """Return whether a message is in a history; agents differ in blanks, and in how they cut it into pieces."""
    wanted, whole = "".join(text.split()), "".join("".join(history).split())
    return wanted in whole
