"""Opens and closes obligations: a delivered message that wants an answer opens one.

One instance is shared by all writers of this package, since it knows what they have in common: the instruction builder,
the workspaces with a pending timer, and the listener that counts outcomes."""

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from molecule_core.common.clock import SECOND, Clock, to_rfc3339
from molecule_core.common.errors import MoleculeError, reject_future
from molecule_core.common.limits import Limits
from molecule_core.common.text import single_line
from molecule_core.messages import rules
from molecule_core.messages.delivery_log import Statement, record_tick
from molecule_core.messages.events import MessagesDelivered
from molecule_core.messages.model import (
    ANSWERED,
    ANSWERED_OUTSIDE,
    DECLINED,
    INTENT_ACK,
    INTENT_REQUEST,
    KIND_APPROVAL_REQUEST,
    KIND_DELEGATION,
    OVERDUE,
    ActivityPageRow,
)
from molecule_core.messages.obligations.instructions import InstructionBuilder, InstructionOptions, RenderRecord
from molecule_core.messages.obligations.model import (
    OVERDUE_TIMER,
    AnswerTarget,
    InboundMessage,
    MessageChanges,
    Obligation,
    draft_event,
    find_named_message,
    find_open_obligation,
    find_reminded,
    load_obligation,
    mark_missed,
    new_obligation,
    obligation_event,
    reply_due_at,
)
from molecule_core.org.model import Workspace
from molecule_core.store.database import Command, ReadQuery, RequestBatch, StepRequest, Store, T
from molecule_core.store.timers import TIMERS_KEY, set_timer, set_timer_if_earlier
from molecule_core.wire.schemas.events import MessageOverduePayload

# 5 s: a timer that is due so soon may have fired in another process, whose clock is slightly ahead.
_TIMER_MARGIN = 5 * SECOND
_UNWATCHED_KINDS = (KIND_DELEGATION, KIND_APPROVAL_REQUEST)
_NO_INSTRUCTION_COLUMNS: dict[str, object] = dict.fromkeys(("template_org", "template", "version", "form", "tokens"))


class ObligationChanges(NamedTuple):
    """The writes of a command to open obligations, its notifications, and a hook to run after commit."""

    writes: list[Statement]
    notify: tuple[str, ...] = ()
    after_commit: Callable[[], None] | None = None
    domain_events: tuple[object, ...] = ()


_NO_CHANGES = ObligationChanges([])
OutcomeListener = Callable[[Obligation, str], tuple[list[Statement], tuple[str, ...]]]
"""Returns the statements to write with a first outcome, and the channels to notify."""


def _ignore_outcome(_obligation: Obligation, _outcome: str) -> tuple[list[Statement], tuple[str, ...]]:
    return [], ()


class NeedsExclusiveGroup(Exception):
    """Raised by a command that closes an obligation and must not share its commit group."""


class ObligationLedger:
    """Opens and closes obligations.

    `instruction_builder` is None where instructions are switched off; `shared`: other processes use the same store.
    `on_first_outcome` is called for an obligation's first outcome: answered, declined, answered_outside or overdue."""

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        instruction_builder: InstructionBuilder | None = None,
        *,
        shared: bool = False,
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._is_shared = shared
        self.instruction_builder = instruction_builder
        self.on_first_outcome: OutcomeListener = _ignore_outcome
        self._timers: dict[str, tuple[int, float]] = {}
        self._conversations: set[tuple[str, str | None]] = set()

    # -- opening -------------------------------------------------------------------------------------------------------

    def deliver_with_instructions(
        self,
        workspace: Workspace,
        rows: list[ActivityPageRow],
        now: int,
        options: InstructionOptions | None,
        *,
        pushed: bool = False,
    ) -> Generator[StepRequest, Any, tuple[list[ActivityPageRow], ObligationChanges]]:
        """Attach instructions to delivered rows and open an obligation for each request.

        Without `options`, no instructions are added."""
        if self.instruction_builder is None:
            return rows, self.open_for_rows(workspace, rows, now, pushed=pushed)
        instruction_writes, rendered = list[Statement](), dict[int, RenderRecord]()
        reminded_ids = yield from find_reminded(workspace.id, rows)
        if options is not None:
            rows, instruction_writes, rendered = yield from self.instruction_builder.attach(
                workspace, rows, now, options, reminded_ids
            )
        if reminded_ids:
            rows = [replace(row, reminder=row.id in reminded_ids) for row in rows]
        changes = self.open_for_rows(workspace, rows, now, rendered, pushed=pushed)
        return rows, changes._replace(writes=[*instruction_writes, *changes.writes])

    def open_for_rows(
        self,
        workspace: Workspace,
        rows: Sequence[ActivityPageRow],
        now: int,
        rendered: Mapping[int, RenderRecord] | None = None,
        *,
        pushed: bool = False,
    ) -> ObligationChanges:
        """Open obligations for rows that are delivered now.

        `rendered`: instruction records by `seq`. `pushed`: the server sends the rows. Delegations and approvals have
        deadlines of their own, so no timer watches them."""
        requests = [row for row in rows if row.intent == INTENT_REQUEST]
        if not requests:
            return _NO_CHANGES
        due = reply_due_at(workspace, self._limits, now)
        writes = [_insert_obligation(workspace, row, now, due, rendered) for row in requests]
        delegations = tuple((row.id, row.attempt or 1) for row in requests if row.kind == KIND_DELEGATION)
        watched_due = due if any(row.kind not in _UNWATCHED_KINDS for row in requests) else None
        changes = self._with_timer(workspace.id, writes, watched_due, now, {row.source_id for row in requests})
        return (
            changes._replace(domain_events=(MessagesDelivered(workspace.id, delegations, pushed, now),))
            if delegations
            else changes
        )

    def open_for_ranges(self, workspace: Workspace, ranges: Sequence[tuple[int, int]], now: int) -> ObligationChanges:
        """Open obligations for ranges (floor, seq] that a reader received without claiming."""
        if not ranges:
            return _NO_CHANGES
        due = reply_due_at(workspace, self._limits, now)
        common = {"workspace_id": workspace.id, "now": now, "due_at": due}
        writes: list[Statement] = [("open_passed", {**common, "floor": floor, "seq": seq}) for floor, seq in ranges]
        return self._with_timer(workspace.id, writes, due, now)

    def delegation_events(
        self, workspace: Workspace, ranges: Sequence[tuple[int, int]], now: int
    ) -> Generator[StepRequest, Any, tuple[MessagesDelivered, ...]]:
        """Return the delivery events of delegations in ranges that a reader passed without a claim."""
        if not ranges:
            return ()
        common = {"workspace_id": workspace.id, "now": now}
        found = yield RequestBatch(
            [
                ReadQuery("delegations_passed", {**common, "floor": floor, "seq": seq})
                for floor, seq in rules.merge_ranges(ranges)
            ]
        )
        delivered = [tuple(row) for rows in found for row in rows]
        return (MessagesDelivered(workspace.id, tuple(delivered), False, now),) if delivered else ()

    def _with_timer(
        self,
        workspace_id: str,
        writes: list[Statement],
        due_at: int | None,
        now: int,
        sources: Iterable[str | None] = (),
    ) -> ObligationChanges:
        def remember() -> None:
            self._conversations.update((workspace_id, each) for each in sources)
            if needs_timer and due_at is not None:
                # The monotonic clock: a jump of the wall clock must not make a timer seem pending for longer than it
                # is.
                self._timers[workspace_id] = (due_at, self._clock.monotonic() + (due_at - now) / SECOND)

        needs_timer = due_at is not None and not self._has_timer(workspace_id, due_at, now)
        if due_at is None or not needs_timer:
            return ObligationChanges(writes, (), remember)
        return ObligationChanges(
            [*writes, set_timer_if_earlier(OVERDUE_TIMER, workspace_id, due_at)], (TIMERS_KEY,), remember
        )

    def _has_timer(self, workspace_id: str, due_at: int, now: int) -> bool:
        """Return whether the store surely holds a timer that fires by `due_at`.

        Timers are removed only by firing, but with several processes another one may have fired it unnoticed."""
        if self._is_shared:
            return False
        timer_at, until = self._timers.get(workspace_id, (0, 0.0))
        return now + _TIMER_MARGIN < timer_at <= due_at and self._clock.monotonic() + _TIMER_MARGIN / SECOND < until

    def timer_fired(self, workspace_id: str) -> None:
        """Forget the timer of a workspace, which has fired."""
        self._timers.pop(workspace_id, None)

    # -- answering -----------------------------------------------------------------------------------------------------

    def run_answering(
        self, store: Store, workspace_id: str, source_id: str | None, command: Callable[[bool], Command[T]]
    ) -> "asyncio.Future[T]":
        """Run a command that sends a message to another workspace, or to the user (None).

        `command(exclusive)` builds it. The first try shares a commit group; if the message turns out to answer an open
        obligation (NeedsExclusiveGroup), it is retried in a group of its own. So messages that answer nothing share
        their commits, and two concurrent answers cannot close the same obligation."""
        if (workspace_id, source_id) in self._conversations:
            return store.run(command(True))
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def on_tried(tried: "asyncio.Future[T]") -> None:
            if tried.cancelled():
                outcome.cancel()
                return
            exception = tried.exception()
            if outcome.done():
                return
            if isinstance(exception, NeedsExclusiveGroup):
                self._conversations.add((workspace_id, source_id))
                try:
                    store.run(command(True)).add_done_callback(on_tried)
                except MoleculeError as error:
                    reject_future(outcome, error)
            elif exception is not None:
                reject_future(outcome, exception)
            else:
                outcome.set_result(tried.result())

        store.run(command(False)).add_done_callback(on_tried)
        return outcome

    def find_answered(
        self, workspace: Workspace, source_id: str | None, metadata: Mapping[str, Any], *, exclusive: bool
    ) -> Generator[StepRequest, Any, AnswerTarget]:
        """Find what a message to another workspace, or to the user (None), answers.

        The named message if it is part of this conversation, even if it was only read before; else the newest open one.
        Nothing, if the named one is closed or the message is only a read confirmation. Raises NeedsExclusiveGroup."""
        named_id, progress = rules.named_message_id(metadata), rules.is_progress(metadata)
        if metadata.get("intent") == INTENT_ACK:
            return AnswerTarget(named_id)
        found = AnswerTarget(named_id, (yield from find_open_obligation(workspace.id, source_id, named_id)), progress)
        inbound = None
        if found.obligation is None and named_id is not None:
            inbound = yield from find_named_message(workspace.id, source_id, named_id)
        if inbound is not None:
            obligation, opening_changes = yield from self.obligation_for(workspace, inbound, is_closing=not progress)
            if obligation is not None and obligation.is_open:
                found = AnswerTarget(named_id, obligation, progress, opening_changes=opening_changes)
        if found.obligation is None:
            self._conversations.discard((workspace.id, source_id))
        elif not exclusive:
            raise NeedsExclusiveGroup
        return found

    def obligation_for(
        self, workspace: Workspace, inbound: InboundMessage, *, is_closing: bool
    ) -> Generator[StepRequest, Any, tuple[Obligation | None, MessageChanges]]:
        """Return the obligation of a message, and the changes that open it first if it was only read before.

        `is_closing`: the command also closes it, so no timer is needed."""
        obligation = yield from load_obligation(workspace.id, inbound.seq)
        if obligation is not None or inbound.intent != INTENT_REQUEST:
            return obligation, MessageChanges([], [])
        now = self._clock.now()
        if is_closing:
            return new_obligation(inbound, now), MessageChanges([_insert_obligation(workspace, inbound, now, None)], [])
        changes = self.open_for_ranges(workspace, [(inbound.seq - 1, inbound.seq)], now)
        return new_obligation(inbound, now), MessageChanges(changes.writes, [], changes.notify, changes.domain_events)

    # -- ending --------------------------------------------------------------------------------------------------------

    def close_answered(
        self, obligation: Obligation, now: int, answer_id: str | None, *, by_handle: bool = False
    ) -> MessageChanges:
        """Close an obligation as answered; `answer_id` is the answer's row."""
        return self._close(obligation, ANSWERED, now, answer_id=answer_id, by_handle=int(by_handle), reason=None)

    def close_declined(
        self, obligation: Obligation, now: int, reason: str, *, answer_id: str | None = None, by_handle: bool = False
    ) -> MessageChanges:
        """Close an obligation as declined.

        The reason is cut to one short line, since events and ticks repeat it."""
        reason = single_line(reason, self._limits.short_text_length)
        return self._close(obligation, DECLINED, now, answer_id=answer_id, by_handle=int(by_handle), reason=reason)

    def _close(
        self, obligation: Obligation, state: str, now: int, *, reason: str | None, **columns: object
    ) -> MessageChanges:
        """Close an obligation; a pending reminder is withdrawn soon after, by its timer."""
        row = {
            "workspace_id": obligation.workspace_id,
            "seq": obligation.seq,
            "state": state,
            "now": now,
            "reason": reason,
        }
        records, events = record_tick(
            obligation.workspace_id, state, obligation.seq, obligation.inbound_no, now, reason
        )
        writes: list[Statement] = [("close_obligation", {**row, **columns}), *records]  # control: obligation-closed
        if not obligation.is_reminded:
            return self._with_first_outcome(obligation, state, MessageChanges(writes, events))
        return self._with_first_outcome(
            obligation,
            state,
            MessageChanges([*writes, set_timer(OVERDUE_TIMER, obligation.workspace_id, now)], events, (TIMERS_KEY,)),
        )

    def mark_overdue(self, obligation: Obligation, now: int) -> MessageChanges:
        """Mark an obligation as overdue."""
        row = {"workspace_id": obligation.workspace_id, "seq": obligation.seq, "now": now}
        records, events = record_tick(obligation.workspace_id, OVERDUE, obligation.seq, obligation.inbound_no, now)
        payload = MessageOverduePayload(
            activity_id=obligation.activity_id,
            seq=obligation.seq,
            source_id=obligation.source_id,
            handed_at=to_rfc3339(obligation.handed_at),
            draft=obligation.draft is not None,
            template=obligation.template_label,
        )
        event = obligation_event("MESSAGE_OVERDUE", obligation, payload)
        changes = MessageChanges(
            [("overdue_obligation", row), *records, mark_missed(obligation.workspace_id)], [*events, event]
        )
        return self._with_first_outcome(obligation, OVERDUE, changes)

    def keep_draft(self, obligation: Obligation, draft: str, now: int) -> MessageChanges:
        """Keep a text that an agent produced as an answer and did not send."""
        row = {"workspace_id": obligation.workspace_id, "seq": obligation.seq, "now": now, "draft": draft}
        draft_write: Statement = ("keep_draft", row)
        if obligation.outside_at is not None:
            return MessageChanges([draft_write], [draft_event(obligation, "kept")])
        records, events = record_tick(
            obligation.workspace_id, ANSWERED_OUTSIDE, obligation.seq, obligation.inbound_no, now
        )
        changes = MessageChanges(
            [draft_write, *records, mark_missed(obligation.workspace_id)], [*events, draft_event(obligation, "kept")]
        )
        return self._with_first_outcome(obligation, ANSWERED_OUTSIDE, changes)

    def _with_first_outcome(self, obligation: Obligation, outcome: str, changes: MessageChanges) -> MessageChanges:
        if not obligation.is_open or obligation.overdue_at is not None or obligation.outside_at is not None:
            return changes
        writes, notify = self.on_first_outcome(obligation, outcome)
        return (
            changes._replace(writes=[*changes.writes, *writes], notify=(*changes.notify, *notify))
            if writes or notify
            else changes
        )


def _insert_obligation(
    workspace: Workspace,
    row: ActivityPageRow | InboundMessage,
    now: int,
    due_at: int | None,
    rendered: Mapping[int, RenderRecord] | None = None,
) -> Statement:
    """Return the statement that opens an obligation."""
    due_at = None if row.kind in _UNWATCHED_KINDS else due_at
    message_columns = {
        "seq": row.seq,
        "activity_id": row.id,
        "source_id": row.source_id,
        **_instruction_columns(rendered, row.seq),
    }
    return "open_obligation", {
        "workspace_id": workspace.id,
        "org_id": workspace.org_id,
        "now": now,
        "due_at": due_at,
        **message_columns,
    }


def _instruction_columns(rendered: Mapping[int, RenderRecord] | None, seq: int) -> Mapping[str, object]:
    record = None if rendered is None else rendered.get(seq)
    if record is None:
        return _NO_INSTRUCTION_COLUMNS
    return {
        "template_org": record.org_id,
        "template": record.template,
        "version": record.version,
        "form": record.form,
        "tokens": record.tokens,
    }
