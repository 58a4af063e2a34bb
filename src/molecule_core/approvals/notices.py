"""Renders the messages to approvers and requesters. Pure functions.

Text of the server comes first, on lines of its own. Text of other parties follows, attributed and with each line quoted
(`quote_lines`), so that it cannot imitate a line of the server.
"""

import json
from typing import Any

from msgspec.structs import replace

from molecule_core.approvals.model import Approval, PartyKind
from molecule_core.approvals.review_requests import REVIEW_SOURCE, details_of, review_text
from molecule_core.common.clock import to_rfc3339
from molecule_core.common.text import quote_lines, single_line, truncate_line
from molecule_core.messages.approval_messages import ApprovalMessage
from molecule_core.wire.schemas.activity import Intent, MessageKind
from molecule_core.wire.schemas.approvals import ApprovalStatus, Party


def request_notice(row: Approval, number: int, answer: str) -> ApprovalMessage:
    """Render the request to the approver. `answer`: the requester's answer to the last question."""
    if row.source == REVIEW_SOURCE:
        kind, intent = MessageKind.APPROVAL_REQUEST, Intent.REQUEST
        notice = _make_notice(row, number, kind, intent, row.workspace_id, None, review_text(row, answer))
        return replace(notice, files=tuple(details_of(row).files))
    lines = [
        f"{row.requester_name} requests your approval.",
        f"Decide with decide_approval: approval_id {row.id}, decision approve, deny, escalate or more_info, "
        f"revision {row.revision}, action_hash {row.action_hash}.",
        f"Without your decision, the request escalates to the next approver. It expires at "
        f"{to_rfc3339(row.expires_at)}.",
        "",
        f"Proposed action of {row.requester_name}:",
        f"Action: {row.action}",
    ]
    lines += [f"Cost: {row.cost:g}"] if row.cost is not None else []
    lines.append(f"Details: {single_line_json(row.effective_details)}")
    lines += ["", f"Reason given by {row.requester_name}:", quote_lines(row.reason)] if row.reason else []
    lines += ["", f"Answer of {row.requester_name} to the question:", quote_lines(answer)] if answer else []
    return _make_notice(
        row, number, MessageKind.APPROVAL_REQUEST, Intent.REQUEST, row.workspace_id, None, "\n".join(lines)
    )


def question_notice(row: Approval, number: int, by: Party, note: str) -> ApprovalMessage:
    """Render a question to the requester."""
    text = (
        f"{by.name or 'A person'} has a question about your approval {row.id} ({row.action}). "
        f"Answer this message. Then {by.name or 'the person'} can decide.\n\nQuestion:\n{quote_lines(note)}"
    )
    return _make_notice(row, number, MessageKind.APPROVAL_DECISION, Intent.REQUEST, *_sender_of(by), text)


def decision_notice(row: Approval, number: int, by: Party, note: str) -> ApprovalMessage:
    """Render the decision to the requester."""
    outcome_texts = {
        ApprovalStatus.APPROVED: f"was approved. Do exactly the approved action, once (action_hash {row.action_hash}). "
        f"If a rule stopped a tool call, repeat the same call with approval_id {row.id}.",
        ApprovalStatus.DENIED: "was denied. Do not do it.",
        ApprovalStatus.EXPIRED: "expired without a decision, which counts as denied. Do not do it.",
        ApprovalStatus.WITHDRAWN: f"was withdrawn by {by.name or by.kind}. Do not do it.",
    }
    text = f"Your approval {row.id} ({row.action}) {outcome_texts[row.status]} {_NO_ANSWER_TEXT}"
    if row.edited is not None and row.status is ApprovalStatus.APPROVED:
        text += f"\n\nThe approver changed the details to: {single_line_json(row.edited)}"
    if note:
        text += f"\n\nNote from {by.name or 'a person'}:\n{quote_lines(note)}"
    return _make_notice(row, number, MessageKind.APPROVAL_DECISION, Intent.INFORM, *_sender_of(by), text)


_NO_ANSWER_TEXT = "This message needs no answer: acknowledge it with inbox_pop."


def relayed_decision_notice(row: Approval, number: int, by: Party, note: str) -> ApprovalMessage | None:
    """Render what the decision of a relayed permission does not say to its host; None if there is nothing.

    The host has the decision itself and acts on it: the agent must not do the action a second time."""
    lines = []
    if row.edited is not None and row.status is ApprovalStatus.APPROVED:
        lines.append(
            f"{by.name or 'A person'} approved {row.action} only with other details, so your call was denied. "
            f"The details are: {single_line_json(row.edited)}"
        )
    if note and by.kind == PartyKind.PERSON.value:
        outcome = "approved" if row.status is ApprovalStatus.APPROVED else row.status.value
        lines.append(f"Note from {by.name or 'a person'} about {row.action} ({outcome}):\n{quote_lines(note)}")
    if not lines:
        return None
    text = "\n\n".join(lines)
    return _make_notice(row, number, MessageKind.APPROVAL_DECISION, Intent.INFORM, *_sender_of(by), text)


def closed_notice(row: Approval, number: int, by: Party) -> ApprovalMessage:
    """Render the notice to a workspace that was asked and need not decide any more."""
    text = (
        f"The approval {row.id} that {row.requester_name} requested from you ({row.action}) "
        f"{_CLOSED_TEXTS[row.status]}"
        f"{f' by {by.name}' if by.name and row.status is not ApprovalStatus.EXPIRED else ''}. No action is needed. "
        f"{_NO_ANSWER_TEXT}"
    )
    return _make_notice(row, number, MessageKind.SYSTEM, Intent.INFORM, None, None, text)


_CLOSED_TEXTS = {
    ApprovalStatus.APPROVED: "was approved",
    ApprovalStatus.DENIED: "was denied",
    ApprovalStatus.EXPIRED: "expired without a decision",
    ApprovalStatus.WITHDRAWN: "was withdrawn",
}


_MAX_REASON_LENGTH, _MAX_DETAILS_LENGTH = 200, 250
"""Characters of a decider's reason and of details in an error, of which an agent is shown 500."""
_REQUEST_ANEW = "Request a new one if the action is still needed."


def not_approved_texts(row: Approval) -> tuple[str, str]:
    """Return why an approval that is not approved allows nothing, and what its requester does then."""
    match row.status:
        case ApprovalStatus.PENDING:
            return "its decision is pending", "Wait for the decision in your inbox. Do not request another one."
        case ApprovalStatus.INFO:
            return "it has an open question to you", "Answer the question in your inbox, then wait for the decision."
        case ApprovalStatus.EXPIRED:
            return "it expired without a decision", _REQUEST_ANEW
        case ApprovalStatus.WITHDRAWN:
            return "it was withdrawn", _REQUEST_ANEW
    decision = row.decision
    by = "" if decision is None or not decision.by.name else f" by {single_line(decision.by.name, _MAX_REASON_LENGTH)}"
    note = "" if decision is None else single_line(decision.note, _MAX_REASON_LENGTH)
    reason = f", with the reason {json.dumps(note, ensure_ascii=False)}" if note else ""
    return f"it was denied{by}{reason}", "Do not perform the action, and do not request it again."


def short_details(row: Approval) -> str:
    """Return the beginning of the details that an approval allows, as one line."""
    return truncate_line(single_line_json(row.effective_details), _MAX_DETAILS_LENGTH)


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
