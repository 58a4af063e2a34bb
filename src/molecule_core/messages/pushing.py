"""The claims of the server's own driver: takes an agent's next messages, and writes down what came of each push.

Above: `delivery`, which talks to the agents. Below: handing, letters, rules, store. Nothing here touches the network.
"""

import asyncio
from collections.abc import Generator
from functools import partial
from typing import Any

from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.ids import Ids, Randomness
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import shorten
from molecule_core.messages import rules, turns
from molecule_core.messages.handing import (
    Statement,
    handled_letters,
    handout,
    inbox_keys,
    inbox_of,
    settle,
    ticked,
)
from molecule_core.messages.letters import Letters, state_of
from molecule_core.messages.model import (
    ACKED,
    EXPIRED,
    HANDED_OVER,
    KIND_USER,
    NOTIFY,
    REFUSED,
    SEND,
    UNREACHABLE,
    Activity,
    Head,
    Inbox,
    MessageState,
    Place,
    Push,
    Room,
    Taken,
    Verdict,
)
from molecule_core.org.model import PUSH
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Event, Read, Step, Store, Take, WriteSet
from molecule_core.store.journal import PUSHES, answer_key, log_key, org_key

# An agent that cannot be served now is looked at again after so long, whatever is heard of it meanwhile.
PARKED_SECONDS = 60
# A lease outlives the push by the time that it takes to write down what came of it.
_LEASE_MARGIN_SECONDS = 10
_SUMMARY_LENGTH = 80
_ALL = 1 << 31
# Commands that are handed in at once, so that they share commits and leave room for others.
_TOGETHER = 256


class Pushing:
    """Claims for pushes, and their outcomes."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        letters: Letters,
        *,
        clock: Clock,
        ids: Ids,
        randomness: Randomness,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = org
        self._letters = letters
        self._clock = clock
        self._ids = ids
        self._randomness = randomness
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
        taken, waits_until = turns.takeable(heads, room, now)
        due = room.look_at or min(waits_until or 1 << 62, now + PARKED_SECONDS * SECOND)
        writes: list[Statement] = [("set_target", {**target, "due": due})]
        pushes, places = [], []
        lease_until = now + (self._limits.push_seconds + _LEASE_MARGIN_SECONDS) * SECOND
        for head in taken:
            row = {"workspace_id": workspace_id, "seq": head.seq}
            found = yield Read("push_body", row)
            pushes.append(Push(workspace_id, head.seq, found[0][0], head.attempt + 1, found[0][1]))
            places.append(Place(head.seq, head.attempt + 1, head.no))
            writes += [handout(workspace_id, head.seq, head.attempt + 1, lease_until, None), ("start_push", row)]
        noted, told = ticked(workspace_id, HANDED_OVER, rules.spans(places), now)
        return WriteSet(Taken(pushes, due), [*writes, *noted], told, (org_key(seat.org_id),) if told else ())

    async def settle(self, org_id: str, push: Push, verdict: Verdict, *, counts: bool) -> None:
        """What came of a push. A failure that does not count brings the message no nearer to its death."""
        deciding = partial(self._settling, push, verdict, counts)
        await self._store.run(Command(org_id, inbox_keys(push.workspace_id), deciding))

    async def release(self, org_id: str, push: Push) -> None:
        """The server stops in the middle of a push: the next one need not wait for the lease to end."""

        def decide() -> Decision[None]:
            state = yield from self._held(push)
            if state is None:
                return WriteSet(None)
            return WriteSet(None, [handout(push.workspace_id, push.seq, push.attempt, self._clock.now(), None)])

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

    def _held(self, push: Push) -> Generator[Step, Any, MessageState | None]:
        """How a message stands, if this push still holds it: its lease may have ended, somebody else may have it."""
        state = yield from state_of(push.activity_id)
        seat = self._org.workspace(push.workspace_id)
        if state is None or seat is None or seat.removed:
            return None
        return state if state.acked_at is None and state.attempt == push.attempt else None

    def _settling(self, push: Push, verdict: Verdict, counts: bool) -> Decision[None]:
        state = yield from self._held(push)
        if state is None:
            return WriteSet(None)
        inbox = yield from inbox_of(push.workspace_id)
        if verdict.answer is not None:
            return (yield from self._answered(push, state, inbox, verdict.answer))
        now = self._clock.now()
        failures = state.failures + int(counts and not verdict.busy)
        if state.expires_at is not None and state.expires_at <= now and not state.requeued:
            return (yield from self._letters.dying(inbox, state, EXPIRED, verdict.error))
        most = self._limits.refused_attempts if verdict.refused else self._limits.delivery_attempts
        if failures >= most:
            reason = REFUSED if verdict.refused else UNREACHABLE
            return (yield from self._letters.dying(inbox, state, reason, verdict.error))
        tries = failures if counts else push.attempt
        bits = self._randomness.bits(turns.jitter_bits())
        wait = turns.busy_seconds(verdict) if verdict.busy else turns.back_off(tries, bits)
        next_at = now + round(wait * SECOND)
        noted = {"failures": failures, "next_at": next_at, "busy": int(verdict.busy), "noted_at": now}
        said = {"last_error": verdict.error, "answer": None, "answered_at": None}
        writes: list[Statement] = [
            handout(push.workspace_id, push.seq, push.attempt, now, None),
            ("save_push", {"workspace_id": push.workspace_id, "seq": push.seq, **noted, **said}),
            ("wake_target", {"workspace_id": push.workspace_id, "due": next_at}),
        ]
        return WriteSet(None, writes, rings=(answer_key(push.activity_id), PUSHES))

    def _answered(self, push: Push, state: MessageState, inbox: Inbox, answer: str) -> Decision[None]:
        now, workspace_id = self._clock.now(), push.workspace_id
        place = Place(state.seq, state.attempt, state.no)
        plain, again = ([], [place]) if state.requeued else ([place], [])
        _, writes = yield from settle(workspace_id, inbox, plain, again, now)
        noted, told = ticked(workspace_id, ACKED, rules.spans([place]), now)
        kept = {"failures": state.failures, "next_at": 0, "busy": 0, "noted_at": now, "last_error": state.last_error}
        row = {"workspace_id": workspace_id, "seq": push.seq, **kept, "answer": answer, "answered_at": now}
        writes += [*handled_letters(workspace_id, again), *noted, ("save_push", row)]
        writes.append(("wake_target", {"workspace_id": workspace_id, "due": now}))
        line = yield from self._line_for_the_user(state, answer, now)
        if line is not None:
            writes.append(("insert_activity", line))
            told.append(Event("AGENT_MESSAGE", workspace_id, "activity", line.id, at=now))
        org_id = self._org.living(workspace_id).org_id
        return WriteSet(None, writes, told, (answer_key(state.id), log_key(workspace_id), org_key(org_id), PUSHES))

    def _line_for_the_user(self, state: MessageState, answer: str, now: int) -> Generator[Step, Any, Activity | None]:
        """What an agent answers to a person belongs into their chat, as if the agent had written it there."""
        text = turns.answer_text(answer)
        if state.kind != KIND_USER or not text:
            return None
        seat, activity_id = self._org.living(state.workspace_id), self._ids.new()
        body = rules.notice_body(activity_id, [{"kind": "text", "text": text[: self._limits.text_bytes // 4]}])
        return Activity(
            id=activity_id,
            org_id=seat.org_id,
            workspace_id=seat.id,
            seq=(yield Take("last_seq", seat.id)),
            chat=1,
            size=len(body),
            activity_type=SEND,
            method=NOTIFY,
            source_id=seat.id,
            sender=f"workspace:{seat.id}",
            context_id=state.context_id or activity_id,
            created_at=now,
            summary=shorten(text, _SUMMARY_LENGTH),
            request_body=body.decode(),
            root_id=state.id,
            cause_id=state.id,
        )


def _heads(workspace_id: str, inbox: Inbox, now: int, count: int) -> Generator[Step, Any, list[Head]]:
    """An agent's first messages that are not handled, dead letters that wait again among them, in order."""
    wish = {"workspace_id": workspace_id, "count": count}
    again = (yield Read("push_requeued", wish)) if inbox.requeued else []
    fresh = yield Read("push_head", {**wish, "floor": inbox.acked_seq, "now": now})
    return sorted(Head(*row) for row in [*again, *fresh])[:count]
