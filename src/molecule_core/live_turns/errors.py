"""Errors of live turns. Their codes and HTTP statuses are in `api/errors.py`."""

from molecule_core.common.errors import MoleculeError


class TurnNotRunning(MoleculeError):
    """the turn {activity_id!r} cannot be stopped: the agent does not report it as running."""

    advice = "Use the id of a turn that is shown as running."
