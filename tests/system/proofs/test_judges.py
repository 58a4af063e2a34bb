"""The judges of the proofs, given a story that is in order and then each way in which it may not be."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from proofs.cursors.crowd import Track, judge_track
from proofs.harness.ledger import Fact, Ledger, Row
from proofs.harness.serving import ServerProcess
from proofs.harness.settings import Setting
from proofs.workload.company import answer_to
from proofs.workload.judge import judge
from proofs.workload.observations import Book, Message

Change = Callable[[Book, Ledger], object]


def row(seq: int, id_: str, text: str, *, no: int | None) -> Row:
    body = json.dumps({"params": {"message": {"parts": [{"text": text}]}}})
    return Row(id_, "W", seq, no, None if no else "notify", None, None, 0, body)


def story() -> tuple[Book, Ledger]:
    """Two messages of one sender, each claimed, answered and acknowledged; one watcher."""
    rows, book = [], Book()
    for number, id_ in enumerate(("a", "b")):
        message = Message(id=f"s0-{number}", sender="s0", number=number, inbox="W", text=f"s0-{number} hello")
        book.messages[message.id] = message
        book.accept(message, id_)
        book.hand([{"id": id_, "attempt": 1}], book.tick(), 0.0)
        book.answer(id_, f"answer {id_}")
        acknowledge(book, id_, 1)
        rows.append(row(number + 1, id_, message.text, no=number + 1))
    rows += [row(place, f"answer {id_}", answer_to(id_), no=None) for place, id_ in ((3, "a"), (4, "b"))]
    book.watched["W"] = [(each.seq, each.id) for each in rows]
    facts = [Fact("O", place, "X", "activity", each.id) for place, each in enumerate(rows, start=1)]
    return book, Ledger(rows, facts, {"W": 2}, set(), [])


def acknowledge(book: Book, id_: str, *attempts: int) -> None:
    """Acks of these attempts are sent one after the other; then one of them is answered with 2xx."""
    for attempt in attempts:
        book.begin_ack(id_, attempt)
    book.take_ack(id_)


def hand_twice(book: Book) -> None:
    """A third message, which nobody handled in time."""
    for attempt in (1, 2):
        book.hand([{"id": "c", "attempt": attempt}], book.tick(), 0.0)


def never_started(folder: Path) -> ServerProcess:
    """A server that nothing can be held against."""
    return ServerProcess(Setting(engine="sqlite", folder=folder, database="", seed=1, size=0))


def verdict_on(book: Book, ledger: Ledger, tmp_path: Path) -> dict[str, int]:
    """What is broken in a story."""
    return judge(book, never_started(tmp_path), ledger).broken


def swap_first_two(_book: Book, ledger: Ledger) -> None:
    one, two = ledger.rows[:2]
    one.seq, one.inbound_no, two.seq, two.inbound_no = two.seq, two.inbound_no, one.seq, one.inbound_no
    ledger.rows[:2] = [two, one]


def hand_on_while_held(book: Book, _ledger: Ledger) -> None:
    book._held_until["a", 1] = math.inf
    book.hand([{"id": "a", "attempt": 2}], 0, 0.0)


def take_a_stale_ack(book: Book, _ledger: Ledger) -> None:
    hand_twice(book)
    acknowledge(book, "c", 1)


def take_an_ack_that_a_claim_on_its_way_made_stale(book: Book, _ledger: Ledger) -> None:
    book.hand([{"id": "c", "attempt": 1}], book.tick(), 0.0)
    asked = book.tick()
    acknowledge(book, "c", 1)
    book.hand([{"id": "c", "attempt": 2}], asked, 0.0)


WAYS: list[tuple[str, Change]] = [
    ("accepted but missing", lambda book, ledger: ledger.rows.pop(0)),
    ("twice in an inbox", lambda book, ledger: ledger.rows.append(row(5, "c", "s0-1 hello", no=3))),
    ("altered", lambda book, ledger: setattr(book.messages["s0-0"], "text", "s0-0 hullo")),
    ("altered", lambda book, ledger: setattr(book.messages["s0-0"], "inbox", "V")),
    ("never sent", lambda book, ledger: ledger.rows.append(row(5, "c", "s9-9 hello", no=3))),
    ("per-sender order broken", swap_first_two),
    ("never handed over", lambda book, ledger: book.handed.pop(("a", 1))),
    ("handed twice under one attempt", lambda book, ledger: book.hand([{"id": "a", "attempt": 1}], 0, 0.0)),
    ("handed again after its ack", lambda book, ledger: book.hand([{"id": "a", "attempt": 2}], book.tick(), 0.0)),
    ("handed on while it was held", hand_on_while_held),
    ("stale acks taken", take_a_stale_ack),
    ("stale acks taken", take_an_ack_that_a_claim_on_its_way_made_stale),
    ("unhandled at the end", lambda book, ledger: ledger.handled_upto.update(W=1)),
    ("answers missing", lambda book, ledger: ledger.rows.pop()),
    ("answers missing", lambda book, ledger: setattr(ledger.rows[3], "workspace_id", "V")),
    ("answers twice", lambda book, ledger: ledger.rows.append(row(5, "c", answer_to("a"), no=None))),
    ("two receipts", lambda book, ledger: book.accept(book.messages["s0-0"], "z")),
    ("two receipts", lambda book, ledger: book.answer("a", "z")),
    ("log numbers missing", lambda book, ledger: setattr(ledger.rows[3], "seq", 9)),
    ("inbound numbers missing", lambda book, ledger: setattr(ledger.rows[1], "inbound_no", 3)),
    ("inbound numbers missing", lambda book, ledger: setattr(ledger.rows[1], "inbound_no", 1)),
    ("journal numbers missing", lambda book, ledger: setattr(ledger.facts[3], "seq", 9)),
    ("rows without exactly one event", lambda book, ledger: ledger.facts.pop()),
    ("rows without exactly one event", lambda book, ledger: ledger.facts.append(Fact("O", 5, "X", "activity", "a"))),
    ("rows without exactly one event", lambda book, ledger: ledger.facts.append(Fact("O", 5, "X", "activity", "z"))),
    ("watchers skipped or saw twice", lambda book, ledger: book.watched["W"].pop(2)),
    ("watchers skipped or saw twice", lambda book, ledger: book.watched["W"].append((4, "answer b"))),
    ("watchers skipped or saw twice", lambda book, ledger: book.watched["W"].reverse()),
    ("integrity faults", lambda book, ledger: setattr(ledger, "faults", ["row 1 missing from index"])),
    ("refused", lambda book, ledger: book.fault("refused", "send: 500")),
    ("stalls", lambda book, ledger: book.fault("stuck people", "a sender")),
    ("ended by itself", lambda book, ledger: book.fault("unclean ends", "exit code 1")),
]


def test_a_story_in_order_breaks_nothing(tmp_path: Path) -> None:
    assert verdict_on(*story(), tmp_path) == {}


@pytest.mark.parametrize(("zero", "change"), WAYS, ids=[f"{n} {zero}" for n, (zero, _) in enumerate(WAYS)])
def test_each_disorder_is_counted_under_its_name(zero: str, change: Change, tmp_path: Path) -> None:
    book, ledger = story()
    change(book, ledger)

    assert zero in verdict_on(book, ledger, tmp_path)


@pytest.mark.parametrize("attempts", [(2,), (1, 2), (2, 1)])
def test_an_ack_is_not_stale_once_the_newest_attempt_may_have_been_acknowledged(
    attempts: tuple[int, ...], tmp_path: Path
) -> None:
    book, ledger = story()
    hand_twice(book)
    acknowledge(book, "c", *attempts)
    acknowledge(book, "c", 1)

    assert verdict_on(book, ledger, tmp_path) == {}


def test_what_the_server_itself_did_wrong_is_counted(tmp_path: Path) -> None:
    server = never_started(tmp_path)
    server.errors.append("ERROR molecule.http: a request failed")
    server.ended_by_itself = 1
    book, ledger = story()

    assert judge(book, server, ledger).broken == {"errors in the server's log": 1, "ended by itself": 1}


def test_a_single_ack_behind_the_floor_counts_as_handled(tmp_path: Path) -> None:
    book, ledger = story()
    ledger.handled_upto["W"], ledger.handled_single = 1, {("W", 2)}

    assert verdict_on(book, ledger, tmp_path) == {}


@pytest.mark.parametrize(
    ("seen", "found"),
    [
        ([(2, "b"), (3, "c")], {}),
        ([(3, "c")], {"skipped": 1}),
        ([(2, "b"), (3, "c"), (3, "c")], {"repeated": 1, "out of order": 1}),
        ([(3, "c"), (2, "b")], {"out of order": 1}),
        ([(2, "b"), (3, "c"), (4, "d")], {"strange": 1}),
        ([(2, "b"), (3, "x")], {"skipped": 1, "strange": 1}),
    ],
)
def test_a_reader_is_judged_from_where_it_began(seen: list[tuple[int, str]], found: dict[str, int]) -> None:
    judged = judge_track(Track("O", 1, seen), [(1, "a"), (2, "b"), (3, "c")])

    assert judged.pop("wanted") == 2
    assert {name: count for name, count in judged.items() if count} == found
