"""Traces of requests as clients read them."""

from msgspec import Struct

from molecule_core.wire.schemas.delegations import DelegationTreeNode


class TraceMessage(Struct):
    """A message that a request caused, or the request itself (`no` 0).

    `state`: of its obligation (open, answered, declined and so on); null if no answer is due. Times are RFC 3339."""

    no: int
    activity_id: str
    workspace_id: str
    workspace_name: str | None
    source_id: str | None
    source_name: str | None
    user_id: str | None
    kind: str | None
    method: str | None
    summary: str | None
    hop: int
    cause_id: str | None
    at: str
    state: str | None
    closed_at: str | None


class TraceApproval(Struct):
    """An approval that a workspace requested while it worked on the request."""

    approval_id: str
    workspace_id: str
    workspace_name: str | None
    action: str
    status: str
    task_id: str | None
    created_at: str
    settled_at: str | None


class TraceTurn(Struct):
    """A turn that a message began: of a thread of `molecule agent run`, or one that a bridge reported when it ended.

    Or one that such a turn caused through sub-agents: then `parent_turn_id` is the turn that it follows from, and
    `activity_id` is null. `agent`: path of the sub-agent below the root of its threads, null for the root.
    `thread_id`: null if a bridge reported it. `at`: when it ended, or began if it still runs; then `seconds` is null.
    `usage`: what it used, by name (`input_tokens`, `output_tokens`, `cost_usd`). `tools`: number of calls, by tool.
    `cost_micros`: as recorded, in millionths of the organisation's currency; null if it is unknown."""

    activity_id: str | None
    thread_id: str | None
    turn_id: str | None
    parent_turn_id: str | None
    agent: str | None
    workspace_id: str
    workspace_name: str | None
    at: str
    seconds: float | None
    usage: dict[str, float]
    tools: dict[str, int]
    cost_micros: int | None


class TraceDetail(Struct):
    """Everything that one request caused: messages and approvals by time, delegations as trees.

    `usage`: sums over the turns. `cost_micros`: sum of the known ones, null if no cost
    is known. `is_complete`: false if a list was cut at its limit."""

    root_id: str
    messages: list[TraceMessage]
    delegations: list[DelegationTreeNode]
    approvals: list[TraceApproval]
    turns: list[TraceTurn]
    usage: dict[str, float]
    cost_micros: int | None
    currency: str
    is_complete: bool
