"""What senders were told and agents were given, against what the store holds in the end."""

import json
from collections import Counter

from proofs.harness.ledger import Ledger, Row
from proofs.harness.serving import ServerProcess
from proofs.harness.verdicts import Verdict, descents, gaps
from proofs.senders.model import Book, Said

_SAID_BY_THE_BOOK = (
    "no 409 where one is due",
    "409 where none is due",
    "another first answer",
    "handed twice under one attempt",
    "refused",
    "stalls",
)


def judge(book: Book, ledger: Ledger, inboxes: list[str], server: ServerProcess) -> Verdict:
    """Every way in which they may disagree is counted."""
    inbound = [row for row in ledger.rows if row.inbound_no is not None and row.workspace_id in set(inboxes)]
    said = {row.id: _said(row) for row in inbound}
    entries = Counter(each.id for each in said.values())
    taken = {activity_id: book.kept[id_] for activity_id, id_ in book.receipts.items()}
    zeros = {
        "accepted but missing": len(set(taken) - set(said)),
        "altered": sum(said[id_] != each for id_, each in taken.items() if id_ in said),
        "twice in an inbox": sum(count - 1 for count in entries.values()),
        "never accepted": sum(id_ not in book.kept for id_ in entries),
        "per-sender order broken": _order_broken(inbound, said),
        "never handed over": len(set(taken) - book.got),
        "unhandled at the end": sum(not ledger.is_handled(row) for row in inbound),
        **{name: book.faults[name] for name in _SAID_BY_THE_BOOK},
        "numbers missing": sum(gaps([row.seq for row in log]) for log in ledger.logs().values())
        + sum(gaps([fact.seq for fact in facts]) for facts in ledger.journals().values()),
        **ledger.sound(),
        "errors in the server's log": len(server.errors),
        "ended by itself": server.ended_by_itself + book.faults["unclean ends"],
    }
    return Verdict(_figures(book), zeros, [*book.notes, *server.errors[:5], *(ledger.faults or [])[:5]])


def _figures(book: Book) -> dict[str, int | float | str]:
    counted = ("sent again", "sent again altered", "sent twice at once", "409", "calls cut", "pushed", "pushes cut")
    return {"messages": len(book.kept), **{name: book.figures[name] for name in (*counted, "redelivered")}}


def _order_broken(inbound: list[Row], said: dict[str, Said]) -> int:
    """How often, in one inbox, a message stands before an earlier one of the same sender. (The ledger is in order.)"""
    numbers: dict[tuple[str, str], list[int]] = {}
    for row in inbound:
        sender, _, number = said[row.id].id.partition("-")
        numbers.setdefault((row.workspace_id, sender), []).append(int(number))
    return sum(descents(each) for each in numbers.values())


def _said(row: Row) -> Said:
    message = json.loads(row.request_body or "")["params"]["message"]
    text: str = message["parts"][0]["text"]
    return Said(text.partition(" ")[0], row.workspace_id, text)
