"""The hand of agents that work together: spawn, send, follow up, interrupt, close, resume.

Above: the edges. Below: calling, acts, steps, rules.
"""

from collections.abc import Generator
from typing import Any

from msgspec.structs import replace

from molecule_core.ground.clock import SECOND
from molecule_core.ground.errors import InvalidField, MayNotTalk, NotFound
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.refusals import InvalidTask, RootAsleep, ThreadClosed
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import may_talk
from molecule_core.store.database import Read, Step
from molecule_core.threads import rules
from molecule_core.threads.acts import Acts
from molecule_core.threads.bases import BaseInstructions, base_of
from molecule_core.threads.calling import Calls, author_of, heard_by
from molecule_core.threads.model import ROOT, Setup, Thread
from molecule_core.threads.steps import Change, tree_room
from molecule_core.threads.writer import limit_reached, resume_in
from molecule_core.wire import threadlog as log
from molecule_core.wire.threadlog import AgentState, Collab, Position
from molecule_core.wire.threads import AgentCall

_A_MINUTE = 60 * SECOND


class AgentWriter:
    """Spawns agents and acts on them, in the name of the thread that calls."""

    def __init__(self, calls: Calls, org: OrgReader, acts: Acts, *, ids: Ids, limits: Limits) -> None:
        self._calls = calls
        self._org = org
        self._acts = acts
        self._ids = ids
        self._limits = limits

    # -- spawning ------------------------------------------------------------------------------------------------------

    async def spawn(self, thread: Thread, asked: AgentCall) -> Collab:
        """A new agent below the thread, at work on a message; its end comes back as mail. Raises InvalidTask,
        InvalidField, MayNotTalk, ThreadLimit, ThreadClosed."""

        def deed(change: Change, row: Thread, begun: Collab) -> Generator[Step, Any, Collab]:
            seat = yield from self._may_spawn(row, asked, change.now)
            base = yield from self._base(row, asked)
            origin = yield from self._origin(row, asked)
            child_id = self._ids.new()
            change.born(self._created(row, seat, asked, child_id, origin))
            change.base(child_id, base, 1)
            change.announce(child_id)
            child = change.of(child_id)
            yield from self._acts.letter(
                change, child, row, kind="NEW_TASK", text=asked.message or "", key=f"task:{asked.call_id}", wakes=True
            )
            trigger: log.Trigger = "review" if asked.kind == "review" else "message"
            self._acts.wake(change, child_id, trigger, requester_id=row.thread_id)
            return replace(
                begun,
                status="completed",
                receiver_thread_ids=[child_id],
                new_thread_id=child_id,
                model=change.of(child_id).model,
                effort=change.of(child_id).effort,
                agents=[rules.state_of(change.of(child_id))],
            )

        return await self._calls.run(thread, "spawn", asked, deed)

    def _may_spawn(self, row: Thread, asked: AgentCall, now: int) -> Generator[Step, Any, Workspace]:
        """Where the agent will sit, if it may be spawned."""
        if row.closed:
            raise ThreadClosed
        fault = rules.task_fault(asked.task_name)
        if fault is not None:
            raise InvalidTask(reason=fault)
        self._message(asked)
        path = f"{row.path}/{asked.task_name}"
        if (yield Read("thread_at", {"root_id": row.root_id, "path": path})):
            raise InvalidTask(reason=f"there is an agent {path} already; choose another task_name")
        room = yield from tree_room(row.root_id, row.workspace_id, now - _A_MINUTE)
        spent = rules.spawn_fault(row.depth + 1, room, self._limits)
        if spent is not None:
            raise limit_reached(spent)
        own = self._org.workspace(row.workspace_id)
        seat = own if asked.workspace_id is None else self._org.workspace(asked.workspace_id)
        if own is None or seat is None or seat.removed or seat.org_id != own.org_id:
            raise NotFound(what="workspace")
        if not may_talk(self._org, own, seat):
            raise MayNotTalk(caller=own.id, target=seat.id)
        return seat

    def _message(self, asked: AgentCall) -> str:
        """Raises InvalidField."""
        text = asked.message or ""
        if not text.strip():
            raise InvalidField(reason="message is empty; say what is to be done")
        if len(text.encode()) > self._limits.thread_input_bytes:
            raise InvalidField(reason=f"message has more than {self._limits.thread_input_bytes} bytes; say less")
        return text

    def _base(self, row: Thread, asked: AgentCall) -> Generator[Step, Any, BaseInstructions]:
        """A review replaces the base instructions, a role may, any other child inherits them."""
        given = asked.base_instructions
        if given is not None and len(given.encode()) > self._limits.prompt_bytes:
            raise InvalidField(reason=f"base_instructions have more than {self._limits.prompt_bytes} bytes; say less")
        if asked.kind == "review":
            if given is None:
                raise InvalidField(reason="a review needs base_instructions of its own")
            return base_of(given, "review", "the review's own", from_thread=row.thread_id)
        if given is not None:
            source = f"role {asked.role}" if asked.role else "given on spawn"
            return base_of(given, "role" if asked.role else "override", source, from_thread=row.thread_id)
        rows = yield Read("thread_base", {"thread_id": row.base_thread, "version": row.base_version})
        return base_of(str(rows[0][0]), "inherited", f"inherited from {row.path}", from_thread=row.thread_id)

    def _origin(self, row: Thread, asked: AgentCall) -> Generator[Step, Any, Position | None]:
        """What the child sees of what was said before it. Its own call is not part of it."""
        if asked.fork_turns == "none":
            return None
        since = 0
        if asked.fork_turns != "all":
            wish = {"thread_id": row.thread_id, "count": asked.fork_turns}
            starts = yield Read("thread_turn_starts", wish)
            since = int(starts[-1][0]) - 1 if len(starts) == asked.fork_turns else 0
        return Position(row.thread_id, row.last_ordinal, since)

    def _created(
        self, row: Thread, seat: Workspace, asked: AgentCall, child_id: str, origin: Position | None
    ) -> log.Created:
        return log.Created(
            thread_id=child_id,
            org_id=row.org_id,
            workspace_id=seat.id,
            root_id=row.root_id,
            root_workspace_id=row.root_workspace_id,
            parent_thread_id=row.thread_id,
            requester_thread_id=row.thread_id,
            forked_from=origin,
            path=f"{row.path}/{asked.task_name}",
            task_name=asked.task_name or "",
            nickname=asked.nickname or asked.task_name or "",
            role=asked.role,
            kind=asked.kind,
            call_id=asked.call_id,
            wake=asked.wake,
            model=asked.model or row.model,
            effort=asked.effort or row.effort,
            tools=row.tool_names,
            permissions=row.allowed,
        )

    # -- letters -------------------------------------------------------------------------------------------------------

    async def send(self, thread: Thread, asked: AgentCall) -> Collab:
        """A letter that waits for the target's next turn. Raises InvalidField, NoSuchAgent, MayNotTalk,
        ThreadClosed."""
        return await self._mail(thread, asked, wakes=False)

    async def followup(self, thread: Thread, asked: AgentCall) -> Collab:
        """A letter that also gives an idle target a turn; its end comes back to who asked. Raises the same, and
        RootAsleep, ThreadLimit."""
        return await self._mail(thread, asked, wakes=True)

    async def _mail(self, thread: Thread, asked: AgentCall, *, wakes: bool) -> Collab:
        def deed(change: Change, row: Thread, begun: Collab) -> Generator[Step, Any, Collab]:
            text = self._message(asked)
            target = yield from self._calls.target(change, row, asked.target)
            if target.closed:
                raise ThreadClosed
            if wakes:
                yield from self._may_wake(row, target, change.now)
            yield from self._acts.letter(
                change, target, row, kind="MESSAGE", text=text, key=f"call:{row.thread_id}:{asked.call_id}", wakes=wakes
            )
            if wakes:
                self._acts.wake(change, target.thread_id, "message", requester_id=row.thread_id)
            return (yield from self._done(change, begun, row, target))

        return await self._calls.run(thread, "followup" if wakes else "send", asked, deed)

    def _may_wake(self, row: Thread, target: Thread, now: int) -> Generator[Step, Any, None]:
        allowed = target.allowed or {}
        if target.path == ROOT and target.root_id == row.root_id and not allowed.get(rules.ALLOW_ROOT_FOLLOWUPS):
            raise RootAsleep
        room = yield from tree_room(target.root_id, target.workspace_id, now)
        spent = rules.wake_fault(target, room, self._limits)
        if spent is not None:
            raise limit_reached(spent)

    def _done(
        self, change: Change, begun: Collab, row: Thread, target: Thread, before: AgentState | None = None, **more: Any
    ) -> Generator[Step, Any, Collab]:
        """The end of a call: how its target stands, or stood `before`, with its last words if the caller may know
        them."""
        state = rules.state_of(change.of(target.thread_id)) if before is None else before
        agents = rules.told([state], (yield from heard_by(row, [target])))
        return replace(begun, status="completed", receiver_thread_ids=[target.thread_id], agents=agents, **more)

    # -- stopping and going on -----------------------------------------------------------------------------------------

    async def interrupt(self, thread: Thread, asked: AgentCall) -> Collab:
        """The target's turn ends; the answer says how it stood before. Raises NoSuchAgent, MayNotTalk,
        InvalidField."""

        def deed(change: Change, row: Thread, begun: Collab) -> Generator[Step, Any, Collab]:
            target = yield from self._other(change, row, asked)
            before = rules.state_of(target)
            yield from self._acts.stop(change, target.thread_id, "interrupt", author_of(row), asked.descendants)
            return (yield from self._done(change, begun, row, target, before, descendants=asked.descendants))

        return await self._calls.run(thread, "interrupt", asked, deed)

    async def close(self, thread: Thread, asked: AgentCall) -> Collab:
        """The target takes nothing more; the answer says how it stood before. Raises the same."""

        def deed(change: Change, row: Thread, begun: Collab) -> Generator[Step, Any, Collab]:
            target = yield from self._other(change, row, asked)
            before = rules.state_of(target)
            yield from self._acts.stop(change, target.thread_id, "close", author_of(row), asked.descendants)
            return (yield from self._done(change, begun, row, target, before, descendants=asked.descendants))

        return await self._calls.run(thread, "close", asked, deed)

    async def resume(self, thread: Thread, asked: AgentCall) -> Collab:
        """A closed target takes work again. Raises NoSuchAgent, MayNotTalk, InvalidField, NotFound."""

        def deed(change: Change, row: Thread, begun: Collab) -> Generator[Step, Any, Collab]:
            target = yield from self._other(change, row, asked)
            if not self._org.lives_in(target.workspace_id, row.org_id):
                raise NotFound(what="workspace")
            resume_in(change, target, author_of(row), Setup())
            return (yield from self._done(change, begun, row, target))

        return await self._calls.run(thread, "resume", asked, deed)

    def _other(self, change: Change, row: Thread, asked: AgentCall) -> Generator[Step, Any, Thread]:
        """A target that stands below the caller: nobody stops itself, those above it, or another tree."""
        target = yield from self._calls.target(change, row, asked.target)
        if target.root_id != row.root_id or not rules.is_below(target.path, row.path):
            raise InvalidField(reason=f"only agents below {row.path} can be stopped or resumed from it")
        return target
