"""How an approval is shown: the same in answers, lists, events and snapshots, since it is made of its row alone."""

import msgspec
from msgspec import Raw

from molecule_core.approvals.model import Approval, Kind, Status
from molecule_core.ground.clock import rfc3339
from molecule_core.wire.approvals import ApprovalItem, Holder


def item_of(row: Approval) -> ApprovalItem:
    """An approval as clients read it."""
    return ApprovalItem(
        approval_id=row.id,
        workspace_id=row.workspace_id,
        requester_name=row.requester_name,
        org_id=row.org_id,
        action=row.action,
        reason=row.reason,
        details=Raw(row.effective.encode()),
        proposed=Raw(row.proposed.encode()),
        edited=None if row.edited is None else Raw(row.edited.encode()),
        cost=row.cost,
        task_id=row.task_id,
        thread_id=row.thread_id,
        status=row.status.value,
        revision=row.revision,
        action_hash=row.action_hash,
        holder=_holder(row),
        for_person=bool(row.for_person) and bool(row.open),
        source=row.source,
        tool=row.tool,
        risk=msgspec.json.decode(row.risk, type=list[str]),
        created_at=rfc3339(row.created_at),
        expires_at=rfc3339(row.expires_at),
        level_deadline=None if row.level_at is None else rfc3339(row.level_at),
        decided=row.ruling,
        used_at=None if row.used_at is None else rfc3339(row.used_at),
        policy=row.policies,
        path=row.hops,
        message_id=row.message_id,
        seq=row.rev,
    )


def _holder(row: Approval) -> Holder:
    if row.status is Status.INFO:
        return Holder(Kind.REQUESTER.value, row.workspace_id, row.requester_name)
    if not row.open:
        return Holder(Kind.NOBODY.value, None, "")
    if row.holder_id is None:
        return Holder(Kind.PERSON.value, None, "")
    return Holder(Kind.WORKSPACE.value, row.holder_id, row.holder_name)
