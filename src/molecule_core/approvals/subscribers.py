"""What happens to messages about approvals, and to seats, is heard here, in the transaction in which it happens.

One method for each fact; `server/composition.py` registers them, docs/order.md prints them. Above: server/composition.py. Below: steps, rules.
"""

from collections.abc import Generator
from typing import Any

from molecule_core.approvals import rules
from molecule_core.approvals.model import APPROVAL, ApprovalTrigger, PartyKind
from molecule_core.approvals.transitions import ApprovalTransitions, load_approval
from molecule_core.common.limits import Limits
from molecule_core.common.text import truncate_line
from molecule_core.messages.approval_messages import approval_id_of
from molecule_core.messages.events import ApprovalExplained
from molecule_core.org.model import WorkspacesMoved, WorkspacesRemoved
from molecule_core.store.database import Changes, ReadQuery, RequestBatch, StepRequest
from molecule_core.store.timers import TIMERS_KEY, set_timer
from molecule_core.wire.schemas.approvals import Party


class ApprovalSubscriber:
    """Follows facts of messages, and of seats that are removed or moved."""

    def __init__(self, transitions: ApprovalTransitions, limits: Limits) -> None:
        self._transitions = transitions
        self._limits = limits

    def on_explained(self, org_id: str, event: ApprovalExplained) -> Generator[StepRequest, Any, Changes]:
        """The requester has answered a question: it goes back to who asked, unless its time is over. What comes too
        late changes nothing, even if another question is open by then. It reaches far: who is to decide is known once
        it is read."""
        row = yield from load_approval(org_id, approval_id_of(event.message_id))
        if (
            row is None
            or rules.TRANSITIONS[ApprovalTrigger.ANSWER, row.status] is None
            or row.question_seq != event.seq
        ):
            return Changes()
        uow = self._transitions.unit_of_work(row)
        # The command that answers has closed the question already.
        uow.update(question_seq=None)
        if rules.is_expired(row, uow.now):
            yield from self._transitions.expire(uow)
            return uow.to_changes(self._transitions.meter)
        by = Party(PartyKind.WORKSPACE.value, row.workspace_id, row.requester_name)
        text = truncate_line(event.text, self._limits.approval_text_length)
        yield from self._transitions.record_answer(uow, by, text, None)
        return uow.to_changes(self._transitions.meter)

    def on_workspaces_removed(self, org_id: str, event: WorkspacesRemoved) -> Generator[StepRequest, Any, Changes]:
        """Seats are removed: all that they have asked for or are to decide is looked at, and moves on by that."""
        return (yield from self._schedule_checks(org_id, event.ids, event.at))

    def on_workspaces_moved(self, org_id: str, event: WorkspacesMoved) -> Generator[StepRequest, Any, Changes]:
        """Seats have others above them: what they have asked for is theirs to decide from now on."""
        return (yield from self._schedule_checks(org_id, event.ids, event.at))

    def _schedule_checks(
        self, org_id: str, workspace_ids: tuple[str, ...], at: int
    ) -> Generator[StepRequest, Any, Changes]:
        found = yield RequestBatch(
            [ReadQuery("approvals_of_seat", {"org_id": org_id, "workspace_id": each}) for each in workspace_ids]
        )
        ids = dict.fromkeys(row[0] for rows in found for row in rows)
        return Changes([set_timer(APPROVAL, f"{org_id}/{each}", at) for each in ids], (), (TIMERS_KEY,) if ids else ())
