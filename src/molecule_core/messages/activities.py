"""Builds the writes and events for a new log row. Calls delivery_log."""

from collections.abc import Iterable
from typing import Any

from molecule_core.messages.delivery_log import Statement, record_ticks
from molecule_core.messages.model import EXPIRY_TIMER, WAKE_ASKED, Activity, InboxPosition, InboxRange
from molecule_core.org.model import PUSH, Workspace, WorkspaceStatus
from molecule_core.store.database import JournalEvent, T, WriteSet
from molecule_core.store.journal import PUSHES_KEY, log_key, org_key
from molecule_core.store.timers import TIMERS_KEY, set_timer


def schedule_delivery(written: WriteSet[T], target: Workspace, activity: Activity) -> WriteSet[T]:
    """Schedule the message's expiry, its push, and a wake request for a hibernated agent."""
    if activity.expires_at is not None:
        written.writes.append(set_timer(EXPIRY_TIMER, activity.id, activity.expires_at))
        written.notify += (TIMERS_KEY,)
    if target.delivery_mode == PUSH:
        written.writes.append(("wake_target", {"workspace_id": target.id, "due": activity.created_at}))
        written.notify += (PUSHES_KEY,)
    if target.status is WorkspaceStatus.HIBERNATED:
        position = InboxPosition(activity.seq, 0, activity.inbound_no or 0)
        records, events = record_ticks(target.id, WAKE_ASKED, [InboxRange(position, position)], activity.created_at)
        written.writes += records
        written.events += events
    return written


def insert_activity(result: T, activity: Activity, event_name: str, file_ids: Iterable[str] = ()) -> WriteSet[T]:
    """Return the write set for a new log row: row, file mentions, journal event and wake-ups."""
    return WriteSet(
        result,
        [("insert_activity", activity), *insert_mentions(activity, file_ids)],
        [JournalEvent(event_name, activity.workspace_id, "activity", activity.id, at=activity.created_at)],
        (log_key(activity.workspace_id), org_key(activity.org_id)),
    )


def insert_mentions(activity: Activity, file_ids: Iterable[str]) -> list[Statement]:
    """Record the files that a row mentions.

    A mentioned file is retained, and the workspace that owns the log may read it."""
    row = {"activity_id": activity.id, "workspace_id": activity.workspace_id}
    return [("insert_mention", {"file_id": each, **row}) for each in file_ids]


def find_inserted_activity(written: WriteSet[Any]) -> Activity | None:
    """Return the activity that a write set inserts, if any."""
    rows = (params for name, params in written.writes if name == "insert_activity")
    found = next(rows, None)
    return found if isinstance(found, Activity) else None
