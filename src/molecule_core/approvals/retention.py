"""Retention of approvals: deletes an approval, its approvers and its keys some days after it ended."""

from collections.abc import AsyncIterator
from typing import Any

from molecule_core.common.clock import SECOND
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy, deletion_command

# An approval can be used for `approval_use_seconds` (a day) after the decision, so it is kept at least as long.
_EXTRA_SECONDS = 86_400
# Deleted with an approval; each statement takes org_id and id.
_DELETE_STATEMENTS = ("forget_approval", "forget_approval_holders", "forget_approval_keys")


class ApprovalRetention(RetentionPolicy):
    """Retention of approvals."""

    kinds = ("approvals",)

    def __init__(self, store: Store, org: OrgReader) -> None:
        self._store = store
        self._org = org

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        for org in self._org.orgs():
            async for batch in self._org_batches(org.id, before - _EXTRA_SECONDS * SECOND, count):
                yield batch

    async def _org_batches(self, org_id: str, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        position: dict[str, Any] = {"settled_at": -1, "id": ""}
        full = True
        while full:
            found = await self._store.rows(
                "old_approvals", {"org_id": org_id, "before": before, "count": count, **position}
            )
            full = len(found) == count
            if not found:
                yield EMPTY_BATCH
                return
            position = {"id": found[-1][0], "settled_at": found[-1][1]}
            own = [{"org_id": org_id, "id": row[0]} for row in found]
            yield RetentionBatch(
                "approvals",
                len(own),
                deletion_command(org_id, [(name, each) for each in own for name in _DELETE_STATEMENTS]),
            )
