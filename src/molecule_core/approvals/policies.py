"""In-memory cache of approval policies: which actions need an approval, and which a workspace decides alone.

The writer updates it after its commit; changes of other processes arrive through the journal.
"""

from collections.abc import Iterable

import msgspec

from molecule_core.approvals.model import Policies
from molecule_core.store.cache_sync import BatchReader, SyncedCache
from molecule_core.store.database import Row, Store
from molecule_core.wire.schemas.approvals import ApprovalRule, AuthorityGrant

_NO_POLICIES = Policies()


class PolicyCache(SyncedCache):
    """In-memory cache of policies by workspace."""

    KINDS = ("approval_policies",)

    def __init__(self) -> None:
        self._by_workspace: dict[str, Policies] = {}

    def policies_of(self, workspace_id: str) -> Policies:
        """Return the policies of a workspace; empty ones if none are set."""
        return self._by_workspace.get(workspace_id, _NO_POLICIES)

    def set_policies(self, workspace_id: str, policies: Policies) -> None:
        """Replace the policies of a workspace."""
        self._by_workspace[workspace_id] = policies

    async def open(self, store: Store) -> None:
        """Load all policies from the store."""
        for row in await store.rows("all_policies", {}):
            self.set_policies(row[0], _decode_policies(row[1:]))

    async def load(self, read: BatchReader, kind: str, keys: list[str]) -> Iterable[str]:
        found = await read("policies_of", [{"workspace_id": key} for key in keys])
        for key, rows in zip(keys, found, strict=True):
            self.set_policies(key, _decode_policies(rows[0]) if rows else _NO_POLICIES)
        return ()

    async def load_all(self, read: BatchReader) -> None:
        self._by_workspace = {row[0]: _decode_policies(row[1:]) for row in (await read("all_policies", [{}]))[0]}


def _decode_policies(row: Row) -> Policies:
    rules, grants = row
    return Policies(
        tuple(msgspec.json.decode(rules, type=list[ApprovalRule])),
        tuple(msgspec.json.decode(grants, type=list[AuthorityGrant])),
    )
