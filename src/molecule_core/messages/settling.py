"""Settling: what is handled and does not come again; one machine for agents that poll and for the server that pushes.

Above: handing, letters, pushing, replies and silence of this slice. Below: obligations, rules, store.
"""

from collections.abc import Callable, Generator, Iterable
from typing import Any

from msgspec.structs import asdict, replace

from molecule_core.ground.clock import Clock
from molecule_core.ground.errors import NotFound
from molecule_core.messages import rules
from molecule_core.messages.model import ACKED, HANDLED, RECEIVE, Filters, Handout, Inbox, Place, Span
from molecule_core.messages.owing import Owing
from molecule_core.messages.pushed import MessageState
from molecule_core.messages.ticks import Statement, ticked
from molecule_core.org.model import PUSH
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Read, Step, Store, T, WriteSet
from molecule_core.store.journal import org_key

# Rows looked at in one read while the floor of an inbox moves up.
_FLOOR_STEP = 256


class Settling:
    """Settles messages."""

    def __init__(self, store: Store, org: OrgReader, owing: Owing, *, clock: Clock) -> None:
        self._store = store
        self._org = org
        self._owing = owing
        self._clock = clock

    async def ack_upto(self, workspace_id: str, seq: int, attempt: int | None) -> int:
        """All messages up to a number are handled; returns how far the inbox is handled, never less than before. Of the
        dead letters that wait again these are the ones that were handed out, with no later attempt than is named. An
        attempt that never was counts as the last that was.

        Raises StaleAttempt if an attempt is named and one of the others was handed out again since."""
        return await self._store.run(
            self._on_inbox(workspace_id, lambda: self._acking_upto(workspace_id, seq, attempt))
        )

    def _acking_upto(self, workspace_id: str, seq: int, attempt: int | None) -> Decision[int]:
        inbox = yield from inbox_of(workspace_id)
        # What is there, not what other commands of this group have just taken numbers for: nobody has handled that.
        present = yield Read("last_seq", {"key": workspace_id})
        seq, now, let_go = min(seq, present[0][0] or 0), self._clock.now(), list[int]()

        def is_meant(waiting: Handout) -> bool:
            if waiting.seq > seq or waiting.lease_until == 0 or (attempt is not None and attempt < waiting.attempt):
                return False
            if waiting.was_let_go(now):
                let_go.append(waiting.seq)
            return True

        again = yield from requeued_of(workspace_id, inbox, is_meant)
        if seq <= inbox.acked_seq:
            return (yield from self._acking(workspace_id, inbox, [], again, let_go=let_go))
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
        # Senders are told of no hand-over that never was, whatever is named.
        told = min(attempt or 0, max((each.attempt for each in handouts), default=0))
        ends = Place(inbox.acked_seq + 1, told, inbox.acked_no + 1), Place(seq, told, acked_no)
        was_claimed = acked_no - inbox.acked_no <= len(handouts)
        if was_claimed:  # else all of the range is looked at; what waits again is passed only where it is meant
            let_go += [each.seq for each in handouts if not each.requeued and each.was_let_go(now)]
        span = Span(*ends)
        return (yield from self._acking(workspace_id, passed, [], again, span, was_claimed=was_claimed, let_go=let_go))

    async def ack_one(self, workspace_id: str, activity_id: str, attempt: int | None) -> int:
        """One message is handled; returns how far the inbox is handled without a gap.

        Raises NotFound, AttemptMissing, StaleAttempt, InvalidField."""

        def decide() -> Decision[int]:
            places = yield Read("place_of_activity", {"id": activity_id, "workspace_id": workspace_id})
            if not places or places[0][1] is None:
                raise NotFound(what="message")
            inbox, held, is_handled = yield from standing(workspace_id, places[0][0])
            if is_handled:
                return WriteSet(inbox.acked_seq)
            rules.check_own_attempt(held, attempt)
            return (yield from self._acking_one(workspace_id, inbox, held, *places[0][:2]))

        return await self._store.run(self._on_inbox(workspace_id, decide))

    def answering(self, workspace_id: str, seq: int, inbound_no: int) -> Decision[int]:
        """The message at a place of the inbox is answered, and so handled, whatever its attempt is. A push that is
        under way is left to its own end."""
        inbox, held, is_handled = yield from standing(workspace_id, seq)
        is_pushed = held is not None and held.lease_until > self._clock.now()
        if is_handled or (is_pushed and self._org.living(workspace_id).delivery_mode == PUSH):
            return WriteSet(inbox.acked_seq)
        return (yield from self._acking_one(workspace_id, inbox, held, seq, inbound_no))

    def _acking_one(
        self, workspace_id: str, inbox: Inbox, held: Handout | None, seq: int, inbound_no: int
    ) -> Decision[int]:
        place = Place(seq, held.attempt if held else 0, inbound_no)
        plain, again = ([], [place]) if held is not None and held.requeued else ([place], [])
        let_go = [seq] if held is not None and held.was_let_go(self._clock.now()) else []
        return (yield from self._acking(workspace_id, inbox, plain, again, let_go=let_go))

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
            places, now = [Place(*row[:-1]) for row in open_rows], self._clock.now()
            let_go = [each.seq for each, row in zip(places, open_rows, strict=True) if each.attempt and row[-1] <= now]
            return (yield from self._acking(workspace_id, inbox, places, [], let_go=let_go))

        return await self._store.run(self._on_inbox(workspace_id, decide))

    def _acking(
        self,
        workspace_id: str,
        inbox: Inbox,
        plain: list[Place],
        again: list[Place],
        passed: Span | None = None,
        *,
        was_claimed: bool = True,
        let_go: Iterable[int] = (),
    ) -> Decision[int]:
        """Settles single rows, and what lay below a floor that has risen already (`passed`). What was not claimed
        before was handed over without a claim: it is owed an answer from now on. So is what was claimed and `let_go`:
        if it was given back, nobody watches for its answer yet."""
        now, seat = self._clock.now(), self._org.living(workspace_id)
        spans = [*rules.spans(plain), *rules.spans(again), *([passed] if passed is not None else [])]
        if not spans:
            return WriteSet(inbox.acked_seq)
        unclaimed = [*(each.seq for each in (*plain, *again) if each.attempt == 0), *let_go]
        stretches = [(seq - 1, seq) for seq in unclaimed]
        if passed is not None and not was_claimed:
            stretches.append((passed.first.seq - 1, passed.last.seq))
        owed, facts = self._owing.passed(seat, stretches, now), (yield from self._owing.taken(seat, stretches, now))
        floor, writes = yield from settle(workspace_id, inbox, plain, again, now)
        noted, told = ticked(workspace_id, ACKED, [span for span in spans if span.first.no <= span.last.no], now)
        writes += [*handled_letters(workspace_id, again), *noted, *owed.writes]
        rings = (org_key(seat.org_id), *owed.rings)
        return WriteSet(floor.acked_seq, writes, told, rings, owed.then, facts=[*facts])  # control: ack-kept

    async def _inbox(self, workspace_id: str) -> Inbox:
        rows = await self._store.rows("inbox_state", {"workspace_id": workspace_id})
        return Inbox(*rows[0]) if rows else Inbox()

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


def state_of(activity_id: str) -> Generator[Step, Any, MessageState | None]:
    """How the delivery of a message stands."""
    rows = yield Read("message_state", {"id": activity_id})
    return MessageState(*rows[0]) if rows else None


def standing(workspace_id: str, seq: int) -> Generator[Step, Any, tuple[Inbox, Handout | None, bool]]:
    """How an inbox is handled, how one of its rows is held, and whether that one is handled."""
    inbox = yield from inbox_of(workspace_id)
    noted = yield Read("handout", {"workspace_id": workspace_id, "seq": seq})
    held = Handout(*noted[0]) if noted else None
    passed = seq <= inbox.acked_seq or (held is not None and held.acked_at is not None)
    return inbox, held, passed and not (held is not None and held.requeued)


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
