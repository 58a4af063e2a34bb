"""Approvals as clients read them: one shape for responses, lists, events and snapshots."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct


class ApprovalStatus(StrEnum):
    """Status of an approval."""

    PENDING = "pending"
    INFO = "info_requested"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"

    @property
    def is_ended(self) -> bool:
        """Return whether the status is final."""
        return self not in (ApprovalStatus.PENDING, ApprovalStatus.INFO)


class Party(Struct, frozen=True):
    """A party of an approval. `kind`: person, workspace, rule, clock, server, requester or none."""

    kind: str
    id: str
    name: str


class CurrentApprover(Struct, frozen=True):
    """The party whose turn it is. `kind`: workspace, person, requester (has to answer a question) or none (ended)."""

    kind: str
    workspace_id: str | None
    name: str


class ApprovalHistoryEntry(Struct, frozen=True):
    """An entry in the history of an approval.

    `what`: requested, asked, escalated, info_requested, answered, edited, approved, denied, expired, withdrawn or
    used. `why`: the server's reason; `note`: the comment of `by`."""

    at: str
    what: str
    by: Party
    holder: Party | None
    why: str = ""
    note: str = ""


class DecidedBy(Struct, frozen=True):
    """The party that decided. `session`: a short name of the credential that was used."""

    kind: str
    id: str
    name: str
    session: str | None = None


class ApprovalDecision(Struct, frozen=True):
    """A decision. `decision`: approve or deny; `edited`: the details differ from the proposed ones."""

    decision: str
    by: DecidedBy
    at: str
    note: str
    revision: int
    action_hash: str
    edited: bool


class PolicyReason(Struct, frozen=True):
    """Why an approval is needed or how it was resolved. `kind`: rule, authority or deadline."""

    kind: str
    text: str


class ApprovalItem(Struct, frozen=True, kw_only=True):
    """An approval. Times are RFC 3339 in UTC.

    `revision` rises when the content to decide about changes; `seq` counts all changes and is the `rev` of its
    events. `details`: the details in force, which are `edited` if set, else `proposed`. `message_id`: the activity
    that asked the current holder. `thread_id`: the thread that waits for it."""

    approval_id: str
    workspace_id: str
    requester_name: str
    org_id: str
    action: str
    reason: str
    details: Raw
    proposed: Raw
    edited: Raw | None
    cost: float | None
    task_id: str | None
    thread_id: str | None
    status: str
    revision: int
    action_hash: str
    holder: CurrentApprover
    for_person: bool
    source: str
    tool: str | None
    risk: list[str]
    created_at: str
    expires_at: str
    level_deadline: str | None
    decided: ApprovalDecision | None
    used_at: str | None
    policy: list[PolicyReason]
    path: list[ApprovalHistoryEntry]
    message_id: str | None
    seq: int


class ApprovalPage(Struct, frozen=True):
    """A page of approvals. `reached_end`: there are no more."""

    approvals: list[ApprovalItem]
    reached_end: bool


class UseApprovalResponse(Struct, frozen=True):
    """Confirmation that the approval is used. Only one caller ever gets it for an approval."""

    approval_id: str
    used_at: str


Cost = Annotated[float, Meta(ge=0)]
ActionPattern = Annotated[str, Meta(min_length=1)]


class ApprovalRule(Struct, frozen=True, omit_defaults=True):
    """Actions that need an approval: those whose name matches the pattern (`*` matches any text).

    The server's own tools are named `tool:<name>`. `cost_above`: only if the cost is higher or unknown;
    `first_time`: only until one like it was approved and used."""

    action: ActionPattern
    cost_above: Cost | None = None
    first_time: bool = False
    note: str = ""


class AuthorityGrant(Struct, frozen=True, omit_defaults=True, rename={"since": "from"}):
    """Actions that a workspace may approve by itself for workspaces below it.

    Covers names that match the pattern, up to a cost and within a period (`from`, `until`: RFC 3339). Matching
    actions outside of these bounds must be decided above."""

    action: ActionPattern
    cost_up_to: Cost | None = None
    since: str | None = None
    until: str | None = None


class ApprovalRuleSet(Struct, frozen=True):
    """The approval rules of a workspace."""

    rules: list[ApprovalRule]


class ApprovalAuthority(Struct, frozen=True):
    """The approval authority of a workspace."""

    grants: list[AuthorityGrant]


class PoliciesUpdatedPayload(Struct, frozen=True):
    """The approval rules or grants of a workspace were set. `rules` and `grants`: their numbers."""

    rules: int
    grants: int


def approval_as_dict(item: ApprovalItem) -> Any:
    """Convert an approval to plain data, for an error response that includes it."""
    return msgspec.json.decode(msgspec.json.encode(item))
