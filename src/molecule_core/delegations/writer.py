"""Writes delegations: begin, cancel, retry, record, report, claim the result. Each method is one command.

What begins a delegation is decided in `starter`."""

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.common.clock import SECOND, Clock, to_rfc3339
from molecule_core.common.errors import InvalidMessage, NotFound
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.delegations import rules
from molecule_core.delegations.acceptance import AcceptanceTransitions
from molecule_core.delegations.errors import DelegationNotEnded, NotTheAssignee
from molecule_core.delegations.model import (
    DELEGATION,
    Acceptance,
    BeginResult,
    ClaimedResult,
    Delegation,
    DelegationRequest,
    DelegationTrigger,
    ProgressReport,
    delegation_wake_key,
    progress_wake_key,
)
from molecule_core.delegations.scopes import parse_scope, without_scope_text
from molecule_core.delegations.starter import DelegationStarter
from molecule_core.delegations.transitions import active_workspace, apply_trigger, load_delegations
from molecule_core.messages.chat_view import message_parts
from molecule_core.messages.model import Sender
from molecule_core.messages.obligations.model import obligation_key
from molecule_core.messages.reader import MessageReader
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import (
    Command,
    CommandSteps,
    ReadQuery,
    Statement,
    StepRequest,
    Store,
    T,
    WriteSet,
    write_only,
)
from molecule_core.store.journal import org_key
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer
from molecule_core.wire.schemas.delegation_scope import DelegationScope
from molecule_core.wire.schemas.delegations import DelegationStatus

VIA_UPDATE = "update"
"""The `via` of a delegation whose end was reported by one of its sides without an answer to the message."""


class DelegationWriter:
    """Writer of delegations."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        messages: MessageWriter,
        message_reader: MessageReader,
        acceptance: AcceptanceTransitions,
        *,
        clock: Clock,
        ids: IdGenerator,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = org
        self._acceptance = acceptance
        self._messages = messages
        self._message_reader = message_reader
        self._closer = closer = acceptance.closer
        self._results = closer.results
        self._clock = clock
        self._limits = limits
        self._starter = DelegationStarter(
            org, messages, closer.results, closer.scopes, acceptance.runner_checks, clock=clock, ids=ids, limits=limits
        )

    def begin(self, request: DelegationRequest) -> "asyncio.Future[BeginResult]":
        """Delegate a task to another workspace. The future resolves once the delegation is durable.

        Raises NotFound, WorkspaceRemoved; the future SelfDelegation, CommunicationDenied, MessageIdReused,
        DelegationLimit, DelegationCycle, InboxFull, ChainFrozen, ChainEnded, InvalidMessage."""
        org_id, keys, steps = self.prepare_begin(request)
        return self._store.run(Command(org_id, keys, steps))

    def prepare_begin(
        self, request: DelegationRequest
    ) -> tuple[str, tuple[tuple[str, ...], ...], Callable[[], CommandSteps[BeginResult]]]:
        """Return the organisation, the keys and the steps of a command that begins a delegation.

        Called by a command that does more in the same transaction. Raises NotFound, WorkspaceRemoved; the steps raise
        as `begin` does."""
        source = self._org.active_workspace(request.source_id)
        draft = self._starter.build_draft(request)
        message_keys = self._messages.send_keys(request.target_id, draft, exclusive=False)
        steps = partial(self._starter.decide_begin, request, draft)
        return source.org_id, (("delegates", source.id), *message_keys), steps

    async def is_key_known(self, org_id: str, source_id: str, key: str) -> bool:
        """Return whether a repeated request with this idempotency key returns the existing delegation."""
        rows = await self._store.rows("delegation_by_key", {"org_id": org_id, "source_id": source_id, "key": key})
        return bool(rows) and rules.is_key_valid(rows[0][1], self._clock.now(), self._limits)

    async def cancel(self, row: Delegation, by: Sender, reason: str) -> Delegation:
        """Cancel a delegation and notify its target; an ended one stays unchanged."""

        def decide(known: Delegation, now: int) -> CommandSteps[Delegation]:
            is_caller = by.workspace_id == known.source_id
            via = rules.VIA_CALLER if is_caller else rules.VIA_PERSON
            # Without a reason, the explanation is the server's own.
            author = (
                ""
                if not reason
                else self._org.active_workspace(known.source_id).name
                if is_caller
                else (by.user_name or "a person")
            )
            trigger, explanation = DelegationTrigger.CANCELLED, reason or "no reason was given"
            return (yield from self._closer.close_unanswered(known, trigger, explanation, via, now, author=author))

        return await self._run_command(row, decide)

    async def retry(self, row: Delegation, by: Sender) -> BeginResult:
        """Begin an ended delegation again: same task and files, target and time allowed.

        The new one has the same parent if that is still open. Raises DelegationNotEnded, and as `begin`; InvalidMessage
        if the task's files are no longer stored."""
        if not row.status.is_ended:
            raise DelegationNotEnded(status=row.status.value)
        seconds = (row.deadline_at - row.created_at) // SECOND
        terms = await self._load_terms(row)
        rows = await self._store.rows("delegation_scope", {"org_id": row.org_id, "delegation_id": row.id})
        scope = parse_scope(rows[0][0]) if rows else None
        return await self.begin(
            DelegationRequest(
                source_id=row.source_id,
                target_id=row.target_id,
                parts=await self._load_parts(row, terms, scope),
                task=row.task,
                sender=Sender(f"workspace:{row.source_id}", row.source_id, by.user_id, by.user_name),
                deadline_seconds=seconds,
                cause_id=row.cause_id,
                context_id=row.context_id,
                retry_of=row.id,
                task_hash=row.task_hash,
                checks=() if terms is None else terms.checks,
                rounds=0 if terms is None else terms.rounds,
                may=scope,
            )
        )

    async def _load_terms(self, row: Delegation) -> Acceptance | None:
        if not row.checks:
            return None
        rows = await self._store.rows("acceptance", {"org_id": row.org_id, "delegation_id": row.id})
        return Acceptance.from_row(rows[0])

    async def _load_parts(
        self, row: Delegation, terms: Acceptance | None, scope: DelegationScope | None
    ) -> list[dict[str, Any]]:
        """Return the task's parts from its message, or its text if that was all and the message is deleted."""
        seq = row.message_seq if terms is None else terms.task_seq
        if seq is not None:
            parts = await self._message_reader.message_parts(row.target_id, seq)
            if parts is not None and scope is not None:
                parts = without_scope_text(parts, scope)
            if parts is not None:  # the last part of a task with checks lists them
                return parts if terms is None else parts[:-1]
        text = [{"kind": "text", "text": row.task}]
        if rules.task_hash(text, () if terms is None else terms.checks) != row.task_hash:
            raise InvalidMessage(reason="the files of this task are deleted. Delegate the task again, with its files.")
        return text

    # -- reports of the two sides --------------------------------------------------------------------------------------

    async def record(self, source_id: str, delegation_id: str, target_id: str, task: str, by: Sender) -> BeginResult:
        """Record a delegation that a workspace sent by other means; no message is sent.

        The same request again returns the first one. Raises NotFound, WorkspaceRemoved, SelfDelegation,
        CommunicationDenied, MessageIdReused."""
        org_id = self._org.active_workspace(source_id).org_id
        command_steps = partial(self._starter.decide_record, source_id, delegation_id, target_id, task, by)
        keys = (("delegates", source_id), (DELEGATION, f"{org_id}/{delegation_id}"))
        return await self._store.run(Command(org_id, keys, command_steps))

    async def update(self, row: Delegation, by: Sender, status: str, text: str | None, error: str | None) -> Delegation:
        """Record the outcome (`completed` or `failed`) as reported by the target, or by the source if it recorded it.

        The same report again changes nothing. Raises NotTheAssignee."""
        is_worker = by.workspace_id == (row.source_id if row.recorded else row.target_id)
        if not is_worker:
            raise NotTheAssignee

        def decide(known: Delegation, now: int) -> CommandSteps[Delegation]:
            done = status == DelegationStatus.COMPLETED
            final_text = (text if done else error) or ""
            stored_text = known.result if done else known.error
            if known.via == VIA_UPDATE and (known.status.value, stored_text) == (status, final_text):
                return WriteSet(known)
            if known.checks and known.open and done:
                return (yield from self._acceptance.submit_report(known, final_text, VIA_UPDATE, now))
            if known.recorded:
                trigger = DelegationTrigger.REPORTED_DONE if done else DelegationTrigger.REPORTED_FAILED
            else:
                trigger = DelegationTrigger.ANSWERED if done else DelegationTrigger.DECLINED
            return (
                yield from self._closer.close_unanswered(known, trigger, final_text, VIA_UPDATE, now, by_target=True)
            )

        return await self._run_command(row, decide)

    async def report_progress(self, row: Delegation, by: Sender, report: ProgressReport) -> Delegation:
        """Store the target's newest progress; what it leaves out stays. Raises NotTheAssignee.

        An ended delegation stays unchanged."""
        check_worker(row, by)

        def decide(known: Delegation, now: int) -> CommandSteps[Delegation]:
            if known.status.is_ended:
                return WriteSet(known)
            stored = yield ReadQuery("delegation_progress_of", {"org_id": known.org_id, "delegation_id": known.id})
            before = msgspec.json.decode(stored[0][1], type=ProgressReport) if stored else ProgressReport()
            moved = apply_trigger(known, DelegationTrigger.PROGRESS, now)
            new = replace(moved.result, life_at=now)
            progress_row = {
                "org_id": new.org_id,
                "delegation_id": new.id,
                "at": now,
                "said": msgspec.json.encode(before.merge(report)).decode(),
            }
            writes = [("save_delegation", new), *moved.writes, ("keep_progress", progress_row)]
            notify = (delegation_wake_key(new.org_id, new.id), org_key(new.org_id)) if moved.events else ()
            return WriteSet(new, writes, moved.events, (*notify, progress_wake_key(new.org_id)))

        return await self._run_command(row, decide)

    # -- waiting for the result ----------------------------------------------------------------------------------------

    async def hold_result(self, row: Delegation, seconds: int) -> int:
        """Keep the result out of the inbox while a caller waits; the longest wait counts.

        Returns the end of this wait in microseconds, or 0 if the delegation has ended."""

        def decide(known: Delegation, now: int) -> CommandSteps[int]:
            yield from ()
            if known.status.is_ended:
                return WriteSet(0)
            until = now + seconds * SECOND
            return WriteSet(until, [_set_wait_until(known, until)] if until > known.wait_until else [])

        return await self._run_command(row, decide)

    async def release_hold(self, row: Delegation, until: int) -> None:
        """End a caller's wait: unless another caller waits longer, the result goes to the inbox."""

        def decide(known: Delegation, now: int) -> CommandSteps[None]:
            if known.wait_until != until:
                return WriteSet(None)
            source, written = active_workspace(self._org, known.source_id), WriteSet(None, [_set_wait_until(known, 0)])
            if source is None or known.result_seq is None:
                return written
            return written + (yield from self._results.release_result(source, known.result_seq, until))

        await self._run_command(row, decide, ("inbox", row.source_id))

    async def claim_result(self, row: Delegation, until: int) -> ClaimedResult:
        """Claim the result for a waiting caller, if there is one.

        It is delivered exactly once: by this response, or by the inbox if it was claimed there or has files or data
        beside its text. A result that was handled before is only repeated."""

        def decide(known: Delegation, now: int) -> CommandSteps[ClaimedResult]:
            if not known.status.is_ended:
                return WriteSet(ClaimedResult(known, "", ""))
            source, text = active_workspace(self._org, known.source_id), result_text(known)
            if source is None or known.result_seq is None:
                return WriteSet(ClaimedResult(known, text, "here"))
            held_until = max(until, known.wait_until)
            claimed = yield from self._results.claim_result(source, known.result_seq, held_until)
            if claimed.result == "here" and (yield from _has_other_parts(known)):
                released = yield from self._results.release_result(source, known.result_seq, held_until)
                claimed = released.returning("inbox")
            delivered = claimed.result
            return claimed.returning(ClaimedResult(known, "" if delivered == "inbox" else text, delivered))

        return await self._run_command(row, decide, ("inbox", row.source_id))

    # -- timers --------------------------------------------------------------------------------------------------------

    async def on_due(self, key: str) -> None:
        """Handle a due timer: close the delegation if it must end, else set the timer to the next check."""
        org_id, _, delegation_id = key.partition("/")
        rows = await self._store.rows("delegation", {"org_id": org_id, "id": delegation_id})
        if not rows:
            timer_cancelled = WriteSet(None, [cancel_timer(DELEGATION, key)])
            return await self._store.run(Command(org_id, (), partial(write_only, timer_cancelled)))
        await self._run_command(Delegation.from_row(rows[0]), self._decide_due)
        return None

    def _decide_due(self, row: Delegation, now: int) -> CommandSteps[Delegation]:
        if row.status.is_ended:
            return WriteSet(row, [cancel_timer(DELEGATION, row.key)])
        query = {"org_id": row.org_id, "id": row.id}
        lost = [] if row.parent_id is None else (yield ReadQuery("ended_ancestors", query))
        found = self._due_trigger(row, now, is_lost=bool(lost))
        if found is None:
            due = rules.next_check_at(row, now, self._limits)
            if due <= now:  # whether the message arrived is asked again when the target can have answered
                due = min(
                    row.deadline_at, self._limited_until(row, now) + self._limits.delegation_unknown_seconds * SECOND
                )
            due = max(due, now + 1)
            return WriteSet(row, [set_timer(DELEGATION, row.key, due)], notify=(TIMERS_KEY,))
        return (yield from self._closer.close_unanswered(row, *found, "timer", now))

    def _due_trigger(self, row: Delegation, now: int, *, is_lost: bool) -> tuple[DelegationTrigger, str] | None:
        if active_workspace(self._org, row.target_id) is None:
            return DelegationTrigger.TARGET_REMOVED, "the target was removed"
        if is_lost or active_workspace(self._org, row.source_id) is None:
            return DelegationTrigger.CANCELLED, "its parent task has ended"
        limited_until = self._limited_until(row, now)
        if row.deadline_at <= now:  # control: deadline-due
            why = f"; the target is limited until {to_rfc3339(limited_until)}" if limited_until else ""
            return DelegationTrigger.EXPIRED, f"its deadline has passed{why}"
        if (
            not limited_until
            and rules.is_outcome_unknown(row)
            and (row.unsure_at or now) + self._limits.delegation_unknown_seconds * SECOND <= now
        ):
            return DelegationTrigger.OUTCOME_UNKNOWN_TOO_LONG, "it was sent, but no response arrived"
        return None

    def _limited_until(self, row: Delegation, now: int) -> int:
        """Return until when the target is limited; 0: it is not."""
        target = active_workspace(self._org, row.target_id)
        return target.limited_until or 0 if target is not None and target.is_limited(now) else 0

    # -- commands ------------------------------------------------------------------------------------------------------

    async def _run_command(
        self, row: Delegation, decide: Callable[[Delegation, int], CommandSteps[T]], *extra_keys: tuple[str, ...]
    ) -> T:
        """Run a command on the current row of a delegation."""

        def command_steps() -> CommandSteps[T]:
            for known in (yield from load_delegations(row.org_id, [row.id])):
                return (yield from decide(known, self._clock.now()))
            raise NotFound(what="delegation")  # deleted by retention

        return await self._store.run(Command(row.org_id, (*command_keys(row), *extra_keys), command_steps))


def command_keys(row: Delegation) -> tuple[tuple[str, ...], ...]:
    """Return the keys of a command on a delegation: those by which its target handles the message, and its own."""
    return ("inbox", row.target_id), obligation_key(row.target_id, row.source_id), (DELEGATION, row.key)


def check_worker(row: Delegation, by: Sender) -> None:
    """Raise NotTheAssignee unless `by` is the target of a delegation that was sent."""
    if by.workspace_id != row.target_id or row.recorded:
        raise NotTheAssignee


def result_text(row: Delegation) -> str:
    """Return the text that the caller of an ended delegation reads."""
    if row.reason is None:
        return row.result or ""
    return rules.failure_text(row.reason, row.error or "", row.via)


def _has_other_parts(row: Delegation) -> Generator[StepRequest, Any, bool]:
    """Return whether the result came with files or data. Only an answer can."""
    if row.status is not DelegationStatus.COMPLETED:
        return False
    rows = yield ReadQuery("delegation_answer", {"source_id": row.source_id, "seq": row.result_seq})
    return any(part.get("kind") != "text" for (body,) in rows if body is not None for part in message_parts(body))


def _set_wait_until(row: Delegation, until: int) -> Statement:
    return "wait_for_delegation", {"org_id": row.org_id, "id": row.id, "wait_until": until}
