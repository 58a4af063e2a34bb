"""Subscriber of workspace removals. It runs in the transaction of the event."""

from molecule_core.org.model import WorkspacesRemoved
from molecule_core.store.database import CommandSteps, WriteSet, write_only


def on_workspaces_removed(_org_id: str, event: WorkspacesRemoved) -> CommandSteps[object]:
    """Delete the webhooks for tasks of removed workspaces, and those that removed workspaces own."""
    writes = [
        each
        for workspace_id in event.ids
        for each in (
            ("forget_workspace_webhooks", {"workspace_id": workspace_id}),
            ("forget_owner_webhooks", {"owner": f"workspace:{workspace_id}"}),
        )
    ]
    return write_only(WriteSet(None, writes))
