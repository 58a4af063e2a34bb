"""All that the canvas shows of an organisation, as of one place in its journal.

The place is read first: what changes while the rest is read is told again by the events behind it, and each of these
says by its `seq` and its entity's `rev` whether it is in the snapshot already.
"""

import msgspec

from molecule_core.access.model import Caller
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.delegations.reader import DelegationReader
from molecule_core.ground.clock import Clock, rfc3339
from molecule_core.ground.limits import Limits
from molecule_core.messages.reader import MessageReader
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.views.feed import Feed
from molecule_core.wire.live import (
    PROTOCOL,
    Snapshot,
    SnapshotLimits,
    SnapshotOrg,
    SnapshotWorkspace,
    User,
)


class SnapshotReader:
    """Makes snapshots."""

    def __init__(
        self,
        store: Store,
        feed: Feed,
        org: OrgReader,
        messages: MessageReader,
        delegations: DelegationReader,
        approvals: ApprovalReader,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._store = store
        self._feed = feed
        self._org = org
        self._messages = messages
        self._delegations = delegations
        self._approvals = approvals
        self._clock = clock
        self._most_delegations = limits.delegations_in_snapshot
        self._most_refusals = limits.refusals_in_snapshot
        self._limits = SnapshotLimits(
            limits.text_bytes, limits.name_length, limits.reply_seconds, limits.delegation_stuck_seconds
        )

    async def of(self, org_id: str, caller: Caller) -> Snapshot:
        """An organisation as this caller, who may see all of it, sees it now."""
        as_of = await self._feed.settled(org_id)
        workspaces = list(self._org.workspaces(org_id))
        chats = await self._messages.chat_heads([each.id for each in workspaces], caller.id)
        org = self._org.org(org_id)
        return Snapshot(
            protocol=PROTOCOL,
            epoch=self._store.epoch,
            as_of=as_of,
            server_time=rfc3339(self._clock.now()),
            org=SnapshotOrg(org.id, org.name),
            user=user_of(caller),
            limits=self._limits,
            workspaces=[self._workspace(each) for each in workspaces],
            chats=chats,
            unanswered=await self._messages.unanswered(org_id),
            delegations=await self._delegations.open_shown(org_id, self._most_delegations),
            refusals=await self._delegations.refused_shown(org_id, as_of, self._most_refusals),
            approvals=await self._approvals.shown(org_id),
        )

    def _workspace(self, workspace: Workspace) -> SnapshotWorkspace:
        pulse = self._org.pulse(workspace.id)
        return SnapshotWorkspace(
            **msgspec.structs.asdict(self._org.view(workspace)),
            current_task=pulse.current_task,
            last_heard_at=rfc3339(pulse.heard_at) if pulse.heard_at else None,
        )


def user_of(caller: Caller) -> User:
    """Who looks, as the page is told."""
    return User(caller.id, caller.name, caller.kind.value, caller.role.value)
