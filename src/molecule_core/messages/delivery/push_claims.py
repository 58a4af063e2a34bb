"""Claims the next messages of push agents and records the results of pushes.

Called by the dispatcher, which talks to the agents; uses no network itself."""

import asyncio
from collections.abc import Generator
from functools import partial
from typing import Any

from msgspec.structs import replace

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.delivery import push_policy
from molecule_core.messages.delivery.push_results import PushResultRecorder
from molecule_core.messages.delivery_log import Statement, record_ticks
from molecule_core.messages.delivery_state import PushAttempt, PushBatch, PushCandidate, PushCapacity, PushResult
from molecule_core.messages.events import MessagesReleased, PushDeferred
from molecule_core.messages.files import attachments
from molecule_core.messages.inbox.acks import ack_rows, inbox_keys, load_inbox, save_claim
from molecule_core.messages.model import (
    ACKED,
    DELIVERED,
    KIND_APPROVAL_DECISION,
    KIND_DELEGATION,
    ActivityPageRow,
    InboxPosition,
    InboxState,
)
from molecule_core.messages.obligations.instructions import InstructionOptions
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import Obligation, obligation_key, undo_delivery
from molecule_core.org.model import PUSH
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, CommandSteps, ReadQuery, RequestBatch, StepRequest, Store, WriteSet
from molecule_core.store.journal import answer_key, org_key
from molecule_core.wire.schemas.envelope import with_instructions_metadata

# 60 s: an agent without capacity is checked again after this time even without a heartbeat.
RECHECK_SECONDS = 60
# 10 s: the lease outlives the push by the time that recording its result takes.
_LEASE_MARGIN_SECONDS = 10
_ALL_TARGETS = 1 << 31
# Commands submitted at once, so that they share commits without blocking others.
_COMMAND_BATCH = 256
# Delegations that begin at the same moment, each the first in its inbox as far as it could see. All others are marked
# as waiting when they begin.
_MAX_DEFERRED = 16


class PushClaims:
    """Claims messages for pushes and records their results."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        recorder: PushResultRecorder,
        ledger: ObligationLedger,
        *,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = org
        self._recorder = recorder
        self._ledger = ledger
        self._clock = clock
        self._limits = limits

    async def due_targets(self, count: int) -> list[tuple[str, int]]:
        """Return the agents to check and when (microseconds), longest due first."""
        return [(row[0], row[1]) for row in await self._store.rows("due_targets", {"count": count})]

    async def claim_batch(self, org_id: str, workspace_id: str, capacity: PushCapacity) -> PushBatch:
        """Claim the messages that may be pushed to an agent now, and the time of its next check."""
        decide = partial(self._decide_claim, workspace_id, capacity)
        return await self._store.run(Command(org_id, inbox_keys(workspace_id), decide))

    def _decide_claim(self, workspace_id: str, capacity: PushCapacity) -> CommandSteps[PushBatch]:
        workspace, now = self._org.workspace(workspace_id), self._clock.now()
        last_rows = yield ReadQuery("last_seq", {"key": workspace_id})
        target = {"workspace_id": workspace_id, "last": last_rows[0][0] or 0}
        if workspace is None or workspace.removed or workspace.delivery_mode != PUSH:
            return WriteSet(PushBatch([], None), [("drop_target", target)])
        inbox = yield from load_inbox(workspace_id)
        candidates = yield from _load_candidates(workspace_id, inbox, now, workspace.max_concurrent_tasks + 1)
        if not candidates:
            return WriteSet(PushBatch([], None), [("drop_target", target)])
        if finished := (yield from _find_finished(workspace_id, candidates, now)):
            _, writes = yield from ack_rows(
                workspace_id, inbox, [_position_of(candidate) for candidate in finished], [], now
            )
            # the end of a delegation has already been recorded
            regular = [candidate for candidate in finished if candidate.kind != KIND_DELEGATION]
            records, events = record_ticks(
                workspace_id, ACKED, rules.to_ranges(_position_of(candidate) for candidate in regular), now
            )
            notify = (
                (org_key(workspace.org_id), *(answer_key(candidate.id) for candidate in regular)) if regular else ()
            )
            wake = ("wake_target", {"workspace_id": workspace_id, "due": now})
            return WriteSet(PushBatch([], now), [*writes, *records, wake], events, notify)
        selected, next_check = push_policy.select_pushable(candidates, capacity, now)
        due = capacity.check_at or min(next_check or 1 << 62, now + RECHECK_SECONDS * SECOND)
        writes = [("set_target", {**target, "due": due})]
        rows, positions = list[ActivityPageRow](), []
        lease_until = now + (self._limits.push_seconds + _LEASE_MARGIN_SECONDS) * SECOND
        for candidate in selected:
            row = {"workspace_id": workspace_id, "seq": candidate.seq}
            found = yield ReadQuery("push_body", row)
            rows.append(replace(ActivityPageRow(*found[0]), attempt=candidate.attempt + 1))
            positions.append(InboxPosition(candidate.seq, candidate.attempt + 1, candidate.inbound_no))
            writes += [
                save_claim(workspace_id, candidate.seq, candidate.attempt + 1, lease_until, None),
                ("start_push", row),
            ]
        rows, obligation_changes = yield from self._ledger.deliver_with_instructions(
            workspace, rows, now, InstructionOptions(in_envelope=True), pushed=True
        )
        pushes = [self._to_push_attempt(row) for row in rows]
        records, events = record_ticks(workspace_id, DELIVERED, rules.to_ranges(positions), now)
        notify = (org_key(workspace.org_id), *obligation_changes.notify) if events else ()
        batch, all_writes = PushBatch(pushes, due), [*writes, *records, *obligation_changes.writes]
        return WriteSet(
            batch,
            all_writes,
            events,
            notify,
            obligation_changes.after_commit,
            domain_events=[*obligation_changes.domain_events, *_deferred_events(candidates, capacity, due, now)],
        )

    def _to_push_attempt(self, row: ActivityPageRow) -> PushAttempt:
        return PushAttempt(
            row.workspace_id, row.seq, row.id, row.attempt or 1, self._push_body(row), row.source_id, row.kind
        )

    def _push_body(self, row: ActivityPageRow) -> str:
        """Return the body to push, with instructions in its metadata, never in its parts."""
        body = row.request_body or ""
        return body if self._ledger.instruction_builder is None else with_instructions_metadata(body, row.instructions)

    async def record_result(self, org_id: str, push: PushAttempt, result: PushResult, *, failure_counts: bool) -> None:
        """Record the result of a push. An uncounted failure does not bring the message closer to the dead letters."""
        keys = (*inbox_keys(push.workspace_id), obligation_key(push.workspace_id, push.source_id))
        parse_reply, record = push_policy.parse_message_reply, self._recorder.record_message
        if push.kind == KIND_DELEGATION:
            parse_reply, record = push_policy.parse_delegation_reply, self._recorder.record_delegation
        reply = None if result.answer is None else parse_reply(result.answer, self._limits)
        files = () if reply is None else attachments.file_keys([*reply.parts])
        decide = partial(record, push, result, reply, failure_counts)
        # An explanation has isolated subscribers: in a shared group, the whole group would be decided twice.
        await self._store.run(Command(org_id, (*keys, *files), decide, exclusive=push.kind == KIND_APPROVAL_DECISION))

    async def release(self, org_id: str, push: PushAttempt) -> None:
        """Release a push that shutdown interrupted, so that the next one need not wait for the lease to end."""

        def decide() -> CommandSteps[None]:
            state = yield from self._recorder.load_if_claimed(push)
            if state is None:
                return WriteSet(None)
            now = self._clock.now()
            release_write = save_claim(push.workspace_id, push.seq, push.attempt, now, None)
            domain_events = [MessagesReleased((push.activity_id,), now)] if push.kind == KIND_DELEGATION else []
            return WriteSet(
                None, [release_write, *undo_delivery(push.workspace_id, push.seq)], domain_events=[*domain_events]
            )

        await self._store.run(Command(org_id, inbox_keys(push.workspace_id), decide))

    async def release_stale_leases(self) -> None:
        """Release leases on pushes; only for a process that uses the store exclusively, so their holders are dead."""
        due = await self.due_targets(_ALL_TARGETS)
        for start in range(0, len(due), _COMMAND_BATCH):
            found = (self._org.workspace(workspace_id) for workspace_id, _ in due[start : start + _COMMAND_BATCH])
            commands = (
                Command(workspace.org_id, inbox_keys(workspace.id), partial(self._decide_release_stale, workspace.id))
                for workspace in found
                if workspace
            )
            await asyncio.gather(*map(self._store.run, commands))

    def _decide_release_stale(self, workspace_id: str) -> CommandSteps[None]:
        workspace, now = self._org.workspace(workspace_id), self._clock.now()
        if workspace is None or workspace.removed or workspace.delivery_mode != PUSH:
            return WriteSet(None)
        inbox = yield from load_inbox(workspace_id)
        candidates = yield from _load_candidates(workspace_id, inbox, now, workspace.max_concurrent_tasks + 1)
        leased = [candidate for candidate in candidates if candidate.lease_until > now]
        writes: list[Statement] = [
            save_claim(workspace_id, candidate.seq, candidate.attempt, now, None) for candidate in leased
        ]
        return WriteSet(None, [*writes, ("wake_target", {"workspace_id": workspace_id, "due": now})] if leased else [])


def _load_candidates(
    workspace_id: str, inbox: InboxState, now: int, count: int
) -> Generator[StepRequest, Any, list[PushCandidate]]:
    """Load an agent's first unacknowledged messages in order, requeued dead letters included."""
    query = {"workspace_id": workspace_id, "count": count, "now": now}
    requeued_rows = (yield ReadQuery("push_requeued", query)) if inbox.requeued else []
    fresh = yield ReadQuery("push_head", {**query, "floor": inbox.acked_seq})
    return sorted(
        [
            *(PushCandidate(*row)._replace(is_requeued=True) for row in requeued_rows),
            *(PushCandidate(*row) for row in fresh),
        ]
    )[:count]


def _position_of(candidate: PushCandidate) -> InboxPosition:
    return InboxPosition(candidate.seq, candidate.attempt, candidate.inbound_no)


def _find_finished(
    workspace_id: str, candidates: list[PushCandidate], now: int
) -> Generator[StepRequest, Any, list[PushCandidate]]:
    """Return messages with an interrupted push that were answered or cancelled since, and need no other push.

    Other requeued messages are withdrawn where they are answered."""
    lapsed = (candidate for candidate in candidates if candidate.attempt and candidate.lease_until <= now)
    unfinished = [candidate for candidate in lapsed if candidate.kind == KIND_DELEGATION or not candidate.is_requeued]
    if not unfinished:
        return []
    obligation_rows = yield RequestBatch(
        [ReadQuery("obligation", {"workspace_id": workspace_id, "seq": candidate.seq}) for candidate in unfinished]
    )
    return [
        candidate
        for candidate, rows in zip(unfinished, obligation_rows, strict=True)
        if rows and not Obligation(*rows[0]).is_open
    ]


def _deferred_events(candidates: list[PushCandidate], capacity: PushCapacity, due: int, now: int) -> list[PushDeferred]:
    """Return deferral events for delegations that start to wait because their agent has no capacity."""
    fresh = (
        [candidate for candidate in candidates if candidate.kind == KIND_DELEGATION and not candidate.attempt]
        if capacity.is_full
        else []
    )
    return [PushDeferred(candidate.id, True, None, due, now) for candidate in fresh[:_MAX_DEFERRED]]
