"""Leases from budgets for the turns that delivered messages begin. Steps of the commands that deliver them."""

from collections.abc import Sequence

from molecule_core.budgets.leases import BudgetLeases
from molecule_core.budgets.model import TurnToLease
from molecule_core.messages.model import ActivityPageRow
from molecule_core.org.model import Workspace
from molecule_core.store.database import CommandSteps
from molecule_core.wire.schemas.activity import APPROVAL_KINDS, Intent, MessageKind

# They begin no work of their own, and some of them are needed to decide about a budget.
_FREE_KINDS = frozenset((*APPROVAL_KINDS, MessageKind.SYSTEM))


def lease_for_rows(
    leases: BudgetLeases,
    workspace: Workspace,
    rows: Sequence[ActivityPageRow],
    *,
    most: int,
    until: int,
    now: int,
    is_alone: bool,
) -> CommandSteps[list[ActivityPageRow]]:
    """Reserve for messages that are about to be delivered; returns at most `most` of them that may be.

    The others wait in the inbox: those of other chains may have budgets with capacity. `until`: when the leases end.
    `is_alone`: as for `BudgetLeases.lease_turns`."""
    free = {row.id for row in rows if row.kind in _FREE_KINDS or row.intent == Intent.ACK}
    turns = [
        TurnToLease(
            key=row.id,
            until=until,
            root_id=row.root_id or row.id,
            delegation_id=row.id if row.kind == MessageKind.DELEGATION else None,
        )
        for row in rows
        if row.id not in free
    ]
    leased = yield from leases.lease_turns(
        workspace.org_id, workspace.id, turns, now, is_alone=is_alone, most=max(0, most - len(free))
    )
    allowed = leased.result.admitted | free
    return leased.returning([row for row in rows if row.id in allowed][:most])
