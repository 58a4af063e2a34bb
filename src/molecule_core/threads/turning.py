"""The hand that changes threads for engines: who claims one, runs its turns, and is fenced off by the next one.

Whoever shows an old generation writes nothing. Above: the edges. Below: acts, steps, rules.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal, get_args

from msgspec.structs import replace

from molecule_core.ground.clock import SECOND, Clock, rfc3339
from molecule_core.ground.errors import InvalidField, NotFound
from molecule_core.ground.limits import Limits
from molecule_core.ground.refusals import StaleGeneration, ThreadBusy, ThreadClosed, ThreadOwned, TurnNotOpen
from molecule_core.org.model import Workspace
from molecule_core.store.database import Command, Decision, Read, Several, Step, Store, T, WriteSet
from molecule_core.threads import rules
from molecule_core.threads.acts import Acts
from molecule_core.threads.items import line_item
from molecule_core.threads.model import Line, Mail, Thread, Turn
from molecule_core.threads.steps import ENDED, Change, open_calls, said_by, thread_row, tree_tokens, turn_row
from molecule_core.wire import threadlog as log
from molecule_core.wire.threads import Append, Appended, Claim, EndTurn, OpenTurn

# So often an engine is noted in the time in which it is counted on.
_NOTES = 4
# What engines add themselves: no news to them.
_OWN = frozenset(each.__struct_config__.tag for each in get_args(log.EngineEntry))
NOT_BEGUN = -1
"""What `seen` is until the engine that holds a thread has begun a turn."""


class EngineWriter:
    """Claims threads, begins and ends turns, adds to logs."""

    def __init__(self, store: Store, acts: Acts, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._acts = acts
        self._clock = clock
        self._limits = limits

    # -- who is there --------------------------------------------------------------------------------------------------

    async def asks(self, seat: Workspace) -> None:
        """An engine of a workspace asks for work: others may count on it for a while. Written a few times in that."""
        lasts, now = self._limits.thread_engine_seconds * SECOND, self._clock.now()
        known = await self._store.rows("thread_engine", {"workspace_id": seat.id})
        if known and known[0][0] > now - lasts // _NOTES:
            return

        def decide() -> Decision[None]:
            yield from ()
            return WriteSet(None, [("keep_thread_engine", {"workspace_id": seat.id, "asked_at": now})])

        await self._store.run(Command(seat.org_id, (("engine", seat.id),), decide))

    # -- who may write -------------------------------------------------------------------------------------------------

    async def claim(self, thread: Thread, owner: str) -> Claim:
        """An engine takes a thread: from now on only its generation writes. Raises NotFound, ThreadOwned,
        ThreadClosed."""

        def decide(change: Change, row: Thread) -> Decision[Claim]:
            if row.closed:
                raise ThreadClosed
            if not rules.may_claim(row, owner, change.now):
                raise ThreadOwned(owner=row.owner, until=rfc3339(row.owner_until))
            until = self._until(change)
            generation = row.generation + 1
            change.put(row.thread_id, generation=generation, owner=owner, owner_until=until, seen=NOT_BEGUN)
            turn_id = row.turn_id or next(iter(row.queued), None)
            turn = None if turn_id is None else (yield from turn_row(turn_id))
            return change.written(Claim(row.thread_id, generation, rfc3339(until), _open(row, turn)))

        return await self._run(thread, decide)

    async def release(self, thread: Thread, generation: int) -> None:
        """An engine lets a thread go; another one may have it at once. Raises NotFound, StaleGeneration."""

        def decide(change: Change, row: Thread) -> Decision[None]:
            yield from ()
            check_fence(row, generation)
            change.put(row.thread_id, owner=None, owner_until=0)
            return change.written(None)

        await self._run(thread, decide)

    def _until(self, change: Change) -> int:
        return change.now + self._limits.thread_lease_seconds * SECOND

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def begin(self, thread: Thread, turn_id: str, generation: int) -> str | None:
        """A turn begins, or goes on in another life of its engine. What was sent to the thread and not shown before is
        put into the log first, in order, if the turn answers. Returns why it is not to run, if so. Raises NotFound,
        StaleGeneration, ThreadBusy, TurnNotOpen."""

        def decide(change: Change, row: Thread) -> Decision[str | None]:
            check_fence(row, generation)
            turn = yield from self._turn_of(row, turn_id)
            if row.turn_id == turn_id:
                if row.seen == NOT_BEGUN:
                    change.add(row.thread_id, log.TurnStarted(turn_id, generation))
                return self._told(change, row.thread_id, None)
            self._check_next(row, turn)
            spent = rules.spent_of(row, (yield from tree_tokens(row)), self._limits)
            if spent is not None:
                error = f"{spent.what} are used up ({spent.use} of {spent.most}). {spent.remedy}"
                yield from self._acts.end(change, row.thread_id, turn_id, "failed", error=error, goes_on=False)
                return self._told(change, row.thread_id, "budget")
            change.add(row.thread_id, log.TurnStarted(turn_id, generation))
            change.write("save_thread_turn", {"turn_id": turn_id, "status": "running", "ended_at": None})
            if rules.answers(turn.trigger):
                yield from self._bring_mail(change, row, turn_id)
            for number, each in enumerate(turn.texts):
                said = said_by(each, turn.by, row.path, f"{turn_id}.{number}")
                change.add(row.thread_id, said, turn_id=turn_id)
            return self._told(change, row.thread_id, None)

        return await self._run(thread, decide, alone=True)

    def _check_next(self, row: Thread, turn: Turn) -> None:
        if turn.turn_id not in row.queued:
            raise TurnNotOpen(status=turn.status)
        if row.turn_id is not None:
            raise ThreadBusy(turn_id=row.turn_id, what="one turn runs at a time.")
        if row.queued[0] != turn.turn_id:
            raise TurnNotOpen(status=f"behind {row.queued[0]}, which was accepted before")

    def _turn_of(self, row: Thread, turn_id: str) -> Generator[Step, Any, Turn]:
        turn = yield from turn_row(turn_id)
        if turn is None or turn.thread_id != row.thread_id:
            raise NotFound(what="turn")
        return turn

    def _bring_mail(self, change: Change, row: Thread, turn_id: str) -> Generator[Step, Any, None]:
        """Letters are shown before the turn's first sampling, in the order in which they were accepted, once. Ends that
        they tell are told by no wait again."""
        waiting = [Mail.of(each) for each in (yield Read("thread_mail_waiting", {"receiver_id": row.thread_id}))]
        yield from self._reported(change, row, waiting)
        for mail in waiting:
            change.stamp(mail, "delivered", turn_id)  # control: mail-delivered
            letter = log.PeerMessage(
                text=mail.text,
                author=mail.author,
                author_thread_id=mail.author_id,
                recipient=row.path,
                mail_id=mail.mail_id,
                mail_type=mail.sort,
            )
            change.add(row.thread_id, letter, turn_id=turn_id)

    def _reported(self, change: Change, row: Thread, letters: Sequence[Mail]) -> Generator[Step, Any, None]:
        wishes = dict.fromkeys(mail.author_id for mail in letters if mail.sort == "FINAL_ANSWER")
        found = yield Several([Read("thread", {"thread_id": each}) for each in wishes])
        authors = {each.thread_id: each for each in (Thread.of(rows[0]) for rows in found if rows)}
        for name in rules.last_ends(letters, authors):
            report = {"target_id": name, "ends": authors[name].ends}
            change.write("keep_thread_report", {"thread_id": row.thread_id, **report})

    def _told(self, change: Change, thread_id: str, answer: str | None) -> WriteSet[str | None]:
        """The engine is going to read all that is there."""
        seen = change.of(thread_id).last_ordinal
        change.put(thread_id, seen=seen, owner_until=self._until(change))
        return change.written(answer)

    async def append(self, thread: Thread, said: Append) -> Appended:
        """Lines of an engine. With the same key they are added once. Raises NotFound, StaleGeneration,
        InvalidField."""

        def decide(change: Change, row: Thread) -> Decision[Appended]:
            check_fence(row, said.generation)
            key = None if said.key is None else f"append:{said.key}"  # control: append-key
            is_known = key is not None and bool(
                (yield Read("thread_entry_by_key", {"thread_id": row.thread_id, "key": key}))
            )
            told = row.seen if said.seen is None else min(said.seen, row.last_ordinal)
            news = yield from self._news(row, told)
            tokens = yield from tree_tokens(row)
            stop = rules.stop_of(row, said.turn_id, tokens, self._limits)
            if stop in (None, "budget") and not is_known:
                taken = said if stop is None else (yield from _done_in(row, said))
                yield from self._added(change, row, taken, key)
                after = change.of(row.thread_id)
                stop = rules.stop_of(after, said.turn_id, tokens + after.tokens - row.tokens, self._limits)
            last = change.of(row.thread_id).last_ordinal
            # Who has begun nothing since it claimed has been shown nothing, and is shown nothing by this. Who says how
            # far it has read has read no further yet: what has come since ends a wait that it begins now.
            seen = NOT_BEGUN if row.seen == NOT_BEGUN else last if said.seen is None else told
            change.put(row.thread_id, seen=seen, owner_until=self._until(change))
            return change.written(Appended(last, [line_item(each) for each in news], stop))

        return await self._run(thread, decide)

    def _news(self, row: Thread, told: int) -> Generator[Step, Any, list[Line]]:
        if told in (NOT_BEGUN, row.last_ordinal):
            return []
        wish = {"thread_id": row.thread_id, "after": told, "upto": row.last_ordinal, "count": self._limits.thread_rows}
        lines = [Line(*each) for each in (yield Read("thread_entries_after", wish))]
        return [each for each in lines if each.type not in _OWN]

    def _added(self, change: Change, row: Thread, said: Append, key: str | None) -> Generator[Step, Any, None]:
        if any(isinstance(each, log.StatusNote) for each in said.entries):
            tree = yield Read("threads_of_tree", {"root_id": row.root_id})
            change.knows_tree([Thread.of(each) for each in tree])
        counted = set[str]()
        for entry in said.entries:
            last = change.of(row.thread_id).last_ordinal
            if isinstance(entry, log.Compaction) and entry.upto > last:
                raise InvalidField(reason=f"upto must be at most {last}, the last ordinal: sum up what was said")
            if isinstance(entry, log.Usage):
                if entry.record_key in counted or (yield from self._is_counted(row, entry)):
                    continue
                counted.add(entry.record_key)
                cost = {"record_key": entry.record_key, "tokens": entry.input + entry.output}
                change.write("keep_thread_usage", {"thread_id": row.thread_id, **cost})
            change.add(row.thread_id, entry, turn_id=said.turn_id, key=key)
            key = None

    def _is_counted(self, row: Thread, entry: log.Usage) -> Generator[Step, Any, bool]:
        return bool((yield Read("thread_usage_known", {"thread_id": row.thread_id, "record_key": entry.record_key})))

    async def end(self, thread: Thread, turn_id: str, said: EndTurn) -> Thread:
        """A turn is over. Again changes nothing, also where somebody has ended it before. Raises NotFound,
        StaleGeneration, TurnNotOpen."""

        def decide(change: Change, row: Thread) -> Decision[Thread]:
            check_fence(row, said.generation)
            turn = yield from self._turn_of(row, turn_id)
            if turn.status in ENDED:
                return WriteSet(row)
            if row.turn_id != turn_id:
                raise TurnNotOpen(status=turn.status)
            seen = row.seen if said.seen is None else said.seen
            yield from self._acts.end(
                change, row.thread_id, turn_id, said.status, error=said.error, final=said.final, seen=seen
            )
            change.put(row.thread_id, owner_until=self._until(change))
            return change.standing(row.thread_id)

        return await self._run(thread, decide, alone=True)

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def _run(self, thread: Thread, decide: Callable[[Change, Thread], Decision[T]], *, alone: bool = False) -> T:
        """One command about a thread as it stands then. One that stays within its tree shares its group with others."""

        def deciding() -> Decision[T]:
            row = yield from thread_row(thread.thread_id)
            if row is None:  # retention has taken it
                raise NotFound(what="thread")
            change = Change(self._clock.now(), self._limits, self._acts.meter)
            return (yield from decide(change, change.take(row)))

        keys = () if alone else (("threads", thread.root_id),)
        return await self._store.run(Command(thread.org_id, keys, deciding, alone=alone))


def check_fence(row: Thread, generation: int) -> None:
    """Nobody writes with an old generation. Raises StaleGeneration."""
    if rules.is_fenced(row, generation):
        raise StaleGeneration(given=generation, generation=row.generation)


def _done_in(row: Thread, said: Append) -> Generator[Step, Any, Append]:
    """Of what an engine adds, only what was done before it could know that the budget is used up: what was spent
    counts, and what a tool has answered that was called is no outcome that nobody knows."""
    still, taken = (yield from open_calls(row.thread_id, said.turn_id)), list[log.EngineEntry]()
    for each in said.entries:
        if isinstance(each, log.ToolOutput) and still[each.call_id]:
            still[each.call_id] -= 1
            taken.append(each)
        elif isinstance(each, log.Usage):
            taken.append(each)
    return replace(said, entries=taken)


def _open(row: Thread, turn: Turn | None) -> OpenTurn | None:
    if turn is None:
        return None
    status: Literal["accepted", "running"] = "accepted" if row.turn_id is None else "running"
    return OpenTurn(turn_id=turn.turn_id, trigger=turn.trigger, status=status)
