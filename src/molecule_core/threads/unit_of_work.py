"""Turns new log entries into rows, writes and events, for one or more threads. Contains no decisions."""

from collections import Counter
from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, Raw
from msgspec.structs import replace

from molecule_core.common.limits import Limits
from molecule_core.common.metrics import MetricIncrements, ThreadMeter
from molecule_core.common.text import encode_json
from molecule_core.store.database import JournalEvent, ReadQuery, Statement, StepRequest, T, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.queries import Params
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer
from molecule_core.threads import fold, metrics
from molecule_core.threads.base_instructions import BaseInstructions
from molecule_core.threads.model import (
    THREAD,
    WAIT_TIMER,
    LogEntryRow,
    Mail,
    Thread,
    ThreadTurn,
    thread_wake_key,
    wait_timer_key,
    work_wake_key,
)
from molecule_core.threads.rules import TreeUsage, active_flags, is_below
from molecule_core.threads.serializers import thread_item
from molecule_core.wire.schemas import thread_log as log
from molecule_core.wire.schemas.thread_log import (
    Author,
    TextInput,
    ThreadClosedPayload,
    ThreadEntry,
    ThreadItemPayload,
    ThreadMailPayload,
    ThreadStatus,
    ThreadStatusChangedPayload,
    TurnCompletedPayload,
    TurnStartedPayload,
)

_TURN_ENTRIES = (log.TurnAcceptedEntry, log.TurnStartedEntry, log.TurnEndedEntry)
ENDED_TURN_STATUSES = ("completed", "failed", "interrupted")


def input_entry(
    text_input: TextInput, by: Author, recipient: str, mail_id: str, *, client_id: str | None = None
) -> log.UserMessageEntry | log.PeerMessageEntry:
    """Return the log entry of input: the user's message, or a forwarded one of another agent.

    `client_id`: the client's key of the input, in its first message."""
    if text_input.peer is None:
        return log.UserMessageEntry(text_input.text, by, UNSET if client_id is None else client_id)
    return log.PeerMessageEntry(
        text=text_input.text,
        author=text_input.peer,
        author_thread_id=None,
        recipient=recipient,
        mail_id=mail_id,
        mail_type="MESSAGE",
    )


def load_thread(thread_id: str) -> Generator[StepRequest, Any, Thread | None]:
    """Read a thread, or None."""
    rows = yield ReadQuery("thread", {"thread_id": thread_id})
    return Thread.from_row(rows[0]) if rows else None


def load_turn(turn_id: str) -> Generator[StepRequest, Any, ThreadTurn | None]:
    """Read a turn, or None."""
    rows = yield ReadQuery("thread_turn", {"turn_id": turn_id})
    return ThreadTurn.from_row(rows[0]) if rows else None


def load_open_calls(thread_id: str, turn_id: str) -> Generator[StepRequest, Any, Counter[str]]:
    """Return the ids of a turn's tool calls that have no output yet, with their numbers."""
    open_call_ids = Counter[str]()
    for row in (yield ReadQuery("thread_calls_of_turn", {"thread_id": thread_id, "turn_id": turn_id})):
        each = log.decode_entry(row[1])
        if isinstance(each, log.ToolCallEntry):
            open_call_ids[each.call_id] += 1
        elif isinstance(each, log.ToolOutputEntry) and open_call_ids[each.call_id]:
            open_call_ids[each.call_id] -= 1
    return open_call_ids


def load_tree_tokens(thread: Thread) -> Generator[StepRequest, Any, int]:
    """Return the tokens that a tree has used."""
    return int((yield ReadQuery("thread_tree_tokens", {"root_id": thread.root_id}))[0][0])


def load_tree_usage(root_id: str, workspace_id: str, since: int) -> Generator[StepRequest, Any, TreeUsage]:
    """Return the use of the limits by a tree and a workspace. It is counted each time, so a slot cannot leak."""
    live, lifetime, tokens = (yield ReadQuery("thread_limit_usage", {"root_id": root_id}))[0]
    recent_spawns = (yield ReadQuery("thread_spawns_since", {"workspace_id": workspace_id, "since": since}))[0][0]
    return TreeUsage(int(live), int(lifetime), int(tokens), int(recent_spawns))


class ThreadUnitOfWork:
    """Changes of one command to threads: new rows, log entries and events."""

    def __init__(self, now: int, limits: Limits, meter: ThreadMeter | None = None) -> None:
        """Initialize with `meter`, which counts the changes after the commit."""
        self.now = now
        self._meter = meter
        self._tally = Counter[tuple[str, ...]]()
        self._limits = limits
        self._rows: dict[str, Thread] = {}
        self._new = set[str]()
        self._unannounced: dict[str, list[JournalEvent]] = {}
        self._trees: dict[str, Sequence[Thread]] = {}
        self._writes = list[Statement]()
        self._events = list[JournalEvent]()
        self._domain_events = list[object]()
        self._notify: dict[str, None] = {}
        self._posted_mail: dict[str, list[Mail]] = {}
        self._ended_turn_ids = set[str]()
        self._stopped_thread_ids = set[str]()

    def attach(self, thread: Thread) -> Thread:
        """Attach a thread; return its changed row if it is attached already."""
        return self._rows.setdefault(thread.thread_id, thread)

    def get(self, thread_id: str) -> Thread:
        """Return the current row of an attached thread."""
        return self._rows[thread_id]

    def is_attached(self, thread_id: str) -> bool:
        """Return whether a thread is attached."""
        return thread_id in self._rows

    def mark_stopped(self, *thread_ids: str) -> None:
        """Mark threads that were at work and are stopped together: ends among them wake none of them."""
        self._stopped_thread_ids.update(thread_ids)

    def is_stopped(self, thread_id: str) -> bool:
        """Return whether a thread is stopped together with others."""
        return thread_id in self._stopped_thread_ids

    def attach_tree(self, threads: Sequence[Thread]) -> None:
        """Attach a tree, whose flags show approvals of descendants."""
        for each in threads:
            self._trees[each.root_id] = threads

    # -- logs ----------------------------------------------------------------------------------------------------------

    def create_thread(self, entry: log.ThreadCreatedEntry) -> Thread:
        """Create a thread. `emit_started` must follow; its event comes before all others of the thread."""
        thread = fold.fold_created(entry, self.now)
        self._rows[thread.thread_id] = thread
        self._new.add(thread.thread_id)
        self._unannounced[thread.thread_id] = []
        self._write_entry(thread, entry, None, None)
        return thread

    def emit_started(self, thread_id: str) -> None:
        """Emit the start of a new thread, then the events of its entries."""
        thread = self._rows[thread_id]
        waiting = self._unannounced.pop(thread_id)
        self._emit("THREAD_STARTED", thread, thread_item(thread, thread.active_flags))
        self._events += waiting

    def append_entry(
        self, thread_id: str, entry: ThreadEntry, *, turn_id: str | None = None, key: str | None = None
    ) -> int:
        """Append an entry and return its ordinal."""
        before = self._rows[thread_id]
        after = self._rows[thread_id] = fold.fold_entry(before, entry, self.now)
        turn_id = entry.turn_id if isinstance(entry, _TURN_ENTRIES) else turn_id
        self._write_entry(after, entry, turn_id, key)
        self.add_metrics(metrics.metrics_for_entry(entry))
        self._emit_turn_event(after, entry)
        if isinstance(entry, log.CollabCallEntry) and entry.tool == "wait":
            self._schedule_wait_timer(after, entry)
        if (before.status, before.message, before.flags, before.waits) != (
            after.status,
            after.message,
            after.flags,
            after.waits,
        ):
            self._emit_status(after)
        if before.flags != after.flags:
            for each in self._trees.get(after.root_id, ()):
                if is_below(after.path, each.path):
                    self._emit_status(self.attach(each))
        return after.last_ordinal

    def set_base(self, thread_id: str, base: BaseInstructions, version: int) -> None:
        """Store base instructions for good and activate them."""
        entry = base.to_entry(thread_id, version)
        self.write(
            "insert_thread_base",
            {
                "thread_id": thread_id,
                "version": version,
                "text": base.text,  # control: base-text
                "provenance": encode_json(base.provenance),
                "sha256": entry.sha256,
                "item_id": entry.item_id,
            },
        )
        self.append_entry(thread_id, replace(entry, text=""))

    def update_lease(self, thread_id: str, **lease: Any) -> None:
        """Change the engine's lease of a thread."""
        self._rows[thread_id] = replace(self._rows[thread_id], **lease)

    def add_metrics(self, tally: MetricIncrements) -> None:
        """Add increments of metrics."""
        self._tally.update(tally)

    def _write_entry(self, thread: Thread, entry: ThreadEntry, turn_id: str | None, key: str | None) -> None:
        body, kind = encode_json(entry), log.entry_type(entry)
        entry_row = LogEntryRow(thread.thread_id, thread.last_ordinal, turn_id, kind, body, self.now)
        self.write("insert_thread_entry", {**entry_row._asdict(), "key": key})
        is_small = len(body) <= self._limits.thread_event_bytes
        shown = Raw(body.encode()) if is_small else None
        payload = ThreadItemPayload(thread.thread_id, thread.root_id, entry_row.ordinal, kind, turn_id, shown)
        self._emit("THREAD_ITEM", thread, payload, rev=entry_row.ordinal)

    def _emit_turn_event(self, thread: Thread, entry: ThreadEntry) -> None:
        ids = (thread.thread_id, thread.root_id)
        match entry:
            case log.TurnStartedEntry():
                self._emit("TURN_STARTED", thread, TurnStartedPayload(*ids, entry.turn_id, entry.generation))
            case log.TurnEndedEntry():
                payload = TurnCompletedPayload(*ids, entry.turn_id, entry.status, entry.error, entry.final)
                self._emit("TURN_COMPLETED", thread, payload)
            case log.ThreadClosedEntry():
                self._emit("THREAD_CLOSED", thread, ThreadClosedPayload(*ids, entry.descendants))
            case _:
                pass

    def _schedule_wait_timer(self, thread: Thread, wait: log.CollabCallEntry) -> None:
        """Set the timer that ends a pending wait at its deadline even if it is not polled; cancel it with the wait."""
        key = wait_timer_key(thread, wait.call_id)
        if wait.status != "inProgress":
            self._writes.append(cancel_timer(WAIT_TIMER, key))
        elif wait.deadline is not None:
            self._writes.append(set_timer(WAIT_TIMER, key, wait.deadline))
            self._notify[TIMERS_KEY] = None

    def _emit_status(self, thread: Thread) -> None:
        tree = [self._rows.get(each.thread_id, each) for each in self._trees.get(thread.root_id, ())]
        status = ThreadStatus(thread.agent_status, thread.message)
        flags = active_flags(thread, tree)
        payload = ThreadStatusChangedPayload(thread.thread_id, thread.root_id, status, flags, thread.revision + 1)
        self._emit("THREAD_STATUS_CHANGED", thread, payload)

    def _emit(self, name: str, thread: Thread, payload: Any, *, rev: int | None = None) -> None:
        encoded = msgspec.json.encode(payload)
        number = thread.revision + 1 if rev is None else rev
        above = None if thread.root_workspace_id == thread.workspace_id else thread.root_workspace_id
        event = JournalEvent(name, thread.workspace_id, THREAD, thread.thread_id, number, encoded, self.now, above)
        self._unannounced.get(thread.thread_id, self._events).append(event)

    # -- turns and mail ------------------------------------------------------------------------------------------------

    def accept_turn(self, thread_id: str, turn: ThreadTurn) -> None:
        """Accept a turn."""
        self.write("insert_thread_turn", turn)
        entry = log.TurnAcceptedEntry(
            turn_id=turn.turn_id,
            trigger=turn.trigger,
            input=turn.input_texts,
            author=turn.input_author,
            key=turn.key,
            requester_thread_id=turn.requester_id,
        )
        self.append_entry(thread_id, entry)

    def end_turn(self, thread_id: str, entry: log.TurnEndedEntry) -> None:
        """End a turn."""
        turn_update = {"turn_id": entry.turn_id, "status": entry.status, "ended_at": self.now}
        self.write("save_thread_turn", turn_update)
        self._ended_turn_ids.add(entry.turn_id)
        self.append_entry(thread_id, entry)

    def has_ended_turn(self, turn_id: str) -> bool:
        """Return whether this command has ended a turn, which the store does not know yet."""
        return turn_id in self._ended_turn_ids

    def post_mail(self, mail: Mail) -> Generator[StepRequest, Any, Mail]:
        """Append mail to the receiver's inbox."""
        posted = self._posted_mail.setdefault(mail.receiver_id, [])
        last = posted[-1].seq if posted else None
        if last is None:
            last = int((yield ReadQuery("thread_mail_last", {"receiver_id": mail.receiver_id}))[0][0])
        sent = replace(mail, seq=last + 1)
        posted.append(sent)
        self.write("insert_thread_mail", sent)
        self._emit_mail_state(sent)
        return sent

    def posted_mail(self, thread_id: str) -> list[Mail]:
        """Return mail to a thread that this command has posted, which the store does not know yet."""
        return self._posted_mail.get(thread_id, [])

    def set_mail_state(self, mail: Mail, state: str, turn_id: str | None) -> None:
        """Change the delivery state of mail."""
        updated = replace(mail, state=state, turn_id=turn_id)
        self.write("save_thread_mail", {"mail_id": mail.mail_id, "state": state, "turn_id": turn_id})
        self._emit_mail_state(updated)

    def _emit_mail_state(self, mail: Mail) -> None:
        self.add_metrics(metrics.metrics_for_mail(mail.state))
        receiver = self._rows[mail.receiver_id]
        for each in dict.fromkeys((mail.receiver_id, mail.author_id)):
            if each is not None and each in self._rows:
                payload = ThreadMailPayload(
                    mail_id=mail.mail_id,
                    mail_type=mail.mail_type,
                    author_thread_id=mail.author_id,
                    receiver_thread_id=mail.receiver_id,
                    root_id=receiver.root_id,
                    state=mail.state,  # type: ignore[arg-type]
                )
                self._emit("THREAD_MAIL", self._rows[each], payload)

    # -- result --------------------------------------------------------------------------------------------------------

    def write(self, name: str, params: Params) -> None:
        """Add a statement."""
        self._writes.append((name, params))

    def add_changes(self, changes: WriteSet[Any]) -> None:
        """Add what another package changes in the same command: statements and domain events."""
        self._writes += changes.writes
        self._domain_events += changes.domain_events

    def to_write_set(self, result: T, *, error: Exception | None = None) -> WriteSet[T]:
        """Return everything as the write set of a command."""
        for thread_id, row in self._rows.items():
            saved = replace(row, revision=row.revision + 1)
            name = "insert_thread" if thread_id in self._new else "save_thread"
            self._writes.append((name, saved))
            self._rows[thread_id] = saved
            self._notify |= dict.fromkeys(
                (thread_wake_key(thread_id), work_wake_key(row.workspace_id), org_key(row.org_id))
            )
        after_commit = None if self._meter is None or not self._tally else partial(self._meter.add, self._tally)
        return WriteSet(
            result, self._writes, self._events, tuple(self._notify), after_commit, error, self._domain_events
        )

    def to_write_set_of_thread(self, thread_id: str) -> WriteSet[Thread]:
        """Return everything as a write set whose result is a thread."""
        return self.to_write_set(None).returning(self._rows[thread_id])
