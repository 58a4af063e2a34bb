"""Retention of approvals: one goes some days after it has ended, with who was asked and what its caller called it.

Above: the server. Below: the store.
"""

from collections.abc import AsyncIterator
from typing import Any

from molecule_core.ground.clock import SECOND
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.store.pruning import LOOKED, Batch, Prunes, deletion

# An approved one can be used for a while after it was decided (`approval_use_seconds`, a day): it goes no sooner.
_LONGER_SECONDS = 86_400
# What goes with an approval; statements that take org_id and id.
_WITH_AN_APPROVAL = ("forget_approval", "forget_approval_holders", "forget_approval_keys")


class ApprovalPruning(Prunes):
    """The part of approvals."""

    def __init__(self, store: Store, org: OrgReader) -> None:
        self._store = store
        self._org = org

    async def batches(self, before: int, count: int) -> AsyncIterator[Batch]:
        for org in self._org.orgs():
            async for batch in self._of(org.id, before - _LONGER_SECONDS * SECOND, count):
                yield batch

    async def _of(self, org_id: str, before: int, count: int) -> AsyncIterator[Batch]:
        place: dict[str, Any] = {"settled_at": -1, "id": ""}
        full = True
        while full:
            found = await self._store.rows(
                "old_approvals", {"org_id": org_id, "before": before, "count": count, **place}
            )
            full = len(found) == count
            if not found:
                yield LOOKED
                return
            place = {"id": found[-1][0], "settled_at": found[-1][1]}
            own = [{"org_id": org_id, "id": row[0]} for row in found]
            yield Batch(
                "approvals", len(own), deletion(org_id, [(name, each) for each in own for name in _WITH_AN_APPROVAL])
            )
