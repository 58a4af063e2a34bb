"""Renders approvals from their rows alone, so responses, lists, events and snapshots are the same."""

import msgspec
from msgspec import Raw

from molecule_core.approvals.model import Approval, PartyKind
from molecule_core.approvals.review_requests import REVIEW_SOURCE
from molecule_core.common.clock import to_optional_rfc3339, to_rfc3339
from molecule_core.wire.schemas.approvals import ApprovalItem, ApprovalStatus, CurrentApprover


def to_item(row: Approval) -> ApprovalItem:
    """Render an approval for clients."""
    return ApprovalItem(
        approval_id=row.id,
        workspace_id=row.workspace_id,
        requester_name=row.requester_name,
        org_id=row.org_id,
        action=row.action,
        reason=row.reason,
        details=Raw(row.effective_details.encode()),
        proposed=Raw(row.proposed.encode()),
        edited=None if row.edited is None else Raw(row.edited.encode()),
        cost=row.cost,
        task_id=row.task_id,
        thread_id=row.thread_id,
        status=row.status.value,
        revision=row.revision,
        action_hash=row.action_hash,
        holder=_current_approver(row),
        for_person=bool(row.for_person) and bool(row.open),
        source=row.source,
        tool=row.tool,
        risk=msgspec.json.decode(row.risk, type=list[str]),
        created_at=to_rfc3339(row.created_at),
        expires_at=to_rfc3339(row.expires_at),
        # A review stays with its reviewer.
        level_deadline=None if row.source == REVIEW_SOURCE else to_optional_rfc3339(row.level_at),
        decided=row.decision,
        used_at=to_optional_rfc3339(row.used_at),
        policy=row.policies,
        path=row.history,
        message_id=row.message_id,
        seq=row.rev,
    )


def _current_approver(row: Approval) -> CurrentApprover:
    if row.status is ApprovalStatus.INFO:
        return CurrentApprover(PartyKind.REQUESTER.value, row.workspace_id, row.requester_name)
    if not row.open:
        return CurrentApprover(PartyKind.NONE.value, None, "")
    if row.holder_id is None:
        return CurrentApprover(PartyKind.PERSON.value, None, "")
    return CurrentApprover(PartyKind.WORKSPACE.value, row.holder_id, row.holder_name)
