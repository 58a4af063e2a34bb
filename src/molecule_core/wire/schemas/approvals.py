"""Approvals as clients read them: one shape in answers, lists, events and snapshots."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct


class Party(Struct, frozen=True):
    """Somebody who has a part in an approval. `kind`: person, workspace, rule, clock, server, requester or none."""

    kind: str
    id: str
    name: str


class CurrentApprover(Struct, frozen=True):
    """Whose turn it is. `kind`: workspace, person, requester (it is asked for more), or none (it has ended)."""

    kind: str
    workspace_id: str | None
    name: str


class ApprovalHistoryEntry(Struct, frozen=True):
    """Something that happened to an approval. `what`: requested, asked, escalated, info_requested, answered, edited,
    approved, denied, expired, withdrawn or used. `why`: the reason that the server gives; `note`: what `by` said."""

    at: str
    what: str
    by: Party
    holder: Party | None
    why: str = ""
    note: str = ""


class DecidedBy(Struct, frozen=True):
    """Who decided. `session`: a short name of the credential it was done with."""

    kind: str
    id: str
    name: str
    session: str | None = None


class ApprovalDecision(Struct, frozen=True):
    """The decision. `decision`: approve or deny; `edited`: the details are not those that were proposed."""

    decision: str
    by: DecidedBy
    at: str
    note: str
    revision: int
    action_hash: str
    edited: bool


class PolicyReason(Struct, frozen=True):
    """Why it is asked, or went as it did. `kind`: rule, authority or deadline."""

    kind: str
    text: str


class ApprovalItem(Struct, frozen=True, kw_only=True):
    """An approval. Times are RFC 3339 in UTC. `revision` counts what is decided about: it rises when that changes;
    `seq` counts all changes, and is the `rev` of its events. `details` are the ones in force: `edited`, if somebody has
    edited them, else `proposed`. `message_id`: the activity that the holder was asked by.
    `thread_id`: the thread that waits for it."""

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
    """Approvals. `reached_end`: there is none behind them."""

    approvals: list[ApprovalItem]
    reached_end: bool


class UseApprovalResponse(Struct, frozen=True):
    """An approval is used, by whoever reads this and nobody else."""

    approval_id: str
    used_at: str


Cost = Annotated[float, Meta(ge=0)]
ActionPattern = Annotated[str, Meta(min_length=1)]


class ApprovalRule(Struct, frozen=True, omit_defaults=True):
    """Actions that need an approval: those whose name fits the pattern (`*` is any text; the server's own tools are
    called `tool:<name>`). `cost_above`: only if they cost more, or nobody knows how much; `first_time`: only as long as
    none like it was approved and used."""

    action: ActionPattern
    cost_above: Cost | None = None
    first_time: bool = False
    note: str = ""


class AuthorityGrant(Struct, frozen=True, omit_defaults=True, rename={"since": "from"}):
    """Actions that a workspace approves by itself for those below it: those whose name fits the pattern, up to a cost,
    within a time (`from`, `until`: RFC 3339). What fits the pattern and is beyond the bounds is not its to decide."""

    action: ActionPattern
    cost_up_to: Cost | None = None
    since: str | None = None
    until: str | None = None


class ApprovalRuleSet(Struct, frozen=True):
    """What a workspace needs leave for."""

    rules: list[ApprovalRule]


class ApprovalAuthority(Struct, frozen=True):
    """What a workspace decides by itself."""

    grants: list[AuthorityGrant]


class PoliciesUpdatedPayload(Struct, frozen=True):
    """What a workspace needs leave for, or decides by itself, was set: so many rules and grants it has now."""

    rules: int
    grants: int


def approval_as_dict(item: ApprovalItem) -> Any:
    """An approval as plain data, for a refusal that shows it."""
    return msgspec.json.decode(msgspec.json.encode(item))
