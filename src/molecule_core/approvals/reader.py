"""Reads of approvals, and how they are shown."""

from collections.abc import Mapping

from molecule_core.approvals.items import item_of
from molecule_core.approvals.model import Approval, Status, task_key, wake_key
from molecule_core.approvals.policies import PolicyBook
from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.errors import NotFound
from molecule_core.ground.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.store.queries import Params
from molecule_core.store.wakeups import Look, Wakeups
from molecule_core.wire.approvals import ApprovalItem

OPEN = "open"
"""A state to ask for beside the statuses: whatever is not decided."""
STATES = (*(each.value for each in Status), OPEN)
DECIDED = "decided"
"""Whatever is, also by its own clock or by who asked."""
ORG_STATES = (*STATES, DECIDED)
_IS_OPEN = {OPEN: 1, DECIDED: 0}
_NEWEST = (1 << 62) - 1


class ApprovalReader:
    """What others may know of approvals, as it is committed."""

    def __init__(
        self, store: Store, org: OrgReader, wakeups: Wakeups, book: PolicyBook, *, clock: Clock, limits: Limits
    ) -> None:
        self.item = item_of
        """An approval as clients read it."""
        self.policies = book.of
        """What was set for a workspace."""
        self._store = store
        self._org = org
        self._wakeups = wakeups
        self._clock = clock
        self._limits = limits

    async def one(self, org_id: str, approval_id: str) -> Approval:
        """An approval of an organisation. Raises NotFound."""
        rows = await self._store.rows("approval", {"org_id": org_id, "id": approval_id})
        if not rows:
            raise NotFound(what="approval")
        return Approval.of(rows[0])

    async def wait(self, row: Approval, seconds: float) -> Approval:
        """An approval as soon as it has changed; as it stands then, if that takes too long."""

        async def look() -> Look[Approval]:
            now = await self.one(row.org_id, row.id)
            return Look(now if now.rev > row.rev or not now.open else None)

        found = await self._wakeups.until(wake_key(row.org_id, row.id), look, seconds)
        return found or await self.one(row.org_id, row.id)

    async def requested(
        self, workspace_id: str, state: str | None, before: Approval | None, count: int
    ) -> list[Approval]:
        """What a workspace has asked for, newest first, before one of them."""
        return await self._page("approvals_requested", {"workspace_id": workspace_id}, state, before, count)

    async def held(
        self, org_id: str, workspace_id: str, state: str | None, before: Approval | None, count: int
    ) -> list[Approval]:
        """What a workspace was asked to decide, newest first, before one of them."""
        own = {"org_id": org_id, "workspace_id": workspace_id}
        return await self._page("approvals_held", own, state, before, count)

    async def any(
        self, org_id: str, workspace_id: str, state: str | None, before: Approval | None, count: int
    ) -> list[Approval]:
        """Both in one order."""
        found = await self.requested(workspace_id, state, before, count)
        found += await self.held(org_id, workspace_id, state, before, count)
        return sorted(found, key=lambda row: (row.created_at, row.id), reverse=True)[:count]

    async def _page(
        self, name: str, own: Mapping[str, object], state: str | None, before: Approval | None, count: int
    ) -> list[Approval]:
        place = (_NEWEST, "") if before is None else (before.created_at, before.id)
        wish = {
            **own,
            "status": None if state in _IS_OPEN else state,
            "is_open": _IS_OPEN.get(state or ""),
            "before_at": place[0],
            "before_id": place[1],
            "count": count,
        }
        return [Approval.of(row) for row in await self._store.rows(name, wish)]

    async def pending(self, org_id: str, after: Approval | None, count: int) -> list[Approval]:
        """The open ones of an organisation, oldest first, behind one of them."""
        place = (-1, "") if after is None else (after.created_at, after.id)
        wish = {"org_id": org_id, "after_at": place[0], "after_id": place[1], "count": count}
        return [Approval.of(row) for row in await self._store.rows("approvals_open", wish)]

    async def of_org(self, org_id: str, state: str | None, before: Approval | None, count: int) -> list[Approval]:
        """Those of an organisation, newest first, before one of them."""
        return await self._page("approvals_of_org", {"org_id": org_id}, state, before, count)

    async def shown(self, org_id: str) -> list[ApprovalItem]:
        """What a snapshot has of an organisation: the open ones, and those that have ended lately."""
        most, now = self._limits.approvals_in_snapshot, self._clock.now()
        rows = await self.pending(org_id, None, most)
        wish = {"org_id": org_id, "since": now - self._limits.approval_shown_seconds * SECOND, "count": most}
        rows += [Approval.of(row) for row in await self._store.rows("approvals_settled_since", wish)]
        return [item_of(row) for row in rows]

    async def open_in_all(self) -> int:
        """How many approvals of all organisations are open."""
        wishes: list[Params] = [{"org_id": each.id} for each in self._org.orgs()]
        return sum(rows[0][0] for rows in await self._store.rows_of_each("approvals_open_count", wishes))

    async def used_before(self, workspace_id: str, action: str) -> bool:
        """Whether a workspace has used an approval for an action of this name."""
        wish = {"workspace_id": workspace_id, "action": action}
        return bool(await self._store.rows("approval_used_before", wish))

    async def of_task(self, org_id: str, task_id: str, workspace_id: str) -> Approval | None:
        """The oldest approval that is not decided and that a workspace has asked for to do a task; None: there is
        none, so the task does not wait for one."""
        wish = {"org_id": org_id, "task_id": task_id, "workspace_id": workspace_id}
        rows = await self._store.rows("approval_of_task", wish)
        return Approval.of(rows[0]) if rows else None

    async def wait_of_task(self, org_id: str, task_id: str, workspace_id: str, seconds: float) -> Approval | None:
        """The same, as soon as there is one; None if there is none in that time."""

        async def look() -> Look[Approval]:
            return Look(await self.of_task(org_id, task_id, workspace_id))

        return await self._wakeups.until(task_key(org_id, task_id), look, seconds)
