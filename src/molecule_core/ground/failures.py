"""What goes wrong with the server itself, or with a command. `ground/errors.py` has all of them, with the refusals."""

from typing import Any

from molecule_core.ground.base_error import MoleculeError


class RateLimited(MoleculeError):
    """rate limit exceeded"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": self.details["retry_after"]}


class TooManyOpen(MoleculeError):
    """so many {what} are in use that no more are taken (at most {most}). End one, then try again."""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 5}  # it is up to the caller how soon one ends; not at once, or it would only ask


class ServerBusy(MoleculeError):
    """too much is waiting to be written; try again shortly"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 1}


class StoreUnavailable(MoleculeError):
    """the store does not answer; try again shortly, with the same messageId, so that nothing is done twice"""

    @property
    def extras(self) -> dict[str, Any]:
        return {"retry_after": 5}


class Unexpected(MoleculeError):
    """the server made a mistake; it is in its log under {reference}. Nothing was changed."""


class StateInUse(MoleculeError):
    """another Molecule server already writes to {place}. Stop it first, or choose another --state-dir."""


class StoreDamaged(MoleculeError):
    """the store {place} cannot be opened ({reason}). Put a backup back: molecule restore COPY"""


class SchemaTooNew(MoleculeError):
    """the store was written by a newer Molecule (schema {found}, this one knows {known}). Install that version."""


class BackupFailed(MoleculeError):
    """that did not work: {reason}"""


class CommandFailed(MoleculeError):
    """that did not work: {reason}"""


class PruneFailed(MoleculeError):
    """{url} did not prune: {reason}. Name the --port of a running server and the --state-dir that holds its token."""


class LoginLinkFailed(MoleculeError):
    """no login link: {reason}"""


class ChainsFailed(MoleculeError):
    """that did not work: {reason}"""


class MemoryFailed(MoleculeError):
    """that did not work: {reason}"""


class OrgFileFailed(MoleculeError):
    """that did not work: {reason}"""


class BadSettings(MoleculeError):
    """invalid setting: {reason}"""
