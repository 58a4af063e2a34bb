"""Checks that a caller may talk to a workspace, for requests of A2A that send nothing."""

from molecule_core.access.model import Caller, CredentialKind
from molecule_core.common.errors import CommunicationDenied
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import are_related


def check_may_talk(org: OrgReader, caller: Caller, workspace: Workspace) -> None:
    """Check that a caller may send messages to a workspace of its organisation. Raises CommunicationDenied."""
    if caller.kind is CredentialKind.WORKSPACE and not are_related(org, org.active_workspace(caller.id), workspace):
        raise CommunicationDenied
