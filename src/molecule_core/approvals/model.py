"""Approvals: rows, states, requests and decisions."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from molecule_core.wire.schemas.approvals import (
    ApprovalDecision,
    ApprovalHistoryEntry,
    ApprovalRule,
    ApprovalStatus,
    AuthorityGrant,
    Party,
    PolicyReason,
)

RELAY_SOURCE = "relay"
"""Source of permission requests of a host that gets only whether it may act."""
HOST_SOURCE = "host"
"""Source of permission requests of a host that also gets edits and the reason: nothing is left to write to the agent.
"""
APPROVAL = "approval"
"""The kind of an approval's timer; its key is `organisation/approval`."""
TOOL_ACTION_PREFIX = "tool:"
"""Prefix of actions that are calls of the server's own tools."""


class ApprovalTrigger(StrEnum):
    """An occurrence that may change an approval's state."""

    ESCALATE = "moved"
    """Another approver is asked, or only a person."""
    QUESTION = "question"
    """The approver asks the requester a question."""
    ANSWER = "answer"
    """The requester answered the question."""
    APPROVE = "approve"
    DENY = "deny"
    EXPIRE = "expire"
    WITHDRAW = "withdraw"
    USE = "use"


class DecisionKind(StrEnum):
    """A decision that an approver can make."""

    APPROVE = "approve"
    DENY = "deny"
    ESCALATE = "escalate"
    MORE_INFO = "more_info"


class PartyKind(StrEnum):
    """Kind of a party of an approval."""

    PERSON = "person"
    WORKSPACE = "workspace"
    RULE = "rule"
    CLOCK = "clock"
    SERVER = "server"
    REQUESTER = "requester"
    NONE = "none"


class ApprovalTransitionRule(NamedTuple):
    """Effect of a trigger in one status: the new status and the event to emit."""

    status: ApprovalStatus
    event: str


class Approval(Struct, frozen=True, kw_only=True):
    """A row of `approvals`, in column order.

    Times are in microseconds. store/schema.sql documents the columns."""

    org_id: str
    id: str
    workspace_id: str
    requester_name: str
    status: ApprovalStatus
    open: int
    revision: int
    rev: int
    action: str
    reason: str
    proposed: str
    edited: str | None
    action_hash: str
    cost: float | None
    task_id: str | None
    thread_id: str | None
    source: str
    tool: str | None
    risk: str
    holder_id: str | None
    holder_name: str
    for_person: int
    asker: str | None
    messages: int
    message_id: str | None
    message_seq: int | None
    question_seq: int | None
    asked: str
    policy: str
    path: str
    decided: str | None
    created_at: int
    updated_at: int
    expires_at: int
    level_at: int | None
    settled_at: int | None
    used_at: int | None

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Approval":
        """Build an approval from a row as the queries select it."""
        columns: dict[str, Any] = dict(zip(cls.__struct_fields__, row, strict=True))
        columns["status"] = ApprovalStatus(columns["status"])
        return cls(**columns)

    @property
    def key(self) -> str:
        """Return the key of its timer."""
        return f"{self.org_id}/{self.id}"

    @property
    def effective_details(self) -> str:
        """Return the details under decision as JSON: the edited ones, if there are any."""
        return self.proposed if self.edited is None else self.edited

    @property
    def history(self) -> list[ApprovalHistoryEntry]:
        """Return the history entries in order."""
        return msgspec.json.decode(self.path, type=list[ApprovalHistoryEntry])

    @property
    def asked_ids(self) -> list[str]:
        """Return the ids of the workspaces that were asked, in order."""
        return msgspec.json.decode(self.asked, type=list[str])

    @property
    def decision(self) -> ApprovalDecision | None:
        """Return the decision, or None."""
        return None if self.decided is None else msgspec.json.decode(self.decided, type=ApprovalDecision)

    @property
    def asker_party(self) -> Party | None:
        """Return the party that waits for the requester's answer."""
        return None if self.asker is None else msgspec.json.decode(self.asker, type=Party)

    @property
    def policies(self) -> list[PolicyReason]:
        """Return the reasons why the approval was requested and decided as it was."""
        return msgspec.json.decode(self.policy, type=list[PolicyReason])

    def decision_state(self, *, is_above: bool = True) -> "DecisionState":
        """Return the state that decides which decisions are valid.

        `is_above`: the current approver is still above the requester in the org tree."""
        decision, asker, history = self.decision, self.asker_party, self.history
        answered = max((number for number, entry in enumerate(history) if entry.what == "answered"), default=0)
        escalations = [
            entry for entry in history[answered:] if entry.what == "escalated" and entry.by.kind == PartyKind.PERSON
        ]
        return DecisionState(
            requester_id=self.workspace_id,
            status=self.status,
            revision=self.revision,
            action_hash=self.action_hash,
            holder_id=self.holder_id,
            asked_ids=frozenset(self.asked_ids),
            escalated_by=frozenset(entry.by.id for entry in history if entry.what == "escalated"),
            person_escalations=frozenset(
                (entry.by.id, "" if entry.holder is None else entry.holder.id) for entry in escalations
            ),
            is_above=is_above,
            asker=None if asker is None else (asker.kind, asker.id),
            decided=None if decision is None else (decision.decision, decision.by.kind, decision.by.id),
        )


class DecisionState(NamedTuple):
    """The part of an approval that decides which decisions are valid."""

    requester_id: str
    status: ApprovalStatus
    revision: int
    action_hash: str
    holder_id: str | None
    asked_ids: frozenset[str]
    escalated_by: frozenset[str]
    asker: tuple[str, str] | None
    decided: tuple[str, str, str] | None
    person_escalations: frozenset[tuple[str, str]] = frozenset()
    """The persons who escalated it since the last change, with the approver at that time."""
    is_above: bool = True
    """Whether the current approver is above the requester in the org tree."""


class Decider(NamedTuple):
    """The deciding party as authenticated: a person (the api has checked the role), or a workspace."""

    kind: PartyKind
    id: str


class DecisionRequest(NamedTuple):
    """A decision, with the revision and hash that the decider saw.

    `holder`: the approver at that time; only for a person who escalates."""

    decision: DecisionKind
    revision: int | None = None
    action_hash: str | None = None
    holder: str | None = None


class DecisionCheck(StrEnum):
    """Outcome of checking a decision."""

    VALID = "done"
    REPEATED = "repeated"
    """The same party has made the same decision before."""
    OWN_REQUEST = "own"
    """A workspace cannot decide its own request."""
    NOT_ASKED = "stranger"
    """The workspace was never asked."""
    ALREADY_DECIDED = "decided"
    """Another decision came first."""
    REASSIGNED = "moved_on"
    """Another approver is asked now."""
    QUESTION_OPEN = "waits"
    """A question is already open."""
    CHANGED = "changed"
    """The approval has changed since the decider saw it."""
    NO_HIGHER_APPROVER = "nowhere"
    """There is no approver above."""


class UseCheck(StrEnum):
    """Outcome of checking whether an approval can be used."""

    VALID = "yes"
    USED = "used"
    NOT_APPROVED = "not_approved"
    OTHER_ACTION = "other_action"
    EXPIRED = "lapsed"


class AuthorityCheck(StrEnum):
    """Outcome of checking an action against a workspace's authority grants."""

    COVERS = "covers"
    EXCEEDS = "exceeds"
    """A grant names such actions, but this one is beyond its bounds."""
    NO_GRANT = "silent"


class Approver(NamedTuple):
    """A workspace above the requester.

    `unreachable_reason`: why its agent cannot be asked; empty if it can."""

    id: str
    name: str
    unreachable_reason: str
    is_root: bool
    authority: AuthorityCheck = AuthorityCheck.NO_GRANT


class NextApprover(NamedTuple):
    """The next approver: a workspace, or None for a person alone.

    `skipped`: approvers that could not be asked, with reasons. `auto_approves`: the approver's grants approve without
    asking."""

    approver: Approver | None
    for_person: bool
    skipped: tuple[tuple[Approver, str], ...]
    auto_approves: bool = False


class Policies(Struct, frozen=True):
    """Approval rules and authority grants of one workspace, as set by owners and operators."""

    rules: tuple[ApprovalRule, ...] = ()
    grants: tuple[AuthorityGrant, ...] = ()


class ApprovalRequest(Struct, frozen=True, kw_only=True):
    """A request for permission. `key`: the caller's idempotency key."""

    workspace_id: str
    action: str
    reason: str = ""
    details: dict[str, Any] = {}
    cost: float | None = None
    expires_in: int | None = None
    task_id: str | None = None
    thread_id: str | None = None
    key: str | None = None
    source: str = "api"
    tool: str | None = None
    risk: tuple[str, ...] = ()
    policy: tuple[PolicyReason, ...] = ()


class DecisionInput(Struct, frozen=True, kw_only=True):
    """A decision with its note.

    `details`: edited details. `session`: a short name of the credential, without any secret."""

    request: DecisionRequest
    by: Party
    note: str = ""
    details: dict[str, Any] | None = None
    session: str | None = None


class ApprovalRequestResult(Struct, frozen=True):
    """The approval that a request led to. `is_duplicate`: it existed already."""

    row: Approval
    is_duplicate: bool = False


def task_wake_key(org_id: str, task_id: str) -> str:
    """Return the wake-up key for approvals that a task needs."""
    return f"approval-of:{org_id}/{task_id}"


def approval_wake_key(org_id: str, approval_id: str) -> str:
    """Return the wake-up key for changes of an approval."""
    return f"approval:{org_id}/{approval_id}"
