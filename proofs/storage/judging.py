"""What was answered against what the store holds, by the judge's own SQL."""

import json
from collections import Counter

from proofs.harness.ledger import Ledger, Row
from proofs.harness.verdicts import gaps
from proofs.storage.deeds import ASK, CANCEL, CLOSE, DELEGATE, NOTE, START, WITHDRAW, Model

TABLES = (
    "SELECT id, task, status, activity_id FROM delegations",
    "SELECT id, reason, status, '' FROM approvals",
    "SELECT t.thread_id, u.input, CASE WHEN closed > 0 THEN 'closed' ELSE 'open' END, '' "
    "FROM threads t JOIN thread_turns u ON u.thread_id = t.thread_id",
    "SELECT id, content, '', '' FROM memories",
    "SELECT key, value, '', '' FROM memory_keys",
)
# Of what stands in each of the first three: what it is, how it begins, by what it ends, and how it stands then.
_COURSES = (
    (DELEGATE, "DELEGATION_SENT", ("DELEGATION_COMPLETE", "DELEGATION_FAILED"), CANCEL, "cancelled"),
    (ASK, "APPROVAL_REQUESTED", ("APPROVAL_WITHDRAWN",), WITHDRAW, "withdrawn"),
    (START, "THREAD_STARTED", ("THREAD_CLOSED",), CLOSE, "closed"),
)
Table = list[tuple[str, str, str, str]]


def judge(model: Model, ledger: Ledger, tables: list[Table]) -> dict[str, int]:
    """Every way in which they may disagree is counted. `tables` as `TABLES` find them."""
    rows = {row.id: row for row in ledger.rows}
    words = Counter(_text_of(row) for row in ledger.rows if row.id in set(model.receipts.values()) or _is_said(row))
    texts = [words, *(Counter(_plain(text) for _, text, _, _ in table) for table in tables)]
    states = [{id_: state for id_, _, state, _ in table} for table in tables]
    begun = [model.begun[kind] for kind in (DELEGATE, ASK, START, NOTE)]
    return {
        "2xx without commit": sum(
            (
                len(set(model.receipts.values()) - set(rows)),
                sum(id_ in rows and not ledger.is_handled(rows[id_]) for id_ in model.acked),
                sum(len(set(ids.values()) - set(state)) for ids, state in zip(begun, states, strict=False)),
                len(model.kept - set(states[-1])),
                sum(
                    state.get(id_) != ended
                    for (_, _, _, verb, ended), state in zip(_COURSES, states, strict=False)
                    for id_ in model.ended[verb]
                ),
            )
        ),
        "done twice": sum(count - 1 for counts in texts for count in counts.values()),
        "never asked for": sum(len(set(counts) - model.asked) for counts in texts),
        "half-done commands": _half_done(ledger, tables, rows),
        "handed twice under one attempt": sum(count - 1 for count in model.handed.values()),
        "numbers missing": sum(gaps([row.seq for row in log]) for log in ledger.logs().values())
        + sum(gaps([row.inbound_no for row in log if row.inbound_no]) for log in ledger.logs().values())
        + sum(gaps([fact.seq for fact in facts]) for facts in ledger.journals().values()),
        "answered neither 2xx nor 503": model.faults["answered neither 2xx nor 503"],
        "not back within 5 s": model.faults["not back within 5 s"],
        **ledger.sound(),
    }


def _half_done(ledger: Ledger, tables: list[Table], rows: dict[str, Row]) -> int:
    """A row has one event; a delegation has its row; it, an approval and a thread have one beginning, and one end where
    they are ended."""
    told = Counter(fact.entity_id for fact in ledger.facts if fact.entity_kind == "activity")
    names = Counter((fact.entity_id, fact.name) for fact in ledger.facts)
    wrong = sum(told[id_] != 1 for id_ in rows) + len(set(told) - set(rows))
    wrong += sum(activity_id not in rows for _, _, _, activity_id in tables[0])
    for (_, first, last, _, ended), table in zip(_COURSES, tables, strict=False):
        for id_, _, state, _ in table:
            ends = sum(names[id_, name] for name in last)
            wrong += names[id_, first] != 1 or ends != (1 if state == ended else 0)
    return wrong


def _plain(text: str) -> str:
    """The one text of a turn, of a value, or of what holds it as it is."""
    found = json.loads(text) if text[:1] in '["' else text
    return str(found[0]["text"] if isinstance(found, list) else found)


def _is_said(row: Row) -> bool:
    return row.method == "notify" or (row.method == "message/send" and _text_of(row).startswith("d"))


def _text_of(row: Row) -> str:
    text: str = json.loads(row.request_body or "{}")["params"]["message"]["parts"][0]["text"]
    return text
