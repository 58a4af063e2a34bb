"""When an answer is owed, and when not any more: opens obligations where messages are handed over, and ends them.

One for all hands of this slice, since it knows what they share: what is told with a message, of which workspaces a
timer stands in the store, and who counts what became of obligations. Above: those hands. Below: obligations, telling.
"""

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from molecule_core.ground.base_error import MoleculeError, refuse
from molecule_core.ground.clock import SECOND, Clock, rfc3339
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import plain_line
from molecule_core.messages import rules
from molecule_core.messages.facts import Handed
from molecule_core.messages.model import (
    ACK,
    ANSWERED,
    DECLINED,
    KIND_ASKED,
    KIND_DELEGATION,
    OUTSIDE,
    OVERDUE,
    REQUEST,
    Shown,
)
from molecule_core.messages.obligations import (
    SILENCE,
    Answers,
    Asked,
    Facts,
    Obligation,
    drafted,
    due_at,
    event_of,
    missed,
    named_in,
    obligation_at,
    owed_to,
    reminded,
    unopened,
)
from molecule_core.messages.telling import Telling, Told, Wish
from molecule_core.messages.ticks import Statement, ticked_one
from molecule_core.org.model import Workspace
from molecule_core.store.database import Command, Read, Several, Step, Store, T
from molecule_core.store.timers import TIMERS, timer, timer_at_latest
from molecule_core.wire.events import MessageOverdue

# A timer that is due so soon may have gone off in another process, whose clock is a little ahead.
_TIMER_MARGIN = 5 * SECOND
_UNWATCHED = (KIND_DELEGATION, KIND_ASKED)
_UNTOLD: dict[str, object] = dict.fromkeys(("template_org", "template", "version", "form", "tokens"))


class Opened(NamedTuple):
    """What a command writes to open obligations, whom it wakes, and what it remembers after its commit."""

    writes: list[Statement]
    rings: tuple[str, ...] = ()
    then: Callable[[], None] | None = None
    facts: tuple[object, ...] = ()


_NOTHING = Opened([])
Came = Callable[[Obligation, str], tuple[list[Statement], tuple[str, ...]]]
"""Who counts outcomes: what it writes with one, and whom it wakes."""


def _uncounted(_owed: Obligation, _outcome: str) -> tuple[list[Statement], tuple[str, ...]]:
    return [], ()


class NotAlone(Exception):
    """A command that answers something must not share its group with others that may."""


class Owing:
    """Opens and ends obligations. `telling`: None where agents are told nothing; `shared`: other processes use the
    store too. `came` is asked when an obligation gets its first outcome: answered, declined, answered_outside or
    overdue."""

    def __init__(self, clock: Clock, limits: Limits, telling: Telling | None = None, *, shared: bool = False) -> None:
        self._clock = clock
        self._limits = limits
        self._shared = shared
        self.telling = telling
        self.came: Came = _uncounted
        self._watched: dict[str, tuple[int, float]] = {}
        self._conversations: set[tuple[str, str | None]] = set()

    # -- opening -------------------------------------------------------------------------------------------------------

    def handed_over(
        self, seat: Workspace, rows: list[Shown], now: int, wish: Wish | None, *, pushed: bool = False
    ) -> Generator[Step, Any, tuple[list[Shown], Opened]]:
        """These rows are handed over: with what is said with them (nothing without a `wish`), and what is owed then."""
        if self.telling is None:
            return rows, self.opened(seat, rows, now, pushed=pushed)
        kept, said = list[Statement](), dict[int, Told]()
        again = yield from reminded(seat.id, rows)
        if wish is not None:
            rows, kept, said = yield from self.telling.along(seat, rows, now, wish, again)
        if again:
            rows = [replace(row, reminder=row.id in again) for row in rows]
        owed = self.opened(seat, rows, now, said, pushed=pushed)
        return rows, owed._replace(writes=[*kept, *owed.writes])

    def opened(
        self,
        seat: Workspace,
        rows: Sequence[Shown],
        now: int,
        said: Mapping[int, Told] | None = None,
        *,
        pushed: bool = False,
    ) -> Opened:
        """These rows are handed over now; `said` by their number, what was told with each. `pushed`: the server sends
        them. A delegation and an approval have deadlines of their own: nobody watches for the answer to them."""
        wanting = [row for row in rows if row.intent == REQUEST]
        if not wanting:
            return _NOTHING
        due = due_at(seat, self._limits, now)
        writes = [_opens(seat, row, now, due, said) for row in wanting]
        delegations = tuple((row.id, row.attempt or 1) for row in wanting if row.kind == KIND_DELEGATION)
        watched = due if any(row.kind not in _UNWATCHED for row in wanting) else None
        owed = self._watching(seat.id, writes, watched, now, {row.source_id for row in wanting})
        return owed._replace(facts=(Handed(seat.id, delegations, pushed, now),)) if delegations else owed

    def passed(self, seat: Workspace, stretches: Sequence[tuple[int, int]], now: int) -> Opened:
        """A reader has had all of these stretches, each behind one number and up to another, without claiming it."""
        if not stretches:
            return _NOTHING
        due = due_at(seat, self._limits, now)
        common = {"workspace_id": seat.id, "now": now, "due_at": due}
        writes: list[Statement] = [("open_passed", {**common, "floor": floor, "seq": seq}) for floor, seq in stretches]
        return self._watching(seat.id, writes, due, now)

    def taken(
        self, seat: Workspace, stretches: Sequence[tuple[int, int]], now: int
    ) -> Generator[Step, Any, tuple[Handed, ...]]:
        """What rises of delegations in such stretches: who has passed one has it, if nobody had it in hand."""
        if not stretches:
            return ()
        common = {"workspace_id": seat.id, "now": now}
        found = yield Several(
            [
                Read("delegations_passed", {**common, "floor": floor, "seq": seq})
                for floor, seq in rules.joined(stretches)
            ]
        )
        had = [tuple(row) for rows in found for row in rows]
        return (Handed(seat.id, tuple(had), False, now),) if had else ()

    def _watching(
        self, workspace_id: str, writes: list[Statement], due: int | None, now: int, sources: Iterable[str | None] = ()
    ) -> Opened:
        def remember() -> None:
            self._conversations.update((workspace_id, each) for each in sources)
            if timed and due is not None:
                # By the clock that does not jump: a timer may not be thought to stand for longer than it takes.
                self._watched[workspace_id] = (due, self._clock.monotonic() + (due - now) / SECOND)

        timed = due is not None and not self._is_watched(workspace_id, due, now)
        if due is None or not timed:
            return Opened(writes, (), remember)
        return Opened([*writes, timer_at_latest(SILENCE, workspace_id, due)], (TIMERS,), remember)

    def _is_watched(self, workspace_id: str, due: int, now: int) -> bool:
        """Whether a timer surely stands in the store that goes off by then. (Nobody takes one away before it has, but
        of one that goes off in another process, nothing is known here.)"""
        if self._shared:
            return False
        timer_at, until = self._watched.get(workspace_id, (0, 0.0))
        return now + _TIMER_MARGIN < timer_at <= due and self._clock.monotonic() + _TIMER_MARGIN / SECOND < until

    def rang(self, workspace_id: str) -> None:
        """The timer of a workspace has gone off."""
        self._watched.pop(workspace_id, None)

    # -- answering -----------------------------------------------------------------------------------------------------

    def run(
        self, store: Store, workspace_id: str, source_id: str | None, command: Callable[[bool], Command[T]]
    ) -> "asyncio.Future[T]":
        """Runs what a workspace says to another one, or to its user (None). `command(alone)` makes it; one that is not
        alone is refused with NotAlone if it finds something that it answers, and then runs once more, alone. So a crowd
        that answers nothing shares its commits, and of two answers at once each closes what the other has left."""
        if (workspace_id, source_id) in self._conversations:
            return store.run(command(True))
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def told(tried: "asyncio.Future[T]") -> None:
            if tried.cancelled():
                outcome.cancel()
                return
            refusal = tried.exception()
            if outcome.done():
                return
            if isinstance(refusal, NotAlone):
                self._conversations.add((workspace_id, source_id))
                try:
                    store.run(command(True)).add_done_callback(told)
                except MoleculeError as error:
                    refuse(outcome, error)
            elif refusal is not None:
                refuse(outcome, refusal)
            else:
                outcome.set_result(tried.result())

        store.run(command(False)).add_done_callback(told)
        return outcome

    def answers(
        self, seat: Workspace, source_id: str | None, metadata: Mapping[str, Any], *, alone: bool
    ) -> Generator[Step, Any, Answers]:
        """What a message of a workspace to another one, or to its user (None), answers: the one that it names, if that
        is one of this conversation, also if it was only looked at before; else the newest that is open. Nothing, if the
        named one is settled, or if it only says that something was read. Raises NotAlone."""
        named, progress = rules.named_cause(metadata), rules.says_progress(metadata)
        if metadata.get("intent") == ACK:
            return Answers(named)
        found = Answers(named, (yield from owed_to(seat.id, source_id, named)), progress)
        asked = None
        if found.owed is None and named is not None:
            asked = yield from named_in(seat.id, source_id, named)
        if asked is not None:
            owed, opens = yield from self.owed_for(seat, asked, ends=not progress)
            if owed is not None and owed.is_open:
                found = Answers(named, owed, progress, opens=opens)
        if found.owed is None:
            self._conversations.discard((seat.id, source_id))
        elif not alone:
            raise NotAlone
        return found

    def owed_for(
        self, seat: Workspace, asked: Asked, *, ends: bool
    ) -> Generator[Step, Any, tuple[Obligation | None, Facts]]:
        """What is owed for a message, and what is written before anything else of it: one that was only looked at is
        handed over by being answered. `ends`: nothing is owed for it after this, so that nobody needs to watch."""
        owed = yield from obligation_at(seat.id, asked.seq)
        if owed is not None or asked.intent != REQUEST:
            return owed, Facts([], [])
        now = self._clock.now()
        if ends:
            return unopened(asked, now), Facts([_opens(seat, asked, now, None)], [])
        opened = self.passed(seat, [(asked.seq - 1, asked.seq)], now)
        return unopened(asked, now), Facts(opened.writes, [], opened.rings, opened.facts)

    # -- ending --------------------------------------------------------------------------------------------------------

    def answered(self, owed: Obligation, now: int, answer_id: str | None, *, by_handle: bool = False) -> Facts:
        """The answer is there; `answer_id`: its row."""
        return self._closed(owed, ANSWERED, now, answer_id=answer_id, by_handle=int(by_handle), reason=None)

    def declined(
        self, owed: Obligation, now: int, reason: str, *, answer_id: str | None = None, by_handle: bool = False
    ) -> Facts:
        """There will be no answer. The reason stands in events and ticks: one line of what may be a long text."""
        reason = plain_line(reason, self._limits.short_text_length)
        return self._closed(owed, DECLINED, now, answer_id=answer_id, by_handle=int(by_handle), reason=reason)

    def _closed(self, owed: Obligation, state: str, now: int, *, reason: str | None, **ends: object) -> Facts:
        """What was to remind of it is taken back soon after."""
        row = {"workspace_id": owed.workspace_id, "seq": owed.seq, "state": state, "now": now, "reason": reason}
        noted, told = ticked_one(owed.workspace_id, state, owed.seq, owed.inbound_no, now, reason)
        writes: list[Statement] = [("close_obligation", {**row, **ends}), *noted]  # control: obligation-closed
        if not owed.reminded:
            return self._counted(owed, state, Facts(writes, told))
        return self._counted(owed, state, Facts([*writes, timer(SILENCE, owed.workspace_id, now)], told, (TIMERS,)))

    def overdue(self, owed: Obligation, now: int) -> Facts:
        """Nobody has answered in time."""
        row = {"workspace_id": owed.workspace_id, "seq": owed.seq, "now": now}
        noted, told = ticked_one(owed.workspace_id, OVERDUE, owed.seq, owed.inbound_no, now)
        said = MessageOverdue(
            activity_id=owed.activity_id,
            seq=owed.seq,
            source_id=owed.source_id,
            handed_at=rfc3339(owed.handed_at),
            draft=owed.draft is not None,
            template=owed.told_with,
        )
        event = event_of("MESSAGE_OVERDUE", owed, said)
        facts = Facts([("overdue_obligation", row), *noted, missed(owed.workspace_id)], [*told, event])
        return self._counted(owed, OVERDUE, facts)

    def kept_outside(self, owed: Obligation, draft: str, now: int) -> Facts:
        """An agent has said something in answer that it did not send."""
        row = {"workspace_id": owed.workspace_id, "seq": owed.seq, "now": now, "draft": draft}
        keeps: Statement = ("keep_draft", row)
        if owed.outside_at is not None:
            return Facts([keeps], [drafted(owed, "kept")])
        noted, told = ticked_one(owed.workspace_id, OUTSIDE, owed.seq, owed.inbound_no, now)
        facts = Facts([keeps, *noted, missed(owed.workspace_id)], [*told, drafted(owed, "kept")])
        return self._counted(owed, OUTSIDE, facts)

    def _counted(self, owed: Obligation, outcome: str, facts: Facts) -> Facts:
        if not owed.is_open or owed.overdue_at is not None or owed.outside_at is not None:
            return facts
        writes, rings = self.came(owed, outcome)
        return (
            facts._replace(writes=[*facts.writes, *writes], rings=(*facts.rings, *rings)) if writes or rings else facts
        )


def _opens(
    seat: Workspace, row: Shown | Asked, now: int, due: int | None, said: Mapping[int, Told] | None = None
) -> Statement:
    """A message that wants an answer is handed over."""
    due = None if row.kind in _UNWATCHED else due
    about = {"seq": row.seq, "activity_id": row.id, "source_id": row.source_id, **_said(said, row.seq)}
    return "open_obligation", {"workspace_id": seat.id, "org_id": seat.org_id, "now": now, "due_at": due, **about}


def _said(said: Mapping[int, Told] | None, seq: int) -> Mapping[str, object]:
    told = None if said is None else said.get(seq)
    if told is None:
        return _UNTOLD
    return {
        "template_org": told.org_id,
        "template": told.template,
        "version": told.version,
        "form": told.form,
        "tokens": told.tokens,
    }
