"""How an agent waits for others: subscribe first, then read how they stand, then sleep.

A wait is two lines in the log of who waits, and a deadline in the first of them; so it outlives a request, a
connection and a server. While one server lives, its time is measured by the clock that nobody sets.

Above: the edges. Below: calling, rules; the wake-ups of the store.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from molecule_core.ground import points
from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.errors import InvalidField, MoleculeError
from molecule_core.ground.limits import Limits
from molecule_core.ground.refusals import NoSuchAgent, SourceLost
from molecule_core.store.database import Command, Decision, Read, Several, Step, Store, T, WriteSet
from molecule_core.store.timers import TIMERS, no_timer, timer
from molecule_core.store.wakeups import Look, Wakeups
from molecule_core.threads import rules
from molecule_core.threads.calling import Calls, call_of, heard_by
from molecule_core.threads.model import WAIT, Line, Mail, Thread, thread_key, wait_key
from molecule_core.threads.reader import ThreadReader
from molecule_core.threads.steps import Change
from molecule_core.wire.threadlog import AgentState, Collab, entry_of
from molecule_core.wire.threads import AgentAnswer, AgentCall

# So many waits at once are measured; one that is not asked for again is forgotten once it is over.
_MOST_MEASURED = 10_000
# The two clocks count in different units: by less than so many seconds they do not differ.
_A_MOMENT = 0.001
# Where processes share the store, the timer of a wait may ring by the wall clock of one that does not measure it. Such
# clocks differ by less where anybody looks after them, and who is away for long loses nothing by a minute.
_GRACE_SECONDS = 60.0
_HEARD = "there is new input from the user"
_LEFT = "the turn has ended"
"""Of a wait that no turn's end has ended: those of earlier versions left open what began outside of them."""


class Begun(NamedTuple):
    """A wait that goes on, and since which ordinal; `due`: when it is over by the monotonic clock, if it begins now."""

    call: Collab
    since: int
    due: float | None = None


class Waits:
    """Lets agents wait for each other."""

    def __init__(
        self, store: Store, calls: Calls, reader: ThreadReader, wakeups: Wakeups, *, clock: Clock, limits: Limits
    ) -> None:
        self._store = store
        self._calls = calls
        self._reader = reader
        self._wakeups = wakeups
        self._clock = clock
        self._limits = limits
        self._due: dict[tuple[str, str], float] = {}
        """When waits are over that this process knows of, by the monotonic clock."""
        self.timers = {WAIT: self.on_due}
        """Who is to be called by which timers."""

    async def wait(self, thread: Thread, asked: AgentCall) -> AgentAnswer:
        """How the call stands when it has ended, or after as long as a request is held at most: then it is asked again
        with the same call_id. Raises InvalidField, NoSuchAgent, MayNotTalk, StaleGeneration, SourceLost."""
        begun = await self._begin(thread, asked)
        points.reached("wait.begun")
        call = begun.call
        if call.status == "inProgress":
            self._keep_time(thread, begun, asked)
            seconds = max(0.0, min(self._left(thread, call), self._limits.wait_seconds))
            # control: wait-registers-first
            is_over = await held(self._wakeups, _keys(thread, call), lambda: self._look(thread, begun), seconds)
            is_late = self._left(thread, call) <= 0  # control: wait-deadline
            if is_over or is_late:
                points.reached("wait.over")
                call = await self._end(thread, asked, is_late=is_late)
        if call.status != "inProgress":
            self._due.pop((thread.thread_id, call.call_id), None)
        after = await self._store.rows("thread_reports", {"thread_id": thread.thread_id})
        return AgentAnswer(call=call, after={row[0]: row[1] for row in after if row[0] in call.receiver_thread_ids})

    def _keep_time(self, thread: Thread, begun: Begun, asked: AgentCall) -> None:
        """Measures from now on. Of one that began elsewhere, only its deadline is known, and that by a clock that may
        have been set since: it never lasts longer than was asked for."""
        call, now = begun.call, self._clock.monotonic()
        key = (thread.thread_id, call.call_id)
        if key in self._due:
            return
        if len(self._due) >= _MOST_MEASURED:  # of those that nobody asks for any more
            self._due = {each: due for each, due in self._due.items() if due > now}
        if begun.due is not None:
            self._due[key] = begun.due
            return
        left, time = ((call.deadline or 0) - self._clock.now()) / SECOND, rules.wait_time(asked.timeout, self._limits)
        self._due[key] = now + (left if time is None else min(left, time.seconds))

    def _left(self, thread: Thread, call: Collab) -> float:
        """Seconds until a wait is over whose time is kept; none for one that has ended meanwhile."""
        now = self._clock.monotonic()
        return self._due.get((thread.thread_id, call.call_id), now) - now

    # -- its begin -----------------------------------------------------------------------------------------------------

    async def _begin(self, thread: Thread, asked: AgentCall) -> Begun:
        """The wait as it is in the log; what is asked again is not begun again."""

        def decide() -> Decision[Begun]:
            change, row = yield from self._calls.caller(thread, asked)
            ended = yield from call_of(row, f"end:{asked.call_id}")
            if ended is not None:
                return (yield from self._read(change, row, ended, Begun(ended, ended.since)))
            known = yield from call_of(row, f"begin:{asked.call_id}")
            if known is not None:
                return WriteSet(Begun(known, known.since))
            try:
                begun = yield from self._wished(row, asked)
            except MoleculeError as refusal:
                return self._failed(change, row, asked, refusal)
            change.add(row.thread_id, begun, turn_id=row.turn_id, key=f"begin:{asked.call_id}")
            seconds = ((begun.deadline or 0) - change.now) / SECOND
            return change.written(Begun(begun, begun.since, self._clock.monotonic() + seconds))

        return await self._store.run(Command(thread.org_id, (), decide, alone=True))

    def _wished(self, row: Thread, asked: AgentCall) -> Generator[Step, Any, Collab]:
        """What is waited for, and how long."""
        names = list(dict.fromkeys([*(asked.targets or ()), *([asked.target] if asked.target else ())]))
        if not names:
            raise InvalidField(reason="targets is empty; name the agents to wait for")
        if len(names) > self._limits.thread_targets:
            raise InvalidField(reason=f"at most {self._limits.thread_targets} targets are taken")
        time = rules.wait_time(asked.timeout, self._limits)
        if time is None:
            raise InvalidField(reason="timeout must be more than 0 seconds")
        states, targets = list[AgentState](), list[Thread]()
        for name in names:
            found = yield from self._calls.find(row, name)
            if found is not None and found.thread_id == row.thread_id:
                raise InvalidField(reason="a thread cannot wait for itself")
            states.append(_unknown(name) if found is None else rules.state_of(found))
            targets += [] if found is None else [found]
        if len(states) == 1 and not targets:
            raise NoSuchAgent(target=names[0])
        return Collab(
            call_id=asked.call_id,
            tool="wait",
            status="inProgress",
            sender_thread_id=row.thread_id,
            receiver_thread_ids=list(dict.fromkeys(each.thread_id for each in states)),
            agents=rules.told(states, (yield from heard_by(row, targets))),
            mode=asked.mode,
            after=asked.after,
            clamped=time.clamped,
            deadline=self._clock.now() + round(time.seconds * SECOND),
            since=row.seen if row.turn_id is not None and row.seen > 0 else row.last_ordinal,
        )

    def _failed(self, change: Change, row: Thread, asked: AgentCall, refusal: MoleculeError) -> WriteSet[Begun]:
        begun = self._calls.begin(change, row, "wait", asked)
        ended = replace(begun, status="failed", reason=refusal.text)
        change.add(row.thread_id, ended, turn_id=row.turn_id, key=f"end:{asked.call_id}")
        return change.written(Begun(ended, row.last_ordinal), refusal=refusal)

    # -- while it lasts ------------------------------------------------------------------------------------------------

    async def _look(self, thread: Thread, begun: Begun) -> Look[bool]:
        """Whether it is over."""
        call = begun.call
        rows = {
            each.thread_id: each for each in await self._reader.all_of([thread.thread_id, *call.receiver_thread_ids])
        }
        own = rows.get(thread.thread_id)
        if own is None or call.call_id not in own.waiting or own.heard > begun.since:  # control: user-word-ends-wait
            return Look(found=True)
        after = call.after
        if after is None:
            told = await self._store.rows("thread_reports", {"thread_id": thread.thread_id})
            after = {row[0]: row[1] for row in told}
        if _waited(call, rows, after).over:
            return Look(found=True)
        return Look(None, again_in=max(0.0, self._left(thread, call)))

    # -- its end -------------------------------------------------------------------------------------------------------

    async def _end(self, thread: Thread, asked: AgentCall, *, is_late: bool, is_asked: bool = True) -> Collab:
        """Its end, from how all of them stand in this moment; or its begin, if it goes on after all. Not `is_asked`: by
        its timer. Nobody reads it then, so the ends that it tells are not told by it, until somebody does."""

        def decide() -> Decision[Collab]:
            change, row = yield from self._calls.caller(thread, asked)
            ended = yield from call_of(row, f"end:{asked.call_id}")
            begun = yield from call_of(row, f"begin:{asked.call_id}")
            if ended is not None and is_asked:
                return (yield from self._read(change, row, ended, ended))
            if ended is not None or begun is None:
                return WriteSet(ended or _gone(row, asked), [no_timer(WAIT, wait_key(row, asked.call_id))])
            rows = dict[str, Thread]()
            for each in begun.receiver_thread_ids:
                found = yield Read("thread", {"thread_id": each})
                rows |= {each: Thread.of(found[0])} if found else {}
            told = yield Read("thread_reports", {"thread_id": row.thread_id})
            after = {each[0]: each[1] for each in told} if begun.after is None else begun.after
            states = _waited(begun, rows, after)
            is_heard, is_left = row.heard > begun.since, begun.call_id not in row.waiting
            if not (states.over or is_late or is_heard or is_left):
                return WriteSet(begun)
            why = None if states.over else _HEARD if is_heard else None if is_late else _LEFT
            over = self._over(begun, rows, states.states, is_late=is_late and not states.over, why=why)
            over = replace(over, agents=rules.told(over.agents, (yield from heard_by(row, rows.values()))))
            news = {each.thread_id: rows[each.thread_id].ends for each in states.states if each.thread_id in rows}
            if is_asked:
                yield from self._reported(change, row, rows, news)
            else:
                over = replace(over, unread=news or None)
            change.add(row.thread_id, over, turn_id=row.turn_id, key=f"end:{asked.call_id}")
            lost = _lost(over)
            # control: source-lost-error
            refusal = None if lost is None else SourceLost(target=lost.thread_id, outcome=lost.outcome)
            return change.written(over, refusal=refusal)

        return await self._store.run(Command(thread.org_id, (), decide, alone=True))

    async def on_due(self, key: str) -> None:
        """The time of a wait is over, and perhaps nobody asks for it any more: it gets its end. One whose time is kept
        by another clock, here or in another process, is looked at again when that is over."""
        org_id, thread_id, call_id = key.split("/", 2)
        thread = await self._reader.find(thread_id)
        left = 0.0 if thread is None else await self._kept(thread, call_id)
        if thread is None or left > _A_MOMENT:
            later = None if thread is None else self._clock.now() + round(left * SECOND)
            return await self._store.run(Command(org_id, (), partial(_put_off, key, later)))
        with suppress(SourceLost):
            await self._end(thread, AgentCall(call_id=call_id), is_late=True, is_asked=False)
        self._due.pop((thread_id, call_id), None)
        return None

    async def _kept(self, thread: Thread, call_id: str) -> float:
        """Seconds until a wait is not left to who measures it any more."""
        due = self._due.get((thread.thread_id, call_id))
        if due is not None:
            return due - self._clock.monotonic()
        if not self._store.shared or call_id not in thread.waiting:
            return 0.0
        rows = await self._store.rows("thread_entry_by_key", {"thread_id": thread.thread_id, "key": f"begin:{call_id}"})
        begun = entry_of(Line(*rows[0]).body) if rows else None
        deadline = begun.deadline if isinstance(begun, Collab) else None
        return 0.0 if deadline is None else (deadline - self._clock.now()) / SECOND + _GRACE_SECONDS

    def _over(
        self,
        begun: Collab,
        rows: Mapping[str, Thread],
        ended: Sequence[AgentState],
        *,
        is_late: bool,
        why: str | None,
    ) -> Collab:
        """The second line: how each target stands. `why`: it was interrupted."""
        by_id = {each.thread_id: each for each in ended}
        open_outcome = "timed_out" if is_late and why is None else None
        agents = [
            by_id.get(each) or rules.state_of(rows[each], open_outcome)  # type: ignore[arg-type]
            for each in begun.receiver_thread_ids
        ]
        is_lost = len(agents) == 1 and agents[0].outcome == "source_lost"
        done = replace(begun, agents=agents, timed_out=open_outcome is not None, deadline=None, since=0)
        if is_lost:
            return replace(done, status="failed", reason="the agent that was waited for is not there any more")
        if why is not None:
            return replace(done, status="interrupted", reason=why)
        return replace(done, status="completed")

    def _read(self, change: Change, row: Thread, ended: Collab, answer: T) -> Generator[Step, Any, WriteSet[T]]:
        """The answer to who reads an end. What its timer has written in it is told now, unless it was told since."""
        if ended.unread is None:
            return WriteSet(answer)
        known = {each[0]: each[1] for each in (yield Read("thread_reports", {"thread_id": row.thread_id}))}
        news = {each: ends for each, ends in ended.unread.items() if ends > known.get(each, 0)}
        if not news:
            return WriteSet(answer)
        found = yield Several([Read("thread", {"thread_id": each}) for each in news])
        rows = {each.thread_id: each for each in (Thread.of(rows[0]) for rows in found if rows)}
        yield from self._reported(change, row, rows, news)
        return change.written(answer)

    def _reported(
        self, change: Change, row: Thread, rows: Mapping[str, Thread], news: Mapping[str, int]
    ) -> Generator[Step, Any, None]:
        """Ends that are told here, each by its number, do not come again, neither in a wait nor as mail. A letter of
        another end than the last one says what nobody was shown: it stays."""
        for name, ends in news.items():
            report = {"target_id": name, "ends": ends}
            change.write("keep_thread_report", {"thread_id": row.thread_id, **report})  # control: thread-report
        told = {name: rows[name] for name, ends in news.items() if name in rows and rows[name].ends == ends}
        waiting = yield Read("thread_mail_waiting", {"receiver_id": row.thread_id})
        said = [*rules.last_ends(map(Mail.of, waiting), told).values()]
        for mail in said:
            change.stamp(mail, "delivered", row.turn_id)
        if any(mail.wakes for mail in said):
            yield from self._passed_on(change, row, frozenset(mail.mail_id for mail in said))

    def _passed_on(self, change: Change, row: Thread, said: frozenset[str]) -> Generator[Step, Any, None]:
        """The letter that was to wake was said here: the digests that it was to bring wake instead, unless another end
        is to come that brings them."""
        if (yield Read("thread_turns_asked", {"requester_id": row.thread_id})):
            return
        for (mail_id,) in (yield Read("thread_digests_waiting", {"receiver_id": row.thread_id})):
            if mail_id not in said:
                change.write("wake_by_thread_mail", {"mail_id": mail_id})


async def held(
    wakeups: Wakeups, keys: Sequence[str], look: Callable[[], Awaitable[Look[bool]]], seconds: float
) -> bool:
    """Whether a wait was over within these seconds. Registers with all keys before the first look."""
    found: bool | None = await wakeups.until_any(keys, look, seconds)
    return found is not None


def _put_off(key: str, due: int | None) -> Decision[None]:
    """A timer goes off later, or never."""
    yield from ()
    if due is None:
        return WriteSet(None, [no_timer(WAIT, key)])
    return WriteSet(None, [timer(WAIT, key, due)], rings=(TIMERS,))


def _keys(thread: Thread, call: Collab) -> list[str]:
    return [thread_key(each) for each in (thread.thread_id, *call.receiver_thread_ids)]  # control: wait-keys


def _waited(call: Collab, rows: Mapping[str, Thread], after: Mapping[str, int]) -> rules.Waited:
    known = frozenset(each.thread_id for each in call.agents if each.outcome is None)
    return rules.waited(call.receiver_thread_ids, rows, known, after, call.mode or "any")


def _unknown(name: str) -> AgentState:
    return AgentState(thread_id=name, path=name, nickname="", role=None, status="not_found", outcome="unknown")


def _lost(call: Collab) -> AgentState | None:
    return call.agents[0] if call.status == "failed" and len(call.agents) == 1 else None


def _gone(row: Thread, asked: AgentCall) -> Collab:
    """Retention has taken its begin."""
    why = "this wait is not known any more"
    return Collab(call_id=asked.call_id, tool="wait", status="failed", sender_thread_id=row.thread_id, reason=why)
