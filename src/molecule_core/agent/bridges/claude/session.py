"""One process of Claude Code: sends turns, reads its lines, and serves its requests."""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from molecule_core.agent.bridges.claude import lines
from molecule_core.agent.bridges.claude.turn_state import SentMessage, SentMessages
from molecule_core.agent.bridges.process_runner import (
    ProcessLock,
    ProcessStarter,
    ProgramNotStartedError,
    StderrLog,
    exit_reason,
)
from molecule_core.agent.bridges.session_mcp import SERVER_NAME, answer_mcp_message
from molecule_core.agent.bridges.sessions import DriverDied, SessionTool, Turn, TurnEnd, TurnEvents
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.bridges.turn_texts import compose_text
from molecule_core.agent.engines.toolbox import ToolOutput
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.common.clock import Clock

_log = logging.getLogger("molecule.bridge")
_CHUNK = 256 << 10
# 1 s: a message that a turn works on is reported as such within some milliseconds of its repetition.
_ECHO_SECONDS = 1.0
_UNKNOWN_SESSION = "No conversation found"
_LIFECYCLE = "msg_lifecycle_v1"
_STARTED_STATES = ("queued", "started")
_NEXT = "next"
_TOOL_PREFIX = f"mcp__{SERVER_NAME}__"
_FREE_TOOLS = ("ToolSearch", "TodoWrite")
"""Tools without an effect outside the session. Without the first one, the model finds none of ours."""


class UnknownSessionError(Exception):
    """The program knows no session of this id."""


class ClaudeSession:
    """One process with one session. `lock`: held by the program while it runs."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        lock: ProcessLock,
        starter: ProcessStarter,
        tools: Sequence[SessionTool],
        *,
        clock: Clock,
        settings: BridgeSettings,
        is_new: bool,
    ) -> None:
        self._process = process
        self._lock = lock
        self._starter = starter
        self._clock = clock
        self._settings = settings
        self._tools = tools
        self._messages = SentMessages()
        self._events: TurnEvents | None = None
        self._capabilities: frozenset[str] = frozenset()
        self._request_count = 0
        self._responses: dict[str, asyncio.Future[lines.Line]] = {}
        self._requests: dict[str, asyncio.Task[None]] = {}
        self._calls: dict[str, str] = {}
        """Names of running calls of tools, by call id."""
        self._is_stopping = False
        self._ending: asyncio.Task[None] | None = None
        """Ends a program that does not stop; referenced, since the loop itself does not keep its tasks."""
        self._limited_until: int | None = None
        self._known_cost: float | None = 0.0 if is_new else None
        self._stderr = StderrLog(settings.error_bytes)
        self._has_unknown_session = False
        self.last_used = clock.monotonic()
        self._reading = asyncio.create_task(self._read_until_end())

    # -- lifecycle -----------------------------------------------------------------------------------------------------

    @property
    def is_alive(self) -> bool:
        """Return whether the program runs."""
        return not self._reading.done()

    @property
    def is_busy(self) -> bool:
        """Return whether a turn runs."""
        return self._events is not None

    async def initialize(self, system_prompt: str) -> lines.Line:
        """Begin the protocol. Raises ProgramNotStartedError, UnknownSessionError, DriverDied."""
        answer = asyncio.ensure_future(self._request(lines.initialize_request(SERVER_NAME, system_prompt)))
        try:
            if await self._clock.wait(asyncio.shield(answer), self._settings.start_seconds):
                return answer.result()
            raise ProgramNotStartedError(f"Claude Code did not answer within {self._settings.start_seconds:g} seconds")
        except DriverDied as error:
            if self._has_unknown_session:
                raise UnknownSessionError from None
            if (self._process.returncode or 0) < 0:  # killed, which says nothing about the next start
                raise
            raise ProgramNotStartedError(str(error)) from None
        finally:
            answer.cancel()

    async def close(self) -> None:
        """End the program with its process group."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._starter.end_process(self._process)
        await asyncio.wait((self._reading,))

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def run_turn(self, turn: Turn, events: TurnEvents) -> TurnEnd:
        """Run a turn; one that the program knows already is asked for its answer. Raises DriverDied."""
        self._events, self._is_stopping = events, False
        known = self._messages.find(turn.turn_id)
        sent = known or self._send(turn.turn_id, turn.text)
        ids = {turn.turn_id}
        try:
            if (turn.is_repeat or known is not None) and await self._is_repeated(sent):
                self._messages.remove(sent.id)
                repeat_id = str(uuid.uuid5(uuid.UUID(turn.turn_id), f"try {turn.run}"))
                sent = self._send(repeat_id, compose_text(turn.text, is_interrupted=True))
                ids.add(repeat_id)
            result: lines.ResultLine = await asyncio.shield(sent.ended)
            folded = tuple(each for each in self._messages.answered_together(result) if each not in ids)
            for each in (*ids, *folded):
                self._messages.remove(each)
            return self._to_end(result, folded)
        except asyncio.CancelledError:
            with contextlib.suppress(DriverDied):
                await self._interrupt()
            raise
        finally:
            self._events, self.last_used = None, self._clock.monotonic()
            self._calls.clear()
            for task in self._requests.values():
                task.cancel()

    async def _is_repeated(self, sent: SentMessage) -> bool:
        """Return whether the program only repeated a message to us that it had before, and runs no turn on it."""
        echoed = asyncio.ensure_future(sent.echoed.wait())
        try:
            await asyncio.wait((echoed, sent.ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            echoed.cancel()
        if sent.is_ignored():
            await self._clock.wait(asyncio.wait((sent.ended,)), _ECHO_SECONDS)
        return sent.is_ignored()

    def _to_end(self, result: lines.ResultLine, folded: tuple[str, ...]) -> TurnEnd:
        cost = None
        if result.total_cost is not None:
            cost = None if self._known_cost is None else max(0.0, result.total_cost - self._known_cost)
            self._known_cost = result.total_cost
        usage = msgspec.structs.replace(result.usage, cost_usd=cost)
        if result.is_answer and not self._is_stopping:
            return TurnEnd(kind="answered", text=result.text, usage=usage, folded_turn_ids=folded)
        if self._is_stopping:
            return TurnEnd(kind="stopped", text=result.text, usage=usage, folded_turn_ids=folded)
        if result.is_limited:
            until, self._limited_until = lines.limit_end(result) or self._limited_until, None
            return TurnEnd(kind="limited", reason=lines.failure_reason(result), limited_until=until, usage=usage)
        if result.is_aborted:
            reason = "Claude Code broke the turn off. Send the message again."
            return TurnEnd(kind="failed", text=result.text, reason=reason, usage=usage, folded_turn_ids=folded)
        reason = lines.failure_reason(result)
        return TurnEnd(kind="failed", text=result.text, reason=reason, usage=usage, folded_turn_ids=folded)

    def steer(self, turn: Turn) -> bool:
        """Send a turn into the running one; False if none runs or this version does not say what it answers."""
        if not self.is_busy or self._is_stopping or _LIFECYCLE not in self._capabilities:
            return False
        if self._messages.find(turn.turn_id) is None:
            self._send(turn.turn_id, turn.text)
        return True

    async def stop(self) -> None:
        """Interrupt the running turn; a program that does not end it in time is ended."""
        self._is_stopping = True
        with contextlib.suppress(DriverDied):
            await self._interrupt()
        self._ending = asyncio.create_task(self._end_if_busy())

    async def _interrupt(self) -> None:
        answer = asyncio.ensure_future(self._request({"subtype": "interrupt"}))
        try:
            await self._clock.wait(asyncio.shield(answer), self._settings.stop_seconds)
            if answer.done():
                answer.result()
        finally:
            answer.cancel()

    async def _end_if_busy(self) -> None:
        await self._clock.wait(asyncio.shield(self._reading), self._settings.stop_seconds)
        if self.is_busy and self._is_stopping and self.is_alive:
            _log.warning("Claude Code did not stop the turn; its process is ended")
            await self.close()

    def _send(self, id_: str, text: str) -> SentMessage:
        sent = self._messages.add(id_)
        if not self.is_alive:
            sent.ended.set_exception(self._death())
        self._write(lines.user_line(text, id_, priority=_NEXT))
        return sent

    # -- lines ---------------------------------------------------------------------------------------------------------

    async def _request(self, request: lines.Line) -> lines.Line:
        """Send a request and return its response. Raises DriverDied."""
        self._request_count += 1
        id_ = f"molecule-{self._request_count}"
        answer: asyncio.Future[lines.Line] = asyncio.get_running_loop().create_future()
        self._responses[id_] = answer
        try:
            if not self.is_alive:
                raise self._death()
            self._write(lines.request_line(id_, request))
            return await answer
        finally:
            self._responses.pop(id_, None)

    def _write(self, line: lines.Line) -> None:
        if self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(msgspec.json.encode(line) + b"\n")

    async def _read_until_end(self) -> None:
        """Read lines until the program ends, then fail everything that waits for it."""
        assert self._process.stdout is not None and self._process.stderr is not None
        stderr_task = asyncio.create_task(self._stderr.read_stream(self._process.stderr))
        try:
            rest = bytearray()
            while chunk := await self._process.stdout.read(_CHUNK):
                rest += chunk  # lines may have any length: results of tools are in one line
                if b"\n" in chunk:
                    *whole, last = bytes(rest).split(b"\n")
                    rest = bytearray(last)
                    for each in whole:
                        self._handle_raw(each)
        finally:
            await self._starter.end_process(self._process)
            await self._starter.drain_streams(self._process, self._process.stdout)
            await asyncio.wait((stderr_task,), timeout=self._settings.end_seconds)
            stderr_task.cancel()
            self._lock.release()
            self._has_unknown_session |= _UNKNOWN_SESSION in self._stderr.last_line
            self._messages.fail_all(self._death())
            for answer in self._responses.values():
                if not answer.done():
                    answer.set_exception(self._death())
            for task in self._requests.values():
                task.cancel()

    def _death(self) -> DriverDied:
        code = self._process.returncode
        return DriverDied(exit_reason(code or 0, self._stderr.last_line))

    def _handle_raw(self, raw: bytes) -> None:
        if not raw.strip():
            return
        try:
            line = msgspec.json.decode(raw)
            if isinstance(line, dict):
                self._handle_line(line)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            _log.warning(
                "Claude Code wrote a line that is no JSON: %s", sanitize_line(raw[:500].decode(errors="replace"))
            )

    def _handle_line(self, line: lines.Line) -> None:
        match line.get("type"):
            case "control_request":
                self._start_request(line)
            case "control_response":
                self._handle_response(line)
            case "control_cancel_request":
                if (task := self._requests.get(str(line.get("request_id")))) is not None:
                    task.cancel()
            case "command_lifecycle":
                self._handle_lifecycle(str(line.get("command_uuid")), line.get("state"))
            case "system":
                self._handle_system(line)
            case "stream_event" | "assistant":
                self._handle_output(line)
            case "user":
                self._handle_user(line)
            case "rate_limit_event":
                self._limited_until = lines.limit_event_end(line) or self._limited_until
            case "result":
                if any(_UNKNOWN_SESSION in str(each) for each in (line.get("result"), line.get("errors"))):
                    self._has_unknown_session = True
                self._messages.resolve(lines.read_result(line), is_stopping=self._is_stopping)

    def _handle_lifecycle(self, id_: str, state: Any) -> None:
        if state in _STARTED_STATES:
            self._messages.mark_begun((id_,))
        elif state == "completed":
            self._messages.mark_echoed(id_)

    def _handle_system(self, line: lines.Line) -> None:
        subtype, capabilities = line.get("subtype"), line.get("capabilities")
        if subtype == "init" and isinstance(capabilities, list):
            self._capabilities = frozenset(each for each in capabilities if isinstance(each, str))
        if subtype in ("init", "status"):
            self._messages.mark_begun(lines.named_message_ids(line))
        elif subtype == "api_retry" and self._events is not None:
            self._events.status("retrying", lines.retry_text(line))
            if seconds := lines.limit_retry_seconds(line):
                self._events.limited(seconds, f"Claude Code tries again by itself: {lines.retry_text(line)}")

    def _handle_output(self, line: lines.Line) -> None:
        self._messages.mark_begun(lines.named_message_ids(line))
        if self._events is None:
            return
        if delta := lines.text_delta(line):
            self._events.text(delta)
        for block in lines.content_blocks(line, "tool_use"):
            call_id, tool = str(block.get("id")), sanitize_line(str(block.get("name")), 200)
            self._calls[call_id] = tool
            self._events.tool(call_id, tool, lines.call_title(block.get("input")), "started")

    def _handle_user(self, line: lines.Line) -> None:
        if line.get("isReplay") is True:
            self._messages.mark_echoed(str(line.get("uuid")))
        for block in lines.content_blocks(line, "tool_result"):
            call_id = str(block.get("tool_use_id"))
            tool = self._calls.pop(call_id, "")
            if tool and self._events is not None:
                self._events.tool(call_id, tool, "", "failed" if block.get("is_error") is True else "completed")

    def _handle_response(self, line: lines.Line) -> None:
        response = line.get("response")
        if not isinstance(response, dict):
            return
        answer = self._responses.get(str(response.get("request_id")))
        if answer is not None and not answer.done():
            inner = response.get("response")
            answer.set_result(inner if isinstance(inner, dict) else {})

    # -- requests of the program ---------------------------------------------------------------------------------------

    def _start_request(self, line: lines.Line) -> None:
        """Serve a request in its own task: a permission may take hours."""
        id_, request = str(line.get("request_id")), line.get("request")
        if not isinstance(request, dict):
            return
        task = asyncio.create_task(self._serve_request(id_, request))
        self._requests[id_] = task
        task.add_done_callback(lambda done: self._on_served(id_, done))

    def _on_served(self, id_: str, task: "asyncio.Task[None]") -> None:
        self._requests.pop(id_, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a request of Claude Code failed", exc_info=error)
            self._write(lines.error_line(id_, "the request failed"))

    async def _serve_request(self, id_: str, request: lines.Line) -> None:
        handlers: dict[object, Callable[[str, lines.Line], Awaitable[lines.Line]]] = {
            "can_use_tool": self._decide_permission,
            "hook_callback": self._check_tool,
            "mcp_message": self._serve_mcp,
        }
        handler = handlers.get(request.get("subtype"))
        if handler is None:
            self._write(lines.error_line(id_, f"the request {request.get('subtype')!r} is not supported"))
        else:
            self._write(lines.response_line(id_, await handler(id_, request)))

    async def _serve_mcp(self, id_: str, request: lines.Line) -> lines.Line:
        message = request.get("message")
        answer = await answer_mcp_message(
            message if isinstance(message, dict) else {}, self._tools, self._call_tool, f"{self._process.pid}-{id_}"
        )
        # A notification has no answer, but the program waits for one.
        return {"mcp_response": answer or {"jsonrpc": "2.0", "id": 0, "result": {}}}

    async def _call_tool(self, name: str, arguments: Any, call_id: str) -> ToolOutput:
        if self._events is None:
            return ToolOutput("no message is being worked on, so tools of Molecule cannot be called.", True)
        return await self._events.call_tool(name, arguments, call_id)

    async def _check_tool(self, _id: str, request: lines.Line) -> lines.Line:
        """Answer the hook before a call: deny a tool that the turn's delegations do not allow."""
        found = request.get("input")
        tool = found.get("tool_name") if isinstance(found, dict) else None
        if self._events is None or not isinstance(tool, str) or tool in _FREE_TOOLS or tool.startswith(_TOOL_PREFIX):
            return lines.hook_response("")
        return lines.hook_response(await self._events.find_denial(tool))

    async def _decide_permission(self, id_: str, request: lines.Line) -> lines.Line:
        tool, tool_input, events = request.get("tool_name"), request.get("input"), self._events
        server = request.get("mcp_server")
        is_own = isinstance(server, dict) and server.get("name") == SERVER_NAME and server.get("source") == "sdk"
        if is_own or (server is None and str(tool).startswith(_TOOL_PREFIX)):
            return lines.allow_response(tool_input)  # the server decides about our tools by its own rules
        if events is None:
            return lines.deny_response("No message of Molecule is being worked on. Do not try again now.")
        if tool == lines.QUESTION_TOOL:
            answers = await events.ask_questions(lines.read_questions(tool_input))
            if answers is None:
                return lines.deny_response("The question was not answered. Continue without an answer, or end.")
            return lines.allow_response(lines.answered_input(tool_input, answers))
        permission = lines.read_permission(request, id_)
        decision = await events.ask_permission(permission)
        if not decision.is_allowed:
            return lines.deny_response(decision.reason or "It was denied.")
        allowed = tool_input if decision.edited_input is None else decision.edited_input
        return lines.allow_response(allowed, permission.suggestions if decision.is_remembered else ())
