"""What a row that enters a log writes, tells and wakes. Above: the hands that make rows. Below: ticks."""

from collections.abc import Iterable
from typing import Any

from molecule_core.messages.model import EXPIRY, WAKE_ASKED, Activity, Place, Span
from molecule_core.messages.ticks import Statement, ticked
from molecule_core.org.model import PUSH, Status, Workspace
from molecule_core.store.database import Event, T, WriteSet
from molecule_core.store.journal import PUSHES, log_key, org_key
from molecule_core.store.timers import TIMERS, timer


def with_its_delivery(written: WriteSet[T], target: Workspace, activity: Activity) -> WriteSet[T]:
    """What else a message begins: its end, if it has one; a look at the agent that it is to be pushed to; a wish that
    somebody wake the agent."""
    if activity.expires_at is not None:
        written.writes.append(timer(EXPIRY, activity.id, activity.expires_at))
        written.rings += (TIMERS,)
    if target.delivery_mode == PUSH:
        written.writes.append(("wake_target", {"workspace_id": target.id, "due": activity.created_at}))
        written.rings += (PUSHES,)
    if target.status is Status.HIBERNATED:
        place = Place(activity.seq, 0, activity.inbound_no or 0)
        noted, told = ticked(target.id, WAKE_ASKED, [Span(place, place)], activity.created_at)
        written.writes += noted
        written.events += told
    return written


def logged(answer: T, activity: Activity, event: str, file_ids: Iterable[str] = ()) -> WriteSet[T]:
    """A row of a log, with the files that it mentions, the event that tells it, and whom it wakes."""
    return WriteSet(
        answer,
        [("insert_activity", activity), *mentions(activity, file_ids)],
        [Event(event, activity.workspace_id, "activity", activity.id, at=activity.created_at)],
        (log_key(activity.workspace_id), org_key(activity.org_id)),
    )


def mentions(activity: Activity, file_ids: Iterable[str]) -> list[Statement]:
    """That a row mentions files: these stay, and the workspace in whose log it is may read them."""
    row = {"activity_id": activity.id, "workspace_id": activity.workspace_id}
    return [("insert_mention", {"file_id": each, **row}) for each in file_ids]


def row_in(written: WriteSet[Any]) -> Activity | None:
    """The row that a write set lets enter; None if it lets none."""
    rows = (params for name, params in written.writes if name == "insert_activity")
    found = next(rows, None)
    return found if isinstance(found, Activity) else None
