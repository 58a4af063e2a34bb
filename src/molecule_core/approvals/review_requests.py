"""Approvals that are reviews of answers: what is asked, of whom, and what a decision means. Pure functions."""

from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.approvals import rules
from molecule_core.approvals.model import Approval, ApprovalTrigger, PartyKind
from molecule_core.common.errors import InvalidField
from molecule_core.common.text import encode_json, quote_lines, truncate_line
from molecule_core.messages.events import ReviewDecided, ReviewFile, ReviewRequested
from molecule_core.wire.schemas.approvals import ApprovalStatus, DecidedBy, PolicyReason

REVIEW_SOURCE = "review"
"""Source of requests of the server to review an answer."""
REVIEW_ACTION = "review_answer"
_TASK_LENGTH, _ANSWER_BYTES = 4000, 24_000


class ReviewDetails(Struct, frozen=True, kw_only=True):
    """What a reviewer decides about. `answer_cut`: how many bytes of the answer are not shown.

    `answer_sha256`: of the whole answer; `reviewer_id`: empty if a person decides."""

    delegation_id: str
    check: int
    delegator: str
    reviewer_id: str
    instructions: str
    task: str
    answer: str
    answer_cut: int
    answer_sha256: str
    files: list[dict[str, Any]]


def build_request(event: ReviewRequested, org_id: str, worker_name: str, delegator_name: str) -> Approval:
    """Build the approval that asks for a review. Its requester is the worker, which can never decide it."""
    whole = event.answer.encode()
    shown = whole[:_ANSWER_BYTES].decode(errors="ignore")
    details = rules.canonical_json(
        ReviewDetails(
            delegation_id=event.delegation_id,
            check=event.check,
            delegator=delegator_name,
            reviewer_id=event.reviewer_id or "",
            instructions=event.instructions,
            task=truncate_line(event.task, _TASK_LENGTH),
            answer=shown,
            answer_cut=len(whole) - len(shown.encode()),
            answer_sha256=event.answer_sha256,
            files=[_file_content(each) for each in event.files],
        )
    )
    return Approval(
        org_id=org_id,
        id=event.id,
        workspace_id=event.worker_id,
        requester_name=worker_name,
        status=ApprovalStatus.PENDING,
        open=1,
        revision=1,
        rev=0,
        action=REVIEW_ACTION,
        reason=event.instructions,
        proposed=details,
        edited=None,
        action_hash=rules.action_hash(REVIEW_ACTION, details),
        cost=None,
        task_id=f"{event.delegation_id}/{event.check}",
        thread_id=None,
        source=REVIEW_SOURCE,
        tool=None,
        risk=encode_json([]),
        holder_id=None,
        holder_name="",
        for_person=0,
        asker=None,
        messages=0,
        message_id=None,
        message_seq=None,
        question_seq=None,
        asked="[]",
        policy=encode_json([PolicyReason("review", f"{delegator_name} accepts only an answer that a reviewer passes")]),
        path="[]",
        decided=None,
        created_at=event.at,
        updated_at=event.at,
        expires_at=event.until,
        level_at=None,
        settled_at=None,
        used_at=None,
    )


def _file_content(file: ReviewFile) -> dict[str, Any]:
    content = {"uri": file.uri, "name": file.name, "mimeType": file.mime_type, "size": file.size}
    return {**content, "sha256": file.sha256}


def details_of(row: Approval) -> ReviewDetails:
    """Return what a review is about."""
    return msgspec.json.decode(row.proposed, type=ReviewDetails)


def decision_event(row: Approval, trigger: ApprovalTrigger, by: DecidedBy, note: str, now: int) -> ReviewDecided | None:
    """Return what the end of a review means for the answer; None: its deadline passed, which ends the delegation.

    Only an approval passes. A withdrawal fails: the answer was not reviewed."""
    if trigger is ApprovalTrigger.EXPIRE:
        return None
    is_passed = trigger is ApprovalTrigger.APPROVE
    if trigger is ApprovalTrigger.WITHDRAW:
        note = f"the answer was not reviewed: {note or 'the review was withdrawn'}"
    is_party = by.kind in (PartyKind.PERSON.value, PartyKind.WORKSPACE.value)
    return ReviewDecided(
        id=row.id,
        delegation_id=details_of(row).delegation_id,
        is_passed=is_passed,
        note=note,
        by_id="" if not is_party else f"person:{by.id}" if by.kind == PartyKind.PERSON else by.id,
        by_name=by.name if is_party else "",
        at=now,
    )


def check_review(decision: ApprovalTrigger, note: str, *, is_edited: bool) -> None:
    """Check the decision of a review. Raises InvalidField."""
    if is_edited:
        raise InvalidField(reason="details of a review cannot be changed. Omit details, or deny with a note.")
    if decision is ApprovalTrigger.DENY and not note.strip():
        raise InvalidField(reason="note cannot be empty when a review is denied. Write what must change.")


def review_text(row: Approval, answer: str) -> str:
    """Render the request to the reviewer. `answer`: the worker's answer to the reviewer's question."""
    details = details_of(row)
    lines = [
        f"Review: {row.requester_name} answered a task of {details.delegator}. Check the answer.",
        f"Decide with decide_approval: approval_id {row.id}, decision approve (the answer passes) or deny (the answer "
        f"goes back with your note), note, revision {row.revision}, action_hash {row.action_hash}. Ask "
        f"{row.requester_name} with decision more_info. A text is not a decision.",
        "",
    ]
    if details.instructions:
        lines += [f"Instructions of {details.delegator}:", quote_lines(details.instructions), ""]
    lines += [f"Task of {details.delegator}:", quote_lines(details.task), ""]
    lines += [f"Answer of {row.requester_name}:", quote_lines(details.answer or "(no text)")]
    if details.answer_cut:
        lines.append(f"The last {details.answer_cut} bytes of the answer are not shown.")
    if details.files:
        names = [f"{each['name']} ({each['size']} bytes, sha256 {each['sha256']})" for each in details.files]
        lines += ["", "Files of the answer:", quote_lines("\n".join(names))]
    lines += ["", f"Answer of {row.requester_name} to the question:", quote_lines(answer)] if answer else []
    return "\n".join(lines)
