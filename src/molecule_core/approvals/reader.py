"""Reads approvals and renders them for clients."""

from collections.abc import Mapping

from molecule_core.approvals.model import Approval, approval_wake_key, task_wake_key
from molecule_core.approvals.policies import PolicyCache
from molecule_core.approvals.serializers import to_item
from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import NotFound
from molecule_core.common.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.store.queries import Params
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.wire.schemas.approvals import ApprovalItem, ApprovalStatus

OPEN_STATE = "open"
"""A state filter beside the statuses: all that are not decided."""
STATES = (*(each.value for each in ApprovalStatus), OPEN_STATE)
DECIDED_STATE = "decided"
"""A state filter: all that have ended, expired and withdrawn ones included."""
ORG_STATES = (*STATES, DECIDED_STATE)
_IS_OPEN = {OPEN_STATE: 1, DECIDED_STATE: 0}
_MAX_TIME = (1 << 62) - 1


class ApprovalReader:
    """Reader of committed approvals."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        wakeups: Notifier,
        policy_cache: PolicyCache,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self.to_item = to_item
        """Renders an approval for clients."""
        self.policies_of = policy_cache.policies_of
        """Returns the policies of a workspace."""
        self._store = store
        self._org = org
        self._wakeups = wakeups
        self._clock = clock
        self._limits = limits

    async def get_approval(self, org_id: str, approval_id: str) -> Approval:
        """Return an approval of an organisation. Raises NotFound."""
        rows = await self._store.rows("approval", {"org_id": org_id, "id": approval_id})
        if not rows:
            raise NotFound(what="approval")
        return Approval.from_row(rows[0])

    async def wait_for_change(self, row: Approval, seconds: float) -> Approval:
        """Return an approval once it has changed, or as it is after `seconds`."""

        async def poll() -> Poll[Approval]:
            now = await self.get_approval(row.org_id, row.id)
            return Poll(now if now.rev > row.rev or not now.open else None)

        found = await self._wakeups.wait_until(approval_wake_key(row.org_id, row.id), poll, seconds)
        return found or await self.get_approval(row.org_id, row.id)

    async def requested_by(
        self, workspace_id: str, state: str | None, before: Approval | None, count: int
    ) -> list[Approval]:
        """Return what a workspace has requested, newest first, before one of them."""
        return await self._list_page("approvals_requested", {"workspace_id": workspace_id}, state, before, count)

    async def held_by(
        self, org_id: str, workspace_id: str, state: str | None, before: Approval | None, count: int
    ) -> list[Approval]:
        """Return what a workspace was asked to decide, newest first, before one of them."""
        own = {"org_id": org_id, "workspace_id": workspace_id}
        return await self._list_page("approvals_to_decide", own, state, before, count)

    async def involving(
        self, org_id: str, workspace_id: str, state: str | None, before: Approval | None, count: int
    ) -> list[Approval]:
        """Return what a workspace requested or was asked to decide, in one order."""
        found = await self.requested_by(workspace_id, state, before, count)
        found += await self.held_by(org_id, workspace_id, state, before, count)
        return sorted(found, key=lambda row: (row.created_at, row.id), reverse=True)[:count]

    async def _list_page(
        self, name: str, own: Mapping[str, object], state: str | None, before: Approval | None, count: int
    ) -> list[Approval]:
        position = (_MAX_TIME, "") if before is None else (before.created_at, before.id)
        query = {
            **own,
            "status": None if state in _IS_OPEN else state,
            "is_open": _IS_OPEN.get(state or ""),
            "before_at": position[0],
            "before_id": position[1],
            "count": count,
        }
        return [Approval.from_row(row) for row in await self._store.rows(name, query)]

    async def list_open(self, org_id: str, after: Approval | None, count: int) -> list[Approval]:
        """Return the open approvals of an organisation, oldest first, after one of them."""
        position = (-1, "") if after is None else (after.created_at, after.id)
        query = {"org_id": org_id, "after_at": position[0], "after_id": position[1], "count": count}
        return [Approval.from_row(row) for row in await self._store.rows("approvals_open", query)]

    async def list_of_org(self, org_id: str, state: str | None, before: Approval | None, count: int) -> list[Approval]:
        """Return the approvals of an organisation, newest first, before one of them."""
        return await self._list_page("approvals_of_org", {"org_id": org_id}, state, before, count)

    async def snapshot_items(self, org_id: str) -> list[ApprovalItem]:
        """Return the open and the recently ended approvals of an organisation for a snapshot."""
        max_count, now = self._limits.approvals_in_snapshot, self._clock.now()
        rows = await self.list_open(org_id, None, max_count)
        query = {"org_id": org_id, "since": now - self._limits.approval_shown_seconds * SECOND, "count": max_count}
        rows += [Approval.from_row(row) for row in await self._store.rows("approvals_settled_since", query)]
        return [to_item(row) for row in rows]

    async def requested_between(self, workspace_id: str, since: int, until: int, count: int) -> list[Approval]:
        """Return what a workspace requested from one time to another (microseconds), oldest first."""
        query = {"workspace_id": workspace_id, "since": since, "until": until, "count": count}
        return [Approval.from_row(row) for row in await self._store.rows("approvals_requested_between", query)]

    async def count_open(self) -> tuple[int, int]:
        """Return how many approvals of all organisations are open, and the age in seconds of the oldest."""
        queries: list[Params] = [{"org_id": each.id} for each in self._org.orgs()]
        counts = [rows[0] for rows in await self._store.rows_of_each("approvals_open_count", queries)]
        now = self._clock.now()
        oldest = min((created_at for _, created_at in counts if created_at is not None), default=now)
        return sum(count for count, _ in counts), max(0, now - oldest) // SECOND

    async def was_used_before(self, workspace_id: str, action: str) -> bool:
        """Return whether a workspace has used an approval for an action of this name."""
        query = {"workspace_id": workspace_id, "action": action}
        return bool(await self._store.rows("approval_used_before", query))

    async def find_for_task(self, org_id: str, task_id: str, workspace_id: str) -> Approval | None:
        """Return the oldest open approval that a workspace requested for a task, or None."""
        query = {"org_id": org_id, "task_id": task_id, "workspace_id": workspace_id}
        rows = await self._store.rows("approval_of_task", query)
        return Approval.from_row(rows[0]) if rows else None

    async def wait_for_task(self, org_id: str, task_id: str, workspace_id: str, seconds: float) -> Approval | None:
        """Wait until there is such an approval. Returns None after `seconds`."""

        async def poll() -> Poll[Approval]:
            return Poll(await self.find_for_task(org_id, task_id, workspace_id))

        return await self._wakeups.wait_until(task_wake_key(org_id, task_id), poll, seconds)
