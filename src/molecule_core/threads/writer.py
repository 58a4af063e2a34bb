"""The hand that changes threads for clients: each verb is one command.

A command that may reach several trees shares its group with nobody: they are rare, and each decides on what the one
before has left. Above: the edges. Below: acts, steps, rules.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any

from molecule_core.ground.clock import Clock, rfc3339
from molecule_core.ground.errors import InvalidField, MessageIdReused, NotFound, WorkspaceRemoved
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.refusals import NoTurn, OtherTurn, ThreadBusy, ThreadClosed, ThreadLimit
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, Decision, Read, Step, Store, T, WriteSet
from molecule_core.threads import rules
from molecule_core.threads.acts import Acts
from molecule_core.threads.bases import BaseInstructions, base_of
from molecule_core.threads.fold import folded
from molecule_core.threads.model import ROOT, Line, Setup, Thread, Turn
from molecule_core.threads.repeats import FIRST_LINES, Asked, is_same_thread, line_key
from molecule_core.threads.rules import Spent, Way
from molecule_core.threads.steps import Change, said_by, thread_row, tree_tokens, turn_row
from molecule_core.wire import threadlog as log
from molecule_core.wire.threadlog import Author, Descendants, Position, TextInput
from molecule_core.wire.threads import TurnTaken

_ALL = (1 << 62) - 1


class ThreadWriter:
    """Starts threads, gives them input, stops, forks, resumes and closes them."""

    def __init__(self, store: Store, org: OrgReader, acts: Acts, *, clock: Clock, ids: Ids, limits: Limits) -> None:
        self._store = store
        self._org = org
        self._acts = acts
        self._clock = clock
        self._ids = ids
        self._limits = limits

    # -- starting ------------------------------------------------------------------------------------------------------

    async def start(
        self,
        seat: Workspace,
        base: BaseInstructions,
        setup: Setup,
        *,
        by: Author,
        nickname: str = "",
        role: str | None = None,
        texts: Sequence[TextInput] = (),
        key: str | None = None,
    ) -> Thread:
        """A new root thread of a workspace, and its first turn if there is input. The same under the same key is the
        first one. Raises WorkspaceRemoved, MessageIdReused."""
        given = base.text if base.provenance.type == "override" else None

        def decide() -> Decision[Thread]:
            self._check_living(seat.id)
            known = yield from self._known(seat.id, key, Asked(base=given, texts=texts))
            if known is not None:
                return WriteSet(known)
            change, thread_id = self._change(), self._ids.new()
            created = log.Created(
                **self._identity(seat, thread_id, nickname, role),
                forked_from=None,
                kind="root",
                model=setup.model,
                effort=setup.effort,
                tools=setup.tools,
                permissions=setup.permissions,
            )
            change.born(created)
            change.base(thread_id, base, 1)
            add_layers(change, thread_id, setup, "start")
            change.announce(thread_id)
            if texts:
                self._acts.turn(change, thread_id, texts, trigger="user", author=by)
            return self._kept(change, seat.id, key, thread_id)

        return await self._store.run(Command(seat.org_id, (), decide, alone=True))

    async def fork(
        self, source: Thread, seat: Workspace, setup: Setup, *, position: int | None, nickname: str, key: str | None
    ) -> Thread:
        """A thread that goes on from another one, which it refers to and does not copy: base instructions, model,
        effort, tools and permissions are the source's there, unless they are overridden. Raises InvalidField,
        WorkspaceRemoved, MessageIdReused."""

        def decide() -> Decision[Thread]:
            self._check_living(seat.id)
            known = yield from self._known(seat.id, key, Asked(base=setup.base, source=source, position=position))
            if known is not None:
                return WriteSet(known)
            at = yield from self._whole(source, position)
            then = yield from self._as_of(source, at)
            if not then.base_version:
                raise InvalidField(
                    reason=f"position {at} is before the thread had its base instructions; name a later one"
                )
            change, thread_id = self._change(), self._ids.new()
            created = log.Created(
                **self._identity(seat, thread_id, nickname or then.nickname, then.role),
                forked_from=Position(source.thread_id, at),
                kind="fork",
                model=then.model if setup.model is None else setup.model,
                effort=then.effort if setup.effort is None else setup.effort,
                tools=then.tool_names if setup.tools is None else setup.tools,
                permissions=then.allowed if setup.permissions is None else setup.permissions,
                base=then.base,
                developer=then.developer,
                context=then.context,
            )
            change.born(created)
            override_base(change, thread_id, setup, "fork")
            add_layers(change, thread_id, setup, "fork")
            change.announce(thread_id)
            return self._kept(change, seat.id, key, thread_id)

        return await self._store.run(Command(seat.org_id, (), decide, alone=True))

    def _whole(self, source: Thread, position: int | None) -> Generator[Step, Any, int]:
        """Up to where a fork sees its source: not into a turn that runs."""
        row = yield from thread_row(source.thread_id)
        if row is None:
            raise NotFound(what="thread")
        if position is not None:
            if not 0 < position <= row.last_ordinal:
                raise InvalidField(reason=f"position must be from 1 to {row.last_ordinal}, the thread's last ordinal")
            return position
        if row.turn_id is None:
            return row.last_ordinal
        starts = yield Read("thread_turn_starts", {"thread_id": row.thread_id, "count": 1})
        return int(starts[0][0]) - 1

    def _as_of(self, source: Thread, at: int) -> Generator[Step, Any, Thread]:
        wish = {"thread_id": source.thread_id, "after": 0, "upto": at, "count": _ALL}
        lines = [Line(*row) for row in (yield Read("thread_entries_after", wish))]
        return folded((log.entry_of(each.body), each.at) for each in lines)

    def _identity(self, seat: Workspace, thread_id: str, nickname: str, role: str | None) -> dict[str, Any]:
        """What every root is."""
        return {
            "thread_id": thread_id,
            "org_id": seat.org_id,
            "workspace_id": seat.id,
            "root_id": thread_id,
            "parent_thread_id": None,
            "requester_thread_id": None,
            "path": ROOT,
            "task_name": ROOT,
            "nickname": nickname or seat.name,
            "role": role,
            "call_id": None,
            "wake": "wake",
        }

    def _known(self, workspace_id: str, key: str | None, asked: Asked) -> Generator[Step, Any, Thread | None]:
        if key is None:
            return None
        rows = yield Read("thread_by_key", {"workspace_id": workspace_id, "key": key})
        if not rows:
            return None
        wish = {"thread_id": rows[0][0], "after": 0, "upto": FIRST_LINES, "count": FIRST_LINES}
        lines = [log.entry_of(Line(*row).body) for row in (yield Read("thread_entries_after", wish))]
        if not is_same_thread(asked, key, lines):
            raise MessageIdReused(message_id=key)
        return (yield from thread_row(rows[0][0]))

    def _kept(self, change: Change, workspace_id: str, key: str | None, thread_id: str) -> WriteSet[Thread]:
        if key is not None:
            # control: thread-key
            change.write("keep_thread_key", {"workspace_id": workspace_id, "key": key, "thread_id": thread_id})
        return change.standing(thread_id)

    # -- input ---------------------------------------------------------------------------------------------------------

    async def turn(
        self,
        thread: Thread,
        texts: Sequence[TextInput],
        *,
        by: Author,
        mode: str = "auto",
        expected: str | None = None,
        key: str | None = None,
    ) -> TurnTaken:
        """Input joins the turn that runs, if that answers, or gets one of its own. The same under the same key is taken
        once. Raises NotFound, MessageIdReused, ThreadClosed, NoTurn, OtherTurn, ThreadLimit."""

        def decide(change: Change, row: Thread) -> Decision[TurnTaken]:
            known = yield from self._taken(row, key, texts)
            if known is not None:
                return WriteSet(known)
            running = None if row.turn_id is None else (yield from turn_row(row.turn_id))
            way = rules.way_of(row, mode, expected, None if running is None else running.trigger)
            if way is Way.STEER and row.turn_id is not None:
                for number, each in enumerate(texts):
                    name = None if key is None else line_key(key, number)
                    said = said_by(each, by, row.path, f"{row.turn_id}.{row.last_ordinal}.{number}")
                    change.add(row.thread_id, said, turn_id=row.turn_id, key=name)
                return change.written(TurnTaken(row.turn_id, joined=True))
            self._check_way(row, way, expected)
            yield from self._check_room(row)
            # control: turn-key
            turn = self._acts.turn(change, row.thread_id, texts, trigger="user", author=by, key=key)
            return change.written(TurnTaken(turn.turn_id, joined=False))

        return await self._run(thread, decide)

    def _taken(
        self, row: Thread, key: str | None, texts: Sequence[TextInput]
    ) -> Generator[Step, Any, TurnTaken | None]:
        if key is None:
            return None
        rows = yield Read("thread_turn_by_key", {"thread_id": row.thread_id, "key": key})
        if rows:
            turn = Turn.of(rows[0])
            taken, said = TurnTaken(turn.turn_id, joined=False), turn.texts
        else:
            lines = yield from self._joined(row, key, len(texts) + 1)
            if not lines:
                return None
            taken, said = TurnTaken(str(lines[0].turn_id), joined=True), [text_of(each) for each in lines]
        if said != list(texts):
            raise MessageIdReused(message_id=key)
        return taken

    def _joined(self, row: Thread, key: str, most: int) -> Generator[Step, Any, list[Line]]:
        """The lines of an input that has joined a turn, at most so many."""
        lines = list[Line]()
        for number in range(most):
            wish = {"thread_id": row.thread_id, "key": line_key(key, number)}
            found = yield Read("thread_entry_by_key", wish)
            if not found:
                break
            lines.append(Line(*found[0]))
        return lines

    def _check_way(self, row: Thread, way: Way, expected: str | None) -> None:
        if way is Way.CLOSED:
            raise ThreadClosed
        if way is Way.IDLE:
            raise NoTurn
        if way is Way.OTHER:
            raise OtherTurn(turn_id=row.turn_id, expected=expected)

    def _check_room(self, row: Thread) -> Generator[Step, Any, None]:
        if len(row.queued) >= self._limits.thread_queue:
            use, most = len(row.queued), self._limits.thread_queue
            raise limit_reached(Spent("thread_queue", use, most, "turns that wait", "Wait until some have ended."))
        spent = rules.spent_of(row, (yield from tree_tokens(row)), self._limits)
        if spent is not None and spent.limit != "turn_tokens":
            raise limit_reached(spent)

    async def compact(self, thread: Thread, by: Author) -> TurnTaken:
        """A turn in which its engine sums up what was said. Raises NotFound, ThreadClosed, ThreadLimit."""

        def decide(change: Change, row: Thread) -> Decision[TurnTaken]:
            self._check_way(row, rules.way_of(row, "queue", None, None), None)
            yield from self._check_room(row)
            turn = self._acts.turn(change, row.thread_id, [], trigger="compact", author=by)
            return change.written(TurnTaken(turn.turn_id, joined=False))

        return await self._run(thread, decide)

    # -- stopping and going on -----------------------------------------------------------------------------------------

    async def interrupt(self, thread: Thread, by: Author, descendants: Descendants) -> Thread:
        """The turn that runs ends at once; its engine hears of it with its next call. Raises NotFound."""

        def decide(change: Change, row: Thread) -> Decision[Thread]:
            yield from self._acts.stop(change, row.thread_id, "interrupt", by, descendants)
            return change.standing(row.thread_id)

        return await self._run(thread, decide)

    async def close(self, thread: Thread, by: Author, descendants: Descendants) -> Thread:
        """It takes nothing more; again changes nothing. Raises NotFound."""

        def decide(change: Change, row: Thread) -> Decision[Thread]:
            if row.closed:
                return WriteSet(row)
            yield from self._acts.stop(change, row.thread_id, "close", by, descendants)
            return change.standing(row.thread_id)

        return await self._run(thread, decide)

    async def resume(self, thread: Thread, by: Author, setup: Setup) -> Thread:
        """Somebody takes it up again, perhaps with something otherwise, kept as a new version.
        Raises NotFound, ThreadBusy, WorkspaceRemoved."""

        def decide(change: Change, row: Thread) -> Decision[Thread]:
            yield from ()
            self._check_living(row.workspace_id)
            if row.turn_id is not None and setup != Setup():
                raise ThreadBusy(turn_id=row.turn_id, what="what it works with is changed between turns only.")
            resume_in(change, row, by, setup)
            return change.standing(row.thread_id)

        return await self._run(thread, decide)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _check_living(self, workspace_id: str) -> None:
        """A seat that is removed gets no thread, also if its removal was decided just before."""
        seat = self._org.workspace(workspace_id)
        if seat is None:
            raise NotFound(what="workspace")
        if seat.removed_at is not None:
            raise WorkspaceRemoved(id=seat.id, removed_at=rfc3339(seat.removed_at))

    def _change(self) -> Change:
        return Change(self._clock.now(), self._limits, self._acts.meter)

    async def _run(self, thread: Thread, decide: Callable[[Change, Thread], Decision[T]]) -> T:
        """One command about a thread, as it stands then."""

        def deciding() -> Decision[T]:
            row = yield from thread_row(thread.thread_id)
            if row is None:  # retention has taken it
                raise NotFound(what="thread")
            change = self._change()
            return (yield from decide(change, change.take(row)))

        return await self._store.run(Command(thread.org_id, (), deciding, alone=True))


def text_of(line: Line) -> TextInput:
    """The input that stands in a line of a log."""
    said = log.entry_of(line.body)
    assert isinstance(said, log.UserMessage | log.PeerMessage)  # what input becomes: `said_by`
    return TextInput(said.text, said.author if isinstance(said, log.PeerMessage) else None)


def limit_reached(spent: Spent) -> ThreadLimit:
    """The refusal of a limit."""
    return ThreadLimit(**spent._asdict())


def resume_in(change: Change, row: Thread, by: Author, setup: Setup) -> None:
    """A thread is taken up again."""
    change.add(row.thread_id, log.Resumed(by))
    override_base(change, row.thread_id, setup, "resume")
    add_layers(change, row.thread_id, setup, "resume")
    if (setup.model, setup.effort, setup.tools, setup.permissions) != (None, None, None, None):
        entry = log.SettingsSet(
            row.model if setup.model is None else setup.model,
            row.effort if setup.effort is None else setup.effort,
            row.tool_names if setup.tools is None else setup.tools,
            row.allowed if setup.permissions is None else setup.permissions,
        )
        change.add(row.thread_id, entry)


def override_base(change: Change, thread_id: str, setup: Setup, verb: str) -> None:
    """New base instructions, as the next version of the thread's own."""
    if setup.base is not None:
        row = change.of(thread_id)
        version = row.base_version + 1 if row.base_thread == thread_id else 1
        change.base(thread_id, base_of(setup.base, "override", f"given on {verb}"), version)


def add_layers(change: Change, thread_id: str, setup: Setup, verb: str) -> None:
    """New versions of layers."""
    if setup.developer is not None:
        version = change.of(thread_id).developer + 1
        change.add(thread_id, log.Layer("developer", version, setup.developer, f"given on {verb}"))
    if setup.context is not None:
        version = change.of(thread_id).context + 1
        change.add(thread_id, log.Layer("context", version, setup.context, f"given on {verb}"))
