"""Limits workspaces whose budget is used up, in the transaction of the turn that did not begin.

Registered by server/composition.py; docs/order.md lists the order."""

from molecule_core.budgets.model import BudgetHoldsEnded, WorkspaceOverBudget
from molecule_core.org.limit_writer import LimitWriter
from molecule_core.store.database import CommandSteps, WriteSet


class BudgetHoldSubscriber:
    """Subscriber of budgets that are used up, and of those that are raised, changed or deleted."""

    def __init__(self, limit_writer: LimitWriter) -> None:
        self._limit_writer = limit_writer

    def on_over_budget(self, org_id: str, event: WorkspaceOverBudget) -> CommandSteps[object]:
        """Limit a workspace until its budget may have capacity again: its messages wait in the inbox.

        The subscription is isolated, because what follows changes the inbox and the delegations of the workspace."""
        yield from ()
        return self._limit_writer.begin_over_budget(event.workspace_id, event.until, event.reason, event.at)

    def on_holds_ended(self, org_id: str, event: BudgetHoldsEnded) -> CommandSteps[object]:
        """Deliver the messages of workspaces that waited for a budget. The emitting commands are exclusive."""
        yield from ()
        changes = WriteSet[object](None)
        for each in event.holds:
            changes += self._limit_writer.end_over_budget(each.workspace_id, each.until, event.at)
        return changes
