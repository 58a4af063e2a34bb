"""Writes threads for engines: claim, release, begin and end turns, append entries.

A new claim fences off the previous engine: writes with an old generation are rejected.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal, get_args

from msgspec.structs import replace

from molecule_core.budgets.leases import BudgetLeases
from molecule_core.common.clock import SECOND, Clock, to_rfc3339
from molecule_core.common.errors import InvalidField, NotFound
from molecule_core.common.limits import Limits
from molecule_core.org.model import Workspace
from molecule_core.store.database import Command, CommandSteps, ReadQuery, RequestBatch, StepRequest, Store, T, WriteSet
from molecule_core.threads import rules
from molecule_core.threads.errors import StaleGeneration, ThreadBusy, ThreadClosedError, ThreadLeased, TurnNotOpen
from molecule_core.threads.model import LogEntryRow, Mail, Thread, ThreadTurn
from molecule_core.threads.serializers import entry_item
from molecule_core.threads.transitions import ThreadTransitions
from molecule_core.threads.unit_of_work import (
    ENDED_TURN_STATUSES,
    ThreadUnitOfWork,
    input_entry,
    load_open_calls,
    load_thread,
    load_tree_tokens,
    load_turn,
)
from molecule_core.wire.schemas import thread_log as log
from molecule_core.wire.schemas.threads import (
    AppendEntriesBody,
    AppendEntriesResponse,
    EndTurnBody,
    OpenTurn,
    ThreadClaim,
)

# Each poll would cost a write. This many within the time for which a poll counts are enough.
_POLL_WRITES_PER_PERIOD = 4
# Engines append these themselves, so they are not new to an engine.
_ENGINE_ENTRY_TYPES = frozenset(each.__struct_config__.tag for each in get_args(log.EngineEntry))
NOTHING_SEEN = -1
"""Value of `seen` until the engine that claimed a thread begins a turn."""


class EngineWriter:
    """Writer of claims, turns and log entries of engines."""

    def __init__(
        self, store: Store, transitions: ThreadTransitions, budgets: BudgetLeases, *, clock: Clock, limits: Limits
    ) -> None:
        self._store = store
        self._budgets = budgets
        self._transitions = transitions
        self._clock = clock
        self._limits = limits

    # -- presence ------------------------------------------------------------------------------------------------------

    async def record_poll(self, workspace: Workspace) -> None:
        """Record that an engine of a workspace polls for work, at most a few times per validity period."""
        valid_for, now = self._limits.thread_engine_seconds * SECOND, self._clock.now()
        known = await self._store.rows("thread_engine", {"workspace_id": workspace.id})
        if known and known[0][0] > now - valid_for // _POLL_WRITES_PER_PERIOD:
            return

        def decide() -> CommandSteps[None]:
            yield from ()
            return WriteSet(None, [("keep_thread_engine", {"workspace_id": workspace.id, "asked_at": now})])

        await self._store.run(Command(workspace.org_id, (("engine", workspace.id),), decide))

    # -- claims --------------------------------------------------------------------------------------------------------

    async def claim(self, thread: Thread, owner: str) -> ThreadClaim:
        """Claim a thread for an engine; only the new generation can write.

        Raises NotFound, ThreadLeased, ThreadClosedError."""

        def decide(uow: ThreadUnitOfWork, row: Thread) -> CommandSteps[ThreadClaim]:
            if row.closed:
                raise ThreadClosedError
            if not rules.may_claim(row, owner, uow.now):
                raise ThreadLeased(owner=row.owner, until=to_rfc3339(row.owner_until))
            until = self._lease_end(uow)
            generation = row.generation + 1
            uow.update_lease(row.thread_id, generation=generation, owner=owner, owner_until=until, seen=NOTHING_SEEN)
            turn_id = row.turn_id or next(iter(row.queued_turn_ids), None)
            turn = None if turn_id is None else (yield from load_turn(turn_id))
            return uow.to_write_set(ThreadClaim(row.thread_id, generation, to_rfc3339(until), _to_open_turn(row, turn)))

        return await self._run_command(thread, decide)

    async def release(self, thread: Thread, generation: int) -> None:
        """Release a thread, so that another engine can claim it at once. Raises NotFound, StaleGeneration."""

        def decide(uow: ThreadUnitOfWork, row: Thread) -> CommandSteps[None]:
            yield from ()
            check_generation(row, generation)
            uow.update_lease(row.thread_id, owner=None, owner_until=0)
            return uow.to_write_set(None)

        await self._run_command(thread, decide)

    def _lease_end(self, uow: ThreadUnitOfWork) -> int:
        return uow.now + self._limits.thread_lease_seconds * SECOND

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def begin_turn(self, thread: Thread, turn_id: str, generation: int) -> str | None:
        """Begin a turn, or continue it after a restart of its engine. Returns why it must not run, or None.

        Unread mail is appended to the log first, in order, if the turn answers input. A turn whose budget is used up
        stays queued. Raises NotFound, StaleGeneration, ThreadBusy, TurnNotOpen, OverBudget."""

        def decide(uow: ThreadUnitOfWork, row: Thread) -> CommandSteps[str | None]:
            check_generation(row, generation)
            turn = yield from self._load_own_turn(row, turn_id)
            if row.turn_id == turn_id:
                if row.seen == NOTHING_SEEN:
                    uow.append_entry(row.thread_id, log.TurnStartedEntry(turn_id, generation))
                return self._mark_all_seen(uow, row.thread_id, None)
            self._check_turn_order(row, turn)
            exceeded = rules.exceeded_budget(row, (yield from load_tree_tokens(row)), self._limits)
            if exceeded is not None:
                error = f"{exceeded.what} are used up ({exceeded.use} of {exceeded.most}). {exceeded.remedy}"
                yield from self._transitions.end_turn(
                    uow, row.thread_id, turn_id, "failed", error=error, allow_next_turn=False
                )
                return self._mark_all_seen(uow, row.thread_id, "budget")
            leased = WriteSet(None)
            if self._budgets.is_needed(row.org_id):
                keys = (turn_id,) if turn.key is None else (turn.key, turn_id)
                leased = yield from self._budgets.lease_thread_turn(
                    row.org_id, row.workspace_id, row.thread_id, keys, uow.now
                )
                if leased.error is not None:
                    return leased
            uow.append_entry(row.thread_id, log.TurnStartedEntry(turn_id, generation))
            uow.write("save_thread_turn", {"turn_id": turn_id, "status": "running", "ended_at": None})
            if rules.answers_input(turn.trigger):
                yield from self._deliver_mail(uow, row, turn_id)
            for number, each in enumerate(turn.input_texts):
                entry = input_entry(
                    each,
                    turn.input_author,
                    row.path,
                    f"{turn_id}.{number}",
                    client_id=None if number else turn.key,
                )
                uow.append_entry(row.thread_id, entry, turn_id=turn_id)
            return self._mark_all_seen(uow, row.thread_id, None) + leased

        return await self._run_command(thread, decide, exclusive=True)

    def _check_turn_order(self, row: Thread, turn: ThreadTurn) -> None:
        if turn.turn_id not in row.queued_turn_ids:
            raise TurnNotOpen(status=turn.status)
        if row.turn_id is not None:
            raise ThreadBusy(turn_id=row.turn_id, what="a thread runs one turn at a time")
        if row.queued_turn_ids[0] != turn.turn_id:
            raise TurnNotOpen(status=f"queued behind {row.queued_turn_ids[0]}, which was accepted earlier")

    def _load_own_turn(self, row: Thread, turn_id: str) -> Generator[StepRequest, Any, ThreadTurn]:
        turn = yield from load_turn(turn_id)
        if turn is None or turn.thread_id != row.thread_id:
            raise NotFound(what="turn")
        return turn

    def _deliver_mail(self, uow: ThreadUnitOfWork, row: Thread, turn_id: str) -> Generator[StepRequest, Any, None]:
        """Append waiting mail once, in the order of its acceptance, before the turn's first request to the model.

        Ends that it reports are not reported by a wait again."""
        waiting = [
            Mail.from_row(each) for each in (yield ReadQuery("thread_mail_waiting", {"receiver_id": row.thread_id}))
        ]
        yield from self._mark_ends_reported(uow, row, waiting)
        for mail in waiting:
            uow.set_mail_state(mail, "delivered", turn_id)  # control: mail-delivered
            message = log.PeerMessageEntry(
                text=mail.text,
                author=mail.author,
                author_thread_id=mail.author_id,
                recipient=row.path,
                mail_id=mail.mail_id,
                mail_type=mail.mail_type,
            )
            uow.append_entry(row.thread_id, message, turn_id=turn_id)

    def _mark_ends_reported(
        self, uow: ThreadUnitOfWork, row: Thread, mails: Sequence[Mail]
    ) -> Generator[StepRequest, Any, None]:
        author_ids = dict.fromkeys(mail.author_id for mail in mails if mail.mail_type == "FINAL_ANSWER")
        found = yield RequestBatch([ReadQuery("thread", {"thread_id": each}) for each in author_ids])
        authors = {each.thread_id: each for each in (Thread.from_row(rows[0]) for rows in found if rows)}
        for name in rules.latest_final_mail(mails, authors):
            report = {"target_id": name, "ends": authors[name].ends}
            uow.write("keep_thread_report", {"thread_id": row.thread_id, **report})

    def _mark_all_seen(self, uow: ThreadUnitOfWork, thread_id: str, result: str | None) -> WriteSet[str | None]:
        """Mark the whole log as seen, since the engine reads it now."""
        seen = uow.get(thread_id).last_ordinal
        uow.update_lease(thread_id, seen=seen, owner_until=self._lease_end(uow))
        return uow.to_write_set(result)

    async def append_entries(self, thread: Thread, body: AppendEntriesBody) -> AppendEntriesResponse:
        """Append entries of an engine; entries with the same key are appended once.

        Raises NotFound, StaleGeneration, InvalidField."""

        def decide(uow: ThreadUnitOfWork, row: Thread) -> CommandSteps[AppendEntriesResponse]:
            check_generation(row, body.generation)
            key = None if body.key is None else f"append:{body.key}"  # control: append-key
            is_known = key is not None and bool(
                (yield ReadQuery("thread_entry_by_key", {"thread_id": row.thread_id, "key": key}))
            )
            seen_ordinal = row.seen if body.seen is None else min(body.seen, row.last_ordinal)
            new_entries = yield from self._new_entries(row, seen_ordinal)
            tokens = yield from load_tree_tokens(row)
            stop = rules.stop_reason(row, body.turn_id, tokens, self._limits)
            is_overdrawn = self._budgets.is_needed(row.org_id) and (
                yield from self._budgets.is_overdrawn(row.workspace_id, row.thread_id, uow.now)
            )
            stop = "budget" if stop is None and is_overdrawn else stop
            if stop in (None, "budget") and not is_known:
                accepted = body if stop is None else (yield from _within_budget(row, body))
                yield from self._append_each(uow, row, accepted, key)
                after = uow.get(row.thread_id)
                stop = rules.stop_reason(after, body.turn_id, tokens + after.tokens - row.tokens, self._limits)
                stop = "budget" if stop is None and is_overdrawn else stop
            last = uow.get(row.thread_id).last_ordinal
            # Without a begun turn the engine has seen nothing, and this response does not change that. With `seen` it
            # has read no further than that: what came later ends a wait that it begins now.
            seen = NOTHING_SEEN if row.seen == NOTHING_SEEN else last if body.seen is None else seen_ordinal
            uow.update_lease(row.thread_id, seen=seen, owner_until=self._lease_end(uow))
            return uow.to_write_set(AppendEntriesResponse(last, [entry_item(each) for each in new_entries], stop))

        return await self._run_command(thread, decide)

    def _new_entries(self, row: Thread, seen_ordinal: int) -> Generator[StepRequest, Any, list[LogEntryRow]]:
        if seen_ordinal in (NOTHING_SEEN, row.last_ordinal):
            return []
        query = {
            "thread_id": row.thread_id,
            "after": seen_ordinal,
            "upto": row.last_ordinal,
            "count": self._limits.thread_rows,
        }
        entry_rows = [LogEntryRow(*each) for each in (yield ReadQuery("thread_entries_after", query))]
        return [each for each in entry_rows if each.type not in _ENGINE_ENTRY_TYPES]

    def _append_each(
        self, uow: ThreadUnitOfWork, row: Thread, body: AppendEntriesBody, key: str | None
    ) -> Generator[StepRequest, Any, None]:
        if any(isinstance(each, log.StatusEntry) for each in body.entries):
            tree = yield ReadQuery("threads_of_tree", {"root_id": row.root_id})
            uow.attach_tree([Thread.from_row(each) for each in tree])
        counted_keys = set[str]()
        for entry in body.entries:
            last = uow.get(row.thread_id).last_ordinal
            if isinstance(entry, log.CompactionEntry) and entry.upto > last:
                raise InvalidField(
                    reason=f"upto cannot be {entry.upto}. Use at most {last}, the last ordinal of the thread."
                )
            if isinstance(entry, log.UsageEntry):
                if entry.record_key in counted_keys or (yield from self._is_usage_counted(row, entry)):
                    continue
                counted_keys.add(entry.record_key)
                cost = {"record_key": entry.record_key, "tokens": entry.input + entry.output}
                uow.write("keep_thread_usage", {"thread_id": row.thread_id, **cost})
            uow.append_entry(row.thread_id, entry, turn_id=body.turn_id, key=key)
            key = None

    def _is_usage_counted(self, row: Thread, entry: log.UsageEntry) -> Generator[StepRequest, Any, bool]:
        return bool(
            (yield ReadQuery("thread_usage_known", {"thread_id": row.thread_id, "record_key": entry.record_key}))
        )

    async def end_turn(self, thread: Thread, turn_id: str, body: EndTurnBody) -> Thread:
        """End a turn; one that has ended already stays unchanged. Raises NotFound, StaleGeneration, TurnNotOpen."""

        def decide(uow: ThreadUnitOfWork, row: Thread) -> CommandSteps[Thread]:
            check_generation(row, body.generation)
            turn = yield from self._load_own_turn(row, turn_id)
            if turn.status in ENDED_TURN_STATUSES:
                return WriteSet(row)
            if row.turn_id != turn_id:
                raise TurnNotOpen(status=turn.status)
            seen = row.seen if body.seen is None else body.seen
            yield from self._transitions.end_turn(
                uow, row.thread_id, turn_id, body.status, error=body.error, final=body.final, seen=seen
            )
            uow.update_lease(row.thread_id, owner_until=self._lease_end(uow))
            return uow.to_write_set_of_thread(row.thread_id)

        return await self._run_command(thread, decide, exclusive=True)

    # -- commands ------------------------------------------------------------------------------------------------------

    async def _run_command(
        self, thread: Thread, decide: Callable[[ThreadUnitOfWork, Thread], CommandSteps[T]], *, exclusive: bool = False
    ) -> T:
        """Run a command on the current row of a thread. One that stays within its tree shares its group with others."""

        def command_steps() -> CommandSteps[T]:
            row = yield from load_thread(thread.thread_id)
            if row is None:  # deleted by retention
                raise NotFound(what="thread")
            uow = ThreadUnitOfWork(self._clock.now(), self._limits, self._transitions.meter)
            return (yield from decide(uow, uow.attach(row)))

        keys = () if exclusive else (("threads", thread.root_id),)
        return await self._store.run(Command(thread.org_id, keys, command_steps, exclusive=exclusive))


def check_generation(row: Thread, generation: int) -> None:
    """Raise StaleGeneration for an old generation."""
    if rules.is_fenced(row, generation):
        raise StaleGeneration(given=generation, generation=row.generation)


def _within_budget(row: Thread, body: AppendEntriesBody) -> Generator[StepRequest, Any, AppendEntriesBody]:
    """Return the entries that count although the budget is exceeded.

    These are usage, and outputs of open tool calls, whose outcome would be unknown otherwise."""
    open_call_ids, accepted = (yield from load_open_calls(row.thread_id, body.turn_id)), list[log.EngineEntry]()
    for each in body.entries:
        if isinstance(each, log.ToolOutputEntry) and open_call_ids[each.call_id]:
            open_call_ids[each.call_id] -= 1
            accepted.append(each)
        elif isinstance(each, log.UsageEntry):
            accepted.append(each)
    return replace(body, entries=accepted)


def _to_open_turn(row: Thread, turn: ThreadTurn | None) -> OpenTurn | None:
    if turn is None:
        return None
    status: Literal["accepted", "running"] = "accepted" if row.turn_id is None else "running"
    return OpenTurn(turn_id=turn.turn_id, trigger=turn.trigger, status=status, key=turn.key)
