"""Which delegations a caller may see.

Above: the edges of delegations. Below: their reader.
"""

from collections.abc import Callable

from molecule_core.access.model import Caller, Kind
from molecule_core.delegations.model import Delegation
from molecule_core.delegations.reader import DelegationReader
from molecule_core.edges.routes import Call
from molecule_core.ground.errors import NotFound


class Sight:
    """Finds delegations for callers. What one may not see and what is not there are the same to it: NotFound."""

    def __init__(self, reader: DelegationReader) -> None:
        self._reader = reader

    async def given(self, call: Call) -> Delegation:
        """A delegation that the workspace of the path has given. Raises NotFound."""
        return await self._of(call, lambda row: row.source_id == call.target.id)

    async def party(self, call: Call) -> Delegation:
        """A delegation that the workspace of the path has given, or was given. Raises NotFound."""
        return await self._of(call, lambda row: call.target.id in (row.source_id, row.target_id))

    async def _of(self, call: Call, is_its: Callable[[Delegation], bool]) -> Delegation:
        row = await self._reader.one(call.target.org_id, id_of(call))
        if not is_its(row):
            raise NotFound(what="delegation")
        return row

    async def any(self, call: Call) -> Delegation:
        """A delegation that the caller may see: a workspace those that it gave or was given, and all below those; a
        person those of the organisation. Raises NotFound."""
        caller: Caller = call.by
        if caller.kind is Kind.ADMIN:
            return await self._reader.anywhere(id_of(call))
        row = await self._reader.one(caller.org_id, id_of(call))
        if caller.kind is Kind.WORKSPACE and not await self._has_to_do_with(caller.id, row):
            raise NotFound(what="delegation")
        return row

    async def _has_to_do_with(self, workspace_id: str, row: Delegation) -> bool:
        """Whether it is a party of a delegation, or of one above it."""
        if workspace_id in (row.source_id, row.target_id) or row.parent_id is None:
            return workspace_id in (row.source_id, row.target_id)  # control: delegation-seen-by-both
        above = {each.id: each for each in await self._reader.tree(row.org_id, row.root_id)}
        parent = above.get(row.parent_id)
        while parent is not None:
            if workspace_id in (parent.source_id, parent.target_id):
                return True
            parent = None if parent.parent_id is None else above.get(parent.parent_id)
        return False


def id_of(call: Call) -> str:
    """The delegation that the path names. Raises NotFound."""
    return call.named("delegation_id", "delegation")
