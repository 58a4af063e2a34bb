"""What was answered against what the store holds, by the judge's own SQL."""

import json
from collections import Counter
from typing import Any

from proofs.harness.ledger import Ledger, Row
from proofs.harness.verdicts import gaps
from proofs.storage.deeds import Model

DELEGATIONS = "SELECT id, task, status, open, activity_id FROM delegations"
_SENT, _ENDS = "DELEGATION_SENT", ("DELEGATION_COMPLETE", "DELEGATION_FAILED")


def judge(model: Model, ledger: Ledger, delegations: list[tuple[Any, ...]]) -> dict[str, int]:
    """Every way in which they may disagree is counted."""
    rows = {row.id: row for row in ledger.rows}
    texts = Counter(_text_of(row) for row in ledger.rows if row.id in set(model.receipts.values()) or _is_said(row))
    tasks = Counter(task for _, task, _, _, _ in delegations)
    status = {id_: state for id_, _, state, _, _ in delegations}
    return {
        "2xx without commit": sum(
            (
                len(set(model.receipts.values()) - set(rows)),
                len(set(model.delegations.values()) - set(status)),
                sum(id_ in rows and not ledger.is_handled(rows[id_]) for id_ in model.acked),
                sum(status.get(id_) != "cancelled" for id_ in model.cancelled),
            )
        ),
        "done twice": sum(count - 1 for count in (*texts.values(), *tasks.values())),
        "never asked for": len((set(texts) | set(tasks)) - model.asked),
        "half-done commands": _half_done(ledger, delegations, rows),
        "handed twice under one attempt": sum(count - 1 for count in model.handed.values()),
        "numbers missing": sum(gaps([row.seq for row in log]) for log in ledger.logs().values())
        + sum(gaps([row.inbound_no for row in log if row.inbound_no]) for log in ledger.logs().values())
        + sum(gaps([fact.seq for fact in facts]) for facts in ledger.journals().values()),
        "answered neither 2xx nor 503": model.faults["answered neither 2xx nor 503"],
        "not back within 5 s": model.faults["not back within 5 s"],
        "integrity faults": len(ledger.faults),
    }


def _half_done(ledger: Ledger, delegations: list[tuple[Any, ...]], rows: dict[str, Row]) -> int:
    """A row has one event, a delegation has its row, one beginning, and one end if it is not open."""
    told = Counter(fact.entity_id for fact in ledger.facts if fact.entity_kind == "activity")
    names = Counter((fact.entity_id, fact.name) for fact in ledger.facts if fact.entity_kind == "delegation")
    wrong = sum(told[id_] != 1 for id_ in rows) + len(set(told) - set(rows))
    for id_, _, _, is_open, activity_id in delegations:
        ends = sum(names[id_, name] for name in _ENDS)
        wrong += names[id_, _SENT] != 1 or activity_id not in rows or ends != (0 if is_open else 1)
    return wrong


def _is_said(row: Row) -> bool:
    return row.method == "notify" or (row.method == "message/send" and _text_of(row).startswith("d"))


def _text_of(row: Row) -> str:
    text: str = json.loads(row.request_body or "{}")["params"]["message"]["parts"][0]["text"]
    return text
