"""Errors of runners. Their codes and HTTP statuses are in `api/errors.py`."""

from molecule_core.common.errors import MoleculeError


class AgentHasRunner(MoleculeError):
    """the agent of this workspace cannot be started: the runner {runner!r} has started it already."""

    advice = "Stop it there, or remove that runner."
