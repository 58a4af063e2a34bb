"""Approvals: what is asked, who is asked, how it stands, and what is noted of it."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from molecule_core.wire.schemas.approvals import (
    ApprovalDecision,
    ApprovalHistoryEntry,
    ApprovalRule,
    AuthorityGrant,
    Party,
    PolicyReason,
)

APPROVAL = "approval"
"""The kind of the timer that looks after an approval; its key is `organisation/approval`."""
TOOL_ACTION_PREFIX = "tool:"
"""The actions that are calls of the server's own tools begin so."""


class ApprovalStatus(StrEnum):
    """How an approval stands."""

    PENDING = "pending"
    INFO = "info_requested"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"

    @property
    def is_ended(self) -> bool:
        """Whether it stands so for good."""
        return self not in (ApprovalStatus.PENDING, ApprovalStatus.INFO)


class ApprovalTrigger(StrEnum):
    """What can happen to an approval."""

    MOVED = "moved"
    """Somebody else is asked now, or nobody but a person."""
    QUESTION = "question"
    """Who is to decide wants to know more."""
    ANSWER = "answer"
    """The requester has said more."""
    APPROVE = "approve"
    DENY = "deny"
    EXPIRE = "expire"
    WITHDRAW = "withdraw"
    USE = "use"


class DecisionKind(StrEnum):
    """What somebody who is asked can say."""

    APPROVE = "approve"
    DENY = "deny"
    ESCALATE = "escalate"
    MORE_INFO = "more_info"


class PartyKind(StrEnum):
    """What sort of somebody is a party of an approval."""

    PERSON = "person"
    WORKSPACE = "workspace"
    RULE = "rule"
    CLOCK = "clock"
    SERVER = "server"
    REQUESTER = "requester"
    NONE = "none"


class ApprovalTransitionRule(NamedTuple):
    """What a fact does in one status: how the approval stands then, and the event that tells it."""

    status: ApprovalStatus
    event: str


class Approval(Struct, frozen=True, kw_only=True):
    """One row, in the order of its columns. Times in microseconds. store/schema.sql says what the columns mean."""

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
        """A row as the queries select it."""
        columns: dict[str, Any] = dict(zip(cls.__struct_fields__, row, strict=True))
        columns["status"] = ApprovalStatus(columns["status"])
        return cls(**columns)

    @property
    def key(self) -> str:
        """The key of its timer."""
        return f"{self.org_id}/{self.id}"

    @property
    def effective_details(self) -> str:
        """What is decided about, as JSON: the edited details, if somebody has edited them."""
        return self.proposed if self.edited is None else self.edited

    @property
    def history(self) -> list[ApprovalHistoryEntry]:
        """All that has happened, in order."""
        return msgspec.json.decode(self.path, type=list[ApprovalHistoryEntry])

    @property
    def asked_ids(self) -> list[str]:
        """The workspaces that were asked, in order."""
        return msgspec.json.decode(self.asked, type=list[str])

    @property
    def decision(self) -> ApprovalDecision | None:
        """The decision, if there is one."""
        return None if self.decided is None else msgspec.json.decode(self.decided, type=ApprovalDecision)

    @property
    def asker_party(self) -> Party | None:
        """Who waits for the requester to say more."""
        return None if self.asker is None else msgspec.json.decode(self.asker, type=Party)

    @property
    def policies(self) -> list[PolicyReason]:
        """Why it went as it did."""
        return msgspec.json.decode(self.policy, type=list[PolicyReason])

    def decision_state(self, *, is_above: bool = True) -> "DecisionState":
        """What decides what somebody may do to it. `is_above`: the tree has its holder above the requester still."""
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
            escalated=frozenset(entry.by.id for entry in history if entry.what == "escalated"),
            passed_on=frozenset(
                (entry.by.id, "" if entry.holder is None else entry.holder.id) for entry in escalations
            ),
            is_above=is_above,
            asker=None if asker is None else (asker.kind, asker.id),
            decided=None if decision is None else (decision.decision, decision.by.kind, decision.by.id),
        )


class DecisionState(NamedTuple):
    """As much of an approval as decides what somebody may do to it."""

    requester_id: str
    status: ApprovalStatus
    revision: int
    action_hash: str
    holder_id: str | None
    asked_ids: frozenset[str]
    escalated: frozenset[str]
    asker: tuple[str, str] | None
    decided: tuple[str, str, str] | None
    passed_on: frozenset[tuple[str, str]] = frozenset()
    """The persons who have passed it on since it was last changed, and over whom."""
    is_above: bool = True
    """Whether its holder stands above the requester now."""


class Decider(NamedTuple):
    """Who decides, as the credential proves it: a person (whose role the edge has looked at), or a workspace."""

    kind: PartyKind
    id: str


class DecisionRequest(NamedTuple):
    """What somebody decides, and about what: the revision and the hash that it was shown. `holder`: whose turn it was
    then; of a person who passes it on."""

    decision: DecisionKind
    revision: int | None = None
    action_hash: str | None = None
    holder: str | None = None


class DecisionCheck(StrEnum):
    """Whether a decision holds."""

    VALID = "done"
    REPEATED = "repeated"
    """The same somebody has said the same before."""
    OWN_REQUEST = "own"
    """Nobody decides what it has asked for itself."""
    NOT_ASKED = "stranger"
    """It was never asked."""
    ALREADY_DECIDED = "decided"
    """Somebody was first."""
    MOVED_ON = "moved_on"
    """Somebody else is asked now."""
    QUESTION_OPEN = "waits"
    """A question is open already."""
    CHANGED = "changed"
    """What was shown is not what stands there now."""
    NO_HIGHER_APPROVER = "nowhere"
    """There is nobody above."""


class UseCheck(StrEnum):
    """Whether an approval can be used."""

    VALID = "yes"
    USED = "used"
    NOT_APPROVED = "not_approved"
    CHANGED = "changed"
    EXPIRED = "lapsed"


class AuthorityCheck(StrEnum):
    """What the standing authority of a workspace says of an action."""

    COVERS = "covers"
    EXCEEDS = "exceeds"
    """It speaks of such actions, and this one is beyond it."""
    NO_GRANT = "silent"


class Approver(NamedTuple):
    """A workspace above the requester. `reachable`: its agent can be asked."""

    id: str
    name: str
    unreachable_reason: str
    is_root: bool
    authority: AuthorityCheck = AuthorityCheck.NO_GRANT


class NextApprover(NamedTuple):
    """Who is asked next: a workspace, or None for a person alone. `skipped`: who could not be, and why. `decides`: its
    standing authority approves without asking."""

    approver: Approver | None
    for_person: bool
    skipped: tuple[tuple[Approver, str], ...]
    auto_approves: bool = False


class Policies(Struct, frozen=True):
    """What owners and operators have set for one workspace."""

    rules: tuple[ApprovalRule, ...] = ()
    grants: tuple[AuthorityGrant, ...] = ()


class ApprovalRequest(Struct, frozen=True, kw_only=True):
    """What a workspace wants to be allowed. `key`: what the caller calls its request."""

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
    """A decision with its words: `details` are the edited ones; `session`: a short name of the credential, no secret of
    which is in it."""

    request: DecisionRequest
    by: Party
    note: str = ""
    details: dict[str, Any] | None = None
    session: str | None = None


class ApprovalRequestResult(Struct, frozen=True):
    """An approval that was asked for; `hit`: it was there already."""

    row: Approval
    is_duplicate: bool = False


def task_wake_key(org_id: str, task_id: str) -> str:
    """The wake-up key of who waits until a task needs an approval."""
    return f"approval-of:{org_id}/{task_id}"


def approval_wake_key(org_id: str, approval_id: str) -> str:
    """The wake-up key of who waits for an approval."""
    return f"approval:{org_id}/{approval_id}"
