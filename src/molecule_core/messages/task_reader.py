"""Reads messages as parts of A2A tasks: with their delivery, their answer and what continues them.

Called by `views/a2a_tasks.py`. A task of messages is the first message and all that continues it; nothing else is
stored for it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from molecule_core.common.limits import Limits
from molecule_core.messages.chat_view import message_parts, question_options
from molecule_core.messages.delivery import push_policy
from molecule_core.messages.delivery_state import AgentReply, DeadLetterState, ReplyKind
from molecule_core.messages.model import SENDER_CANCELLED
from molecule_core.messages.obligations.model import ObligationState
from molecule_core.store.database import Store
from molecule_core.wire.schemas.activity import ActivityMethod, Intent, MessageKind

CANCEL_MEMBER = "cancels_task"
"""Member of the metadata of a message with which a sender cancels a task that waits for an answer of the sender."""
# Messages of one task that are read, the newest.
_MAX_MESSAGES = 200
_GIVEN_UP = (DeadLetterState.DEAD, DeadLetterState.DISCARDED)


class TaskRow(Struct, frozen=True):
    """A message as part of a task, in the column order of `task_message`. Times are microseconds."""

    id: str
    org_id: str
    workspace_id: str
    seq: int
    inbound_no: int | None
    kind: str | None
    intent: str | None
    method: str | None
    source_id: str | None
    sender: str
    context_id: str | None
    created_at: int
    root_id: str | None
    cause_id: str | None
    request_body: str | None
    trace_parent: str | None
    attempt: int
    is_acked: int
    push_answer: str | None
    dead_state: str | None
    dead_reason: str | None
    died_at: int | None
    obligation_state: str | None
    handed_at: int | None
    closed_at: int | None
    answer_id: str | None
    reason: str | None
    is_open_question: int

    @property
    def message(self) -> Mapping[str, Any]:
        """Return the stored message; empty if the body is deleted or no message."""
        body = msgspec.json.decode(self.request_body) if self.request_body else None
        for name in ("params", "message"):
            body = body.get(name) if isinstance(body, dict) else None
        return body if isinstance(body, dict) else {}

    @property
    def parts(self) -> list[Any]:
        """Return the parts of the message."""
        return message_parts(self.request_body) if self.request_body else []

    @property
    def options(self) -> list[str]:
        """Return the options of a question."""
        return question_options(self.request_body) if self.request_body else []

    @property
    def is_of_agent(self) -> bool:
        """Return whether it is a notice of the agent to its user."""
        return self.inbound_no is None and self.method == ActivityMethod.NOTIFY

    @property
    def cancels_task(self) -> bool:
        """Return whether its sender cancels the task with it, which waits for the sender's answer."""
        metadata = self.message.get("metadata")
        return isinstance(metadata, dict) and metadata.get(CANCEL_MEMBER) is True

    @property
    def continued_task_id(self) -> str | None:
        """Return the task that its sender names."""
        found = self.message.get("taskId")
        return found if isinstance(found, str) else None


class WorkOutcome(StrEnum):
    """What has become of a message."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    ANSWERED = "answered"
    ASKED = "asked"
    """The answer is a question."""
    DECLINED = "declined"
    FAILED = "failed"
    CANCELLED = "cancelled"
    HANDLED = "handled"
    """It wanted no answer, and the agent has read it."""


class TaskHead(NamedTuple):
    """A task in a list, in the column order of the queries. `changed_at`: about when its status changed last.

    `begun`: orders the tasks of a caller by their begin: the time, or for a person the place in the inbox."""

    id: str
    context_id: str | None
    begun: int
    changed_at: int


class TaskMessages(Struct, frozen=True):
    """The messages of a task.

    `first`: the message that began it. `continuations`: what its sender sent later about it. `agent_rows`: what the
    agent sent about it; `answer`: its answer to the last message, if it is stored as a row."""

    first: TaskRow
    continuations: tuple[TaskRow, ...]
    agent_rows: tuple[TaskRow, ...]
    answer: TaskRow | None

    @property
    def last(self) -> TaskRow:
        """Return the newest message of the sender."""
        return self.continuations[-1] if self.continuations else self.first


class TaskMessageReader:
    """Reader of the messages of tasks."""

    def __init__(self, store: Store, *, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    async def find_row(self, message_id: str) -> TaskRow | None:
        """Return a row of a log by its id."""
        rows = await self._store.rows("task_message", {"id": message_id})
        return TaskRow(*rows[0]) if rows else None

    async def find_first(self, workspace_id: str, sender_key: str, task_id: str) -> TaskRow | None:
        """Return the message of this sender to this workspace that began a task; None for any other id."""
        row = await self.find_row(task_id)
        if row is None or row.inbound_no is None or (row.workspace_id, row.sender) != (workspace_id, sender_key):
            return None
        is_begin = row.kind in (MessageKind.USER, MessageKind.PEER)
        return row if is_begin and row.continued_task_id is None else None

    async def load_messages(self, first: TaskRow) -> TaskMessages:
        """Return all messages of the task that a message began."""
        chain = await self._chain_of(first)
        if first.source_id is None:
            continuations = [row for row in chain if row.sender == first.sender and row.continued_task_id == first.id]
        else:
            continuations = await self.load_continuations(first, first.context_id or first.id)
        own_ids = {first.id, *(row.id for row in continuations)}
        agent_rows = [
            row for row in chain if row.cause_id in own_ids and (row.is_of_agent or row.source_id == first.workspace_id)
        ]
        last = continuations[-1] if continuations else first
        known = {row.id: row for row in agent_rows}
        answered = [row.answer_id for row in (first, *continuations) if row.answer_id]
        for answer_id in answered:
            if answer_id not in known and (found := await self.find_row(answer_id)) is not None:
                known[answer_id] = found
        ordered = tuple(sorted(known.values(), key=lambda row: (row.created_at, row.id)))
        return TaskMessages(first, tuple(continuations), ordered, known.get(last.answer_id or ""))

    async def load_continuations(self, first: TaskRow, context_id: str) -> list[TaskRow]:
        """Return what a workspace sent later about a task, oldest first. `context_id`: of these messages."""
        query = {
            "workspace_id": first.workspace_id,
            "source_id": first.source_id,
            "since": first.created_at,
            "context_id": context_id,
            "count": _MAX_MESSAGES,
        }
        rows = [TaskRow(*row) for row in await self._store.rows("task_continuations", query)]
        return [row for row in rows if row.continued_task_id == first.id]

    async def _chain_of(self, first: TaskRow) -> list[TaskRow]:
        """Return the messages of a chain between the two parties, oldest first."""
        query = {
            "root_id": first.root_id or first.id,
            "workspace_id": first.workspace_id,
            "peer_id": first.source_id or "",
            "count": _MAX_MESSAGES,
        }
        return [TaskRow(*row) for row in await self._store.rows("task_chain", query)][::-1]

    async def list_heads(
        self, workspace_id: str, sender_key: str, source_id: str | None, before: tuple[int, str], count: int
    ) -> list[TaskHead]:
        """Return the newest messages of a sender to a workspace that may begin a task.

        `source_id`: the sender, if it is a workspace. `before`: only those that began before, as `begun` and id."""
        query = {
            "workspace_id": workspace_id,
            "sender": sender_key,
            "source_id": source_id,
            "before": before[0],
            "before_id": before[1],
            "count": count,
        }
        name = "task_heads_of_person" if source_id is None else "task_heads_of_peer"
        return [TaskHead(*row) for row in await self._store.rows(name, query)]

    def outcome_of(self, row: TaskRow, answer: TaskRow | None) -> WorkOutcome:
        """Return what has become of a message. `answer`: the row of its answer."""
        if row.cancels_task:
            return WorkOutcome.CANCELLED
        if row.dead_state in _GIVEN_UP:
            return WorkOutcome.FAILED
        if row.obligation_state == ObligationState.ANSWERED:
            is_question = (answer is not None and bool(answer.is_open_question)) or self.asks(row)
            return WorkOutcome.ASKED if is_question else WorkOutcome.ANSWERED
        if row.obligation_state == ObligationState.DECLINED:
            return self._decline_outcome(row)
        if row.obligation_state is None and row.is_acked and row.intent != Intent.REQUEST:
            return WorkOutcome.HANDLED
        return WorkOutcome.CLAIMED if row.attempt or row.obligation_state is not None else WorkOutcome.WAITING

    def asks(self, row: TaskRow) -> bool:
        """Return whether a push agent answered a message with a task that waits for its client."""
        return row.push_answer is not None and push_policy.is_asking(row.push_answer)

    def _decline_outcome(self, row: TaskRow) -> WorkOutcome:
        if row.reason == SENDER_CANCELLED:
            return WorkOutcome.CANCELLED
        reply = self.push_reply(row)
        return WorkOutcome.FAILED if reply is not None and reply.kind is ReplyKind.ERROR else WorkOutcome.DECLINED

    def push_reply(self, row: TaskRow) -> AgentReply | None:
        """Return what a push agent answered to a message; None if nothing was stored."""
        if row.push_answer is None:
            return None
        parse = (
            push_policy.parse_delegation_reply
            if row.kind == MessageKind.DELEGATION
            else push_policy.parse_message_reply
        )
        return parse(row.push_answer, self._limits)
