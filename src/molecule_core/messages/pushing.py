"""The claims of the server's own driver: takes an agent's next messages, and writes down what came of each push.

Above: `delivery`, which talks to the agents. Below: outcomes, settling, rules, store. Nothing here touches the network.
"""

import asyncio
from collections.abc import Generator
from functools import partial
from typing import Any

from msgspec.structs import replace

from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.limits import Limits
from molecule_core.messages import attachments, rules, turns
from molecule_core.messages.facts import Delayed, Returned
from molecule_core.messages.model import ACKED, HANDED_OVER, KIND_DECIDED, KIND_DELEGATION, Inbox, Place, Shown
from molecule_core.messages.obligations import Obligation, not_taken, owes_key
from molecule_core.messages.outcomes import Outcomes
from molecule_core.messages.owing import Owing
from molecule_core.messages.pushed import Head, Push, Room, Taken, Verdict
from molecule_core.messages.settling import handout, inbox_keys, inbox_of, settle
from molecule_core.messages.telling import Wish
from molecule_core.messages.ticks import Statement, ticked
from molecule_core.org.model import PUSH
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Read, Several, Step, Store, WriteSet
from molecule_core.store.journal import answer_key, org_key
from molecule_core.wire.envelope import with_metadata

# An agent that cannot be served now is looked at again after so long, whatever is heard of it meanwhile.
PARKED_SECONDS = 60
# A lease outlives the push by the time that it takes to write down what came of it.
_LEASE_MARGIN_SECONDS = 10
_ALL = 1 << 31
# Commands that are handed in at once, so that they share commits and leave room for others.
_TOGETHER = 256
# Delegations that begin in one moment, each the first in its inbox as far as it could see. All others know from their
# begin that they wait.
_MOST_PARKED = 16


class Pushing:
    """Claims for pushes, and their outcomes."""

    def __init__(
        self, store: Store, org: OrgReader, outcomes: Outcomes, owing: Owing, *, clock: Clock, limits: Limits
    ) -> None:
        self._store = store
        self._org = org
        self._outcomes = outcomes
        self._owing = owing
        self._clock = clock
        self._limits = limits

    async def due(self, count: int) -> list[tuple[str, int]]:
        """Which agents are to be looked at, and when (microseconds); the longest due first."""
        return [(row[0], row[1]) for row in await self._store.rows("due_targets", {"count": count})]

    async def take(self, org_id: str, workspace_id: str, room: Room) -> Taken:
        """The messages that may go out to an agent now, each with its attempt and under a lease; and when to look at
        this agent again, if nothing is heard of it before."""
        deciding = partial(self._taking, workspace_id, room)
        return await self._store.run(Command(org_id, inbox_keys(workspace_id), deciding))

    def _taking(self, workspace_id: str, room: Room) -> Decision[Taken]:
        seat, now = self._org.workspace(workspace_id), self._clock.now()
        present = yield Read("last_seq", {"key": workspace_id})
        target = {"workspace_id": workspace_id, "last": present[0][0] or 0}
        if seat is None or seat.removed or seat.delivery_mode != PUSH:
            return WriteSet(Taken([], None), [("drop_target", target)])
        inbox = yield from inbox_of(workspace_id)
        heads = yield from _heads(workspace_id, inbox, now, seat.max_concurrent_tasks + 1)
        if not heads:
            return WriteSet(Taken([], None), [("drop_target", target)])
        if ended := (yield from _ended(workspace_id, heads, now)):
            _, writes = yield from settle(workspace_id, inbox, [_place(head) for head in ended], [], now)
            # Of the end of a delegation all has been told.
            plain = [head for head in ended if head.kind != KIND_DELEGATION]
            noted, told = ticked(workspace_id, ACKED, rules.spans(_place(head) for head in plain), now)
            rings = (org_key(seat.org_id), *(answer_key(head.id) for head in plain)) if plain else ()
            wake = ("wake_target", {"workspace_id": workspace_id, "due": now})
            return WriteSet(Taken([], now), [*writes, *noted, wake], told, rings)
        taken, waits_until = turns.takeable(heads, room, now)
        due = room.look_at or min(waits_until or 1 << 62, now + PARKED_SECONDS * SECOND)
        writes = [("set_target", {**target, "due": due})]
        rows, places = list[Shown](), []
        lease_until = now + (self._limits.push_seconds + _LEASE_MARGIN_SECONDS) * SECOND
        for head in taken:
            row = {"workspace_id": workspace_id, "seq": head.seq}
            found = yield Read("push_body", row)
            rows.append(replace(Shown(*found[0]), attempt=head.attempt + 1))
            places.append(Place(head.seq, head.attempt + 1, head.no))
            writes += [handout(workspace_id, head.seq, head.attempt + 1, lease_until, None), ("start_push", row)]
        rows, owed = yield from self._owing.handed_over(seat, rows, now, Wish(beside=True), pushed=True)
        pushes = [self._push(row) for row in rows]
        noted, told = ticked(workspace_id, HANDED_OVER, rules.spans(places), now)
        rings = (org_key(seat.org_id), *owed.rings) if told else ()
        taken_now, every = Taken(pushes, due), [*writes, *noted, *owed.writes]
        return WriteSet(taken_now, every, told, rings, owed.then, facts=[*owed.facts, *_parked(heads, room, due, now)])

    def _push(self, row: Shown) -> Push:
        return Push(row.workspace_id, row.seq, row.id, row.attempt or 1, self._body(row), row.source_id, row.kind)

    def _body(self, row: Shown) -> str:
        """A message as it is pushed: with how to answer it in its metadata, never in its parts."""
        body = row.request_body or ""
        return body if self._owing.telling is None else with_metadata(body, row.instructions)

    async def settle(self, org_id: str, push: Push, verdict: Verdict, *, counts: bool) -> None:
        """What came of a push. A failure that does not count brings the message no nearer to its death."""
        keys = (*inbox_keys(push.workspace_id), owes_key(push.workspace_id, push.source_id))
        read, of_kind = turns.replied, self._outcomes.of_message
        if push.kind == KIND_DELEGATION:
            read, of_kind = turns.heard, self._outcomes.of_delegation
        heard = None if verdict.answer is None else read(verdict.answer, self._limits)
        files = () if heard is None else attachments.keys_of([*heard.parts])
        deciding = partial(of_kind, push, verdict, heard, counts)
        # An explanation is followed far: were it not alone, its whole group would be decided twice.
        await self._store.run(Command(org_id, (*keys, *files), deciding, alone=push.kind == KIND_DECIDED))

    async def release(self, org_id: str, push: Push) -> None:
        """The server stops in the middle of a push: the next one need not wait for the lease to end."""

        def decide() -> Decision[None]:
            state = yield from self._outcomes.held(push)
            if state is None:
                return WriteSet(None)
            now = self._clock.now()
            freed = handout(push.workspace_id, push.seq, push.attempt, now, None)
            facts = [Returned((push.activity_id,), now)] if push.kind == KIND_DELEGATION else []
            return WriteSet(None, [freed, *not_taken(push.workspace_id, push.seq)], facts=[*facts])

        await self._store.run(Command(org_id, inbox_keys(push.workspace_id), decide))

    async def take_over(self) -> None:
        """Only for a process that has the store to itself: whoever holds leases on pushes is dead, so that they need
        not be waited for."""
        due = await self.due(_ALL)
        for start in range(0, len(due), _TOGETHER):
            found = (self._org.workspace(workspace_id) for workspace_id, _ in due[start : start + _TOGETHER])
            commands = (
                Command(seat.org_id, inbox_keys(seat.id), partial(self._taking_over, seat.id)) for seat in found if seat
            )
            await asyncio.gather(*map(self._store.run, commands))

    def _taking_over(self, workspace_id: str) -> Decision[None]:
        seat, now = self._org.workspace(workspace_id), self._clock.now()
        if seat is None or seat.removed or seat.delivery_mode != PUSH:
            return WriteSet(None)
        inbox = yield from inbox_of(workspace_id)
        heads = yield from _heads(workspace_id, inbox, now, seat.max_concurrent_tasks + 1)
        held = [head for head in heads if head.lease_until > now]
        writes: list[Statement] = [handout(workspace_id, head.seq, head.attempt, now, None) for head in held]
        return WriteSet(None, [*writes, ("wake_target", {"workspace_id": workspace_id, "due": now})] if held else [])


def _heads(workspace_id: str, inbox: Inbox, now: int, count: int) -> Generator[Step, Any, list[Head]]:
    """An agent's first messages that are not handled, dead letters that wait again among them, in order."""
    wish = {"workspace_id": workspace_id, "count": count, "now": now}
    again = (yield Read("push_requeued", wish)) if inbox.requeued else []
    fresh = yield Read("push_head", {**wish, "floor": inbox.acked_seq})
    return sorted([*(Head(*row)._replace(again=True) for row in again), *(Head(*row) for row in fresh)])[:count]


def _place(head: Head) -> Place:
    return Place(head.seq, head.attempt, head.no)


def _ended(workspace_id: str, heads: list[Head], now: int) -> Generator[Step, Any, list[Head]]:
    """Messages whose push nobody has seen the end of, and that are answered or cancelled since: nobody wants them done
    once more. (Other letters that wait again are taken back where they are answered.)"""
    over = (head for head in heads if head.attempt and head.lease_until <= now)
    left = [head for head in over if head.kind == KIND_DELEGATION or not head.again]
    if not left:
        return []
    owed = yield Several([Read("obligation", {"workspace_id": workspace_id, "seq": head.seq}) for head in left])
    return [head for head, rows in zip(left, owed, strict=True) if rows and not Obligation(*rows[0]).is_open]


def _parked(heads: list[Head], room: Room, due: int, now: int) -> list[Delayed]:
    """Delegations that begin to wait, since their agent can take nothing."""
    fresh = [head for head in heads if head.kind == KIND_DELEGATION and not head.attempt] if room.full else []
    return [Delayed(head.id, True, None, due, now) for head in fresh[:_MOST_PARKED]]
