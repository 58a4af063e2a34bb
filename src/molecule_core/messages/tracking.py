"""Reads of what became of a message: its ticks, why it is stuck, a push agent's answer, dead letters, and mail that
nobody takes.

Above: the edges. Below: rules, store. Writes nothing.
"""

from collections.abc import Callable, Sequence

from msgspec import UNSET, Raw

from molecule_core.ground.clock import Clock, others_first, rfc3339
from molecule_core.ground.errors import CursorGone, NotFound
from molecule_core.ground.limits import Limits
from molecule_core.messages import rules, turns
from molecule_core.messages.model import (
    ACKED,
    ANSWERED,
    DECLINED,
    DISCARDED,
    EXPIRED,
    HANDED_OVER,
    OUTSIDE,
    OVERDUE,
    Inbox,
)
from molecule_core.messages.obligations import Obligation
from molecule_core.messages.pushed import DeadLetter, Happened, MessageState
from molecule_core.org.model import PUSH, Status, Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Row, Store
from molecule_core.store.journal import answer_key
from molecule_core.store.queries import Params
from molecule_core.store.wakeups import Look, Wakeups
from molecule_core.wire.delivery import (
    DeadLetterPage,
    DeadLetterRow,
    QueueStatus,
    Stuck,
    Tick,
    Ticks,
    UntakenPage,
    UntakenRow,
)
from molecule_core.wire.obligations import ObligationPage, ObligationRow

_NEWEST = (1 << 62) - 1
# Inboxes that are looked at in one go, so that a large organisation holds up nobody for long.
_LOOKED_AT = 200
_ANY: dict[str, object] = {"state": None, "overdue": None, "outside": None, "unanswered": 0}
_WISHES: dict[str, dict[str, object]] = {
    "open": {**_ANY, "state": "open"},
    "unanswered": {**_ANY, "state": "open", "unanswered": 1},
    OVERDUE: {**_ANY, "state": "open", "overdue": 1},
    OUTSIDE: {**_ANY, "state": "open", "overdue": 0, "outside": 1},
    ANSWERED: {**_ANY, "state": ANSWERED},
    DECLINED: {**_ANY, "state": DECLINED},
    "all": _ANY,
}
STATES = tuple(_WISHES)
"""How obligations can be asked for."""
OF_ORG = ("unanswered", OVERDUE, OUTSIDE)
"""The same of a whole organisation: what a person should look at."""


class Tracking:
    """Follows messages. `circuit_open_until` tells of an agent until when nothing is pushed to it, if so."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        wakeups: Wakeups,
        *,
        clock: Clock,
        limits: Limits,
        circuit_open_until: Callable[[str], int | None],
    ) -> None:
        self._store = store
        self._org = org
        self._wakeups = wakeups
        self._clock = clock
        self._limits = limits
        self._circuit_open_until = circuit_open_until

    async def state(self, workspace_id: str, activity_id: str) -> MessageState:
        """How a message to a workspace stands. Raises NotFound."""
        rows = await self._store.rows("message_state", {"id": activity_id})
        if not rows or rows[0][1] != workspace_id:
            raise NotFound(what="message")
        return MessageState(*rows[0])

    async def ticks(self, state: MessageState) -> Ticks:
        """All that became of a message, and why it does not go on."""
        ticks = [
            Tick(each.tick, rfc3339(each.at), each.attempt or UNSET, each.reason or UNSET)
            for each in await self._happened(state)
        ]
        reason = await self._stuck(state)
        stuck = None if reason is None else Stuck(reason)
        return Ticks(state.id, state.workspace_id, state.source_id, ticks, stuck)

    async def _happened(self, state: MessageState) -> list[Happened]:
        most = {"widest": rules.WIDEST, "most": rules.MOST_HAND_OVERS}
        rows = await self._store.rows("handovers_of", {"workspace_id": state.workspace_id, "no": state.no, **most})
        return rules.in_order(state, [Happened(*row) for row in rows])

    async def _stuck(self, state: MessageState) -> str | None:
        seat, now = self._org.living(state.workspace_id), self._clock.now()
        if state.dead or state.handled or (state.is_held(now) and seat.status is not Status.PAUSED):
            return None
        if seat.status is Status.PAUSED:
            return "paused"
        offline = rules.offline_since(seat, self._org.pulse(seat.id))
        since = None if offline is None else f"offline since {rfc3339(offline)}"
        if seat.delivery_mode != PUSH:
            return since or "polls only"
        open_until = self._circuit_open_until(seat.id)
        if open_until is not None:
            return f"circuit open until {rfc3339(open_until)}"
        if state.next_at > now:
            return "busy" if state.busy else f"retry at {rfc3339(state.next_at)}: {state.last_error}"
        return since or await self._behind(state, seat, now)

    async def _behind(self, state: MessageState, seat: Workspace, now: int) -> str | None:
        """What holds up a message that nothing of its own holds up: those before it, or an agent that is busy."""
        wish = {"workspace_id": seat.id, "floor": state.floor, "now": now, "count": 1}
        heads = [turns.head(row) for row in await self._store.rows("push_head", wish)]
        for head in heads:
            if head.seq != state.seq and head.next_at > now:
                return "busy" if head.busy else f"retry at {rfc3339(head.next_at)}: an earlier message failed"
        waits = heads and heads[0].seq != state.seq
        return "busy" if waits or self._org.pulse(seat.id).active_tasks >= seat.max_concurrent_tasks else None

    async def queue(self, state: MessageState) -> QueueStatus:
        """How a message stands on its way to its agent."""
        happened, now = await self._happened(state), self._clock.now()
        handed = [each.at for each in happened if each.tick == HANDED_OVER]
        acked = [each.at for each in happened if each.tick == ACKED]
        last_error = state.dead_detail if state.dead else state.last_error
        if state.answer is not None:
            last_error = turns.error_text(state.answer) or last_error
        return QueueStatus(
            queue_id=state.id,
            workspace_id=state.workspace_id,
            status=_status(state, now),
            priority=0,
            attempts=max(state.attempt, state.dead_attempts or 0, *(each.attempt for each in happened)),
            enqueued_at=rfc3339(state.created_at),
            last_error=last_error or UNSET,
            dispatched_at=rfc3339(handed[-1]) if handed else UNSET,
            completed_at=rfc3339(acked[-1]) if acked and state.handled else UNSET,
            expires_at=UNSET if state.expires_at is None else rfc3339(state.expires_at),
            response_body=UNSET if state.answer is None else Raw(state.answer.encode()),
        )

    # -- answers -------------------------------------------------------------------------------------------------------

    async def answer(self, workspace_id: str, activity_id: str, seconds: float) -> MessageState | None:
        """How a push came out: answered, dead, or put off because the agent has no time or a try has failed. None if
        nothing of this came within so many seconds."""

        async def look() -> Look[MessageState]:
            state = await self.state(workspace_id, activity_id)
            told = state.answer is not None or state.dead or state.next_at > 0 or await self._must_wait(state)
            return Look(state if told else None)

        return await self._wakeups.until(answer_key(activity_id), look, seconds)

    async def _must_wait(self, state: MessageState) -> bool:
        """Whether a message is not pushed soon: its agent takes none now, or has its hands full."""
        seat, now = self._org.living(state.workspace_id), self._clock.now()
        if state.handled or seat.delivery_mode != PUSH or seat.status is Status.PAUSED:
            return True
        if state.attempt > 0 and state.is_held(now):
            return False
        if self._circuit_open_until(seat.id) is not None:
            return True
        inbox = await self._inbox(seat.id)
        ahead = state.no - 1 - inbox.acked_no - inbox.acked_above
        pulse = self._org.pulse(seat.id)
        return max(ahead, pulse.active_tasks) >= seat.max_concurrent_tasks

    async def depth(self, workspace_id: str) -> int:
        """How many messages of an inbox are not handled."""
        rows = await self._store.rows("last_inbound", {"key": workspace_id})
        inbox = await self._inbox(workspace_id)
        return max(0, (rows[0][0] if rows else 0) - inbox.acked_no - inbox.acked_above + inbox.requeued)

    async def _inbox(self, workspace_id: str) -> Inbox:
        rows = await self._store.rows("inbox_state", {"workspace_id": workspace_id})
        return Inbox(*rows[0]) if rows else Inbox()

    # -- dead letters --------------------------------------------------------------------------------------------------

    async def letters(
        self, org_id: str, count: int, *, workspace_id: str | None = None, before: str | None = None
    ) -> DeadLetterPage:
        """The dead letters of an organisation or of one workspace, newest first. Raises CursorGone."""
        page: dict[str, object] = {"org_id": org_id, "workspace_id": workspace_id, "count": count + 1}
        place = (None, None)
        if before is not None:
            places = await self._store.rows("dead_letter_place", {"activity_id": before, "org_id": org_id})
            if not places:
                raise CursorGone(name="before")
            place = (places[0][0], places[0][1])
        rows = await self._store.rows("dead_letters_page", {**page, "died_at": place[0], "activity_id": place[1]})
        letters = [self._letter(DeadLetter(*row)) for row in rows[:count]]
        return DeadLetterPage(letters, reached_end=len(rows) <= count)

    # -- mail that nobody takes ----------------------------------------------------------------------------------------

    async def untaken(self, org_id: str) -> UntakenPage:
        """The workspaces of an organisation whose mail nobody takes, the longest waiting first. The watch for answers
        begins at the hand-over; this is about what has had none. Every look asks for all of it anew."""
        seats, found = list(self._org.workspaces(org_id)), list[tuple[int, str, UntakenRow]]()
        for first in range(0, len(seats), _LOOKED_AT):
            found += await self._untaken_of(seats[first : first + _LOOKED_AT])
            await others_first()
        rows = [row for *_, row in sorted(found, key=lambda each: each[:2])]
        most = self._limits.untaken_rows
        return UntakenPage(rows[:most], reached_end=len(rows) <= most)

    async def _untaken_of(self, seats: list[Workspace]) -> list[tuple[int, str, UntakenRow]]:
        now, most = self._clock.now(), self._limits.unread_count
        before = [rules.untaken_before(seat, self._org.pulse(seat.id), now, self._limits) for seat in seats]
        usual = {"now": now, "count": most + 1}
        wishes: list[Params] = [
            {**usual, "workspace_id": seat.id, "since": at, "paused": int(seat.status is Status.PAUSED)}
            for seat, at in zip(seats, before, strict=True)
        ]
        rows = list[tuple[int, str, UntakenRow]]()
        found = await self._store.rows_of_each("untaken_mail", wishes)
        for seat, at, ((count, since),) in zip(seats, before, found, strict=True):
            if since is not None and since <= at:
                counted = min(count, most), count > most
                about = seat.id, seat.name, seat.status.value
                rows.append((since, seat.id, UntakenRow(*about, *counted, rfc3339(since))))
        return rows

    # -- obligations ---------------------------------------------------------------------------------------------------

    async def obligations(self, workspace_id: str, state: str, count: int, before: str | None) -> ObligationPage:
        """What a workspace owes or owed, in one of STATES, newest first. Raises CursorGone."""
        place = _NEWEST if before is None else await self._place(before, workspace_id=workspace_id)
        wish = {"workspace_id": workspace_id, "before": place, **self._room(count), **_WISHES[state]}
        return self._page(await self._store.rows("obligations_page", wish), count)

    async def unanswered(self, org_id: str, state: str, count: int, before: str | None) -> ObligationPage:
        """Where somebody in an organisation waits in vain, in one of OF_ORG, the newest first. Of a workspace that is
        removed nobody can answer any more: it has none. Raises CursorGone."""
        at = None if before is None else await self._place(before, org_id=org_id)
        wishes = {name: _WISHES[state][name] for name in ("overdue", "outside")}
        wish = {"org_id": org_id, "at": at, "before": before, **self._room(count), **wishes}
        return self._page(await self._store.rows("unanswered_page", wish), count)

    async def _place(self, before: str, *, workspace_id: str | None = None, org_id: str | None = None) -> int:
        """The number of an obligation in its workspace, or when it began."""
        rows = await self._store.rows("obligation_place", {"activity_id": before})
        if not rows or (rows[0][3] != org_id if workspace_id is None else rows[0][2] != workspace_id):
            raise CursorGone(name="before")
        return int(rows[0][0] if workspace_id is None else rows[0][1])

    def _page(self, rows: Sequence[Row], count: int) -> ObligationPage:
        shown = [self._obligation(Obligation(*row[:-1])) for row in rows[:count]]
        return ObligationPage(shown, reached_end=not rows or rows[0][-1] <= len(shown))

    def _room(self, count: int) -> dict[str, object]:
        return {"count": count + 1, "page_bytes": self._limits.page_bytes}

    def _obligation(self, owed: Obligation) -> ObligationRow:
        return ObligationRow(
            activity_id=owed.activity_id,
            workspace_id=owed.workspace_id,
            workspace_name=self._name(owed.workspace_id) or "",
            seq=owed.seq,
            source_id=owed.source_id,
            source_name=self._name(owed.source_id),
            summary=owed.summary,
            state=owed.standing,
            handle=owed.handle,
            handed_at=rfc3339(owed.handed_at),
            due_at=_time(owed.due_at),
            reminded_at=_time(owed.reminded_at or None),
            overdue_at=_time(owed.overdue_at),
            outside_at=_time(owed.outside_at),
            closed_at=_time(owed.closed_at),
            answer_id=owed.answer_id,
            reason=owed.reason,
            draft=owed.draft if owed.is_open else None,
            template=owed.told_with,
            form=owed.form,
            tokens=owed.tokens,
        )

    def _name(self, workspace_id: str | None) -> str | None:
        seat = None if workspace_id is None else self._org.workspace(workspace_id)
        return None if seat is None else seat.name

    def _letter(self, letter: DeadLetter) -> DeadLetterRow:
        seat = self._org.workspace(letter.workspace_id)
        return DeadLetterRow(
            activity_id=letter.activity_id,
            workspace_id=letter.workspace_id,
            workspace_name="" if seat is None else seat.name,
            source_id=letter.source_id,
            kind=letter.kind,
            summary=letter.summary,
            reason=letter.reason,
            detail=letter.detail,
            attempts=letter.attempts,
            died_at=rfc3339(letter.died_at),
            created_at=rfc3339(letter.created_at),
        )


def _time(at: int | None) -> str | None:
    return None if at is None else rfc3339(at)


def _status(state: MessageState, now: int) -> str:
    if state.dead:
        return "dropped" if state.dead_reason == EXPIRED or state.dead_state == DISCARDED else "failed"
    if state.handled:
        return "failed" if state.answer is not None and turns.error_text(state.answer) else "completed"
    return "dispatched" if state.is_held(now) else "queued"
