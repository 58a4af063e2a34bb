"""Retention of delegations: deletes whole trees, some days after the last delegation of a tree ended.

Idempotency keys and history rows have retention periods of their own.
"""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from molecule_core.common.clock import DAY, HOUR, SECOND, Clock
from molecule_core.common.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, CommandSteps, ReadQuery, RequestBatch, Row, Statement, Store, WriteSet
from molecule_core.store.queries import Params
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy, deletion_command

# Messages keep the caller's log row an hour longer than their age limit, and that row shows the delegation's current
# status. So a delegation is kept longer than its log row.
_EXTRA_SECONDS = 3600
# Deleted with a delegation; each statement takes org_id and id.
_DELETE_STATEMENTS = (
    "forget_delegation",
    "forget_delegation_facts",
    "forget_progress",
    "forget_acceptance",
    "forget_evidence",
    "forget_delegation_scope",
)


class ExpiredTree(NamedTuple):
    """A tree that may be deleted, and its number of delegations."""

    root_id: str
    size: int


class DelegationRetention(RetentionPolicy):
    """Retention of delegations, their idempotency keys and their history rows."""

    kinds = ("delegations", "delegation keys", "delegation history")

    def __init__(self, store: Store, org: OrgReader, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._clock = clock
        self._limits = limits

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        for org in self._org.orgs():
            async for batch in self._tree_batches(org.id, before - _EXTRA_SECONDS * SECOND, count):
                yield batch
        async for batch in self._key_batches(count):
            yield batch
        async for batch in self._history_batches(count):
            yield batch

    async def _tree_batches(self, org_id: str, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        """Yield whole trees, up to `count` delegations a batch; a larger tree is a batch of its own."""
        position: dict[str, Any] = {"settled_at": -1, "id": ""}
        full = True
        while full:
            query = {"org_id": org_id, "before": before, "count": count, **position}
            found = await self._store.rows("settled_trees", query)
            full = len(found) == count
            if not found:
                yield EMPTY_BATCH
                return
            position = {"id": found[-1][0], "settled_at": found[-1][1]}
            queries: list[Params] = [{"org_id": org_id, "root_id": row[0]} for row in found]
            trees = zip(found, await self._store.rows_of_each("delegations_in_tree", queries), strict=True)
            expired = [ExpiredTree(root[0], len(rows)) for root, rows in trees if _all_ended(rows, before)]
            if not expired:
                yield EMPTY_BATCH
            for trees_of_batch in _split_batches(expired, count):
                ids = [each.root_id for each in trees_of_batch]
                # Exclusive: a delegation that begins below one of these trees either committed before, or finds no
                # parent.
                command = Command(org_id, (), partial(_decide_delete, org_id, ids, before), exclusive=True)
                yield RetentionBatch("delegations", sum(each.size for each in trees_of_batch), command)

    async def _key_batches(self, count: int) -> AsyncIterator[RetentionBatch]:
        before = self._clock.now() - self._limits.delegation_key_hours * HOUR
        position: dict[str, Any] = {"created_at": -1, "source_id": "", "key": ""}
        full = True
        while full:
            found = await self._store.rows("old_delegation_keys", {"before": before, "count": count, **position})
            full = len(found) == count
            if not found:
                yield EMPTY_BATCH
                return
            position = dict(zip(("source_id", "key", "created_at"), found[-1], strict=True))
            own = [{"source_id": row[0], "key": row[1], "before": before} for row in found]
            yield RetentionBatch(
                "delegation keys", len(own), deletion_command("", [("forget_delegation_key", each) for each in own])
            )

    async def _history_batches(self, count: int) -> AsyncIterator[RetentionBatch]:
        before = self._clock.now() - self._limits.delegation_history_days * DAY
        position: dict[str, Any] = {"settled_at": -1, "org_id": "", "delegation_id": ""}
        full = True
        while full:
            found = await self._store.rows("old_delegation_history", {"before": before, "count": count, **position})
            full = len(found) == count
            if not found:
                yield EMPTY_BATCH
                return
            position = dict(zip(("org_id", "delegation_id", "settled_at"), found[-1], strict=True))
            own = [{"org_id": row[0], "delegation_id": row[1]} for row in found]
            command = deletion_command("", [("forget_delegation_history", each) for each in own])
            yield RetentionBatch("delegation history", len(own), command)


def _all_ended(rows: Sequence[Row], before: int) -> bool:
    """Return whether all delegations of a tree ended before a time."""
    return all(settled_at is not None and settled_at < before for _, settled_at in rows)


def _split_batches(expired: Sequence[ExpiredTree], count: int) -> list[list[ExpiredTree]]:
    """Split trees into batches of at most `count` delegations; a larger tree is a batch of its own."""
    batches: list[list[ExpiredTree]] = []
    capacity = 0
    for each in expired:
        if not batches or each.size > capacity:
            batches.append([])
            capacity = count
        batches[-1].append(each)
        capacity -= each.size
    return batches


def _decide_delete(org_id: str, root_ids: Sequence[str], before: int) -> CommandSteps[None]:
    """Delete the trees that still qualify.

    Each is read again, because delegations can begin below an ended one."""
    trees = yield RequestBatch(
        [ReadQuery("delegations_in_tree", {"org_id": org_id, "root_id": each}) for each in root_ids]
    )
    ids = [row[0] for rows in trees if _all_ended(rows, before) for row in rows]
    writes: list[Statement] = [(name, {"org_id": org_id, "id": each}) for each in ids for name in _DELETE_STATEMENTS]
    return WriteSet(None, writes)
