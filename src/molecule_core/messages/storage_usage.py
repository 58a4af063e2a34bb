"""Counts the bytes that workspaces store, and checks the limits of workspaces and organisations.

The counters change in the command that stores or deletes; a check reads them.
See docs/decisions/0075-storage-limits.md."""

from collections.abc import Generator, Sequence
from typing import Any

from msgspec import Struct

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.limits import Limits
from molecule_core.messages.errors import StorageFull
from molecule_core.store.database import ReadQuery, Statement, StepRequest

ROW_BYTES = 512
"""What a log row counts besides its bodies; the migration to schema 10 counts the same."""
# 5 s: what other workspaces and processes store meanwhile is far less than the sixteenth of a limit that is kept free.
_TRUST_SECONDS = 5
_SLACK_DIVISOR = 16


class _Usage(Struct, frozen=True):
    """Stored bytes of an organisation and of one of its workspaces, in the column order of `storage_usage`."""

    org_bodies: int
    org_files: int
    bodies: int
    files: int


class _Headroom(Struct):
    """Bytes of bodies that a workspace may store without another look at the counters, until a time (microseconds)."""

    left: int
    until: int


class StorageQuota:
    """Checks that what a command stores is within the limits.

    The counters are read again at the latest after five seconds, and each time when a limit is near. Commands of one
    group do not see each other, so together they may exceed a limit."""

    def __init__(self, *, clock: Clock, limits: Limits) -> None:
        self._clock = clock
        self._limits = limits
        self._headroom: dict[str, _Headroom] = {}

    def check_bodies(self, org_id: str, workspace_id: str, size: int) -> Generator[StepRequest, Any, None]:
        """Check that a log row with bodies of so many bytes fits. Raises StorageFull."""
        size += ROW_BYTES
        known = self._headroom.get(workspace_id)
        if known is not None and known.left >= size and known.until > self._clock.now():
            known.left -= size
            return
        usage, limits = (yield from _load(org_id, workspace_id)), self._limits
        _check("messages", "this workspace", usage.bodies, size, limits.workspace_body_bytes, "workspace_body_bytes")
        _check("messages", "this organisation", usage.org_bodies, size, limits.org_body_bytes, "org_body_bytes")
        pairs = (limits.workspace_body_bytes, usage.bodies), (limits.org_body_bytes, usage.org_bodies)
        left = min(limit - limit // _SLACK_DIVISOR - use for limit, use in pairs) - size
        self._headroom[workspace_id] = _Headroom(left, self._clock.now() + _TRUST_SECONDS * SECOND)

    def check_files(self, org_id: str, workspace_id: str, size: int) -> Generator[StepRequest, Any, None]:
        """Check that files of so many bytes in all fit. Raises StorageFull."""
        usage, limits = (yield from _load(org_id, workspace_id)), self._limits
        _check("files", "this workspace", usage.files, size, limits.workspace_file_bytes, "workspace_file_bytes")
        _check("files", "this organisation", usage.org_files, size, limits.org_file_bytes, "org_file_bytes")


def count_bytes(org_id: str, workspace_id: str, *, bodies: int = 0, files: int = 0) -> Statement:
    """Return the statement that adds bytes to the counters of a workspace; negative numbers subtract."""
    return "add_usage", {"org_id": org_id, "workspace_id": workspace_id, "body_bytes": bodies, "file_bytes": files}


def _load(org_id: str, workspace_id: str) -> Generator[StepRequest, Any, _Usage]:
    rows: Sequence[Any] = yield ReadQuery("storage_usage", {"org_id": org_id, "workspace_id": workspace_id})
    return _Usage(*rows[0])


def _check(what: str, owner: str, use: int, size: int, limit: int, setting: str) -> None:
    if use + size > limit:
        name = f"MOLECULE_LIMIT_{setting.upper()}"
        raise StorageFull(what=what, owner=owner, use=use, size=size, limit=limit, setting=name)
