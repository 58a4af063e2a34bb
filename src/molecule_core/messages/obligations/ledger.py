"""Opens and closes obligations: a delivered message that wants an answer opens one.

One instance is shared by all writers of this package, since it knows what they have in common: the instruction builder,
the workspaces with a pending timer, and the listener that counts outcomes."""

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from molecule_core.common.clock import SECOND, Clock, to_rfc3339
from molecule_core.common.errors import MoleculeError, reject_future
from molecule_core.common.limits import Limits
from molecule_core.common.text import single_line
from molecule_core.messages import rules
from molecule_core.messages.delivery_log import record_tick
from molecule_core.messages.delivery_state import DeliveryTick
from molecule_core.messages.events import MessagesDelivered
from molecule_core.messages.model import ActivityPageRow
from molecule_core.messages.obligations.instructions import InstructionBuilder, InstructionOptions, RenderRecord
from molecule_core.messages.obligations.model import (
    OVERDUE_TIMER,
    AnswerTarget,
    InboundMessage,
    Obligation,
    ObligationState,
    ambiguous_reply,
    find_named_message,
    find_open_obligation,
    find_open_requests,
    find_reminded,
    load_obligation,
    new_obligation,
    reply_due_at,
)
from molecule_core.messages.obligations.transitions import draft_event, mark_missed, obligation_event
from molecule_core.org.model import Workspace
from molecule_core.store.database import (
    Command,
    CommandSteps,
    ReadQuery,
    RequestBatch,
    Statement,
    StepRequest,
    Store,
    T,
    WriteSet,
)
from molecule_core.store.timers import TIMERS_KEY, set_timer, set_timer_if_earlier
from molecule_core.wire.schemas.activity import Intent, MessageKind
from molecule_core.wire.schemas.events import MessageOverduePayload

# 5 s: a timer that is due so soon may have fired in another process, whose clock is slightly ahead.
_TIMER_MARGIN = 5 * SECOND
_UNWATCHED_KINDS = (MessageKind.DELEGATION, MessageKind.APPROVAL_REQUEST)
_NO_INSTRUCTION_COLUMNS: dict[str, object] = dict.fromkeys(("template_org", "template", "version", "form", "tokens"))


OutcomeListener = Callable[[Obligation, str], WriteSet[None]]
"""Returns what a first outcome changes elsewhere."""


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
        self.on_first_outcome: OutcomeListener = lambda _obligation, _outcome: WriteSet(None)
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
    ) -> CommandSteps[list[ActivityPageRow]]:
        """Attach instructions to delivered rows and open an obligation for each request.

        Without `options`, no instructions are added."""
        if self.instruction_builder is None:
            return self.open_for_rows(workspace, rows, now, pushed=pushed).returning(rows)
        instructed, rendered = WriteSet(None), dict[int, RenderRecord]()
        reminded_ids = yield from find_reminded(workspace.id, rows)
        if options is not None:
            attached = yield from self.instruction_builder.attach(workspace, rows, now, options, reminded_ids)
            instructed, (rows, rendered) = attached.returning(None), attached.result
        if reminded_ids:
            rows = [replace(row, reminder=row.id in reminded_ids) for row in rows]
        return instructed.returning(rows) + self.open_for_rows(workspace, rows, now, rendered, pushed=pushed)

    def open_for_rows(
        self,
        workspace: Workspace,
        rows: Sequence[ActivityPageRow],
        now: int,
        rendered: Mapping[int, RenderRecord] | None = None,
        *,
        pushed: bool = False,
    ) -> WriteSet[None]:
        """Open obligations for rows that are delivered now.

        `rendered`: instruction records by `seq`. `pushed`: the server sends the rows. Delegations and approvals have
        deadlines of their own, so no timer watches them."""
        requests = [row for row in rows if row.intent == Intent.REQUEST]
        if not requests:
            return WriteSet(None)
        due = reply_due_at(workspace, self._limits, now)
        writes = [_insert_obligation(workspace, row, now, due, rendered) for row in requests]
        delegations = tuple((row.id, row.attempt or 1) for row in requests if row.kind == MessageKind.DELEGATION)
        watched_due = due if any(row.kind not in _UNWATCHED_KINDS for row in requests) else None
        opened = self._with_timer(workspace.id, writes, watched_due, now, {row.source_id for row in requests})
        if not delegations:
            return opened
        return opened + WriteSet(None, domain_events=[MessagesDelivered(workspace.id, delegations, pushed, now)])

    def open_for_ranges(self, workspace: Workspace, ranges: Sequence[tuple[int, int]], now: int) -> WriteSet[None]:
        """Open obligations for ranges (floor, seq] that a reader received without claiming."""
        if not ranges:
            return WriteSet(None)
        due = reply_due_at(workspace, self._limits, now)
        common = {"workspace_id": workspace.id, "now": now, "due_at": due}
        writes: list[Statement] = [
            ("open_obligations_read_by_cursor", {**common, "floor": floor, "seq": seq}) for floor, seq in ranges
        ]
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
                ReadQuery("unclaimed_delegation_messages", {**common, "floor": floor, "seq": seq})
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
    ) -> WriteSet[None]:
        def remember() -> None:
            self._conversations.update((workspace_id, each) for each in sources)
            if needs_timer and due_at is not None:
                # The monotonic clock: a jump of the wall clock must not make a timer seem pending for longer than it
                # is.
                self._timers[workspace_id] = (due_at, self._clock.monotonic() + (due_at - now) / SECOND)

        needs_timer = due_at is not None and not self._has_timer(workspace_id, due_at, now)
        if due_at is None or not needs_timer:
            return WriteSet(None, writes, after_commit=remember)
        timer_write = set_timer_if_earlier(OVERDUE_TIMER, workspace_id, due_at)
        return WriteSet(None, [*writes, timer_write], notify=(TIMERS_KEY,), after_commit=remember)

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

        The named message if it is part of this conversation, even if it was only read before; else the only open one,
        or for the user the newest open one. Nothing, if the named one is closed or the message is only a read
        confirmation. Raises NeedsExclusiveGroup, AmbiguousReply."""
        named_id, progress = rules.named_message_id(metadata), rules.is_progress(metadata)
        if metadata.get("intent") == Intent.ACK:
            return AnswerTarget(named_id)
        obligation = yield from find_open_obligation(workspace.id, source_id, named_id)
        if obligation is not None and source_id is not None and obligation.activity_id != named_id:
            requests = yield from find_open_requests(workspace.id, source_id)
            if len(requests) > 1:
                if metadata.get("intent") == Intent.REQUEST and not progress:
                    return AnswerTarget(named_id)  # a new question, which answers none of them
                raise ambiguous_reply(workspace, requests)
        found = AnswerTarget(named_id, obligation, progress)
        inbound = None
        if found.obligation is None and named_id is not None:
            inbound = yield from find_named_message(workspace.id, source_id, named_id)
        if inbound is not None:
            opening = yield from self.obligation_for(workspace, inbound, is_closing=not progress)
            if opening.result is not None and opening.result.is_open:
                found = AnswerTarget(named_id, opening.result, progress, opening_changes=opening)
        if found.obligation is None:
            self._conversations.discard((workspace.id, source_id))
        elif not exclusive:
            raise NeedsExclusiveGroup
        return found

    def obligation_for(
        self, workspace: Workspace, inbound: InboundMessage, *, is_closing: bool
    ) -> CommandSteps[Obligation | None]:
        """Return the obligation of a message; the changes open it first if it was only read before.

        `is_closing`: the command also closes it, so no timer is needed."""
        obligation = yield from load_obligation(workspace.id, inbound.seq)
        if obligation is not None or inbound.intent != Intent.REQUEST:
            return WriteSet(obligation)
        now = self._clock.now()
        if is_closing:
            return WriteSet(new_obligation(inbound, now), [_insert_obligation(workspace, inbound, now, None)])
        opened = self.open_for_ranges(workspace, [(inbound.seq - 1, inbound.seq)], now)
        return opened.returning(new_obligation(inbound, now))

    # -- ending --------------------------------------------------------------------------------------------------------

    def close_answered(
        self, obligation: Obligation, now: int, answer_id: str | None, *, by_handle: bool = False
    ) -> WriteSet[None]:
        """Close an obligation as answered; `answer_id` is the answer's row."""
        return self._close(
            obligation, ObligationState.ANSWERED, now, answer_id=answer_id, by_handle=int(by_handle), reason=None
        )

    def close_declined(
        self, obligation: Obligation, now: int, reason: str, *, answer_id: str | None = None, by_handle: bool = False
    ) -> WriteSet[None]:
        """Close an obligation as declined.

        The reason is cut to one short line, since events and ticks repeat it."""
        reason = single_line(reason, self._limits.short_text_length)
        return self._close(
            obligation, ObligationState.DECLINED, now, answer_id=answer_id, by_handle=int(by_handle), reason=reason
        )

    def _close(
        self, obligation: Obligation, state: str, now: int, *, reason: str | None, **columns: object
    ) -> WriteSet[None]:
        """Close an obligation; a pending reminder is withdrawn soon after, by its timer."""
        workspace_id, seq = obligation.workspace_id, obligation.seq
        row = {"workspace_id": workspace_id, "seq": seq, "state": state, "now": now, "reason": reason}
        closed = WriteSet(None, [("close_obligation", {**row, **columns})])  # control: obligation-closed
        closed += record_tick(workspace_id, state, seq, obligation.inbound_no, now, reason)
        if obligation.is_reminded:
            closed += WriteSet(None, [set_timer(OVERDUE_TIMER, workspace_id, now)], notify=(TIMERS_KEY,))
        return closed + self._first_outcome(obligation, state)

    def mark_overdue(self, obligation: Obligation, now: int) -> WriteSet[None]:
        """Mark an obligation as overdue."""
        row = {"workspace_id": obligation.workspace_id, "seq": obligation.seq, "now": now}
        payload = MessageOverduePayload(
            activity_id=obligation.activity_id,
            seq=obligation.seq,
            source_id=obligation.source_id,
            handed_at=to_rfc3339(obligation.handed_at),
            draft=obligation.draft is not None,
            template=obligation.template_label,
        )
        event = obligation_event("MESSAGE_OVERDUE", obligation, payload)
        return (
            WriteSet(None, [("overdue_obligation", row)])
            + record_tick(obligation.workspace_id, DeliveryTick.OVERDUE, obligation.seq, obligation.inbound_no, now)
            + WriteSet(None, [mark_missed(obligation.workspace_id)], [event])
            + self._first_outcome(obligation, ObligationState.OVERDUE)
        )

    def note_failure(self, obligation: Obligation, reason: str, now: int) -> WriteSet[None]:
        """Note why the agent's work on a message failed. The message stays open: the agent may try again.

        The reason is cut to one short line, since events and ticks repeat it."""
        reason = single_line(reason, self._limits.short_text_length)
        row = {"workspace_id": obligation.workspace_id, "seq": obligation.seq, "reason": reason}
        return WriteSet(None, [("note_failure", row)]) + record_tick(
            obligation.workspace_id, DeliveryTick.FAILED, obligation.seq, obligation.inbound_no, now, reason
        )

    def keep_draft(self, obligation: Obligation, draft: str, now: int) -> WriteSet[None]:
        """Keep a text that an agent produced as an answer and did not send."""
        workspace_id, seq, event = obligation.workspace_id, obligation.seq, draft_event(obligation, "kept")
        kept = WriteSet(None, [("keep_draft", {"workspace_id": workspace_id, "seq": seq, "now": now, "draft": draft})])
        if obligation.outside_at is not None:
            return kept + WriteSet(None, events=[event])
        return (
            kept
            + record_tick(workspace_id, DeliveryTick.ANSWERED_OUTSIDE, seq, obligation.inbound_no, now)
            + WriteSet(None, [mark_missed(workspace_id)], [event])
            + self._first_outcome(obligation, ObligationState.ANSWERED_OUTSIDE)
        )

    def _first_outcome(self, obligation: Obligation, outcome: str) -> WriteSet[None]:
        """Return what the outcome changes elsewhere if it is the first one."""
        if not obligation.is_open or obligation.overdue_at is not None or obligation.outside_at is not None:
            return WriteSet(None)
        return self.on_first_outcome(obligation, outcome)


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
