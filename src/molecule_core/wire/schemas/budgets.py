"""Budgets, as clients see them. Amounts of money are micro-units (millionths) of the organisation's currency."""

from typing import Annotated, Literal

import msgspec
from msgspec import Struct

BudgetAmount = Annotated[int, msgspec.Meta(ge=1, le=1 << 53)]
ScopeName = Literal["workspace", "subtree", "chain", "delegation"]
UnitName = Literal["money", "tokens"]
PeriodName = Literal["total", "day", "week", "month"]
BudgetCondition = Literal["ok", "noticed", "exhausted", "stopped"]


class CreateBudgetBody(Struct, forbid_unknown_fields=True):
    """A budget. `target_id`: the workspace; the first message of the chain; the delegation. `limit`: per period."""

    scope: ScopeName
    target_id: str
    unit: UnitName
    limit: BudgetAmount
    period: PeriodName = "total"


class ChangeBudgetBody(Struct, forbid_unknown_fields=True):
    """The limit of a budget in each period."""

    limit: BudgetAmount


class BudgetView(Struct, frozen=True):
    """A budget in its current period.

    `workspace_id`: where it is shown. `spent`: reported. `leased`: reserved by turns that have not reported; of it,
    `unreported` by turns that are over or lost. `raised`: added to the limit for this period. `state`: `noticed`: 80 %
    are spent; `exhausted`: a turn waits, and an approval is requested; `stopped`: people denied it. Times are RFC 3339.
    """

    budget_id: str
    scope: str
    target_id: str
    workspace_id: str
    unit: str
    period: str
    limit: int
    spent: int
    leased: int
    unreported: int
    raised: int
    state: BudgetCondition
    period_ends_at: str | None
    created_at: str
    updated_at: str


class BudgetList(Struct, frozen=True):
    """The budgets of an organisation, or those that limit a workspace, oldest first."""

    budgets: list[BudgetView]


class TurnLeaseBody(Struct, forbid_unknown_fields=True):
    """What a turn of a workspace leases from each budget of money and of tokens before it begins."""

    money: BudgetAmount
    tokens: BudgetAmount


class WorkspaceBudgets(Struct, frozen=True):
    """The budgets that limit the turns of a workspace, and what a turn leases from each."""

    budgets: list[BudgetView]
    turn_lease: TurnLeaseBody


class BudgetDeletedPayload(Struct, frozen=True):
    """A budget was deleted."""

    budget_id: str


class BudgetUsePayload(Struct, frozen=True):
    """How much of a budget is used. `limit` and amounts are in its `unit`."""

    budget_id: str
    scope: str
    unit: str
    period: str
    limit: int
    spent: int
    leased: int
