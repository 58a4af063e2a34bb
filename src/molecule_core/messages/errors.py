"""Errors of stored messages and files. Their codes and HTTP statuses are in `api/errors.py`."""

from molecule_core.common.errors import MoleculeError


class StorageFull(MoleculeError):
    """this cannot be stored: the {what} of {owner} use {use} bytes, and {size} more exceed the limit of {limit}."""

    advice = "Wait until retention has deleted old ones, or ask the operator of the server to raise {setting}."
