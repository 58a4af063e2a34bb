"""Acknowledges messages and advances the ack floor. Used by polling agents and by the push dispatcher."""

from collections.abc import Callable, Generator, Iterable
from typing import Any

from msgspec.structs import asdict, replace

from molecule_core.common.clock import Clock
from molecule_core.common.errors import NotFound
from molecule_core.messages import rules
from molecule_core.messages.delivery_log import record_ticks
from molecule_core.messages.delivery_state import DeadLetterState, DeliveryState, DeliveryTick
from molecule_core.messages.model import ActivityFilters, InboxClaim, InboxPosition, InboxRange, InboxState
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, CommandSteps, ReadQuery, Statement, StepRequest, Store, T, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.wire.schemas.activity import ActivityType

# Rows per read while the ack floor advances.
_FLOOR_BATCH = 256


class InboxAcks:
    """Acknowledges inbox messages."""

    def __init__(self, store: Store, org: OrgReader, ledger: ObligationLedger, *, clock: Clock) -> None:
        self._store = store
        self._org = org
        self._ledger = ledger
        self._clock = clock

    async def ack_up_to(self, workspace_id: str, seq: int, attempt: int | None) -> int:
        """Acknowledge all messages up to `seq`; returns the new ack floor, which never decreases.

        Includes requeued dead letters that were delivered with at most this attempt. An attempt that never happened
        counts as the last one that did."""
        return await self._store.run(
            self.inbox_command(workspace_id, lambda: self._decide_ack_up_to(workspace_id, seq, attempt))
        )

    def _decide_ack_up_to(self, workspace_id: str, seq: int, attempt: int | None) -> CommandSteps[int]:
        inbox = yield from load_inbox(workspace_id)
        # The stored value, without numbers that other commands of this group have just taken: those rows cannot have
        # been delivered.
        last_rows = yield ReadQuery("last_seq", {"key": workspace_id})
        seq, now, released = min(seq, last_rows[0][0] or 0), self._clock.now(), list[int]()

        def is_covered(claim: InboxClaim) -> bool:
            if claim.seq > seq or claim.lease_until == 0 or (attempt is not None and attempt < claim.attempt):
                return False
            if claim.is_released(now):
                released.append(claim.seq)
            return True

        requeued_positions = yield from find_requeued(workspace_id, inbox, is_covered)
        if seq <= inbox.acked_seq:
            return (yield from self.ack_positions(workspace_id, inbox, [], requeued_positions, released=released))
        rows = yield ReadQuery("claims_upto", {"workspace_id": workspace_id, "seq": seq})
        claims = [InboxClaim(*row) for row in rows if row[0] > inbox.acked_seq]
        if attempt is not None:
            for each in claims:
                if not each.is_passable:
                    rules.check_attempt(each, attempt)
        last = yield ReadQuery("last_inbound_upto", {"workspace_id": workspace_id, "seq": seq})
        acked_no = last[0][1] if last else inbox.acked_no
        passable = sum(each.is_passable for each in claims)
        updated_inbox = replace(inbox, acked_seq=seq, acked_no=acked_no, acked_above=inbox.acked_above - passable)
        # An attempt that was never made must not appear in the senders' timelines.
        last_attempt = min(attempt or 0, max((each.attempt for each in claims), default=0))
        bounds = (
            InboxPosition(inbox.acked_seq + 1, last_attempt, inbox.acked_no + 1),
            InboxPosition(seq, last_attempt, acked_no),
        )
        was_claimed = acked_no - inbox.acked_no <= len(claims)
        if was_claimed:  # otherwise the whole range counts as unclaimed; requeued rows are passed only explicitly
            released += [each.seq for each in claims if not each.requeued and each.is_released(now)]
        span = InboxRange(*bounds)
        return (
            yield from self.ack_positions(
                workspace_id, updated_inbox, [], requeued_positions, span, was_claimed=was_claimed, released=released
            )
        )

    async def ack_message(self, workspace_id: str, activity_id: str, attempt: int | None) -> int:
        """Acknowledge one message; returns the ack floor.

        Raises NotFound, AttemptRequired, StaleAttempt, InvalidField."""

        def decide() -> CommandSteps[int]:
            positions = yield ReadQuery("position_of_activity", {"id": activity_id, "workspace_id": workspace_id})
            if not positions or positions[0][1] is None:
                raise NotFound(what="message")
            inbox, claim, is_handled = yield from load_inbox_entry(workspace_id, positions[0][0])
            if is_handled:
                return WriteSet(inbox.acked_seq)
            rules.check_exact_attempt(claim, attempt)
            return (yield from self._ack_single(workspace_id, inbox, claim, *positions[0][:2]))

        return await self._store.run(self.inbox_command(workspace_id, decide))

    def ack_answered(self, workspace_id: str, seq: int, inbound_no: int) -> CommandSteps[int]:
        """Acknowledge an answered message, whatever its attempt. A running push records its own outcome.

        Emits no delivery of a delegation: the answer ends it in the same command."""
        inbox, claim, is_handled = yield from load_inbox_entry(workspace_id, seq)
        is_pushed = claim is not None and claim.lease_until > self._clock.now()
        if is_handled or (is_pushed and self._org.active_workspace(workspace_id).uses_push):
            return WriteSet(inbox.acked_seq)
        acked = yield from self._ack_single(workspace_id, inbox, claim, seq, inbound_no, is_answered=True)
        return replace(acked, domain_events=())

    def _ack_single(
        self,
        workspace_id: str,
        inbox: InboxState,
        claim: InboxClaim | None,
        seq: int,
        inbound_no: int,
        *,
        is_answered: bool = False,
    ) -> CommandSteps[int]:
        position = InboxPosition(seq, claim.attempt if claim else 0, inbound_no)
        regular, requeued_positions = ([], [position]) if claim is not None and claim.requeued else ([position], [])
        released = [seq] if claim is not None and claim.is_released(self._clock.now()) else []
        return (
            yield from self.ack_positions(
                workspace_id, inbox, regular, requeued_positions, released=released, opens_obligations=not is_answered
            )
        )

    async def ack_cursor(self, workspace_id: str, seq: int, filters: ActivityFilters) -> int:
        """Acknowledge everything up to a cursor that matches the filters of a client without claims."""
        inbox = await read_inbox(self._store, workspace_id)
        excludes_inbox = filters.activity_type not in (None, ActivityType.RECEIVE)
        if inbox.acked_seq >= seq or excludes_inbox:
            return inbox.acked_seq
        if filters.is_whole_inbox:
            return await self.ack_up_to(workspace_id, seq, None)

        def decide() -> CommandSteps[int]:
            inbox = yield from load_inbox(workspace_id)
            query = {"workspace_id": workspace_id, "floor": inbox.acked_seq, "seq": seq}
            open_rows = yield ReadQuery("unhandled_upto", {**query, **asdict(filters)})
            positions, now = [InboxPosition(*row[:-1]) for row in open_rows], self._clock.now()
            released = [
                each.seq for each, row in zip(positions, open_rows, strict=True) if each.attempt and row[-1] <= now
            ]
            return (yield from self.ack_positions(workspace_id, inbox, positions, [], released=released))

        return await self._store.run(self.inbox_command(workspace_id, decide))

    def ack_positions(
        self,
        workspace_id: str,
        inbox: InboxState,
        regular: list[InboxPosition],
        requeued_positions: list[InboxPosition],
        acked_range: InboxRange | None = None,
        *,
        was_claimed: bool = True,
        released: Iterable[int] = (),
        opens_obligations: bool = True,
    ) -> CommandSteps[int]:
        """Acknowledge single rows, and the range below a floor that has already advanced (`acked_range`).

        Rows that were not claimed before count as delivered without a claim: their obligations open now, unless the
        same command answers them. The same holds for claimed rows in `released`: after a release, no timer watches for
        the answer."""
        now, workspace = self._clock.now(), self._org.active_workspace(workspace_id)
        spans = [
            *rules.to_ranges(regular),
            *rules.to_ranges(requeued_positions),
            *([acked_range] if acked_range is not None else []),
        ]
        if not spans:
            return WriteSet(inbox.acked_seq)
        unclaimed = [*(each.seq for each in (*regular, *requeued_positions) if each.attempt == 0), *released]
        ranges = [(seq - 1, seq) for seq in unclaimed]
        if acked_range is not None and not was_claimed:
            ranges.append((acked_range.first.seq - 1, acked_range.last.seq))
        opened = self._ledger.open_for_ranges(workspace, ranges if opens_obligations else [], now)
        domain_events = yield from self._ledger.delegation_events(workspace, ranges, now)
        acked = yield from ack_rows(workspace_id, inbox, regular, requeued_positions, now)
        ticks = record_ticks(
            workspace_id,
            DeliveryTick.ACKED,
            [span for span in spans if span.first.inbound_no <= span.last.inbound_no],
            now,
        )
        writes = [*acked.writes, *mark_dead_letters_handled(workspace_id, requeued_positions)]
        floor, notify = acked.result.acked_seq, (org_key(workspace.org_id),)
        # control: ack-kept
        return WriteSet(floor, writes, notify=notify, domain_events=domain_events) + ticks + opened

    def inbox_command(self, workspace_id: str, decide: Callable[[], CommandSteps[T]]) -> Command[T]:
        """Build a command on the inbox of a workspace that must still be active when it is decided."""

        def decide_if_active() -> CommandSteps[T]:
            self._org.active_workspace(
                workspace_id
            )  # another process may have removed it: the org cache is current only under the lock
            return (yield from decide())

        return Command(self._org.active_workspace(workspace_id).org_id, inbox_keys(workspace_id), decide_if_active)


# -- command steps shared by the other writers of this package ---------------------------------------------------------


def inbox_keys(workspace_id: str) -> tuple[tuple[str, str]]:
    """Return the keys of a command that changes an inbox."""
    return (("inbox", workspace_id),)


def load_inbox(workspace_id: str) -> Generator[StepRequest, Any, InboxState]:
    """Read the state of an inbox."""
    rows = yield ReadQuery("inbox_state", {"workspace_id": workspace_id})
    return InboxState(*rows[0]) if rows else InboxState()


async def read_inbox(store: Store, workspace_id: str) -> InboxState:
    """Read the state of an inbox outside a command."""
    rows = await store.rows("inbox_state", {"workspace_id": workspace_id})
    return InboxState(*rows[0]) if rows else InboxState()


def load_delivery_state(activity_id: str) -> Generator[StepRequest, Any, DeliveryState | None]:
    """Read the delivery state of a message."""
    rows = yield ReadQuery("message_state", {"id": activity_id})
    return DeliveryState(*rows[0]) if rows else None


def load_inbox_entry(
    workspace_id: str, seq: int
) -> Generator[StepRequest, Any, tuple[InboxState, InboxClaim | None, bool]]:
    """Read an inbox, the claim of one of its rows, and whether that row is acknowledged."""
    inbox = yield from load_inbox(workspace_id)
    records = yield ReadQuery("claim_of_row", {"workspace_id": workspace_id, "seq": seq})
    claim = InboxClaim(*records[0]) if records else None
    is_passed = seq <= inbox.acked_seq or (claim is not None and claim.acked_at is not None)
    return inbox, claim, is_passed and not (claim is not None and claim.requeued)


def find_requeued(
    workspace_id: str, inbox: InboxState, is_selected: Callable[[InboxClaim], bool]
) -> Generator[StepRequest, Any, list[InboxPosition]]:
    """Return the selected ones of the requeued dead letters."""
    if not inbox.requeued:
        return []
    rows = yield ReadQuery("all_requeued_rows", {"workspace_id": workspace_id})
    return [InboxPosition(row[0], row[1], row[-1]) for row in rows if is_selected(InboxClaim(*row[:-1]))]


def ack_rows(
    workspace_id: str,
    inbox: InboxState,
    regular: list[InboxPosition],
    requeued_positions: list[InboxPosition],
    now: int,
) -> CommandSteps[InboxState]:
    """Acknowledge single rows and advance the ack floor if a gap closed.

    `requeued_positions`: rows that are requeued dead letters."""
    above, requeued = inbox.acked_above + len(regular), inbox.requeued - len(requeued_positions)
    updated_inbox = replace(inbox, acked_above=above, requeued=requeued)
    floor = yield from _advance_floor(workspace_id, updated_inbox, frozenset(each.seq for each in regular))
    row = {"workspace_id": workspace_id}
    requeued_writes: list[Statement] = [
        ("ack_requeued_row", {**row, "seq": each.seq, "now": now}) for each in requeued_positions
    ]
    claim_writes = [
        save_claim(workspace_id, each.seq, each.attempt, 0, now) for each in regular if each.seq > floor.acked_seq
    ]
    forget_write: Statement = ("forget_acknowledged_claims", {**row, "seq": floor.acked_seq})
    return WriteSet(floor, [*requeued_writes, save_inbox(workspace_id, floor), forget_write, *claim_writes])


def _advance_floor(
    workspace_id: str, inbox: InboxState, just_acked: frozenset[int]
) -> Generator[StepRequest, Any, InboxState]:
    """Advance the ack floor over all rows that are acknowledged without a gap."""
    while inbox.acked_above > 0:
        query = {"workspace_id": workspace_id, "floor": inbox.acked_seq, "count": _FLOOR_BATCH}
        rows = yield ReadQuery("rows_above_ack_floor", query)
        inbox, absorbed = rules.advance_floor(inbox, [(seq, bool(acked) or seq in just_acked) for seq, acked in rows])
        if absorbed < _FLOOR_BATCH:
            break
    return inbox


def save_inbox(workspace_id: str, inbox: InboxState) -> Statement:
    """Return the statement that stores the state of an inbox."""
    return "save_inbox", {"workspace_id": workspace_id, **asdict(inbox)}


def save_claim(workspace_id: str, seq: int, attempt: int, lease_until: int, acked_at: int | None) -> Statement:
    """Return the statement that stores the end of a claim, or an ack, of one row."""
    row = {"seq": seq, "attempt": attempt, "lease_until": lease_until, "acked_at": acked_at}
    return "save_claim", {"workspace_id": workspace_id, **row}


def claim_row(workspace_id: str, seq: int, attempt: int, lease_until: int, *, unread: bool = False) -> Statement:
    """Return the statement that stores the claim of one row. `unread`: its model has yet to read it."""
    row = {"seq": seq, "attempt": attempt, "lease_until": lease_until, "unread": int(unread)}
    return "claim_row", {"workspace_id": workspace_id, **row}


def mark_dead_letters_handled(workspace_id: str, requeued_positions: Iterable[InboxPosition]) -> list[Statement]:
    """Return the statements that mark requeued dead letters as handled."""
    row = {"workspace_id": workspace_id, "state": DeadLetterState.HANDLED}
    return [("set_dead_letter", {**row, "seq": each.seq}) for each in requeued_positions]
