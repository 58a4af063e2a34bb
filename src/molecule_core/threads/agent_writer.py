"""Writes the collaboration of agents: spawn, send, follow up, interrupt, close, resume."""

from collections.abc import Generator
from typing import Any

from msgspec.structs import replace

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import CommunicationDenied, InvalidField, NotFound
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import may_talk
from molecule_core.store.database import ReadQuery, StepRequest
from molecule_core.threads import rules
from molecule_core.threads.base_instructions import BaseInstructions, make_base_instructions
from molecule_core.threads.collab_calls import CollabCalls, readable_by_caller, thread_author
from molecule_core.threads.errors import InvalidTask, RootNotWakeable, ThreadClosedError
from molecule_core.threads.model import CALL_MAIL_KEY, ROOT_PATH, TASK_MAIL_KEY, Thread, ThreadSettings
from molecule_core.threads.transitions import ThreadTransitions
from molecule_core.threads.unit_of_work import ThreadUnitOfWork, load_tree_usage
from molecule_core.threads.writer import limit_error, resume_thread
from molecule_core.wire.schemas import thread_log as log
from molecule_core.wire.schemas.thread_log import AgentState, CollabCallEntry, LogPosition
from molecule_core.wire.schemas.threads import AgentCallBody

_MINUTE = 60 * SECOND


class AgentWriter:
    """Writer of agents' calls, in the name of the calling thread."""

    def __init__(
        self, calls: CollabCalls, org: OrgReader, transitions: ThreadTransitions, *, ids: IdGenerator, limits: Limits
    ) -> None:
        self._calls = calls
        self._org = org
        self._transitions = transitions
        self._ids = ids
        self._limits = limits

    # -- spawning ------------------------------------------------------------------------------------------------------

    async def spawn(self, thread: Thread, request: AgentCallBody) -> CollabCallEntry:
        """Spawn an agent below the thread with a first message; its end comes back as mail.

        Raises InvalidTask, InvalidField, CommunicationDenied, ThreadLimit, ThreadClosedError."""

        def action(
            uow: ThreadUnitOfWork, row: Thread, pending: CollabCallEntry
        ) -> Generator[StepRequest, Any, CollabCallEntry]:
            workspace = yield from self._check_spawn(row, request, uow.now)
            base = yield from self._resolve_base(row, request)
            origin = yield from self._fork_position(row, request)
            child_id = self._ids.new()
            uow.create_thread(self._created_entry(row, workspace, request, child_id, origin))
            uow.set_base(child_id, base, 1)
            uow.emit_started(child_id)
            child = uow.get(child_id)
            yield from self._transitions.send_mail(
                uow,
                child,
                row,
                kind="NEW_TASK",
                text=request.message or "",
                key=TASK_MAIL_KEY + request.call_id,
                wakes=True,
            )
            trigger: log.TurnTrigger = "review" if request.kind == "review" else "message"
            self._transitions.wake_if_idle(uow, child_id, trigger, requester_id=row.thread_id)
            return replace(
                pending,
                status="completed",
                receiver_thread_ids=[child_id],
                new_thread_id=child_id,
                model=uow.get(child_id).model,
                effort=uow.get(child_id).effort,
                agents=[rules.agent_state(uow.get(child_id))],
            )

        return await self._calls.run_call(thread, "spawn", request, action)

    def _check_spawn(self, row: Thread, request: AgentCallBody, now: int) -> Generator[StepRequest, Any, Workspace]:
        """Return the workspace of the new agent, if it may be spawned."""
        if row.closed:
            raise ThreadClosedError
        error = rules.task_name_error(request.task_name)
        if error is not None:
            raise InvalidTask(reason=error)
        self._checked_message(request)
        path = f"{row.path}/{request.task_name}"
        if (yield ReadQuery("thread_by_path", {"root_id": row.root_id, "path": path})):
            raise InvalidTask(reason=f"the agent {path} already exists. Choose another task_name.")
        usage = yield from load_tree_usage(row.root_id, row.workspace_id, now - _MINUTE)
        exceeded = rules.exceeded_spawn_limit(row.depth + 1, usage, self._limits)
        if exceeded is not None:
            raise limit_error(exceeded)
        own = self._org.workspace(row.workspace_id)
        workspace = own if request.workspace_id is None else self._org.workspace(request.workspace_id)
        if own is None or workspace is None or workspace.removed or workspace.org_id != own.org_id:
            raise NotFound(what="workspace")
        if not may_talk(self._org, own, workspace):
            raise CommunicationDenied(caller=own.id, target=workspace.id)
        return workspace

    def _checked_message(self, request: AgentCallBody) -> str:
        """Return the message. Raises InvalidField if it is empty or too long."""
        text = request.message or ""
        if not text.strip():
            raise InvalidField(reason="message cannot be empty. Describe the task.")
        if len(text.encode()) > self._limits.thread_input_bytes:
            raise InvalidField(
                reason=f"message is larger than the limit of {self._limits.thread_input_bytes} bytes. Shorten it."
            )
        return text

    def _resolve_base(self, row: Thread, request: AgentCallBody) -> Generator[StepRequest, Any, BaseInstructions]:
        """Return the base instructions: a review has its own, a role may have its own, other children inherit them."""
        base_text = request.base_instructions
        if base_text is not None and len(base_text.encode()) > self._limits.prompt_bytes:
            raise InvalidField(
                reason=f"base_instructions are larger than the limit of {self._limits.prompt_bytes} bytes. "
                "Shorten them."
            )
        if request.kind == "review":
            if base_text is None:
                raise InvalidField(reason="a review must have its own base_instructions. Add them.")
            return make_base_instructions(base_text, "review", "the review's own", from_thread=row.thread_id)
        if base_text is not None:
            source = f"role {request.role}" if request.role else "given on spawn"
            return make_base_instructions(
                base_text, "role" if request.role else "override", source, from_thread=row.thread_id
            )
        rows = yield ReadQuery("thread_base", {"thread_id": row.base_thread, "version": row.base_version})
        return make_base_instructions(
            str(rows[0][0]), "inherited", f"inherited from {row.path}", from_thread=row.thread_id
        )

    def _fork_position(self, row: Thread, request: AgentCallBody) -> Generator[StepRequest, Any, LogPosition | None]:
        """Return which part of the caller's log the child sees. The spawning call is not part of it."""
        if request.fork_turns == "none":
            return None
        since = 0
        if request.fork_turns != "all":
            query = {"thread_id": row.thread_id, "count": request.fork_turns}
            starts = yield ReadQuery("thread_turn_starts", query)
            since = int(starts[-1][0]) - 1 if len(starts) == request.fork_turns else 0
        return LogPosition(row.thread_id, row.last_ordinal, since)

    def _created_entry(
        self, row: Thread, workspace: Workspace, request: AgentCallBody, child_id: str, origin: LogPosition | None
    ) -> log.ThreadCreatedEntry:
        return log.ThreadCreatedEntry(
            thread_id=child_id,
            org_id=row.org_id,
            workspace_id=workspace.id,
            root_id=row.root_id,
            root_workspace_id=row.root_workspace_id,
            parent_thread_id=row.thread_id,
            requester_thread_id=row.thread_id,
            forked_from=origin,
            path=f"{row.path}/{request.task_name}",
            task_name=request.task_name or "",
            nickname=request.nickname or request.task_name or "",
            role=request.role,
            kind=request.kind,
            call_id=request.call_id,
            wake=request.wake,
            model=request.model or row.model,
            effort=request.effort or row.effort,
            tools=row.tool_names,
            permissions=row.permission_map,
        )

    # -- mail ----------------------------------------------------------------------------------------------------------

    async def send_message(self, thread: Thread, request: AgentCallBody) -> CollabCallEntry:
        """Send mail that waits for the target's next turn.

        Raises InvalidField, AgentNotFound, CommunicationDenied, ThreadClosedError."""
        return await self._send_mail(thread, request, wakes=False)

    async def send_followup(self, thread: Thread, request: AgentCallBody) -> CollabCallEntry:
        """Send mail that wakes an idle target; the end of that turn comes back to the caller.

        Raises as `send_message`, and RootNotWakeable, ThreadLimit."""
        return await self._send_mail(thread, request, wakes=True)

    async def _send_mail(self, thread: Thread, request: AgentCallBody, *, wakes: bool) -> CollabCallEntry:
        def action(
            uow: ThreadUnitOfWork, row: Thread, pending: CollabCallEntry
        ) -> Generator[StepRequest, Any, CollabCallEntry]:
            text = self._checked_message(request)
            target = yield from self._calls.resolve_target(uow, row, request.target)
            if target.closed:
                raise ThreadClosedError
            if wakes:
                yield from self._check_wake(row, target, uow.now)
            yield from self._transitions.send_mail(
                uow,
                target,
                row,
                kind="MESSAGE",
                text=text,
                key=f"{CALL_MAIL_KEY}{row.thread_id}:{request.call_id}",
                wakes=wakes,
            )
            if wakes:
                self._transitions.wake_if_idle(uow, target.thread_id, "message", requester_id=row.thread_id)
            return (yield from self._completed_call(uow, pending, row, target))

        return await self._calls.run_call(thread, "followup" if wakes else "send", request, action)

    def _check_wake(self, row: Thread, target: Thread, now: int) -> Generator[StepRequest, Any, None]:
        allowed = target.permission_map or {}
        if target.path == ROOT_PATH and target.root_id == row.root_id and not allowed.get(rules.ALLOW_ROOT_FOLLOWUPS):
            raise RootNotWakeable
        usage = yield from load_tree_usage(target.root_id, target.workspace_id, now)
        exceeded = rules.exceeded_wake_limit(target, usage, self._limits)
        if exceeded is not None:
            raise limit_error(exceeded)

    def _completed_call(
        self,
        uow: ThreadUnitOfWork,
        pending: CollabCallEntry,
        row: Thread,
        target: Thread,
        before: AgentState | None = None,
        **more: Any,
    ) -> Generator[StepRequest, Any, CollabCallEntry]:
        """Return the completed call with its target's state, now or `before`.

        The state includes the target's last message only if the caller may read it."""
        state = rules.agent_state(uow.get(target.thread_id)) if before is None else before
        agents = rules.redact_messages([state], (yield from readable_by_caller(row, [target])))
        return replace(pending, status="completed", receiver_thread_ids=[target.thread_id], agents=agents, **more)

    # -- lifecycle -----------------------------------------------------------------------------------------------------

    async def interrupt(self, thread: Thread, request: AgentCallBody) -> CollabCallEntry:
        """Interrupt the target's turn and return the state before.

        Raises AgentNotFound, CommunicationDenied, InvalidField."""

        def action(
            uow: ThreadUnitOfWork, row: Thread, pending: CollabCallEntry
        ) -> Generator[StepRequest, Any, CollabCallEntry]:
            target = yield from self._descendant_target(uow, row, request)
            before = rules.agent_state(target)
            yield from self._transitions.stop_tree(
                uow, target.thread_id, "interrupt", thread_author(row), request.descendants
            )
            return (yield from self._completed_call(uow, pending, row, target, before, descendants=request.descendants))

        return await self._calls.run_call(thread, "interrupt", request, action)

    async def close(self, thread: Thread, request: AgentCallBody) -> CollabCallEntry:
        """Close the target and return the state before.

        Raises AgentNotFound, CommunicationDenied, InvalidField."""

        def action(
            uow: ThreadUnitOfWork, row: Thread, pending: CollabCallEntry
        ) -> Generator[StepRequest, Any, CollabCallEntry]:
            target = yield from self._descendant_target(uow, row, request)
            before = rules.agent_state(target)
            yield from self._transitions.stop_tree(
                uow, target.thread_id, "close", thread_author(row), request.descendants
            )
            return (yield from self._completed_call(uow, pending, row, target, before, descendants=request.descendants))

        return await self._calls.run_call(thread, "close", request, action)

    async def resume(self, thread: Thread, request: AgentCallBody) -> CollabCallEntry:
        """Resume a closed target. Raises AgentNotFound, CommunicationDenied, InvalidField, NotFound."""

        def action(
            uow: ThreadUnitOfWork, row: Thread, pending: CollabCallEntry
        ) -> Generator[StepRequest, Any, CollabCallEntry]:
            target = yield from self._descendant_target(uow, row, request)
            if not self._org.is_active_in(target.workspace_id, row.org_id):
                raise NotFound(what="workspace")
            resume_thread(uow, target, thread_author(row), ThreadSettings())
            return (yield from self._completed_call(uow, pending, row, target))

        return await self._calls.run_call(thread, "resume", request, action)

    def _descendant_target(
        self, uow: ThreadUnitOfWork, row: Thread, request: AgentCallBody
    ) -> Generator[StepRequest, Any, Thread]:
        """Return a target below the caller: an agent cannot stop itself, its ancestors, or another tree."""
        target = yield from self._calls.resolve_target(uow, row, request.target)
        if target.root_id != row.root_id or not rules.is_below(target.path, row.path):
            raise InvalidField(
                reason=f"{row.path} can stop and resume only agents below it. Use list_agents to find them."
            )
        return target
