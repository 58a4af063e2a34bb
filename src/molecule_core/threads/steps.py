"""Steps without decisions: what is written and told when lines are added to logs. One change may touch several threads.

Above: the hands of this slice. Below: fold, items, rules.
"""

from collections import Counter
from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import Tally, ThreadMeter
from molecule_core.store.database import Event, Read, Step, T, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.queries import Params
from molecule_core.store.timers import TIMERS, no_timer, timer
from molecule_core.threads import counting, fold
from molecule_core.threads.bases import BaseInstructions
from molecule_core.threads.items import item_of
from molecule_core.threads.model import THREAD, WAIT, Line, Mail, Thread, Turn, thread_key, wait_key, work_key
from molecule_core.threads.rules import Room, flags_of, is_below
from molecule_core.wire import threadlog as log
from molecule_core.wire.threadlog import (
    Author,
    Entry,
    TextInput,
    ThreadClosed,
    ThreadMail,
    ThreadNews,
    ThreadStatus,
    ThreadStatusChanged,
    TurnBegan,
    TurnCompleted,
)

Statement = tuple[str, Params]
_BELONGS_TO_A_TURN = (log.TurnAccepted, log.TurnStarted, log.TurnEnded)
ENDED = ("completed", "failed", "interrupted")


def said_by(given: TextInput, by: Author, recipient: str, mail_id: str) -> log.UserMessage | log.PeerMessage:
    """Input as it stands in the log: the user's words, or those of another agent that were passed on."""
    if given.peer is None:
        return log.UserMessage(given.text, by)
    return log.PeerMessage(
        text=given.text,
        author=given.peer,
        author_thread_id=None,
        recipient=recipient,
        mail_id=mail_id,
        mail_type="MESSAGE",
    )


def thread_row(thread_id: str) -> Generator[Step, Any, Thread | None]:
    """A thread as it stands."""
    rows = yield Read("thread", {"thread_id": thread_id})
    return Thread.of(rows[0]) if rows else None


def turn_row(turn_id: str) -> Generator[Step, Any, Turn | None]:
    """A turn as it stands."""
    rows = yield Read("thread_turn", {"turn_id": turn_id})
    return Turn.of(rows[0]) if rows else None


def open_calls(thread_id: str, turn_id: str) -> Generator[Step, Any, Counter[str]]:
    """The calls of tools of a turn that have no output yet, by their names."""
    still = Counter[str]()
    for row in (yield Read("thread_calls_of_turn", {"thread_id": thread_id, "turn_id": turn_id})):
        each = log.entry_of(row[1])
        if isinstance(each, log.ToolCall):
            still[each.call_id] += 1
        elif isinstance(each, log.ToolOutput) and still[each.call_id]:
            still[each.call_id] -= 1
    return still


def tree_tokens(thread: Thread) -> Generator[Step, Any, int]:
    """What a tree has cost."""
    return int((yield Read("thread_tree_tokens", {"root_id": thread.root_id}))[0][0])


def tree_room(root_id: str, workspace_id: str, since: int) -> Generator[Step, Any, Room]:
    """What a tree and a workspace use of their limits. Counted, not kept: so a slot cannot leak."""
    live, lifetime, tokens = (yield Read("thread_room", {"root_id": root_id}))[0]
    lately = (yield Read("thread_spawns_since", {"workspace_id": workspace_id, "since": since}))[0][0]
    return Room(int(live), int(lifetime), int(tokens), int(lately))


class Change:
    """What one command does to threads: their rows as they will be, lines of logs, and what is told of it."""

    def __init__(self, now: int, limits: Limits, meter: ThreadMeter | None = None) -> None:
        """`meter` counts it, once it is on disk."""
        self.now = now
        self._meter = meter
        self._tally = Counter[tuple[str, ...]]()
        self._limits = limits
        self._rows: dict[str, Thread] = {}
        self._new = set[str]()
        self._untold: dict[str, list[Event]] = {}
        self._trees: dict[str, Sequence[Thread]] = {}
        self._writes = list[Statement]()
        self._events = list[Event]()
        self._rings: dict[str, None] = {}
        self._posted: dict[str, list[Mail]] = {}
        self._ended = set[str]()
        self._stopped = set[str]()

    def take(self, thread: Thread) -> Thread:
        """A thread takes part; as this change has made it, if it does already."""
        return self._rows.setdefault(thread.thread_id, thread)

    def of(self, thread_id: str) -> Thread:
        """How a thread of this change stands now."""
        return self._rows[thread_id]

    def has(self, thread_id: str) -> bool:
        """Whether a thread takes part."""
        return thread_id in self._rows

    def stop(self, *thread_ids: str) -> None:
        """These threads were at work and are stopped together: what ends among them wakes none of them."""
        self._stopped.update(thread_ids)

    def is_stopped(self, thread_id: str) -> bool:
        """Whether a thread is stopped together with others."""
        return thread_id in self._stopped

    def knows_tree(self, threads: Sequence[Thread]) -> None:
        """The tree, for who waits for approvals of those below it."""
        for each in threads:
            self._trees[each.root_id] = threads

    # -- logs ----------------------------------------------------------------------------------------------------------

    def born(self, entry: log.Created) -> Thread:
        """A new thread. It is told of with `announce`, before anything else of it."""
        thread = fold.born(entry, self.now)
        self._rows[thread.thread_id] = thread
        self._new.add(thread.thread_id)
        self._untold[thread.thread_id] = []
        self._line(thread, entry, None, None)
        return thread

    def announce(self, thread_id: str) -> None:
        """The new thread is told of as a whole, and then line by line."""
        thread = self._rows[thread_id]
        waiting = self._untold.pop(thread_id)
        self._tell("THREAD_STARTED", thread, item_of(thread, thread.flagged))
        self._events += waiting

    def add(self, thread_id: str, entry: Entry, *, turn_id: str | None = None, key: str | None = None) -> int:
        """A line is added; its ordinal."""
        before = self._rows[thread_id]
        after = self._rows[thread_id] = fold.advance(before, entry, self.now)
        turn_id = entry.turn_id if isinstance(entry, _BELONGS_TO_A_TURN) else turn_id
        self._line(after, entry, turn_id, key)
        self.counts(counting.tally_of(entry))
        self._turned(after, entry)
        if isinstance(entry, log.Collab) and entry.tool == "wait":
            self._timed(after, entry)
        if (before.status, before.message, before.flags, before.waits) != (
            after.status,
            after.message,
            after.flags,
            after.waits,
        ):
            self._stands(after)
        if before.flags != after.flags:
            for each in self._trees.get(after.root_id, ()):
                if is_below(after.path, each.path):
                    self._stands(self.take(each))
        return after.last_ordinal

    def base(self, thread_id: str, base: BaseInstructions, version: int) -> None:
        """Base instructions are put into force, and written down for good."""
        entry = base.version(thread_id, version)
        self.write(
            "insert_thread_base",
            {
                "thread_id": thread_id,
                "version": version,
                "text": base.text,  # control: base-text
                "provenance": _text(base.provenance),
                "sha256": entry.sha256,
                "item_id": entry.item_id,
            },
        )
        self.add(thread_id, replace(entry, text=""))

    def put(self, thread_id: str, **lease: Any) -> None:
        """Who may write to it changes."""
        self._rows[thread_id] = replace(self._rows[thread_id], **lease)

    def counts(self, tally: Tally) -> None:
        """So much is counted of it."""
        self._tally.update(tally)

    def _line(self, thread: Thread, entry: Entry, turn_id: str | None, key: str | None) -> None:
        body, kind = _text(entry), log.type_of(entry)
        line = Line(thread.thread_id, thread.last_ordinal, turn_id, kind, body, self.now)
        self.write("insert_thread_entry", {**line._asdict(), "key": key})
        is_small = len(body) <= self._limits.thread_event_bytes
        shown = Raw(body.encode()) if is_small else None
        news = ThreadNews(thread.thread_id, thread.root_id, line.ordinal, kind, turn_id, shown)
        self._tell("THREAD_ITEM", thread, news, rev=line.ordinal)

    def _turned(self, thread: Thread, entry: Entry) -> None:
        ids = (thread.thread_id, thread.root_id)
        match entry:
            case log.TurnStarted():
                self._tell("TURN_STARTED", thread, TurnBegan(*ids, entry.turn_id, entry.generation))
            case log.TurnEnded():
                told = TurnCompleted(*ids, entry.turn_id, entry.status, entry.error, entry.final)
                self._tell("TURN_COMPLETED", thread, told)
            case log.Closed():
                self._tell("THREAD_CLOSED", thread, ThreadClosed(*ids, entry.descendants))
            case _:
                pass

    def _timed(self, thread: Thread, wait: log.Collab) -> None:
        """A wait that begins has an end at its deadline, also if nobody asks for it again."""
        key = wait_key(thread, wait.call_id)
        if wait.status != "inProgress":
            self._writes.append(no_timer(WAIT, key))
        elif wait.deadline is not None:
            self._writes.append(timer(WAIT, key, wait.deadline))
            self._rings[TIMERS] = None

    def _stands(self, thread: Thread) -> None:
        tree = [self._rows.get(each.thread_id, each) for each in self._trees.get(thread.root_id, ())]
        status = ThreadStatus(thread.stands, thread.message)
        flags = flags_of(thread, tree)
        told = ThreadStatusChanged(thread.thread_id, thread.root_id, status, flags, thread.revision + 1)
        self._tell("THREAD_STATUS_CHANGED", thread, told)

    def _tell(self, name: str, thread: Thread, payload: Any, *, rev: int | None = None) -> None:
        said = msgspec.json.encode(payload)
        number = thread.revision + 1 if rev is None else rev
        above = None if thread.root_workspace_id == thread.workspace_id else thread.root_workspace_id
        event = Event(name, thread.workspace_id, THREAD, thread.thread_id, number, said, self.now, above)
        self._untold.get(thread.thread_id, self._events).append(event)

    # -- turns and mail ------------------------------------------------------------------------------------------------

    def accept(self, thread_id: str, turn: Turn) -> None:
        """A turn will be run."""
        self.write("insert_thread_turn", turn)
        entry = log.TurnAccepted(
            turn_id=turn.turn_id,
            trigger=turn.trigger,
            input=turn.texts,
            author=turn.by,
            key=turn.key,
            requester_thread_id=turn.requester_id,
        )
        self.add(thread_id, entry)

    def end(self, thread_id: str, entry: log.TurnEnded) -> None:
        """A turn is over."""
        done = {"turn_id": entry.turn_id, "status": entry.status, "ended_at": self.now}
        self.write("save_thread_turn", done)
        self._ended.add(entry.turn_id)
        self.add(thread_id, entry)

    def has_ended(self, turn_id: str) -> bool:
        """Whether a turn is over by this change: the store does not know it yet."""
        return turn_id in self._ended

    def post(self, mail: Mail) -> Generator[Step, Any, Mail]:
        """A letter is accepted, behind all that the receiver has got before."""
        posted = self._posted.setdefault(mail.receiver_id, [])
        last = posted[-1].seq if posted else None
        if last is None:
            last = int((yield Read("thread_mail_last", {"receiver_id": mail.receiver_id}))[0][0])
        sent = replace(mail, seq=last + 1)
        posted.append(sent)
        self.write("insert_thread_mail", sent)
        self._receipt(sent)
        return sent

    def posted(self, thread_id: str) -> list[Mail]:
        """The letters to a thread that this change has brought: the store does not know them yet."""
        return self._posted.get(thread_id, [])

    def stamp(self, mail: Mail, state: str, turn_id: str | None) -> None:
        """A letter stands otherwise."""
        stamped = replace(mail, state=state, turn_id=turn_id)
        self.write("save_thread_mail", {"mail_id": mail.mail_id, "state": state, "turn_id": turn_id})
        self._receipt(stamped)

    def _receipt(self, mail: Mail) -> None:
        self.counts(counting.letter(mail.state))
        receiver = self._rows[mail.receiver_id]
        for each in dict.fromkeys((mail.receiver_id, mail.author_id)):
            if each is not None and each in self._rows:
                told = ThreadMail(
                    mail_id=mail.mail_id,
                    mail_type=mail.sort,
                    author_thread_id=mail.author_id,
                    receiver_thread_id=mail.receiver_id,
                    root_id=receiver.root_id,
                    state=mail.state,  # type: ignore[arg-type]
                )
                self._tell("THREAD_MAIL", self._rows[each], told)

    # -- the end -------------------------------------------------------------------------------------------------------

    def write(self, name: str, params: Params) -> None:
        """And this."""
        self._writes.append((name, params))

    def written(self, answer: T, *, refusal: Exception | None = None) -> WriteSet[T]:
        """All of it, as a command."""
        for thread_id, row in self._rows.items():
            saved = replace(row, revision=row.revision + 1)
            name = "insert_thread" if thread_id in self._new else "save_thread"
            self._writes.append((name, saved))
            self._rows[thread_id] = saved
            self._rings |= dict.fromkeys((thread_key(thread_id), work_key(row.workspace_id), org_key(row.org_id)))
        then = None if self._meter is None or not self._tally else partial(self._meter.add, self._tally)
        return WriteSet(answer, self._writes, self._events, tuple(self._rings), then, refusal)

    def standing(self, thread_id: str) -> WriteSet[Thread]:
        """All of it; the answer is how a thread stands then."""
        done = self.written(None)
        return WriteSet(self._rows[thread_id], done.writes, done.events, done.rings, done.then)


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
