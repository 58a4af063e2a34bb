"""Errors of memory. Their codes and HTTP statuses are in `api/errors.py`."""

from molecule_core.common.errors import MoleculeError


class OrgMemoryFull(MoleculeError):
    """this cannot be stored: the memory of this organisation uses {use} bytes, and {size} more exceed the limit of \
{limit}."""

    advice = "Delete memories that are no longer needed, or ask the operator of the server to raise {setting}."
