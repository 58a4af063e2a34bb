"""Renders the messages to approvers and requesters. Pure functions.

Text of the server comes first, on lines of its own. Text of other parties follows, attributed and with each line quoted
(`quote_lines`), so that it cannot imitate a line of the server.
"""

from typing import Any

from molecule_core.approvals.model import Approval
from molecule_core.common.clock import to_rfc3339
from molecule_core.messages.approval_messages import ApprovalMessage
from molecule_core.messages.model import (
    INTENT_INFORM,
    INTENT_REQUEST,
    KIND_APPROVAL_DECISION,
    KIND_APPROVAL_REQUEST,
    KIND_SYSTEM,
)
from molecule_core.wire.schemas.approvals import Party


def request_notice(row: Approval, number: int, answer: str) -> ApprovalMessage:
    """Render the request to the approver. `answer`: the requester's answer to the last question."""
    lines = [
        f"{row.requester_name} asks for your approval.",
        f"Decide with decide_approval: approval_id {row.id}, decision approve, deny, escalate or more_info, "
        f"revision {row.revision}, action_hash {row.action_hash}.",
        f"Without a decision it goes on to the next one above, and expires at {to_rfc3339(row.expires_at)}.",
        "",
        f"What {row.requester_name} wants to do:",
        f"Action: {row.action}",
    ]
    lines += [f"Cost: {row.cost:g}"] if row.cost is not None else []
    lines.append(f"Details: {single_line_json(row.effective_details)}")
    lines += ["", f"Why, in the words of {row.requester_name}:", quote_lines(row.reason)] if row.reason else []
    lines += ["", f"What {row.requester_name} answers to the question:", quote_lines(answer)] if answer else []
    return _make_notice(row, number, KIND_APPROVAL_REQUEST, INTENT_REQUEST, row.workspace_id, None, "\n".join(lines))


def question_notice(row: Approval, number: int, by: Party, note: str) -> ApprovalMessage:
    """Render a question to the requester."""
    text = (
        f"{by.name or 'A person'} wants to know more before deciding on your approval {row.id} ({row.action}). "
        f"Reply to this message; the approval then goes back to be decided.\n\nThe question:\n{quote_lines(note)}"
    )
    return _make_notice(row, number, KIND_APPROVAL_DECISION, INTENT_REQUEST, *_sender_of(by), text)


def decision_notice(row: Approval, number: int, by: Party, note: str) -> ApprovalMessage:
    """Render the decision to the requester."""
    outcome_texts = {
        "approved": f"was approved. Do exactly this, once (action_hash {row.action_hash}), and use the approval first.",
        "denied": "was denied. Do not do it.",
        "expired": "has expired without a decision, which means no. Do not do it.",
        "withdrawn": f"was withdrawn by {by.name or by.kind}. Do not do it.",
    }
    text = f"Your approval {row.id} ({row.action}) {outcome_texts[row.status.value]}"
    if row.edited is not None and row.status.value == "approved":
        text += f"\n\nThe details were changed to: {single_line_json(row.edited)}"
    if note:
        text += f"\n\n{by.name or 'A person'} says:\n{quote_lines(note)}"
    return _make_notice(row, number, KIND_APPROVAL_DECISION, INTENT_INFORM, *_sender_of(by), text)


def closed_notice(row: Approval, number: int, by: Party) -> ApprovalMessage:
    """Render the notice to a workspace that was asked and need not decide any more."""
    text = (
        f"The approval {row.id} that {row.requester_name} asked you for ({row.action}) "
        f"{_CLOSED_TEXTS[row.status.value]}"
        f"{f' by {by.name}' if by.name and row.status.value != 'expired' else ''}. You have nothing to do."
    )
    return _make_notice(row, number, KIND_SYSTEM, INTENT_INFORM, None, None, text)


_CLOSED_TEXTS = {
    "approved": "was approved",
    "denied": "was denied",
    "expired": "has expired without a decision, which means no",
    "withdrawn": "was withdrawn",
}


def quote_lines(text: str) -> str:
    """Quote each line of another party's text."""
    return "\n".join(f"> {line}" for line in text.splitlines())


def single_line_json(details: str) -> str:
    """Escape the line breaks beyond ASCII, which JSON leaves as they are."""
    return details.translate(_LINE_BREAKS)


_LINE_BREAKS = {ord(each): f"\\u{ord(each):04x}" for each in "\x85\u2028\u2029"}


def _sender_of(by: Party) -> tuple[str | None, Party | None]:
    return (by.id, None) if by.kind == "workspace" else (None, by if by.kind == "person" else None)


def _make_notice(
    row: Approval, number: int, kind: str, intent: str, source_id: str | None, person: Party | None, text: str
) -> ApprovalMessage:
    metadata: dict[str, Any] = {
        "approval_id": row.id,
        "status": row.status.value,
        "revision": row.revision,
        "action_hash": row.action_hash,
    }
    return ApprovalMessage(
        id=f"{row.id}.{number}",
        kind=kind,
        intent=intent,
        source_id=source_id,
        user_id=None if person is None else person.id,
        user_name=None if person is None else person.name,
        text=text,
        metadata=metadata,
    )
