"""The model of threads: what speakers and engines were told, and what the logs must then hold.

Above: speakers, engines. Below: the book, a look into the store.
"""

import json
from collections import Counter
from typing import Any

from msgspec import Struct

from proofs.harness.ledger import read_tables
from proofs.harness.settings import Setting
from proofs.harness.verdicts import descents, gaps
from proofs.workload.observations import Book

_TABLES = (
    "SELECT thread_id, root_id, parent_id, nickname, call_id, closed, last_ordinal FROM threads",
    "SELECT thread_id, ordinal, turn_id, type, body FROM thread_entries ORDER BY thread_id, ordinal",
    "SELECT thread_id, version, text FROM thread_bases",
    "SELECT turn_id, thread_id, status, input FROM thread_turns",
    "SELECT mail_id, receiver_id, author_id, seq, text, state FROM thread_mail",
    "SELECT entity_id, rev FROM events WHERE name = 'THREAD_ITEM'",
)
ENDED = ("completed", "failed", "interrupted")


class Talk(Struct):
    """One thread as who started it knows it. `id`: of the first 2xx answer."""

    key: str
    base: str
    mode: str
    """What becomes of what is said while it is at work: `queue` keeps the order."""
    said: int = 0
    id: str | None = None
    is_closing: bool = False


class Log(Struct):
    """One thread of the store."""

    id: str
    root_id: str
    parent_id: str | None
    nickname: str
    call_id: str | None
    closed: int
    last: int


class Line(Struct):
    """One line of a log."""

    thread_id: str
    ordinal: int
    turn_id: str | None
    type: str
    entry: dict[str, Any]


class Turn(Struct):
    """One turn of the store."""

    id: str
    thread_id: str
    status: str
    input: str


class Letter(Struct):
    """One letter of the store."""

    id: str
    receiver: str
    author: str | None
    seq: int
    text: str
    state: str


class Logs(Struct):
    """What a store holds of threads. `told`: (thread, number) of the lines that the journal tells of."""

    threads: list[Log]
    lines: list[Line]
    bases: list[tuple[str, int, str]]
    turns: list[Turn]
    letters: list[Letter]
    told: list[tuple[str, int]]

    def of(self, kind: str) -> list[Line]:
        """The lines of one kind, in the order of the logs."""
        return [line for line in self.lines if line.type == kind]


class Spoken:
    """Everything that was answered about threads; finds contradictions."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self.talks: dict[str, Talk] = {}
        """By key."""
        self.said: dict[str, tuple[Talk, bool]] = {}
        """By text; True: and its speaker was told with 2xx that it is taken."""
        self.lines: dict[str, bool] = {}
        """What engines said in turns, by text; True: and the log took it."""
        self.ends: dict[str, str] = {}
        """By turn, the last words with which its engine was told that it has ended."""
        self.letters: dict[str, str] = {}
        """By text, the sender of a letter that was taken."""
        self.spawned: dict[str, str] = {}
        """By the call, the agent that it spawned."""

    def start(self, talk: Talk, thread_id: str) -> None:
        """A thread was started, as its speaker was told for the first time or again."""
        if talk.id is None:
            talk.id = thread_id
            self._book.progress.note("accepted")
        elif talk.id != thread_id:
            self._book.fault("threads under two ids", f"{talk.key} got {talk.id}, then {thread_id}")

    def show(self, talk: Talk, base: str) -> None:
        """Somebody was shown the base instructions of a thread."""
        if base != talk.base:
            self._book.fault("base instructions other than given", f"{talk.key}: {base[:80]}")

    def say(self, text: str, talk: Talk, *, taken: bool) -> None:
        """Something is about to be said to a thread, or was taken."""
        self.said[text] = (talk, taken)
        if taken:
            self._book.progress.note("accepted")

    def end(self, turn_id: str, final: str) -> None:
        """A turn has ended, as its engine was told."""
        if turn_id not in self.ends:
            self.ends[turn_id] = final
            self._book.progress.note("accepted")
            self._book.progress.note("ended")

    def spawn(self, call_id: str, thread_id: str) -> None:
        """An agent was spawned by a call, as its caller was told for the first time or again."""
        if self.spawned.setdefault(call_id, thread_id) != thread_id:
            self._book.fault("threads under two ids", f"{call_id} got {self.spawned[call_id]}, then {thread_id}")

    # -- the judgement -------------------------------------------------------------------------------------------------

    def judge(self, logs: Logs) -> dict[str, int]:
        """What they saw against what the store holds."""
        closed = {thread.id for thread in logs.threads if thread.closed}
        return {
            **self._judge_threads(logs),
            **self._judge_said(logs, closed),
            **self._judge_turns(logs, closed),
            **self._judge_letters(logs, closed),
            **_judge_logs(logs),
        }

    def _judge_threads(self, logs: Logs) -> dict[str, int]:
        kept = {thread.id: thread for thread in logs.threads}
        keys = Counter(thread.nickname for thread in logs.threads if thread.parent_id is None)
        calls = Counter(str(thread.call_id) for thread in logs.threads if thread.parent_id is not None)
        started = [talk.id for talk in self.talks.values() if talk.id is not None]
        wanted = {id_: self._base_of(kept.get(thread.root_id)) for id_, thread in kept.items()}
        bases = Counter((id_, text) for id_, _, text in logs.bases)
        return {
            "threads missing": len({*started, *self.spawned.values()} - set(kept)),
            "threads doubled": sum(count - 1 for count in (*keys.values(), *calls.values())),
            "threads that nobody started": len(set(keys) - set(self.talks)),
            "threads under two ids": self._book.faults["threads under two ids"],
            "base instructions other than given": self._book.faults["base instructions other than given"]
            + len(bases.keys() ^ wanted.items())
            + sum(count - 1 for count in bases.values()),
        }

    def _base_of(self, root: Log | None) -> str:
        """What was given to a thread, and goes down to all that it spawns."""
        talk = None if root is None else self.talks.get(root.nickname)
        return "" if talk is None else talk.base

    def _judge_said(self, logs: Logs, closed: set[str]) -> dict[str, int]:
        """What was said stands once; only a thread that was closed may have left it unread."""
        said = Counter((line.thread_id, line.entry["text"]) for line in logs.of("user_message"))
        waits = {(turn.thread_id, text) for turn in logs.turns for text in _texts(turn)}
        wrong = 0
        for text, (talk, taken) in self.said.items():
            at = (talk.id or "", text)
            is_unread = talk.id in closed and at in waits
            wrong += taken and said[at] != 1 and not (is_unread and said[at] == 0)
            wrong += not taken and said[at] > 1
        numbers: dict[str, list[int]] = {}
        for line in logs.of("user_message"):
            known = self.said.get(line.entry["text"])
            if known is not None and known[0].mode == "queue":
                numbers.setdefault(line.thread_id, []).append(int(line.entry["text"].rpartition(" ")[2]))
        return {
            "said and not there once": wrong,
            "said by nobody": len({text for _, text in said} - set(self.said)),
            "said out of order": sum(descents(each) for each in numbers.values()),
        }

    def _judge_turns(self, logs: Logs, closed: set[str]) -> dict[str, int]:
        """Each has ended once, as its engine was told, or by the end of its thread."""
        kept = {turn.id: turn for turn in logs.turns}
        ends: dict[str, list[dict[str, Any]]] = {}
        for line in logs.of("turn_ended"):
            ends.setdefault(str(line.turn_id), []).append(line.entry)
        lines = Counter(line.entry["text"] for line in logs.of("agent_message"))
        return {
            "turns open for ever": sum(turn.status not in ENDED for turn in kept.values()),
            "turns not ended once": sum(len(ends.get(id_, [])) != 1 for id_ in kept) + len(set(ends) - set(kept)),
            "turns ended otherwise than told": sum(
                [(each["status"], each["final"]) for each in ends.get(id_, [])] != [("completed", final)]
                for id_, final in self.ends.items()
                if not (id_ in kept and kept[id_].thread_id in closed)
            ),
            "lines of engines not there once": sum(lines[text] != 1 for text, taken in self.lines.items() if taken)
            + sum(count > 1 or text not in self.lines for text, count in lines.items()),
        }

    def _judge_letters(self, logs: Logs, closed: set[str]) -> dict[str, int]:
        """A letter is there once, and in its reader's log once, in order; only who was closed may leave it unread."""
        texts = Counter((letter.author, letter.text) for letter in logs.letters)
        shown = Counter(line.entry["mail_id"] for line in logs.of("peer_message"))
        places = {letter.id: letter.seq for letter in logs.letters}
        seqs: dict[str, list[int]] = {}
        read: dict[str, list[int]] = {}
        for letter in logs.letters:
            seqs.setdefault(letter.receiver, []).append(letter.seq)
        for line in logs.of("peer_message"):
            read.setdefault(line.thread_id, []).append(places.get(line.entry["mail_id"], 0))
        return {
            "letters between threads missing": sum(not texts[sender, text] for text, sender in self.letters.items()),
            "letters between threads doubled": sum(count - 1 for count in texts.values()),
            "letters between threads not read once": sum(
                not _is_in_order(each, shown[each.id], is_closed=each.receiver in closed) for each in logs.letters
            ),
            "letters between threads out of order": sum(descents(each) for each in read.values()),
            "letters between threads not numbered": sum(gaps(each) for each in seqs.values()),
        }


def _is_in_order(letter: Letter, shown: int, *, is_closed: bool) -> bool:
    """Whether a letter was read once; or waits, or has failed, unread by one that was closed."""
    if shown == 0:
        return is_closed and letter.state in ("accepted", "failed")
    return shown == 1 and letter.state != "accepted"


def _judge_logs(logs: Logs) -> dict[str, int]:
    """Logs count without a gap, each line is told once, and each call begins and ends once."""
    numbers: dict[str, list[int]] = {thread.id: [] for thread in logs.threads}
    told: dict[str, list[int]] = {}
    calls: Counter[tuple[str, str, bool]] = Counter()
    for line in logs.lines:
        numbers.setdefault(line.thread_id, []).append(line.ordinal)
        if line.type == "collab":
            calls[line.thread_id, line.entry["call_id"], line.entry["status"] == "inProgress"] += 1
    for thread_id, number in logs.told:
        told.setdefault(thread_id, []).append(number)
    last = {thread.id: thread.last for thread in logs.threads}
    return {
        "lines of threads missing": sum(
            gaps(each) + (max(each, default=0) != last.get(id_)) for id_, each in numbers.items()
        ),
        "lines without exactly one event": sum(sorted(told.get(id_, [])) != each for id_, each in numbers.items()),
        "calls not begun and ended once": sum(
            calls[thread_id, call_id, begins] != 1 for thread_id, call_id, _ in calls for begins in (True, False)
        ),
    }


def _texts(turn: Turn) -> list[str]:
    return [each["text"] for each in json.loads(turn.input)]


async def read_logs(setting: Setting) -> Logs:
    """What a store that no server has holds of threads."""
    (threads, lines, bases, turns, letters, told), _ = await read_tables(setting, _TABLES)
    return Logs(
        threads=[Log(*row) for row in threads],
        lines=[Line(id_, ordinal, turn_id, kind, json.loads(body)) for id_, ordinal, turn_id, kind, body in lines],
        bases=bases,
        turns=[Turn(*row) for row in turns],
        letters=[Letter(*row) for row in letters],
        told=told,
    )
