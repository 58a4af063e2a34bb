"""Errors of the search. Their codes and HTTP statuses are in `api/errors.py`."""

from molecule_core.common.errors import MoleculeError


class EmptySearch(MoleculeError):
    """a search must have at least one word."""

    advice = "Write a word or a number into q."
