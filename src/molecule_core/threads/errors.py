"""Errors of threads. Their codes and HTTP statuses are in `api/errors.py`."""

from typing import Any

from molecule_core.common.errors import LimitDetails, MoleculeError, ReasonError


class BaseInstructionsRequired(MoleculeError):
    """a thread needs base instructions, and the agent of this workspace has not reported its system prompt yet."""

    advice = "Send base_instructions, or let the agent report its prompt first."


class ThreadLeased(MoleculeError):
    """the engine {owner!r} holds this thread until {until}."""

    advice = "Wait until it releases the thread or its lease expires."

    @property
    def extras(self) -> dict[str, Any]:
        return dict(self.details)


class StaleGeneration(MoleculeError):
    """generation {given} no longer holds this thread: the current one is {generation}. Nothing was written."""

    advice = "Claim the thread again."

    @property
    def extras(self) -> dict[str, Any]:
        return {"generation": self.details["generation"]}


class ThreadClosedError(MoleculeError):
    """this thread is closed."""

    advice = "Resume it first."


class ThreadBusy(MoleculeError):
    """this request cannot run during a turn, and the turn {turn_id} is running: {what}."""

    advice = "Interrupt the turn, or wait for its end."

    @property
    def extras(self) -> dict[str, Any]:
        return {"turn_id": self.details["turn_id"]}


class PermissionsExceeded(MoleculeError):
    """a thread cannot have more than the thread that it comes from: {what} is more than {path} has."""

    advice = "Use only what that thread has, or ask a person to change it."


class NoRunningTurn(MoleculeError):
    """this thread has no running turn to steer."""

    advice = "Send the input with mode auto or queue."


class TurnMismatch(MoleculeError):
    """the running turn is {turn_id}, not {expected}."""

    advice = "Read the thread again, then retry."

    @property
    def extras(self) -> dict[str, Any]:
        return {"turn_id": self.details["turn_id"]}


class TurnNotOpen(MoleculeError):
    """this turn cannot be started or ended: it is {status}."""

    advice = "Read the thread again for its current turn."


class ThreadLimit(LimitDetails, MoleculeError):
    """this request is rejected: {what} ({use} of {most}, {limit})."""

    advice = "{remedy}"


class InvalidTask(ReasonError):
    """this agent cannot be spawned: {reason}"""


class AgentNotFound(MoleculeError):
    """agent {target!r} not found, or this thread cannot reach it."""

    advice = "Use a name from list_agents."


class RootNotWakeable(MoleculeError):
    """agents below a root cannot wake it unless its permissions allow it (root_followups)."""

    advice = "Use send_message."


class WaitTargetGone(MoleculeError):
    """this thread cannot wait for the agent {target!r}: {outcome}. Its result is unknown."""

    advice = "Use list_agents to find agents that you can wait for."
