"""Turns state transitions of delegations into writes and events. Contains no decisions."""

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.common.clock import to_optional_rfc3339, to_rfc3339
from molecule_core.common.metrics import DelegationMeter
from molecule_core.delegations import rules
from molecule_core.delegations.model import (
    DELEGATION,
    Acceptance,
    Delegation,
    DelegationPhase,
    DelegationTransition,
    DelegationTrigger,
    delegation_wake_key,
)
from molecule_core.delegations.scopes import ScopeCache
from molecule_core.messages.delegation_messages import DelegationMessages, ResultContent
from molecule_core.messages.events import AnswerContent, ReviewsDropped
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import (
    CommandSteps,
    JournalEvent,
    ReadQuery,
    RequestBatch,
    Statement,
    StepRequest,
    WriteSet,
)
from molecule_core.store.journal import org_key
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer
from molecule_core.wire.schemas.acceptance import CheckEvidence
from molecule_core.wire.schemas.delegation_scope import DelegationScope
from molecule_core.wire.schemas.delegations import (
    DelegationCompletePayload,
    DelegationFailedPayload,
    DelegationSentPayload,
    DelegationStatus,
    DelegationStatusPayload,
)


def load_delegations(org_id: str, ids: list[str]) -> Generator[StepRequest, Any, list[Delegation]]:
    """Read the delegations of these ids in one batch; unknown ids are left out."""
    found = yield RequestBatch([ReadQuery("delegation", {"org_id": org_id, "id": each}) for each in ids])
    return [Delegation.from_row(rows[0]) for rows in found if rows]


def load_by_message(org_id: str, ids: list[str]) -> Generator[StepRequest, Any, list[tuple[str, Delegation]]]:
    """Read the delegations that messages carry, each with the id of its message; unknown ids are left out.

    The message with the task has the id of its delegation. The others are those that returned an answer."""
    loaded = yield from load_delegations(org_id, ids)
    if len(loaded) == len(ids):
        return list(zip(ids, loaded, strict=True))
    rows = {row.id: row for row in loaded}
    found = [(each, rows[each]) for each in ids if each in rows]
    others = [each for each in ids if each not in rows]
    queries = [ReadQuery("delegation_of_message", {"org_id": org_id, "message_id": each}) for each in others]
    known = yield RequestBatch(queries)
    returned = {each: row[0][0] for each, row in zip(others, known, strict=True) if row and row[0][0] not in rows}
    by_id = {row.id: row for row in (yield from load_delegations(org_id, list(returned.values())))}
    return found + [(each, by_id[id_]) for each, id_ in returned.items() if id_ in by_id]


def load_acceptance(row: Delegation) -> Generator[StepRequest, Any, Acceptance]:
    """Read the checks of a delegation that has some."""
    rows = yield ReadQuery("acceptance", {"org_id": row.org_id, "delegation_id": row.id})
    return Acceptance.from_row(rows[0])


def apply_trigger(
    row: Delegation, trigger: DelegationTrigger, now: int, *, attempt: int = 0, detail: str | None = None
) -> WriteSet[Delegation]:
    """Apply a trigger that does not end the delegation. The new row is not saved yet; no writes if nothing changes."""
    writes, events = list[Statement](), list[JournalEvent]()
    for transition in rules.transitions_for(row.state, trigger, attempt=attempt):
        if transition.is_late:
            writes.append(timeline_write(row, trigger, now, is_late=True, detail=detail))
            continue
        row = _updated_row(row, transition, now)
        writes.append(timeline_write(row, trigger, now, detail=detail))
        events.append(_status_event(row, now, detail))
    return WriteSet(row, writes, events)


class DelegationCloser:
    """Transitions that end delegations.

    `history`: whether each end also writes an analytics row, which nothing else reads."""

    def __init__(
        self,
        org: OrgReader,
        results: DelegationMessages,
        scopes: ScopeCache,
        meter: DelegationMeter,
        *,
        history: bool,
    ) -> None:
        self._org = org
        self.scopes = scopes
        self.results = results
        self._meter = meter
        self._history = history

    def close_unanswered(
        self,
        row: Delegation,
        trigger: DelegationTrigger,
        explanation: str,
        via: str,
        now: int,
        *,
        by_target: bool = False,
        author: str = "",
    ) -> CommandSteps[Delegation]:
        """Close a delegation by other means than an answer to its message; return it unchanged if it has ended.

        The message is withdrawn. An agent that claimed it is notified, unless it reported the end itself (`by_target`).
        `author`: whose words the explanation is; empty: the server's own.
        """
        for transition in rules.transitions_for(row.state, trigger):
            if transition.is_late:
                return (
                    yield from self._record_late(row, trigger, explanation, now, is_kept=by_target and not row.recorded)
                )
            answer = self.results.system_answer(row.target_id, explanation, row.context_id)
            closed = yield from self.close(row, trigger, transition, answer, via, now)
            return closed + (
                yield from self._withdraw_message(row, transition, explanation, by_target=by_target, author=author)
            )
        return WriteSet(row)

    def _record_late(
        self, row: Delegation, trigger: DelegationTrigger, explanation: str, now: int, *, is_kept: bool
    ) -> CommandSteps[Delegation]:
        """Record a trigger that came after the end. The target's text is stored once, in the target's own log."""
        recorded = WriteSet(
            row, [timeline_write(row, trigger, now, is_late=True, detail=rules.preview_of(explanation))]
        )
        target = active_workspace(self._org, row.target_id) if is_kept else None
        if target is None:
            return recorded
        answer = replace(
            self.results.system_answer(row.target_id, explanation, row.context_id), dedupe_key=f"update:{row.id}"
        )
        if (yield ReadQuery("message_by_dedupe_key", {"sender": answer.sender, "dedupe_key": answer.dedupe_key})):
            return WriteSet(row)
        return recorded + (yield from self.results.insert_late_answer(target, row.source_id, row.id, answer))

    def _withdraw_message(
        self, row: Delegation, transition: DelegationTransition, explanation: str, *, by_target: bool, author: str
    ) -> CommandSteps[object]:
        """Withdraw the message to the target; if it was delivered already, notify the target."""
        target = active_workspace(self._org, row.target_id)
        if target is None or row.message_seq is None:
            return WriteSet(None)
        why = transition.reason.value if transition.reason is not None else transition.status.value
        withdrawn = yield from self.results.withdraw(target, row.message_seq, why, by_target=by_target)
        was_delivered = withdrawn.result
        if not was_delivered or by_target:
            return withdrawn
        source = self._org.workspace(row.source_id)
        text = rules.end_notice(row, "" if source is None else source.name, why, explanation, author)
        details = {"delegation_id": row.id}
        return withdrawn + (yield from self.results.insert_system_notice(target, row.source_id, text, details))

    def close(
        self,
        row: Delegation,
        trigger: DelegationTrigger,
        transition: DelegationTransition,
        answer: AnswerContent,
        via: str,
        now: int,
        evidence: Sequence[CheckEvidence] = (),
    ) -> CommandSteps[Delegation]:
        """Close a delegation with an answer and put the result into its source's inbox.

        Writes the row, a timeline entry and one end event. A removed source gets no result. `answer`: the target's own,
        or a system answer that explains the end. `evidence`: what the checks found in the last answer."""
        failed, source = transition.status is not DelegationStatus.COMPLETED, active_workspace(self._org, row.source_id)
        dropped = yield from _drop_reviews(row, trigger)
        error = answer.text if failed else None
        text = (
            rules.failure_text(transition.reason, answer.text, via)
            if failed and transition.reason is not None
            else answer.text
        )
        content = ResultContent(
            id=answer.id,
            delegation_id=row.id,
            target_id=row.target_id,
            parts=[{"kind": "text", "text": text}] if failed else answer.parts,
            text=text,
            status=transition.status.value,
            reason=None if transition.reason is None else transition.reason.value,
            error=error,
            dedupe_key=answer.dedupe_key,
            content_hash=answer.content_hash,
            context_id=row.context_id,
            cause_id=row.cause_id,
            chain_id=row.chain_id,
            hop=max(0, row.hop - 1),
            verified=None if failed or row.recorded else row.checks > 0,
            evidence=evidence,
        )
        inserted = None
        if source is not None and not row.recorded:
            inserted = yield from self.results.insert_result(source, content, row.wait_until)
        ends = {"open": 0, "settled_at": now, "reason": transition.reason, "error": error, "via": via}
        row = replace(_updated_row(row, transition, now), **ends, result=None if failed else text)
        if inserted is not None:
            row = replace(row, result_id=inserted.result.id, result_seq=inserted.result.seq)
        writes: list[Statement] = [
            ("save_delegation", row),
            timeline_write(row, trigger, now, detail=rules.preview_of(error)),
        ]
        writes += [*count_open(row, -1), cancel_timer(DELEGATION, row.key)]
        if failed:
            # Nothing below a failed delegation is needed any more: an immediate check ends each, at any depth.
            below = yield ReadQuery("delegations_below", {"org_id": row.org_id, "parent_id": row.id})
            writes += [set_timer(DELEGATION, f"{row.org_id}/{each}", now) for (each,) in below]
        if transition.status is DelegationStatus.FAILED:
            writes.append(("free_delegation_keys", {"source_id": row.source_id, "delegation_id": row.id}))
        if self._history:
            writes.append(("keep_delegation_history", row))
        notify = (delegation_wake_key(row.org_id, row.id), org_key(row.org_id), *((TIMERS_KEY,) if failed else ()))
        after_commit = partial(self._meter.count_end, *rules.outcome_labels(row))
        closed = WriteSet(row, writes, [_end_event(row, now)], notify, after_commit)
        for each in (self.scopes.end(row), dropped, inserted):
            if each is not None:
                closed += each
        return closed


def _drop_reviews(row: Delegation, trigger: DelegationTrigger) -> Generator[StepRequest, Any, WriteSet[None] | None]:
    """Drop the open reviews of a delegation that ends otherwise than by its checks; None if there are none."""
    by_checks = (DelegationTrigger.PROVEN, DelegationTrigger.UNPROVEN)
    if not row.checks or row.phase is not DelegationPhase.CHECKING or trigger in by_checks:
        return None
    answer = (yield from load_acceptance(row)).answer
    ids = () if answer is None else tuple(answer.open_reviews.values())
    return WriteSet(None, domain_events=[ReviewsDropped(ids, "the task has ended")]) if ids else None


def active_workspace(org: OrgReader, workspace_id: str) -> Workspace | None:
    """Return a workspace, or None if it is unknown or removed."""
    workspace = org.workspace(workspace_id)
    return None if workspace is None or workspace.removed else workspace


def count_open(row: Delegation, count: int) -> list[Statement]:
    """Return the statements that add to the open delegations of a source and of its organisation."""
    return [
        ("add_open_delegations", {"org_id": row.org_id, "workspace_id": each, "count": count})
        for each in (row.source_id, "")
    ]


def save_transition(pending: WriteSet[Delegation]) -> WriteSet[Delegation]:
    """Add to an applied trigger what stores its new row, if that has changed."""
    if not pending.events:
        return pending
    row = pending.result
    notify = (delegation_wake_key(row.org_id, row.id), org_key(row.org_id))
    return WriteSet(row, [("save_delegation", row)], notify=notify) + pending


def timeline_write(
    row: Delegation, trigger: str, now: int, *, is_late: bool = False, detail: str | None = None
) -> Statement:
    """Return the statement that adds a timeline entry."""
    state = {"status": row.status.value, "phase": row.phase.value, "attempt": row.attempt}
    entry = {"at": now, "fact": str(trigger), "late": int(is_late), "detail": detail}
    return "append_timeline_entry", {"org_id": row.org_id, "delegation_id": row.id, **state, **entry}


def sent_event(row: Delegation, now: int, scope: DelegationScope | None = None) -> JournalEvent:
    """Return the first event of a delegation."""
    payload = DelegationSentPayload(
        delegation_id=row.id,
        target_id=row.target_id,
        task_preview=rules.truncate_utf8(row.task, rules.TASK_PREVIEW),
        seq=row.seq,
        root_id=row.root_id,
        depth=row.depth,
        deadline_at=to_rfc3339(row.deadline_at),
        parent_id=row.parent_id,
        retry_of=row.retry_of,
        may=scope,
    )
    return _make_event(rules.SENT, row, payload, now)


def _updated_row(row: Delegation, transition: DelegationTransition, now: int) -> Delegation:
    """Return the row after a transition. Each one increments `rev` and updates `life_at`."""
    is_unsure = transition.status is DelegationStatus.UNKNOWN and row.status is not DelegationStatus.UNKNOWN
    return replace(
        row,
        status=transition.status,
        phase=transition.phase,
        attempt=transition.attempt,
        rev=row.rev + 1,
        updated_at=now,
        life_at=now,
        taken_at=now if transition.is_claimed and row.taken_at is None else row.taken_at,
        unsure_at=now if is_unsure else row.unsure_at,
    )


def _status_event(row: Delegation, now: int, error: str | None) -> JournalEvent:
    payload = DelegationStatusPayload(
        delegation_id=row.id,
        target_id=row.target_id,
        status=row.status.value,
        phase=row.phase.value,
        attempt=row.attempt,
        taken_at=to_optional_rfc3339(row.taken_at),
        error=rules.preview_of(error),
    )
    return _make_event(rules.STATUS, row, payload, now)


def _end_event(row: Delegation, now: int) -> JournalEvent:
    if row.reason is None:
        preview = rules.truncate_utf8(row.result or "", rules.RESPONSE_PREVIEW)
        payload = DelegationCompletePayload(
            row.id, row.target_id, preview, row.via or "", row.result_id or "", verified=row.checks > 0
        )
        return _make_event(rules.COMPLETE, row, payload, now)
    error, advice = rules.preview_of(row.error) or "", rules.ADVICE[row.reason]
    failed = DelegationFailedPayload(row.id, row.target_id, error, row.reason.value, advice, row.status.value)
    return _make_event(rules.FAILED, row, failed, now)


def _make_event(name: str, row: Delegation, payload: msgspec.Struct, now: int) -> JournalEvent:
    return JournalEvent(name, row.source_id, "delegation", row.id, row.rev, msgspec.json.encode(payload), now)
