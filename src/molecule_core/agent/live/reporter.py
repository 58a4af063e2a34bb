"""Reports what happens in turns to the server, for people who watch, and receives their requests to stop.

Reports are collected and sent a few times a second, by one request at a time. No method but `end` waits, and no error
of the server reaches a turn: a report that cannot be delivered is dropped.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any, Protocol

from msgspec import Struct

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.config import AgentSettings
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.clock import Clock
from molecule_core.wire.schemas.live_turns import StatusReport, TextReport, ToolReport, ToolStatus, TurnStatus

_log = logging.getLogger("molecule.agent")
# A person who watches sees nothing of a server that was away for longer than these tries.
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 15.0
# 1 s: the end of a turn does not wait longer for the report of it.
_END_SECONDS = 1.0
# Unsent status and tool reports of a turn, beside its text.
_MAX_REPORTS = 200
_TOO_MANY_TURNS, _NO_ROUTE = "too_many_open", "no_such_route"


class LiveTarget(Protocol):
    """Workspace whose turns are reported; a `Membership` is one."""

    @property
    def id(self) -> str:
        """Return the workspace id."""

    def api(self) -> ApiClient:
        """Return a client with the current token."""


class ReportedTurn:
    """A turn that is reported. Made by `LiveReporter.begin`."""

    def __init__(self, reporter: "LiveReporter", activity_id: str, thread_id: str, max_bytes: int) -> None:
        self.activity_id = activity_id
        self.thread_id = thread_id
        self._reporter = reporter
        self._max_bytes = max_bytes
        self._pending = deque[Struct]()
        self._pending_bytes = 0
        self._length = 0
        self._ends_line = True
        self._stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sent = asyncio.Event()
        self._sent.set()
        self.is_over = False
        """Whether no more is reported."""

    # -- by the turn ---------------------------------------------------------------------------------------------------

    def text(self, delta: str) -> None:
        """Report text that continues the text of the turn."""
        if delta and not self.is_over:
            size = len(delta.encode("utf-8", "replace"))
            last = self._pending[-1] if self._pending else None
            if isinstance(last, TextReport) and size + self._pending_bytes <= self._max_bytes:
                self._pending[-1] = TextReport(last.text + delta, last.at)
            else:
                self._pending.append(TextReport(delta, self._length))
            self._pending_bytes += size
            self._length += len(delta)
            self._ends_line = delta.endswith("\n")
            self._drop_excess()
            self._reporter.on_report(self)

    def paragraph(self) -> None:
        """Report that the next text is a paragraph of its own, if there is text before it."""
        if self._length and not self._ends_line:
            self.text("\n\n")

    def tool(self, call_id: str, tool: str, title: str, status: ToolStatus) -> None:
        """Report a tool call that starts or has ended."""
        self._append(ToolReport(call_id, tool, status, title))

    def status(self, status: TurnStatus, text: str = "") -> None:
        """Report the status of the turn."""
        self._append(StatusReport(status, text))

    async def end(self, status: TurnStatus) -> None:
        """Report the end of the turn, as `ended`, `failed` or `stopped`; wait a moment until it is sent."""
        if not self.is_over:
            self._append(StatusReport(status))
            self._reporter.on_end(self)
            await self._reporter.wait_briefly(self._sent.wait())

    def drop(self) -> None:
        """Report nothing more, for a turn that another process continues."""
        self._pending.clear()
        self._reporter.on_end(self)

    async def stop_requested(self) -> None:
        """Wait until a person requests that the turn stops."""
        await asyncio.shield(self._stop)

    def _append(self, report: Struct) -> None:
        if not self.is_over:
            self._pending.append(report)
            self._drop_excess()
            self._reporter.on_report(self)

    def _drop_excess(self) -> None:
        """Drop the oldest reports of a server that does not take them."""
        while len(self._pending) > 1 and (self._pending_bytes > self._max_bytes or len(self._pending) > _MAX_REPORTS):
            dropped = self._pending.popleft()
            if isinstance(dropped, TextReport):
                self._pending_bytes -= len(dropped.text.encode("utf-8", "replace"))

    # -- by the reporter -----------------------------------------------------------------------------------------------

    @property
    def has_reports(self) -> bool:
        """Return whether there are unsent reports."""
        return bool(self._pending)

    def take_reports(self) -> list[Struct]:
        """Return the unsent reports, and forget them."""
        reports, self._pending_bytes = list(self._pending), 0
        self._pending.clear()
        return reports

    def put_back(self, reports: list[Struct]) -> None:
        """Keep reports whose delivery is not known. Repeated text adds nothing: it names its place."""
        self._pending.extendleft(reversed(reports))
        texts = [each.text for each in reports if isinstance(each, TextReport)]
        self._pending_bytes += sum(len(each.encode("utf-8", "replace")) for each in texts)
        self._drop_excess()

    def mark_sent(self, *, is_sent: bool) -> None:
        """Record whether the server has all reports."""
        if is_sent:
            self._sent.set()
        else:
            self._sent.clear()

    def request_stop(self) -> None:
        """Record that a person wants the turn to stop."""
        if not self._stop.done():
            self._stop.set_result(None)


class LiveReporter:
    """Reporter of the turns of one workspace."""

    def __init__(self, membership: LiveTarget, clock: Clock, settings: AgentSettings) -> None:
        self._target = membership
        self._clock = clock
        self._settings = settings
        self._turns: dict[str, ReportedTurn] = {}
        self._waiting: dict[ReportedTurn, None] = {}
        """Turns with unsent reports, in the order in which they are sent."""
        self._has_waiting = asyncio.Event()
        self._sender: asyncio.Task[None] | None = None
        self._listeners: dict[ReportedTurn, asyncio.Task[None]] = {}
        self._is_unsupported = False
        """Whether the server is older than live turns."""

    def begin(self, activity_id: str, thread_id: str = "") -> ReportedTurn:
        """Begin to report a turn. `activity_id`: the message that it answers, or another id of the turn."""
        turn = ReportedTurn(self, activity_id, thread_id, self._settings.live_bytes)
        self._turns[activity_id] = turn
        turn.status("working")
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all())
        self._listeners[turn] = asyncio.create_task(self._listen(turn))
        return turn

    def on_report(self, turn: ReportedTurn) -> None:
        """Send the reports of a turn soon."""
        if self._is_unsupported:
            turn.take_reports()
            return
        turn.mark_sent(is_sent=False)
        self._waiting[turn] = None
        self._has_waiting.set()

    def on_end(self, turn: ReportedTurn) -> None:
        """Forget a turn once its last reports are sent."""
        turn.is_over = True
        if self._turns.get(turn.activity_id) is turn:
            del self._turns[turn.activity_id]
        listener = self._listeners.pop(turn, None)
        if listener is not None:
            listener.cancel()
        if not turn.has_reports:
            self._waiting.pop(turn, None)

    async def wait_briefly(self, work: Coroutine[Any, Any, object]) -> None:
        """Wait for some work, for a moment."""
        await self._clock.wait(work, _END_SECONDS)

    async def close(self) -> None:
        """Stop reporting."""
        tasks = [*self._listeners.values(), *([] if self._sender is None else [self._sender])]
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- to the server -------------------------------------------------------------------------------------------------

    async def _send_all(self) -> None:
        """Send reports until cancelled, one turn after the other."""
        delay = self._settings.live_seconds
        while True:
            await self._has_waiting.wait()
            turn = next(iter(self._waiting), None)
            if turn is None:  # the last one has ended meanwhile
                self._has_waiting.clear()
                continue
            del self._waiting[turn]
            if not self._waiting:
                self._has_waiting.clear()
            is_sent = await self._send_reports(turn)
            delay = self._settings.live_seconds if is_sent else min(max(delay * 2, _FIRST_WAIT), _LONGEST_WAIT)
            await sleep(self._clock, delay)

    async def _send_reports(self, turn: ReportedTurn) -> bool:
        """Send the reports of a turn; return False if the server did not take them now, and may later."""
        reports = turn.take_reports()
        if not reports:
            return True
        body = {"activity_id": turn.activity_id, "thread_id": turn.thread_id, "events": reports}
        try:
            response = await self._target.api().post(f"/workspaces/{self._target.id}/live", body)
        except (ApiError, NoAnswerError) as error:
            return self._on_failed(turn, reports, error)
        self._apply_controls(response)
        if turn.has_reports:
            self._waiting[turn] = None
            self._has_waiting.set()
        else:
            turn.mark_sent(is_sent=True)
        return True

    def _on_failed(self, turn: ReportedTurn, reports: list[Struct], error: ApiError | NoAnswerError) -> bool:
        if isinstance(error, NoAnswerError) or (error.is_transient and error.code != _TOO_MANY_TURNS):
            turn.put_back(reports)
            self._waiting[turn] = None
            self._has_waiting.set()
            return False
        if error.code == _NO_ROUTE:
            self._is_unsupported = True
        _log.info("what happens in a turn is not reported: %s", sanitize_line(str(error), 300))
        turn.drop()
        turn.mark_sent(is_sent=True)
        return True

    async def _listen(self, turn: ReportedTurn) -> None:
        """Wait for a request to stop a turn, while its program is quiet."""
        path, delay = f"/workspaces/{self._target.id}/live/controls", _FIRST_WAIT
        while not self._is_unsupported:
            try:
                response = await self._target.api().get(
                    path, wait=self._settings.hold_seconds, activity_id=turn.activity_id
                )
            except NoAnswerError:
                pass
            except ApiError as error:
                if not error.is_transient:
                    return
            else:
                self._apply_controls(response)
                delay = _FIRST_WAIT
                continue
            await sleep(self._clock, delay)
            delay = min(delay * 2, _LONGEST_WAIT)

    def _apply_controls(self, response: Any) -> None:
        """Forward requests to stop. Of a newer server, unknown ones are ignored."""
        controls = response.get("controls") if isinstance(response, dict) else None
        for each in controls if isinstance(controls, list) else ():
            turn = self._turns.get(str(each.get("activity_id"))) if isinstance(each, dict) else None
            if turn is not None and each.get("type") == "stop":
                turn.request_stop()
