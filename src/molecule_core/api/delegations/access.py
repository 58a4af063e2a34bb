"""Access control of delegations."""

from molecule_core.access.model import Caller, CredentialKind
from molecule_core.api.routing import Request
from molecule_core.common.errors import NotFound
from molecule_core.delegations.model import Delegation
from molecule_core.delegations.reader import DelegationReader


class DelegationAccess:
    """Lookup of delegations. Raises NotFound both for missing delegations and for those the caller may not see."""

    def __init__(self, reader: DelegationReader) -> None:
        self._reader = reader

    async def find_sent(self, request: Request) -> Delegation:
        """Return a delegation that the workspace of the path sent. Raises NotFound."""
        row = await self._reader.get_delegation(request.workspace.org_id, delegation_id_of(request))
        if row.source_id != request.workspace.id:
            raise NotFound(what="delegation")
        return row

    async def find_as_party(self, request: Request) -> Delegation:
        """Return a delegation that the workspace of the path sent or received. Raises NotFound."""
        row = await self._reader.get_delegation(request.workspace.org_id, delegation_id_of(request))
        if request.workspace.id not in (row.source_id, row.target_id):
            raise NotFound(what="delegation")
        return row

    async def find_visible(self, request: Request) -> Delegation:
        """Return a delegation that the caller may see. Raises NotFound.

        A workspace sees those it sent or received, and all below them; a person those of the organisation.
        """
        caller: Caller = request.caller
        if caller.kind is CredentialKind.ADMIN:
            return await self._reader.get_in_any_org(delegation_id_of(request))
        row = await self._reader.get_delegation(caller.org_id, delegation_id_of(request))
        if caller.kind is CredentialKind.WORKSPACE and not await self._is_involved(caller.id, row):
            raise NotFound(what="delegation")
        return row

    async def _is_involved(self, workspace_id: str, row: Delegation) -> bool:
        """Return whether a workspace is a party of a delegation, or of one above it."""
        if workspace_id in (row.source_id, row.target_id) or row.parent_id is None:
            return workspace_id in (row.source_id, row.target_id)  # control: delegation-seen-by-both
        ancestors = {each.id: each for each in await self._reader.load_tree(row.org_id, row.root_id)}
        parent = ancestors.get(row.parent_id)
        while parent is not None:
            if workspace_id in (parent.source_id, parent.target_id):
                return True
            parent = None if parent.parent_id is None else ancestors.get(parent.parent_id)
        return False


def delegation_id_of(request: Request) -> str:
    """Return the delegation id of the path. Raises NotFound."""
    return request.path_param("delegation_id", "delegation")
