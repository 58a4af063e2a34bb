"""Writes delegations: begin, cancel, retry, record, report, claim the result. Each method is one command."""

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.common.clock import SECOND, Clock, to_rfc3339
from molecule_core.common.errors import CommunicationDenied, InvalidMessage, MessageIdReused, NotFound
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.delegations import rules
from molecule_core.delegations.acceptance import AcceptanceTransitions
from molecule_core.delegations.acceptance_rules import AcceptanceTerms, describe_terms
from molecule_core.delegations.errors import (
    DelegationCycle,
    DelegationLimit,
    DelegationNotEnded,
    NotTheAssignee,
    SelfDelegation,
)
from molecule_core.delegations.model import (
    BEGIN_ENTRY,
    DELEGATION,
    Acceptance,
    Ancestor,
    BeginResult,
    ClaimedResult,
    Delegation,
    DelegationRequest,
    DelegationTrigger,
    GuardRejection,
    ProgressReport,
    delegation_wake_key,
    progress_wake_key,
)
from molecule_core.delegations.transitions import (
    active_workspace,
    apply_trigger,
    count_open,
    load_delegations,
    sent_event,
    timeline_write,
)
from molecule_core.messages.chat_view import message_parts
from molecule_core.messages.delegation_messages import DelegationMessages
from molecule_core.messages.inbox.acks import load_inbox
from molecule_core.messages.model import MessageDraft, Sender
from molecule_core.messages.obligations.model import AnswerTarget, obligation_key
from molecule_core.messages.reader import MessageReader
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import are_related
from molecule_core.store.database import (
    Command,
    CommandSteps,
    CurrentNumber,
    JournalEvent,
    NextNumber,
    ReadQuery,
    RequestBatch,
    Row,
    Statement,
    StepRequest,
    Store,
    T,
    WriteSet,
    write_only,
)
from molecule_core.store.journal import org_key
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer
from molecule_core.wire.schemas.activity import Intent, MessageKind
from molecule_core.wire.schemas.delegations import DelegationRefusedPayload, DelegationStatus

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
        self._starter = DelegationStarter(org, messages, closer.results, clock=clock, ids=ids, limits=limits)

    def begin(self, request: DelegationRequest) -> "asyncio.Future[BeginResult]":
        """Delegate a task to another workspace. The future resolves once the delegation is durable.

        Raises NotFound, WorkspaceRemoved; the future SelfDelegation, CommunicationDenied, MessageIdReused,
        DelegationLimit, DelegationCycle, InboxFull, ChainFrozen, ChainEnded, InvalidMessage."""
        source = self._org.active_workspace(request.source_id)
        draft = self._starter.build_draft(request)
        message_keys = self._messages.send_keys(request.target_id, draft, exclusive=False)
        command_steps = partial(self._starter.decide_begin, request, draft)
        return self._store.run(Command(source.org_id, (("delegates", source.id), *message_keys), command_steps))

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
        return await self.begin(
            DelegationRequest(
                source_id=row.source_id,
                target_id=row.target_id,
                parts=await self._load_parts(row, terms),
                task=row.task,
                sender=Sender(f"workspace:{row.source_id}", row.source_id, by.user_id, by.user_name),
                deadline_seconds=seconds,
                cause_id=row.cause_id,
                context_id=row.context_id,
                retry_of=row.id,
                task_hash=row.task_hash,
                checks=() if terms is None else terms.checks,
                rounds=0 if terms is None else terms.rounds,
            )
        )

    async def _load_terms(self, row: Delegation) -> Acceptance | None:
        if not row.checks:
            return None
        rows = await self._store.rows("acceptance", {"org_id": row.org_id, "delegation_id": row.id})
        return Acceptance.from_row(rows[0])

    async def _load_parts(self, row: Delegation, terms: Acceptance | None) -> list[dict[str, Any]]:
        """Return the task's parts from its message, or its text if that was all and the message is deleted."""
        seq = row.message_seq if terms is None else terms.task_seq
        if seq is not None:
            parts = await self._message_reader.message_parts(row.target_id, seq)
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


class DelegationStarter:
    """Decisions that begin delegations."""

    def __init__(
        self,
        org: OrgReader,
        messages: MessageWriter,
        results: DelegationMessages,
        *,
        clock: Clock,
        ids: IdGenerator,
        limits: Limits,
    ) -> None:
        self._org = org
        self._messages = messages
        self._results = results
        self._clock = clock
        self._ids = ids
        self._limits = limits

    def build_draft(self, request: DelegationRequest) -> MessageDraft:
        """Build the message to the target. Its id is that of the delegation."""
        delegation_id, parts = self._ids.new(), request.parts
        metadata = {**request.metadata, "delegation_id": delegation_id}
        if request.checks:
            terms = AcceptanceTerms(request.checks, request.rounds)
            metadata["accept"], metadata["rounds"] = msgspec.to_builtins(terms.checks), terms.rounds
            parts = [*parts, {"kind": "text", "text": describe_terms(terms)}]
        return MessageDraft(
            sender=request.sender,
            params={"metadata": {}},
            message={"kind": "message", "role": "user", "parts": parts, "metadata": metadata},
            rpc_id=None,
            text=request.task,
            intent=Intent.REQUEST,
            dedupe_key=None,
            context_id=request.context_id,
            trace_parent=request.trace_parent,
            kind=MessageKind.DELEGATION,
            activity_id=delegation_id,
        )

    def decide_begin(self, request: DelegationRequest, draft: MessageDraft) -> CommandSteps[BeginResult]:
        """Decide to delegate, or return the delegation with the same key, or an open one with the same task.

        Raises NotFound, WorkspaceRemoved, SelfDelegation, CommunicationDenied, MessageIdReused, and what sending a
        message raises. DelegationLimit and DelegationCycle also emit an event."""
        source, target = self._check_workspaces(request.source_id, request.target_id)
        now, task_hash = self._clock.now(), request.task_hash or rules.task_hash(request.parts, request.checks)
        duplicate_query = {"source_id": source.id, "target_id": target.id, "task_hash": task_hash}
        key_query = {"org_id": source.org_id, "source_id": source.id, "key": request.key or ""}
        keyed, duplicates = yield RequestBatch(
            [ReadQuery("delegation_by_key", key_query), ReadQuery("open_delegation_of_task", duplicate_query)]
        )
        key_content = f"{target.id} {task_hash}"  # distinguishes a repetition under a key from another request
        # control: delegation-key
        known = self._find_by_key(request, keyed, key_content, now) or (
            Delegation.from_row(duplicates[0]) if duplicates else None
        )
        if known is not None:
            return WriteSet(BeginResult(known, is_duplicate=True))
        lineage, children = yield from self._load_lineage(source, request)
        # control: tree-size
        root_id, max_count = (
            lineage[0].root_id if lineage else draft.activity_id or "",
            self._limits.delegations_per_root,
        )
        if lineage:
            rejection = rules.check_limits(lineage, target.id, task_hash, children, self._limits)
            if rejection is None and (yield CurrentNumber("last_in_root", root_id)) >= max_count:
                rejection = rules.tree_limit_rejection(max_count, self._limits)
            if rejection is not None:
                return self._reject(source, request, rejection, lineage)
        rejection = yield from self._open_rejection(source)
        if rejection is not None:
            return self._reject(source, request, rejection, lineage)
        triggers = yield from self._initial_triggers(target)
        inserted = yield from self._messages.insert_message(target, draft, AnswerTarget(request.cause_id))
        if inserted.error is not None:  # the message froze its chain
            frozen: WriteSet[Any] = inserted
            return frozen
        message = inserted.result
        # After all checks: a rejected delegation must not use up a number.
        root_no = (yield NextNumber("last_in_root", root_id, max_count)) if lineage else 1
        if root_no is None:
            # Commands of the same group took the last number after this one checked. Numbers were taken, so the store
            # decides this command again on its own, and the check above rejects it.
            raise DelegationLimit(**msgspec.structs.asdict(rules.tree_limit_rejection(max_count, self._limits)))
        caller = yield from self._results.insert_caller_row(
            source, message.id, target.id, request.task, request.sender.key
        )
        row = Delegation(
            org_id=source.org_id,
            id=message.id,
            source_id=source.id,
            target_id=target.id,
            task=request.task,
            task_hash=task_hash,
            seq=caller.result.seq,
            activity_id=caller.result.id,
            message_seq=message.seq,
            parent_id=lineage[0].id if lineage else None,
            root_id=root_id,
            root_no=root_no,
            depth=lineage[0].depth + 1 if lineage else 1,
            hop=message.hop,
            chain_id=message.root_id or message.id,
            cause_id=message.cause_id,
            context_id=message.context_id,
            begun_by=request.sender.key,
            retry_of=request.retry_of,
            created_at=now,
            updated_at=now,
            life_at=now,
            deadline_at=rules.deadline_of(request.deadline_seconds, now, self._limits),
            wait_until=now + request.wait_seconds * SECOND if request.wait_seconds else 0,
            checks=len(request.checks),
        )
        messages = caller + inserted
        timeline_writes = [timeline_write(row, BEGIN_ENTRY, now)]
        events = [sent_event(row, now), *messages.events]
        for trigger in triggers:
            moved = apply_trigger(row, trigger, now)
            row = moved.result
            timeline_writes += moved.writes
            events += moved.events
        writes: list[Statement] = [("insert_delegation", row), *count_open(row, 1), *timeline_writes]
        if request.key is not None:
            key = {"source_id": source.id, "key": request.key, "delegation_id": row.id, "created_at": now}
            writes.append(("keep_delegation_key", {**key, "content_hash": key_content}))
        if request.checks:
            writes.append(("insert_acceptance", _acceptance_of(row, request).to_row()))
        writes += messages.writes
        due = rules.next_check_at(row, now, self._limits)
        writes.append(set_timer(DELEGATION, row.key, due))  # control: delegation-timer
        begun = BeginResult(row, held_until=row.wait_until)
        return WriteSet(begun, writes, events, (*messages.notify, TIMERS_KEY))

    def decide_record(
        self, source_id: str, delegation_id: str, target_id: str, task: str, by: Sender
    ) -> CommandSteps[BeginResult]:
        """Decide to record a delegation that was sent by other means. Its id is the caller's; it is a tree of its own.

        Raises as `begin` does for the workspaces, and MessageIdReused."""
        source, target = self._check_workspaces(source_id, target_id)
        now, parts = self._clock.now(), [{"kind": "text", "text": task}]
        task_hash = rules.task_hash(parts)
        for known in (yield from load_delegations(source.org_id, [delegation_id])):
            if (known.source_id, known.target_id, known.task_hash) != (source.id, target.id, task_hash):
                raise MessageIdReused(message_id=delegation_id)
            return WriteSet(BeginResult(known, is_duplicate=True))
        if (rejection := (yield from self._open_rejection(source))) is not None:
            raise DelegationLimit(**msgspec.structs.asdict(rejection))
        caller = yield from self._results.insert_caller_row(source, delegation_id, target.id, task, by.key)
        row = Delegation(
            org_id=source.org_id,
            id=delegation_id,
            source_id=source.id,
            target_id=target.id,
            task=task,
            task_hash=task_hash,
            seq=caller.result.seq,
            activity_id=caller.result.id,
            root_id=delegation_id,
            recorded=1,
            begun_by=by.key,
            created_at=now,
            updated_at=now,
            life_at=now,
            deadline_at=rules.deadline_of(None, now, self._limits),
        )
        writes: list[Statement] = [
            ("insert_delegation", row),
            *count_open(row, 1),
            timeline_write(row, BEGIN_ENTRY, now),
            set_timer(DELEGATION, row.key, row.deadline_at),
        ]
        return WriteSet(BeginResult(row), writes, [sent_event(row, now)], (TIMERS_KEY,)) + caller

    def _open_rejection(self, source: Workspace) -> Generator[StepRequest, Any, GuardRejection | None]:
        """Return the limit of open delegations that a workspace or its organisation has reached, or None."""
        rows = yield ReadQuery("delegation_usage", {"org_id": source.org_id, "workspace_id": source.id})
        return rules.open_rejection({row[0]: row[1] for row in rows}, source.id, self._limits)

    def _check_workspaces(self, source_id: str, target_id: str) -> tuple[Workspace, Workspace]:
        source, target = self._org.active_workspace(source_id), self._org.workspace(target_id)
        # A removed workspace is reported as removed only to those that could see it.
        if target is None or (target.removed and not are_related(self._org, source, target)):
            raise NotFound(what="workspace")
        if source.org_id != target.org_id:
            raise NotFound(what="workspace")
        target = self._org.active_workspace(target_id)
        if source.id == target.id:
            raise SelfDelegation
        if not are_related(self._org, source, target):
            raise CommunicationDenied
        return source, target

    def _find_by_key(
        self, request: DelegationRequest, keyed: list[Row], key_content: str, now: int
    ) -> Delegation | None:
        """Return the delegation that began under the key, if the key is still valid. A failed one has freed its key."""
        if request.key is None or not keyed:
            return None
        content_hash, created_at, *row = keyed[0]
        if not rules.is_key_valid(created_at, now, self._limits):
            return None
        if content_hash != key_content:
            raise MessageIdReused(message_id=request.key)
        return Delegation.from_row(row)

    def _load_lineage(
        self, source: Workspace, request: DelegationRequest
    ) -> Generator[StepRequest, Any, tuple[list[Ancestor], int]]:
        """Return the delegations that the caller works for, its own first, and how many are open below that.

        `cause_id` counts only if that message is in the caller's inbox. A retry has the parent of the ended one, if
        still open."""
        if request.retry_of is not None:
            return (yield from self._load_retry_lineage(source.org_id, request.retry_of))
        cause = yield from self._messages.chains.find_cause(source.id, request.cause_id)
        if cause is None:
            return [], 0
        own = {"org_id": source.org_id}
        delegations, parents = yield RequestBatch(
            [
                ReadQuery("delegation", {**own, "id": cause.id}),
                ReadQuery("delegation_of_result", {"result_id": cause.id, "source_id": source.id}),
            ]
        )
        parent_id = parents[0][0] if parents else None
        if delegations and Delegation.from_row(delegations[0]).target_id == source.id:
            parent_id = cause.id
        if parent_id is None:
            return [], 0
        return (yield from _read_lineage(source.org_id, parent_id))

    def _load_retry_lineage(
        self, org_id: str, retry_of: str
    ) -> Generator[StepRequest, Any, tuple[list[Ancestor], int]]:
        for row in (yield from load_delegations(org_id, [retry_of])):
            if row.parent_id is not None:
                lineage, children = yield from _read_lineage(org_id, row.parent_id)
                if lineage and lineage[0].open:
                    return lineage, children
        return [], 0

    def _initial_triggers(self, target: Workspace) -> Generator[StepRequest, Any, tuple[DelegationTrigger, ...]]:
        """Return the triggers that apply when the delegation begins."""
        if not target.uses_push:
            return (DelegationTrigger.STORED,)
        inbox = yield from load_inbox(target.id)
        ahead = (yield CurrentNumber("last_inbound", target.id)) - inbox.acked_no - inbox.acked_above
        active = self._org.last_heartbeat(target.id).active_tasks
        is_parked = rules.must_park(
            target.status,
            is_limited=target.is_limited(self._clock.now()),
            active=active,
            capacity=target.max_concurrent_tasks,
            ahead=ahead,
        )
        return (DelegationTrigger.PARKED,) if is_parked else ()

    def _reject(
        self, source: Workspace, request: DelegationRequest, rejection: GuardRejection, lineage: list[Ancestor]
    ) -> WriteSet[Any]:
        """Reject the request and emit an event, so that people see it."""
        payload = DelegationRefusedPayload(
            target_id=request.target_id,
            task_preview=rules.truncate_utf8(request.task, rules.TASK_PREVIEW),
            limit=rejection.limit,
            use=rejection.use,
            most=rejection.most,
            remedy=rejection.remedy,
            parent_id=lineage[0].id if lineage else None,
        )
        event = JournalEvent(
            rules.REFUSED, source.id, "refusal", source.id, 0, msgspec.json.encode(payload), self._clock.now()
        )
        kind = DelegationCycle if rejection.limit == "cycle" else DelegationLimit
        error = kind(**msgspec.structs.asdict(rejection))
        return WriteSet(None, [], [event], (org_key(source.org_id),), error=error)  # control: refusal-event


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


def _acceptance_of(row: Delegation, request: DelegationRequest) -> Acceptance:
    return Acceptance(
        org_id=row.org_id,
        delegation_id=row.id,
        checks=request.checks,
        rounds=request.rounds,
        message_id=row.id,
        task_seq=row.message_seq or 0,
    )


def _set_wait_until(row: Delegation, until: int) -> Statement:
    return "wait_for_delegation", {"org_id": row.org_id, "id": row.id, "wait_until": until}


def _read_lineage(org_id: str, parent_id: str) -> Generator[StepRequest, Any, tuple[list[Ancestor], int]]:
    rows, child_counts = yield RequestBatch(
        [
            ReadQuery("delegation_lineage", {"org_id": org_id, "id": parent_id}),
            ReadQuery("delegation_children", {"org_id": org_id, "parent_id": parent_id}),
        ]
    )
    return [Ancestor(*row) for row in rows], child_counts[0][0]
