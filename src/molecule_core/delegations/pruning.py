"""Retention of delegations: a tree goes as a whole, some days after the last of its delegations has ended.

Keys and the rows for analysis have ages of their own. Above: the server. Below: the store.
"""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from molecule_core.ground.clock import DAY, HOUR, SECOND, Clock
from molecule_core.ground.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Read, Row, Several, Store, WriteSet
from molecule_core.store.pruning import LOOKED, Batch, Prunes, deletion
from molecule_core.store.queries import Params

# The row in the log of its source is shown as the delegation stands, so a delegation outlives that: messages keep rows
# by an hour longer than their age, and go first.
_LONGER_SECONDS = 3600
# What goes with a delegation; statements that take org_id and id.
_WITH_A_DELEGATION = ("forget_delegation", "forget_delegation_facts", "forget_progress")


class Old(NamedTuple):
    """A tree that may go, and how many delegations it has."""

    root_id: str
    size: int


class DelegationPruning(Prunes):
    """The part of delegations, their keys, and the rows for analysis."""

    def __init__(self, store: Store, org: OrgReader, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._clock = clock
        self._limits = limits

    async def batches(self, before: int, count: int) -> AsyncIterator[Batch]:
        for org in self._org.orgs():
            async for batch in self._trees(org.id, before - _LONGER_SECONDS * SECOND, count):
                yield batch
        async for batch in self._keys(count):
            yield batch
        async for batch in self._history(count):
            yield batch

    async def _trees(self, org_id: str, before: int, count: int) -> AsyncIterator[Batch]:
        """Whole trees, as many as fit into a batch, or one that is larger."""
        place: dict[str, Any] = {"settled_at": -1, "id": ""}
        full = True
        while full:
            wish = {"org_id": org_id, "before": before, "count": count, **place}
            found = await self._store.rows("settled_trees", wish)
            full = len(found) == count
            if not found:
                yield LOOKED
                return
            place = {"id": found[-1][0], "settled_at": found[-1][1]}
            wishes: list[Params] = [{"org_id": org_id, "root_id": row[0]} for row in found]
            trees = zip(found, await self._store.rows_of_each("delegations_in_tree", wishes), strict=True)
            old = [Old(root[0], len(rows)) for root, rows in trees if _all_ended(rows, before)]
            if not old:
                yield LOOKED
            for going in _in_batches(old, count):
                ids = [each.root_id for each in going]
                # Alone: whoever begins below one of them at this moment has begun before, or finds no parent.
                command = Command(org_id, (), partial(_forgetting, org_id, ids, before), alone=True)
                yield Batch("delegations", sum(each.size for each in going), command)

    async def _keys(self, count: int) -> AsyncIterator[Batch]:
        before = self._clock.now() - self._limits.delegation_key_hours * HOUR
        place: dict[str, Any] = {"created_at": -1, "source_id": "", "key": ""}
        full = True
        while full:
            found = await self._store.rows("old_delegation_keys", {"before": before, "count": count, **place})
            full = len(found) == count
            if not found:
                yield LOOKED
                return
            place = dict(zip(("source_id", "key", "created_at"), found[-1], strict=True))
            own = [{"source_id": row[0], "key": row[1], "before": before} for row in found]
            yield Batch("delegation keys", len(own), deletion("", [("forget_delegation_key", each) for each in own]))

    async def _history(self, count: int) -> AsyncIterator[Batch]:
        before = self._clock.now() - self._limits.delegation_history_days * DAY
        place: dict[str, Any] = {"settled_at": -1, "org_id": "", "delegation_id": ""}
        full = True
        while full:
            found = await self._store.rows("old_delegation_history", {"before": before, "count": count, **place})
            full = len(found) == count
            if not found:
                yield LOOKED
                return
            place = dict(zip(("org_id", "delegation_id", "settled_at"), found[-1], strict=True))
            own = [{"org_id": row[0], "delegation_id": row[1]} for row in found]
            gone = deletion("", [("forget_delegation_history", each) for each in own])
            yield Batch("delegation history", len(own), gone)


def _all_ended(rows: Sequence[Row], before: int) -> bool:
    """Whether no delegation of a tree is open, and all have ended before a time."""
    return all(settled_at is not None and settled_at < before for _, settled_at in rows)


def _in_batches(old: Sequence[Old], count: int) -> list[list[Old]]:
    """Trees in batches of at most so many delegations; one that has more is a batch of its own."""
    batches: list[list[Old]] = []
    room = 0
    for each in old:
        if not batches or each.size > room:
            batches.append([])
            room = count
        batches[-1].append(each)
        room -= each.size
    return batches


def _forgetting(org_id: str, root_ids: Sequence[str], before: int) -> Decision[None]:
    """A tree grows below what has ended too, so each is looked at once more."""
    trees = yield Several([Read("delegations_in_tree", {"org_id": org_id, "root_id": each}) for each in root_ids])
    ids = [row[0] for rows in trees if _all_ended(rows, before) for row in rows]
    writes: list[tuple[str, Params]] = [
        (name, {"org_id": org_id, "id": each}) for each in ids for name in _WITH_A_DELEGATION
    ]
    return WriteSet(None, writes)
