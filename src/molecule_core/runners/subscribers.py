"""Subscriber of workspace removals. It runs in the transaction of the event."""

from molecule_core.org.model import WorkspacesRemoved
from molecule_core.store.database import CommandSteps, WriteSet, write_only


def on_workspaces_removed(_org_id: str, event: WorkspacesRemoved) -> CommandSteps[object]:
    """Delete the agents of removed workspaces. Their runners see that the tokens are rejected."""
    return write_only(WriteSet(None, [("forget_runner_agent", {"workspace_id": each}) for each in event.ids]))
