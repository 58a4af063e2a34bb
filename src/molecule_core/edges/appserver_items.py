"""Threads and the lines of their logs, told in the dialect of app-servers: pure, and the same live and read later.

Above: `edges/appserver.py`, `edges/appserver_calls.py`. Below: the shapes of the wire.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from msgspec.structs import replace

from molecule_core.wire import appserver as app
from molecule_core.wire import threadlog as log
from molecule_core.wire.collabtools import COLLAB
from molecule_core.wire.threads import ThreadItem

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOOLS = {
    "spawn": "spawnAgent",
    "send": "sendMessage",
    "followup": "followupTask",
    "wait": "wait",
    "interrupt": "interruptAgent",
    "close": "closeAgent",
    "resume": "resumeAgent",
    "list": "listAgents",
}
_NAMES = frozenset(spec.name for spec in COLLAB)
_GOES_ON = "inProgress"
STARTED, COMPLETED = "item/started", "item/completed"


class LogLine(NamedTuple):
    """A line of a thread's log. `at`: milliseconds since 1970."""

    thread_id: str
    ordinal: int
    turn_id: str | None
    at: int
    entry: log.Entry

    @property
    def item_id(self) -> str:
        """What the line is called everywhere."""
        return f"{self.thread_id}.{self.ordinal}"

    @classmethod
    def of(cls, thread_id: str, item: log.EntryItem) -> "LogLine":
        """A line of a thread as it is read."""
        return cls(thread_id, item.ordinal, item.turn_id, millis(item.at), log.entry_of(bytes(item.entry).decode()))


class Told(NamedTuple):
    """A notification without its cursor."""

    method: str
    params: dict[str, Any]


def millis(text: str) -> int:
    """An RFC 3339 time as milliseconds since 1970."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)


# -- threads -----------------------------------------------------------------------------------------------------------


def state_of(status: str, flags: list[log.Flag], *, idle: bool | None = None) -> app.State:
    """How a thread stands. `idle`: whether it has nothing to do; from its status alone, if that is not known."""
    if status == "shutdown":
        return app.State(type="notLoaded")
    rests = status in ("interrupted", "completed", "errored") if idle is None else idle
    if not rests:
        return app.State(type="active", active_flags=[_camel(each) for each in flags])
    return app.State(type="systemError" if status == "errored" else "idle")


def thread_of(item: ThreadItem, turns: list[app.Turn] | None = None) -> app.ThreadShape:
    """A thread as the dialect has it."""
    base = item.base
    return app.ThreadShape(
        id=item.thread_id,
        root_thread_id=item.root_id,
        parent_thread_id=item.parent_thread_id,
        requester_thread_id=item.requester_thread_id,
        forked_from_id=None if item.forked_from is None else item.forked_from.thread_id,
        workspace_id=item.workspace_id,
        agent_path=item.path,
        task_name=item.task_name,
        agent_nickname=item.nickname,
        agent_role=item.role,
        kind=item.kind,
        model=item.model,
        reasoning_effort=item.effort,
        status=state_of("shutdown" if item.closed else item.status.type, item.active_flags, idle=item.idle),
        turn_id=item.turn_id,
        queued_turn_ids=item.queued,
        base=app.BaseOf(version=base.version, sha256=base.sha256, item_id=base.item_id, provenance=base.provenance),
        call_id=item.call_id,
        created_at=millis(item.created_at) // 1000,
        updated_at=millis(item.updated_at) // 1000,
        turns=turns or [],
    )


# -- items -------------------------------------------------------------------------------------------------------------


class ItemFold:
    """What is told of each line. It remembers, for each thread, the turn that runs and the calls that are open."""

    def __init__(self) -> None:
        self._turns: dict[str, str] = {}
        self._calls: dict[str, dict[tuple[str, str], app.ToolItem | app.CollabItem]] = {}
        self._acts: dict[type, Callable[[LogLine, Any], list[Told]]] = {
            log.TurnStarted: self._begins,
            log.TurnEnded: self._ends,
            log.ToolCall: self._called,
            log.ToolOutput: self._put_out,
            log.Collab: self._collaborates,
            log.Closed: self._closed,
        }

    def lacks(self, line: LogLine) -> bool:
        """Whether what stands before this line has to be read to tell it: it ends what was begun before this began to
        listen, or another life of an engine goes on with a turn."""
        match line.entry:
            case log.TurnStarted(generation=generation):
                return generation > 1 and line.thread_id not in self._turns
            case log.ToolOutput(call_id=call_id):
                return ("tool", call_id) not in self._open(line)
            case log.Collab(status=status, call_id=call_id):
                return status != _GOES_ON and ("collab", call_id) not in self._open(line)
            case _:
                return False

    def tell(self, line: LogLine) -> list[Told]:
        """The notifications of a line, in order."""
        act = self._acts.get(type(line.entry))
        if act is not None:
            return act(line, line.entry)
        make = _WHOLE.get(type(line.entry))
        item = None if make is None else make(line.item_id, line.entry)
        return [] if item is None else [_started(line, item), _completed(line, item)]

    def _open(self, line: LogLine) -> dict[tuple[str, str], app.ToolItem | app.CollabItem]:
        return self._calls.get(line.thread_id, {})

    def _closed(self, line: LogLine, _entry: log.Closed) -> list[Told]:
        self._forget(line)
        return [Told("thread/closed", {"threadId": line.thread_id})]

    def _forget(self, line: LogLine) -> None:
        self._turns.pop(line.thread_id, None)
        self._calls.pop(line.thread_id, None)

    def _begins(self, line: LogLine, entry: log.TurnStarted) -> list[Told]:
        """Told once, however many lives of engines run it."""
        if self._turns.get(line.thread_id) == entry.turn_id:
            return []
        self._turns[line.thread_id] = entry.turn_id
        turn = app.Turn(id=entry.turn_id, status="inProgress")
        return [Told("turn/started", {"threadId": line.thread_id, "turn": turn, "startedAtMs": line.at})]

    def _ends(self, line: LogLine, entry: log.TurnEnded) -> list[Told]:
        self._forget(line)
        turn = turn_of(entry)
        return [Told("turn/completed", {"threadId": line.thread_id, "turn": turn, "completedAtMs": line.at})]

    def _called(self, line: LogLine, entry: log.ToolCall) -> list[Told]:
        # The call of a collaboration tool is an item of its own with that call's id; this is what the model said.
        name = line.item_id if entry.tool in _NAMES else entry.call_id
        item = app.ToolItem(
            id=name, tool=entry.tool, arguments=entry.arguments, status="inProgress", started_at_ms=line.at
        )
        self._calls.setdefault(line.thread_id, {})["tool", entry.call_id] = item
        return [_started(line, item)]

    def _put_out(self, line: LogLine, entry: log.ToolOutput) -> list[Told]:
        begun = self._open(line).pop(("tool", entry.call_id), None)
        if not isinstance(begun, app.ToolItem):
            begun = app.ToolItem(id=entry.call_id, tool="", arguments=None, status="inProgress")
        item = replace(
            begun,
            status="failed" if entry.is_error else "completed",
            content_items=[app.OutputText(entry.text)],
            success=not entry.is_error,
            completed_at_ms=line.at,
        )
        return [_completed(line, item)]

    def _collaborates(self, line: LogLine, entry: log.Collab) -> list[Told]:
        if entry.status == _GOES_ON:
            item = _call_item(entry, line.at, None)
            self._calls.setdefault(line.thread_id, {})["collab", entry.call_id] = item
            return [_started(line, item)]
        begun = self._open(line).pop(("collab", entry.call_id), None)
        return [_completed(line, _call_item(entry, None if begun is None else begun.started_at_ms, line.at))]


def turn_of(entry: log.TurnEnded) -> app.Turn:
    """A turn that is over."""
    error = None if entry.error is None else {"message": entry.error, "codexErrorInfo": None}
    return app.Turn(id=entry.turn_id, status=entry.status, error=error, final=entry.final)


def turns_in(lines: list[LogLine]) -> list[app.Turn]:
    """The turns of a stretch of a log with their items, as they stand at its end. What belongs to no turn is in one
    whose id is null."""
    fold, turns, items = ItemFold(), dict[str | None, app.Turn](), dict[str | None, dict[str, Any]]()
    for line in lines:
        for told in fold.tell(line):
            item, turn = told.params.get("item"), told.params.get("turn")
            if turn is not None:
                turns[turn.id] = turn
            elif item is not None:
                turns.setdefault(line.turn_id, app.Turn(id=line.turn_id, status=_unsaid(line.turn_id)))
                items.setdefault(line.turn_id, {})[item.id] = item
    return [replace(turn, items=list(items.get(name, {}).values())) for name, turn in turns.items()]


def _unsaid(turn_id: str | None) -> Any:
    """How a turn stands of which no line says so."""
    return "completed" if turn_id is None else "inProgress"


def _started(line: LogLine, item: Any) -> Told:
    return Told(STARTED, {"threadId": line.thread_id, "turnId": line.turn_id, "item": item, "startedAtMs": line.at})


def _completed(line: LogLine, item: Any) -> Told:
    return Told(COMPLETED, {"threadId": line.thread_id, "turnId": line.turn_id, "item": item, "completedAtMs": line.at})


def _peer(name: str, entry: log.PeerMessage) -> app.PeerItem:
    return app.PeerItem(
        id=name,
        text=entry.text,
        author=entry.author,
        author_thread_id=entry.author_thread_id,
        recipient=entry.recipient,
        message_type=entry.mail_type,
        mail_id=entry.mail_id,
    )


# Lines that begin and end at once; what is not here is about the thread, and no item of a turn.
_WHOLE: dict[type, Callable[[str, Any], Any]] = {
    log.UserMessage: lambda name, it: app.UserItem(id=name, content=[app.TextPart(it.text)], author=it.author),
    log.PeerMessage: _peer,
    log.AgentMessage: lambda name, it: app.AgentItem(id=name, text=it.text),
    log.Reasoning: lambda name, it: app.ReasoningItem(id=name, summary=[it.text]),
    log.ContextNote: lambda name, it: app.NoteItem(id=name, text=it.text, origin=it.origin),
    log.Compaction: lambda name, it: app.CompactionItem(id=name, summary=it.summary, upto=it.upto, kind=it.kind),
}


def _call_item(entry: log.Collab, started: int | None, completed: int | None) -> app.CollabItem:
    is_over = entry.status != _GOES_ON
    told = [each for each in entry.agents if entry.tool != "wait" or each.outcome not in (None, "timed_out")]
    receivers = entry.receiver_thread_ids
    if is_over and entry.tool == "wait":
        receivers = [each.thread_id for each in told]
    elif is_over and entry.tool == "spawn" and entry.new_thread_id is not None:
        receivers = [entry.new_thread_id]
    item = app.CollabItem(
        id=entry.call_id,
        tool=_TOOLS[entry.tool],  # type: ignore[arg-type]
        status=entry.status,
        sender_thread_id=entry.sender_thread_id,
        receiver_thread_ids=receivers,
        prompt=entry.prompt,
        model=entry.model,
        reasoning_effort=entry.effort,
        agents_states={
            each.thread_id: app.AgentsState(status=_camel(each.status), message=each.message)  # type: ignore[arg-type]
            for each in (told if is_over else ())
        },
        started_at_ms=started,
        completed_at_ms=completed,
    )
    return _with_more(item, entry) if is_over else item


def _with_more(item: app.CollabItem, entry: log.Collab) -> app.CollabItem:
    agents = [
        app.AgentRef(
            thread_id=each.thread_id,
            agent_path=each.path,
            agent_nickname=each.nickname,
            agent_role=each.role,
            outcome=each.outcome,
        )
        for each in entry.agents
    ]
    return replace(item, receiver_agents=agents, timed_out=entry.timed_out, reason=entry.reason)


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(each.capitalize() for each in rest)
