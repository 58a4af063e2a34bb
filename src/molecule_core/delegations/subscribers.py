"""Subscribers of domain events about messages that carry delegations. They run in the transaction of the event.

server/composition.py registers them; docs/order.md prints their order.
"""

from collections.abc import Generator
from typing import Any

from msgspec.structs import replace

from molecule_core.common.limits import Limits
from molecule_core.delegations import rules
from molecule_core.delegations.model import DELEGATION, Delegation, DelegationTrigger, FailureReason
from molecule_core.delegations.transitions import (
    DelegationCloser,
    active_workspace,
    apply_trigger,
    load_delegations,
    merge_changes,
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
)
from molecule_core.org.model import WorkspacesRemoved
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Changes, ReadQuery, RequestBatch, StepRequest
from molecule_core.store.timers import TIMERS_KEY, set_timer, set_timer_if_earlier


class DelegationSubscriber:
    """Subscriber of message events and of workspace removals."""

    def __init__(self, org: OrgReader, closer: DelegationCloser, limits: Limits) -> None:
        self._org = org
        self._results = closer.results
        self._closer = closer
        self._limits = limits

    def on_delivered(self, org_id: str, event: MessagesDelivered) -> Generator[StepRequest, Any, Changes]:
        """Record that messages were claimed by their agents, or that pushes started."""
        attempts = dict(event.messages)
        rows = yield from load_delegations(org_id, list(attempts))
        trigger = DelegationTrigger.SENT if event.pushed else DelegationTrigger.CLAIMED
        return _merge_all(
            [save_transition(apply_trigger(row, trigger, event.at, attempt=attempts[row.id])) for row in rows]
        )

    def on_answered(self, org_id: str, event: MessageAnswered) -> Generator[StepRequest, Any, Changes]:
        """Close a delegation whose message was answered or declined.

        An answer after the end is stored and added to the timeline, and changes nothing."""
        rows = yield from load_delegations(org_id, [event.delegation_id])
        trigger = DelegationTrigger.DECLINED if event.declined else DelegationTrigger.ANSWERED
        for row in rows:
            for transition in rules.transitions_for(row.state, trigger):
                if transition.is_late:
                    return (yield from self._record_late_answer(row, trigger, event))
                closing = yield from self._closer.close(row, trigger, transition, event.answer, event.via, event.at)
                target = active_workspace(self._org, row.target_id)
                if event.acknowledged or target is None or row.message_seq is None:
                    return closing
                ack_changes = yield from self._results.ack_answered(target, row.message_seq)
                return merge_changes(closing, [ack_changes])
        return Changes()

    def _record_late_answer(
        self, row: Delegation, trigger: DelegationTrigger, event: MessageAnswered
    ) -> Generator[StepRequest, Any, Changes]:
        timeline_changes = Changes(
            [timeline_write(row, trigger, event.at, is_late=True, detail=_preview(event.answer.text))]
        )
        target = active_workspace(self._org, row.target_id)
        if target is None:
            return timeline_changes
        late_activity = yield from self._results.insert_late_answer(target, row.source_id, row.id, event.answer)
        return merge_changes(timeline_changes, [late_activity.changes])

    # -- delivery ------------------------------------------------------------------------------------------------------

    def on_released(self, org_id: str, event: MessagesReleased) -> Generator[StepRequest, Any, Changes]:
        """Record that messages were released."""
        rows = yield from load_delegations(org_id, list(event.delegation_ids))
        return _merge_all([save_transition(apply_trigger(row, DelegationTrigger.RELEASED, event.at)) for row in rows])

    def on_push_deferred(self, org_id: str, event: PushDeferred) -> Generator[StepRequest, Any, Changes]:
        """Record that a push will be retried, or waits for a busy agent."""
        trigger = DelegationTrigger.BUSY if event.busy else DelegationTrigger.RETRY
        return (yield from self._apply_trigger(org_id, event.delegation_id, trigger, event.at, event.error))

    def on_push_outcome_unknown(self, org_id: str, event: PushOutcomeUnknown) -> Generator[StepRequest, Any, Changes]:
        """Record that a sent message got no response, and schedule the check that ends the wait for one."""
        return (
            yield from self._apply_trigger(
                org_id, event.delegation_id, DelegationTrigger.OUTCOME_UNKNOWN, event.at, event.error
            )
        )

    def on_push_accepted(self, org_id: str, event: PushAccepted) -> Generator[StepRequest, Any, Changes]:
        """Record that the agent accepted a pushed message."""
        return (yield from self._apply_trigger(org_id, event.delegation_id, DelegationTrigger.ACCEPTED, event.at))

    def on_progress(self, org_id: str, event: ProgressReported) -> Generator[StepRequest, Any, Changes]:
        """Record that an agent works on the task. Repeated reports only update `life_at`."""
        moved_changes = yield from self._apply_trigger(
            org_id, event.delegation_id, DelegationTrigger.PROGRESS, event.at
        )
        if moved_changes.writes:
            return moved_changes
        rows = yield from load_delegations(org_id, [event.delegation_id])
        return Changes([("save_delegation", replace(row, life_at=event.at)) for row in rows])

    def _apply_trigger(
        self, org_id: str, delegation_id: str, trigger: DelegationTrigger, at: int, detail: str | None = None
    ) -> Generator[StepRequest, Any, Changes]:
        rows = yield from load_delegations(org_id, [delegation_id])
        transitions = [apply_trigger(row, trigger, at, detail=detail) for row in rows]
        due = [rules.next_check_at(pending.row, at, self._limits) for pending in transitions]
        moved_changes = _merge_all([save_transition(pending) for pending in transitions])
        if trigger is not DelegationTrigger.OUTCOME_UNKNOWN or not moved_changes.events:
            return moved_changes
        timers = [
            set_timer_if_earlier(DELEGATION, pending.row.key, each)
            for pending, each in zip(transitions, due, strict=True)
        ]
        return moved_changes._replace(
            writes=[*moved_changes.writes, *timers], notify=(*moved_changes.notify, TIMERS_KEY)
        )

    # -- ends ----------------------------------------------------------------------------------------------------------

    def on_delivery_failed(self, org_id: str, event: DeliveryFailed) -> Generator[StepRequest, Any, Changes]:
        """Close a delegation whose message cannot be delivered, or whose agent failed at it."""
        rows = yield from load_delegations(org_id, [event.delegation_id])
        reason, explanation = FailureReason(event.code), event.detail or event.code
        for row in rows:
            for transition in rules.transitions_for(row.state, DelegationTrigger.DELIVERY_FAILED, reason=reason):
                if transition.is_late:
                    return Changes(
                        [
                            timeline_write(
                                row,
                                DelegationTrigger.DELIVERY_FAILED,
                                event.at,
                                is_late=True,
                                detail=_preview(explanation),
                            )
                        ]
                    )
                answer = self._results.system_answer(row.target_id, explanation, row.context_id)
                closing = yield from self._closer.close(
                    row, DelegationTrigger.DELIVERY_FAILED, transition, answer, "push", event.at
                )
                target = active_workspace(self._org, row.target_id)
                # An error of the agent itself has already closed its obligation.
                if target is None or row.message_seq is None or reason is FailureReason.AGENT_ERROR:
                    return closing
                return merge_changes(
                    closing, [(yield from self._results.close_undelivered(target, row.message_seq, reason.value))]
                )
        return Changes()

    def on_workspaces_removed(self, org_id: str, event: WorkspacesRemoved) -> Generator[StepRequest, Any, Changes]:
        """Schedule an immediate check of every open delegation of the removed workspaces, which ends them."""
        found = yield RequestBatch(
            [ReadQuery("delegations_of_seat", {"org_id": org_id, "workspace_id": each}) for each in event.ids]
        )
        ids = dict.fromkeys(row[0] for rows in found for row in rows)
        return Changes(
            [set_timer(DELEGATION, f"{org_id}/{each}", event.at) for each in ids], (), (TIMERS_KEY,) if ids else ()
        )


def _merge_all(parts: list[Changes]) -> Changes:
    """Merge the changes of several delegations."""
    writes = [write for each in parts for write in each.writes]
    events = [event for each in parts for event in each.events]
    return Changes(writes, events, tuple(dict.fromkeys(channel for each in parts for channel in each.notify)))


def _preview(text: str) -> str:
    return rules.truncate_utf8(text, rules.LIST_PREVIEW)
