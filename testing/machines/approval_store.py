"""Approvals on a world without a server: every hand that touches one, and all that is to be seen of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.approvals.model import (
    APPROVAL,
    Approval,
    ApprovalRequest,
    ApprovalRequestResult,
    DecisionInput,
    Policies,
)
from molecule_core.approvals.serializers import to_item
from molecule_core.budgets.cache import BudgetCache
from molecule_core.budgets.transitions import BudgetRaises
from molecule_core.common.limits import Limits
from molecule_core.messages import events
from molecule_core.messages.approval_messages import ApprovalMessages
from molecule_core.messages.delegation_messages import DelegationMessages
from molecule_core.messages.model import ActivityFilters, ActivityPageRow
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import InboundMessage
from molecule_core.messages.replies import ReplyOutcome
from molecule_core.org.model import WorkspacesMoved, WorkspacesRemoved, WorkspaceStatus
from molecule_core.server.services import build_approvals
from molecule_core.store.database import Command, CommandSteps, WriteSet
from molecule_core.wire.schemas.activity import ActivityType
from molecule_core.wire.schemas.approvals import AuthorityGrant, Party
from testing.engines import Engine
from testing.machines.delegation_store import Stage
from testing.machines.inboxes import World, world_on
from testing.org_trees import seat

_ALL = 1_000
_WORDS = [{"kind": "text", "text": "because"}]


class Ladder(Stage):
    """The hands of messages and of approvals on one store, wired as a server wires them."""

    def __init__(self, world: World, folder: Path, limits: Limits) -> None:
        super().__init__(world, folder)
        store, org, clock, ids = world.store, world.org, world.clock, world.ids
        owing = ObligationLedger(clock, limits)
        asking = ApprovalMessages(owing, DelegationMessages(owing, clock=clock, ids=ids), clock=clock)
        self.hands = build_approvals(
            store, org, asking, world.wakeups, BudgetRaises(BudgetCache(limits)), clock=clock, ids=ids, limits=limits
        )
        hearing, follow = self.hands.subscriber, store.subscribers.subscribe
        follow(events.ApprovalExplained, "approvals.on_explained", hearing.on_explained, isolated=True)
        follow(WorkspacesRemoved, "approvals.on_workspaces_removed", hearing.on_workspaces_removed)
        follow(WorkspacesMoved, "approvals.on_workspaces_moved", hearing.on_workspaces_moved)

    # -- the tree ------------------------------------------------------------------------------------------------------

    def grown(self, *parents: int | None) -> list[str]:
        """New workspaces of one organisation; each stands below the one of that number."""
        ids = self.world.seats(len(parents))
        org_id = self.world.org.active_workspace(ids[0]).org_id
        for id_, parent in zip(ids, parents, strict=True):
            self.world.registry.put_workspace(seat(id_, org_id, None if parent is None else ids[parent]))
        return ids

    def hears(self, workspace_id: str, *, is_here: bool) -> None:
        """The agent there is heard, or is silent from now on."""
        known = self.world.org.active_workspace(workspace_id)
        self.world.registry.put_workspace(
            replace(known, status=WorkspaceStatus.ONLINE if is_here else WorkspaceStatus.OFFLINE)
        )

    async def moves(self, workspace_id: str, parent_id: str) -> None:
        """A seat is moved, as the tree does it."""
        known = self.world.org.active_workspace(workspace_id)

        def decide() -> CommandSteps[None]:
            yield from ()
            put = partial(self.world.registry.put_workspace, replace(known, parent_id=parent_id))
            return WriteSet(
                None, [], after_commit=put, domain_events=[WorkspacesMoved((workspace_id,), self.world.clock.now())]
            )

        await self.store.run(Command(known.org_id, (), decide, exclusive=True))

    # -- acting --------------------------------------------------------------------------------------------------------

    async def requests(self, wish: ApprovalRequest) -> ApprovalRequestResult:
        """A workspace asks for leave."""
        return await self.hands.writer.request(wish)

    async def decides(self, row: Approval, said: DecisionInput) -> Approval:
        """Somebody decides."""
        return await self.hands.writer.decide(row, said)

    async def answers(self, row: Approval, details: dict[str, Any] | None) -> Approval:
        """The requester says more, by the route."""
        return await self.hands.writer.answer_question(row, self.party(row.workspace_id), "because", details)

    async def replies_to(self, row: Approval, seq: int) -> ReplyOutcome:
        """The requester replies to the message at a place of its inbox."""
        found = await self.store.rows("inbox_message", {"workspace_id": row.workspace_id, "seq": seq})
        return await self.replies.reply(row.workspace_id, InboundMessage(*found[0]).handle, _WORDS, key=None)

    async def uses(self, row: Approval, action_hash: str, key: str | None) -> Approval:
        """The requester acts."""
        return await self.hands.writer.use(row, action_hash, key)

    async def withdraws(self, row: Approval, by: Party) -> Approval:
        """It is not wanted any more."""
        return await self.hands.writer.withdraw(row, by)

    async def grants(self, workspace_id: str, grants: list[AuthorityGrant]) -> Policies:
        """A workspace decides these actions by itself from now on."""
        return await self.hands.writer.set_policies(workspace_id, "ann", grants=grants)

    async def fire(self) -> None:
        """The timers of approvals that are due go off, until none is."""
        while due := [key for key, at in await self.timers() if at <= self.world.clock.now()]:
            for key in due:
                await self.hands.writer.on_due(key)

    # -- looking -------------------------------------------------------------------------------------------------------

    @staticmethod
    def party(workspace_id: str) -> Party:
        """A workspace that acts."""
        return Party("workspace", workspace_id, workspace_id)

    async def now(self, row: Approval) -> Approval:
        """An approval as it is committed."""
        return await self.hands.reader.get_approval(row.org_id, row.id)

    async def timers(self) -> list[tuple[str, int]]:
        """When which approval is looked at."""
        rows = await self.store.rows("next_timers", {"count": 10_000})
        return [(key, at) for kind, key, at in rows if kind == APPROVAL]

    async def mail(self, workspace_id: str) -> list[ActivityPageRow]:
        """All messages that ever came to a workspace."""
        rows: list[ActivityPageRow] = await self.world.reader.list_after(
            workspace_id, 0, ActivityFilters(activity_type=ActivityType.RECEIVE), _ALL
        )
        return rows

    async def events_of(self, row: Approval) -> list[tuple[int, str]]:
        """What was told to its requester: the number of each change, and what was said."""
        rows = await self.store.rows("events_after", {"org_id": row.org_id, "seq": 0, "count": 10_000})
        own = [each for each in rows if (each[4], each[5]) == (APPROVAL, row.id)]
        return [(each[6], str(each[8])) for each in own if each[2] == row.workspace_id]


def shown(row: Approval) -> str:
    """An approval as everybody reads it."""
    return msgspec.json.encode(to_item(row)).decode()


@contextmanager
def ladder_on(engine: Engine, folder: Path, postgres: str, limits: Limits | None = None) -> Iterator[Ladder]:
    """A ladder until the block ends."""
    limits = limits or Limits()
    with world_on(engine, folder, postgres, limits) as world:
        yield Ladder(world, folder, limits)
