"""Errors of budgets. Their codes and HTTP statuses are in `api/errors.py`."""

from typing import Any

from molecule_core.common.errors import MoleculeError


class OverBudget(MoleculeError):
    """this turn cannot begin now: {used} of {limit} {unit} of a budget are used or leased."""

    advice = "Wait until the budget is raised or its next period begins. The turn keeps its place."

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 5, "budget_id": self.details["budget_id"]}


class BudgetExists(MoleculeError):
    """there is a budget of this scope, target, unit and period already: {budget_id}."""

    advice = "Change its limit."

    @property
    def extras(self) -> dict[str, Any]:
        return {"budget_id": self.details["budget_id"]}


class TooManyBudgets(MoleculeError):
    """an organisation cannot have more than {most} budgets."""

    advice = "Delete one first."
