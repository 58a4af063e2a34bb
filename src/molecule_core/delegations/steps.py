"""Steps without decisions: what is written and told when a delegation moves, and when it ends.

Above: beginning, hearing and the writer of this slice. Below: rules; the rows that messages keep for delegations.
"""

from collections.abc import Generator
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from molecule_core.delegations import rules
from molecule_core.delegations.model import DELEGATION, Deed, Delegation, Fact, Status, wake_key
from molecule_core.ground.clock import rfc3339
from molecule_core.ground.metrics import DelegationMeter
from molecule_core.messages.facts import Answer
from molecule_core.messages.obligations import Facts
from molecule_core.messages.results import ResultOf, Results
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Event, Followed, Read, Several, Step
from molecule_core.store.journal import org_key
from molecule_core.store.queries import Params
from molecule_core.store.timers import TIMERS, no_timer, timer
from molecule_core.wire.delegations import DelegationComplete, DelegationFailed, DelegationSent, DelegationStatus

Statement = tuple[str, Params]


class Moved(NamedTuple):
    """A delegation behind some facts: its row, which is not written yet, and what is written and told beside it."""

    row: Delegation
    writes: list[Statement]
    events: list[Event]


def rows_of(org_id: str, ids: list[str]) -> Generator[Step, Any, list[Delegation]]:
    """The delegations of these ids, in one round; those that are not there are left out."""
    found = yield Several([Read("delegation", {"org_id": org_id, "id": each}) for each in ids])
    return [Delegation.of(rows[0]) for rows in found if rows]


def moved(row: Delegation, fact: Fact, now: int, *, attempt: int = 0, detail: str | None = None) -> Moved:
    """What a fact that ends nothing does to a delegation. Nothing is written if it changes nothing."""
    writes, events = list[Statement](), list[Event]()
    for deed in rules.decide(row.stands, fact, attempt=attempt):
        if deed.late:
            writes.append(noted(row, fact, now, late=True, detail=detail))
            continue
        row = _after(row, deed, now)
        writes.append(noted(row, fact, now, detail=detail))
        events.append(_status(row, now, detail))
    return Moved(row, writes, events)


class Ends:
    """Ends delegations. `history`: each end leaves a row for analysis, on which nothing depends."""

    def __init__(self, org: OrgReader, results: Results, counted: DelegationMeter, *, history: bool) -> None:
        self._org = org
        self.results = results
        self._counted = counted
        self._history = history

    def ended(
        self, row: Delegation, fact: Fact, words: str, via: str, now: int, *, by_target: bool = False
    ) -> Generator[Step, Any, Followed]:
        """A delegation ends otherwise than by an answer to its message: nobody works on it any more, and who had it is
        told, unless it says so itself (`by_target`). Nothing, if it has ended before."""
        for deed in rules.decide(row.stands, fact):
            if deed.late:
                return (yield from self._late(row, fact, words, now, is_kept=by_target and not row.recorded))
            answer = self.results.said(row.target_id, words, row.context_id)
            end = yield from self.settled(row, fact, deed, answer, via, now)
            rest = yield from self._let_rest(row, deed, words, by_target=by_target)
            return joined(end, rest)
        return Followed()

    def _late(
        self, row: Delegation, fact: Fact, words: str, now: int, *, is_kept: bool
    ) -> Generator[Step, Any, Followed]:
        """It had ended before. What its target says then is kept in the target's own log, once."""
        noting, target = Followed([noted(row, fact, now, late=True, detail=_beginning(words))]), None
        if is_kept:
            target = living(self._org, row.target_id)
        if target is None:
            return noting
        answer = replace(self.results.said(row.target_id, words, row.context_id), dedupe_key=f"update:{row.id}")
        if (yield Read("find_twin", {"sender": answer.sender, "dedupe_key": answer.dedupe_key})):
            return Followed()
        kept = yield from self.results.late_row(target, row.source_id, row.id, answer)
        return joined(noting, [kept.facts])

    def _let_rest(
        self, row: Delegation, deed: Deed, words: str, *, by_target: bool
    ) -> Generator[Step, Any, list[Facts]]:
        """The message to the target is taken back, if nobody had it; else who has it is told that it can stop."""
        target = living(self._org, row.target_id)
        if target is None or row.message_seq is None:
            return []
        why = deed.reason.value if deed.reason is not None else deed.status.value
        was_had, facts = yield from self.results.over(target, row.message_seq, why, by_target=by_target)
        if not was_had or by_target:
            return [facts]
        task = rules.cut(row.task, rules.TASK_PREVIEW)
        text = f"The task {task!r} has ended ({why}): {words}. Nobody waits for its result any more."
        told = yield from self.results.told_off(target, row.source_id, text, {"delegation_id": row.id})
        return [facts, told.facts]

    def settled(
        self, row: Delegation, fact: Fact, deed: Deed, answer: Answer, via: str, now: int
    ) -> Generator[Step, Any, Followed]:
        """A delegation ends with what somebody has said: the row, the line of its time line, the one event of its end,
        and the result in the inbox of its source, if that is there still. Who ends it otherwise says so in an answer of
        its own."""
        failed, source = deed.status is not Status.COMPLETED, living(self._org, row.source_id)
        error = answer.text if failed else None
        text = rules.failure_text(deed.reason, answer.text) if failed and deed.reason is not None else answer.text
        about = ResultOf(
            id=answer.id,
            delegation_id=row.id,
            target_id=row.target_id,
            parts=[{"kind": "text", "text": text}] if failed else answer.parts,
            text=text,
            status=deed.status.value,
            reason=None if deed.reason is None else deed.reason.value,
            error=error,
            dedupe_key=answer.dedupe_key,
            content_hash=answer.content_hash,
            context_id=row.context_id,
            cause_id=row.cause_id,
            chain_id=row.chain_id,
            hop=max(0, row.hop - 1),
        )
        result = None
        if source is not None and not row.recorded:
            result = yield from self.results.result_row(source, about, row.wait_until)
        ends = {"open": 0, "settled_at": now, "reason": deed.reason, "error": error, "via": via}
        row = replace(_after(row, deed, now), **ends, result=None if failed else text)
        if result is not None:
            row = replace(row, result_id=result.id, result_seq=result.seq)
        writes: list[Statement] = [("save_delegation", row), noted(row, fact, now, detail=_beginning(error))]
        writes.append(no_timer(DELEGATION, row.key))
        if failed:
            # What belonged to it belongs to nothing any more, however deep: each is looked at, and ends by that.
            below = yield Read("delegations_below", {"org_id": row.org_id, "parent_id": row.id})
            writes += [timer(DELEGATION, f"{row.org_id}/{each}", now) for (each,) in below]
        if deed.status is Status.FAILED:
            writes.append(("free_delegation_keys", {"source_id": row.source_id, "delegation_id": row.id}))
        if self._history:
            writes.append(("keep_delegation_history", row))
        rings = (wake_key(row.org_id, row.id), org_key(row.org_id), *((TIMERS,) if failed else ()))
        counts = partial(self._counted.ended, *rules.outcome(row))
        entered = Facts([], []) if result is None else result.facts
        events = [_end(row, now), *entered.events]
        return Followed([*writes, *entered.writes], events, (*rings, *entered.rings), then=counts)


def joined(end: Followed, more: list[Facts]) -> Followed:
    """An end with what messages add to it."""
    writes = [*end.writes, *(write for each in more for write in each.writes)]
    events = [*end.events, *(event for each in more for event in each.events)]
    return end._replace(
        writes=writes, events=events, rings=(*end.rings, *(ring for each in more for ring in each.rings))
    )


def living(org: OrgReader, workspace_id: str) -> Workspace | None:
    """A seat, if it is not removed."""
    seat = org.workspace(workspace_id)
    return None if seat is None or seat.removed else seat


def saved(change: Moved) -> Followed:
    """A delegation has moved; nothing, if it has not."""
    if not change.writes:
        return Followed()
    save: list[Statement] = [("save_delegation", change.row)] if change.events else []
    rings = (wake_key(change.row.org_id, change.row.id), org_key(change.row.org_id)) if change.events else ()
    return Followed([*save, *change.writes], change.events, rings)


def noted(row: Delegation, fact: str, now: int, *, late: bool = False, detail: str | None = None) -> Statement:
    """A line of the time line."""
    stands = {"status": row.status.value, "phase": row.phase.value, "attempt": row.attempt}
    line = {"at": now, "fact": str(fact), "late": int(late), "detail": detail}
    return "note_delegation", {"org_id": row.org_id, "delegation_id": row.id, **stands, **line}


def sent(row: Delegation, now: int) -> Event:
    """The first event of every delegation."""
    told = DelegationSent(
        delegation_id=row.id,
        target_id=row.target_id,
        task_preview=rules.cut(row.task, rules.TASK_PREVIEW),
        seq=row.seq,
        root_id=row.root_id,
        depth=row.depth,
        deadline_at=rfc3339(row.deadline_at),
        parent_id=row.parent_id,
        retry_of=row.retry_of,
    )
    return _event(rules.SENT, row, told, now)


def _after(row: Delegation, deed: Deed, now: int) -> Delegation:
    """The row behind one deed. Every deed is a sign of life, and one more revision."""
    is_unsure = deed.status is Status.UNKNOWN and row.status is not Status.UNKNOWN
    return replace(
        row,
        status=deed.status,
        phase=deed.phase,
        attempt=deed.attempt,
        rev=row.rev + 1,
        updated_at=now,
        life_at=now,
        taken_at=now if deed.taken and row.taken_at is None else row.taken_at,
        unsure_at=now if is_unsure else row.unsure_at,
    )


def _status(row: Delegation, now: int, error: str | None) -> Event:
    told = DelegationStatus(
        delegation_id=row.id,
        target_id=row.target_id,
        status=row.status.value,
        phase=row.phase.value,
        attempt=row.attempt,
        taken_at=None if row.taken_at is None else rfc3339(row.taken_at),
        error=_beginning(error),
    )
    return _event(rules.STATUS, row, told, now)


def _end(row: Delegation, now: int) -> Event:
    if row.reason is None:
        preview = rules.cut(row.result or "", rules.RESPONSE_PREVIEW)
        told = DelegationComplete(row.id, row.target_id, preview, row.via or "", row.result_id or "")
        return _event(rules.COMPLETE, row, told, now)
    error, advice = _beginning(row.error) or "", rules.ADVICE[row.reason]
    failed = DelegationFailed(row.id, row.target_id, error, row.reason.value, advice, row.status.value)
    return _event(rules.FAILED, row, failed, now)


def _beginning(text: str | None) -> str | None:
    """As much of what went wrong as an event and a line of a time line say; the row has all of it."""
    return None if text is None else rules.cut(text, rules.LIST_PREVIEW)


def _event(name: str, row: Delegation, told: msgspec.Struct, now: int) -> Event:
    return Event(name, row.source_id, "delegation", row.id, row.rev, msgspec.json.encode(told), now)
