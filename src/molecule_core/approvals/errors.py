"""Errors of approvals. Their codes and HTTP statuses are in `api/errors.py`."""

from typing import Any

from molecule_core.common.errors import MoleculeError


class _ApprovalDetails:
    """Adds the current state of the approval to the response of an error."""

    details: dict[str, Any]

    @property
    def extras(self) -> dict[str, Any]:
        return {"approval": self.details["approval"]}


class SelfApproval(MoleculeError):
    """a workspace cannot decide its own approval request."""

    advice = "Wait for the decision, or withdraw the request."


class AlreadyDecided(_ApprovalDetails, MoleculeError):
    """this approval is already decided: {decided}. The first decision is final."""

    advice = "Read the approval for the details."


class ApprovalReassigned(_ApprovalDetails, MoleculeError):
    """this approval does not wait for your decision: {what}."""

    advice = "Read the approval for its current state."


class ApprovalChanged(_ApprovalDetails, MoleculeError):
    """the approval has changed since you read it (now revision {revision}, action_hash {action_hash})."""

    advice = "Read it again, then decide."


class ApprovalMismatch(_ApprovalDetails, MoleculeError):
    """this approval allows other arguments than those of this call: {approved}."""

    advice = (
        "Repeat the call with exactly the approved arguments and this approval, or call without an approval to request "
        "a new one."
    )


class ApprovalEnded(_ApprovalDetails, MoleculeError):
    """this approval has ended ({status}) and cannot be changed."""

    advice = "Request a new one if it is still needed."


class NoPendingQuestion(_ApprovalDetails, MoleculeError):
    """this approval has no open question: {what}."""

    advice = "Read the approval for its current state."


class NoHigherApprover(_ApprovalDetails, MoleculeError):
    """this approval cannot be escalated: it already waits for a person."""

    advice = "Approve it, deny it, or ask for more information."


class TooManyQuestions(_ApprovalDetails, MoleculeError):
    """the limit of {limit} questions per approval is reached."""

    advice = "Approve it, deny it, or escalate it."


class ApprovalUsed(_ApprovalDetails, MoleculeError):
    """this approval was already used at {used_at}; an approval is valid for one action."""

    advice = "Request a new one."


class NotApproved(_ApprovalDetails, MoleculeError):
    """this approval does not allow the action: {why}."""

    advice = "{how}"


class ApprovalRequired(_ApprovalDetails, MoleculeError):
    """{action} needs an approval: a rule of this workspace requires it."""

    advice = "{how}"

    @property
    def extras(self) -> dict[str, Any]:
        return {"approval": self.details["approval"], "header": "X-Molecule-Approval"}


class TooManyApprovals(MoleculeError):
    """this workspace has reached the limit of {limit} open approvals."""

    advice = "Wait for decisions, or withdraw requests that are not needed."
