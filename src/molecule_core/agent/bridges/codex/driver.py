"""Driver of Codex: a thread per conversation in one `codex app-server`.

Codex does not deduplicate messages. After a crash the driver looks for the id of the message in the thread: a turn that
is complete is its answer, one that was cut is continued.
"""

import asyncio
import logging
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from molecule_core.agent.async_utils import unless_set
from molecule_core.agent.bridges.codex import approvals
from molecule_core.agent.bridges.codex.connection import CodexConnection, CodexError
from molecule_core.agent.bridges.codex.limits import RateLimits, failure_reason, is_limit
from molecule_core.agent.bridges.codex.turns import CodexTurn
from molecule_core.agent.bridges.line_process import LineProcess, ProgramBusyError
from molecule_core.agent.bridges.process_runner import ProcessStarter, ProgramNotStartedError
from molecule_core.agent.bridges.sessions import (
    DriverDied,
    DriverInfo,
    SessionTool,
    Turn,
    TurnEnd,
    TurnEvents,
)
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.bridges.shared_task import SharedTask
from molecule_core.agent.bridges.turn_texts import CONFIRM_SECONDS, LOST_LINE, compose_text, mark_lost
from molecule_core.common.clock import Clock
from molecule_core.common.version import VERSION

_log = logging.getLogger("molecule.bridge")
PROGRAM = "Codex"
# The oldest version whose app-server was seen to run tools of its client and to keep ids of messages.
OLDEST_COMPLETE = (0, 169)
APPROVAL_POLICIES = ("on-request", "untrusted")
"""When Codex asks: for what its sandbox forbids, or for every command that is not known to only read."""
_STRICT_POLICY = APPROVAL_POLICIES[1]
_ACTING_TOOLS = (approvals.SHELL, approvals.PATCH)
_VERSION = re.compile(r"/(\d+)\.(\d+)\.(\d+)")
_ABILITIES = ("streaming", "approvals", "questions", "steer", "stop", "usage", "limits")
_LOOK_BACK_TURNS = 20
# 1 s: Codex takes a message at once, and its turn waits for the decision meanwhile.
_REASON_SECONDS = 1.0


class _TurnSetup(NamedTuple):
    """What a turn begins with."""

    connection: CodexConnection
    thread_id: str
    text: str
    is_memory_lost: bool
    approval_policy: str


class CodexDriver:
    """Driver of `codex app-server`. `approval_policy`: when Codex asks for a permission."""

    name = "codex"

    def __init__(
        self,
        starter: ProcessStarter,
        tools: Sequence[SessionTool],
        *,
        slot: str,
        clock: Clock,
        settings: BridgeSettings,
        approval_policy: str = APPROVAL_POLICIES[0],
    ) -> None:
        self._starter = starter
        self._tools = tools
        self._slot = slot
        self._clock = clock
        self._settings = settings
        self._approval_policy = approval_policy
        self._starting = SharedTask[CodexConnection]()
        self._connection: CodexConnection | None = None
        self._info = DriverInfo(program=PROGRAM)
        self._models: dict[str, str] = {}
        """Model of each loaded thread."""
        self._loaded: set[str] = set()
        """Threads that the running program has loaded."""
        self._running: dict[str, CodexTurn] = {}
        """By conversation, until the program has ended the turn, also after `run_turn` has returned."""
        self._stops: dict[str, asyncio.Event] = {}
        """By conversation: the request to stop its newest turn."""
        self._sent_into: dict[str, CodexTurn] = {}
        """Steered turns by id: the turn that they were sent into."""
        self._in_doubt: set[str] = set()
        """Steered turns whose acceptance was never confirmed."""
        self._limits = RateLimits()
        self._endings: set[asyncio.Task[None]] = set()

    # -- the program ---------------------------------------------------------------------------------------------------

    async def start(self) -> DriverInfo:
        """Start the program; return its version and abilities. Raises ProgramNotStartedError."""
        try:
            await self._connect(ends_others=False)
        except ProgramBusyError:
            return self._info  # asked again by the first turn, which only the leader of the workspace runs
        except DriverDied as error:
            raise ProgramNotStartedError(f"codex app-server cannot start: {error}. Run `codex login` first.") from None
        return self._info

    async def close(self) -> None:
        """End the program with all its children."""
        await self._starting.cancel()
        for task in self._endings:
            task.cancel()
        if self._connection is not None:
            await self._connection.close()

    async def _connect(self, *, ends_others: bool = True) -> CodexConnection:
        if self._connection is not None and self._connection.end_reason is None:
            return self._connection
        return await self._starting.join(lambda: self._start_program(ends_others=ends_others))

    async def _start_program(self, *, ends_others: bool) -> CodexConnection:
        self._loaded.clear()
        process = LineProcess(
            self._starter,
            f"{self._slot}_codex",
            clock=self._clock,
            max_line_bytes=self._settings.line_bytes,
            max_error_bytes=self._settings.error_bytes,
            end_seconds=self._settings.end_seconds,
        )
        connection = CodexConnection(process, self._handle_notification, self._answer_request, self._handle_end)
        await connection.start(ends_others=ends_others)
        try:
            await self._handshake(connection)
        except BaseException:
            await connection.close()
            raise
        self._connection = connection
        return connection

    async def _handshake(self, connection: CodexConnection) -> None:
        client = {"name": "molecule_bridge", "title": "Molecule", "version": VERSION}
        params = {"clientInfo": client, "capabilities": {"experimentalApi": True}}
        responses: list[dict[str, Any]] = []

        async def initialize() -> None:
            responses.append(await connection.request("initialize", params))

        try:
            in_time = await self._clock.wait(initialize(), self._settings.start_seconds)
        except CodexError as error:
            raise DriverDied(f"it rejected the handshake ({error})") from None
        if not in_time:
            raise DriverDied(f"it did not answer within {self._settings.start_seconds:g} seconds")
        connection.notify("initialized")
        self._info = read_info(str(responses[0].get("userAgent", "")))
        if self._info.missing:
            _log.warning("Codex %s lacks: %s", self._info.version or "?", ", ".join(self._info.missing))

    def _handle_end(self, reason: str) -> None:
        for running in self._running.values():
            running.fail(DriverDied(reason))
        self._running.clear()

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def run_turn(self, turn: Turn, events: TurnEvents) -> TurnEnd:
        """Run a turn and return how it ended. Raises DriverDied and ProgramNotStartedError."""
        stop = self._stops[turn.conversation] = asyncio.Event()
        prepared = await unless_set(stop, self._prepare(turn, events))
        if prepared is None:
            return TurnEnd(kind="stopped")
        if isinstance(prepared, TurnEnd):
            return prepared
        connection = prepared.connection
        running = CodexTurn(turn.conversation, prepared.thread_id, events, stop)
        running.model = self._models.get(prepared.thread_id, "")
        self._running[turn.conversation] = running
        running.beginning = asyncio.create_task(self._begin(running, turn, prepared))
        try:
            end = await self._finish(connection, running)
            return mark_lost(end, PROGRAM) if prepared.is_memory_lost else end
        except asyncio.CancelledError:
            self._end_in_background(connection, running)
            raise

    async def _prepare(self, turn: Turn, events: TurnEvents) -> "_TurnSetup | TurnEnd":
        """Open the thread of a turn; return what to send, or the end of a turn that an earlier try has completed."""
        is_repeat = turn.is_repeat or turn.turn_id in self._in_doubt
        self._in_doubt.discard(turn.turn_id)
        if (earlier := self._sent_into.pop(turn.turn_id, None)) is not None:
            is_repeat = True
            await asyncio.wait((earlier.ended,))
        if (unfinished := self._running.get(turn.conversation)) is not None:
            await asyncio.wait((unfinished.ended,))
        connection = await self._connect()
        thread_id, is_memory_lost = await self._open_thread(connection, turn, events)
        is_interrupted = False
        if is_repeat and turn.session_id == thread_id:
            found = await self._find_turn(connection, thread_id, turn.turn_id)
            if found is not None and found.get("status") == "completed":
                return TurnEnd(kind="answered", text=last_message(found))
            is_interrupted = found is not None
        text = compose_text(turn.text, is_interrupted=is_interrupted, is_memory_lost=is_memory_lost)
        policy = await self._approval_policy_for(events)
        return _TurnSetup(connection, thread_id, text, is_memory_lost, policy)

    async def _approval_policy_for(self, events: TurnEvents) -> str:
        """Return when Codex asks in a turn: more often if a tool that acts is denied, since it has to ask then."""
        for tool in _ACTING_TOOLS:
            if await events.find_denial(tool):
                return _STRICT_POLICY
        return self._approval_policy

    async def steer(self, conversation: str, turn: Turn) -> bool:
        """Send a turn into the running turn of a conversation; return False if it must be queued instead."""
        running, connection = self._running.get(conversation), self._connection
        if running is None or connection is None or not running.id or running.is_stopped or running.ended.done():
            return False
        params = {"threadId": running.thread_id, "expectedTurnId": running.id, **_message(turn.turn_id, turn.text)}
        self._in_doubt.add(turn.turn_id)
        try:
            await connection.request("turn/steer", params)
        except CodexError as error:
            _log.info("Codex did not take a message into the running turn: %s", error)
            self._in_doubt.discard(turn.turn_id)
            return False
        except DriverDied:
            return False
        self._in_doubt.discard(turn.turn_id)
        running.steered.add(turn.turn_id)
        self._sent_into[turn.turn_id] = running
        return True

    async def stop(self, conversation: str) -> None:
        """Stop the running turn of a conversation; its `run_turn` then returns a stopped end."""
        if (stop := self._stops.get(conversation)) is not None:
            stop.set()

    async def _open_thread(self, connection: CodexConnection, turn: Turn, events: TurnEvents) -> tuple[str, bool]:
        """Load or start the thread of a conversation; return its id, and whether an earlier one is lost.

        The base instructions are passed at each load: Codex does not keep an override."""
        if turn.session_id in self._loaded:
            return turn.session_id, False
        options = {
            "cwd": str(turn.cwd),
            "baseInstructions": turn.system_prompt or None,
            "approvalPolicy": self._approval_policy,
        }
        if turn.session_id:
            params = {"threadId": turn.session_id, "excludeTurns": True, **options}
            try:
                resumed = await self._ask(connection, "thread/resume", params)
            except CodexError as error:
                _log.warning("the thread %s of Codex cannot be loaded: %s", turn.session_id, error)
                if turn.has_memory:
                    events.status("working", LOST_LINE.format(program=PROGRAM))
            else:
                self._loaded.add(turn.session_id)
                self._models[turn.session_id] = _model_of(resumed)
                return turn.session_id, False
        started = await self._request_thread(connection, options)
        await events.session_started(started)
        self._loaded.add(started)
        return started, turn.has_memory

    async def _request_thread(self, connection: CodexConnection, options: dict[str, Any]) -> str:
        tools = [
            {
                "type": "function",
                "name": each.name,
                "description": each.description,
                "inputSchema": dict(each.input_schema),
            }
            for each in self._tools
        ]
        try:
            result = await self._ask(connection, "thread/start", {**options, "dynamicTools": tools})
        except CodexError as error:
            raise DriverDied(f"it could not start a thread: {error}") from None
        thread = result.get("thread")
        if not isinstance(thread, dict) or not isinstance(thread.get("id"), str):
            raise DriverDied("it started a thread without an id")
        self._models[str(thread["id"])] = _model_of(result)
        return str(thread["id"])

    async def _find_turn(self, connection: CodexConnection, thread_id: str, message_id: str) -> dict[str, Any] | None:
        """Return the newest turn that holds a message; None if Codex has not had it."""
        params = {"threadId": thread_id, "limit": _LOOK_BACK_TURNS, "itemsView": "full", "sortDirection": "desc"}
        try:
            turns = (await self._ask(connection, "thread/turns/list", params)).get("data")
        except CodexError as error:
            _log.warning("the turns of thread %s cannot be read: %s", thread_id, error)
            return {"status": "unknown"}  # it may have had the message, which then says so
        for each in turns if isinstance(turns, list) else ():
            items = each.get("items") if isinstance(each, dict) else None
            if any(item.get("clientId") == message_id for item in items or () if isinstance(item, dict)):
                return dict(each)
        return None

    async def _ask(self, connection: CodexConnection, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request about a thread; a Codex that does not answer it in time is ended.

        Raises CodexError, DriverDied."""
        asking = asyncio.create_task(connection.request(method, params))
        if await self._clock.wait(asking, self._settings.start_seconds):
            return asking.result()
        await connection.close()
        raise DriverDied(f"it did not answer {method} within {self._settings.start_seconds:g} seconds")

    async def _begin(self, running: CodexTurn, turn: Turn, setup: _TurnSetup) -> None:
        """Start a turn. Never raises: a refused start is the end of the turn."""
        options = {"threadId": running.thread_id, "cwd": str(turn.cwd), "approvalPolicy": setup.approval_policy}
        params = {**options, **_message(turn.turn_id, setup.text)}
        try:
            started = (await setup.connection.request("turn/start", params)).get("turn")
        except CodexError as error:
            self._forget(running)
            if not running.ended.done():
                fault = {"message": str(error), "codexErrorInfo": error.info}
                running.ended.set_result({"status": "failed", "error": fault})
        except DriverDied as error:
            self._forget(running)
            running.fail(error)
        else:
            if isinstance(started, dict) and isinstance(started.get("id"), str):
                running.id = started["id"]

    async def _finish(self, connection: CodexConnection, running: CodexTurn) -> TurnEnd:
        """Wait for the end of a turn, or for a stop."""
        stopping = asyncio.create_task(running.stop_requested.wait())
        try:
            await asyncio.wait((running.ended, stopping), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        is_over = running.ended.done() or await self._clock.wait(
            self._interrupt_until_ended(connection, running), CONFIRM_SECONDS
        )
        if not is_over:
            self._end_in_background(connection, running)
            return TurnEnd(kind="stopped", text=running.text_so_far, usage=running.usage)
        return self._read_end(running, await running.ended)

    def _read_end(self, running: CodexTurn, ended: dict[str, Any]) -> TurnEnd:
        self._forget(running)
        folded = tuple(sorted(running.steered & running.seen_ids))
        for turn_id in folded:
            self._sent_into.pop(turn_id, None)
        error = ended.get("error")
        fields = error if isinstance(error, dict) else {}
        if ended.get("status") == "completed":
            text = last_message(ended) or running.final_text
            return TurnEnd(kind="answered", text=text, usage=running.usage, folded_turn_ids=folded)
        if ended.get("status") == "interrupted":
            return TurnEnd(kind="stopped", text=running.text_so_far, usage=running.usage, folded_turn_ids=folded)
        return self._failed_end(running, str(fields.get("message", "")), fields.get("codexErrorInfo"), folded)

    def _failed_end(self, running: CodexTurn, message: str, info: object, folded: tuple[str, ...] = ()) -> TurnEnd:
        text, usage = running.text_so_far, running.usage
        if is_limit(info):
            until = self._limits.resets_at(self._clock.now() // 1000)
            reason = f"a limit of the vendor is reached: {message}"
            return TurnEnd(kind="limited", text=text, reason=reason, limited_until=until, usage=usage)
        reason = failure_reason(message, info)
        return TurnEnd(kind="failed", text=text, reason=reason, usage=usage, folded_turn_ids=folded)

    async def _interrupt_until_ended(self, connection: CodexConnection, running: CodexTurn) -> None:
        await self._interrupt(connection, running)
        await asyncio.wait((running.ended,))

    async def _interrupt(self, connection: CodexConnection, running: CodexTurn) -> None:
        """Ask Codex, once, to end a turn, which may have ended meanwhile. Waits until Codex has named the turn."""
        if not running.id and running.beginning is not None:
            await asyncio.wait((running.beginning,))
        if running.is_interrupted or running.ended.done():
            return
        try:
            await connection.request("turn/interrupt", {"threadId": running.thread_id, "turnId": running.id})
            running.is_interrupted = True
        except (CodexError, DriverDied) as error:
            _log.info("Codex did not interrupt the turn: %s", error)

    def _end_in_background(self, connection: CodexConnection, running: CodexTurn) -> None:
        """End a turn whose result is no longer wanted; a program that goes on with it is ended."""

        async def end() -> None:
            running.stop_requested.set()
            if not await self._clock.wait(
                self._interrupt_until_ended(connection, running), self._settings.stop_seconds
            ):
                _log.warning("Codex goes on with a turn that was stopped; it is ended")
                await connection.close()

        task = asyncio.create_task(end())
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    def _forget(self, running: CodexTurn) -> None:
        if self._running.get(running.conversation) is running:
            del self._running[running.conversation]

    # -- what Codex sends ----------------------------------------------------------------------------------------------

    def _handle_notification(self, method: str, params: dict[str, Any]) -> None:
        if method == "account/rateLimits/updated":
            self._limits.update(params.get("rateLimits"))
            return
        running = self._running_in(params.get("threadId"))
        if running is None or running.ended.done():
            return
        item, turn = params.get("item"), params.get("turn")
        if isinstance(item, dict) and method == "item/started":
            running.start_item(item)
        elif isinstance(item, dict) and method == "item/completed":
            running.complete_item(item)
        elif method == "item/agentMessage/delta":
            running.add_delta(params)
        elif method == "thread/tokenUsage/updated":
            running.add_usage(params.get("tokenUsage"))
        elif method == "error" and params.get("willRetry"):
            error = params.get("error")
            running.events.status("retrying", str(error.get("message", "")) if isinstance(error, dict) else "")
        elif method == "turn/started" and isinstance(turn, dict):
            running.id = running.id or str(turn.get("id", ""))
        elif method == "turn/completed" and isinstance(turn, dict) and running.id in ("", turn.get("id")):
            running.ended.set_result(turn)
            self._forget(running)

    def _running_in(self, thread_id: object) -> CodexTurn | None:
        return next((each for each in self._running.values() if each.thread_id == thread_id), None)

    async def _answer_request(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        running = self._running_in(params.get("threadId"))
        if approvals.is_approval(method, params):
            return await self._answer_permission(running, method, params)
        if method == approvals.QUESTIONS:
            questions = approvals.read_questions(params)
            answers = await running.events.ask_questions(questions) if running is not None and questions else None
            return approvals.render_answers(params, answers)
        if method == approvals.ELICITATION:
            return {"action": "decline", "content": None}
        if method == approvals.TOOL_CALL:
            if running is None:
                text, is_error = "No message is being handled in this thread. Call tools during a turn.", True
            else:
                name, call_id = str(params.get("tool", "")), str(params.get("callId", ""))
                text, is_error = await running.events.call_tool(name, params.get("arguments"), call_id)
            return {"success": not is_error, "contentItems": [{"type": "inputText", "text": text}]}
        return None

    async def _answer_permission(
        self, running: CodexTurn | None, method: str, params: dict[str, Any]
    ) -> dict[str, Any]:
        """Ask for a permission. The reason of a denial has no place in the response: it is a message before it."""
        if running is None:
            return approvals.render_decision(method, params, approvals.DENIED)
        item = running.items.get(str(params.get("itemId", "")), {})
        decision = await running.events.ask_permission(approvals.read_permission(method, params, item))
        if not decision.is_allowed and decision.reason and running.id and self._connection is not None:
            message = {"input": [{"type": "text", "text": f"The permission was denied. {decision.reason}"}]}
            target = {"threadId": running.thread_id, "expectedTurnId": running.id}
            await self._clock.wait(self._steer_quietly(self._connection, {**target, **message}), _REASON_SECONDS)
        return approvals.render_decision(method, params, decision)

    async def _steer_quietly(self, connection: CodexConnection, params: dict[str, Any]) -> None:
        try:
            await connection.request("turn/steer", params)
        except (CodexError, DriverDied) as error:
            _log.info("the reason of a denial did not reach Codex: %s", error)


def read_info(user_agent: str) -> DriverInfo:
    """Return the program's version and abilities. What an older version lacks is named on the agent card."""
    match = _VERSION.search(user_agent)
    version = ".".join(match.groups()) if match else ""
    is_complete = match is not None and (int(match[1]), int(match[2])) >= OLDEST_COMPLETE
    if is_complete:
        return DriverInfo(program=PROGRAM, version=version, abilities=(*_ABILITIES, "tools", "exactly once"))
    oldest = ".".join(map(str, OLDEST_COMPLETE))
    missing = (
        f"tools of the platform (Codex {oldest} or newer)",
        f"exactly-once after a crash (Codex {oldest} or newer)",
    )
    return DriverInfo(program=PROGRAM, version=version, abilities=_ABILITIES, missing=missing)


def last_message(turn: dict[str, Any]) -> str:
    """Return the last message of the model in a turn."""
    items = turn.get("items")
    texts = [
        str(item.get("text", ""))
        for item in items or ()
        if isinstance(item, dict) and item.get("type") == "agentMessage"
    ]
    return texts[-1] if texts else ""


def _message(message_id: str, text: str) -> dict[str, Any]:
    return {"input": [{"type": "text", "text": text}], "clientUserMessageId": message_id}


def _model_of(result: dict[str, Any]) -> str:
    """Return the model that a response to the start of a thread names; empty if it names none."""
    model = result.get("model")
    return model if isinstance(model, str) else ""
