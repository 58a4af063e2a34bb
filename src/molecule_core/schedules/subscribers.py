"""Subscriber of workspace removals. It runs in the transaction of the event."""

from molecule_core.org.model import WorkspacesRemoved
from molecule_core.schedules.model import Schedule
from molecule_core.schedules.transitions import pause
from molecule_core.store.database import CommandSteps, ReadQuery, RequestBatch, WriteSet

SERVER = "server"


def on_workspaces_removed(org_id: str, event: WorkspacesRemoved) -> CommandSteps[object]:
    """Pause the schedules that act for a removed workspace or reach it, with the reason."""
    queries = [ReadQuery("schedules_of_workspaces", {"org_id": org_id, "workspace_id": each}) for each in event.ids]
    found = {row[0]: Schedule.from_row(row) for rows in (yield RequestBatch(queries)) for row in rows}
    changed: WriteSet[None] = WriteSet(None)
    for schedule in found.values():
        if not schedule.paused:
            whose = "its target" if schedule.target_id in event.ids else "the workspace that it acts for"
            changed += pause(schedule, f"{whose} was removed", event.at, SERVER)[1]
    return changed
