"""Subscribers of domain events about messages that carry delegations. They run in the transaction of the event.

server/composition.py registers them; docs/order.md prints their order.
"""

from msgspec.structs import replace

from molecule_core.common.limits import Limits
from molecule_core.delegations import rules
from molecule_core.delegations.acceptance import AcceptanceTransitions
from molecule_core.delegations.model import (
    DELEGATION,
    Delegation,
    DelegationPhase,
    DelegationTrigger,
    FailureReason,
)
from molecule_core.delegations.transitions import (
    active_workspace,
    apply_trigger,
    load_by_message,
    load_delegations,
    save_transition,
    timeline_write,
)
from molecule_core.messages.events import (
    DeliveryFailed,
    MessageAnswered,
    MessagesDelivered,
    MessagesReleased,
    ProgressReported,
    PushAccepted,
    PushDeferred,
    PushOutcomeUnknown,
    QuestionAsked,
    ReviewDecided,
)
from molecule_core.org.model import WorkspacesRemoved
from molecule_core.org.reader import OrgReader
from molecule_core.runners.model import CommandChecked
from molecule_core.store.database import CommandSteps, ReadQuery, RequestBatch, WriteSet
from molecule_core.store.timers import TIMERS_KEY, set_timer, set_timer_if_earlier


class DelegationSubscriber:
    """Subscriber of message events and of workspace removals."""

    def __init__(self, org: OrgReader, acceptance: AcceptanceTransitions, limits: Limits) -> None:
        self._org = org
        self._acceptance = acceptance
        closer = acceptance.closer
        self._results = closer.results
        self._closer = closer
        self._limits = limits

    def on_delivered(self, org_id: str, event: MessagesDelivered) -> CommandSteps[object]:
        """Record that messages were claimed by their agents, or that pushes started."""
        attempts = dict(event.messages)
        rows = yield from load_by_message(org_id, list(attempts))
        trigger = DelegationTrigger.SENT if event.pushed else DelegationTrigger.CLAIMED
        moved = (save_transition(apply_trigger(row, trigger, event.at, attempt=attempts[id_])) for id_, row in rows)
        return sum(moved, WriteSet(None))

    def on_answered(self, org_id: str, event: MessageAnswered) -> CommandSteps[object]:
        """Close a delegation whose message was answered or declined.

        An answer after the end is stored and added to the timeline, and changes nothing."""
        rows = yield from load_by_message(org_id, [event.delegation_id])
        trigger = DelegationTrigger.DECLINED if event.declined else DelegationTrigger.ANSWERED
        for _, row in rows:
            if row.checks and row.open and not event.declined:
                return (yield from self._submit_answer(row, event))
            for transition in rules.transitions_for(row.state, trigger):
                if transition.is_late:
                    return (yield from self._record_late_answer(row, trigger, event))
                closed = yield from self._closer.close(row, trigger, transition, event.answer, event.via, event.at)
                target = active_workspace(self._org, row.target_id)
                if event.acknowledged or target is None or row.message_seq is None:
                    return closed
                return closed + (yield from self._results.ack_answered(target, row.message_seq))
        return WriteSet(None)

    def _submit_answer(self, row: Delegation, event: MessageAnswered) -> CommandSteps[object]:
        """Take an answer that must pass checks. One that comes while another is checked has no effect."""
        if row.phase is DelegationPhase.CHECKING:
            return (yield from self._record_late_answer(row, DelegationTrigger.SUBMITTED, event))
        target = active_workspace(self._org, row.target_id)
        submitted = yield from self._acceptance.submit(row, event.answer, event.via, event.at)
        if event.acknowledged or target is None or row.message_seq is None:
            return submitted
        return submitted + (yield from self._results.ack_answered(target, row.message_seq))

    def _record_late_answer(
        self, row: Delegation, trigger: DelegationTrigger, event: MessageAnswered
    ) -> CommandSteps[object]:
        detail = rules.preview_of(event.answer.text)
        recorded = WriteSet(None, [timeline_write(row, trigger, event.at, is_late=True, detail=detail)])
        target = active_workspace(self._org, row.target_id)
        if target is None:
            return recorded
        return recorded + (yield from self._results.insert_late_answer(target, row.source_id, row.id, event.answer))

    def on_review_decided(self, org_id: str, event: ReviewDecided) -> CommandSteps[object]:
        """Record the decision of a review; the last one decides about the answer.

        The subscription is isolated: the approval that was decided does not name the workspaces of the delegation."""
        rows = yield from load_delegations(org_id, [event.delegation_id])
        return (yield from self._acceptance.record_review(rows[0], event)) if rows else WriteSet(None)

    def on_command_checked(self, org_id: str, event: CommandChecked) -> CommandSteps[object]:
        """Record what a command found that checks an answer. The subscription is isolated, as above."""
        rows = yield from load_delegations(org_id, [event.delegation_id])
        return (yield from self._acceptance.record_command(rows[0], event)) if rows else WriteSet(None)

    # -- delivery ------------------------------------------------------------------------------------------------------

    def on_released(self, org_id: str, event: MessagesReleased) -> CommandSteps[object]:
        """Record that messages were released."""
        rows = yield from load_by_message(org_id, list(event.delegation_ids))
        released = (save_transition(apply_trigger(row, DelegationTrigger.RELEASED, event.at)) for _, row in rows)
        return sum(released, WriteSet(None))

    def on_push_deferred(self, org_id: str, event: PushDeferred) -> CommandSteps[object]:
        """Record that a push will be retried, or waits for a busy agent."""
        trigger = DelegationTrigger.BUSY if event.busy else DelegationTrigger.RETRY
        return (yield from self._apply_trigger(org_id, event.delegation_id, trigger, event.at, event.error))

    def on_push_outcome_unknown(self, org_id: str, event: PushOutcomeUnknown) -> CommandSteps[object]:
        """Record that a sent message got no response, and schedule the check that ends the wait for one."""
        return (
            yield from self._apply_trigger(
                org_id, event.delegation_id, DelegationTrigger.OUTCOME_UNKNOWN, event.at, event.error
            )
        )

    def on_push_accepted(self, org_id: str, event: PushAccepted) -> CommandSteps[object]:
        """Record that the agent accepted a pushed message."""
        return (yield from self._apply_trigger(org_id, event.delegation_id, DelegationTrigger.ACCEPTED, event.at))

    def on_question_asked(self, org_id: str, event: QuestionAsked) -> CommandSteps[object]:
        """Record that the agent waits for an answer of its delegator."""
        detail = rules.preview_of(event.text)
        return (yield from self._apply_trigger(org_id, event.delegation_id, DelegationTrigger.ASKED, event.at, detail))

    def on_progress(self, org_id: str, event: ProgressReported) -> CommandSteps[object]:
        """Record that an agent works on the task. Repeated reports only update `life_at`."""
        moved = yield from self._apply_trigger(org_id, event.delegation_id, DelegationTrigger.PROGRESS, event.at)
        if moved.writes:
            return moved
        rows = yield from load_by_message(org_id, [event.delegation_id])
        return WriteSet(None, [("save_delegation", replace(row, life_at=event.at)) for _, row in rows])

    def _apply_trigger(
        self, org_id: str, delegation_id: str, trigger: DelegationTrigger, at: int, detail: str | None = None
    ) -> CommandSteps[object]:
        rows = yield from load_by_message(org_id, [delegation_id])
        if not rows:
            return WriteSet(None)
        moved = save_transition(apply_trigger(rows[0][1], trigger, at, detail=detail))
        if trigger is not DelegationTrigger.OUTCOME_UNKNOWN or not moved.events:
            return moved
        due = rules.next_check_at(moved.result, at, self._limits)
        timer_write = set_timer_if_earlier(DELEGATION, moved.result.key, due)
        return moved + WriteSet(None, [timer_write], notify=(TIMERS_KEY,))

    # -- ends ----------------------------------------------------------------------------------------------------------

    def on_delivery_failed(self, org_id: str, event: DeliveryFailed) -> CommandSteps[object]:
        """Close a delegation whose message cannot be delivered, or whose agent failed at it."""
        rows = yield from load_by_message(org_id, [event.delegation_id])
        trigger, reason = DelegationTrigger.DELIVERY_FAILED, FailureReason(event.code)
        explanation = event.detail or event.code
        for _, row in rows:
            for transition in rules.transitions_for(row.state, trigger, reason=reason):
                if transition.is_late:
                    detail = rules.preview_of(explanation)
                    return WriteSet(None, [timeline_write(row, trigger, event.at, is_late=True, detail=detail)])
                answer = self._results.system_answer(row.target_id, explanation, row.context_id)
                closed = yield from self._closer.close(row, trigger, transition, answer, "push", event.at)
                target = active_workspace(self._org, row.target_id)
                # An error of the agent itself has already closed its obligation.
                if target is None or row.message_seq is None or reason is FailureReason.AGENT_ERROR:
                    return closed
                return closed + (
                    yield from self._results.drop_undelivered_obligation(target, row.message_seq, reason.value)
                )
        return WriteSet(None)

    def on_workspaces_removed(self, org_id: str, event: WorkspacesRemoved) -> CommandSteps[object]:
        """Schedule an immediate check of every open delegation of the removed workspaces, which ends them."""
        found = yield RequestBatch(
            [ReadQuery("open_delegations_of_workspace", {"org_id": org_id, "workspace_id": each}) for each in event.ids]
        )
        ids = dict.fromkeys(row[0] for rows in found for row in rows)
        timers = [set_timer(DELEGATION, f"{org_id}/{each}", event.at) for each in ids]
        return WriteSet(None, timers, notify=(TIMERS_KEY,) if ids else ())
