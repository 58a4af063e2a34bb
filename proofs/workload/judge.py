"""What people saw against what the store holds in the end: the judge of everybody who disturbs a crew at work."""

import json
from collections import Counter
from typing import Protocol

from proofs.harness.ledger import Ledger, Row, read_ledger
from proofs.harness.serving import Place
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict, descents, gaps
from proofs.workload.company import answer_to
from proofs.workload.delegation_model import judge_works, read_given
from proofs.workload.delegators import Givers
from proofs.workload.observations import Book

# Who gets no further within it is stuck, also on a busy machine.
STALL_SECONDS = 60.0
# What a control has broken stays so: nobody waits for it as long.
_CONTROL_SECONDS = 15.0


def patience(setting: Setting) -> float:
    """How long givers wait in the end for one more result."""
    return STALL_SECONDS if setting.package is None else _CONTROL_SECONDS


class Judged(Protocol):
    """People who came on top of those who send messages and those who delegate."""

    async def judge(self, verdict: Verdict, ledger: Ledger) -> None:
        """Adds to the judgement of the others."""


async def judge_all(setting: Setting, book: Book, givers: Givers, server: Place, *others: Judged) -> Verdict:
    """The judgement of messages and of delegations, and of what others did where there were any."""
    ledger = await read_ledger(setting)
    verdict = judge(book, server, ledger)
    verdict.figures |= givers.figures()
    verdict.zeros |= judge_works(givers.works, book, await read_given(setting), ledger)
    verdict.notes += givers.works.hands.notes
    for each in others:
        await each.judge(verdict, ledger)
    return verdict


def judge(book: Book, server: Place, ledger: Ledger) -> Verdict:
    """What people saw against what the store holds: every way in which they may disagree is counted."""
    inbound = [row for row in ledger.rows if row.inbound_no is not None and row.workspace_id in book.watched]
    logs = ledger.logs()
    zeros = {
        **_judge_messages(book, inbound),
        "per-sender order broken": _order_broken(book, inbound),
        "never handed over": len(set(book.accepted) - {id_ for id_, _ in book.handed}),
        "handed twice under one attempt": book.faults["handed twice under one attempt"],
        "handed again after its ack": book.faults["handed again after its ack"],
        "handed on while it was held": book.faults["handed on while it was held"],
        "stale acks taken": book.faults["stale acks taken"],
        "unhandled at the end": sum(not ledger.is_handled(row) for row in inbound),
        **_judge_answers(book, ledger),
        "two receipts": book.faults["two receipts"],
        "log numbers missing": sum(gaps([row.seq for row in log]) for log in logs.values()),
        "inbound numbers missing": sum(gaps(_inbound_numbers(log)) for log in logs.values()),
        "journal numbers missing": sum(gaps([fact.seq for fact in facts]) for facts in ledger.journals().values()),
        "rows without exactly one event": _events_wrong(ledger),
        "watchers skipped or saw twice": sum(_watched_wrong(book, id_, logs.get(id_, [])) for id_ in book.watched),
        **ledger.sound(),
        "refused": book.faults["refused"],
        "stalls": book.faults["stalls"] + book.faults["stuck people"],
        "errors in the server's log": len(server.errors),
        "ended by itself": server.ended_by_itself + book.faults["unclean ends"],
    }
    return Verdict(
        _figures(book, server, inbound), zeros, [*book.notes, *server.errors[:5], *(ledger.faults or [])[:5]]
    )


def _figures(book: Book, server: Place, inbound: list[Row]) -> dict[str, int | float | str]:
    kept = {row.id: row for row in inbound}
    cut = [message for message in book.accepted.values() if message.cut_at]
    on_disk = sum(kept[m.receipt or ""].created_at < m.cut_at for m in cut if m.receipt in kept)
    return {
        "kills": server.kills,
        "clients that died": book.figures["clients that died"],
        "messages": len(book.accepted),
        "calls cut": book.figures["calls cut"],
        "messages cut off but on disk": on_disk,
        "sent again": book.figures["sent again"],
        "redelivered": book.figures["redelivered"],
        "stale acks sent": book.figures["stale acks sent"],
        "late acks refused": book.figures["late acks refused"],
        "starts refused": server.refused_starts,
        "answered 503": book.figures["answered 503"],
    }


def _judge_messages(book: Book, inbound: list[Row]) -> dict[str, int]:
    """Each accepted message stands in the inbox it was sent to, once, as it was sent; nothing else stands there."""
    kept = {row.id: row for row in inbound}
    entries = Counter(message_id(row) for row in inbound)
    lost = altered = 0
    for activity_id, message in book.accepted.items():
        row = kept.get(activity_id)
        lost += row is None
        altered += row is not None and (row.workspace_id, text_of(row)) != (message.inbox, message.text)
    return {
        "accepted but missing": lost,
        "twice in an inbox": sum(count - 1 for count in entries.values()),
        "altered": altered,
        "never sent": sum(id_ not in book.messages for id_ in entries),
    }


def _order_broken(book: Book, inbound: list[Row]) -> int:
    """How often, in one inbox, a message stands before an earlier one of the same sender."""
    numbers: dict[tuple[str, str], list[int]] = {}
    for row in inbound:
        message = book.messages.get(message_id(row))
        if message is not None:
            numbers.setdefault((row.workspace_id, message.sender), []).append(message.number)
    return sum(descents(each) for each in numbers.values())


def _judge_answers(book: Book, ledger: Ledger) -> dict[str, int]:
    """Each accepted message has exactly one answer, in the log of its agent and in no other."""
    said = [(row.workspace_id, text_of(row)) for row in ledger.rows if row.method == "notify"]
    wanted = {(message.inbox, answer_to(id_)) for id_, message in book.accepted.items()}
    texts = Counter(text for _, text in said)
    return {
        "answers missing": len(wanted - {*said}),
        "answers twice": sum(count - 1 for count in texts.values()),
    }


def _inbound_numbers(log: list[Row]) -> list[int]:
    """In the order of the log; a descent counts as a gap, since the numbers must rise together."""
    numbers = [row.inbound_no for row in log if row.inbound_no is not None]
    return numbers if descents(numbers) == 0 else [*numbers, *numbers[-1:]]


def _events_wrong(ledger: Ledger) -> int:
    told = Counter(fact.entity_id for fact in ledger.facts if fact.entity_kind == "activity")
    rows = {row.id for row in ledger.rows}
    return sum(told[id_] != 1 for id_ in rows) + len(set(told) - rows)


def _watched_wrong(book: Book, workspace_id: str, log: list[Row]) -> int:
    """From the first row it saw, a watcher saw every row of the log, once, in order."""
    seen = book.watched[workspace_id]
    first = seen[0][0] if seen else 1
    wanted = [(row.seq, row.id) for row in log if row.seq >= first]
    return len(set(wanted) ^ set(seen)) + abs(len(seen) - len(set(seen))) + descents([seq for seq, _ in seen])


def text_of(row: Row) -> str:
    """What a message or an answer says."""
    text: str = json.loads(row.request_body or "")["params"]["message"]["parts"][0]["text"]
    return text


def message_id(row: Row) -> str:
    """The id that its sender gave a message: each begins with it."""
    return text_of(row).partition(" ")[0]
