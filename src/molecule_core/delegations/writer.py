"""The hand that makes and ends delegations, whoever asks: each verb is one command.

Above: the edges. Below: beginning, reader, rules; the writer of messages.
"""

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.delegations import rules
from molecule_core.delegations.beginning import Beginning
from molecule_core.delegations.model import (
    DELEGATION,
    Begin,
    Delegation,
    Fact,
    Progress,
    Receipt,
    Status,
    Taken,
    progress_key,
    wake_key,
)
from molecule_core.delegations.steps import Ends, living, moved, rows_of
from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.errors import InvalidMessage, NotFound
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.refusals import DelegationOpen, NotTheWorker
from molecule_core.messages.lines import parts_of
from molecule_core.messages.model import Sender
from molecule_core.messages.obligations import joined as with_facts
from molecule_core.messages.obligations import owes_key
from molecule_core.messages.reader import MessageReader
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Followed, Read, Step, Store, T, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.queries import Params
from molecule_core.store.timers import TIMERS, no_timer, timer

UPDATE = "update"
"""By which way a delegation has ended of which one of its sides has said so, and answered nothing."""


class DelegationWriter:
    """Begins and ends delegations."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        messages: MessageWriter,
        read: MessageReader,
        ends: Ends,
        *,
        clock: Clock,
        ids: Ids,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = org
        self._messages = messages
        self._read = read
        self._results = ends.results
        self._ends = ends
        self._clock = clock
        self._limits = limits
        self._beginning = Beginning(org, messages, ends.results, clock=clock, ids=ids, limits=limits)

    def begin(self, asked: Begin) -> "asyncio.Future[Receipt]":
        """A workspace gives work to another one. The receipt comes when it is durable.

        Raises NotFound, WorkspaceRemoved; the future SelfDelegation, MayNotTalk, MessageIdReused, DelegationLimit,
        DelegationCycle, InboxFull, ChainFrozen, ChainEnded, InvalidMessage."""
        source = self._org.living(asked.source_id)
        draft = self._beginning.draft_of(asked)
        message_keys = self._messages.keys_of_sending(asked.target_id, draft, alone=False)
        deciding = partial(self._beginning.begin, asked, draft)
        return self._store.run(Command(source.org_id, (("delegates", source.id), *message_keys), deciding))

    async def knows(self, org_id: str, source_id: str, key: str) -> bool:
        """Whether what a workspace has begun under a key is the answer to whoever begins it again under that."""
        rows = await self._store.rows("delegation_by_key", {"org_id": org_id, "source_id": source_id, "key": key})
        return bool(rows) and rules.is_kept(rows[0][1], self._clock.now(), self._limits)

    async def cancel(self, row: Delegation, by: Sender, reason: str) -> Delegation:
        """It is not wanted any more: it ends, and who works on it is told. One that has ended stays as it is."""

        def decide(known: Delegation, now: int) -> Decision[Delegation]:
            via = "caller" if by.workspace_id == known.source_id else "person"
            end = yield from self._ends.ended(known, Fact.CANCELLED, reason or "no reason was given", via, now)
            return _written(known, end)

        return await self._run(row, decide)

    async def retry(self, row: Delegation, by: Sender) -> Receipt:
        """What has ended is begun once more: the same task with its files, target and time to do it, below the same one
        if that has not ended. Raises DelegationOpen, and as `begin`; InvalidMessage, if its files are not kept any
        more."""
        if not row.status.ended:
            raise DelegationOpen(status=row.status.value)
        seconds = (row.deadline_at - row.created_at) // SECOND
        return await self.begin(
            Begin(
                source_id=row.source_id,
                target_id=row.target_id,
                parts=await self._parts_of(row),
                task=row.task,
                sender=Sender(f"workspace:{row.source_id}", row.source_id, by.user_id, by.user_name),
                deadline_seconds=seconds,
                cause_id=row.cause_id,
                context_id=row.context_id,
                retry_of=row.id,
                task_hash=row.task_hash,
            )
        )

    async def _parts_of(self, row: Delegation) -> list[dict[str, Any]]:
        """The task as its message had it. Where that is not kept any more, the text is all of it, or too little."""
        parts = None if row.message_seq is None else await self._read.parts(row.target_id, row.message_seq)
        if parts is not None:
            return parts
        text = [{"kind": "text", "text": row.task}]
        if rules.task_hash(text) != row.task_hash:
            raise InvalidMessage(reason="the files of this task are not kept any more; delegate it anew, with files")
        return text

    # -- what its two sides say of it ----------------------------------------------------------------------------------

    async def record(self, source_id: str, delegation_id: str, target_id: str, task: str, by: Sender) -> Receipt:
        """A workspace says that it has given work to another one by a way of its own: it is noted, and nobody is sent
        anything. The same again is the first one. Raises NotFound, WorkspaceRemoved, SelfDelegation, MayNotTalk,
        MessageIdReused."""
        org_id = self._org.living(source_id).org_id
        deciding = partial(self._beginning.record, source_id, delegation_id, target_id, task, by)
        keys = (("delegates", source_id), (DELEGATION, f"{org_id}/{delegation_id}"))
        return await self._store.run(Command(org_id, keys, deciding))

    async def update(self, row: Delegation, by: Sender, status: str, text: str | None, error: str | None) -> Delegation:
        """One of its two sides says how it has ended (`completed` or `failed`): the target of one that it was given, or
        who recorded it. The same again changes nothing. Raises NotTheWorker."""
        is_worker = by.workspace_id == (row.source_id if row.recorded else row.target_id)
        if not is_worker:
            raise NotTheWorker

        def decide(known: Delegation, now: int) -> Decision[Delegation]:
            done, words = status == Status.COMPLETED, (text if status == Status.COMPLETED else error) or ""
            if known.via == UPDATE and (known.status.value, known.result if done else known.error) == (status, words):
                return WriteSet(known)
            if known.recorded:
                fact = Fact.REPORTED_DONE if done else Fact.REPORTED_FAILED
            else:
                fact = Fact.ANSWERED if done else Fact.DECLINED
            end = yield from self._ends.ended(known, fact, words, UPDATE, now, by_target=True)
            return _written(known, end)

        return await self._run(row, decide)

    async def progress(self, row: Delegation, by: Sender, said: Progress) -> Delegation:
        """The working peer says how far it is. The newest counts; it changes no state, and of one that has ended
        nothing. Raises NotTheWorker."""
        check_worker(row, by)

        def decide(known: Delegation, now: int) -> Decision[Delegation]:
            yield from ()
            if known.status.ended:
                return WriteSet(known)
            change = moved(known, Fact.PROGRESS, now)
            new = replace(change.row, life_at=now)
            keeps = {
                "org_id": new.org_id,
                "delegation_id": new.id,
                "at": now,
                "said": msgspec.json.encode(said).decode(),
            }
            writes = [("save_delegation", new), *change.writes, ("keep_progress", keeps)]
            rings = (wake_key(new.org_id, new.id), org_key(new.org_id)) if change.events else ()
            return WriteSet(new, writes, change.events, (*rings, progress_key(new.org_id)))

        return await self._run(row, decide)

    # -- who waits for the result --------------------------------------------------------------------------------------

    async def hold(self, row: Delegation, seconds: int) -> int:
        """A caller waits so long: a result that comes meanwhile is kept for whoever waits longest. Returns until when
        this one does (microseconds); 0: it has ended, and there is nothing to wait for."""

        def decide(known: Delegation, now: int) -> Decision[int]:
            yield from ()
            if known.status.ended:
                return WriteSet(0)
            until = now + seconds * SECOND
            return WriteSet(until, [_waits(known, until)] if until > known.wait_until else [])

        return await self._run(row, decide)

    async def let_go(self, row: Delegation, until: int) -> None:
        """A caller waits no more: unless another one waits longer, the result goes to the inbox."""

        def decide(known: Delegation, now: int) -> Decision[None]:
            if known.wait_until != until:
                return WriteSet(None)
            source, written = living(self._org, known.source_id), WriteSet(None, [_waits(known, 0)])
            if source is None or known.result_seq is None:
                return written
            return with_facts(written, (yield from self._results.let_go(source, known.result_seq, until)))

        await self._run(row, decide, ("inbox", row.source_id))

    async def take(self, row: Delegation, until: int) -> Taken:
        """A caller that waits takes the result, if there is one: here, and then nobody finds it in the inbox; or not
        here, because somebody has it from there, or because it is more than the text that a caller is handed here.
        Exactly one of both. What has been handled by then, here or there, is read once more."""

        def decide(known: Delegation, now: int) -> Decision[Taken]:
            if not known.status.ended:
                return WriteSet(Taken(known, "", ""))
            source, text = living(self._org, known.source_id), text_of(known)
            if source is None or known.result_seq is None:
                return WriteSet(Taken(known, text, "here"))
            held_until = max(until, known.wait_until)
            delivered, facts = yield from self._results.taken(source, known.result_seq, held_until)
            if delivered == "here" and (yield from _is_more_than_text(known)):
                delivered = "inbox"
                facts = yield from self._results.let_go(source, known.result_seq, held_until)
            return with_facts(WriteSet(Taken(known, "" if delivered == "inbox" else text, delivered)), facts)

        return await self._run(row, decide, ("inbox", row.source_id))

    # -- time ----------------------------------------------------------------------------------------------------------

    async def on_due(self, key: str) -> None:
        """The timer of a delegation has gone off: it ends if its time is over or what it belonged to is gone; else it
        is looked at again when that may be so."""
        org_id, _, delegation_id = key.partition("/")
        rows = await self._store.rows("delegation", {"org_id": org_id, "id": delegation_id})
        if not rows:
            forget: Command[None] = Command(org_id, (), partial(_forgetting, key))
            return await self._store.run(forget)
        await self._run(Delegation.of(rows[0]), self._falling_due)
        return None

    def _falling_due(self, row: Delegation, now: int) -> Decision[Delegation]:
        if row.status.ended:
            return WriteSet(row, [no_timer(DELEGATION, row.key)])
        lost = [] if row.parent_id is None else (yield Read("delegations_lost", {"org_id": row.org_id, "id": row.id}))
        found = self._end_of(row, now, is_lost=bool(lost))
        if found is None:
            due = max(rules.due_of(row, now, self._limits), now + 1)
            return WriteSet(row, [timer(DELEGATION, row.key, due)], rings=(TIMERS,))
        end = yield from self._ends.ended(row, *found, "timer", now)
        return _written(row, end)

    def _end_of(self, row: Delegation, now: int, *, is_lost: bool) -> tuple[Fact, str] | None:
        if living(self._org, row.target_id) is None:
            return Fact.TARGET_GONE, "the target was removed"
        if is_lost or living(self._org, row.source_id) is None:
            return Fact.CANCELLED, "the work that it belonged to has ended"
        if row.deadline_at <= now:  # control: deadline-due
            return Fact.EXPIRED, "its deadline has passed"
        if rules.is_unsure(row) and (row.unsure_at or now) + self._limits.delegation_unknown_seconds * SECOND <= now:
            return Fact.UNSURE_TOO_LONG, "it was sent, and no answer came"
        return None

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def _run(
        self, row: Delegation, decide: Callable[[Delegation, int], Decision[T]], *more: tuple[str, ...]
    ) -> T:
        """One command about a delegation, as it stands then."""

        def deciding() -> Decision[T]:
            for known in (yield from rows_of(row.org_id, [row.id])):
                return (yield from decide(known, self._clock.now()))
            raise NotFound(what="delegation")  # retention has taken it

        return await self._store.run(Command(row.org_id, (*keys_of(row), *more), deciding))


def check_worker(row: Delegation, by: Sender) -> None:
    """Raises NotTheWorker for all but who works on a delegation."""
    if by.workspace_id != row.target_id or row.recorded:
        raise NotTheWorker


def keys_of(row: Delegation) -> tuple[tuple[str, ...], ...]:
    """The keys of a command that changes a delegation: those of whatever its target may do with the message."""
    return ("inbox", row.target_id), owes_key(row.target_id, row.source_id), (DELEGATION, row.key)


def _written(row: Delegation, change: Followed) -> WriteSet[Delegation]:
    """What a change writes, and the delegation behind it."""
    saves = [params for name, params in change.writes if name == "save_delegation"]
    new = saves[-1] if saves else row
    answer = new if isinstance(new, Delegation) else row
    return WriteSet(answer, [*change.writes], [*change.events], change.rings, change.then, facts=[*change.facts])


def _waits(row: Delegation, until: int) -> tuple[str, Params]:
    return "wait_for_delegation", {"org_id": row.org_id, "id": row.id, "wait_until": until}


def text_of(row: Delegation) -> str:
    """All that its caller reads of one that has ended."""
    if row.reason is None:
        return row.result or ""
    return rules.failure_text(row.reason, row.error or "")


def _is_more_than_text(row: Delegation) -> Generator[Step, Any, bool]:
    """Whether files or data came with the result. Only an answer has any."""
    if row.status is not Status.COMPLETED:
        return False
    rows = yield Read("delegation_answer", {"source_id": row.source_id, "seq": row.result_seq})
    return any(part.get("kind") != "text" for (body,) in rows if body is not None for part in parts_of(body))


def _forgetting(key: str) -> Decision[None]:
    yield from ()
    return WriteSet(None, [no_timer(DELEGATION, key)])
