"""Reads the delivery status of messages: ticks, blockers, push answers, dead letters, stale mail, obligations.

Called by the API; writes nothing."""

from collections.abc import Callable, Sequence

from msgspec import UNSET, Raw

from molecule_core.common.clock import Clock, to_optional_rfc3339, to_rfc3339, yield_to_others
from molecule_core.common.errors import CursorNotFound, NotFound
from molecule_core.common.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.delivery import push_policy
from molecule_core.messages.delivery_state import (
    DeadLetter,
    DeadLetterState,
    DeliveryFailure,
    DeliveryNote,
    DeliveryState,
    DeliveryTick,
)
from molecule_core.messages.inbox.acks import read_inbox
from molecule_core.messages.obligations.model import Obligation, ObligationState
from molecule_core.org.model import Workspace, WorkspaceStatus
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Row, Store
from molecule_core.store.journal import answer_key
from molecule_core.store.queries import Params
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.wire.schemas.delivery import (
    DeadLetterPage,
    DeadLetterRow,
    DeliveryBlocker,
    DeliveryLogEntry,
    MessageDeliveryLog,
    QueueStatus,
    StaleInboxPage,
    StaleInboxRow,
)
from molecule_core.wire.schemas.obligations import ObligationPage, ObligationRow

_NEWEST = (1 << 62) - 1
# Inboxes per batch: a large organisation must not block other work for long.
_INBOX_BATCH = 200
# Statuses in which nothing is delivered, and what the delivery log says of them.
_HOLDING_STATUSES = {WorkspaceStatus.PAUSED: "paused", WorkspaceStatus.REMOVED: "removed"}
_ANY_STATE: dict[str, object] = {"state": None, "overdue": None, "outside": None, "unanswered": 0}
_STATE_FILTERS: dict[str, dict[str, object]] = {
    ObligationState.OPEN: {**_ANY_STATE, "state": ObligationState.OPEN},
    "unanswered": {**_ANY_STATE, "state": ObligationState.OPEN, "unanswered": 1},
    ObligationState.OVERDUE: {**_ANY_STATE, "state": ObligationState.OPEN, "overdue": 1},
    ObligationState.ANSWERED_OUTSIDE: {**_ANY_STATE, "state": ObligationState.OPEN, "overdue": 0, "outside": 1},
    ObligationState.ANSWERED: {**_ANY_STATE, "state": ObligationState.ANSWERED},
    ObligationState.DECLINED: {**_ANY_STATE, "state": ObligationState.DECLINED},
    "all": _ANY_STATE,
}
OBLIGATION_STATES = tuple(_STATE_FILTERS)
"""Filters of a workspace's obligations."""
ORG_OBLIGATION_STATES = ("unanswered", ObligationState.OVERDUE, ObligationState.ANSWERED_OUTSIDE)
"""Filters of an organisation's obligations, which a person should look at."""


class DeliveryStatusReader:
    """Reads delivery status. `circuit_open_until` returns until when an agent's circuit is open."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        wakeups: Notifier,
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

    async def get_state(self, workspace_id: str, activity_id: str) -> DeliveryState:
        """Return the delivery state of a message. Raises NotFound."""
        rows = await self._store.rows("message_state", {"id": activity_id})
        if not rows or rows[0][1] != workspace_id:
            raise NotFound(what="message")
        return DeliveryState(*rows[0])

    async def get_delivery_log(self, state: DeliveryState) -> MessageDeliveryLog:
        """Return the ticks of a message, and what blocks it."""
        ticks = [
            DeliveryLogEntry(each.tick, to_rfc3339(each.at), each.attempt or UNSET, each.reason or UNSET)
            for each in await self._load_notes(state)
        ]
        reason = await self._stuck_reason(state)
        stuck = None if reason is None else DeliveryBlocker(reason)
        return MessageDeliveryLog(state.id, state.workspace_id, state.source_id, ticks, stuck)

    async def _load_notes(self, state: DeliveryState) -> list[DeliveryNote]:
        most = {"widest": rules.MAX_RANGE_WIDTH, "most": rules.MAX_DELIVERIES}
        rows = await self._store.rows(
            "deliveries_of", {"workspace_id": state.workspace_id, "no": state.inbound_no, **most}
        )
        return rules.timeline(state, [DeliveryNote(*row) for row in rows])

    async def _stuck_reason(self, state: DeliveryState) -> str | None:
        workspace, now = self._org.workspace(state.workspace_id), self._clock.now()
        holding = None if workspace is None else _holding_reason(workspace, now)
        if workspace is None or state.is_dead or state.is_acked or (state.is_leased(now) and holding is None):
            return None
        if holding is not None:
            return holding
        offline = rules.offline_since(workspace, self._org.last_heartbeat(workspace.id))
        since = None if offline is None else f"offline since {to_rfc3339(offline)}"
        if not workspace.uses_push:
            return since or "polls only"
        open_until = self._circuit_open_until(workspace.id)
        if open_until is not None:
            return f"circuit open until {to_rfc3339(open_until)}"
        if state.next_at > now:
            return "busy" if state.busy else f"retry at {to_rfc3339(state.next_at)}: {state.last_error}"
        return since or await self._blocked_reason(state, workspace, now)

    async def _blocked_reason(self, state: DeliveryState, workspace: Workspace, now: int) -> str | None:
        """Return what blocks a message that is not waiting itself: earlier messages, or a busy agent."""
        query = {"workspace_id": workspace.id, "floor": state.ack_floor, "now": now, "count": 1}
        candidates = [push_policy.to_candidate(row) for row in await self._store.rows("push_head", query)]
        for candidate in candidates:
            if candidate.seq != state.seq and candidate.next_at > now:
                return (
                    "busy" if candidate.busy else f"retry at {to_rfc3339(candidate.next_at)}: an earlier message failed"
                )
        is_behind = candidates and candidates[0].seq != state.seq
        return (
            "busy"
            if is_behind or self._org.last_heartbeat(workspace.id).active_tasks >= workspace.max_concurrent_tasks
            else None
        )

    async def queue_status(self, state: DeliveryState) -> QueueStatus:
        """Return the queue status of a message."""
        notes, now = await self._load_notes(state), self._clock.now()
        delivered = [each.at for each in notes if each.tick in (DeliveryTick.IN_INBOX, DeliveryTick.DELIVERED)]
        acked = [each.at for each in notes if each.tick == DeliveryTick.ACKED]
        last_error = state.dead_detail if state.is_dead else state.last_error
        if state.answer is not None:
            last_error = push_policy.answer_error_text(state.answer) or last_error
        return QueueStatus(
            queue_id=state.id,
            workspace_id=state.workspace_id,
            status=_queue_state(state, now),
            priority=0,
            attempts=max(state.attempt, state.dead_attempts or 0, *(each.attempt for each in notes)),
            enqueued_at=to_rfc3339(state.created_at),
            last_error=last_error or UNSET,
            dispatched_at=to_rfc3339(delivered[-1]) if delivered else UNSET,
            completed_at=to_rfc3339(acked[-1]) if acked and state.is_acked else UNSET,
            expires_at=UNSET if state.expires_at is None else to_rfc3339(state.expires_at),
            response_body=UNSET if state.answer is None else Raw(state.answer.encode()),
        )

    # -- answers -------------------------------------------------------------------------------------------------------

    async def wait_for_outcome(self, workspace_id: str, activity_id: str, seconds: float) -> DeliveryState | None:
        """Wait for the outcome of a push: answered, dead, or deferred; None after `seconds`."""

        async def poll_outcome() -> Poll[DeliveryState]:
            state = await self.get_state(workspace_id, activity_id)
            is_final = state.answer is not None or state.is_dead or state.next_at > 0 or await self._is_blocked(state)
            return Poll(state if is_final else None)

        return await self._wakeups.wait_until(answer_key(activity_id), poll_outcome, seconds)

    async def _is_blocked(self, state: DeliveryState) -> bool:
        """Return whether a push will not start soon: the agent accepts none now, or is at capacity."""
        workspace, now = self._org.active_workspace(state.workspace_id), self._clock.now()
        if state.is_acked or not workspace.uses_push or workspace.holds_mail(now):
            return True
        if state.attempt > 0 and state.is_leased(now):
            return False
        if self._circuit_open_until(workspace.id) is not None:
            return True
        inbox = await read_inbox(self._store, workspace.id)
        ahead = state.inbound_no - 1 - inbox.acked_no - inbox.acked_above
        heartbeat = self._org.last_heartbeat(workspace.id)
        return max(ahead, heartbeat.active_tasks) >= workspace.max_concurrent_tasks

    async def inbox_depth(self, workspace_id: str) -> int:
        """Return the number of unacknowledged messages of an inbox."""
        rows = await self._store.rows("last_inbound", {"key": workspace_id})
        inbox = await read_inbox(self._store, workspace_id)
        return max(0, (rows[0][0] if rows else 0) - inbox.acked_no - inbox.acked_above + inbox.requeued)

    # -- dead letters --------------------------------------------------------------------------------------------------

    async def list_dead_letters(
        self, org_id: str, count: int, *, workspace_id: str | None = None, before: str | None = None
    ) -> DeadLetterPage:
        """List the dead letters of an organisation or one workspace, newest first. Raises CursorNotFound."""
        page: dict[str, object] = {"org_id": org_id, "workspace_id": workspace_id, "count": count + 1}
        position = (None, None)
        if before is not None:
            positions = await self._store.rows("position_of_dead_letter", {"activity_id": before, "org_id": org_id})
            if not positions:
                raise CursorNotFound(name="before")
            position = (positions[0][0], positions[0][1])
        rows = await self._store.rows("dead_letters_page", {**page, "died_at": position[0], "activity_id": position[1]})
        dead_letters = [self._to_dead_letter_row(DeadLetter(*row)) for row in rows[:count]]
        return DeadLetterPage(dead_letters, reached_end=len(rows) <= count)

    # -- stale mail ----------------------------------------------------------------------------------------------------

    async def list_stale_inboxes(self, org_id: str) -> StaleInboxPage:
        """List workspaces with mail that no agent picks up, longest waiting first.

        Obligations only start at delivery; this finds undelivered mail. A limited workspace is left out: its mail waits
        until a known time. Each call reads everything anew."""
        workspaces, found = list(self._org.workspaces(org_id)), list[tuple[int, str, StaleInboxRow]]()
        now = self._clock.now()
        due_times = [until for each in workspaces if (until := each.limited_until) is not None and each.is_limited(now)]
        for first in range(0, len(workspaces), _INBOX_BATCH):
            rows, due_later = await self._load_stale_inboxes(workspaces[first : first + _INBOX_BATCH])
            found += rows
            due_times += due_later
            await yield_to_others()
        listed = [row for *_, row in sorted(found, key=lambda each: each[:2])]
        most, next_due = self._limits.untaken_rows, min(due_times, default=None)
        return StaleInboxPage(
            listed[:most],
            reached_end=len(listed) <= most,
            untaken_seconds=self._limits.untaken_seconds,
            next_check_seconds=rules.next_check_seconds(next_due, self._clock.now(), self._limits),
        )

    async def count_unclaimed(self, workspace_ids: Sequence[str]) -> int:
        """Count the requests of these inboxes that no agent picks up, each inbox up to `unread_count`."""
        workspaces = [found for each in workspace_ids if (found := self._org.workspace(each)) and not found.removed]
        count = 0
        for first in range(0, len(workspaces), _INBOX_BATCH):
            rows, _ = await self._load_stale_inboxes(workspaces[first : first + _INBOX_BATCH])
            count += sum(row.waiting for *_, row in rows)
            await yield_to_others()
        return count

    async def _load_stale_inboxes(
        self, workspaces: list[Workspace]
    ) -> tuple[list[tuple[int, str, StaleInboxRow]], list[int]]:
        """Return the stale inboxes, and the times (microseconds) at which others become stale if nothing changes."""
        now, most = self._clock.now(), self._limits.unread_count
        workspaces = [each for each in workspaces if not each.is_limited(now)]
        before = [
            rules.stale_cutoff(workspace, self._org.last_heartbeat(workspace.id), now, self._limits)
            for workspace in workspaces
        ]
        shared = {"now": now, "count": most + 1}
        queries: list[Params] = [
            {
                **shared,
                "workspace_id": workspace.id,
                "since": at,
                "paused": int(workspace.status is WorkspaceStatus.PAUSED),
            }
            for workspace, at in zip(workspaces, before, strict=True)
        ]
        rows, due_later = list[tuple[int, str, StaleInboxRow]](), list[int]()
        found = await self._store.rows_of_each("unclaimed_requests", queries)
        for workspace, at, ((count, since),) in zip(workspaces, before, found, strict=True):
            if since is not None and since > at:
                due_later.append(since + now - at)
            elif since is not None:
                counted = min(count, most), count > most
                identity = workspace.id, workspace.name, workspace.status.value
                rows.append((since, workspace.id, StaleInboxRow(*identity, *counted, to_rfc3339(since))))
        return rows, due_later

    # -- obligations ---------------------------------------------------------------------------------------------------

    async def list_obligations(self, workspace_id: str, state: str, count: int, before: str | None) -> ObligationPage:
        """List a workspace's obligations in one of OBLIGATION_STATES, newest first. Raises CursorNotFound."""
        position = _NEWEST if before is None else await self._cursor_position(before, workspace_id=workspace_id)
        query = {"workspace_id": workspace_id, "before": position, **self._page_limits(count), **_STATE_FILTERS[state]}
        return self._obligation_page(await self._store.rows("obligations_page", query), count)

    async def list_unanswered(self, org_id: str, state: str, count: int, before: str | None) -> ObligationPage:
        """List unanswered messages of an organisation in one of ORG_OBLIGATION_STATES, newest first.

        Removed workspaces, which cannot answer, are left out. Raises CursorNotFound."""
        at = None if before is None else await self._cursor_position(before, org_id=org_id)
        queries = {name: _STATE_FILTERS[state][name] for name in ("overdue", "outside")}
        query = {"org_id": org_id, "at": at, "before": before, **self._page_limits(count), **queries}
        return self._obligation_page(await self._store.rows("unanswered_page", query), count)

    async def _cursor_position(self, before: str, *, workspace_id: str | None = None, org_id: str | None = None) -> int:
        """Return the position of an obligation in its workspace, or the time when it opened."""
        rows = await self._store.rows("position_of_obligation", {"activity_id": before})
        if not rows or (rows[0][3] != org_id if workspace_id is None else rows[0][2] != workspace_id):
            raise CursorNotFound(name="before")
        return int(rows[0][0] if workspace_id is None else rows[0][1])

    def _obligation_page(self, rows: Sequence[Row], count: int) -> ObligationPage:
        obligations = [self._to_obligation_row(Obligation(*row[:-1])) for row in rows[:count]]
        return ObligationPage(obligations, reached_end=not rows or rows[0][-1] <= len(obligations))

    def _page_limits(self, count: int) -> dict[str, object]:
        return {"count": count + 1, "page_bytes": self._limits.page_bytes}

    def _to_obligation_row(self, obligation: Obligation) -> ObligationRow:
        return ObligationRow(
            activity_id=obligation.activity_id,
            workspace_id=obligation.workspace_id,
            workspace_name=self._workspace_name(obligation.workspace_id) or "",
            seq=obligation.seq,
            source_id=obligation.source_id,
            source_name=self._workspace_name(obligation.source_id),
            summary=obligation.summary,
            state=obligation.display_state,
            handle=obligation.handle,
            handed_at=to_rfc3339(obligation.handed_at),
            due_at=to_optional_rfc3339(obligation.due_at),
            reminded_at=to_optional_rfc3339(obligation.reminded_at or None),
            overdue_at=to_optional_rfc3339(obligation.overdue_at),
            outside_at=to_optional_rfc3339(obligation.outside_at),
            closed_at=to_optional_rfc3339(obligation.closed_at),
            answer_id=obligation.answer_id,
            reason=obligation.reason,
            draft=obligation.draft if obligation.is_open else None,
            template=obligation.template_label,
            form=obligation.form,
            tokens=obligation.tokens,
        )

    def _workspace_name(self, workspace_id: str | None) -> str | None:
        workspace = None if workspace_id is None else self._org.workspace(workspace_id)
        return None if workspace is None else workspace.name

    def _to_dead_letter_row(self, dead_letter: DeadLetter) -> DeadLetterRow:
        workspace = self._org.workspace(dead_letter.workspace_id)
        return DeadLetterRow(
            activity_id=dead_letter.activity_id,
            workspace_id=dead_letter.workspace_id,
            workspace_name="" if workspace is None else workspace.name,
            source_id=dead_letter.source_id,
            kind=dead_letter.kind,
            summary=dead_letter.summary,
            reason=dead_letter.reason,
            detail=dead_letter.detail,
            attempts=dead_letter.attempts,
            died_at=to_rfc3339(dead_letter.died_at),
            created_at=to_rfc3339(dead_letter.created_at),
        )


def _holding_reason(workspace: Workspace, now: int) -> str | None:
    """Return why nothing is delivered to a workspace now, whatever its agent does; None if nothing holds its mail."""
    if workspace.is_limited(now) and not workspace.removed:
        return f"limited until {to_optional_rfc3339(workspace.limited_until)}"
    return _HOLDING_STATUSES.get(workspace.status)


def _queue_state(state: DeliveryState, now: int) -> str:
    if state.is_dead:
        return (
            "dropped"
            if state.dead_reason == DeliveryFailure.EXPIRED or state.dead_state == DeadLetterState.DISCARDED
            else "failed"
        )
    if state.is_acked:
        return "failed" if state.answer is not None and push_policy.answer_error_text(state.answer) else "completed"
    return "dispatched" if state.is_leased(now) else "queued"
