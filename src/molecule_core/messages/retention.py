"""Deletes old log rows that are acknowledged or the workspace's own.

Never pruned: unacknowledged messages, watched open obligations, and the newest row of each log, inbox and chat, where
numbers, cursors and lists continue."""

from collections.abc import AsyncIterator, Generator, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.limits import Limits
from molecule_core.messages.delivery_log import record_tick
from molecule_core.messages.delivery_state import DeliveryTick
from molecule_core.messages.model import UNMENTIONED_FILE_TIMER
from molecule_core.messages.storage_usage import ROW_BYTES, count_bytes
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import (
    Command,
    CommandSteps,
    JournalEvent,
    ReadQuery,
    Statement,
    StepRequest,
    Store,
    WriteSet,
)
from molecule_core.store.journal import org_key
from molecule_core.store.retention import EMPTY_BATCH, RetentionBatch, RetentionPolicy
from molecule_core.store.timers import TIMERS_KEY, set_timer
from molecule_core.wire.schemas.activity import ActivityMethod
from molecule_core.wire.schemas.events import ChatPrunedPayload

# 1 h: an event is rendered from its row, so a row must outlive its event by more than a clock is ever set back.
_EVENT_MARGIN_SECONDS = 3600
# Statements that delete what belongs to a row (parameters workspace_id, id and seq), and to a removed workspace
# (workspace_id).
_ROW_DELETES = (
    "forget_activity",
    "forget_mentions",
    "forget_claim",
    "forget_push",
    "forget_answer_wait",
    "forget_dead_letter",
    "forget_obligation",
    "forget_question",
)
_WORKSPACE_DELETES = (
    "forget_inbox",
    "forget_every_claim",
    "forget_every_delivery",
    "forget_every_obligation",
    "forget_read_marks",
    "forget_questions",
    "forget_last_instructions",
)


class LogRetentionCandidate(NamedTuple):
    """A row with the columns that retention needs, in the order of `oldest_rows`."""

    seq: int
    id: str
    created_at: int
    inbound_no: int | None
    chat: int
    method: str | None
    is_pending: int
    """Whether the row must stay: an open or requeued dead letter, a pending reminder, an open delegation, or an open
    obligation that has a due time."""

    @property
    def is_agent_chat(self) -> bool:
        """Return whether it is a chat message of an agent."""
        return self.chat == 1 and self.method == ActivityMethod.NOTIFY

    def is_prunable(self, acked_seq: int) -> bool:
        """Return whether the row may be deleted. (The ack floor passes dead letters although they are not handled.)"""
        return not self.is_pending and (self.inbound_no is None or self.seq <= acked_seq)


class MessageRetention(RetentionPolicy):
    """Retention of logs, inboxes and chats."""

    kinds = ("messages", "messages of removed workspaces")

    def __init__(self, store: Store, org: OrgReader, *, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._clock = clock
        self._max_unread = limits.unread_count

    async def batches(self, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        for org in self._org.orgs():
            for workspace in list(self._org.all_with_removed(org.id)):
                removed = workspace.removed_at is not None and workspace.removed_at < before
                found = (
                    self._removed_batches(workspace, count)
                    if removed
                    else self._active_batches(workspace, before, count)
                )
                async for batch in found:
                    yield batch

    async def _active_batches(self, workspace: Workspace, before: int, count: int) -> AsyncIterator[RetentionBatch]:
        """Prune from the oldest row to the first that is not old."""
        last, has_more, expired_before = 0, True, before - _EVENT_MARGIN_SECONDS * SECOND
        while has_more:
            oldest = await self._load_oldest(workspace, last, count)
            expired = list(takewhile(lambda row: row.created_at < expired_before, oldest))
            has_more = len(expired) == count
            if not expired:
                yield EMPTY_BATCH
                return
            last = expired[-1].seq
            (heads_row,) = await self._store.rows("log_heads", {"workspace_id": workspace.id})
            acked_seq, heads = heads_row[0] or 0, set(heads_row[1:])
            pruned = [row for row in expired if row.seq not in heads and row.is_prunable(acked_seq)]
            command = Command(workspace.org_id, (), partial(self._decide_prune, workspace, pruned))
            yield RetentionBatch("messages", len(pruned), command) if pruned else EMPTY_BATCH

    async def _removed_batches(self, workspace: Workspace, count: int) -> AsyncIterator[RetentionBatch]:
        """Prune everything. The workspace itself stays known, so that its agent still gets the request to stop."""
        last, has_more = 0, True
        while has_more:
            pruned = await self._load_oldest(workspace, last, count)
            has_more = len(pruned) == count
            if not pruned:
                yield EMPTY_BATCH
                return
            last = pruned[-1].seq
            command = Command(
                workspace.org_id, (), partial(self._decide_prune, workspace, pruned, is_last_batch=not has_more)
            )
            yield RetentionBatch("messages of removed workspaces", len(pruned), command)

    async def _load_oldest(self, workspace: Workspace, seq: int, count: int) -> list[LogRetentionCandidate]:
        query = {"workspace_id": workspace.id, "seq": seq, "count": count}
        return [LogRetentionCandidate(*row) for row in await self._store.rows("oldest_rows", query)]

    def _decide_prune(
        self, workspace: Workspace, pruned: Sequence[LogRetentionCandidate], *, is_last_batch: bool = False
    ) -> CommandSteps[None]:
        workspace_key = {"workspace_id": workspace.id}
        writes: list[Statement] = [
            (name, {**workspace_key, "id": row.id, "seq": row.seq}) for row in pruned for name in _ROW_DELETES
        ]
        file_rows = yield ReadQuery(
            "files_mentioned", {**workspace_key, "first": pruned[0].seq, "last": pruned[-1].seq}
        )
        # Deleting the last mention of a file deletes the file.
        writes += [set_timer(UNMENTIONED_FILE_TIMER, f"{workspace.org_id}/{row[0]}", 0) for row in file_rows]
        writes.append((yield from self._subtract_sizes(workspace, pruned)))
        numbers = [row.inbound_no for row in pruned if row.inbound_no is not None]
        if numbers:
            writes.append(("forget_deliveries", {**workspace_key, "upto_no": numbers[-1]}))
        if is_last_batch:
            writes += [(name, workspace_key) for name in _WORKSPACE_DELETES]
            writes.append(("forget_empty_usage", {"org_id": workspace.org_id, **workspace_key}))
        events = [] if workspace.removed else (yield from self._pruned_events(workspace.id, pruned))
        if not workspace.removed and any(row.is_agent_chat for row in pruned):
            query = {**workspace_key, "count": self._max_unread}
            newest = [row[0] for row in (yield ReadQuery("agent_lines", query))]
            remaining = sorted(set(newest) - {row.seq for row in pruned})
            if len(remaining) < len(newest):
                payload = msgspec.json.encode(ChatPrunedPayload(remaining))
                events.append(JournalEvent("CHAT_PRUNED", workspace.id, "chat", workspace.id, payload=payload))
        notify = [*([org_key(workspace.org_id)] if events else []), *([TIMERS_KEY] if file_rows else [])]
        return WriteSet(None, writes, events, tuple(notify))

    def _subtract_sizes(
        self, workspace: Workspace, pruned: Sequence[LogRetentionCandidate]
    ) -> Generator[StepRequest, Any, Statement]:
        """Return the statement that subtracts the sizes of pruned rows, as far as they are still there."""
        query = {"workspace_id": workspace.id, "first": pruned[0].seq, "last": pruned[-1].seq}
        pruned_seqs = {row.seq for row in pruned}
        sizes = [size + ROW_BYTES for seq, size in (yield ReadQuery("row_sizes", query)) if seq in pruned_seqs]
        return count_bytes(workspace.org_id, workspace.id, bodies=-sum(sizes))

    def _pruned_events(
        self, workspace_id: str, pruned: Sequence[LogRetentionCandidate]
    ) -> Generator[StepRequest, Any, list[JournalEvent]]:
        """Return events for pruned messages that were shown as unanswered."""
        query = {"workspace_id": workspace_id, "first": pruned[0].seq, "last": pruned[-1].seq}
        pruned_seqs = {row.seq for row in pruned}
        unanswered = [row for row in (yield ReadQuery("unanswered_between", query)) if row[0] in pruned_seqs]
        events: list[JournalEvent] = []
        for seq, number in unanswered:
            events += record_tick(workspace_id, DeliveryTick.FORGOTTEN, seq, number, self._clock.now()).events
        return events
