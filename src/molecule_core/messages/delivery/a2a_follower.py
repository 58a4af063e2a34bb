"""Follows the tasks of A2A agents until they end or ask: by their streams, else by polls that become rarer.

The state is in the store: each task has a timer, which one process claims for a while. A process that dies loses its
claim, and another one continues. Called by timers; results are recorded as those of pushes are."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial

import msgspec
from msgspec.structs import replace

from molecule_core.a2a_agents import rules
from molecule_core.a2a_agents.client import A2AClient
from molecule_core.a2a_agents.model import A2A_TASK_TIMER, A2AAgent, RemoteTask
from molecule_core.a2a_agents.reader import A2AAgentReader
from molecule_core.a2a_agents.writer import load_task, save_task
from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import FetchFailed, ServerBusy, StoreUnavailable, UnsafeUrl
from molecule_core.common.limits import Limits
from molecule_core.messages.delivery import a2a_answers, push_policy
from molecule_core.messages.delivery.a2a_events import A2AEvents
from molecule_core.messages.delivery.push_claims import PushClaims
from molecule_core.messages.delivery_state import DeliveryFailure, PushResult
from molecule_core.store.database import Command, CommandSteps, Store, T, WriteSet
from molecule_core.store.timers import TIMERS_KEY, cancel_timer
from molecule_core.wire.protocols.a2a_call import (
    FINAL_STATES,
    TASK_NOT_FOUND,
    A2AAnswer,
    A2AOperation,
    parse_answer,
    task_call,
)
from molecule_core.wire.protocols.a2a_shapes import A2ALine

_log = logging.getLogger("molecule.a2a")
# 30 s more than a follower waits for its agent: what recording takes.
_LEASE_MARGIN_SECONDS = 30
# 30 s: a stream that nothing follows, because another process has the task, is closed.
_KEPT_SECONDS = 30
# 20 s: how often the lease of a task is extended while its stream has events.
_EXTEND_SECONDS = 20
_PAGE_ROWS = 500


class A2ATaskFollower:
    """Follows unfinished tasks at A2A agents."""

    def __init__(
        self,
        store: Store,
        client: A2AClient,
        agents: A2AAgentReader,
        push_claims: PushClaims,
        *,
        clock: Clock,
        limits: Limits,
        jitter: Callable[[int], int],
    ) -> None:
        self._store = store
        self._client = client
        self._agents = agents
        self._push_claims = push_claims
        self._clock = clock
        self._limits = limits
        self._jitter = jitter
        self._kept: dict[str, A2AEvents] = {}
        self._following: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False

    @property
    def following_count(self) -> int:
        """Return the number of tasks that this process looks at now."""
        return len(self._following)

    def adopt_stream(self, key: str, events: A2AEvents) -> None:
        """Hold the stream that a message was sent with until the task is claimed."""
        if self._is_closed:
            events.close()
            return
        self._drop_kept(key)
        self._kept[key] = events

        def close_unused() -> None:
            if self._kept.get(key) is events:
                self._drop_kept(key)

        asyncio.get_running_loop().call_later(_KEPT_SECONDS, close_unused)

    def _drop_kept(self, key: str) -> None:
        if (events := self._kept.pop(key, None)) is not None:
            events.close()

    async def resume(self) -> None:
        """Schedule all open tasks for now; only for a process that uses the store alone: their followers are dead."""
        last = 0
        while rows := await self._store.rows("open_a2a_tasks", {"after": last, "count": _PAGE_ROWS}):
            now = self._clock.now()
            for workspace_id, activity_id, due in rows:
                task = await self._agents.task(workspace_id, activity_id)
                if task is not None and due > now:
                    await self._run(task, partial(self._decide_release, task))
            last = rows[-1][2]

    async def close(self) -> None:
        """Release the tasks that this process looks at."""
        self._is_closed = True
        for each in self._following.values():
            each.cancel()
        await asyncio.gather(*self._following.values(), return_exceptions=True)
        for key in list(self._kept):
            self._drop_kept(key)

    # -- claims --------------------------------------------------------------------------------------------------------

    async def on_due(self, key: str) -> None:
        """Claim a task that is due and look at it."""
        if key in self._following:
            return
        workspace_id, _, activity_id = key.partition("/")
        known = await self._agents.task(workspace_id, activity_id)
        if known is None:
            await self._store.run(Command("", (("a2a task", key),), partial(_cancel, key)))
            return
        claimed = await self._run(known, partial(self._decide_claim, known))
        if claimed is None:
            return
        task = asyncio.get_running_loop().create_task(self._follow(claimed))
        self._following[key] = task
        task.add_done_callback(partial(self._on_done, key))

    def _on_done(self, key: str, task: "asyncio.Task[None]") -> None:
        self._following.pop(key, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a task of an A2A agent could not be looked at; it is tried again", exc_info=error)

    def _decide_claim(self, known: RemoteTask) -> CommandSteps[RemoteTask | None]:
        current = yield from load_task(known.workspace_id, known.activity_id)
        if current is None or current.due == 0 or not current.task_id:
            return _cancel_set(known.key)
        lease_until = self._lease_until()
        claimed = replace(current, claim=current.claim + 1, due=lease_until, leased_until=lease_until)
        return WriteSet(claimed, save_task(claimed), notify=(TIMERS_KEY,))

    def _decide_release(self, task: RemoteTask) -> CommandSteps[None]:
        current = yield from load_task(task.workspace_id, task.activity_id)
        if current is None or current.claim != task.claim or current.due == 0:
            return WriteSet(None)
        released = replace(current, due=self._clock.now(), leased_until=0)
        return WriteSet(None, save_task(released), notify=(TIMERS_KEY,))

    def _decide_extend(self, task: RemoteTask) -> CommandSteps[bool]:
        current = yield from load_task(task.workspace_id, task.activity_id)
        if current is None or current.claim != task.claim:
            return WriteSet(result=False)
        lease_until = self._lease_until()
        extended = replace(current, due=lease_until, leased_until=lease_until)
        return WriteSet(result=True, writes=save_task(extended), notify=(TIMERS_KEY,))

    def _lease_until(self) -> int:
        limits = self._limits
        wait = max(limits.a2a_idle_seconds, limits.a2a_request_seconds)
        return self._clock.now() + (wait + _LEASE_MARGIN_SECONDS) * SECOND

    async def _run(self, task: RemoteTask, decide: Callable[[], CommandSteps[T]]) -> T:
        return await self._store.run(Command(task.org_id, (("a2a task", task.key),), decide))

    # -- following -----------------------------------------------------------------------------------------------------

    async def _follow(self, task: RemoteTask) -> None:
        """Follow a task until it ends, asks, or is to be polled later. A lost claim ends the look."""
        try:
            agent = await self._agents.agent(task.workspace_id)
            if agent is None:
                await self._give_up(task, DeliveryFailure.REFUSED, "its workspace has another agent now")
                return
            try:
                answer = await self._watch(agent, task)
            except UnsafeUrl as error:
                await self._record_failure(task, DeliveryFailure.UNSAFE_URL, str(error.details["reason"]))
            except FetchFailed as error:
                await self._record_failure(task, DeliveryFailure.UNREACHABLE, str(error.details["reason"]))
            else:
                await self._record(task, answer)
        except asyncio.CancelledError:
            await self._run(task, partial(self._decide_release, task))
            raise
        except (StoreUnavailable, ServerBusy):
            _log.warning("the state of a task could not be stored; it is looked at again when its lease ends")

    async def _watch(self, agent: A2AAgent, task: RemoteTask) -> A2AAnswer | PushResult:
        """Return what the agent says of a task: at the end of its stream, or now."""
        events = self._kept.pop(task.key, None)
        is_whole, streamed = events is not None, None
        if events is None and a2a_answers.is_unfinished_state(task.state):
            events = await self._subscribe(agent, task)
        if events is not None:
            try:
                streamed = await self._read_events(task, events)
            finally:
                events.close()
        if is_whole and streamed is not None and streamed.state in FINAL_STATES:
            return streamed
        polled = await self._poll(agent, task)
        # The stored task has all of its content. Only an agent that keeps none has it in the stream alone.
        is_better = isinstance(polled, A2AAnswer) and polled.result is not None
        return polled if is_better or streamed is None or streamed.result is None else streamed

    async def _subscribe(self, agent: A2AAgent, task: RemoteTask) -> A2AEvents | None:
        """Open the stream of a task again; None if there are too many, or the agent refuses: then the task is polled.

        In 0.3 such a stream does not begin with the task, and a2a-sdk 0.3 stores what it sends a second time."""
        card = agent.parsed_card()
        is_usable = card.streaming and card.interface.line is A2ALine.V1
        if not is_usable or len(self._following) > self._limits.a2a_streams:
            return None
        call = task_call(card.interface, A2AOperation.SUBSCRIBE, task.task_id, task.activity_id)
        try:
            events = A2AEvents(await self._client.open_stream(agent, call), max_depth=self._limits.json_depth)
        except FetchFailed:
            return None
        if not events.is_stream:
            events.close()
            return None
        return events

    async def _read_events(self, task: RemoteTask, events: A2AEvents) -> A2AAnswer | None:
        """Read a stream to its end, or until the task ends or asks. A lost stream is no failure: a poll follows."""
        extended_at = self._clock.monotonic()
        answer: A2AAnswer | None = None
        with contextlib.suppress(FetchFailed):
            while (found := await events.next_answer()) is not None:
                if found.error is not None:
                    break
                answer = found
                if answer.is_interrupted or answer.state in FINAL_STATES:
                    break
                if self._clock.monotonic() - extended_at > _EXTEND_SECONDS:
                    if not await self._run(task, partial(self._decide_extend, task)):
                        break
                    extended_at = self._clock.monotonic()
        return answer

    async def _poll(self, agent: A2AAgent, task: RemoteTask) -> A2AAnswer | PushResult:
        call = task_call(agent.parsed_card().interface, A2AOperation.GET, task.task_id, task.activity_id)
        response = await self._client.call(agent, call)
        found = push_policy.classify_response(
            response.status, response.headers, response.body, max_depth=self._limits.json_depth
        )
        return found if found.answer is None else parse_answer(msgspec.json.decode(found.answer))

    async def _record(self, task: RemoteTask, answer: A2AAnswer | PushResult) -> None:
        """Record what the agent says of a task."""
        if isinstance(answer, PushResult):
            await self._record_failure(task, DeliveryFailure.UNREACHABLE, answer.error or "busy")
            return
        if answer.result is None:
            failed = a2a_answers.error_result(answer)
            if answer.code == TASK_NOT_FOUND:
                await self._give_up(task, DeliveryFailure.AGENT_ERROR, f"its server lost the task: {failed.error}")
            else:
                await self._record_failure(task, DeliveryFailure(failed.code), failed.error or "")
            return
        now = self._clock.now()
        if answer.is_unfinished or a2a_answers.is_same_question(task, answer):
            polls = 0 if answer.state != task.state else task.polls + 1
            delay = (
                rules.poll_delay(task, polls, self._limits) if answer.is_unfinished else self._limits.a2a_poll_seconds
            )
            shown = a2a_answers.with_answer(task, answer, now, now + delay * SECOND)
            await self._record_progress(replace(shown, polls=polls))
            return
        due = now + self._limits.a2a_poll_seconds * SECOND if answer.is_interrupted else 0
        shown = a2a_answers.with_answer(task, answer, now, due)
        await self._push_claims.record_followed(task.org_id, shown, answer.as_response(), None)

    async def _record_progress(self, task: RemoteTask) -> None:
        await self._push_claims.record_progress(task.org_id, task)

    async def _record_failure(self, task: RemoteTask, code: DeliveryFailure, reason: str) -> None:
        """Schedule another look at a task whose agent does not answer; after too many, end the work."""
        failures = task.failures + 1
        if failures >= self._limits.delivery_attempts:
            await self._give_up(task, code, f"its task cannot be followed: {reason}")
            return
        now = self._clock.now()
        delay = push_policy.backoff_delay(failures, self._jitter(push_policy.jitter_bits()))
        due = now + round(delay * SECOND)
        await self._record_progress(replace(task, failures=failures, updated_at=now, due=due))

    async def _give_up(self, task: RemoteTask, code: DeliveryFailure, reason: str) -> None:
        ended = replace(task, state="failed", due=0, updated_at=self._clock.now())
        await self._push_claims.record_followed(task.org_id, ended, "{}", (code, reason))


def _cancel_set(key: str) -> WriteSet[None]:
    return WriteSet(None, [cancel_timer(A2A_TASK_TIMER, key)])


def _cancel(key: str) -> CommandSteps[None]:
    yield from ()
    return _cancel_set(key)
