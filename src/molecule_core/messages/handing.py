"""Handing out and settling: claims, acks and cursors, one machine for agents that poll and for the server that pushes.

Above: the edges, and `pushing` and `letters` of this slice. Below: rules, reader, store.
"""

from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import asdict, replace

from molecule_core.ground.clock import SECOND, Clock, rfc3339
from molecule_core.ground.errors import NotFound
from molecule_core.ground.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.model import (
    ACKED,
    HANDED_OVER,
    HANDLED,
    RECEIVE,
    Filters,
    Handout,
    Inbox,
    Place,
    Shown,
    Span,
)
from molecule_core.messages.reader import MessageReader
from molecule_core.org.model import Status
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Event, Read, Step, Store, T, WriteSet
from molecule_core.store.journal import log_key, org_key
from molecule_core.store.queries import Params
from molecule_core.store.wakeups import Look, Wakeups
from molecule_core.wire.events import MessageTick

Statement = tuple[str, Params]
# Rows looked at in one read while the floor of an inbox moves up.
_FLOOR_STEP = 256


class Handing:
    """Hands out messages and settles them."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        wakeups: Wakeups,
        reader: MessageReader,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = org
        self._wakeups = wakeups
        self._reader = reader
        self._clock = clock
        self._limits = limits

    # -- claims --------------------------------------------------------------------------------------------------------

    async def claim(self, workspace_id: str, *, lease_seconds: int, count: int, wait: float = 0) -> list[Shown]:
        """Hands out messages that nobody holds and nobody handled, oldest first, each with its attempt; waits so many
        seconds for a first one. Not handled within the lease, each comes again with the next attempt."""
        deciding = partial(self._claiming, workspace_id, lease_seconds, count)

        async def look() -> Look[list[Shown]]:
            seat = self._org.living(workspace_id)  # it may have been removed while we waited
            if seat.status is Status.PAUSED or await self._all_handled(workspace_id):
                return Look(None)
            rows = await self._store.run(self._on_inbox(workspace_id, deciding))
            return Look(rows or None, again_in=None if rows else await self._lease_ends_in(workspace_id))

        if wait <= 0:
            return (await look()).found or []
        return await self._wakeups.until(log_key(workspace_id), look, wait) or []

    async def _all_handled(self, workspace_id: str) -> bool:
        """Whether an inbox is known to hold nothing that could be handed out, so that no command is needed."""
        highest = self._store.highest("last_inbound", workspace_id)
        if highest is None:
            return False
        inbox = await self._inbox(workspace_id)
        return inbox.acked_no + inbox.acked_above >= highest and not inbox.requeued

    async def _inbox(self, workspace_id: str) -> Inbox:
        rows = await self._store.rows("inbox_state", {"workspace_id": workspace_id})
        return Inbox(*rows[0]) if rows else Inbox()

    def _claiming(self, workspace_id: str, lease_seconds: int, count: int) -> Decision[list[Shown]]:
        seat, now = self._org.living(workspace_id), self._clock.now()
        if seat.status is Status.PAUSED:
            return WriteSet([])
        inbox = yield from inbox_of(workspace_id)
        wish = {"workspace_id": workspace_id, "seq": inbox.acked_seq, "now": now}
        found = (yield Read("requeued_rows", {**wish, "count": count})) if inbox.requeued else []
        if len(found) < count:
            page = {"count": count - len(found), "page_bytes": self._limits.page_bytes}
            found = [*found, *(yield Read("claimable", {**wish, **page}))]
        if not found:
            return WriteSet([])
        rows = [Shown(*row[:-1]) for row in found]
        places = [Place(row[2], row[-2], row[-1]) for row in found]
        lease_until = now + lease_seconds * SECOND
        writes = [handout(workspace_id, seq, attempt, lease_until, None) for seq, attempt, _ in places]
        noted, told = ticked(workspace_id, HANDED_OVER, rules.spans(places), now)
        return WriteSet(rows, [*writes, *noted], told, (org_key(seat.org_id),))

    async def _lease_ends_in(self, workspace_id: str) -> float | None:
        """Seconds until the first lease of a workspace ends; None if it has none."""
        end = (await self._store.rows("next_lease_end", {"workspace_id": workspace_id}))[0][0]
        return None if end is None else max(0.0, (end - self._clock.now()) / SECOND)

    # -- acks ----------------------------------------------------------------------------------------------------------

    async def ack_upto(self, workspace_id: str, seq: int, attempt: int | None) -> int:
        """All messages up to a number are handled; returns how far the inbox is handled, never less than before. Of the
        dead letters that wait again these are the ones that were handed out, with no later attempt than is named.

        Raises StaleAttempt if an attempt is named and one of the others was handed out again since."""
        return await self._store.run(
            self._on_inbox(workspace_id, lambda: self._acking_upto(workspace_id, seq, attempt))
        )

    def _acking_upto(self, workspace_id: str, seq: int, attempt: int | None) -> Decision[int]:
        inbox = yield from inbox_of(workspace_id)
        # What is there, not what other commands of this group have just taken numbers for: nobody has handled that.
        present = yield Read("last_seq", {"key": workspace_id})
        seq = min(seq, present[0][0] or 0)

        def is_meant(waiting: Handout) -> bool:
            return waiting.seq <= seq and waiting.lease_until > 0 and (attempt is None or attempt >= waiting.attempt)

        again = yield from requeued_of(workspace_id, inbox, is_meant)
        if seq <= inbox.acked_seq:
            return (yield from self._acking(workspace_id, inbox, [], again))
        rows = yield Read("handouts_upto", {"workspace_id": workspace_id, "seq": seq})
        handouts = [Handout(*row) for row in rows if row[0] > inbox.acked_seq]
        if attempt is not None:
            for each in handouts:
                if not each.settled:
                    rules.check_attempt(each, attempt)
        last = yield Read("last_inbound_upto", {"workspace_id": workspace_id, "seq": seq})
        acked_no = last[0][1] if last else inbox.acked_no
        single = sum(each.settled for each in handouts)
        passed = replace(inbox, acked_seq=seq, acked_no=acked_no, acked_above=inbox.acked_above - single)
        ends = Place(inbox.acked_seq + 1, attempt or 0, inbox.acked_no + 1), Place(seq, attempt or 0, acked_no)
        return (yield from self._acking(workspace_id, passed, [], again, Span(*ends)))

    async def ack_one(self, workspace_id: str, activity_id: str, attempt: int | None) -> int:
        """One message is handled; returns how far the inbox is handled without a gap.

        Raises NotFound, AttemptMissing, StaleAttempt, InvalidField."""

        def decide() -> Decision[int]:
            inbox = yield from inbox_of(workspace_id)
            places = yield Read("place_of_activity", {"id": activity_id, "workspace_id": workspace_id})
            if not places or places[0][1] is None:
                raise NotFound(what="message")
            seq, number = places[0]
            noted = yield Read("handout", {"workspace_id": workspace_id, "seq": seq})
            held = Handout(*noted[0]) if noted else None
            waits_again = held is not None and held.requeued == 1
            if not waits_again and (seq <= inbox.acked_seq or (held is not None and held.acked_at is not None)):
                return WriteSet(inbox.acked_seq)
            rules.check_own_attempt(held, attempt)
            place = Place(seq, held.attempt if held else 0, number)
            plain, again = ([], [place]) if waits_again else ([place], [])
            return (yield from self._acking(workspace_id, inbox, plain, again))

        return await self._store.run(self._on_inbox(workspace_id, decide))

    async def ack_cursor(self, workspace_id: str, seq: int, filters: Filters) -> int:
        """What an old client has behind its cursor is handled: all that matches its filters, up to a number."""
        inbox = await self._inbox(workspace_id)
        shows_no_mail = filters.activity_type not in (None, RECEIVE)
        if inbox.acked_seq >= seq or shows_no_mail:
            return inbox.acked_seq
        if filters.whole_inbox:
            return await self.ack_upto(workspace_id, seq, None)

        def decide() -> Decision[int]:
            inbox = yield from inbox_of(workspace_id)
            wish = {"workspace_id": workspace_id, "floor": inbox.acked_seq, "seq": seq}
            open_rows = yield Read("unhandled_upto", {**wish, **asdict(filters)})
            return (yield from self._acking(workspace_id, inbox, [Place(*row) for row in open_rows], []))

        return await self._store.run(self._on_inbox(workspace_id, decide))

    def _acking(
        self, workspace_id: str, inbox: Inbox, plain: list[Place], again: list[Place], passed: Span | None = None
    ) -> Decision[int]:
        """Settles single rows, and what lay below a floor that has risen already."""
        now = self._clock.now()
        spans = [*rules.spans(plain), *rules.spans(again), *([passed] if passed is not None else [])]
        if not spans:
            return WriteSet(inbox.acked_seq)
        floor, writes = yield from settle(workspace_id, inbox, plain, again, now)
        noted, told = ticked(workspace_id, ACKED, [span for span in spans if span.first.no <= span.last.no], now)
        rings = (org_key(self._org.living(workspace_id).org_id),)
        return WriteSet(floor.acked_seq, [*writes, *handled_letters(workspace_id, again), *noted], told, rings)

    # -- readers by cursor ---------------------------------------------------------------------------------------------

    async def read_behind(
        self, workspace_id: str, seq: int, filters: Filters, count: int, *, wait: float = 0
    ) -> list[Shown]:
        """What an agent gets that keeps a cursor: says that all up to there is handled, and reads on. Dead letters that
        wait again come first, and again until the cursor has moved past them; those that are dead do not come."""
        known: Inbox | None = await self._inbox(workspace_id)
        if known is not None and known.acked_seq < seq:
            await self.ack_cursor(workspace_id, seq, filters)
            known = await self._inbox(workspace_id)
        if not filters.whole_inbox:
            return await self._reader.after(workspace_id, seq, filters, count, wait=wait)
        start = await self._start_of(workspace_id, seq, known or Inbox())
        if known is not None and known.requeued:
            await self._store.run(self._on_inbox(workspace_id, partial(self._acking_shown, workspace_id, seq, start)))

        async def look() -> Look[list[Shown]]:
            nonlocal known
            if self._org.living(workspace_id).status is Status.PAUSED:
                return Look(None)
            inbox, known = known or await self._inbox(workspace_id), None
            again: list[Shown] = []
            if inbox.requeued:
                showing = partial(self._showing, workspace_id, start, count)
                again = await self._store.run(self._on_inbox(workspace_id, showing))
            left = count - len(again)
            rows = await self._living_behind(workspace_id, inbox, start, filters, left) if left else []
            return Look([*again, *rows] or None)

        if wait <= 0:
            return (await look()).found or []
        return await self._wakeups.until(log_key(workspace_id), look, wait) or []

    async def _start_of(self, workspace_id: str, seq: int, inbox: Inbox) -> int:
        """Where a cursor goes on. One that names a dead letter, which came out of order, goes on at the floor."""
        if seq >= inbox.acked_seq:
            return seq
        was_dead = await self._store.rows("was_dead_letter", {"workspace_id": workspace_id, "seq": seq})
        return inbox.acked_seq if was_dead else seq

    def _acking_shown(self, workspace_id: str, seq: int, start: int) -> Decision[int]:
        """A cursor has moved: what was shown behind an earlier one is handled."""
        inbox = yield from inbox_of(workspace_id)
        shown: dict[int, int] = {}

        def is_meant(waiting: Handout) -> bool:
            if waiting.shown_behind is None:
                return False
            shown[waiting.seq] = waiting.shown_behind
            return start > waiting.shown_behind or waiting.seq <= seq

        again = yield from requeued_of(workspace_id, inbox, is_meant)
        # A cursor on one of them says the same of those that were shown before it, in the same page.
        again = [each for each in again if start > shown[each.seq] or shown.get(seq) == shown[each.seq]]
        return (yield from self._acking(workspace_id, inbox, [], again))

    def _showing(self, workspace_id: str, start: int, count: int) -> Decision[list[Shown]]:
        inbox, now = (yield from inbox_of(workspace_id)), self._clock.now()
        wish = {"workspace_id": workspace_id, "seq": inbox.acked_seq, "now": now, "count": count}
        found = yield Read("requeued_rows", wish)
        if not found:
            return WriteSet([])
        places = [Place(row[2], row[-2], row[-1]) for row in found]
        writes: list[Statement] = [
            ("show_handout", {"workspace_id": workspace_id, "seq": each.seq, "attempt": each.attempt, "cursor": start})
            for each in places
        ]
        noted, told = ticked(workspace_id, HANDED_OVER, rules.spans(places), now)
        rings = (org_key(self._org.living(workspace_id).org_id),)
        return WriteSet([Shown(*row[:-1]) for row in found], [*writes, *noted], told, rings)

    async def _living_behind(
        self, workspace_id: str, inbox: Inbox, seq: int, filters: Filters, count: int
    ) -> list[Shown]:
        while rows := await self._reader.after(workspace_id, seq, filters, count):
            if not inbox.dead:
                return rows
            stretch = {"workspace_id": workspace_id, "first": rows[0].seq, "last": rows[-1].seq}
            dead = {row[0] for row in await self._store.rows("dead_between", stretch)}
            living = [row for row in rows if row.seq not in dead]
            if living:
                return living
            seq = rows[-1].seq
        return []

    def _on_inbox(self, workspace_id: str, decide: Callable[[], Decision[T]]) -> Command[T]:
        def of_living() -> Decision[T]:
            self._org.living(workspace_id)  # another process may have removed it: memory knows under the lock
            return (yield from decide())

        return Command(self._org.living(workspace_id).org_id, inbox_keys(workspace_id), of_living)


# -- steps that the other hands of this slice take too -----------------------------------------------------------------


def inbox_keys(workspace_id: str) -> tuple[tuple[str, str]]:
    """The keys of a command that changes an inbox."""
    return (("inbox", workspace_id),)


def inbox_of(workspace_id: str) -> Generator[Step, Any, Inbox]:
    """How far an inbox is handled."""
    rows = yield Read("inbox_state", {"workspace_id": workspace_id})
    return Inbox(*rows[0]) if rows else Inbox()


def requeued_of(
    workspace_id: str, inbox: Inbox, is_meant: Callable[[Handout], bool]
) -> Generator[Step, Any, list[Place]]:
    """Those dead letters that wait again and that are meant."""
    if not inbox.requeued:
        return []
    rows = yield Read("requeued_handouts", {"workspace_id": workspace_id})
    return [Place(row[0], row[1], row[-1]) for row in rows if is_meant(Handout(*row[:-1]))]


def settle(
    workspace_id: str, inbox: Inbox, plain: list[Place], again: list[Place], now: int
) -> Generator[Step, Any, tuple[Inbox, list[Statement]]]:
    """Single rows need not be handed out any more: `again` those that waited again. Moves the floor if a gap closed."""
    above, requeued = inbox.acked_above + len(plain), inbox.requeued - len(again)
    passed = replace(inbox, acked_above=above, requeued=requeued)
    floor = yield from _raised(workspace_id, passed, frozenset(each.seq for each in plain))
    row = {"workspace_id": workspace_id}
    freed: list[Statement] = [("settle_handout", {**row, "seq": each.seq, "now": now}) for each in again]
    notes = [handout(workspace_id, each.seq, each.attempt, 0, now) for each in plain if each.seq > floor.acked_seq]
    forget: Statement = ("forget_handouts", {**row, "seq": floor.acked_seq})
    return floor, [*freed, save_inbox(workspace_id, floor), forget, *notes]


def _raised(workspace_id: str, inbox: Inbox, just_handled: frozenset[int]) -> Generator[Step, Any, Inbox]:
    """Moves the floor up over everything that is handled without a gap."""
    while inbox.acked_above > 0:
        wish = {"workspace_id": workspace_id, "floor": inbox.acked_seq, "count": _FLOOR_STEP}
        rows = yield Read("handled_behind", wish)
        inbox, swallowed = rules.contiguous(inbox, [(seq, bool(done) or seq in just_handled) for seq, done in rows])
        if swallowed < _FLOOR_STEP:
            break
    return inbox


def save_inbox(workspace_id: str, inbox: Inbox) -> Statement:
    """An inbox is handled so far."""
    return "save_inbox", {"workspace_id": workspace_id, **asdict(inbox)}


def handout(workspace_id: str, seq: int, attempt: int, lease_until: int, acked_at: int | None) -> Statement:
    """A row is handed out, or handled."""
    row = {"seq": seq, "attempt": attempt, "lease_until": lease_until, "acked_at": acked_at}
    return "save_handout", {"workspace_id": workspace_id, **row}


def handled_letters(workspace_id: str, again: Iterable[Place]) -> list[Statement]:
    """Dead letters that waited again are handled."""
    row = {"workspace_id": workspace_id, "state": HANDLED}
    return [("set_dead_letter", {**row, "seq": each.seq}) for each in again]


def ticked(
    workspace_id: str, tick: str, spans: Iterable[Span], now: int, reason: str | None = None
) -> tuple[list[Statement], list[Event]]:
    """What became of ranges of an inbox: for whoever asks later, and for whoever watches."""
    notes: list[Statement] = []
    events = []
    for span in spans:
        attempt = span.last.attempt
        row = {"workspace_id": workspace_id, "tick": tick, "attempt": attempt, "at": now, "reason": reason}
        notes += [
            ("note_handover", {**row, "first_no": first, "last_no": last})
            for first, last in rules.pieces(span.first.no, span.last.no)
        ]
        payload = MessageTick(tick, span.first.seq, span.last.seq, rfc3339(now), attempt or None, reason)
        events.append(Event("MESSAGE_TICK", workspace_id, "inbox", workspace_id, 0, msgspec.json.encode(payload)))
    return notes, events
