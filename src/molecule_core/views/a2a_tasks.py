"""Delegations and messages as A2A tasks, and the journal as the events of a task. Writes nothing.

The task of a delegation has its id. A message without a delegation is a task of its own: its id is that of the
activity, its result is the answer, and what its sender sends with this task id continues it. See
docs/decisions/0101-a2a-tasks-are-views.md.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from molecule_core.approvals.model import Approval, task_wake_key
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.common.clock import SECOND
from molecule_core.common.errors import NotFound
from molecule_core.common.text import truncate_line
from molecule_core.delegations.model import Delegation, DelegationPhase, delegation_wake_key
from molecule_core.delegations.reader import END_EVENTS, SENT_EVENT, DelegationReader
from molecule_core.messages.reader import TraceReader
from molecule_core.messages.task_reader import TaskHead, TaskMessageReader, TaskMessages, TaskRow, WorkOutcome
from molecule_core.org.model import Workspace
from molecule_core.store.database import Store
from molecule_core.store.journal import Journal, JournalEntry, answer_key, log_key, org_key
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.views import a2a_task_pages as task_pages
from molecule_core.wire.protocols.a2a import DELEGATION_EXTENSION
from molecule_core.wire.protocols.a2a_shapes import (
    A2AState,
    A2ATask,
    ArtifactUpdate,
    StatusUpdate,
    StreamEvent,
    TaskArtifact,
    TaskMessage,
    TaskStatus,
)

APPROVAL_EXTENSION = "https://molecule.dev/ext/approval/v1"
"""Extension: what an approval is about, in the metadata of a task that waits for it, and the decision on it."""
USAGE_MEMBER = "usage"
"""Member of a task's metadata: what its agent's model used, where a bridge reported it."""
_MAX_ACTION_LENGTH = 200
# Tasks of one sender in a part of the list.
_MAX_LISTED = 1000
# Rows of an agent's log behind a message that are searched for the report of its turn.
_MAX_TURN_ROWS = 500
_SNAPSHOT_TRIES = 5
_JOURNAL_PAGE = 200
# 2 s: a change without a wake-up is seen this much later.
_LOOK_AGAIN_SECONDS = 2.0
_CLAIM_TICKS = ("handed_over", "in_inbox")
_END_TICKS = ("declined", "acked")
_PENDING_APPROVALS = ("APPROVAL_REQUESTED", "APPROVAL_ESCALATED", "APPROVAL_INFO_REQUESTED", "APPROVAL_ANSWERED")
_ENDED_APPROVALS = ("APPROVAL_APPROVED", "APPROVAL_DENIED", "APPROVAL_EXPIRED", "APPROVAL_WITHDRAWN")
_STATES = {
    WorkOutcome.WAITING: A2AState.SUBMITTED,
    WorkOutcome.CLAIMED: A2AState.WORKING,
    WorkOutcome.ASKED: A2AState.INPUT_REQUIRED,
    WorkOutcome.ANSWERED: A2AState.COMPLETED,
    WorkOutcome.HANDLED: A2AState.COMPLETED,
    WorkOutcome.DECLINED: A2AState.REJECTED,
    WorkOutcome.FAILED: A2AState.FAILED,
    WorkOutcome.CANCELLED: A2AState.CANCELED,
}


class TaskFilter(Struct, frozen=True):
    """What a list of tasks shows. `since`: status changed at or after this time (microseconds)."""

    context_id: str | None = None
    state: A2AState | None = None
    since: int | None = None


class TaskPage(NamedTuple):
    """A page of tasks. `next_token`: empty at the end. `total`: tasks up to the end of its part, without filters."""

    tasks: list[A2ATask]
    next_token: str
    total: int


class TaskCursor(NamedTuple):
    """A task with a position in the journal: what the task shows has happened up to `ambiguous_until`, surely up to
    `seq`."""

    task: A2ATask
    seq: int
    ambiguous_until: int


class A2ATaskReader:
    """Reader of tasks for their senders."""

    def __init__(
        self,
        messages: TaskMessageReader,
        delegations: DelegationReader,
        approvals: ApprovalReader,
        traces: TraceReader,
        wakeups: Notifier,
        *,
        public_url: str,
    ) -> None:
        self._messages = messages
        self._delegations = delegations
        self._approvals = approvals
        self._traces = traces
        self._wakeups = wakeups
        self._public_url = public_url

    async def find(self, workspace: Workspace, caller_key: str, task_id: str) -> A2ATask | None:
        """Return a task that this caller gave this workspace; None for any other id."""
        if "\x00" in task_id:
            return None
        row = await self.find_delegation(workspace, caller_key, task_id)
        if row is not None:
            return await self._delegation_task(row)
        first = await self._messages.find_first(workspace.id, caller_key, task_id)
        return None if first is None else await self._message_task(await self._messages.load_messages(first))

    async def find_delegation(self, workspace: Workspace, caller_key: str, task_id: str) -> Delegation | None:
        """Return the delegation that is this task, if this caller delegated it to this workspace."""
        try:
            row = await self._delegations.get_delegation(workspace.org_id, task_id)
        except NotFound:
            return None
        is_own = row.target_id == workspace.id and caller_key == f"workspace:{row.source_id}" and not row.recorded
        return row if is_own else None

    async def find_messages(self, workspace: Workspace, caller_key: str, task_id: str) -> TaskMessages | None:
        """Return the messages of a task without a delegation."""
        first = await self._messages.find_first(workspace.id, caller_key, task_id)
        return None if first is None else await self._messages.load_messages(first)

    async def list_tasks(
        self, workspace: Workspace, caller_key: str, filters: TaskFilter, count: int, token: str | None
    ) -> TaskPage:
        """Return tasks of a caller at a workspace. Raises CursorNotFound.

        The newest `_MAX_LISTED` come first, then those that began before them, and so on; of each such part the last
        changed comes first. A page ends with its part, so it may have fewer tasks than `count`."""
        position = task_pages.FIRST if token is None else task_pages.decode_position(token)
        part = await self._list_part(workspace, caller_key, position.before)
        position = task_pages.hold_begin(position, part)
        total = position.earlier + len(part)
        found, end = list[A2ATask](), ""
        for head in sorted(part, key=task_pages.change_order, reverse=True):
            order = task_pages.change_order(head)
            is_before = position.after is not None and order >= position.after
            if is_before or (filters.since is not None and head.changed_at < filters.since):
                continue
            task = await self.find(workspace, caller_key, head.id)
            if task is None or not _matches(task, filters):
                continue
            if len(found) == count:
                return TaskPage(found, end, total)
            found.append(task)
            end = task_pages.encode_position(position._replace(after=order))
        is_last = len(part) < _MAX_LISTED
        end = "" if is_last else task_pages.encode_position(task_pages.follow_part(position, part))
        return TaskPage(found, end, total)

    async def _list_part(self, workspace: Workspace, caller_key: str, before: tuple[int, str]) -> list[TaskHead]:
        """Return the newest `_MAX_LISTED` tasks of a caller that began before this one, the newest first."""
        source_id = caller_key.removeprefix("workspace:") if caller_key.startswith("workspace:") else None
        heads = await self._messages.list_heads(workspace.id, caller_key, source_id, before, _MAX_LISTED)
        if source_id is not None:
            rows = await self._delegations.list_between(source_id, workspace.id, before, _MAX_LISTED)
            heads += [TaskHead(*row) for row in rows]
        return sorted(heads, key=task_pages.begin_order, reverse=True)[:_MAX_LISTED]

    async def wait_for_turn(self, workspace: Workspace, caller_key: str, task: A2ATask, seconds: float) -> A2ATask:
        """Return a task once it has ended or waits for its caller; as it is after `seconds`."""

        async def poll() -> Poll[A2ATask]:
            found = await self.find(workspace, caller_key, task.id)
            is_over = found is not None and found.status.state.ends_turn
            return Poll(found if is_over else None, next_poll_in=_LOOK_AGAIN_SECONDS)

        peer_id, org_id = caller_key.removeprefix("workspace:"), workspace.org_id
        keys = (
            *(log_key(workspace.id), log_key(peer_id), answer_key(task.id)),
            *(delegation_wake_key(org_id, task.id), task_wake_key(org_id, task.id)),
        )
        found = await self._wakeups.wait_until_any(keys, poll, seconds)
        return found or await self.find(workspace, caller_key, task.id) or task

    # -- delegations ---------------------------------------------------------------------------------------------------

    async def _delegation_task(self, row: Delegation) -> A2ATask:
        approval = await self._approvals.find_for_task(row.org_id, row.id, row.target_id) if row.open else None
        state = A2AState(self._delegations.a2a_state(row, needs_approval=approval is not None))
        context_id, work = row.context_id or row.id, await self._messages.find_row(row.id)
        own = [] if work is None else [work, *(await self._messages.load_continuations(work, row.id))]
        history = [self._task_message(each, row.id, context_id, "user") for each in own]
        message: TaskMessage | None = None
        if approval is not None:
            message = self._approval_message(approval, row.id, context_id)
        elif state is A2AState.INPUT_REQUIRED and work is not None:
            message = self._question_message(work, row.id, context_id)
        elif row.reason is not None:
            text = f"{row.error or row.reason.value} {self._delegations.advice(row.reason)}"
            message = _text_message(row.result_id or row.id, text, row.id, context_id)
        artifacts = await self.delegation_artifacts(row) if state is A2AState.COMPLETED else ()
        about = {"delegation_id": row.id, "status": row.status.value, "phase": row.phase.value}
        ended: dict[str, Any] = {} if row.reason is None else {"reason": row.reason.value}
        if state is A2AState.COMPLETED:
            ended["verified"] = row.checks > 0
        extension = {**about, "attempt": row.attempt, **ended}
        metadata = {**about, DELEGATION_EXTENSION: extension, **_approval_metadata(approval)}
        if not row.open and work is not None:
            metadata |= await self._usage(work)
        return A2ATask(
            id=row.id,
            context_id=context_id,
            org_id=row.org_id,
            workspace_id=row.target_id,
            status=TaskStatus(state, row.updated_at, message),
            artifacts=artifacts,
            history=tuple(history if message is None or state.is_terminal else [*history, message]),
            metadata=metadata,
            rev=row.rev,
            is_delegation=True,
            last_seq=row.message_seq or 0,
            known_ids=frozenset((row.id,)),
        )

    async def delegation_artifacts(self, row: Delegation) -> tuple[TaskArtifact, ...]:
        """Return the result of a completed delegation: its parts, or its text if the message is deleted."""
        stored = None if row.result_id is None else await self._messages.find_row(row.result_id)
        parts = self._public_parts(stored.parts) if stored is not None else ()
        if not parts and row.result:
            parts = ({"kind": "text", "text": row.result},)
        return (TaskArtifact(row.result_id or row.id, parts),) if parts else ()

    def _question_message(self, work: TaskRow, task_id: str, context_id: str) -> TaskMessage:
        reply = self._messages.push_reply(work)
        if reply is None or not reply.parts:
            return _text_message(f"{task_id}.question", "The agent waits for your answer.", task_id, context_id)
        parts = self._public_parts(reply.parts)
        return TaskMessage(id=f"{task_id}.question", role="agent", parts=parts, task_id=task_id, context_id=context_id)

    # -- messages ------------------------------------------------------------------------------------------------------

    async def _message_task(self, found: TaskMessages) -> A2ATask:
        first, last = found.first, found.last
        context_id = first.context_id or first.id
        outcome = self._messages.outcome_of(last, found.answer)
        state, approval = _STATES[outcome], None
        if not state.is_terminal:
            for each in dict.fromkeys((first.id, last.id)):
                approval = approval or await self._approvals.find_for_task(first.org_id, each, first.workspace_id)
        message = self._status_message(found, outcome, context_id)
        if approval is not None:
            state, message = A2AState.AUTH_REQUIRED, self._approval_message(approval, first.id, context_id)
        elif state is A2AState.SUBMITTED and found.continuations:
            state = A2AState.WORKING
        shown = [(row, "user") for row in (first, *found.continuations)]
        result_id = found.answer.id if found.answer is not None and outcome is WorkOutcome.ANSWERED else None
        shown += [(row, "agent") for row in found.agent_rows if row.id != result_id]
        shown.sort(key=lambda each: (each[0].created_at, each[0].seq))
        history = [self._task_message(row, first.id, context_id, role) for row, role in shown]
        metadata = {**_approval_metadata(approval), **(await self._usage(last) if state.is_terminal else {})}
        changed_at = max(
            last.created_at,
            last.handed_at or 0,
            last.closed_at or 0,
            last.died_at or 0,
            0 if approval is None else approval.updated_at,
        )
        return A2ATask(
            id=first.id,
            context_id=context_id,
            org_id=first.org_id,
            workspace_id=first.workspace_id,
            status=TaskStatus(state, changed_at, message),
            artifacts=self._artifacts(last, found.answer) if outcome is WorkOutcome.ANSWERED else (),
            history=tuple(history),
            metadata=metadata,
            last_seq=last.seq,
            known_ids=frozenset(row.id for row in (first, *found.continuations, *found.agent_rows)),
        )

    def _artifacts(self, last: TaskRow, answer: TaskRow | None) -> tuple[TaskArtifact, ...]:
        """Return the result of an answered message: of the row of the answer, or of the answer to its push."""
        reply = None if answer is not None else self._messages.push_reply(last)
        parts = self._public_parts(answer.parts if answer is not None else reply.parts if reply is not None else ())
        return (TaskArtifact(last.id if answer is None else answer.id, parts),) if parts else ()

    def _status_message(self, found: TaskMessages, outcome: WorkOutcome, context_id: str) -> TaskMessage | None:
        last, task_id = found.last, found.first.id
        if outcome is WorkOutcome.ASKED:
            if found.answer is not None:
                return self._task_message(found.answer, task_id, context_id, "agent")
            return self._question_message(last, task_id, context_id)
        if outcome in (WorkOutcome.DECLINED, WorkOutcome.CANCELLED):
            return _text_message(last.answer_id or f"{last.id}.end", last.reason or "", task_id, context_id)
        if outcome is WorkOutcome.FAILED:
            text = last.reason or f"the message could not be delivered: {last.dead_reason}"
            return _text_message(last.answer_id or f"{last.id}.end", text, task_id, context_id)
        return None

    def message_of(self, row: TaskRow, task_id: str, context_id: str) -> TaskMessage:
        """Return what an agent sent as a message of a task."""
        return self._task_message(row, task_id, context_id, "agent")

    def _task_message(self, row: TaskRow, task_id: str, context_id: str, role: str) -> TaskMessage:
        stored = row.message
        metadata, extensions = stored.get("metadata"), stored.get("extensions")
        own_id = stored.get("messageId") if role == "user" else row.id
        shown = (
            {name: value for name, value in metadata.items() if name not in _OWN_METADATA}
            if isinstance(metadata, dict)
            else {}
        )
        if row.options:
            shown["options"] = row.options
        return TaskMessage(
            id=own_id if isinstance(own_id, str) else row.id,
            role=role,
            parts=self._public_parts(row.parts),
            task_id=task_id,
            context_id=context_id,
            metadata=shown,
            extensions=tuple(each for each in extensions if isinstance(each, str))
            if isinstance(extensions, list)
            else (),
        )

    def _approval_message(self, approval: Approval, task_id: str, context_id: str) -> TaskMessage:
        return _text_message(f"{approval.id}.{approval.rev}", approval_text(approval), task_id, context_id)

    async def _usage(self, row: TaskRow) -> dict[str, Any]:
        """Return what the agent's model used for a message, as its bridge reported it."""
        turns = await self._traces.list_turns(row.workspace_id, row.seq, row.seq + _MAX_TURN_ROWS)
        found = [turn for turn in turns if turn.activity_id == row.id]
        return {USAGE_MEMBER: found[-1].usage} if found else {}

    def _public_parts(self, parts: Iterable[Any]) -> tuple[dict[str, Any], ...]:
        """Return valid parts, with the addresses of files on this server as URLs."""
        return tuple(self._public_part(part) for part in parts if isinstance(part, dict) and part.get("kind") in _KINDS)

    def _public_part(self, part: dict[str, Any]) -> dict[str, Any]:
        file = part.get("file")
        uri = file.get("uri") if isinstance(file, dict) else None
        if not isinstance(file, dict) or not isinstance(uri, str):
            return part
        if uri.startswith(_PENDING_SCHEME):
            workspace_id, _, file_id = uri.removeprefix(_PENDING_SCHEME).partition("/")
            uri = f"/workspaces/{workspace_id}/files/{file_id}"
        return {**part, "file": {**file, "uri": self._public_url + uri}} if uri.startswith("/workspaces/") else part


_KINDS = ("text", "file", "data")
_PENDING_SCHEME = "platform-pending:"
# What the server itself adds to a stored message.
_OWN_METADATA = ("kind", "intent", "options")


class A2ATaskChanges:
    """Reads the events of a task from the journal, from a cursor: the same for all readers of the task."""

    def __init__(self, store: Store, wakeups: Notifier, tasks: A2ATaskReader, messages: TaskMessageReader) -> None:
        self._journal = Journal(store)
        self._wakeups = wakeups
        self._tasks = tasks
        self._messages = messages

    async def head(self, org_id: str) -> int:
        """Return the last number of the journal of an organisation."""
        return await self._journal.last_seq(org_id)

    async def is_kept(self, org_id: str, after: int) -> bool:
        """Return whether the journal still has all after a number, and has reached it."""
        return await self._journal.first_seq(org_id) <= after + 1 and after <= await self.head(org_id)

    async def snapshot(self, workspace: Workspace, caller_key: str, task_id: str) -> TaskCursor | None:
        """Return a task with its position in the journal; None if the caller has no such task."""
        found: TaskCursor | None = None
        for _ in range(_SNAPSHOT_TRIES):
            seq = await self.head(workspace.org_id)
            task = await self._tasks.find(workspace, caller_key, task_id)
            if task is None:
                return None
            found = TaskCursor(task, seq, await self.head(workspace.org_id))
            if found.ambiguous_until == seq:
                break
        return found

    async def follow(
        self, workspace: Workspace, caller_key: str, start: TaskCursor, *, quiet_seconds: float
    ) -> AsyncIterator[tuple[int, StreamEvent] | None]:
        """Yield the events of a task after a cursor with their numbers, until its end or the end of the process.

        None is yielded whenever nothing happened for `quiet_seconds`."""
        follower = TaskFollower(self._tasks, self._messages, workspace, caller_key, start)
        cursor = start.seq
        while not self._wakeups.closing:
            entries = await self._wait_for_entries(workspace.org_id, cursor, quiet_seconds)
            if not entries:
                yield None
            for entry in entries:
                cursor = entry.seq
                events = await follower.events_of(entry)
                for number, event in enumerate(events, 1):
                    # A reader that is cut off within an entry gets the whole entry again rather than only its end.
                    yield cursor if number == len(events) else cursor - 1, event
                    if isinstance(event, StatusUpdate) and event.status.state.is_terminal:
                        return

    async def _wait_for_entries(self, org_id: str, cursor: int, seconds: float) -> list[JournalEntry]:
        """Return the next entries of a journal; none after `seconds`."""

        async def poll() -> Poll[list[JournalEntry]]:
            return Poll(await self._journal.read_after(org_id, cursor, _JOURNAL_PAGE) or None)

        return await self._wakeups.wait_until(org_key(org_id), poll, seconds) or []


class TaskFollower:
    """Translates journal entries to the events of one task."""

    def __init__(
        self,
        tasks: A2ATaskReader,
        messages: TaskMessageReader,
        workspace: Workspace,
        caller_key: str,
        start: TaskCursor,
    ) -> None:
        self._tasks = tasks
        self._messages = messages
        self._workspace = workspace
        self._caller_key = caller_key
        self._start = start
        self._task = start.task
        self._peer_id = caller_key.removeprefix("workspace:")
        self._seqs: dict[int, str] | None = None
        self._approval_revs = set[tuple[str, int]]()

    async def events_of(self, entry: JournalEntry) -> list[StreamEvent]:
        """Return the events of the task that a journal entry is."""
        found = await self._translate(entry)
        if entry.seq > self._start.ambiguous_until:
            return found
        known = self._task.status
        return [event for event in found if not (isinstance(event, StatusUpdate) and event.status.at <= known.at)]

    async def _translate(self, entry: JournalEntry) -> list[StreamEvent]:
        if entry.entity_kind == "approval":
            return await self._approval_events(entry)
        if self._task.is_delegation:
            is_own = entry.entity_kind == "delegation" and entry.entity_id == self._task.id
            return await self._delegation_events(entry) if is_own else []
        if entry.workspace_id not in (self._workspace.id, self._peer_id):
            return []
        return await self._message_events(entry)

    async def _message_events(self, entry: JournalEntry) -> list[StreamEvent]:
        if entry.name == "MESSAGE_TICK":
            return await self._tick_events(entry) if entry.workspace_id == self._workspace.id else []
        if entry.name == "MESSAGE_DEAD":
            return await self._end_events(entry.at) if entry.entity_id in (await self._own_ids()) else []
        return await self._activity_events(entry) if entry.entity_kind == "activity" else []

    # -- delegations ---------------------------------------------------------------------------------------------------

    async def _delegation_events(self, entry: JournalEntry) -> list[StreamEvent]:
        if entry.rev <= self._task.rev and entry.seq <= self._start.ambiguous_until:
            return []
        if entry.name in END_EVENTS:
            return await self._end_events(entry.at)
        if entry.name == SENT_EVENT:
            return [self._status(A2AState.SUBMITTED, entry.at)]
        payload = _payload(entry)
        if payload.get("phase") == DelegationPhase.ASKING:
            task = await self._tasks.find(self._workspace, self._caller_key, self._task.id)
            message = None if task is None else task.status.message
            return [self._status(A2AState.INPUT_REQUIRED, entry.at, message)]
        state = A2AState.WORKING if payload.get("taken_at") else A2AState.SUBMITTED
        about = {name: payload[name] for name in ("status", "phase", "attempt") if name in payload}
        return [self._status(state, entry.at, metadata={DELEGATION_EXTENSION: about})]

    async def _end_events(self, at: int) -> list[StreamEvent]:
        """Return the events of the end of the task: its results, then its status."""
        task = await self._tasks.find(self._workspace, self._caller_key, self._task.id)
        if task is None or not task.status.state.is_terminal:
            return []
        ids = (self._task.id, self._task.context_id)
        results: list[StreamEvent] = [ArtifactUpdate(*ids, each) for each in task.artifacts]
        status = TaskStatus(task.status.state, at, task.status.message)
        return [*results, StatusUpdate(*ids, status, is_final=True, metadata=task.metadata)]

    async def _approval_events(self, entry: JournalEntry) -> list[StreamEvent]:
        payload = _payload(entry)
        is_own = payload.get("task_id") in await self._own_ids() and payload.get("workspace_id") == self._workspace.id
        if not is_own or (entry.entity_id, entry.rev) in self._approval_revs:
            return []
        self._approval_revs.add((entry.entity_id, entry.rev))
        if entry.name in _PENDING_APPROVALS:
            task = await self._tasks.find(self._workspace, self._caller_key, self._task.id)
            if task is not None and task.status.state is A2AState.AUTH_REQUIRED:  # with who holds it now
                known = {APPROVAL_EXTENSION: task.metadata[APPROVAL_EXTENSION]}
                return [self._status(A2AState.AUTH_REQUIRED, entry.at, task.status.message, known)]
            about = {name: payload.get(name) for name in ("approval_id", "action")}
            action = truncate_line(str(payload.get("action", "")), _MAX_ACTION_LENGTH)
            text = f"This task waits for a decision on approval {entry.entity_id}: {action}"
            message = _text_message(f"{entry.entity_id}.{entry.rev}", text, self._task.id, self._task.context_id)
            return [self._status(A2AState.AUTH_REQUIRED, entry.at, message, {APPROVAL_EXTENSION: about})]
        return [self._status(A2AState.WORKING, entry.at)] if entry.name in _ENDED_APPROVALS else []

    # -- messages ------------------------------------------------------------------------------------------------------

    async def _own_ids(self) -> set[str]:
        return {self._task.id} if self._task.is_delegation else set((await self._own_seqs()).values())

    async def _own_seqs(self) -> dict[int, str]:
        """Return the messages of the caller by their positions in the inbox."""
        if self._seqs is None:
            found = await self._tasks.find_messages(self._workspace, self._caller_key, self._task.id)
            rows = () if found is None else (found.first, *found.continuations)
            self._seqs = {row.seq: row.id for row in rows}
        return self._seqs

    async def _tick_events(self, entry: JournalEntry) -> list[StreamEvent]:
        payload = _payload(entry)
        first, last, tick = payload.get("first_seq", 0), payload.get("last_seq", 0), payload.get("tick")
        own = [id_ for seq, id_ in (await self._own_seqs()).items() if first <= seq <= last]
        if own and tick in _CLAIM_TICKS:
            return [self._status(A2AState.WORKING, entry.at)]
        if own and tick == "answered":
            return await self._answer_events(own[-1], entry.at)
        return await self._end_events(entry.at) if own and tick in _END_TICKS else []

    async def _answer_events(self, message_id: str, at: int) -> list[StreamEvent]:
        """Return the events of an answer: the end of the task, or a question, which stays one when it is answered."""
        row = await self._messages.find_row(message_id)
        answer = None if row is None or row.answer_id is None else await self._messages.find_row(row.answer_id)
        if answer is not None and answer.options:
            message = self._tasks.message_of(answer, self._task.id, self._task.context_id)
            return [self._status(A2AState.INPUT_REQUIRED, at, message)]
        if row is not None and self._messages.asks(row):
            task = await self._tasks.find(self._workspace, self._caller_key, self._task.id)
            message_of_question = None if task is None else task.status.message
            return [self._status(A2AState.INPUT_REQUIRED, at, message_of_question)]
        return await self._end_events(at)

    async def _activity_events(self, entry: JournalEntry) -> list[StreamEvent]:
        row = await self._messages.find_row(entry.entity_id)
        if row is None or row.id == self._task.id or row.id in self._task.known_ids:
            return []
        if row.workspace_id == self._workspace.id and row.continued_task_id == self._task.id:
            if row.sender != self._caller_key:
                return []
            (await self._own_seqs())[row.seq] = row.id
            if row.cancels_task:
                return await self._end_events(entry.at)
            return [self._status(A2AState.WORKING, entry.at)]
        is_progress = row.message.get("metadata", {}).get("progress") is True
        if is_progress and row.cause_id in await self._own_ids():
            message = self._tasks.message_of(row, self._task.id, self._task.context_id)
            return [self._status(A2AState.WORKING, entry.at, message)]
        return []

    def _status(
        self, state: A2AState, at: int, message: TaskMessage | None = None, metadata: Mapping[str, Any] | None = None
    ) -> StatusUpdate:
        status = TaskStatus(state, at, message)
        return StatusUpdate(self._task.id, self._task.context_id, status, metadata=metadata or {})


def approval_text(approval: Approval) -> str:
    """Describe the approval that a task waits for, with the worker's own words marked as such."""
    holder = approval.holder_name or "a person"
    action = truncate_line(approval.action, _MAX_ACTION_LENGTH)
    return (
        f"This task waits until {holder} has decided on approval {approval.id}, "
        f"which its worker has asked for: {action}"
    )


def _approval_metadata(approval: Approval | None) -> dict[str, Any]:
    if approval is None:
        return {}
    about = {"approval_id": approval.id, "action": approval.action}
    full = {**about, "reason": approval.reason, "risk": approval.risk, "expires_at": approval.expires_at // SECOND}
    return {"approval": about, APPROVAL_EXTENSION: {**full, "action_hash": approval.action_hash}}


def _text_message(id_: str, text: str, task_id: str, context_id: str) -> TaskMessage:
    parts: tuple[dict[str, Any], ...] = ({"kind": "text", "text": text},)
    return TaskMessage(id=id_, role="agent", parts=parts, task_id=task_id, context_id=context_id)


def _payload(entry: JournalEntry) -> dict[str, Any]:
    found = msgspec.json.decode(entry.payload) if entry.payload else {}
    return found if isinstance(found, dict) else {}


def _matches(task: A2ATask, filters: TaskFilter) -> bool:
    return (
        filters.context_id in (None, task.context_id)
        and filters.state in (None, task.status.state)
        and (filters.since is None or task.status.at >= filters.since)
    )
