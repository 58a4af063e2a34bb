"""The driver of Claude Code: a process per conversation, resumed by its session id."""

import asyncio
import hashlib
import logging
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from molecule_core.agent.async_utils import sleep, unless_set
from molecule_core.agent.bridges.claude.session import ClaudeSession, UnknownSessionError
from molecule_core.agent.bridges.process_runner import (
    SWEEP_VARIABLE,
    ProcessStarter,
    ProgramNotStartedError,
    end_marked_processes,
)
from molecule_core.agent.bridges.sessions import (
    DriverInfo,
    SessionTool,
    Turn,
    TurnEnd,
    TurnEvents,
)
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.bridges.turn_texts import LOST_LINE, compose_text, mark_lost
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.common.clock import Clock

_log = logging.getLogger("molecule.bridge")
_PROGRAM = "Claude Code"
_PROTOCOL_FLAGS = (
    *("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"),
    *("--include-partial-messages", "--replay-user-messages", "--permission-prompt-tool", "stdio"),
)
# From here on Claude Code says which messages a result answers, so that a running turn can be steered.
_STEERING_VERSION = (2, 1, 330)


class ClaudeOptions(Struct, frozen=True, kw_only=True):
    """How Claude Code is started. `command`: the program and further flags of the person."""

    command: tuple[str, ...] = ("claude",)
    flags: tuple[str, ...] = ()


class ClaudeDriver:
    """Driver of Claude Code for one workspace. `slot`: prefix of the names of its locks, unique per workspace."""

    name = "claude"

    def __init__(
        self,
        options: ClaudeOptions,
        tools: Sequence[SessionTool],
        environment: Mapping[str, str],
        state: Path,
        *,
        slot: str,
        clock: Clock,
        settings: BridgeSettings,
    ) -> None:
        self._options = options
        self._tools = tools
        self._environment = environment
        self._state = state
        self._slot = slot
        self._clock = clock
        self._settings = settings
        self._sessions: dict[str, ClaudeSession] = {}
        self._endings: dict[str, asyncio.Task[None]] = {}
        self._stops: dict[str, asyncio.Event] = {}
        self._lost: set[str] = set()
        """Conversations whose session could not be loaded, until a turn of the new one has ended."""
        self._ending_idle: asyncio.Task[None] | None = None

    async def start(self) -> DriverInfo:
        """Return the version of the program. Raises ProgramNotStartedError."""
        text = await self._read_version()
        self._ending_idle = asyncio.create_task(self._end_idle_loop())
        version = text.split(" ")[0]
        numbers = tuple(int(each) for each in version.split(".") if each.isdigit())
        missing = (
            () if not numbers or numbers >= _STEERING_VERSION else ("messages into a running turn (they are queued)",)
        )
        abilities = ("permissions", "questions", "stop", "resume", "tools", *(() if missing else ("steer",)))
        return DriverInfo(program=_PROGRAM, version=version, abilities=abilities, missing=missing)

    async def _read_version(self) -> str:
        try:
            process = await asyncio.create_subprocess_exec(
                *self._options.command,
                "--version",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=dict(self._environment),
            )
        except OSError as error:
            raise ProgramNotStartedError(
                f"{self._options.command[0]} could not be started: {error.strerror or error}"
            ) from None
        output, _ = await process.communicate()
        text = sanitize_line(output.decode(errors="replace"), 300)
        if (process.returncode or 0) > 0:
            raise ProgramNotStartedError(f"{self._options.command[0]} --version failed: {text}")
        return text  # empty if it was killed: what this version can do is also in its own lines

    async def run_turn(self, turn: Turn, events: TurnEvents) -> TurnEnd:
        """Run a turn in the session of its conversation. Raises DriverDied, ProgramNotStartedError."""
        stop = self._stops[turn.conversation] = asyncio.Event()
        try:
            session = await unless_set(stop, self._session_for(turn, events))
            if session is None:
                return TurnEnd(kind="stopped")
            if turn.conversation not in self._lost:
                return await session.run_turn(turn, events)
            events.status("working", LOST_LINE.format(program=_PROGRAM))
            text = compose_text(turn.text, is_memory_lost=True)
            end = mark_lost(await session.run_turn(replace(turn, text=text), events), _PROGRAM)
            self._lost.discard(turn.conversation)
            return end
        finally:
            del self._stops[turn.conversation]

    async def steer(self, conversation: str, turn: Turn) -> bool:
        """Send a turn into the running one."""
        session = self._sessions.get(conversation)
        return session is not None and session.steer(turn)

    async def stop(self, conversation: str) -> None:
        """Interrupt the running turn of a conversation, also while its process starts."""
        if (event := self._stops.get(conversation)) is not None:
            event.set()
        if (session := self._sessions.get(conversation)) is not None:
            await session.stop()

    async def close(self) -> None:
        """End all processes and what they started."""
        if self._ending_idle is not None:
            self._ending_idle.cancel()
            await asyncio.gather(self._ending_idle, return_exceptions=True)
        sessions, self._sessions = self._sessions, {}
        await asyncio.gather(*(self._end(conversation, each) for conversation, each in sessions.items()))

    async def _end_idle_loop(self) -> None:
        """End the processes of conversations at rest, until cancelled."""
        while True:
            await sleep(self._clock, self._settings.idle_seconds / 4)
            now = self._clock.monotonic()
            for conversation, session in list(self._sessions.items()):
                is_idle = not session.is_busy and now - session.last_used >= self._settings.idle_seconds
                if is_idle and self._sessions.get(conversation) is session:
                    del self._sessions[conversation]
                    await self._end(conversation, session)

    # -- processes -----------------------------------------------------------------------------------------------------

    async def _session_for(self, turn: Turn, events: TurnEvents) -> ClaudeSession:
        """Return the running session of a conversation, started or resumed if necessary."""
        if (ending := self._endings.get(turn.conversation)) is not None:
            await asyncio.wait((ending,))
        known = self._sessions.get(turn.conversation)
        if known is not None and known.is_alive:
            return known
        await self._make_room(turn.conversation)
        session_id = turn.session_id
        if session_id:
            try:
                return await self._start_session(turn, ("--resume", session_id), is_new=False)
            except UnknownSessionError:
                _log.warning("conversation %s: its session is gone and begins anew", turn.conversation)
                if turn.has_memory:
                    self._lost.add(turn.conversation)
        else:
            session_id = _first_session_id(turn)
            await events.session_started(session_id)  # stored before the program can know it
        try:
            return await self._start_session(turn, ("--session-id", session_id), is_new=True)
        except UnknownSessionError as error:
            raise ProgramNotStartedError("Claude Code cannot begin a session") from error

    async def _make_room(self, conversation: str) -> None:
        """End the processes of dead sessions, and of the longest idle one if there are as many as allowed."""
        for name, session in list(self._sessions.items()):
            # Meanwhile a turn of that conversation may have ended it too, and begun another one.
            if not session.is_alive and self._sessions.get(name) is session:
                del self._sessions[name]
                await self._end(name, session)
        idle = [name for name, session in self._sessions.items() if not session.is_busy and name != conversation]
        if len(self._sessions) >= self._settings.sessions and idle:
            oldest = min(idle, key=lambda name: self._sessions[name].last_used)
            await self._end(oldest, self._sessions.pop(oldest))

    async def _start_session(self, turn: Turn, session_flags: tuple[str, ...], *, is_new: bool) -> ClaudeSession:
        """Start a process and begin the protocol. Raises ProgramNotStartedError, UnknownSessionError."""
        mark = self._mark(turn.conversation)
        environment = {**self._environment, SWEEP_VARIABLE: mark}
        starter = ProcessStarter(
            self._options.command, environment, self._state, clock=self._clock, settings=self._settings
        )
        lock = starter.open_lock(f"{self._slot}_{turn.conversation}")
        try:
            await starter.end_previous(lock)
            end_marked_processes(mark)
            process = await starter.start_process(
                lock, {}, arguments=(*_PROTOCOL_FLAGS, *session_flags, *self._options.flags), cwd=turn.cwd
            )
        except BaseException:  # also a stop while it starts
            lock.release()
            raise
        session = ClaudeSession(
            process, lock, starter, self._tools, clock=self._clock, settings=self._settings, is_new=is_new
        )
        try:
            await session.initialize(turn.system_prompt)
        except BaseException:
            await self._end(turn.conversation, session)
            raise
        self._sessions[turn.conversation] = session
        return session

    async def _end(self, conversation: str, session: ClaudeSession) -> None:
        """End a process and what it started. Its conversation starts no other one meanwhile: marks are the same."""
        ending = self._endings[conversation] = asyncio.create_task(self._end_processes(conversation, session))
        try:
            await asyncio.shield(ending)
        finally:
            if self._endings.get(conversation) is ending and ending.done():
                del self._endings[conversation]

    async def _end_processes(self, conversation: str, session: ClaudeSession) -> None:
        await session.close()
        end_marked_processes(self._mark(conversation))

    def _mark(self, conversation: str) -> str:
        """Return the mark of a conversation's processes, the same for every bridge of this state folder."""
        name = f"{self._state.absolute()} {self._slot} {conversation}"
        return hashlib.sha256(name.encode()).hexdigest()[:32]


def _first_session_id(turn: Turn) -> str:
    """Return the id of the session that begins with a turn, the same for every try."""
    return str(uuid.uuid5(uuid.UUID(turn.turn_id), "session"))
