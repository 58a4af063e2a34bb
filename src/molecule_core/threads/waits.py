"""Waits of agents for each other: register, then read the current state, then sleep.

A wait is two entries in the caller's log, and the first contains its deadline, so it survives requests, connections and
servers. While a server runs, it measures the wait by the monotonic clock.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from molecule_core.common import crash_points
from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import InvalidField, MoleculeError
from molecule_core.common.limits import Limits
from molecule_core.store.database import (
    Command,
    CommandSteps,
    ReadQuery,
    RequestBatch,
    StepRequest,
    Store,
    T,
    WriteSet,
    write_only,
)
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.threads import rules
from molecule_core.threads.collab_calls import CollabCalls, load_call, readable_by_caller
from molecule_core.threads.errors import AgentNotFound, WaitTargetGone
from molecule_core.threads.model import WAIT_TIMER, LogEntryRow, Mail, Thread, thread_wake_key, wait_timer_key
from molecule_core.threads.reader import ThreadReader
from molecule_core.threads.unit_of_work import ThreadUnitOfWork
from molecule_core.wire.schemas.thread_log import AgentState, CollabCallEntry, decode_entry
from molecule_core.wire.schemas.threads import AgentCallBody, AgentCallResponse

# Bound on the waits that are timed; an abandoned one is dropped once it is over.
_MAX_TIMED_WAITS = 10_000
# Differences below this are rounding: the two clocks have different units.
_CLOCK_TOLERANCE_SECONDS = 0.001
# Where processes share the store, the timer may fire by the wall clock of one that does not time the wait. Clocks
# differ by less than this where they are synchronised, and a minute costs an absent caller nothing.
_GRACE_SECONDS = 60.0
_USER_INPUT = "the user sent new input"
_NONE_AT_WORK = (
    "none of these agents is at work; their ends were reported before. Use followup_task to give a new task."
)
_TURN_ENDED = "the turn has ended"
"""The reason for a wait that no turn's end has closed. Earlier versions left waits open that began outside of turns."""


class PendingWait(NamedTuple):
    """A pending wait, and the ordinal since which new input ends it.

    `ends_at`: its end by the monotonic clock, if it begins now."""

    call: CollabCallEntry
    since: int
    ends_at: float | None = None


class AgentWaits:
    """Waits of agents for each other."""

    def __init__(
        self, store: Store, calls: CollabCalls, reader: ThreadReader, wakeups: Notifier, *, clock: Clock, limits: Limits
    ) -> None:
        self._store = store
        self._calls = calls
        self._reader = reader
        self._wakeups = wakeups
        self._clock = clock
        self._limits = limits
        self._ends_at: dict[tuple[str, str], float] = {}
        """Ends of the waits that this process times, by the monotonic clock."""
        self.timers = {WAIT_TIMER: self.on_due}
        """Timer handlers by kind."""

    async def wait_for_agents(self, thread: Thread, request: AgentCallBody) -> AgentCallResponse:
        """Wait for agents; return the ended call, or the pending one once a request has been held for the longest time.

        The caller then repeats the request with the same call_id. Raises InvalidField, AgentNotFound,
        CommunicationDenied, StaleGeneration, WaitTargetGone."""
        pending = await self._begin_wait(thread, request)
        crash_points.mark_reached("wait.begun")
        call = pending.call
        if call.status == "inProgress":
            self._start_timing(thread, pending, request)
            seconds = max(0.0, min(self._seconds_left(thread, call), self._limits.wait_seconds))
            # control: wait-registers-first
            is_over = await is_over_within(
                self._wakeups, _wake_keys(thread, call), lambda: self._poll_wait(thread, pending), seconds
            )
            is_late = self._seconds_left(thread, call) <= 0  # control: wait-deadline
            if is_over or is_late:
                crash_points.mark_reached("wait.over")
                call = await self._end_wait(thread, request, is_late=is_late)
        if call.status != "inProgress":
            self._ends_at.pop((thread.thread_id, call.call_id), None)
        after = await self._store.rows("thread_reports", {"thread_id": thread.thread_id})
        return AgentCallResponse(
            call=call, after={row[0]: row[1] for row in after if row[0] in call.receiver_thread_ids}
        )

    def _start_timing(self, thread: Thread, pending: PendingWait, request: AgentCallBody) -> None:
        """Time a wait from now on.

        Of a wait that began elsewhere, only the deadline is known, by a wall clock that may have been set since. So it
        lasts at most as long as its timeout."""
        call, now = pending.call, self._clock.monotonic()
        key = (thread.thread_id, call.call_id)
        if key in self._ends_at:
            return
        if len(self._ends_at) >= _MAX_TIMED_WAITS:  # drop the ends of abandoned waits
            self._ends_at = {each: due for each, due in self._ends_at.items() if due > now}
        if pending.ends_at is not None:
            self._ends_at[key] = pending.ends_at
            return
        left, timeout = (
            ((call.deadline or 0) - self._clock.now()) / SECOND,
            rules.resolve_wait_timeout(request.timeout, self._limits),
        )
        self._ends_at[key] = now + (left if timeout is None else min(left, timeout.seconds))

    def _seconds_left(self, thread: Thread, call: CollabCallEntry) -> float:
        """Return the seconds until a timed wait is over; 0 for one that has ended meanwhile."""
        now = self._clock.monotonic()
        return self._ends_at.get((thread.thread_id, call.call_id), now) - now

    # -- begin ---------------------------------------------------------------------------------------------------------

    async def _begin_wait(self, thread: Thread, request: AgentCallBody) -> PendingWait:
        """Begin a wait, or return the one in the log."""

        def decide() -> CommandSteps[PendingWait]:
            uow, row = yield from self._calls.load_caller(thread, request)
            ended = yield from load_call(row, f"end:{request.call_id}")
            if ended is not None:
                return (yield from self._read_end(uow, row, ended, PendingWait(ended, ended.since)))
            known = yield from load_call(row, f"begin:{request.call_id}")
            if known is not None:
                return WriteSet(PendingWait(known, known.since))
            try:
                pending = yield from self._build_wait(row, request)
            except MoleculeError as error:
                return self._reject_wait(uow, row, request, error)
            uow.append_entry(row.thread_id, pending, turn_id=row.turn_id, key=f"begin:{request.call_id}")
            seconds = ((pending.deadline or 0) - uow.now) / SECOND
            return uow.to_write_set(PendingWait(pending, pending.since, self._clock.monotonic() + seconds))

        return await self._store.run(Command(thread.org_id, (), decide, exclusive=True))

    def _build_wait(self, row: Thread, request: AgentCallBody) -> Generator[StepRequest, Any, CollabCallEntry]:
        """Build the begin entry: targets and deadline."""
        names = list(dict.fromkeys([*(request.targets or ()), *([request.target] if request.target else ())]))
        if not names:
            raise InvalidField(reason="targets cannot be empty. Add the agents to wait for.")
        if len(names) > self._limits.thread_targets:
            raise InvalidField(
                reason=f"a wait cannot have {len(names)} targets. Use at most {self._limits.thread_targets}."
            )
        timeout = rules.resolve_wait_timeout(request.timeout, self._limits)
        if timeout is None:
            raise InvalidField(reason=f"timeout cannot be {request.timeout}. Use more than 0 seconds.")
        states, targets = list[AgentState](), list[Thread]()
        for name in names:
            found = yield from self._calls.find_target(row, name)
            if found is not None and found.thread_id == row.thread_id:
                raise InvalidField(reason="a thread cannot wait for itself. Use other agents as targets.")
            states.append(_unknown_agent(name) if found is None else rules.agent_state(found))
            targets += [] if found is None else [found]
        if len(states) == 1 and not targets:
            raise AgentNotFound(target=names[0])
        return CollabCallEntry(
            call_id=request.call_id,
            tool="wait",
            status="inProgress",
            sender_thread_id=row.thread_id,
            receiver_thread_ids=list(dict.fromkeys(each.thread_id for each in states)),
            agents=rules.redact_messages(states, (yield from readable_by_caller(row, targets))),
            mode=request.mode,
            after=request.after,
            clamped=timeout.clamped,
            deadline=self._clock.now() + round(timeout.seconds * SECOND),
            since=row.seen if row.turn_id is not None and row.seen > 0 else row.last_ordinal,
        )

    def _reject_wait(
        self, uow: ThreadUnitOfWork, row: Thread, request: AgentCallBody, error: MoleculeError
    ) -> WriteSet[PendingWait]:
        pending = self._calls.append_begin(uow, row, "wait", request)
        ended = replace(pending, status="failed", reason=error.text)
        uow.append_entry(row.thread_id, ended, turn_id=row.turn_id, key=f"end:{request.call_id}")
        return uow.to_write_set(PendingWait(ended, row.last_ordinal), error=error)

    # -- polling -------------------------------------------------------------------------------------------------------

    async def _poll_wait(self, thread: Thread, pending: PendingWait) -> Poll[bool]:
        """Return whether the wait is over."""
        call = pending.call
        rows = {
            each.thread_id: each
            for each in await self._reader.find_threads([thread.thread_id, *call.receiver_thread_ids])
        }
        own = rows.get(thread.thread_id)
        if (
            own is None or call.call_id not in own.wait_call_ids or own.heard > pending.since
        ):  # control: user-word-ends-wait
            return Poll(result=True)
        after = call.after
        if after is None:
            reports = await self._store.rows("thread_reports", {"thread_id": thread.thread_id})
            after = {row[0]: row[1] for row in reports}
        if _evaluate(call, rows, after).is_over:
            return Poll(result=True)
        return Poll(None, next_poll_in=max(0.0, self._seconds_left(thread, call)))

    # -- end -----------------------------------------------------------------------------------------------------------

    async def _end_wait(
        self, thread: Thread, request: AgentCallBody, *, is_late: bool, is_requested: bool = True
    ) -> CollabCallEntry:
        """End a wait by the current states of its targets; return the pending call if it is not over after all.

        Without `is_requested` (its timer fired), its caller does not read the end, so the ends in it count as unread
        until it does."""

        def decide() -> CommandSteps[CollabCallEntry]:
            uow, row = yield from self._calls.load_caller(thread, request)
            ended = yield from load_call(row, f"end:{request.call_id}")
            pending = yield from load_call(row, f"begin:{request.call_id}")
            if ended is not None and is_requested:
                return (yield from self._read_end(uow, row, ended, ended))
            if ended is not None or pending is None:
                return WriteSet(
                    ended or _forgotten_wait(row, request),
                    [cancel_timer(WAIT_TIMER, wait_timer_key(row, request.call_id))],
                )
            rows = dict[str, Thread]()
            for each in pending.receiver_thread_ids:
                found = yield ReadQuery("thread", {"thread_id": each})
                rows |= {each: Thread.from_row(found[0])} if found else {}
            reports = yield ReadQuery("thread_reports", {"thread_id": row.thread_id})
            after = {each[0]: each[1] for each in reports} if pending.after is None else pending.after
            evaluation = _evaluate(pending, rows, after)
            has_new_input, is_abandoned = row.heard > pending.since, pending.call_id not in row.wait_call_ids
            if not (evaluation.is_over or is_late or has_new_input or is_abandoned):
                return WriteSet(pending)
            reason = None if evaluation.is_over else _USER_INPUT if has_new_input else None if is_late else _TURN_ENDED
            ended_call = self._ended_call(
                pending, rows, evaluation.states, is_late=is_late and not evaluation.is_over, reason=reason
            )
            ended_call = replace(
                ended_call,
                reason=_NONE_AT_WORK if evaluation.is_idle else ended_call.reason,
                agents=rules.redact_messages(ended_call.agents, (yield from readable_by_caller(row, rows.values()))),
            )
            new_ends = {
                each.thread_id: rows[each.thread_id].ends for each in evaluation.states if each.thread_id in rows
            }
            if is_requested:
                yield from self._mark_ends_reported(uow, row, rows, new_ends)
            else:
                ended_call = replace(ended_call, unread=new_ends or None)
            uow.append_entry(row.thread_id, ended_call, turn_id=row.turn_id, key=f"end:{request.call_id}")
            lost = _lost_agent(ended_call)
            # control: source-lost-error
            error = None if lost is None else WaitTargetGone(target=lost.thread_id, outcome=lost.outcome)
            return uow.to_write_set(ended_call, error=error)

        return await self._store.run(Command(thread.org_id, (), decide, exclusive=True))

    async def on_due(self, key: str) -> None:
        """End a wait whose timer fired; the caller may have abandoned it.

        If this or another process still times it by another clock, check again when that time is over."""
        org_id, thread_id, call_id = key.split("/", 2)
        thread = await self._reader.find_thread(thread_id)
        left = 0.0 if thread is None else await self._timed_seconds_left(thread, call_id)
        if thread is None or left > _CLOCK_TOLERANCE_SECONDS:
            later = None if thread is None else self._clock.now() + round(left * SECOND)
            return await self._store.run(Command(org_id, (), partial(write_only, _reschedule(key, later))))
        with suppress(WaitTargetGone):
            await self._end_wait(thread, AgentCallBody(call_id=call_id), is_late=True, is_requested=False)
        self._ends_at.pop((thread_id, call_id), None)
        return None

    async def _timed_seconds_left(self, thread: Thread, call_id: str) -> float:
        """Return the seconds until the timer may end a wait that is timed here or elsewhere."""
        due = self._ends_at.get((thread.thread_id, call_id))
        if due is not None:
            return due - self._clock.monotonic()
        if not self._store.is_shared or call_id not in thread.wait_call_ids:
            return 0.0
        rows = await self._store.rows("thread_entry_by_key", {"thread_id": thread.thread_id, "key": f"begin:{call_id}"})
        pending = decode_entry(LogEntryRow(*rows[0]).body) if rows else None
        deadline = pending.deadline if isinstance(pending, CollabCallEntry) else None
        return 0.0 if deadline is None else (deadline - self._clock.now()) / SECOND + _GRACE_SECONDS

    def _ended_call(
        self,
        pending: CollabCallEntry,
        rows: Mapping[str, Thread],
        ended: Sequence[AgentState],
        *,
        is_late: bool,
        reason: str | None,
    ) -> CollabCallEntry:
        """Build the end entry with the state of each target. `reason`: why it was interrupted."""
        by_id = {each.thread_id: each for each in ended}
        open_outcome = "timed_out" if is_late and reason is None else None
        agents = [
            by_id.get(each) or rules.agent_state(rows[each], open_outcome)  # type: ignore[arg-type]
            for each in pending.receiver_thread_ids
        ]
        is_lost = len(agents) == 1 and agents[0].outcome == "source_lost"
        done = replace(pending, agents=agents, timed_out=open_outcome is not None, deadline=None, since=0)
        if is_lost:
            return replace(done, status="failed", reason="the agent that was waited for no longer exists")
        if reason is not None:
            return replace(done, status="interrupted", reason=reason)
        return replace(done, status="completed")

    def _read_end(
        self, uow: ThreadUnitOfWork, row: Thread, ended: CollabCallEntry, result: T
    ) -> Generator[StepRequest, Any, WriteSet[T]]:
        """Return the end to its reader, and mark ends that its timer left unread as reported."""
        if ended.unread is None:
            return WriteSet(result)
        known = {each[0]: each[1] for each in (yield ReadQuery("thread_reports", {"thread_id": row.thread_id}))}
        new_ends = {each: ends for each, ends in ended.unread.items() if ends > known.get(each, 0)}
        if not new_ends:
            return WriteSet(result)
        found = yield RequestBatch([ReadQuery("thread", {"thread_id": each}) for each in new_ends])
        rows = {each.thread_id: each for each in (Thread.from_row(rows[0]) for rows in found if rows)}
        yield from self._mark_ends_reported(uow, row, rows, new_ends)
        return uow.to_write_set(result)

    def _mark_ends_reported(
        self, uow: ThreadUnitOfWork, row: Thread, rows: Mapping[str, Thread], new_ends: Mapping[str, int]
    ) -> Generator[StepRequest, Any, None]:
        """Mark ends, by number, as reported, so that they come again neither in a wait nor as mail.

        Mail about another end than the last one stays, because no reader has seen it."""
        for name, ends in new_ends.items():
            report = {"target_id": name, "ends": ends}
            uow.write("keep_thread_report", {"thread_id": row.thread_id, **report})  # control: thread-report
        current_ends = {name: rows[name] for name, ends in new_ends.items() if name in rows and rows[name].ends == ends}
        waiting = yield ReadQuery("thread_mail_waiting", {"receiver_id": row.thread_id})
        reported_mail = [*rules.latest_final_mail(map(Mail.from_row, waiting), current_ends).values()]
        for mail in reported_mail:
            uow.set_mail_state(mail, "delivered", row.turn_id)
        if any(mail.wakes for mail in reported_mail):
            yield from self._wake_by_digests(uow, row, frozenset(mail.mail_id for mail in reported_mail))

    def _wake_by_digests(
        self, uow: ThreadUnitOfWork, row: Thread, reported_ids: frozenset[str]
    ) -> Generator[StepRequest, Any, None]:
        """Wake the thread by its waiting digests, because the mail that would have brought them was reported here.

        Not if another end is still to come, which brings them."""
        if (yield ReadQuery("open_turns_requested", {"requester_id": row.thread_id})):
            return
        for (mail_id,) in (yield ReadQuery("thread_digests_waiting", {"receiver_id": row.thread_id})):
            if mail_id not in reported_ids:
                uow.write("wake_by_thread_mail", {"mail_id": mail_id})


async def is_over_within(
    wakeups: Notifier, keys: Sequence[str], poll: Callable[[], Awaitable[Poll[bool]]], seconds: float
) -> bool:
    """Return whether a wait was over within `seconds`. Registers all keys before the first poll."""
    found: bool | None = await wakeups.wait_until_any(keys, poll, seconds)
    return found is not None


def _reschedule(key: str, due: int | None) -> WriteSet[None]:
    """Set a timer to a later time, or cancel it."""
    if due is None:
        return WriteSet(None, [cancel_timer(WAIT_TIMER, key)])
    return WriteSet(None, [set_timer(WAIT_TIMER, key, due)], notify=(TIMERS_KEY,))


def _wake_keys(thread: Thread, call: CollabCallEntry) -> list[str]:
    return [thread_wake_key(each) for each in (thread.thread_id, *call.receiver_thread_ids)]  # control: wait-keys


def _evaluate(call: CollabCallEntry, rows: Mapping[str, Thread], after: Mapping[str, int]) -> rules.WaitEvaluation:
    known = frozenset(each.thread_id for each in call.agents if each.outcome is None)
    return rules.evaluate_wait(call.receiver_thread_ids, rows, known, after, call.mode or "any")


def _unknown_agent(name: str) -> AgentState:
    return AgentState(thread_id=name, path=name, nickname="", role=None, status="not_found", outcome="unknown")


def _lost_agent(call: CollabCallEntry) -> AgentState | None:
    return call.agents[0] if call.status == "failed" and len(call.agents) == 1 else None


def _forgotten_wait(row: Thread, request: AgentCallBody) -> CollabCallEntry:
    """Return a failed call for a wait whose begin entry retention has deleted."""
    reason = "this wait is no longer known"
    return CollabCallEntry(
        call_id=request.call_id, tool="wait", status="failed", sender_thread_id=row.thread_id, reason=reason
    )
