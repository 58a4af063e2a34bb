"""Writes threads for clients: start, fork, input, compact, interrupt, close, resume. Each method is one command.

Commands that may reach several trees are exclusive: they are rare, and each must see what the previous one committed.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any

from molecule_core.common.clock import Clock, to_rfc3339
from molecule_core.common.errors import InvalidField, MessageIdReused, NotFound, WorkspaceRemoved
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, CommandSteps, ReadQuery, StepRequest, Store, T, WriteSet
from molecule_core.threads import rules
from molecule_core.threads.base_instructions import BaseInstructions, make_base_instructions
from molecule_core.threads.errors import (
    NoRunningTurn,
    PermissionsExceeded,
    ThreadBusy,
    ThreadClosedError,
    ThreadLimit,
    TurnMismatch,
)
from molecule_core.threads.fold import fold_entries
from molecule_core.threads.idempotency import MAX_FIRST_ENTRIES, ThreadRequest, input_entry_key, matches_request
from molecule_core.threads.model import ROOT_PATH, LogEntryRow, Thread, ThreadSettings, ThreadTurn
from molecule_core.threads.permissions import excess_of
from molecule_core.threads.rules import InputAction, LimitExceeded
from molecule_core.threads.transitions import ThreadTransitions
from molecule_core.threads.unit_of_work import (
    ENDED_TURN_STATUSES,
    ThreadUnitOfWork,
    input_entry,
    load_thread,
    load_tree_tokens,
    load_turn,
)
from molecule_core.wire.schemas import thread_log as log
from molecule_core.wire.schemas.thread_log import Author, DescendantsAction, LogPosition, TextInput
from molecule_core.wire.schemas.threads import TurnResponse

_NO_LIMIT = (1 << 62) - 1


class ThreadWriter:
    """Writer of threads for clients."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        transitions: ThreadTransitions,
        *,
        clock: Clock,
        ids: IdGenerator,
        limits: Limits,
    ) -> None:
        self._store = store
        self._org = org
        self._transitions = transitions
        self._clock = clock
        self._ids = ids
        self._limits = limits

    # -- start and fork ------------------------------------------------------------------------------------------------

    async def start(
        self,
        workspace: Workspace,
        base: BaseInstructions,
        settings: ThreadSettings,
        *,
        by: Author,
        nickname: str = "",
        role: str | None = None,
        texts: Sequence[TextInput] = (),
        key: str | None = None,
    ) -> Thread:
        """Start a root thread of a workspace, with a first turn if there is input.

        The same request under the same key returns the first thread. Raises WorkspaceRemoved, MessageIdReused."""
        base_text = base.text if base.provenance.type == "override" else None

        def decide() -> CommandSteps[Thread]:
            self._check_workspace(workspace.id)
            known = yield from self._find_by_key(workspace.id, key, ThreadRequest(base=base_text, texts=texts))
            if known is not None:
                return WriteSet(known)
            uow, thread_id = self._unit_of_work(), self._ids.new()
            created = log.ThreadCreatedEntry(
                **self._root_identity(workspace, thread_id, nickname, role),
                forked_from=None,
                kind="root",
                model=settings.model,
                effort=settings.effort,
                tools=settings.tools,
                permissions=settings.permissions,
            )
            uow.create_thread(created)
            uow.set_base(thread_id, base, 1)
            add_layers(uow, thread_id, settings, "start")
            uow.emit_started(thread_id)
            if texts:
                self._transitions.accept_turn(uow, thread_id, texts, trigger="user", author=by)
            return self._store_key(uow, workspace.id, key, thread_id)

        return await self._store.run(Command(workspace.org_id, (), decide, exclusive=True))

    async def fork(
        self,
        source: Thread,
        workspace: Workspace,
        settings: ThreadSettings,
        *,
        by: Author,
        position: int | None,
        nickname: str,
        key: str | None,
    ) -> Thread:
        """Fork a thread. The fork refers to the source's log and copies nothing.

        Base instructions, model, effort, tools and permissions are the source's at that position, unless overridden. An
        agent overrides tools and permissions only by fewer. Raises InvalidField, WorkspaceRemoved, MessageIdReused,
        PermissionsExceeded."""

        def decide() -> CommandSteps[Thread]:
            self._check_workspace(workspace.id)
            known = yield from self._find_by_key(
                workspace.id, key, ThreadRequest(base=settings.base, source=source, position=position)
            )
            if known is not None:
                return WriteSet(known)
            at = yield from self._fork_ordinal(source, position)
            source_state = yield from self._fold_until(source, at)
            if not source_state.base_version:
                raise InvalidField(
                    reason=f"position {at} is before the base instructions of the thread. Use a later position."
                )
            if by.kind != "person":
                check_settings(source_state, settings)
            uow, thread_id = self._unit_of_work(), self._ids.new()
            created = log.ThreadCreatedEntry(
                **self._root_identity(workspace, thread_id, nickname or source_state.nickname, source_state.role),
                forked_from=LogPosition(source.thread_id, at),
                kind="fork",
                model=source_state.model if settings.model is None else settings.model,
                effort=source_state.effort if settings.effort is None else settings.effort,
                tools=source_state.tool_names if settings.tools is None else settings.tools,
                permissions=source_state.permission_map if settings.permissions is None else settings.permissions,
                base=source_state.base_ref,
                developer=source_state.developer,
                context=source_state.context,
            )
            uow.create_thread(created)
            override_base(uow, thread_id, settings, "fork")
            add_layers(uow, thread_id, settings, "fork")
            uow.emit_started(thread_id)
            return self._store_key(uow, workspace.id, key, thread_id)

        return await self._store.run(Command(workspace.org_id, (), decide, exclusive=True))

    def _fork_ordinal(self, source: Thread, position: int | None) -> Generator[StepRequest, Any, int]:
        """Return up to which ordinal a fork sees its source; never into a running turn by default."""
        row = yield from load_thread(source.thread_id)
        if row is None:
            raise NotFound(what="thread")
        if position is not None:
            if not 0 < position <= row.last_ordinal:
                raise InvalidField(
                    reason=f"position {position} is out of range. Use a number from 1 to {row.last_ordinal}, the last "
                    "ordinal of the thread."
                )
            return position
        if row.turn_id is None:
            return row.last_ordinal
        starts = yield ReadQuery("thread_turn_starts", {"thread_id": row.thread_id, "count": 1})
        return int(starts[0][0]) - 1

    def _fold_until(self, source: Thread, at: int) -> Generator[StepRequest, Any, Thread]:
        query = {"thread_id": source.thread_id, "after": 0, "upto": at, "count": _NO_LIMIT}
        entry_rows = [LogEntryRow(*row) for row in (yield ReadQuery("thread_entries_after", query))]
        return fold_entries((log.decode_entry(each.body), each.at) for each in entry_rows)

    def _root_identity(self, workspace: Workspace, thread_id: str, nickname: str, role: str | None) -> dict[str, Any]:
        """Return the fields that all root threads share."""
        return {
            "thread_id": thread_id,
            "org_id": workspace.org_id,
            "workspace_id": workspace.id,
            "root_id": thread_id,
            "parent_thread_id": None,
            "requester_thread_id": None,
            "path": ROOT_PATH,
            "task_name": ROOT_PATH,
            "nickname": nickname or workspace.name,
            "role": role,
            "call_id": None,
            "wake": "wake",
        }

    def _find_by_key(
        self, workspace_id: str, key: str | None, request: ThreadRequest
    ) -> Generator[StepRequest, Any, Thread | None]:
        if key is None:
            return None
        rows = yield ReadQuery("thread_by_key", {"workspace_id": workspace_id, "key": key})
        if not rows:
            return None
        query = {"thread_id": rows[0][0], "after": 0, "upto": MAX_FIRST_ENTRIES, "count": MAX_FIRST_ENTRIES}
        entries = [log.decode_entry(LogEntryRow(*row).body) for row in (yield ReadQuery("thread_entries_after", query))]
        if not matches_request(request, key, entries):
            raise MessageIdReused(message_id=key)
        return (yield from load_thread(rows[0][0]))

    def _store_key(self, uow: ThreadUnitOfWork, workspace_id: str, key: str | None, thread_id: str) -> WriteSet[Thread]:
        if key is not None:
            # control: thread-key
            uow.write("keep_thread_key", {"workspace_id": workspace_id, "key": key, "thread_id": thread_id})
        return uow.to_write_set_of_thread(thread_id)

    # -- input ---------------------------------------------------------------------------------------------------------

    async def submit_input(
        self,
        thread: Thread,
        texts: Sequence[TextInput],
        *,
        by: Author,
        mode: str = "auto",
        expected: str | None = None,
        key: str | None = None,
    ) -> TurnResponse:
        """Add input to the running turn if that answers input, else queue a turn for it.

        The same input under the same key is accepted once. Raises NotFound, MessageIdReused, ThreadClosedError,
        NoRunningTurn, TurnMismatch, ThreadLimit."""

        def decide(uow: ThreadUnitOfWork, row: Thread) -> CommandSteps[TurnResponse]:
            known = yield from self._find_input(row, key, texts)
            if known is not None:
                return WriteSet(known)
            running = None if row.turn_id is None else (yield from load_turn(row.turn_id))
            action = rules.resolve_input(row, mode, expected, None if running is None else running.trigger)
            if action is InputAction.STEER and row.turn_id is not None:
                for number, each in enumerate(texts):
                    name = None if key is None else input_entry_key(key, number)
                    entry = input_entry(
                        each,
                        by,
                        row.path,
                        f"{row.turn_id}.{row.last_ordinal}.{number}",
                        client_id=None if number else key,
                    )
                    uow.append_entry(row.thread_id, entry, turn_id=row.turn_id, key=name)
                return uow.to_write_set(TurnResponse(row.turn_id, joined=True))
            self._check_action(row, action, expected)
            yield from self._check_limits(row)
            # control: turn-key
            turn = self._transitions.accept_turn(uow, row.thread_id, texts, trigger="user", author=by, key=key)
            return uow.to_write_set(TurnResponse(turn.turn_id, joined=False))

        return await self._run_command(thread, decide)

    def _find_input(
        self, row: Thread, key: str | None, texts: Sequence[TextInput]
    ) -> Generator[StepRequest, Any, TurnResponse | None]:
        if key is None:
            return None
        rows = yield ReadQuery("thread_turn_by_key", {"thread_id": row.thread_id, "key": key})
        if rows:
            turn = ThreadTurn.from_row(rows[0])
            result, stored_texts = _known_turn(turn.turn_id, turn, joined=False), turn.input_texts
        else:
            entry_rows = yield from self._steered_entries(row, key, len(texts) + 1)
            if not entry_rows:
                return None
            result, stored_texts = (
                _known_turn(turn_id := str(entry_rows[0].turn_id), (yield from load_turn(turn_id)), joined=True),
                [input_of_entry(each) for each in entry_rows],
            )
        if stored_texts != list(texts):
            raise MessageIdReused(message_id=key)
        return result

    def _steered_entries(self, row: Thread, key: str, max_count: int) -> Generator[StepRequest, Any, list[LogEntryRow]]:
        """Return the entries of an input that joined a turn, at most `max_count`."""
        entry_rows = list[LogEntryRow]()
        for number in range(max_count):
            query = {"thread_id": row.thread_id, "key": input_entry_key(key, number)}
            found = yield ReadQuery("thread_entry_by_key", query)
            if not found:
                break
            entry_rows.append(LogEntryRow(*found[0]))
        return entry_rows

    def _check_action(self, row: Thread, action: InputAction, expected: str | None) -> None:
        if action is InputAction.CLOSED:
            raise ThreadClosedError
        if action is InputAction.NO_TURN:
            raise NoRunningTurn
        if action is InputAction.TURN_MISMATCH:
            raise TurnMismatch(turn_id=row.turn_id, expected=expected)

    def _check_limits(self, row: Thread) -> Generator[StepRequest, Any, None]:
        if len(row.queued_turn_ids) >= self._limits.thread_queue:
            use, max_count = len(row.queued_turn_ids), self._limits.thread_queue
            raise limit_error(
                LimitExceeded("thread_queue", use, max_count, "waiting turns", "Wait until some have ended.")
            )
        exceeded = rules.exceeded_budget(row, (yield from load_tree_tokens(row)), self._limits)
        if exceeded is not None and exceeded.limit != "turn_tokens":
            raise limit_error(exceeded)

    async def compact(self, thread: Thread, by: Author) -> TurnResponse:
        """Queue a turn in which the engine summarizes the log. Raises NotFound, ThreadClosedError, ThreadLimit."""

        def decide(uow: ThreadUnitOfWork, row: Thread) -> CommandSteps[TurnResponse]:
            self._check_action(row, rules.resolve_input(row, "queue", None, None), None)
            yield from self._check_limits(row)
            turn = self._transitions.accept_turn(uow, row.thread_id, [], trigger="compact", author=by)
            return uow.to_write_set(TurnResponse(turn.turn_id, joined=False))

        return await self._run_command(thread, decide)

    # -- lifecycle -----------------------------------------------------------------------------------------------------

    async def interrupt(self, thread: Thread, by: Author, descendants: DescendantsAction) -> Thread:
        """Interrupt the running turn; its engine learns of it with its next call. Raises NotFound."""

        def decide(uow: ThreadUnitOfWork, row: Thread) -> CommandSteps[Thread]:
            yield from self._transitions.stop_tree(uow, row.thread_id, "interrupt", by, descendants)
            return uow.to_write_set_of_thread(row.thread_id)

        return await self._run_command(thread, decide)

    async def close(self, thread: Thread, by: Author, descendants: DescendantsAction) -> Thread:
        """Close a thread; a closed one stays unchanged. Raises NotFound."""

        def decide(uow: ThreadUnitOfWork, row: Thread) -> CommandSteps[Thread]:
            if row.closed:
                return WriteSet(row)
            yield from self._transitions.stop_tree(uow, row.thread_id, "close", by, descendants)
            return uow.to_write_set_of_thread(row.thread_id)

        return await self._run_command(thread, decide)

    async def resume(self, thread: Thread, by: Author, settings: ThreadSettings) -> Thread:
        """Resume a thread, perhaps with other settings, which are stored as new versions.

        A child never gets more tools or permissions than its parent has, and an agent gives a root only fewer. Raises
        NotFound, ThreadBusy, WorkspaceRemoved, PermissionsExceeded."""

        def decide(uow: ThreadUnitOfWork, row: Thread) -> CommandSteps[Thread]:
            self._check_workspace(row.workspace_id)
            if row.turn_id is not None and settings != ThreadSettings():
                raise ThreadBusy(turn_id=row.turn_id, what="its settings can change only between turns")
            if settings.tools is not None or settings.permissions is not None:
                parent = None if row.parent_id is None else (yield from load_thread(row.parent_id))
                if parent is not None or by.kind != "person":
                    check_settings(parent or row, settings)
            resume_thread(uow, row, by, settings)
            return uow.to_write_set_of_thread(row.thread_id)

        return await self._run_command(thread, decide)

    # -- commands ------------------------------------------------------------------------------------------------------

    def _check_workspace(self, workspace_id: str) -> None:
        """Raise an error for a removed workspace, even if its removal was committed just before."""
        workspace = self._org.workspace(workspace_id)
        if workspace is None:
            raise NotFound(what="workspace")
        if workspace.removed_at is not None:
            raise WorkspaceRemoved(id=workspace.id, removed_at=to_rfc3339(workspace.removed_at))

    def _unit_of_work(self) -> ThreadUnitOfWork:
        return ThreadUnitOfWork(self._clock.now(), self._limits, self._transitions.meter)

    async def _run_command(self, thread: Thread, decide: Callable[[ThreadUnitOfWork, Thread], CommandSteps[T]]) -> T:
        """Run a command on the current row of a thread."""

        def command_steps() -> CommandSteps[T]:
            row = yield from load_thread(thread.thread_id)
            if row is None:  # deleted by retention
                raise NotFound(what="thread")
            uow = self._unit_of_work()
            return (yield from decide(uow, uow.attach(row)))

        return await self._store.run(Command(thread.org_id, (), command_steps, exclusive=True))


def input_of_entry(entry_row: LogEntryRow) -> TextInput:
    """Return the input that a log entry holds."""
    entry = log.decode_entry(entry_row.body)
    assert isinstance(entry, log.UserMessageEntry | log.PeerMessageEntry)  # `input_entry` makes only these
    return TextInput(entry.text, entry.author if isinstance(entry, log.PeerMessageEntry) else None)


def limit_error(exceeded: LimitExceeded) -> ThreadLimit:
    """Return the error for a reached limit."""
    return ThreadLimit(**exceeded._asdict())


def check_settings(holder: Thread, settings: ThreadSettings) -> None:
    """Raise PermissionsExceeded if settings allow more than the tools and permissions of a thread."""
    excess = excess_of(holder, settings)
    if excess is not None:
        raise PermissionsExceeded(what=excess, path=holder.path)


def resume_thread(uow: ThreadUnitOfWork, row: Thread, by: Author, settings: ThreadSettings) -> None:
    """Append the entries of a resumed thread."""
    uow.append_entry(row.thread_id, log.ThreadResumedEntry(by))
    override_base(uow, row.thread_id, settings, "resume")
    add_layers(uow, row.thread_id, settings, "resume")
    if (settings.model, settings.effort, settings.tools, settings.permissions) != (None, None, None, None):
        entry = log.SettingsEntry(
            row.model if settings.model is None else settings.model,
            row.effort if settings.effort is None else settings.effort,
            row.tool_names if settings.tools is None else settings.tools,
            row.permission_map if settings.permissions is None else settings.permissions,
        )
        uow.append_entry(row.thread_id, entry)


def override_base(uow: ThreadUnitOfWork, thread_id: str, settings: ThreadSettings, verb: str) -> None:
    """Set new base instructions as the next version of the thread's own."""
    if settings.base is not None:
        row = uow.get(thread_id)
        version = row.base_version + 1 if row.base_thread == thread_id else 1
        uow.set_base(thread_id, make_base_instructions(settings.base, "override", f"given on {verb}"), version)


def add_layers(uow: ThreadUnitOfWork, thread_id: str, settings: ThreadSettings, verb: str) -> None:
    """Append new versions of layers."""
    if settings.developer is not None:
        version = uow.get(thread_id).developer + 1
        uow.append_entry(
            thread_id, log.InstructionLayerEntry("developer", version, settings.developer, f"given on {verb}")
        )
    if settings.context is not None:
        version = uow.get(thread_id).context + 1
        uow.append_entry(thread_id, log.InstructionLayerEntry("context", version, settings.context, f"given on {verb}"))


def _known_turn(turn_id: str, turn: ThreadTurn | None, *, joined: bool) -> TurnResponse:
    """Return the response to a repeated input, with how its turn ended; a turn that was deleted has ended."""
    status = "completed" if turn is None else turn.status
    return TurnResponse(turn_id, joined=joined, status=status if status in ENDED_TURN_STATUSES else "in_progress")
