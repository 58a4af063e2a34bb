"""Delivers messages to polling agents: claims with leases, and reads by cursor.

Called by the API; calls acks, the obligation ledger and the reader."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from msgspec.structs import replace

from molecule_core.budgets.leases import BudgetLeases
from molecule_core.common import crash_points
from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.delivery_log import record_ticks
from molecule_core.messages.delivery_state import DeliveryTick
from molecule_core.messages.inbox.acks import InboxAcks, claim_row, find_requeued, load_inbox, read_inbox
from molecule_core.messages.inbox.turn_leases import lease_for_rows
from molecule_core.messages.model import ActivityFilters, ActivityPageRow, InboxClaim, InboxPosition, InboxState
from molecule_core.messages.obligations.instructions import InstructionOptions
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.reader import MessageReader, split_requeued_page
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, CommandSteps, ReadQuery, RequestBatch, Statement, Store, T, WriteSet
from molecule_core.store.journal import log_key, org_key
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.wire.schemas.activity import Intent


class InboxClaims:
    """Claims and delivers inbox messages. `acks` acknowledges them."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        wakeups: Notifier,
        reader: MessageReader,
        ledger: ObligationLedger,
        budgets: BudgetLeases,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._budgets = budgets
        self._store = store
        self._org = org
        self._wakeups = wakeups
        self._reader = reader
        self._ledger = ledger
        self._clock = clock
        self._limits = limits
        self._ended_waits = Counter[str]()
        """How often the waiting claims of each workspace were ended."""
        self.acks = InboxAcks(store, org, ledger, clock=clock)

    # -- claims --------------------------------------------------------------------------------------------------------

    async def claim(
        self,
        workspace_id: str,
        *,
        lease_seconds: int,
        count: int,
        wait: float = 0,
        options: InstructionOptions | None = None,
        reports_read: bool = False,
    ) -> list[ActivityPageRow]:
        """Claim unclaimed, unacknowledged messages, oldest first, waiting up to `wait` seconds for a first one.

        A message that is not acknowledged within the lease is delivered again with the next attempt. `options`: how to
        attach instructions; None: attach none. `reports_read`: the claimer reports when its model reads a message; it
        counts as delivered only then."""
        ended_before = self._ended_waits[workspace_id]

        async def try_claim() -> Poll[list[ActivityPageRow]]:
            if self._ended_waits[workspace_id] != ended_before:
                return Poll([])
            if self._holds_mail(workspace_id) or await self._is_fully_acked(workspace_id):
                return Poll(None)
            decide = partial(self._decide_claim, workspace_id, lease_seconds, count, options, reports_read)
            rows = await self._store.run(self._leasing_command(workspace_id, decide))
            crash_points.mark_reached("claim.decided")
            return Poll(rows or None, next_poll_in=None if rows else await self._seconds_to_lease_end(workspace_id))

        if wait <= 0:
            return (await try_claim()).result or []
        return await self._wakeups.wait_until(log_key(workspace_id), try_claim, wait) or []  # control: mail-wait

    async def mark_read(self, workspace_id: str, claims: Mapping[str, int]) -> int:
        """Record that the model of an agent has read claimed messages (attempts by id); returns how many were unread.

        Claims of other attempts and acknowledged messages are skipped."""

        def decide() -> CommandSteps[int]:
            queries = [
                ReadQuery("unread_claim", {"workspace_id": workspace_id, "id": id_, "attempt": attempt})
                for id_, attempt in claims.items()
            ]
            found = yield RequestBatch(queries)
            positions = sorted(InboxPosition(*row) for rows in found for row in rows)
            if not positions:
                return WriteSet(0)
            writes: list[Statement] = [
                ("mark_claim_read", {"workspace_id": workspace_id, "seq": each.seq}) for each in positions
            ]
            notify = (org_key(self._org.active_workspace(workspace_id).org_id),)
            ticks = record_ticks(workspace_id, DeliveryTick.DELIVERED, rules.to_ranges(positions), self._clock.now())
            return WriteSet(len(positions), writes, notify=notify) + ticks

        return await self._store.run(self.acks.inbox_command(workspace_id, decide))

    def end_waits(self, workspace_id: str) -> None:
        """End the claims of a workspace that wait in this process; those of other processes end with their time."""
        self._ended_waits[workspace_id] += 1
        self._wakeups.notify((log_key(workspace_id),))

    async def _is_fully_acked(self, workspace_id: str) -> bool:
        """Return whether an inbox surely holds nothing to claim, so that no command is needed."""
        highest = self._store.last_known_number("last_inbound", workspace_id)
        if highest is None:
            return False
        inbox = await read_inbox(self._store, workspace_id)
        return inbox.acked_no + inbox.acked_above >= highest and not inbox.requeued

    def _leasing_command(self, workspace_id: str, decide: Callable[[bool], CommandSteps[T]]) -> Command[T]:
        """Build a command on an inbox that leases from budgets, if its organisation has any.

        `decide` is called with whether the command has the keys for that."""
        lease_keys = self._budgets.lease_keys(self._org.active_workspace(workspace_id).org_id)
        command = self.acks.inbox_command(workspace_id, partial(decide, bool(lease_keys)))
        return command if not lease_keys else replace(command, keys=(*command.keys, *lease_keys))

    def _decide_claim(
        self,
        workspace_id: str,
        lease_seconds: int,
        count: int,
        options: InstructionOptions | None,
        reports_read: bool,
        is_alone: bool,
    ) -> CommandSteps[list[ActivityPageRow]]:
        workspace, now = self._org.active_workspace(workspace_id), self._clock.now()
        if workspace.holds_mail(now):
            return WriteSet([])
        most, has_budgets = count, self._budgets.is_needed(workspace.org_id)
        if has_budgets:
            count += self._limits.budget_skipped_messages
        inbox = yield from load_inbox(workspace_id)
        cursor = {"workspace_id": workspace_id, "seq": inbox.acked_seq, "now": now}
        page = {"count": count, "page_bytes": self._limits.page_bytes}
        raw_rows = (yield ReadQuery("requeued_rows", {**cursor, **page, "after": 0})) if inbox.requeued else []
        rows, page_bytes = split_requeued_page(raw_rows, self._limits.page_bytes)
        if len(rows) < count and page_bytes > 0:
            page = {"count": count - len(rows), "page_bytes": page_bytes}
            rows += [ActivityPageRow(*row) for row in (yield ReadQuery("claimable", {**cursor, **page}))]
        if not rows:
            return WriteSet([])
        lease_until, leased = now + lease_seconds * SECOND, None
        if has_budgets:
            leased = yield from lease_for_rows(
                self._budgets, workspace, rows, most=most, until=lease_until, now=now, is_alone=is_alone
            )
            rows = leased.result
            if not rows:
                return leased
        positions = [InboxPosition(row.seq, row.attempt or 0, row.inbound_no or 0) for row in rows]
        writes = [
            claim_row(workspace_id, seq, attempt, lease_until, unread=reports_read) for seq, attempt, _ in positions
        ]
        delivered = yield from self._ledger.deliver_with_instructions(workspace, rows, now, options)
        tick = DeliveryTick.IN_INBOX if reports_read else DeliveryTick.DELIVERED
        ticks = record_ticks(workspace_id, tick, rules.to_ranges(positions), now)
        # control: claim-kept
        claimed = WriteSet(delivered.result, writes, notify=(org_key(workspace.org_id),)) + ticks + delivered
        return claimed if leased is None else claimed + leased

    async def _seconds_to_lease_end(self, workspace_id: str) -> float | None:
        """Return the seconds until the first lease of a workspace ends; None if it has none.

        Messages that wait for the leases of other turns from a budget are tried again earlier."""
        lease_end = (await self._store.rows("next_lease_end", {"workspace_id": workspace_id}))[0][0]
        seconds = None if lease_end is None else max(0.0, (lease_end - self._clock.now()) / SECOND)
        if not self._budgets.is_needed(self._org.active_workspace(workspace_id).org_id):
            return seconds
        retry_seconds = float(self._limits.budget_retry_seconds)
        return retry_seconds if seconds is None else min(seconds, retry_seconds)

    # -- reads by cursor -----------------------------------------------------------------------------------------------

    async def read_after_cursor(
        self, workspace_id: str, seq: int, filters: ActivityFilters, count: int, *, wait: float = 0
    ) -> list[ActivityPageRow]:
        """Acknowledge everything up to the cursor, and read on after it.

        Requeued dead letters come first, on each read until the cursor has passed them; dead ones are skipped."""
        cached_inbox: InboxState | None = await read_inbox(self._store, workspace_id)
        if cached_inbox is not None and cached_inbox.acked_seq < seq:
            await self.acks.ack_cursor(workspace_id, seq, filters)
            cached_inbox = await read_inbox(self._store, workspace_id)
        start = (
            await self._resume_position(workspace_id, seq, cached_inbox or InboxState())
            if filters.is_whole_inbox
            else seq
        )
        if cached_inbox is not None and cached_inbox.requeued and filters.is_whole_inbox:
            await self._store.run(
                self.acks.inbox_command(workspace_id, partial(self._ack_passed_requeued, workspace_id, seq, start))
            )

        async def find_rows() -> list[ActivityPageRow]:
            nonlocal cached_inbox
            inbox, cached_inbox = cached_inbox or await read_inbox(self._store, workspace_id), None
            requeued_rows, page_bytes = list[ActivityPageRow](), self._limits.page_bytes
            if inbox.requeued and filters.is_whole_inbox:
                decide = partial(self._deliver_requeued, workspace_id, start, count)
                requeued_rows, page_bytes = await self._store.run(self.acks.inbox_command(workspace_id, decide))
            remaining = count - len(requeued_rows) if page_bytes > 0 else 0
            if not remaining:
                return requeued_rows
            has_dead = inbox.dead > 0  # without dead letters, the query need not check each row
            rows = await self._reader.list_after(
                workspace_id, start, filters, remaining, page_bytes=page_bytes, skip_dead=has_dead
            )
            return [*requeued_rows, *rows]

        return await self._deliver_found(workspace_id, find_rows, wait, in_order=True)

    async def read_latest(
        self, workspace_id: str, filters: ActivityFilters, count: int, *, wait: float = 0
    ) -> list[ActivityPageRow]:
        """Return the newest messages, newest first, without dead letters, for an agent that has no cursor yet.

        A read of one peer's messages or before a time is history: it returns everything, and delivers nothing to a
        paused or limited agent."""
        if filters.peer_id is not None or filters.before is not None:
            rows = await self._reader.list_newest(workspace_id, filters, count, wait=wait)
            return rows if self._holds_mail(workspace_id) else await self.mark_delivered(workspace_id, rows)

        async def find_rows() -> list[ActivityPageRow]:
            inbox = await read_inbox(self._store, workspace_id)
            return await self._reader.list_newest(workspace_id, filters, count, skip_dead=inbox.dead > 0)

        return await self._deliver_found(workspace_id, find_rows, wait)

    async def _deliver_found(
        self,
        workspace_id: str,
        find: Callable[[], Awaitable[list[ActivityPageRow]]],
        wait: float,
        *,
        in_order: bool = False,
    ) -> list[ActivityPageRow]:
        """Read rows for an agent and mark them as delivered; returns nothing while it is paused or limited.

        `in_order`: its cursor passes what it is given, so nothing after a message that must wait is returned."""

        async def poll_rows() -> Poll[list[ActivityPageRow]]:
            if self._holds_mail(workspace_id):
                return Poll(None)
            rows = await find()
            if not rows or not self._budgets.is_needed(self._org.active_workspace(workspace_id).org_id):
                return Poll(rows or None)
            decide = partial(self._lease_found, workspace_id, rows, in_order)
            rows = await self._store.run(self._leasing_command(workspace_id, decide))
            return Poll(rows or None, next_poll_in=None if rows else float(self._limits.budget_retry_seconds))

        if wait <= 0:
            found = (await poll_rows()).result or []
        else:
            found = await self._wakeups.wait_until(log_key(workspace_id), poll_rows, wait) or []
        return await self.mark_delivered(workspace_id, found)

    def _lease_found(
        self, workspace_id: str, rows: list[ActivityPageRow], in_order: bool, is_alone: bool
    ) -> CommandSteps[list[ActivityPageRow]]:
        """Reserve for the messages among rows that were not acknowledged; returns the rows that may be delivered."""
        workspace, now = self._org.active_workspace(workspace_id), self._clock.now()
        inbox = yield from load_inbox(workspace_id)
        found = (row for row in rows if row.inbound_no is not None and row.seq > inbox.acked_seq)
        messages = sorted(found, key=lambda row: row.seq)
        if not messages:
            return WriteSet(rows)
        until = now + self._limits.budget_hold_seconds * SECOND
        leased = yield from lease_for_rows(
            self._budgets, workspace, messages, most=len(messages), until=until, now=now, is_alone=is_alone
        )
        waiting = {row.seq for row in messages}.difference(row.seq for row in leased.result)
        if in_order:
            end = next((place for place, row in enumerate(rows) if row.seq in waiting), len(rows))
            return leased.returning(rows[:end])
        return leased.returning([row for row in rows if row.seq not in waiting])

    def _holds_mail(self, workspace_id: str) -> bool:
        """Return whether the workspace is paused or limited. The end of either wakes waiting claims."""
        return self._org.active_workspace(workspace_id).holds_mail(self._clock.now())

    async def mark_delivered(self, workspace_id: str, rows: list[ActivityPageRow]) -> list[ActivityPageRow]:
        """Mark rows as delivered to an agent that does not claim; returns them with `reminder` set where it applies.

        Requests open their obligations now, unless they were delivered before (and not released since) or acknowledged.
        The obligation must exist before the cursor passes, so that an earlier answer can close it."""
        candidates = [row for row in rows if row.intent == Intent.REQUEST and row.inbound_no]
        if not candidates:
            return rows
        inbox = await read_inbox(self._store, workspace_id)
        requests = {row.seq: row for row in candidates if row.seq > inbox.acked_seq}
        if not requests:
            return rows
        bounds = {"workspace_id": workspace_id, "first": min(requests), "last": max(requests), "now": self._clock.now()}
        existing = {seq: bool(is_late) for seq, is_late in await self._store.rows("obligations_between", bounds)}
        unopened = [row for seq, row in requests.items() if seq not in existing]
        if unopened:
            await self._open_obligations(workspace_id, unopened, bounds)
        if self._ledger.instruction_builder is None:
            return rows
        return [replace(row, reminder=True) if existing.get(row.seq) else row for row in rows]

    async def _open_obligations(
        self, workspace_id: str, unopened: list[ActivityPageRow], bounds: dict[str, object]
    ) -> None:
        """Open obligations for delivered rows.

        Rows that were answered, acknowledged, delivered or given up since they were read are skipped."""

        def decide() -> CommandSteps[None]:
            inbox = yield from load_inbox(workspace_id)
            names = ("dead_between", "obligations_between")
            found = yield RequestBatch([ReadQuery(name, bounds) for name in names])
            existing = {row[0] for rows in found for row in rows}
            workspace = self._org.active_workspace(workspace_id)
            still_open = [row for row in unopened if row.seq > inbox.acked_seq and row.seq not in existing]
            return self._ledger.open_for_rows(workspace, still_open, self._clock.now())

        await self._store.run(self.acks.inbox_command(workspace_id, decide))

    async def _resume_position(self, workspace_id: str, seq: int, inbox: InboxState) -> int:
        """Return where a cursor continues.

        A cursor that names an out-of-order row (a dead letter or a reminder) continues at the ack floor."""
        if seq >= inbox.acked_seq:
            return seq  # control: cursor-row
        was_requeued = await self._store.rows("delivered_out_of_order", {"workspace_id": workspace_id, "seq": seq})
        return inbox.acked_seq if was_requeued else seq

    def _ack_passed_requeued(self, workspace_id: str, seq: int, start: int) -> CommandSteps[int]:
        """Acknowledge requeued rows that were delivered after an earlier cursor, now that the cursor has moved."""
        inbox = yield from load_inbox(workspace_id)
        cursors: dict[int, int] = {}

        def is_passed(claim: InboxClaim) -> bool:
            if claim.shown_after is None:
                return False
            cursors[claim.seq] = claim.shown_after
            return start > claim.shown_after or claim.seq <= seq

        requeued_positions = yield from find_requeued(workspace_id, inbox, is_passed)
        # A cursor on a requeued row covers those that came before it in the same page.
        requeued_positions = [
            each for each in requeued_positions if start > cursors[each.seq] or cursors.get(seq) == cursors[each.seq]
        ]
        return (yield from self.acks.ack_positions(workspace_id, inbox, [], requeued_positions))

    def _deliver_requeued(
        self, workspace_id: str, start: int, count: int
    ) -> CommandSteps[tuple[list[ActivityPageRow], int]]:
        """Deliver requeued dead letters as the beginning of a page; also returns the bytes left in the page."""
        inbox, now = (yield from load_inbox(workspace_id)), self._clock.now()
        query = {"count": count, "page_bytes": self._limits.page_bytes}
        raw_rows = yield ReadQuery(
            "requeued_rows", {"workspace_id": workspace_id, "after": 0, "seq": inbox.acked_seq, "now": now, **query}
        )
        rows, page_bytes = split_requeued_page(raw_rows, self._limits.page_bytes)
        if not rows:
            return WriteSet((rows, page_bytes))
        positions = [InboxPosition(row.seq, row.attempt or 0, row.inbound_no or 0) for row in rows]
        writes: list[Statement] = [
            (
                "mark_requeued_row_delivered",
                {"workspace_id": workspace_id, "seq": each.seq, "attempt": each.attempt, "cursor": start},
            )
            for each in positions
        ]
        ticks = record_ticks(workspace_id, DeliveryTick.DELIVERED, rules.to_ranges(positions), now)
        workspace = self._org.active_workspace(workspace_id)
        delivered = yield from self._ledger.deliver_with_instructions(workspace, rows, now, None)
        page = WriteSet((delivered.result, page_bytes), writes, notify=(org_key(workspace.org_id),))
        return page + ticks + delivered
