"""Handing out: claims, and readers by cursor; what agents that poll get, and when.

Above: the edges. Below: settling, obligations, reader, rules, store.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from msgspec.structs import replace

from molecule_core.ground import points
from molecule_core.ground.clock import SECOND, Clock
from molecule_core.ground.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.model import HANDED_OVER, REQUEST, Filters, Handout, Inbox, Place, Shown
from molecule_core.messages.owing import Owing
from molecule_core.messages.reader import MessageReader, requeued_page
from molecule_core.messages.settling import Settling, handout, inbox_of, requeued_of
from molecule_core.messages.telling import Wish
from molecule_core.messages.ticks import Statement, ticked
from molecule_core.org.model import Status
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Decision, Read, Several, Store, WriteSet
from molecule_core.store.journal import log_key, org_key
from molecule_core.store.wakeups import Look, Wakeups


class Handing(Settling):
    """Hands out messages."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        wakeups: Wakeups,
        reader: MessageReader,
        owing: Owing,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        super().__init__(store, org, owing, clock=clock)
        self._wakeups = wakeups
        self._reader = reader
        self._limits = limits

    # -- claims --------------------------------------------------------------------------------------------------------

    async def claim(
        self, workspace_id: str, *, lease_seconds: int, count: int, wait: float = 0, wish: Wish | None = None
    ) -> list[Shown]:
        """Hands out messages that nobody holds and nobody handled, oldest first, each with its attempt; waits so many
        seconds for a first one. Not handled within the lease, each comes again with the next attempt. `wish`: its
        agent is told how to answer; None: it is not, or would not see it."""
        deciding = partial(self._claiming, workspace_id, lease_seconds, count, wish)

        async def look() -> Look[list[Shown]]:
            seat = self._org.living(workspace_id)  # it may have been removed while we waited
            if seat.status is Status.PAUSED or await self._all_handled(workspace_id):
                return Look(None)
            rows = await self._store.run(self._on_inbox(workspace_id, deciding))
            points.reached("claim.decided")
            return Look(rows or None, again_in=None if rows else await self._lease_ends_in(workspace_id))

        if wait <= 0:
            return (await look()).found or []
        return await self._wakeups.until(log_key(workspace_id), look, wait) or []  # control: mail-wait

    async def _all_handled(self, workspace_id: str) -> bool:
        """Whether an inbox is known to hold nothing that could be handed out, so that no command is needed."""
        highest = self._store.highest("last_inbound", workspace_id)
        if highest is None:
            return False
        inbox = await self._inbox(workspace_id)
        return inbox.acked_no + inbox.acked_above >= highest and not inbox.requeued

    def _claiming(self, workspace_id: str, lease_seconds: int, count: int, wish: Wish | None) -> Decision[list[Shown]]:
        seat, now = self._org.living(workspace_id), self._clock.now()
        if seat.status is Status.PAUSED:
            return WriteSet([])
        inbox = yield from inbox_of(workspace_id)
        place = {"workspace_id": workspace_id, "seq": inbox.acked_seq, "now": now}
        page = {"count": count, "page_bytes": self._limits.page_bytes}
        found = (yield Read("requeued_rows", {**place, **page})) if inbox.requeued else []
        rows, page_bytes = requeued_page(found, self._limits.page_bytes)
        if len(rows) < count and page_bytes > 0:
            page = {"count": count - len(rows), "page_bytes": page_bytes}
            rows += [Shown(*row) for row in (yield Read("claimable", {**place, **page}))]
        if not rows:
            return WriteSet([])
        places = [Place(row.seq, row.attempt or 0, row.inbound_no or 0) for row in rows]
        lease_until = now + lease_seconds * SECOND
        writes = [handout(workspace_id, seq, attempt, lease_until, None) for seq, attempt, _ in places]
        rows, owed = yield from self._owing.handed_over(seat, rows, now, wish)
        noted, told = ticked(workspace_id, HANDED_OVER, rules.spans(places), now)
        writes += [*noted, *owed.writes]
        rings = (org_key(seat.org_id), *owed.rings)
        return WriteSet(rows, writes, told, rings, owed.then, facts=[*owed.facts])  # control: claim-kept

    async def _lease_ends_in(self, workspace_id: str) -> float | None:
        """Seconds until the first lease of a workspace ends; None if it has none."""
        end = (await self._store.rows("next_lease_end", {"workspace_id": workspace_id}))[0][0]
        return None if end is None else max(0.0, (end - self._clock.now()) / SECOND)

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
        start = await self._start_of(workspace_id, seq, known or Inbox()) if filters.whole_inbox else seq
        if known is not None and known.requeued and filters.whole_inbox:
            await self._store.run(self._on_inbox(workspace_id, partial(self._acking_shown, workspace_id, seq, start)))

        async def behind() -> list[Shown]:
            nonlocal known
            inbox, known = known or await self._inbox(workspace_id), None
            again, page_bytes = list[Shown](), self._limits.page_bytes
            if inbox.requeued and filters.whole_inbox:
                showing = partial(self._showing, workspace_id, start, count)
                again, page_bytes = await self._store.run(self._on_inbox(workspace_id, showing))
            left = count - len(again) if page_bytes > 0 else 0
            if not left:
                return again
            has_dead = inbox.dead > 0  # whose inbox has none is not asked for each row
            rows = await self._reader.after(workspace_id, start, filters, left, page_bytes=page_bytes, living=has_dead)
            return [*again, *rows]

        return await self._found(workspace_id, behind, wait)

    async def read_newest(self, workspace_id: str, filters: Filters, count: int, *, wait: float = 0) -> list[Shown]:
        """What an agent gets that will keep a cursor and has none yet: the newest messages, newest first, less those
        that are dead. A look back, at one peer or before a time, is history: it tells all, and hands nothing over to an
        agent that is paused."""
        if filters.peer_id is not None or filters.before is not None:
            rows = await self._reader.newest(workspace_id, filters, count, wait=wait)
            return rows if self._is_paused(workspace_id) else await self.shown(workspace_id, rows)

        async def newest() -> list[Shown]:
            inbox = await self._inbox(workspace_id)
            return await self._reader.newest(workspace_id, filters, count, living=inbox.dead > 0)

        return await self._found(workspace_id, newest, wait)

    async def _found(self, workspace_id: str, find: Callable[[], Awaitable[list[Shown]]], wait: float) -> list[Shown]:
        """What is found for an agent, and so handed over; nothing as long as it is paused."""

        async def look() -> Look[list[Shown]]:
            return Look(None if self._is_paused(workspace_id) else await find() or None)

        if wait <= 0:
            found = (await look()).found or []
        else:
            found = await self._wakeups.until(log_key(workspace_id), look, wait) or []
        return await self.shown(workspace_id, found)

    def _is_paused(self, workspace_id: str) -> bool:
        return self._org.living(workspace_id).status is Status.PAUSED

    async def shown(self, workspace_id: str, rows: list[Shown]) -> list[Shown]:
        """An agent that claims nothing is shown these rows: those that want an answer are handed over now, if they
        were not before, or were given back since, and are not handled. (What is answered before its cursor has passed
        it must be known.) Returns the rows; the one among them that it is reminded of says so."""
        wanting = [row for row in rows if row.intent == REQUEST and row.inbound_no]
        if not wanting:
            return rows
        inbox = await self._inbox(workspace_id)
        asked = {row.seq: row for row in wanting if row.seq > inbox.acked_seq}
        if not asked:
            return rows
        stretch = {"workspace_id": workspace_id, "first": min(asked), "last": max(asked), "now": self._clock.now()}
        known = {seq: bool(late) for seq, late in await self._store.rows("obligations_between", stretch)}
        fresh = [row for seq, row in asked.items() if seq not in known]
        if fresh:
            await self._open(workspace_id, fresh, stretch)
        if self._owing.telling is None:
            return rows
        return [replace(row, reminder=True) if known.get(row.seq) else row for row in rows]

    async def _open(self, workspace_id: str, fresh: list[Shown], stretch: dict[str, object]) -> None:
        """What was shown and is not dead is owed an answer; nothing, if it was answered, handled or handed over since
        it was read."""

        def decide() -> Decision[None]:
            inbox = yield from inbox_of(workspace_id)
            names = ("dead_between", "obligations_between")
            settled = yield Several([Read(name, stretch) for name in names])
            known = {row[0] for rows in settled for row in rows}
            seat = self._org.living(workspace_id)
            living = [row for row in fresh if row.seq > inbox.acked_seq and row.seq not in known]
            owed = self._owing.opened(seat, living, self._clock.now())
            return WriteSet(None, owed.writes, [], owed.rings, owed.then, facts=[*owed.facts])

        await self._store.run(self._on_inbox(workspace_id, decide))

    async def _start_of(self, workspace_id: str, seq: int, inbox: Inbox) -> int:
        """Where a cursor goes on. One that names what came out of order, a dead letter or a reminder, goes on at the
        floor."""
        if seq >= inbox.acked_seq:
            return seq  # control: cursor-row
        came_again = await self._store.rows("came_again", {"workspace_id": workspace_id, "seq": seq})
        return inbox.acked_seq if came_again else seq

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

    def _showing(self, workspace_id: str, start: int, count: int) -> Decision[tuple[list[Shown], int]]:
        """Letters that wait again, as the beginning of a page; and how many bytes it has left."""
        inbox, now = (yield from inbox_of(workspace_id)), self._clock.now()
        page = {"count": count, "page_bytes": self._limits.page_bytes}
        found = yield Read("requeued_rows", {"workspace_id": workspace_id, "seq": inbox.acked_seq, "now": now, **page})
        rows, page_bytes = requeued_page(found, self._limits.page_bytes)
        if not rows:
            return WriteSet((rows, page_bytes))
        places = [Place(row.seq, row.attempt or 0, row.inbound_no or 0) for row in rows]
        writes: list[Statement] = [
            ("show_handout", {"workspace_id": workspace_id, "seq": each.seq, "attempt": each.attempt, "cursor": start})
            for each in places
        ]
        noted, told = ticked(workspace_id, HANDED_OVER, rules.spans(places), now)
        seat = self._org.living(workspace_id)
        rows, owed = yield from self._owing.handed_over(seat, rows, now, None)
        rings = (org_key(seat.org_id), *owed.rings)
        every = [*writes, *noted, *owed.writes]
        return WriteSet((rows, page_bytes), every, told, rings, owed.then, facts=[*owed.facts])
