"""Budgets, what was spent of them, and the leases of turns.

Amounts of money are whole micro-units (millionths) of the organisation's currency. Times are microseconds."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct


class BudgetScope(StrEnum):
    """Whose turns a budget limits."""

    WORKSPACE = "workspace"
    """Those of one workspace."""
    SUBTREE = "subtree"
    """Those of a workspace and of all below it."""
    CHAIN = "chain"
    """Those that the messages of one chain cause. The target is its first message."""
    DELEGATION = "delegation"
    """Those that one delegation causes at its target."""


class BudgetUnit(StrEnum):
    """What a budget counts."""

    MONEY = "money"
    TOKENS = "tokens"


class BudgetPeriod(StrEnum):
    """Time after which a budget begins again, in UTC. A week begins on Monday."""

    TOTAL = "total"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


class BudgetDraft(Struct, frozen=True, kw_only=True):
    """A budget to create. `workspace_id`: where it is shown; for a scope of a workspace, this workspace."""

    scope: BudgetScope
    target_id: str
    workspace_id: str
    unit: BudgetUnit
    most: int
    period: BudgetPeriod


class SpendingBudget(Struct, frozen=True, kw_only=True):
    """A row of `budgets`, in column order. `most`: its limit in each period."""

    id: str
    org_id: str
    scope: BudgetScope
    target_id: str
    workspace_id: str
    unit: BudgetUnit
    most: int
    period: BudgetPeriod
    rev: int
    created_at: int
    updated_at: int
    updated_by: str

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "SpendingBudget":
        """Build a budget from a row as the queries select it."""
        columns: dict[str, Any] = dict(zip(cls.__struct_fields__, row, strict=True))
        columns["scope"] = BudgetScope(columns["scope"])
        columns["unit"] = BudgetUnit(columns["unit"])
        columns["period"] = BudgetPeriod(columns["period"])
        return cls(**columns)

    @property
    def covers_workspace(self) -> bool:
        """Return whether it limits all turns of its workspace, whatever they work on."""
        return self.scope in (BudgetScope.WORKSPACE, BudgetScope.SUBTREE)


class TurnLeaseSizes(Struct, frozen=True):
    """What a turn leases from a budget of each unit."""

    money: int
    tokens: int

    def size_for(self, unit: BudgetUnit) -> int:
        """Return what a turn leases from a budget of this unit."""
        return self.money if unit is BudgetUnit.MONEY else self.tokens


class BudgetState(Struct, frozen=True, kw_only=True):
    """A budget in its current period, in column order of `budget_state`, then its limit.

    `raised`: added to the limit for this period only. `leased`: by turns that have not reported their usage; of it,
    `unreported` is of turns whose lease has ended. `noticed_at`: when people were notified of 80 %. `asked_at`: when an
    approval was requested. `stopped`: people decided that it is not raised."""

    spent: int = 0
    raised: int = 0
    noticed_at: int | None = None
    asked_at: int | None = None
    stopped: int = 0
    leased: int = 0
    unreported: int = 0
    most: int = 0

    @property
    def limit(self) -> int:
        """Return the limit of this period."""
        return self.most + self.raised

    @property
    def used(self) -> int:
        """Return what is spent or leased."""
        return self.spent + self.leased


class TurnToLease(Struct, frozen=True, kw_only=True):
    """A turn that is about to begin. `key`: identifies it in its workspace. `until`: when its lease ends.

    `root_id`: first message of its chain. `thread_id`: its thread, if it has one."""

    key: str
    until: int
    root_id: str | None = None
    delegation_id: str | None = None
    thread_id: str | None = None


class BudgetLease(Struct, frozen=True, kw_only=True):
    """A row of `budget_leases`, in column order: what a turn has reserved of a budget and not reported yet."""

    budget_id: str
    workspace_id: str
    turn_key: str
    thread_id: str
    delegation_id: str
    period_start: int
    amount: int
    until: int
    begun_at: int


class LeaseResult(Struct, frozen=True):
    """Which turns may begin, and the budget that each other one waits for. `retry_at`: when to try again, or None."""

    admitted: frozenset[str] = frozenset()
    refused: dict[str, SpendingBudget] = {}
    retry_at: int | None = None


class BudgetExhausted(Struct, frozen=True, kw_only=True):
    """Domain event: a turn did not begin, because its budget is used up. Once per period, until people decide.

    `workspace_id`: of the turn. `proposed_raise`: what an approval adds."""

    budget: SpendingBudget
    state: BudgetState
    workspace_id: str
    period_start: int
    proposed_raise: int
    at: int


class WorkspaceOverBudget(Struct, frozen=True):
    """Domain event: a budget of a workspace is used up, so no turn of it begins before a time."""

    workspace_id: str
    until: int
    reason: str
    at: int


class BudgetHold(Struct, frozen=True):
    """A workspace whose turns wait for a budget. `until`: end of its limit; 0: only some of its turns wait."""

    workspace_id: str
    until: int


class BudgetHoldsEnded(Struct, frozen=True):
    """Domain event: a budget was raised, changed or deleted, so that the turns of these workspaces may begin."""

    holds: tuple[BudgetHold, ...]
    at: int


class RaiseDecision(Struct, frozen=True):
    """What people decided about a budget that is used up. `raise_by` 0: it is not raised.

    `is_permanent`: the limit of later periods is raised too."""

    raise_by: int
    is_permanent: bool = False
