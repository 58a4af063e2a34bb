"""What owners and operators have set, in memory: which actions of a workspace need leave, which it decides alone.

Changed by the writer right after its commit, and from the journal where other processes write too. Above: the writer,
the steps and the edges. Below: the store.
"""

from collections.abc import Iterable

import msgspec

from molecule_core.approvals.model import Policies
from molecule_core.store.database import Row, Store
from molecule_core.store.mirrors import Mirror, Reads
from molecule_core.wire.approvals import Grant, Rule

_NONE = Policies()


class PolicyBook(Mirror):
    """Policies by workspace."""

    KINDS = ("approval_policies",)

    def __init__(self) -> None:
        self._known: dict[str, Policies] = {}

    def of(self, workspace_id: str) -> Policies:
        """What was set for a workspace; nothing, if nothing was."""
        return self._known.get(workspace_id, _NONE)

    def put(self, workspace_id: str, policies: Policies) -> None:
        """This holds from now on."""
        self._known[workspace_id] = policies

    async def open(self, store: Store) -> None:
        """Fills it from the store, at start."""
        for row in await store.rows("all_policies", {}):
            self.put(row[0], _policies(row[1:]))

    async def load(self, read: Reads, kind: str, keys: list[str]) -> Iterable[str]:
        found = await read("policies_of", [{"workspace_id": key} for key in keys])
        for key, rows in zip(keys, found, strict=True):
            self.put(key, _policies(rows[0]) if rows else _NONE)
        return ()

    async def load_all(self, read: Reads) -> None:
        self._known = {row[0]: _policies(row[1:]) for row in (await read("all_policies", [{}]))[0]}


def _policies(row: Row) -> Policies:
    rules, grants = row
    return Policies(
        tuple(msgspec.json.decode(rules, type=list[Rule])), tuple(msgspec.json.decode(grants, type=list[Grant]))
    )
