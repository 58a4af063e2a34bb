"""Changes of schedules that several commands make. They read nothing."""

import msgspec
from msgspec.structs import replace

from molecule_core.schedules.model import SCHEDULE, Schedule, ScheduleRun
from molecule_core.schedules.rules import state_of
from molecule_core.schedules.serializers import to_run_view
from molecule_core.store.database import JournalEvent, Statement, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.timers import TIMERS_KEY, cancel_timer, set_timer
from molecule_core.wire.schemas.schedules import ScheduleChangedPayload, ScheduleRanPayload


def timer_statement(schedule: Schedule, due: int | None) -> Statement:
    """Return the statement that wakes a schedule at a time; None: never."""
    return cancel_timer(SCHEDULE, schedule.key) if due is None else set_timer(SCHEDULE, schedule.key, due)


def changed_event(schedule: Schedule, now: int) -> JournalEvent:
    """Return the event that a schedule was created, changed, paused or resumed."""
    payload = ScheduleChangedPayload(schedule.id, schedule.name, state_of(schedule), schedule.pause_reason)
    return JournalEvent(
        "SCHEDULE_CHANGED",
        schedule.target_id,
        SCHEDULE,
        schedule.id,
        schedule.rev,
        msgspec.json.encode(payload),
        now,
    )


def ran_event(schedule: Schedule, run: ScheduleRun, now: int) -> JournalEvent:
    """Return the event that a planned time came."""
    payload = ScheduleRanPayload(schedule.id, schedule.name, to_run_view(run, schedule.time_zone))
    return JournalEvent(
        "SCHEDULE_RAN",
        schedule.target_id,
        SCHEDULE,
        schedule.id,
        schedule.rev,
        msgspec.json.encode(payload),
        now,
    )


def pause(schedule: Schedule, reason: str, now: int, by: str) -> tuple[Schedule, WriteSet[None]]:
    """Pause a schedule; return it as it is then, and the change. `reason`: why the server does; empty: a person does.

    Queued runs stay and start when it is resumed."""
    new = replace(
        schedule, paused=1, pause_reason=reason, next_at=None, rev=schedule.rev + 1, updated_at=now, updated_by=by
    )
    writes: list[Statement] = [("update_schedule", new), timer_statement(new, None)]
    return new, WriteSet(None, writes, [changed_event(new, now)], (org_key(new.org_id), TIMERS_KEY))
