"""Reads everything that the canvas shows of an organisation, as of one position of its journal.

The position is read first. Changes made while the rest is read are repeated by the events after it; by `seq` and the
entity's `rev` a client sees whether the snapshot contains them already.
"""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from molecule_core.access.model import Caller
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.common.clock import Clock, to_rfc3339
from molecule_core.common.errors import CursorNotFound
from molecule_core.common.limits import Limits
from molecule_core.delegations.reader import DelegationReader
from molecule_core.messages.reader import MessageReader
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.views.feed import Feed
from molecule_core.wire.schemas.live import (
    PROTOCOL_VERSION,
    SessionUser,
    Snapshot,
    SnapshotLimits,
    SnapshotOrg,
    SnapshotPage,
    SnapshotWorkspace,
)

S = TypeVar("S", bound=msgspec.Struct)


class SnapshotReader:
    """Reader of snapshots."""

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
        self._max_bytes = limits.snapshot_bytes
        self._max_delegations = limits.delegations_in_snapshot
        self._max_rejections = limits.refusals_in_snapshot
        self._limits = SnapshotLimits(
            limits.text_bytes,
            limits.name_length,
            limits.reply_seconds,
            limits.delegation_stuck_seconds,
            limits.grace_seconds,
        )

    async def read_snapshot(self, org_id: str, caller: Caller) -> Snapshot:
        """Return a snapshot of an organisation for a caller who may see all of it."""
        as_of = await self._feed.applied_head(org_id)
        page = await self.read_page(org_id, caller, None)
        org = self._org.org(org_id)
        return Snapshot(
            protocol=PROTOCOL_VERSION,
            epoch=self._store.epoch,
            as_of=as_of,
            server_time=to_rfc3339(self._clock.now()),
            org=SnapshotOrg(org.id, org.name),
            user=snapshot_user(caller),
            limits=self._limits,
            workspaces=page.workspaces,
            chats=page.chats,
            next_workspace=page.next_workspace,
            unanswered=await self._messages.list_unanswered(org_id),
            delegations=self._take_within_bytes(await self._delegations.snapshot_open(org_id, self._max_delegations)),
            refusals=await self._delegations.snapshot_rejections(org_id, as_of, self._max_rejections),
            approvals=self._take_within_bytes(await self._approvals.snapshot_items(org_id)),
        )

    async def read_page(self, org_id: str, caller: Caller, after: str | None) -> SnapshotPage:
        """Return the workspaces of a snapshot after one of them, with their chats, as far as they fit.

        `after` None: from the first. Raises CursorNotFound."""
        every = list(self._org.all_with_removed(org_id))
        position = next((n for n, each in enumerate(every, 1) if each.id == after), None)
        if after is not None and position is None:
            raise CursorNotFound(name="after")
        workspaces = [each for each in every[position or 0 :] if not each.removed]
        shown = self._take_within_bytes(self._snapshot_workspace(each) for each in workspaces)
        chats = await self._messages.chat_heads([each.id for each in shown], caller.id)
        has_more = len(shown) < len(workspaces)
        return SnapshotPage(workspaces=shown, chats=chats, next_workspace=shown[-1].id if has_more else None)

    def _take_within_bytes(self, items: Iterable[S]) -> list[S]:
        """Return the first items whose JSON has at most `snapshot_bytes`, and at least one."""
        taken, size = list[S](), 0
        for each in items:
            size += len(msgspec.json.encode(each))
            if taken and size > self._max_bytes:
                break
            taken.append(each)
        return taken

    def _snapshot_workspace(self, workspace: Workspace) -> SnapshotWorkspace:
        heartbeat = self._org.last_heartbeat(workspace.id)
        return SnapshotWorkspace(
            **msgspec.structs.asdict(self._org.workspace_view(workspace)),
            current_task=heartbeat.current_task,
            last_heard_at=to_rfc3339(heartbeat.heard_at) if heartbeat.heard_at else None,
        )


def snapshot_user(caller: Caller) -> SessionUser:
    """Return the caller as the canvas shows it."""
    return SessionUser(caller.id, caller.name, caller.kind.value, caller.role.value)
