"""Subscribers of domain events about approval messages and workspaces. They run in the transaction of the event.

server/composition.py registers them; docs/order.md prints their order.
"""

from molecule_core.approvals import rules
from molecule_core.approvals.budget_requests import build_request
from molecule_core.approvals.model import APPROVAL, ApprovalTrigger, PartyKind
from molecule_core.approvals.review_requests import build_request as build_review
from molecule_core.approvals.transitions import SERVER_PARTY, ApprovalTransitions, load_approval
from molecule_core.budgets.model import BudgetExhausted
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.common.text import truncate_line
from molecule_core.messages.approval_messages import approval_id_of
from molecule_core.messages.events import ApprovalExplained, ReviewRequested, ReviewsDropped
from molecule_core.org.model import WorkspacesMoved, WorkspacesRemoved
from molecule_core.store.database import CommandSteps, ReadQuery, RequestBatch, WriteSet
from molecule_core.store.timers import TIMERS_KEY, set_timer
from molecule_core.wire.schemas.approvals import DecidedBy, Party


class ApprovalSubscriber:
    """Subscriber of answered questions, of budgets that are used up, and of workspaces that are removed or moved."""

    def __init__(self, transitions: ApprovalTransitions, ids: IdGenerator, limits: Limits) -> None:
        self._transitions = transitions
        self._ids = ids
        self._limits = limits

    def on_explained(self, org_id: str, event: ApprovalExplained) -> CommandSteps[object]:
        """Record the requester's answer to a question and return the approval to the party that asked.

        A late answer changes nothing, even if another question is open by then. An expired approval is closed. The
        subscription is isolated, because the next approver is known only once the approval is read."""
        row = yield from load_approval(org_id, approval_id_of(event.message_id))
        if (
            row is None
            or rules.TRANSITIONS[ApprovalTrigger.ANSWER, row.status] is None
            or row.question_seq != event.seq
        ):
            return WriteSet(None)
        uow = self._transitions.unit_of_work(row)
        # The answering command has closed the question already.
        uow.update(question_seq=None)
        if rules.is_expired(row, uow.now):
            yield from self._transitions.expire(uow)
            return uow.to_write_set(self._transitions.meter)
        by = Party(PartyKind.WORKSPACE.value, row.workspace_id, row.requester_name)
        text = truncate_line(event.text, self._limits.approval_text_length)
        yield from self._transitions.record_answer(uow, by, text, None)
        return uow.to_write_set(self._transitions.meter)

    def on_budget_exhausted(self, org_id: str, event: BudgetExhausted) -> CommandSteps[object]:
        """Request of people that a budget is raised, in the name of the workspace whose turn waits for it."""
        workspace = self._transitions.active_workspace(event.workspace_id)
        if workspace is None:
            return WriteSet(None)
        row = build_request(event, workspace.name, self._ids.new(), self._limits)
        uow = self._transitions.unit_of_work(row, is_new=True)
        uow.add_history("requested", SERVER_PARTY, note=row.reason)
        yield from self._transitions.escalate(uow, rules.REQUESTED)
        return uow.to_write_set(self._transitions.meter)

    def on_review_requested(self, org_id: str, event: ReviewRequested) -> CommandSteps[object]:
        """Request a review of an answer: of its reviewer, or of people.

        The subscription is isolated, because the command of the answer does not protect the reviewer's inbox."""
        worker = self._transitions.active_workspace(event.worker_id)
        delegator = self._transitions.active_workspace(event.source_id)
        if worker is None or delegator is None:
            return WriteSet(None)
        row = build_review(event, org_id, worker.name, delegator.name)
        uow = self._transitions.unit_of_work(row, is_new=True)
        by = Party(PartyKind.WORKSPACE.value, delegator.id, delegator.name)
        uow.add_history("requested", by, note=event.instructions)
        yield from self._transitions.escalate(uow, rules.REQUESTED)
        return uow.to_write_set(self._transitions.meter)

    def on_reviews_dropped(self, org_id: str, event: ReviewsDropped) -> CommandSteps[object]:
        """Withdraw reviews whose outcome is not needed any more. The subscription is isolated, as above."""
        dropped = WriteSet[object](None)
        by = DecidedBy(SERVER_PARTY.kind, SERVER_PARTY.id, SERVER_PARTY.name)
        for id_ in event.ids:
            row = yield from load_approval(org_id, id_)
            if row is not None and row.open:
                uow = self._transitions.unit_of_work(row)
                yield from self._transitions.close(
                    uow, ApprovalTrigger.WITHDRAW, by, note=event.reason, is_dropped=True
                )
                dropped += uow.to_write_set(self._transitions.meter)
        return dropped

    def on_workspaces_removed(self, org_id: str, event: WorkspacesRemoved) -> CommandSteps[object]:
        """Schedule an immediate check of every open approval that the removed workspaces requested or must decide."""
        return (yield from self._schedule_checks(org_id, event.ids, event.at))

    def on_workspaces_moved(self, org_id: str, event: WorkspacesMoved) -> CommandSteps[object]:
        """Schedule an immediate check of the moved workspaces' approvals, whose approvers may be others now."""
        return (yield from self._schedule_checks(org_id, event.ids, event.at))

    def _schedule_checks(self, org_id: str, workspace_ids: tuple[str, ...], at: int) -> CommandSteps[object]:
        found = yield RequestBatch(
            [
                ReadQuery("open_approvals_of_workspace", {"org_id": org_id, "workspace_id": each})
                for each in workspace_ids
            ]
        )
        ids = dict.fromkeys(row[0] for rows in found for row in rows)
        timers = [set_timer(APPROVAL, f"{org_id}/{each}", at) for each in ids]
        return WriteSet(None, timers, notify=(TIMERS_KEY,) if ids else ())
