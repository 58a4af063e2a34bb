"""Trees of delegations, with waiting and working times summed from the leaves up."""

from collections.abc import Sequence

from molecule_core.common.clock import SECOND, Clock
from molecule_core.delegations.model import Delegation
from molecule_core.delegations.reader import DelegationReader
from molecule_core.wire.schemas.delegations import (
    DelegationItem,
    DelegationStatus,
    DelegationTreeNode,
    TreeDurations,
    TreeTotals,
)


class DelegationTreeReader:
    """Reader of delegation trees."""

    def __init__(self, delegations: DelegationReader, *, clock: Clock) -> None:
        self._delegations = delegations
        self._clock = clock

    async def read_tree(self, top: Delegation) -> DelegationTreeNode:
        """Return a delegation and all below it. Access to the top includes access to everything below it."""
        rows = [] if top.recorded else await self._delegations.load_tree(top.org_id, top.root_id)
        (tree,) = await self._build([top], rows)
        return tree

    async def build_trees(self, rows: Sequence[Delegation]) -> list[DelegationTreeNode]:
        """Return the trees that delegations form; one whose parent is not among them is the top of a tree."""
        known = {row.id for row in rows}
        return await self._build([row for row in rows if row.parent_id not in known], rows)

    async def _build(self, tops: Sequence[Delegation], rows: Sequence[Delegation]) -> list[DelegationTreeNode]:
        below: dict[str, list[Delegation]] = {}
        for row in rows:
            if row.parent_id is not None:
                below.setdefault(row.parent_id, []).append(row)
        rows_in_trees = _with_descendants(tops, below)
        items = {item.delegation_id: item for item in await self._delegations.to_previews(rows_in_trees)}
        now, nodes = self._clock.now(), dict[str, DelegationTreeNode]()
        for row in reversed(rows_in_trees):
            # Children come after their parent, so in reverse order they are built before it.
            children = [nodes[each.id] for each in below.get(row.id, ())]
            nodes[row.id] = _tree_node(row, items[row.id], children, now)
        return [nodes[top.id] for top in tops]


def _with_descendants(tops: Sequence[Delegation], by_parent: dict[str, list[Delegation]]) -> list[Delegation]:
    found = list(tops)
    for row in found:
        found += by_parent.get(row.id, ())
    return found


def _tree_node(
    row: Delegation, item: DelegationItem, children: list[DelegationTreeNode], now: int
) -> DelegationTreeNode:
    own = _tree_seconds(row, now)
    return DelegationTreeNode(
        delegation_id=row.id,
        status=item.status,
        phase=item.phase,
        created_at=item.created_at,
        taken_at=item.taken_at,
        settled_at=item.settled_at,
        source_id=item.source_id,
        source_name=item.source_name,
        target_id=item.target_id,
        target_name=item.target_name,
        summary=item.summary,
        attempt=item.attempt,
        reason=item.reason,
        error=item.error,
        advice=item.advice,
        response_preview=item.response_preview,
        last_heartbeat=item.last_heartbeat,
        deadline=item.deadline,
        stuck=item.stuck,
        parent_id=item.parent_id,
        depth=item.depth,
        retry_of=item.retry_of,
        progress=item.progress,
        own_seconds=own,
        subtree=_tree_sums(row, own, [child.subtree for child in children]),
        children=children,
        checks=item.checks,
    )


def _tree_seconds(row: Delegation, now: int) -> TreeDurations:
    """Split the time of a delegation into waiting (before it was taken) and working (after)."""
    end = now if row.settled_at is None else row.settled_at
    claimed_at = end if row.taken_at is None else row.taken_at
    return TreeDurations((claimed_at - row.created_at) / SECOND, (end - claimed_at) / SECOND)


def _tree_sums(row: Delegation, own: TreeDurations, child_sums: Sequence[TreeTotals]) -> TreeTotals:
    return TreeTotals(
        nodes=1 + sum(each.nodes for each in child_sums),
        open=row.open + sum(each.open for each in child_sums),
        failed=int(row.status is DelegationStatus.FAILED) + sum(each.failed for each in child_sums),
        waiting=own.waiting + sum(each.waiting for each in child_sums),
        working=own.working + sum(each.working for each in child_sums),
    )
