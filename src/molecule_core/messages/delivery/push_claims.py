"""Claims the next messages of push agents and records the results of pushes.

Called by the dispatcher, which talks to the agents; uses no network itself."""

import asyncio
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

from msgspec.structs import replace

from molecule_core.a2a_agents.model import RemoteTask
from molecule_core.budgets.leases import BudgetLeases
from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import (
    DiskFull,
    FilesUnavailable,
    FileTooLarge,
    InvalidMessage,
    InvalidUpload,
    NotFound,
    WorkspaceRemoved,
)
from molecule_core.common.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.delivery import push_policy
from molecule_core.messages.delivery.push_results import PushResultRecorder
from molecule_core.messages.delivery.push_signature import PushSigner
from molecule_core.messages.delivery_log import record_ticks
from molecule_core.messages.delivery_state import (
    AgentReply,
    DeliveryFailure,
    DeliveryTick,
    PushAttempt,
    PushBatch,
    PushCandidate,
    PushCapacity,
    PushResult,
    ReplyKind,
)
from molecule_core.messages.events import MessagesReleased, PushDeferred
from molecule_core.messages.files import attachments
from molecule_core.messages.files.inline_files import has_inline_files, store_inline_files
from molecule_core.messages.files.uploads import FileWriter
from molecule_core.messages.inbox.acks import ack_rows, claim_row, inbox_keys, load_inbox, save_claim
from molecule_core.messages.inbox.turn_leases import lease_for_rows
from molecule_core.messages.model import ActivityPageRow, InboxPosition, InboxState, Sender
from molecule_core.messages.obligations.instructions import InstructionOptions
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import Obligation, obligation_key
from molecule_core.messages.obligations.transitions import undo_delivery
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import (
    Command,
    CommandSteps,
    ReadQuery,
    RequestBatch,
    Statement,
    StepRequest,
    Store,
    WriteSet,
)
from molecule_core.store.journal import answer_key, org_key
from molecule_core.wire.protocols.a2a_response import part_as_text
from molecule_core.wire.schemas.activity import MessageKind
from molecule_core.wire.schemas.envelope import to_push_body

_UNSTORABLE = (DiskFull, FilesUnavailable, FileTooLarge, InvalidMessage, InvalidUpload, NotFound, WorkspaceRemoved)
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


LoadSecrets = Callable[[str, int], Generator[StepRequest, Any, tuple[str, ...]]]
"""Loads the secrets that sign the pushes to a workspace at a time (microseconds)."""


class PushClaims:
    """Claims messages for pushes and records their results."""

    def __init__(  # noqa: PLR0913 (each is a service of its own)
        self,
        store: Store,
        org: OrgReader,
        recorder: PushResultRecorder,
        ledger: ObligationLedger,
        budgets: BudgetLeases,
        *,
        files: FileWriter,
        load_secrets: LoadSecrets,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = org
        self._recorder = recorder
        self._ledger = ledger
        self._budgets = budgets
        self._files = files
        self._load_secrets = load_secrets
        self._clock = clock
        self._limits = limits

    async def due_targets(self, count: int) -> list[tuple[str, int]]:
        """Return the agents to check and when (microseconds), longest due first."""
        return [(row[0], row[1]) for row in await self._store.rows("due_targets", {"count": count})]

    async def claim_batch(self, org_id: str, workspace_id: str, capacity: PushCapacity) -> PushBatch:
        """Claim the messages that may be pushed to an agent now, and the time of its next check."""
        lease_keys = self._budgets.lease_keys(org_id)
        decide = partial(self._decide_claim, workspace_id, capacity, bool(lease_keys))
        return await self._store.run(Command(org_id, (*inbox_keys(workspace_id), *lease_keys), decide))

    def _decide_claim(self, workspace_id: str, capacity: PushCapacity, is_alone: bool) -> CommandSteps[PushBatch]:
        workspace, now = self._org.workspace(workspace_id), self._clock.now()
        last_rows = yield ReadQuery("last_seq", {"key": workspace_id})
        target = {"workspace_id": workspace_id, "last": last_rows[0][0] or 0}
        if workspace is None or workspace.removed or not workspace.uses_push:
            return WriteSet(PushBatch([], None), [("drop_target", target)])
        inbox = yield from load_inbox(workspace_id)
        candidates = yield from _load_candidates(workspace_id, inbox, now, workspace.max_concurrent_tasks + 1)
        if not candidates:
            return WriteSet(PushBatch([], None), [("drop_target", target)])
        if finished := (yield from _find_finished(workspace_id, candidates, now)):
            acked = yield from ack_rows(
                workspace_id, inbox, [_position_of(candidate) for candidate in finished], [], now
            )
            # the end of a delegation has already been recorded
            regular = [candidate for candidate in finished if candidate.kind != MessageKind.DELEGATION]
            ticks = record_ticks(
                workspace_id, DeliveryTick.ACKED, rules.to_ranges(_position_of(candidate) for candidate in regular), now
            )
            notify = (
                (org_key(workspace.org_id), *(answer_key(candidate.id) for candidate in regular)) if regular else ()
            )
            wake = ("schedule_push_check", {"workspace_id": workspace_id, "due": now})
            return acked.returning(PushBatch([], now)) + ticks + WriteSet(None, [wake], notify=notify)
        selected, next_check = push_policy.select_pushable(candidates, capacity, now)
        due = capacity.check_at or min(next_check or 1 << 62, now + RECHECK_SECONDS * SECOND)
        rows, positions = list[ActivityPageRow](), []
        lease_until = now + (self._limits.push_seconds + _LEASE_MARGIN_SECONDS) * SECOND
        for candidate in selected:
            found = yield ReadQuery("push_body", {"workspace_id": workspace_id, "seq": candidate.seq})
            rows.append(replace(ActivityPageRow(*found[0]), attempt=candidate.attempt + 1))
        leased = WriteSet(rows)
        if rows and self._budgets.is_needed(workspace.org_id):
            leased = yield from lease_for_rows(
                self._budgets, workspace, rows, most=len(rows), until=lease_until, now=now, is_alone=is_alone
            )
            admitted = {row.seq for row in leased.result}
            if len(admitted) < len(rows):
                due = min(due, now + self._limits.budget_retry_seconds * SECOND)
            rows, selected = leased.result, [each for each in selected if each.seq in admitted]
        writes: list[Statement] = [("set_target", {**target, "due": due})]
        for candidate in selected:
            row = {"workspace_id": workspace_id, "seq": candidate.seq}
            positions.append(InboxPosition(candidate.seq, candidate.attempt + 1, candidate.inbound_no))
            writes += [
                claim_row(workspace_id, candidate.seq, candidate.attempt + 1, lease_until),
                ("start_push", row),
            ]
        delivered = yield from self._ledger.deliver_with_instructions(
            workspace, rows, now, InstructionOptions(in_envelope=True), pushed=True
        )
        signer = PushSigner((yield from self._load_secrets(workspace_id, now)) if selected else ())
        batch = PushBatch([self._to_push_attempt(row) for row in delivered.result], due, signer)
        ticks = record_ticks(workspace_id, DeliveryTick.DELIVERED, rules.to_ranges(positions), now)
        notify = (org_key(workspace.org_id),) if ticks.events else ()
        deferred = WriteSet(None, domain_events=_deferred_events(candidates, capacity, due, now))
        return WriteSet(batch, writes, notify=notify) + ticks + delivered + deferred + leased

    def _to_push_attempt(self, row: ActivityPageRow) -> PushAttempt:
        return PushAttempt(
            row.workspace_id,
            row.seq,
            row.id,
            row.attempt or 1,
            self._push_body(row),
            row.source_id,
            row.kind,
            row.context_id,
        )

    def _push_body(self, row: ActivityPageRow) -> str:
        """Return the body to push, with instructions in its metadata, never in its parts."""
        context_id = rules.conversation_id(row.source_id or "", row.workspace_id)
        return to_push_body(row.request_body or "", row.instructions, message_id=row.id, context_id=context_id)

    async def record_result(self, org_id: str, push: PushAttempt, result: PushResult, *, failure_counts: bool) -> None:
        """Record the result of a push. An uncounted failure does not bring the message closer to the dead letters."""
        keys = (*inbox_keys(push.workspace_id), obligation_key(push.workspace_id, push.source_id))
        parse_reply, record = push_policy.parse_message_reply, self._recorder.record_message
        if push.kind == MessageKind.DELEGATION:
            parse_reply, record = push_policy.parse_delegation_reply, self._recorder.record_delegation
        reply = None
        if result.is_followed:
            reply = AgentReply(ReplyKind.ACCEPTED)
        elif result.answer is not None:
            content = await self._store_files(push.workspace_id, push_policy.answer_parts(result.answer))
            reply = parse_reply(result.answer, self._limits, content)
        files = () if reply is None else attachments.file_keys([*reply.parts])
        decide = partial(record, push, result, reply, failure_counts)
        # An explanation has isolated subscribers: in a shared group, the whole group would be decided twice.
        await self._store.run(
            Command(org_id, (*keys, *files), decide, exclusive=push.kind == MessageKind.APPROVAL_DECISION)
        )

    async def record_followed(
        self, org_id: str, task: RemoteTask, answer: str, failure: tuple[DeliveryFailure, str] | None
    ) -> None:
        """Record how a followed task ended or what it asks. `failure`: why it is not followed any more."""
        code, reply = DeliveryFailure.AGENT_ERROR, AgentReply(ReplyKind.ERROR)
        if failure is not None:
            code, reply = failure[0], AgentReply(ReplyKind.ERROR, failure[1])
        else:
            is_delegation = task.kind == MessageKind.DELEGATION
            parse_reply = push_policy.parse_delegation_reply if is_delegation else push_policy.parse_message_reply
            content = await self._store_files(task.workspace_id, push_policy.answer_parts(answer))
            reply = parse_reply(answer, self._limits, content)
        keys = (*inbox_keys(task.workspace_id), obligation_key(task.workspace_id, task.source_id))
        files = attachments.file_keys([*reply.parts])
        decide = partial(self._recorder.record_followed, task, answer, reply, code)
        all_keys = (*keys, *files, ("a2a task", task.key))
        await self._store.run(Command(org_id, all_keys, decide, exclusive=task.kind == MessageKind.APPROVAL_DECISION))

    async def record_progress(self, org_id: str, task: RemoteTask) -> None:
        """Record that a followed task goes on."""
        keys = (*inbox_keys(task.workspace_id), ("a2a task", task.key))
        await self._store.run(Command(org_id, keys, partial(self._recorder.record_progress, task)))

    async def _store_files(self, workspace_id: str, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the parts of an answer with its inline files stored; one that cannot be stored becomes the reason."""
        sender, stored = Sender.of_workspace(workspace_id), list[dict[str, Any]]()
        for part in parts:
            try:
                is_inline = has_inline_files([part])
                stored += await store_inline_files(self._files, workspace_id, sender, [part]) if is_inline else [part]
            except _UNSTORABLE as error:
                stored.append({"kind": "text", "text": f"{part_as_text(part)}: {error.text}"})
        return stored

    async def release(self, org_id: str, push: PushAttempt) -> None:
        """Release a push that shutdown interrupted, so that the next one need not wait for the lease to end."""

        def decide() -> CommandSteps[None]:
            state = yield from self._recorder.load_if_claimed(push)
            if state is None:
                return WriteSet(None)
            now = self._clock.now()
            release_write = save_claim(push.workspace_id, push.seq, push.attempt, now, None)
            domain_events = [MessagesReleased((push.activity_id,), now)] if push.kind == MessageKind.DELEGATION else []
            return WriteSet(
                None, [release_write, *undo_delivery(push.workspace_id, push.seq)], domain_events=domain_events
            )

        await self._store.run(Command(org_id, inbox_keys(push.workspace_id), decide))

    async def release_stale_leases(self) -> int:
        """Release leases on pushes; only for a process that uses the store exclusively, so their holders are dead.

        Returns the number of released pushes."""
        due = await self.due_targets(_ALL_TARGETS)
        released = 0
        for start in range(0, len(due), _COMMAND_BATCH):
            found = (self._org.workspace(workspace_id) for workspace_id, _ in due[start : start + _COMMAND_BATCH])
            commands = (
                Command(workspace.org_id, inbox_keys(workspace.id), partial(self._decide_release_stale, workspace.id))
                for workspace in found
                if workspace
            )
            released += sum(await asyncio.gather(*map(self._store.run, commands)))
        return released

    def _decide_release_stale(self, workspace_id: str) -> CommandSteps[int]:
        workspace, now = self._org.workspace(workspace_id), self._clock.now()
        if workspace is None or workspace.removed or not workspace.uses_push:
            return WriteSet(0)
        inbox = yield from load_inbox(workspace_id)
        candidates = yield from _load_candidates(workspace_id, inbox, now, workspace.max_concurrent_tasks + 1)
        leased = [candidate for candidate in candidates if candidate.lease_until > now]
        writes: list[Statement] = [
            save_claim(workspace_id, candidate.seq, candidate.attempt, now, None) for candidate in leased
        ]
        checks: list[Statement] = [("schedule_push_check", {"workspace_id": workspace_id, "due": now})]
        return WriteSet(len(leased), [*writes, *checks] if leased else [])


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
    unfinished = [
        candidate for candidate in lapsed if candidate.kind == MessageKind.DELEGATION or not candidate.is_requeued
    ]
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
        [candidate for candidate in candidates if candidate.kind == MessageKind.DELEGATION and not candidate.attempt]
        if capacity.is_full
        else []
    )
    return [PushDeferred(candidate.id, True, None, due, now) for candidate in fresh[:_MAX_DEFERRED]]
