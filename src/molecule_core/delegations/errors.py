"""Errors of delegations. Their codes and HTTP statuses are in `api/errors.py`."""

from molecule_core.common.errors import LimitDetails, MoleculeError


class SelfDelegation(MoleculeError):
    """a workspace cannot delegate to itself."""

    advice = "Do the task here, or choose one of your peers."


class DelegationLimit(LimitDetails, MoleculeError):
    """this delegation is rejected: {what} ({use} of {most})."""

    advice = "{remedy}"


class DelegationCycle(LimitDetails, MoleculeError):
    """this delegation is rejected: {what} ({use} of {most}), so the task would repeat without end."""

    advice = "{remedy}"


class ScopeExceeded(MoleculeError):
    """{what} is outside what this work may do."""

    advice = "{remedy}"


class DelegationNotEnded(MoleculeError):
    """this delegation cannot be started again: it is {status}."""

    advice = "Wait for its end, or cancel it first."


class NotTheAssignee(MoleculeError):
    """only the workspace that has the task can report this."""

    advice = "Cancel the task, or update what you recorded about it, if you are the delegator."
