"""Records push results: the answer, the next attempt or the end, and domain events for delegations.

Called by PushClaims; uses no network itself. See docs/explanation/delivery.md and docs/explanation/delegations.md."""

from collections.abc import Generator
from typing import Any

from molecule_core.a2a_agents import rules as rules_of_agents
from molecule_core.a2a_agents.model import RemoteTask
from molecule_core.a2a_agents.writer import load_task, save_task
from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.ids import IdGenerator, Randomness
from molecule_core.common.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.activities import insert_activity, sent_activity
from molecule_core.messages.chains.model import ChainLink
from molecule_core.messages.delivery import push_policy
from molecule_core.messages.delivery.dead_letters import DeadLetterWriter
from molecule_core.messages.delivery.reply_waiters import ReplyWaiters
from molecule_core.messages.delivery_log import record_ticks
from molecule_core.messages.delivery_state import (
    AgentReply,
    DeliveryFailure,
    DeliveryState,
    DeliveryTick,
    PushAttempt,
    PushResult,
    ReplyKind,
)
from molecule_core.messages.events import (
    AnswerContent,
    ApprovalExplained,
    DeliveryFailed,
    MessageAnswered,
    ProgressReported,
    PushAccepted,
    PushDeferred,
    PushOutcomeUnknown,
    QuestionAsked,
)
from molecule_core.messages.files import attachments
from molecule_core.messages.inbox.acks import (
    ack_rows,
    load_delivery_state,
    load_inbox,
    mark_dead_letters_handled,
    save_claim,
)
from molecule_core.messages.model import Activity, InboxPosition, InboxState
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import (
    Obligation,
    find_open_obligation,
    load_obligation,
    reply_due_at,
)
from molecule_core.messages.obligations.transitions import extend_for_progress, undo_delivery
from molecule_core.messages.storage_usage import count_bytes
from molecule_core.org.model import DeliveryMode
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import CommandSteps, Statement, StepRequest, WriteSet
from molecule_core.store.journal import PUSHES_KEY, answer_key, log_key, org_key
from molecule_core.store.timers import TIMERS_KEY
from molecule_core.wire.schemas.activity import ActivityMethod, MessageKind

# The reply of an agent that returned nothing, or answered through its tools.
_NO_REPLY = AgentReply(ReplyKind.ACCEPTED)


class PushResultRecorder:
    """Records the results of pushes."""

    def __init__(
        self,
        org: OrgReader,
        dead_letters: DeadLetterWriter,
        reply_waiters: ReplyWaiters,
        ledger: ObligationLedger,
        *,
        clock: Clock,
        ids: IdGenerator,
        randomness: Randomness,
        limits: Limits,
    ) -> None:
        self._org = org
        self._dead_letters = dead_letters
        self._reply_waiters = reply_waiters
        self._ledger = ledger
        self._clock = clock
        self._ids = ids
        self._randomness = randomness
        self._limits = limits

    def load_if_claimed(self, push: PushAttempt) -> Generator[StepRequest, Any, DeliveryState | None]:
        """Return the delivery state, or None if the push lost its claim: the lease ended and it was claimed again."""
        state = yield from load_delivery_state(push.activity_id)
        workspace = self._org.workspace(push.workspace_id)
        if state is None or workspace is None or workspace.removed:
            return None
        return state if state.acked_at is None and state.attempt == push.attempt else None

    def record_message(
        self, push: PushAttempt, result: PushResult, reply: AgentReply | None, failure_counts: bool
    ) -> CommandSteps[None]:
        """Record the push of a message, if the push still holds its claim.

        `reply`: the parsed answer; `failure_counts`: whether a failure counts as an attempt."""
        state = yield from self.load_if_claimed(push)
        if state is None:
            return WriteSet(None)
        inbox = yield from load_inbox(push.workspace_id)
        obligation = yield from load_obligation(push.workspace_id, push.seq)
        # through its tools, before the push failed
        is_answered = obligation is not None and not obligation.is_open
        if result.answer is not None or is_answered:
            return (yield from self._record_answer(push, state, inbox, obligation, result, reply or _NO_REPLY))
        now = self._clock.now()
        failures = state.failures + int(
            push_policy.counts_as_failure(state.kind, result, failure_counts=failure_counts)
        )
        if state.expires_at is not None and state.expires_at <= now and not state.requeued:
            return (
                yield from self._dead_letters.move_to_dead_letters(inbox, state, DeliveryFailure.EXPIRED, result.error)
            )
        if failures >= push_policy.max_attempts(state.kind, result, self._limits):
            reason = DeliveryFailure.REFUSED if result.refused else DeliveryFailure.UNREACHABLE
            return (yield from self._dead_letters.move_to_dead_letters(inbox, state, reason, result.error))
        return self._defer_push(push, state, result, failures, now, failure_counts=failure_counts).returning(None)

    def _defer_push(
        self,
        push: PushAttempt,
        state: DeliveryState,
        result: PushResult,
        failures: int,
        now: int,
        *,
        failure_counts: bool,
    ) -> WriteSet[int]:
        """Schedule the next attempt; returns its time."""
        # control: jitter-source
        attempts, bits = failures if failure_counts else push.attempt, self._randomness.bits(push_policy.jitter_bits())
        next_at = now + round(
            push_policy.retry_delay(state.kind, attempts, result, bits, self._limits, failure_counts=failure_counts)
            * SECOND
        )
        workspace = self._org.active_workspace(push.workspace_id)
        if workspace.limited_until is not None and workspace.is_limited(now):
            next_at = workspace.limited_until
        is_busy = push_policy.is_busy_result(state.kind, result)
        push_columns = {"failures": failures, "next_at": next_at, "busy": int(is_busy), "noted_at": now}
        answer_columns = {"last_error": result.error, "answer": None, "answered_at": None}
        writes: list[Statement] = [
            save_claim(push.workspace_id, push.seq, push.attempt, now, None),
            ("save_push", {"workspace_id": push.workspace_id, "seq": push.seq, **push_columns, **answer_columns}),
            ("schedule_push_check", {"workspace_id": push.workspace_id, "due": next_at}),
            *undo_delivery(push.workspace_id, push.seq),
            *self._count_answer(push.workspace_id, state, None),
        ]
        return WriteSet(next_at, writes, notify=(answer_key(push.activity_id), PUSHES_KEY))

    def _record_answer(
        self,
        push: PushAttempt,
        state: DeliveryState,
        inbox: InboxState,
        obligation: Obligation | None,
        result: PushResult,
        reply: AgentReply = _NO_REPLY,
    ) -> CommandSteps[None]:
        now, answer = self._clock.now(), None if result.is_followed else result.answer or "{}"
        written = yield from self._finish_push(push, state, inbox, now, DeliveryTick.ACKED, answer=answer)
        written += _task_changes(result)
        return written + (yield from self._apply_reply(push, state, obligation, reply, now))

    def _apply_reply(
        self, push: PushAttempt, state: DeliveryState, obligation: Obligation | None, reply: AgentReply, now: int
    ) -> CommandSteps[None]:
        """Return what the answer to a message changes, apart from its delivery."""
        written = WriteSet(None)
        asked = yield from self._find_asked_delegation(state, reply)
        if asked is not None:
            closed = yield from self._record_answer_to_delegator(push, obligation, asked, reply, now)
            return written + closed
        inserted: WriteSet[Activity] | None = None
        if state.kind == MessageKind.USER and reply.parts:
            inserted = yield from self._insert_chat_message(state, reply, now)
        elif obligation is not None and obligation.is_open and obligation.kind == MessageKind.PEER:
            inserted = yield from self._reply_waiters.deliver_answer(obligation, reply)
        if inserted is not None:
            written += inserted
        row_id = None if inserted is None else inserted.result.id
        return written + self._close_obligation(obligation, reply, row_id, now)

    def _find_asked_delegation(
        self, state: DeliveryState, reply: AgentReply
    ) -> Generator[StepRequest, Any, tuple[DeliveryState, Obligation] | None]:
        """Return the open delegation whose question this message has answered, if the agent has done more since.

        The answer to a question has the context of the question, which is the delegation."""
        if state.kind != MessageKind.PEER or state.context_id is None or reply.kind is ReplyKind.ACCEPTED:
            return None
        work = yield from find_open_obligation(state.workspace_id, state.source_id, state.context_id)
        if work is None or work.kind != MessageKind.DELEGATION or work.activity_id != state.context_id:
            return None
        asked = yield from load_delivery_state(work.activity_id)
        return (asked, work) if asked is not None and push_policy.is_asking(asked.answer or "{}") else None

    def _record_answer_to_delegator(
        self,
        push: PushAttempt,
        obligation: Obligation | None,
        asked: tuple[DeliveryState, Obligation],
        reply: AgentReply,
        now: int,
    ) -> CommandSteps[None]:
        """Record what the agent answered to its delegator's answer: the end of the delegation, or another question."""
        state, work = asked
        workspace = self._org.active_workspace(push.workspace_id)
        parts = yield from attachments.replace_forbidden_files(reply.parts, workspace.org_id, workspace.id)
        written = yield from self._delegation_changes(push, state, work, reply, parts, now)
        if obligation is not None and obligation.is_open:
            written += self._ledger.close_answered(obligation, now, None)
        return written

    def _finish_push(
        self,
        push: PushAttempt,
        state: DeliveryState,
        inbox: InboxState,
        now: int,
        tick: str | None,
        *,
        answer: str | None = None,
        error: str | None = None,
        reason: str | None = None,
    ) -> CommandSteps[None]:
        """Finish the pushes of a message, with its agent's answer or the reason of the failure."""
        workspace_id, position = push.workspace_id, InboxPosition(state.seq, state.attempt, state.inbound_no)
        regular, requeued_positions = ([], [position]) if state.requeued else ([position], [])
        acked = yield from ack_rows(workspace_id, inbox, regular, requeued_positions, now)
        ticks = WriteSet(None)
        if tick is not None:
            ticks = record_ticks(workspace_id, tick, rules.to_ranges([position]), now, reason)
        push_columns = {"failures": state.failures, "next_at": 0, "busy": 0, "noted_at": now}
        answer_columns = {"last_error": error or state.last_error, "answer": answer, "answered_at": answer and now}
        row = {"workspace_id": workspace_id, "seq": push.seq, **push_columns, **answer_columns}
        handled_writes = mark_dead_letters_handled(workspace_id, requeued_positions)
        writes = [*acked.writes, *handled_writes, *ticks.writes, ("save_push", row)]
        writes += self._count_answer(workspace_id, state, answer)
        writes.append(("schedule_push_check", {"workspace_id": workspace_id, "due": now}))
        notify = (
            answer_key(state.id),
            log_key(workspace_id),
            org_key(self._org.active_workspace(workspace_id).org_id),
            PUSHES_KEY,
        )
        return WriteSet(None, writes, ticks.events if tick == DeliveryTick.ACKED else [], notify)

    def _count_answer(self, workspace_id: str, state: DeliveryState, answer: str | None) -> list[Statement]:
        """Return the statements that count a stored answer, instead of the one before."""
        size = len((answer or "").encode()) - len((state.answer or "").encode())
        org_id = self._org.active_workspace(workspace_id).org_id
        return [count_bytes(org_id, workspace_id, bodies=size)] if size else []

    def _close_obligation(
        self, obligation: Obligation | None, reply: AgentReply, row_id: str | None, now: int
    ) -> WriteSet[None]:
        """Return how the answer to a push changes the obligation.

        Text, data and files answer it, an error or a refusal declines it. An empty answer leaves it open: the agent has
        only accepted the message. `row_id`: the row of the answer, if it has one."""
        if obligation is None or not obligation.is_open or reply.kind is ReplyKind.ACCEPTED:
            return WriteSet(None)
        if obligation.kind == MessageKind.APPROVAL_REQUEST:  # a text is no decision; the approval's deadline continues
            return WriteSet(None)
        if obligation.kind == MessageKind.APPROVAL_DECISION and reply.parts:
            if not reply.text:  # only text explains
                return WriteSet(None)
            explained = ApprovalExplained(obligation.activity_id, obligation.seq, reply.text, now)
            return self._ledger.close_answered(obligation, now, None) + WriteSet(None, domain_events=[explained])
        if reply.kind in (ReplyKind.ANSWERED, ReplyKind.ASKED):
            return self._ledger.close_answered(obligation, now, row_id)
        return self._ledger.close_declined(obligation, now, reply.text, answer_id=row_id)

    # -- delegations ---------------------------------------------------------------------------------------------------

    def record_delegation(
        self, push: PushAttempt, result: PushResult, reply: AgentReply | None, failure_counts: bool
    ) -> CommandSteps[None]:
        """Record the push of a delegation: it never becomes a dead letter, but emits its outcome.

        `reply`: the parsed answer."""
        state = yield from self.load_if_claimed(push)
        if state is None:
            return WriteSet(None)
        inbox = yield from load_inbox(push.workspace_id)
        obligation = yield from load_obligation(push.workspace_id, push.seq)
        if obligation is not None and not obligation.is_open and (reply is None or obligation.answer_id is not None):
            # It has ended, or the agent answered through its tools: this answer or failure adds nothing.
            return (yield from self._record_answer(push, state, inbox, obligation, result))
        now, error = self._clock.now(), push_policy.failure_text(result)
        if reply is not None:
            answer = None if result.is_followed else result.answer
            written = yield from self._finish_push(push, state, inbox, now, DeliveryTick.ACKED, answer=answer)
            written += _task_changes(result)
            workspace = self._org.active_workspace(push.workspace_id)
            parts = yield from attachments.replace_forbidden_files(reply.parts, workspace.org_id, workspace.id)
            return written + (yield from self._delegation_changes(push, state, obligation, reply, parts, now))
        if result.code == DeliveryFailure.UNSURE:
            written = yield from self._finish_push(push, state, inbox, now, None, error=error)
            return written + WriteSet(None, domain_events=[PushOutcomeUnknown(state.id, error, now)])
        is_counted = push_policy.counts_as_failure(state.kind, result, failure_counts=failure_counts)
        failures = state.failures + int(is_counted)
        if is_counted and failures >= push_policy.max_attempts(state.kind, result, self._limits):
            written = yield from self._finish_push(
                push, state, inbox, now, DeliveryTick.DEAD, error=error, reason=result.code
            )
            return written + WriteSet(None, domain_events=[DeliveryFailed(state.id, result.code, error, now)])
        deferred = self._defer_push(push, state, result, failures, now, failure_counts=failure_counts)
        is_waiting = push_policy.is_busy_result(state.kind, result) or not failure_counts
        domain_event = PushDeferred(state.id, is_waiting, error, deferred.result, now)
        return deferred.returning(None) + WriteSet(None, domain_events=[domain_event])

    def _delegation_changes(
        self,
        push: PushAttempt,
        state: DeliveryState,
        obligation: Obligation | None,
        reply: AgentReply,
        parts: list[dict[str, Any]],
        now: int,
        *,
        code: DeliveryFailure = DeliveryFailure.AGENT_ERROR,
    ) -> CommandSteps[None]:
        """Return the domain event for an agent's answer to a delegation, and the change of its obligation."""
        if reply.kind is ReplyKind.ACCEPTED:
            return WriteSet(None, domain_events=[PushAccepted(state.id, now)])
        if reply.kind is ReplyKind.ASKED:
            question = yield from self._reply_waiters.insert_question(state, parts)
            return question + WriteSet(None, domain_events=[QuestionAsked(state.id, reply.text, now)])
        is_open, closed = obligation is not None and obligation.is_open, WriteSet(None)
        if reply.kind is ReplyKind.ERROR:
            if obligation is not None and is_open:
                closed = self._ledger.close_declined(obligation, now, reply.text)
            return closed + WriteSet(None, domain_events=[DeliveryFailed(state.id, code, reply.text, now)])
        answer = AnswerContent(
            id=self._ids.new(),
            sender=f"workspace:{push.workspace_id}",
            parts=parts,
            text=reply.text,
            dedupe_key=None,
            content_hash=None,
            context_id=state.context_id,
        )
        is_declined = reply.kind is ReplyKind.DECLINED
        domain_event = MessageAnswered(
            state.id, answer, DeliveryMode.PUSH, declined=is_declined, acknowledged=True, at=now
        )
        if obligation is not None and is_open and is_declined:
            closed = self._ledger.close_declined(obligation, now, reply.text, answer_id=answer.id)
        elif obligation is not None and is_open:
            closed = self._ledger.close_answered(obligation, now, answer.id)
        return closed + WriteSet(None, domain_events=[domain_event])

    # -- tasks of A2A agents -------------------------------------------------------------------------------------------

    def record_followed(
        self, task: RemoteTask, answer: str, reply: AgentReply, code: DeliveryFailure
    ) -> CommandSteps[None]:
        """Record the end or the question of a followed task, unless another follower has claimed it meanwhile.

        `code`: why an error ends the work. `task`: with the state to store. The message was acknowledged when its agent
        accepted it."""
        known = yield from load_task(task.workspace_id, task.activity_id)
        state = yield from load_delivery_state(task.activity_id)
        workspace = self._org.workspace(task.workspace_id)
        if known is None or known.claim != task.claim or state is None or workspace is None or workspace.removed:
            return WriteSet(None)
        now = self._clock.now()
        obligation = yield from load_obligation(task.workspace_id, task.seq)
        push = PushAttempt(task.workspace_id, task.seq, task.activity_id, state.attempt, "", task.source_id, task.kind)
        row = {"workspace_id": task.workspace_id, "seq": task.seq, "failures": state.failures, "next_at": 0, "busy": 0}
        answered = {"noted_at": now, "last_error": state.last_error, "answer": answer, "answered_at": now}
        left = rules_of_agents.after_look(known, task, now)
        writes: list[Statement] = [("save_push", {**row, **answered}), *save_task(left)]
        writes += self._count_answer(task.workspace_id, state, answer)
        notify = (answer_key(state.id), log_key(workspace.id), org_key(workspace.org_id), TIMERS_KEY)
        written = WriteSet(None, writes, notify=notify)
        if task.kind != MessageKind.DELEGATION:
            if obligation is not None and not obligation.is_open:  # it was answered by other means
                return written
            return written + (yield from self._apply_reply(push, state, obligation, reply, now))
        if obligation is not None and not obligation.is_open and obligation.answer_id is not None:
            return written
        parts = yield from attachments.replace_forbidden_files(reply.parts, workspace.org_id, workspace.id)
        return written + (yield from self._delegation_changes(push, state, obligation, reply, parts, now, code=code))

    def record_progress(self, task: RemoteTask) -> CommandSteps[None]:
        """Record that a followed task goes on, unless another follower has claimed it meanwhile."""
        known = yield from load_task(task.workspace_id, task.activity_id)
        workspace = self._org.workspace(task.workspace_id)
        if known is None or known.claim != task.claim or workspace is None or workspace.removed:
            return WriteSet(None)
        now = self._clock.now()
        left = rules_of_agents.after_look(known, task, now)
        written = WriteSet(None, save_task(left), notify=(TIMERS_KEY,))
        if task.failures:  # it was not seen
            return written
        if task.kind == MessageKind.DELEGATION:
            return written + WriteSet(None, domain_events=[ProgressReported(task.activity_id, "", now)])
        obligation = yield from load_obligation(task.workspace_id, task.seq)
        if obligation is None or not obligation.is_open:
            return written
        due_at = reply_due_at(workspace, self._limits, now)
        return written + WriteSet(None, extend_for_progress(obligation, due_at))

    def _insert_chat_message(self, state: DeliveryState, reply: AgentReply, now: int) -> CommandSteps[Activity]:
        """Insert an agent's answer to a person into their chat, as if the agent had written it there."""
        workspace, activity_id = self._org.active_workspace(state.workspace_id), self._ids.new()
        parts = yield from attachments.replace_forbidden_files(reply.parts, workspace.org_id, workspace.id)
        resolved = yield from attachments.resolve_files(parts, workspace.org_id, workspace.id)
        row = yield from sent_activity(
            workspace.org_id,
            workspace.id,
            activity_id,
            now,
            rules.text_of(parts),
            rules.notice_body(activity_id, resolved.parts),
            link=ChainLink(state.id, 0, state.id),
            method=ActivityMethod.NOTIFY,
            chat=1,
            context_id=state.context_id or activity_id,
        )
        return insert_activity(row, resolved.file_ids, event_name="AGENT_MESSAGE")


def _task_changes(result: PushResult) -> WriteSet[None]:
    """Return what the delivery to an A2A agent stores besides."""
    return WriteSet(None, result.more_writes, notify=(TIMERS_KEY,)) if result.more_writes else WriteSet(None)
