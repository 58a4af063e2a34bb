"""Drives the turns of an agent's threads: claims, begins, samples, runs tools, ends.

`turn_planner` decides each step from the model context of the server. Nothing is shown to a model that is not in the
log, and nothing is done before the log contains it.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from molecule_core.agent.engines import texts
from molecule_core.agent.engines.approval_gate import ToolApprovalGate, edited_note
from molecule_core.agent.engines.images import load_images
from molecule_core.agent.engines.model_factory import ModelFactory
from molecule_core.agent.engines.models import ModelError, ModelRequest, ModelUnavailableError
from molecule_core.agent.engines.prompt_drift import drift_note
from molecule_core.agent.engines.retry import PersistentRetry
from molecule_core.agent.engines.sampler import ModelAnswer, Sampler
from molecule_core.agent.engines.settings import RunConfig
from molecule_core.agent.engines.thread_log_client import EntryRejected, ThreadLogClient, TurnStopped
from molecule_core.agent.engines.tool_permissions import ORIGIN_PREFIX as TOOLS
from molecule_core.agent.engines.tool_permissions import (
    InvalidPermissionsError,
    ToolPermissions,
    fewer_tools_note,
    parse_permissions,
)
from molecule_core.agent.engines.toolbox import ThreadToolCall, Toolbox, ToolOutput
from molecule_core.agent.engines.turn_planner import (
    AbandonStep,
    CompactStep,
    EndStep,
    RunToolsStep,
    SampleStep,
    TokenUsage,
    TurnLimits,
    TurnState,
    end_for_stop,
    next_step,
)
from molecule_core.agent.live.reporter import LiveReporter, ReportedTurn
from molecule_core.agent.prompt.assembly import Prompt
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.client.task_headers import acting_for
from molecule_core.client.threads import EngineThread, ThreadsClient
from molecule_core.common.ids import IdGenerator
from molecule_core.wire.schemas.live_turns import ToolStatus, TurnStatus
from molecule_core.wire.schemas.thread_log import TurnOutcome
from molecule_core.wire.schemas.threads import ModelContext, ModelContextItem, OpenTurn

_log = logging.getLogger("molecule.engine")
REQUEST_APPROVAL = "request_approval"
STALE, OWNED = "stale_generation", "thread_owned"
_NOT_OWNER_CODES = (STALE, OWNED)
REMINDER_SUFFIX = ":reminder"
"""End of the key of a turn that a reminder of its message caused."""
_LIVE_ENDS: dict[TurnOutcome, TurnStatus] = {"completed": "ended", "failed": "failed", "interrupted": "stopped"}
# Characters of a call's arguments that people who watch are shown.
_MAX_TITLE = 120
_TOO_LONG = ". The thread is too long for this model: set compact_at_tokens below the limit of the model"


class DriverDependencies(NamedTuple):
    """Dependencies of drivers."""

    threads: ThreadsClient
    model_factory: ModelFactory
    sampler: Sampler
    toolbox: Toolbox
    gate: ToolApprovalGate
    retry: PersistentRetry
    ids: IdGenerator
    config: RunConfig
    live: LiveReporter
    files: Path
    """Folder of received files."""


class TurnDriver:
    """Driver of threads.

    `prompt`: returns the agent's current prompt. `on_end`: called with each turn that ends here. `task_of`: returns the
    delegation that a root thread works on, or an empty text.
    """

    def __init__(
        self,
        deps: DriverDependencies,
        owner: str,
        *,
        prompt: Callable[[], Prompt | None],
        on_end: Callable[[str, EndStep], None],
        task_of: Callable[[str], str],
    ) -> None:
        self._deps = deps
        self._owner = owner
        self._prompt = prompt
        self._on_end = on_end
        self._task_of = task_of
        config = deps.config
        self._limits = TurnLimits(config.budget, config.samplings, config.compact_at_tokens)

    async def drive(self, thread_id: str) -> None:
        """Drive the open turn of a thread to its end; return soon if the thread is claimed elsewhere or idle."""
        deps = self._deps
        try:
            claim = await deps.retry.retry_call(lambda: deps.threads.claim(thread_id, self._owner))
            try:
                if claim.open_turn is not None:
                    await self._run_turn(thread_id, claim.generation, claim.open_turn)
            finally:
                await deps.retry.finish_quietly(self._release(thread_id, claim.generation))
        except ApiError as error:
            log = _log.info if error.code in _NOT_OWNER_CODES else _log.warning
            log("thread %s is no longer driven here: %s", thread_id, sanitize_line(str(error), 300))

    async def _release(self, thread_id: str, generation: int) -> None:
        try:
            await self._deps.threads.release(thread_id, generation)
        except NoAnswerError as error:
            _log.info("thread %s stays claimed until its lease ends: %s", thread_id, sanitize_line(str(error), 300))

    async def _run_turn(self, thread_id: str, generation: int, open_turn: OpenTurn) -> None:
        deps, turn_id = self._deps, open_turn.turn_id
        log = ThreadLogClient(
            deps.threads,
            thread_id,
            turn_id,
            generation,
            retry=deps.retry,
            ids=deps.ids,
            heartbeat_seconds=deps.config.beat_seconds,
        )
        stop = await deps.retry.retry_call(lambda: deps.threads.begin_turn(thread_id, turn_id, generation))
        if stop is not None:  # the server has ended the turn
            self._on_end(turn_id, end_for_stop(stop))
            return
        live = deps.live.begin(_live_id(open_turn), thread_id)
        stopping = asyncio.create_task(self._interrupt_on_request(live, log))
        try:
            end = await self._run_steps(log, live, open_turn)
            self._on_end(turn_id, end)
            await live.end(_LIVE_ENDS[end.status])
        finally:
            stopping.cancel()
            live.drop()

    async def _run_steps(self, log: ThreadLogClient, live: ReportedTurn, open_turn: OpenTurn) -> EndStep:
        deps, turn_id = self._deps, open_turn.turn_id
        thread = await deps.retry.retry_call(lambda: deps.threads.get(log.thread_id))
        earlier_tokens = await _tokens_before(log) if open_turn.status == "running" else 0
        spent = TokenUsage(earlier_tokens, thread.tokens_used, thread.tree_tokens_used or 0)
        turn = TurnState(turn_id=turn_id, trigger=open_turn.trigger, spent=spent)
        task = self._task_of(thread.root_id)
        turn_run = _TurnRun(deps, log, live, thread, self._prompt(), task)
        await turn_run.append_notes()
        end, seen = await turn_run.run(turn, self._limits)
        await log.end_turn(end.status, final=end.final, error=end.error, seen=seen)
        return end

    async def _interrupt_on_request(self, live: ReportedTurn, log: ThreadLogClient) -> None:
        """Interrupt the turn when a person requests that it stops."""
        await live.stop_requested()
        try:
            await self._deps.retry.retry_call(lambda: self._deps.threads.interrupt(log.thread_id))
        except ApiError as error:
            _log.warning("the turn cannot be stopped: %s", sanitize_line(str(error), 300))
        log.check_soon()


def _live_id(turn: OpenTurn) -> str:
    """Return the id under which a turn is reported: the message that it answers, or its own."""
    return turn.turn_id if turn.key is None else turn.key.removesuffix(REMINDER_SUFFIX)


async def _tokens_before(log: ThreadLogClient) -> int:
    """Return the tokens that earlier processes used in this turn."""
    costs = [each.entry for each in await log.read_entries() if each.turn_id == log.turn_id and each.type == "usage"]
    return sum(int(each["input"]) + int(each["output"]) for each in costs)


def _rejected_text(error: EntryRejected) -> str:
    return f"the server rejected the log entries of this turn: {error}"


class _LiveSampling:
    """Reports the text of one answer as it comes. Implements `SamplingObserver`."""

    def __init__(self, live: ReportedTurn) -> None:
        self._live = live
        self._has_begun = False

    def on_text(self, delta: str) -> None:
        if not self._has_begun:
            self._live.paragraph()
            self._live.status("working")
        self._has_begun = True
        self._live.text(delta)

    def on_retry(self, reason: str) -> None:
        self._has_begun = False
        self._live.status("retrying", reason)

    def on_limit(self, reason: str) -> None:
        self._has_begun = False
        self._live.status("limited", reason)


class _TurnRun:
    """The part of a turn that runs in this process.

    `_own_call_ids`: tool calls that were appended by this process. `_task`: the delegation that the turn works on.
    """

    def __init__(
        self,
        deps: DriverDependencies,
        log: ThreadLogClient,
        live: ReportedTurn,
        thread: EngineThread,
        prompt: Prompt | None,
        task: str,
    ) -> None:
        self._deps = deps
        self._log = log
        self._live = live
        self._thread = thread
        self._prompt = prompt
        self._task = task
        self._own_call_ids: set[str] = set()
        granted = deps.toolbox.names if thread.tools is None else thread.tools
        tool_names = [each for each in deps.toolbox.names if each in granted]
        self._failure: str | None = None
        try:
            permissions = parse_permissions(thread.permissions)
        except InvalidPermissionsError as error:
            permissions, self._failure = ToolPermissions(allow=[]), str(error)
        self._tools = permissions.filter_allowed(tool_names)
        self._rules = permissions.approval_rules

    async def append_notes(self) -> None:
        """Append notes that the model must know, each once as long as it is in the context.

        They are: how messages arrive, how the prompt differs from the thread's base, and which tools are missing.
        """
        items = (await self._log.read_context()).items
        due = [] if self._prompt is None else [drift_note(self._thread, items, self._prompt)]
        if not any(texts.ENGINE_INSTRUCTIONS in each.text for each in items):
            due.insert(0, (texts.ENGINE_ORIGIN, texts.ENGINE_INSTRUCTIONS))
        tools_note = fewer_tools_note(self._tools, self._deps.toolbox.names)
        last_origin = next((each.origin for each in reversed(items) if each.origin.startswith(TOOLS)), None)
        if tools_note is not None and tools_note[0] != last_origin:
            due.append(tools_note)
        notes = [{"type": "context_note", "text": each[1], "origin": each[0]} for each in due if each is not None]
        if notes:
            try:
                await self._log.append_entries(*notes)
            except EntryRejected as error:
                self._failure = _rejected_text(error)

    async def run(self, turn: TurnState, limits: TurnLimits) -> tuple[EndStep, int]:
        """Run step by step; return the end, and the last ordinal considered. Raises ApiError."""
        turn = replace(turn, failure=self._failure)
        while True:
            context = await self._log.read_context()
            turn = replace(turn, stop=self._log.stop)
            step = next_step(turn, context, limits)
            try:
                match step:
                    case EndStep():
                        return step, context.last_ordinal
                    case AbandonStep():
                        for each in step.calls:
                            await self._append_output(each, ToolOutput(step.reason, True))
                    case RunToolsStep():
                        await self._run_calls(step.calls)
                    case CompactStep():
                        turn = await self._compact(turn, context, step)
                    case SampleStep():
                        turn = await self._sample(turn, context)
            except ModelError as error:
                turn = replace(turn, failure=f"{error.text}{_TOO_LONG if error.too_long else ''}")
            except ModelUnavailableError as error:
                turn = replace(turn, failure=str(error))
            except EntryRejected as error:
                if turn.failure is not None:  # the server closes what is still open
                    return EndStep("failed", error=turn.failure), context.last_ordinal
                turn = replace(turn, failure=_rejected_text(error))
            except TurnStopped:
                continue

    # -- model ---------------------------------------------------------------------------------------------------------

    async def _sample(self, turn: TurnState, context: ModelContext) -> TurnState:
        self._log.seen = context.last_ordinal
        answer = await self._ask_model(context, may_call=True)
        entries = self._deps.sampler.to_entries(answer, context)
        self._own_call_ids |= {each["call_id"] for each in entries if each["type"] == "tool_call"}
        await self._append_answer(*entries)
        return replace(
            turn,
            samplings=turn.samplings + 1,
            seen_ordinal=context.last_ordinal,
            is_compacted=False,
            is_silent=not answer.text and not answer.calls,
            spent=turn.spent.add_tokens(answer.tokens),
        )

    async def _append_answer(self, *entries: dict[str, Any]) -> None:
        """Append an answer. The last entry is its usage, which is recorded even if the rest is rejected."""
        try:
            await self._log.append_entries(*entries)
        except EntryRejected:
            await self._log.append_entries(entries[-1])
            raise

    async def _ask_model(self, context: ModelContext, *, may_call: bool) -> ModelAnswer:
        deps, thread = self._deps, self._thread
        model, name = deps.model_factory.open(thread.model or deps.config.model)
        request = ModelRequest(
            model=name,
            items=context.items,
            tools=deps.toolbox.definitions(self._tools),
            effort=thread.effort or deps.config.effort,
            cache_key=context.items[0].item_id if context.items else "",
            may_call=may_call,
            images=load_images(context.items, deps.files),
        )
        observer = _LiveSampling(self._live) if may_call else None  # the text of a summary is no answer
        return await self._log.run_while_claimed(deps.sampler.sample(model, request, observer))

    async def _compact(self, turn: TurnState, context: ModelContext, step: CompactStep) -> TurnState:
        last = context.items[-1] if context.items else None
        if last is None or last.origin != texts.COMPACT_ORIGIN:
            await self._log.append_entries(
                {"type": "context_note", "text": texts.COMPACT_PROMPT, "origin": texts.COMPACT_ORIGIN}
            )
            context = await self._log.read_context()
        answer = await self._ask_model(context, may_call=False)
        if not answer.text.strip():
            return replace(turn, failure="the model returned no summary, and the conversation is too long without one")
        summary = texts.format_summary(answer.text)
        entry = {"type": "compaction", "summary": summary, "kind": step.kind, "upto": context.last_ordinal}
        entries = [entry, self._deps.sampler.usage_entry(answer)]
        if step.kind == "automatic":
            note = {"type": "context_note", "text": texts.COMPACTED_NOTE, "origin": texts.COMPACTED_ORIGIN}
            entries.insert(1, note)
        await self._append_answer(*entries)
        await self.append_notes()  # the summary has replaced the earlier ones
        return replace(turn, is_compacted=True, spent=turn.spent.add_tokens(answer.tokens))

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def _run_calls(self, calls: tuple[ModelContextItem, ...]) -> None:
        """Run calls one after the other and append each output before the next; after a stop, the rest is abandoned."""
        for each in calls:
            self._report_call(each, "started")
            try:
                with acting_for(self._task):  # the server holds the call to what the delegation may do
                    output = await self._log.run_while_claimed(self._run_call(each))
            except TurnStopped:
                output = ToolOutput(texts.STOPPED_TEXT, True)
            self._report_call(each, "failed" if output.is_error else "completed")
            await self._append_output(each, output)
            if self._log.stop is not None:
                return

    def _report_call(self, item: ModelContextItem, status: ToolStatus) -> None:
        arguments = msgspec.json.encode(item.arguments).decode() if item.arguments else ""
        self._live.tool(item.call_id or "", item.tool or "", sanitize_line(arguments, _MAX_TITLE), status)

    async def _run_call(self, item: ModelContextItem) -> ToolOutput:
        """Run a call. One of an earlier process is run again only if that cannot act twice."""
        deps = self._deps
        call = ThreadToolCall(self._thread.thread_id, item.call_id or "", item.tool or "", item.arguments)
        is_repeat = call.call_id not in self._own_call_ids
        if is_repeat and not deps.toolbox.is_repeatable(call.tool):
            return ToolOutput(texts.INTERRUPTED_TEXT, True)
        allowed = await deps.gate.authorize_call(
            call, is_repeat=is_repeat, set_waiting=self._set_waiting, extra_rules=self._rules
        )
        if isinstance(allowed, ToolOutput):
            return allowed
        if call.tool == REQUEST_APPROVAL:
            await self._set_waiting(True)
        try:
            output = await deps.toolbox.run_call(allowed, self._tools)
        finally:
            if call.tool == REQUEST_APPROVAL:
                await self._set_waiting(False)
        return ToolOutput(edited_note(call, allowed) + output.text, output.is_error)

    async def _set_waiting(self, is_waiting: bool) -> None:
        """Log whether the thread waits for an approval, so that parent threads see it."""
        self._live.status("waiting_for_approval" if is_waiting else "working")
        appended = self._log.append_entries({"type": "status", "flags": ["waiting_on_approval"] if is_waiting else []})
        await self._deps.retry.finish_quietly(appended)

    async def _append_output(self, item: ModelContextItem, output: ToolOutput) -> None:
        await self._log.append_entries(
            {"type": "tool_output", "call_id": item.call_id, "text": output.text, "is_error": output.is_error}
        )
