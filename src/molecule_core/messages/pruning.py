"""Retention of messages: what is old and handled, or old and a workspace's own, goes.

What stays however old it is: what was not handled yet or may still become overdue, and of each workspace the newest
row, the newest of its inbox and the newest of its chat, from which numbers, cursors and lists go on.
"""

from collections.abc import AsyncIterator, Generator, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.limits import Limits
from molecule_core.messages.model import NOTIFY, UNMENTIONED
from molecule_core.messages.obligations import FORGOTTEN
from molecule_core.messages.ticks import ticked_one
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Event, Read, Step, Store, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.pruning import LOOKED, Batch, Prunes
from molecule_core.store.queries import Params
from molecule_core.store.timers import TIMERS, timer
from molecule_core.wire.events import ChatPruned

# An event is told from its row, so a row outlives its event: by more than a clock is ever set back.
_LONGER_SECONDS = 3600
# What goes with a row (statements that take workspace_id, id and seq), and with the last row of a removed workspace
# (workspace_id).
_WITH_A_ROW = (
    "forget_activity",
    "forget_mentions",
    "forget_handout",
    "forget_push",
    "forget_answer_wait",
    "forget_dead_letter",
    "forget_obligation",
)
_WITH_A_WORKSPACE = (
    "forget_inbox",
    "forget_every_handout",
    "forget_every_handover",
    "forget_every_obligation",
    "forget_read_marks",
    "forget_seat_told",
)


class Old(NamedTuple):
    """A row as retention looks at it, in the order `log_front` selects it."""

    seq: int
    id: str
    created_at: int
    inbound_no: int | None
    chat: int
    method: str | None
    waits: int
    """Whether it is a dead letter that a person has not dealt with, waits to be handed over once more, carries a
    delegation that somebody is at work on, or wants an answer that somebody watches for and that is not overdue yet."""

    @property
    def counts_as_unread(self) -> bool:
        """Whether it is a line that an agent wrote to its user."""
        return self.chat == 1 and self.method == NOTIFY

    def may_go(self, acked_seq: int) -> bool:
        """Whether nobody waits for it. (A dead letter is settled so that others can pass, but not handled.)"""
        return not self.waits and (self.inbound_no is None or self.seq <= acked_seq)


class MessagePruning(Prunes):
    """The part of logs, inboxes and chats."""

    def __init__(self, store: Store, org: OrgReader, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._clock = clock
        self._most_unread = limits.unread_count

    async def batches(self, before: int, count: int) -> AsyncIterator[Batch]:
        for org in self._org.orgs():
            for workspace in list(self._org.all_ever(org.id)):
                removed = workspace.removed_at is not None and workspace.removed_at < before
                found = self._of_removed(workspace, count) if removed else self._of_living(workspace, before, count)
                async for batch in found:
                    yield batch

    async def _of_living(self, workspace: Workspace, before: int, count: int) -> AsyncIterator[Batch]:
        """From the oldest row on, up to the first that is not old."""
        last, full, old_before = 0, True, before - _LONGER_SECONDS * SECOND
        while full:
            front = await self._front(workspace, last, count)
            old = list(takewhile(lambda row: row.created_at < old_before, front))
            full = len(old) == count
            if not old:
                yield LOOKED
                return
            last = old[-1].seq
            (kept,) = await self._store.rows("log_heads", {"workspace_id": workspace.id})
            acked_seq, heads = kept[0] or 0, set(kept[1:])
            going = [row for row in old if row.seq not in heads and row.may_go(acked_seq)]
            command = Command(workspace.org_id, (), partial(self._forgetting, workspace, going))
            yield Batch("messages", len(going), command) if going else LOOKED

    async def _of_removed(self, workspace: Workspace, count: int) -> AsyncIterator[Batch]:
        """All of it. That there was such a seat stays known: its agent may still ask, and is told to stop."""
        last, full = 0, True
        while full:
            going = await self._front(workspace, last, count)
            full = len(going) == count
            if not going:
                yield LOOKED
                return
            last = going[-1].seq
            command = Command(workspace.org_id, (), partial(self._forgetting, workspace, going, whole=not full))
            yield Batch("messages of removed workspaces", len(going), command)

    async def _front(self, workspace: Workspace, seq: int, count: int) -> list[Old]:
        wish = {"workspace_id": workspace.id, "seq": seq, "count": count}
        return [Old(*row) for row in await self._store.rows("log_front", wish)]

    def _forgetting(self, workspace: Workspace, going: Sequence[Old], *, whole: bool = False) -> Decision[None]:
        of_workspace = {"workspace_id": workspace.id}
        writes: list[tuple[str, Params]] = [
            (name, {**of_workspace, "id": row.id, "seq": row.seq}) for row in going for name in _WITH_A_ROW
        ]
        mentioned = yield Read("files_mentioned", {**of_workspace, "first": going[0].seq, "last": going[-1].seq})
        # The last mention of a file takes the file with it.
        writes += [timer(UNMENTIONED, f"{workspace.org_id}/{row[0]}", 0) for row in mentioned]
        numbers = [row.inbound_no for row in going if row.inbound_no is not None]
        if numbers:
            writes.append(("forget_handovers", {**of_workspace, "upto_no": numbers[-1]}))
        if whole:
            writes += [(name, of_workspace) for name in _WITH_A_WORKSPACE]
        events = [] if workspace.removed else (yield from self._unanswered(workspace.id, going))
        if not workspace.removed and any(row.counts_as_unread for row in going):
            wish = {**of_workspace, "count": self._most_unread}
            newest = [row[0] for row in (yield Read("agent_lines", wish))]
            kept = sorted(set(newest) - {row.seq for row in going})
            if len(kept) < len(newest):
                told = msgspec.json.encode(ChatPruned(kept))
                events.append(Event("CHAT_PRUNED", workspace.id, "chat", workspace.id, payload=told))
        rings = [*([org_key(workspace.org_id)] if events else []), *([TIMERS] if mentioned else [])]
        return WriteSet(None, writes, events, tuple(rings))

    def _unanswered(self, workspace_id: str, going: Sequence[Old]) -> Generator[Step, Any, list[Event]]:
        """Of messages that somebody saw to wait for an answer it is told that they are gone."""
        wish = {"workspace_id": workspace_id, "first": going[0].seq, "last": going[-1].seq}
        gone = {row.seq for row in going}
        waiting = [row for row in (yield Read("unanswered_between", wish)) if row[0] in gone]
        events: list[Event] = []
        for seq, number in waiting:
            events += ticked_one(workspace_id, FORGOTTEN, seq, number, self._clock.now())[1]
        return events
