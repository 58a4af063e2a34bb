"""Delegations below each other as a tree: how long each waited and was worked on, summed up from below.

Above: `edges/delegations.py`. Below: the reader of delegations.
"""

from collections.abc import Sequence

from molecule_core.delegations.model import Delegation, Status
from molecule_core.delegations.reader import DelegationReader
from molecule_core.ground.clock import SECOND, Clock
from molecule_core.wire.delegations import DelegationItem, TreeNode, TreeSeconds, TreeSums


class WorkTree:
    """Makes trees."""

    def __init__(self, delegations: DelegationReader, *, clock: Clock) -> None:
        self._delegations = delegations
        self._clock = clock

    async def below(self, top: Delegation) -> TreeNode:
        """A delegation and all below it. Whoever may see the top may see what became of it further down."""
        rows = [] if top.recorded else await self._delegations.tree(top.org_id, top.root_id)
        below: dict[str, list[Delegation]] = {}
        for row in rows:
            if row.parent_id is not None:
                below.setdefault(row.parent_id, []).append(row)
        wanted = _all_below(top, below)
        items = {item.delegation_id: item for item in await self._delegations.previews(wanted)}
        now, made = self._clock.now(), dict[str, TreeNode]()
        for row in reversed(wanted):  # what stands below another one began behind it
            children = [made[each.id] for each in below.get(row.id, ())]
            made[row.id] = _node(row, items[row.id], children, now)
        return made[top.id]


def _all_below(top: Delegation, below: dict[str, list[Delegation]]) -> list[Delegation]:
    found = [top]
    for row in found:
        found += below.get(row.id, ())
    return found


def _node(row: Delegation, item: DelegationItem, children: list[TreeNode], now: int) -> TreeNode:
    own = _seconds(row, now)
    return TreeNode(
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
        subtree=_sums(row, own, [child.subtree for child in children]),
        children=children,
    )


def _seconds(row: Delegation, now: int) -> TreeSeconds:
    """Until somebody had it in hand it waited; from then on it was worked on."""
    end = now if row.settled_at is None else row.settled_at
    taken = end if row.taken_at is None else row.taken_at
    return TreeSeconds((taken - row.created_at) / SECOND, (end - taken) / SECOND)


def _sums(row: Delegation, own: TreeSeconds, below: Sequence[TreeSums]) -> TreeSums:
    return TreeSums(
        nodes=1 + sum(each.nodes for each in below),
        open=row.open + sum(each.open for each in below),
        failed=int(row.status is Status.FAILED) + sum(each.failed for each in below),
        waiting=own.waiting + sum(each.waiting for each in below),
        working=own.working + sum(each.working for each in below),
    )
