"""Decides what begins a delegation: whether it may, within which limits and scope, and what is written.

Called by `writer.DelegationWriter`, whose commands run the decisions.
"""

from collections.abc import Generator, Sequence
from typing import Any

import msgspec

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import CommunicationDenied, InvalidMessage, MessageIdReused, NotFound
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.delegations import rules
from molecule_core.delegations.acceptance_rules import (
    AcceptanceTerms,
    command_problem,
    commands_of,
    describe_terms,
    reviewer_problem,
    reviews_of,
)
from molecule_core.delegations.errors import DelegationCycle, DelegationLimit, ScopeExceeded, SelfDelegation
from molecule_core.delegations.model import (
    BEGIN_ENTRY,
    DELEGATION,
    Acceptance,
    Ancestor,
    BeginResult,
    Delegation,
    DelegationRequest,
    DelegationTrigger,
    GuardRejection,
)
from molecule_core.delegations.scopes import MAY, ScopeCache, check_duplicate, decide_scope, with_scope
from molecule_core.delegations.transitions import (
    apply_trigger,
    count_open,
    load_delegations,
    sent_event,
    timeline_write,
)
from molecule_core.messages.delegation_messages import DelegationMessages
from molecule_core.messages.inbox.acks import load_inbox
from molecule_core.messages.model import MessageDraft, Sender
from molecule_core.messages.obligations.model import AnswerTarget
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import are_related
from molecule_core.runners.checks import RunnerChecks
from molecule_core.store.database import (
    CommandSteps,
    CurrentNumber,
    JournalEvent,
    NextNumber,
    ReadQuery,
    RequestBatch,
    Row,
    Statement,
    StepRequest,
    WriteSet,
)
from molecule_core.store.journal import org_key
from molecule_core.store.timers import TIMERS_KEY, set_timer
from molecule_core.wire.schemas.acceptance import AcceptanceCheck
from molecule_core.wire.schemas.activity import Intent, MessageKind
from molecule_core.wire.schemas.delegations import DelegationRefusedPayload


class DelegationStarter:
    """Decisions that begin delegations."""

    def __init__(
        self,
        org: OrgReader,
        messages: MessageWriter,
        results: DelegationMessages,
        scopes: ScopeCache,
        runner_checks: RunnerChecks,
        *,
        clock: Clock,
        ids: IdGenerator,
        limits: Limits,
    ) -> None:
        self._org = org
        self._messages = messages
        self._results = results
        self._scopes = scopes
        self._runner_checks = runner_checks
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
        message raises. DelegationLimit, DelegationCycle and ScopeExceeded also emit an event."""
        source, target = self._check_workspaces(request.source_id, request.target_id)
        yield from self._check_parties(request.checks, source, target)
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
            wider = yield from check_duplicate(known, request)
            duplicate = WriteSet(BeginResult(known, is_duplicate=True))
            return duplicate if wider is None else self._reject(source, request, wider, [])
        lineage, children = yield from self._load_lineage(source, request)
        decided = yield from decide_scope(self._scopes, source, request, lineage, now)
        rejection = decided.rejection
        # control: tree-size
        root_id, max_count = (
            lineage[0].root_id if lineage else draft.activity_id or "",
            self._limits.delegations_per_root,
        )
        if lineage and rejection is None:
            rejection = rules.check_limits(lineage, target.id, task_hash, children, self._limits)
            if rejection is None and (yield CurrentNumber("last_in_root", root_id)) >= max_count:
                rejection = rules.tree_limit_rejection(max_count, self._limits)
        rejection = rejection or (yield from self._open_rejection(source))
        if rejection is not None:
            return self._reject(source, request, rejection, lineage)
        triggers = yield from self._initial_triggers(target)
        scope, draft = decided.scope, with_scope(draft, decided.scope)
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
            deadline_at=decided.deadline(rules.deadline_of(request.deadline_seconds, now, self._limits)),
            wait_until=now + request.wait_seconds * SECOND if request.wait_seconds else 0,
            checks=len(request.checks),
        )
        messages = caller + inserted
        timeline_writes = [timeline_write(row, BEGIN_ENTRY, now)]
        events = [sent_event(row, now, scope), *messages.events]
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
        written = WriteSet(
            BeginResult(row, held_until=row.wait_until, may=scope), writes, events, (*messages.notify, TIMERS_KEY)
        )
        return written if scope is None else written + self._scopes.insert(row, scope)

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

    def _check_parties(
        self, checks: Sequence[AcceptanceCheck], source: Workspace, target: Workspace
    ) -> Generator[StepRequest, Any, None]:
        """Check that the reviewers and runners that checks need are there. Raises InvalidMessage."""
        if not checks:
            return
        for number, check in reviews_of(checks).items():
            if check.reviewer_id:
                why = reviewer_problem(self._org.workspace(check.reviewer_id), source, target, self._org)
                if why is not None:
                    raise InvalidMessage(reason=f"check {number} of accept (review) is not valid: {why}")
        commands = commands_of(checks)
        if not commands:
            return
        offers = yield from self._runner_checks.find_offers(target.org_id, target.id, self._clock.now())
        for number, command in commands.items():
            if (why := command_problem(command, offers, target.name)) is not None:
                raise InvalidMessage(reason=f"check {number} of accept (command) is not valid: {why}")

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
        if parent_id is None and not parents and cause.source_id is not None:
            # An answer that failed its checks may have come back as a message of the same delegation.
            returned = yield ReadQuery("delegation_of_message", {**own, "message_id": cause.id})
            parent_id = returned[0][0] if returned else None
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
        kind = {"cycle": DelegationCycle, MAY: ScopeExceeded}.get(rejection.limit, DelegationLimit)
        error = kind(**msgspec.structs.asdict(rejection))
        return WriteSet(None, [], [event], (org_key(source.org_id),), error=error)  # control: refusal-event


def _acceptance_of(row: Delegation, request: DelegationRequest) -> Acceptance:
    return Acceptance(
        org_id=row.org_id,
        delegation_id=row.id,
        checks=request.checks,
        rounds=request.rounds,
        message_id=row.id,
        task_seq=row.message_seq or 0,
    )


def _read_lineage(org_id: str, parent_id: str) -> Generator[StepRequest, Any, tuple[list[Ancestor], int]]:
    rows, child_counts = yield RequestBatch(
        [
            ReadQuery("delegation_lineage", {"org_id": org_id, "id": parent_id}),
            ReadQuery("delegation_children", {"org_id": org_id, "parent_id": parent_id}),
        ]
    )
    return [Ancestor(*row) for row in rows], child_counts[0][0]
