"""Converts threads and their log entries to the app-server protocol. Pure; the same for live and stored entries."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from msgspec import UNSET
from msgspec.structs import replace

from molecule_core.common.version import VERSION
from molecule_core.tools.collaboration_specs import COLLABORATION_TOOLS
from molecule_core.wire.protocols import app_server as app
from molecule_core.wire.schemas import thread_log as log
from molecule_core.wire.schemas.threads import ThreadItem

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TOOL_NAMES = {
    "spawn": "spawnAgent",
    "send": "sendMessage",
    "followup": "followupTask",
    "wait": "wait",
    "interrupt": "interruptAgent",
    "close": "closeAgent",
    "resume": "resumeAgent",
    "list": "listAgents",
}
_COLLAB_TOOL_NAMES = frozenset(spec.name for spec in COLLABORATION_TOOLS)
_IN_PROGRESS = "inProgress"
_PROVIDER = "molecule"
STARTED, COMPLETED = "item/started", "item/completed"


class ThreadLogLine(NamedTuple):
    """Entry of a thread log. `at`: milliseconds since 1970."""

    thread_id: str
    ordinal: int
    turn_id: str | None
    at: int
    entry: log.ThreadEntry

    @property
    def item_id(self) -> str:
        """Return the item id of the entry."""
        return f"{self.thread_id}.{self.ordinal}"

    @classmethod
    def from_entry(cls, thread_id: str, item: log.EntryItem) -> "ThreadLogLine":
        """Convert a stored entry."""
        return cls(
            thread_id, item.ordinal, item.turn_id, to_millis(item.at), log.decode_entry(bytes(item.entry).decode())
        )


class PendingNotification(NamedTuple):
    """Notification to which the connection adds the cursor."""

    method: str
    params: dict[str, Any]


def to_millis(text: str) -> int:
    """Convert an RFC 3339 time to milliseconds since 1970."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1)


# -- threads -----------------------------------------------------------------------------------------------------------


def thread_state(status: str, flags: list[log.ThreadFlag], *, idle: bool | None = None) -> app.AppThreadStatus:
    """Return the protocol's thread status. `idle` is derived from `status` if it is not known."""
    if status == "shutdown":
        return app.AppThreadStatus(type="notLoaded")
    is_idle = status in ("interrupted", "completed", "errored") if idle is None else idle
    if not is_idle:
        return app.AppThreadStatus(type="active", active_flags=[to_camel_case(each) for each in flags])
    return app.AppThreadStatus(type="systemError" if status == "errored" else "idle")


def thread_shape(item: ThreadItem, turns: list[app.AppTurn] | None = None) -> app.AppThread:
    """Convert a thread to the protocol's shape."""
    base = item.base
    return app.AppThread(
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
        status=thread_state("shutdown" if item.closed else item.status.type, item.active_flags, idle=item.idle),
        turn_id=item.turn_id,
        queued_turn_ids=item.queued,
        base=app.AppBaseInstructions(
            version=base.version, sha256=base.sha256, item_id=base.item_id, provenance=base.provenance
        ),
        call_id=item.call_id,
        session_id=item.root_id,
        name=item.nickname,
        preview=item.task_name,
        model_provider=_PROVIDER,
        cwd="/",
        cli_version=VERSION,
        source="appServer",
        ephemeral=False,
        project_id=None,
        created_at=to_millis(item.created_at) // 1000,
        updated_at=to_millis(item.updated_at) // 1000,
        turns=turns or [],
    )


# -- items -------------------------------------------------------------------------------------------------------------


class ItemBuilder:
    """Builds the notifications of log entries. Tracks the running turn and the open calls of each thread."""

    def __init__(self) -> None:
        self._running_turns: dict[str, str] = {}
        self._open_calls: dict[str, dict[tuple[str, str], app.ToolCallItem | app.CollabCallItem]] = {}
        self._handlers: dict[type, Callable[[ThreadLogLine, Any], list[PendingNotification]]] = {
            log.TurnStartedEntry: self._turn_started,
            log.TurnEndedEntry: self._turn_ended,
            log.ToolCallEntry: self._tool_called,
            log.ToolOutputEntry: self._tool_output,
            log.CollabCallEntry: self._collab_call,
            log.ThreadClosedEntry: self._thread_closed,
        }

    def running_turn(self, thread_id: str) -> str | None:
        """Return the running turn of a thread, if this builder has seen it begin."""
        return self._running_turns.get(thread_id)

    def needs_history(self, log_line: ThreadLogLine) -> bool:
        """Return whether earlier entries must be read first.

        True if the entry ends something that began before this builder saw the thread, or if a new engine generation
        continues a turn."""
        match log_line.entry:
            case log.TurnStartedEntry(generation=generation):
                return generation > 1 and log_line.thread_id not in self._running_turns
            case log.ToolOutputEntry(call_id=call_id):
                return ("tool", call_id) not in self._open_calls_of(log_line)
            case log.CollabCallEntry(status=status, call_id=call_id):
                return status != _IN_PROGRESS and ("collab", call_id) not in self._open_calls_of(log_line)
            case _:
                return False

    def notifications_for(self, log_line: ThreadLogLine) -> list[PendingNotification]:
        """Return the notifications of an entry, in order."""
        handler = self._handlers.get(type(log_line.entry))
        if handler is not None:
            return handler(log_line, log_line.entry)
        factory = _ITEM_FACTORIES.get(type(log_line.entry))
        item = None if factory is None else factory(log_line.item_id, log_line.entry)
        return [] if item is None else [_item_started(log_line, item), _item_completed(log_line, item)]

    def _open_calls_of(self, log_line: ThreadLogLine) -> dict[tuple[str, str], app.ToolCallItem | app.CollabCallItem]:
        return self._open_calls.get(log_line.thread_id, {})

    def _thread_closed(self, log_line: ThreadLogLine, _entry: log.ThreadClosedEntry) -> list[PendingNotification]:
        self._forget_thread(log_line)
        return [PendingNotification("thread/closed", {"threadId": log_line.thread_id})]

    def _forget_thread(self, log_line: ThreadLogLine) -> None:
        self._running_turns.pop(log_line.thread_id, None)
        self._open_calls.pop(log_line.thread_id, None)

    def _turn_started(self, log_line: ThreadLogLine, entry: log.TurnStartedEntry) -> list[PendingNotification]:
        """Return the notification once per turn, whatever the number of engine generations that run it."""
        if self._running_turns.get(log_line.thread_id) == entry.turn_id:
            return []
        self._running_turns[log_line.thread_id] = entry.turn_id
        turn = app.AppTurn(id=entry.turn_id, status="inProgress")
        return [
            PendingNotification(
                "turn/started", {"threadId": log_line.thread_id, "turn": turn, "startedAtMs": log_line.at}
            )
        ]

    def _turn_ended(self, log_line: ThreadLogLine, entry: log.TurnEndedEntry) -> list[PendingNotification]:
        self._forget_thread(log_line)
        turn = ended_turn(entry)
        return [
            PendingNotification(
                "turn/completed", {"threadId": log_line.thread_id, "turn": turn, "completedAtMs": log_line.at}
            )
        ]

    def _tool_called(self, log_line: ThreadLogLine, entry: log.ToolCallEntry) -> list[PendingNotification]:
        # A collaboration call is an item of its own under this call id; the item here is what the model wrote.
        name = log_line.item_id if entry.tool in _COLLAB_TOOL_NAMES else entry.call_id
        item = app.ToolCallItem(
            id=name, tool=entry.tool, arguments=entry.arguments, status="inProgress", started_at_ms=log_line.at
        )
        self._open_calls.setdefault(log_line.thread_id, {})["tool", entry.call_id] = item
        return [_item_started(log_line, item)]

    def _tool_output(self, log_line: ThreadLogLine, entry: log.ToolOutputEntry) -> list[PendingNotification]:
        open_item = self._open_calls_of(log_line).pop(("tool", entry.call_id), None)
        if not isinstance(open_item, app.ToolCallItem):
            open_item = app.ToolCallItem(id=entry.call_id, tool="", arguments=None, status="inProgress")
        item = replace(
            open_item,
            status="failed" if entry.is_error else "completed",
            content_items=[app.ToolOutputText(entry.text)],
            success=not entry.is_error,
            completed_at_ms=log_line.at,
        )
        return [_item_completed(log_line, item)]

    def _collab_call(self, log_line: ThreadLogLine, entry: log.CollabCallEntry) -> list[PendingNotification]:
        if entry.status == _IN_PROGRESS:
            item = _collab_item(entry, log_line.at, None)
            self._open_calls.setdefault(log_line.thread_id, {})["collab", entry.call_id] = item
            return [_item_started(log_line, item)]
        open_item = self._open_calls_of(log_line).pop(("collab", entry.call_id), None)
        return [
            _item_completed(
                log_line, _collab_item(entry, None if open_item is None else open_item.started_at_ms, log_line.at)
            )
        ]


def ended_turn(entry: log.TurnEndedEntry) -> app.AppTurn:
    """Return an ended turn."""
    error = None if entry.error is None else {"message": entry.error, "codexErrorInfo": None}
    return app.AppTurn(id=entry.turn_id, status=entry.status, error=error, final=entry.final)


def turns_from_lines(log_lines: list[ThreadLogLine]) -> list[app.AppTurn]:
    """Build the turns of a section of a log, with their items, as of its end.

    Entries without a turn are in a turn whose id is null."""
    builder, turns, items = ItemBuilder(), dict[str | None, app.AppTurn](), dict[str | None, dict[str, Any]]()
    for log_line in log_lines:
        for reported in builder.notifications_for(log_line):
            item, turn = reported.params.get("item"), reported.params.get("turn")
            if turn is not None:
                turns[turn.id] = turn
            elif item is not None:
                turns.setdefault(
                    log_line.turn_id, app.AppTurn(id=log_line.turn_id, status=_default_turn_status(log_line.turn_id))
                )
                items.setdefault(log_line.turn_id, {})[item.id] = item
    return [replace(turn, items=list(items.get(name, {}).values())) for name, turn in turns.items()]


def _default_turn_status(turn_id: str | None) -> Any:
    """Return the status of a turn without an entry about its status."""
    return "completed" if turn_id is None else "inProgress"


def _item_started(log_line: ThreadLogLine, item: Any) -> PendingNotification:
    return PendingNotification(
        STARTED, {"threadId": log_line.thread_id, "turnId": log_line.turn_id, "item": item, "startedAtMs": log_line.at}
    )


def _item_completed(log_line: ThreadLogLine, item: Any) -> PendingNotification:
    return PendingNotification(
        COMPLETED,
        {"threadId": log_line.thread_id, "turnId": log_line.turn_id, "item": item, "completedAtMs": log_line.at},
    )


def _peer_item(name: str, entry: log.PeerMessageEntry) -> app.PeerItem:
    return app.PeerItem(
        id=name,
        text=entry.text,
        author=entry.author,
        author_thread_id=entry.author_thread_id,
        recipient=entry.recipient,
        message_type=entry.mail_type,
        mail_id=entry.mail_id,
    )


# Entries that are complete at once. Entries missing here concern the thread and are no items of a turn.
_ITEM_FACTORIES: dict[type, Callable[[str, Any], Any]] = {
    log.UserMessageEntry: lambda name, it: app.UserItem(
        id=name,
        content=[app.UserTextPart(it.text)],
        author=it.author,
        client_id=None if it.client_id is UNSET else it.client_id,
    ),
    log.PeerMessageEntry: _peer_item,
    log.AgentMessageEntry: lambda name, it: app.AgentItem(id=name, text=it.text),
    log.ReasoningEntry: lambda name, it: app.ReasoningItem(id=name, summary=[it.text]),
    log.ContextNoteEntry: lambda name, it: app.ContextNoteItem(id=name, text=it.text, origin=it.origin),
    log.CompactionEntry: lambda name, it: app.CompactionItem(id=name, summary=it.summary, upto=it.upto, kind=it.kind),
}


def _collab_item(entry: log.CollabCallEntry, started: int | None, completed: int | None) -> app.CollabCallItem:
    is_over = entry.status != _IN_PROGRESS
    reported = [each for each in entry.agents if entry.tool != "wait" or each.outcome not in (None, "timed_out")]
    receivers = entry.receiver_thread_ids
    if is_over and entry.tool == "wait":
        receivers = [each.thread_id for each in reported]
    elif is_over and entry.tool == "spawn" and entry.new_thread_id is not None:
        receivers = [entry.new_thread_id]
    item = app.CollabCallItem(
        id=entry.call_id,
        tool=_TOOL_NAMES[entry.tool],  # type: ignore[arg-type]
        status=entry.status,
        sender_thread_id=entry.sender_thread_id,
        receiver_thread_ids=receivers,
        prompt=entry.prompt,
        model=entry.model,
        reasoning_effort=entry.effort,
        agents_states={
            each.thread_id: app.CollabAgentState(status=to_camel_case(each.status), message=each.message)  # type: ignore[arg-type]
            for each in (reported if is_over else ())
        },
        started_at_ms=started,
        completed_at_ms=completed,
    )
    return _with_result(item, entry) if is_over else item


def _with_result(item: app.CollabCallItem, entry: log.CollabCallEntry) -> app.CollabCallItem:
    agents = [
        app.CollabAgentRef(
            thread_id=each.thread_id,
            agent_path=each.path,
            agent_nickname=each.nickname,
            agent_role=each.role,
            outcome=each.outcome,
        )
        for each in entry.agents
    ]
    return replace(item, receiver_agents=agents, timed_out=entry.timed_out, reason=entry.reason)


def to_camel_case(name: str) -> str:
    """Return a name in snake_case as camelCase."""
    head, *rest = name.split("_")
    return head + "".join(each.capitalize() for each in rest)
