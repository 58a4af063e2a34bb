"""Writes approvals: request, decide, answer, withdraw, use, expire, set policies. Each method is one command.

Commands are exclusive: decisions are rare, and each must see what the previous one committed.
"""

from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import msgspec

from molecule_core.approvals import notices, rules
from molecule_core.approvals.errors import (
    AlreadyDecided,
    ApprovalChanged,
    ApprovalEnded,
    ApprovalMismatch,
    ApprovalReassigned,
    ApprovalUsed,
    NoHigherApprover,
    NoPendingQuestion,
    NotApproved,
    SelfApproval,
    TooManyApprovals,
    TooManyQuestions,
)
from molecule_core.approvals.model import (
    APPROVAL,
    Approval,
    ApprovalRequest,
    ApprovalRequestResult,
    ApprovalTrigger,
    Decider,
    DecisionCheck,
    DecisionInput,
    DecisionKind,
    PartyKind,
    Policies,
    UseCheck,
)
from molecule_core.approvals.policies import PolicyCache
from molecule_core.approvals.review_requests import REVIEW_SOURCE, check_review
from molecule_core.approvals.serializers import to_item
from molecule_core.approvals.transitions import (
    CLOCK_PARTY,
    SERVER_PARTY,
    ApprovalTransitions,
    ApprovalUnitOfWork,
    load_approval,
)
from molecule_core.common.clock import Clock, to_rfc3339
from molecule_core.common.errors import MessageIdReused, MoleculeError, NotFound
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.common.text import encode_json
from molecule_core.store.database import (
    Command,
    CommandSteps,
    JournalEvent,
    ReadQuery,
    RequestBatch,
    StepRequest,
    Store,
    WriteSet,
)
from molecule_core.store.journal import org_key
from molecule_core.store.timers import cancel_timer
from molecule_core.wire.schemas.approvals import (
    ApprovalRule,
    ApprovalStatus,
    AuthorityGrant,
    DecidedBy,
    Party,
    PoliciesUpdatedPayload,
    approval_as_dict,
)

_NOT_ABOVE = "the approver is no longer above the requester"
POLICIES_UPDATED = "APPROVAL_POLICIES_UPDATED"


class ApprovalWriter:
    """Writer of approvals and policies."""

    def __init__(
        self,
        store: Store,
        transitions: ApprovalTransitions,
        policy_cache: PolicyCache,
        *,
        clock: Clock,
        ids: IdGenerator,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = transitions.org
        self._transitions = transitions
        self._policy_cache = policy_cache
        self._clock = clock
        self._ids = ids
        self._limits = limits

    # -- requests ------------------------------------------------------------------------------------------------------

    async def request(self, request: ApprovalRequest) -> ApprovalRequestResult:
        """Request an approval.

        Returns the existing one with the same key, or one that the same rule requested for exactly the same action.
        Raises NotFound, WorkspaceRemoved, MessageIdReused, TooManyApprovals."""
        workspace = self._org.active_workspace(request.workspace_id)
        return await self._store.run(
            Command(workspace.org_id, (), partial(self._decide_request, request), exclusive=True)
        )

    def _decide_request(self, request: ApprovalRequest) -> CommandSteps[ApprovalRequestResult]:
        workspace, now = self._org.active_workspace(request.workspace_id), self._clock.now()
        details = rules.canonical_json(request.details)
        action_hash = rules.action_hash(request.action, details)
        content = rules.action_hash(action_hash, rules.canonical_json([request.reason, request.cost, request.task_id]))
        known = yield from self._find_existing(request, workspace.org_id, action_hash, content, now)
        if known is not None:
            return WriteSet(ApprovalRequestResult(known, is_duplicate=True))
        open_count = (yield ReadQuery("approvals_open_of", {"workspace_id": workspace.id}))[0][0]
        if open_count >= self._limits.approvals_open:
            raise TooManyApprovals(limit=self._limits.approvals_open)
        row = Approval(
            org_id=workspace.org_id,
            id=self._ids.new(),
            workspace_id=workspace.id,
            requester_name=workspace.name,
            status=ApprovalStatus.PENDING,
            open=1,
            revision=1,
            rev=0,
            action=request.action,
            reason=request.reason,
            proposed=details,
            edited=None,
            action_hash=action_hash,
            cost=request.cost,
            task_id=request.task_id,
            thread_id=request.thread_id,
            source=request.source,
            tool=request.tool,
            risk=encode_json(request.risk),
            holder_id=None,
            holder_name="",
            for_person=0,
            asker=None,
            messages=0,
            message_id=None,
            message_seq=None,
            question_seq=None,
            asked="[]",
            policy=encode_json(request.policy),
            path="[]",
            decided=None,
            created_at=now,
            updated_at=now,
            expires_at=rules.expiry_time(request.expires_in, now, self._limits),
            level_at=None,
            settled_at=None,
            used_at=None,
        )
        uow = self._transitions.unit_of_work(row, is_new=True)
        uow.add_history(
            "requested", Party(PartyKind.WORKSPACE.value, workspace.id, workspace.name), note=request.reason
        )
        if request.key is not None:
            key = {"workspace_id": workspace.id, "key": request.key, "approval_id": row.id, "content_hash": content}
            uow.write(("keep_approval_key", key))
        yield from self._transitions.escalate(uow, rules.REQUESTED)
        return uow.to_write_set(self._transitions.meter).returning(ApprovalRequestResult(uow.row))

    def _find_existing(
        self, request: ApprovalRequest, org_id: str, action_hash: str, content: str, now: int
    ) -> Generator[StepRequest, Any, Approval | None]:
        since = now - self._limits.approval_use_seconds * 1_000_000
        own = {"workspace_id": request.workspace_id}
        keyed, same = yield RequestBatch(
            [
                ReadQuery("approval_by_key", {**own, "key": request.key or ""}),
                ReadQuery("approval_open_same", {**own, "action_hash": action_hash, "usable_since": since}),
            ]
        )
        if request.key is not None and keyed:
            if keyed[0][0] != content:
                raise MessageIdReused(message_id=request.key)
            return (yield from load_approval(org_id, keyed[0][1]))
        return Approval.from_row(same[0]) if same and request.source == "rule" else None

    # -- decisions -----------------------------------------------------------------------------------------------------

    async def decide(self, row: Approval, decision_input: DecisionInput) -> Approval:
        """Decide an approval; the same decision of the same party again changes nothing.

        Raises NotFound, SelfApproval, AlreadyDecided, ApprovalReassigned, ApprovalChanged, NoHigherApprover,
        TooManyQuestions."""
        return await self._run_command(row, partial(self._apply_decision, decision_input))

    def _apply_decision(self, decision_input: DecisionInput, row: Approval) -> CommandSteps[Approval]:
        decision, by = decision_input.request.decision, decision_input.by
        check = rules.check_decision(
            row.decision_state(is_above=self._is_holder_above(row)),
            Decider(PartyKind(by.kind), by.id),
            decision_input.request,
        )
        edited = None if decision_input.details is None else rules.canonical_json(decision_input.details)
        if check is DecisionCheck.REPEATED and (edited is None or edited == row.effective_details):
            return WriteSet(row)
        self._raise_for_check(row, check)
        if row.source == REVIEW_SOURCE:
            check_review(rules.TRIGGER_OF_DECISION[decision], decision_input.note, is_edited=edited is not None)
        uow = self._transitions.unit_of_work(row)
        if decision is DecisionKind.ESCALATE:
            holder = Party(PartyKind.WORKSPACE.value, row.holder_id or "", row.holder_name)
            uow.add_history("escalated", by, holder, note=decision_input.note)
            yield from self._transitions.cancel_messages(uow, "it was escalated", by=by.id)
            yield from self._transitions.escalate(uow, rules.ESCALATED)
        elif decision is DecisionKind.MORE_INFO:
            if sum(entry.what == "info_requested" for entry in row.history) >= self._limits.approval_questions:
                raise TooManyQuestions(limit=self._limits.approval_questions, approval=_plain_item(row))
            yield from self._transitions.ask_question(uow, by, decision_input.note)
        else:
            self._apply_edit(uow, by, edited)
            decided_by = DecidedBy(by.kind, by.id, by.name, decision_input.session)
            yield from self._transitions.close(
                uow, rules.TRIGGER_OF_DECISION[decision], decided_by, note=decision_input.note
            )
        return uow.to_write_set(self._transitions.meter)

    def _apply_edit(self, uow: ApprovalUnitOfWork, by: Party, edited: str | None) -> None:
        row = uow.row
        if edited is None or edited == row.effective_details:
            return
        action_hash = rules.action_hash(row.action, edited)
        uow.update(edited=edited, action_hash=action_hash, revision=row.revision + 1)
        uow.add_history("edited", by)

    def _raise_for_check(self, row: Approval, check: DecisionCheck) -> None:
        """Raise the error of a failed check."""
        item = _plain_item(row)
        if check is DecisionCheck.OWN_REQUEST:
            raise SelfApproval
        if check is DecisionCheck.NOT_ASKED:
            raise NotFound(what="approval")
        if check in (DecisionCheck.ALREADY_DECIDED, DecisionCheck.REPEATED):
            raise AlreadyDecided(decided=_decision_text(row), approval=item)
        if check is DecisionCheck.REASSIGNED:
            raise ApprovalReassigned(what="another approver is asked now", approval=item)
        if check is DecisionCheck.QUESTION_OPEN:
            raise ApprovalReassigned(what="it has an open question, and can only be approved or denied", approval=item)
        if check is DecisionCheck.CHANGED:
            raise ApprovalChanged(revision=row.revision, action_hash=row.action_hash, approval=item)
        if check is DecisionCheck.NO_HIGHER_APPROVER:
            raise NoHigherApprover(approval=item)

    # -- the requester -------------------------------------------------------------------------------------------------

    async def answer_question(self, row: Approval, by: Party, text: str, details: dict[str, Any] | None) -> Approval:
        """Answer a question as the requester. Raises NotFound, NoPendingQuestion."""

        def decide(known: Approval) -> CommandSteps[Approval]:
            if rules.TRANSITIONS[ApprovalTrigger.ANSWER, known.status] is None:
                raise NoPendingQuestion(what=f"it is {known.status}", approval=_plain_item(known))
            uow = self._transitions.unit_of_work(known)
            yield from self._transitions.record_answer(
                uow, by, text, None if details is None else rules.canonical_json(details)
            )
            return uow.to_write_set(self._transitions.meter)

        return await self._run_command(row, decide)

    async def withdraw(self, row: Approval, by: Party, note: str = "") -> Approval:
        """Withdraw an approval; a withdrawn one stays unchanged. Raises NotFound, ApprovalEnded."""

        def decide(known: Approval) -> CommandSteps[Approval]:
            if known.status is ApprovalStatus.WITHDRAWN:
                return WriteSet(known)
            if known.status.is_ended:
                raise ApprovalEnded(status=known.status.value, approval=_plain_item(known))
            uow = self._transitions.unit_of_work(known)
            yield from self._transitions.close(
                uow, ApprovalTrigger.WITHDRAW, DecidedBy(by.kind, by.id, by.name), note=note
            )
            return uow.to_write_set(self._transitions.meter)

        return await self._run_command(row, decide)

    async def use(self, row: Approval, action_hash: str, key: str | None = None, *, is_new: bool = False) -> Approval:
        """Use an approval for the action that the requester is about to take.

        Works once. Repeating it under the same `key` succeeds, unless the effect of the first use is not stored any
        more (`is_new`). Raises NotFound, ApprovalUsed, ApprovalMismatch, NotApproved."""

        def decide(known: Approval) -> CommandSteps[Approval]:
            use = {"workspace_id": known.workspace_id, "key": key, "content_hash": action_hash}
            before = () if key is None or is_new else (yield ReadQuery("approval_use", use))
            now = self._clock.now()
            if before and rules.is_use_known(before[0][0], now, self._limits):
                return WriteSet(known)
            found = rules.check_use(known, action_hash, now, self._limits)
            item = _plain_item(known)
            if found is UseCheck.NOT_APPROVED:
                why, how = notices.not_approved_texts(known)
                raise NotApproved(why=why, how=how, approval=item)
            if found is UseCheck.EXPIRED:
                raise NotApproved(why="it was approved too long ago", how="Request a new one.", approval=item)
            if found is UseCheck.OTHER_ACTION:
                raise ApprovalMismatch(approved=notices.short_details(known), approval=item)
            if found is UseCheck.USED:  # control: approval-used-check
                raise ApprovalUsed(used_at=to_rfc3339(known.used_at or 0), approval=item)
            uow = self._transitions.unit_of_work(known)
            if key is not None:
                uow.write(("keep_approval_use", {**use, "approval_id": known.id}))
            self._transitions.mark_used(uow, Party(PartyKind.WORKSPACE.value, known.workspace_id, known.requester_name))
            return uow.to_write_set(self._transitions.meter)

        return await self._run_command(row, decide)

    async def was_used_for(self, workspace_id: str, key: str, action_hash: str) -> bool:
        """Return whether an approval was recently used for exactly this under this key: repeating it has no effect."""
        query = {"workspace_id": workspace_id, "key": key, "content_hash": action_hash}
        rows = await self._store.rows("approval_use", query)
        return bool(rows) and rules.is_use_known(rows[0][0], self._clock.now(), self._limits)

    # -- timers --------------------------------------------------------------------------------------------------------

    async def on_due(self, key: str) -> None:
        """Handle a due timer: an approval expired, an approver's time is over, or a workspace was removed or moved."""
        org_id, _, approval_id = key.partition("/")

        def decide() -> CommandSteps[None]:
            row = yield from load_approval(org_id, approval_id)
            if row is None or not row.open:
                return WriteSet(None, [cancel_timer(APPROVAL, key)])
            uow = self._transitions.unit_of_work(row)
            yield from self._apply_due(uow)
            return uow.to_write_set(self._transitions.meter).returning(None)

        await self._store.run(Command(org_id, (), decide, exclusive=True))

    def _apply_due(self, uow: ApprovalUnitOfWork) -> Generator[StepRequest, Any, None]:
        row, now = uow.row, uow.now
        if self._transitions.active_workspace(row.workspace_id) is None:
            decided_by = DecidedBy(SERVER_PARTY.kind, SERVER_PARTY.id, SERVER_PARTY.name)
            yield from self._transitions.close(
                uow, ApprovalTrigger.WITHDRAW, decided_by, note="its workspace was removed"
            )
        elif now >= row.expires_at:  # control: approval-expiry
            yield from self._transitions.expire(uow)
        elif row.source == REVIEW_SOURCE:
            yield from self._apply_due_review(uow)
        elif row.holder_id is not None and row.status is ApprovalStatus.PENDING:
            holder = Party(PartyKind.WORKSPACE.value, row.holder_id, row.holder_name)
            if not self._is_holder_above(row):
                uow.add_history("escalated", SERVER_PARTY, holder, why=_NOT_ABOVE)
                yield from self._transitions.escalate(uow, rules.ESCALATED, _NOT_ABOVE)
            elif row.level_at is not None and now >= row.level_at:
                why = f"it did not decide within {self._limits.approval_level_seconds} s"
                uow.add_history("escalated", CLOCK_PARTY, holder, why=why)
                yield from self._transitions.escalate(uow, rules.ESCALATED, "the time for this decision is over")

    def _apply_due_review(self, uow: ApprovalUnitOfWork) -> Generator[StepRequest, Any, None]:
        """Remind a silent reviewer. One that cannot review any more has failed the answer."""
        row, now = uow.row, uow.now
        if row.holder_id is None:
            return
        if not self._is_holder_above(row):
            removed = self._transitions.active_workspace(row.holder_id) is None
            note = "the reviewer was removed" if removed else "the reviewer is below the worker now"
            by = DecidedBy(SERVER_PARTY.kind, SERVER_PARTY.id, SERVER_PARTY.name)
            yield from self._transitions.close(uow, ApprovalTrigger.WITHDRAW, by, note=note)
        elif row.level_at is not None and now >= row.level_at and row.status is ApprovalStatus.PENDING:
            yield from self._transitions.remind_reviewer(uow)

    def _is_holder_above(self, row: Approval) -> bool:
        """Return whether the current approver is above the requester in the org tree now."""
        return row.holder_id in [each.id for each in self._transitions.approvers(row)]

    # -- policies ------------------------------------------------------------------------------------------------------

    async def set_policies(
        self,
        workspace_id: str,
        by: str,
        *,
        approval_rules: list[ApprovalRule] | None = None,
        grants: list[AuthorityGrant] | None = None,
    ) -> Policies:
        """Set the rules and grants of a workspace; None leaves them unchanged. Raises NotFound, WorkspaceRemoved."""
        workspace = self._org.active_workspace(workspace_id)

        def decide() -> CommandSteps[Policies]:
            yield from ()
            before = self._policy_cache.policies_of(workspace.id)
            after = Policies(
                before.rules if approval_rules is None else tuple(approval_rules),
                before.grants if grants is None else tuple(grants),
            )
            row = {
                "workspace_id": workspace.id,
                "org_id": workspace.org_id,
                "rules": encode_json(after.rules),
                "grants": encode_json(after.grants),
                "updated_at": self._clock.now(),
                "updated_by": by,
            }
            payload = msgspec.json.encode(PoliciesUpdatedPayload(len(after.rules), len(after.grants)))
            event = JournalEvent(
                POLICIES_UPDATED, workspace.id, "approval_policies", workspace.id, 0, payload, self._clock.now()
            )
            update_cache = partial(self._policy_cache.set_policies, workspace.id, after)
            return WriteSet(after, [("save_policies", row)], [event], (org_key(workspace.org_id),), update_cache)

        return await self._store.run(Command(workspace.org_id, (), decide, exclusive=True))

    # -- commands ------------------------------------------------------------------------------------------------------

    async def _run_command(self, row: Approval, decide: Callable[[Approval], CommandSteps[Approval]]) -> Approval:
        """Run a command on the current row of an approval.

        An expired one is closed first: its timer may be late, and the command must find what the timer would have left.
        """

        def command_steps() -> CommandSteps[Approval]:
            known = yield from load_approval(row.org_id, row.id)  # control: decision-reads-again
            if known is None:  # deleted by retention
                raise NotFound(what="approval")
            if rules.is_expired(known, self._clock.now()):
                return (yield from self._decide_expired(known, decide))
            return (yield from decide(known))

        return await self._store.run(Command(row.org_id, (), command_steps, exclusive=True))

    def _decide_expired(
        self, row: Approval, decide: Callable[[Approval], CommandSteps[Approval]]
    ) -> CommandSteps[Approval]:
        """Close an expired approval, and reject the command as for one that had expired before."""
        uow = self._transitions.unit_of_work(row)
        yield from self._transitions.expire(uow)
        written = uow.to_write_set(self._transitions.meter)
        try:
            yield from decide(uow.row)  # nothing changes an expired approval
        except MoleculeError as error:
            return msgspec.structs.replace(written, error=error)
        return written


def _plain_item(row: Approval) -> Any:
    return approval_as_dict(to_item(row))


def _decision_text(row: Approval) -> str:
    decision = row.decision
    if decision is None:
        return row.status.value
    return f"{row.status.value} by {decision.by.name or decision.by.kind} at {decision.at}"
