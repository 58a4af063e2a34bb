"""Renders schedules and runs for clients."""

from itertools import islice

from molecule_core.common.clock import to_rfc3339
from molecule_core.schedules.cron import load_zone, local_text
from molecule_core.schedules.model import Schedule, ScheduleRun
from molecule_core.schedules.rules import state_of, times_after
from molecule_core.wire.schemas.schedules import ScheduleRunView, ScheduleView

SHOWN_RUNS = 5


def to_run_view(run: ScheduleRun, time_zone: str) -> ScheduleRunView:
    """Return a run as clients see it."""
    zone = load_zone(time_zone)
    return ScheduleRunView(
        planned_at=local_text(run.planned_at, zone),
        ran_at=local_text(run.ran_at, zone),
        outcome=run.outcome.value,
        reason=run.reason,
        work_id=run.work_id,
        missed=run.missed,
    )


def next_run_texts(schedule: Schedule, count: int) -> list[str]:
    """Return the next planned times of a schedule; none while it is paused."""
    if schedule.paused or schedule.next_at is None:
        return []
    return planned_texts(schedule.cron, schedule.time_zone, schedule.once_at, schedule.next_at - 1, count)


def planned_texts(cron: str | None, time_zone: str, once_at: int | None, after: int, count: int) -> list[str]:
    """Return the next planned times after a time, in the time zone."""
    zone = load_zone(time_zone)
    return [local_text(at, zone) for at in islice(times_after(cron, time_zone, once_at, after), count)]


def to_schedule_view(schedule: Schedule, last_run: ScheduleRun | None) -> ScheduleView:
    """Return a schedule as clients see it."""
    work = schedule.decode_work()
    zone = load_zone(schedule.time_zone)
    return ScheduleView(
        schedule_id=schedule.id,
        name=schedule.name,
        source_id=schedule.source_id,
        target_id=schedule.target_id,
        cron=schedule.cron,
        time_zone=schedule.time_zone,
        once=None if schedule.once_at is None else local_text(schedule.once_at, zone),
        action=work.action,
        text=work.text,
        accept=work.accept,
        rounds=work.rounds,
        may=work.may,
        deadline_seconds=work.deadline_seconds,
        misses=schedule.misses.value,
        overlap=schedule.overlap.value,
        state=state_of(schedule),
        pause_reason=schedule.pause_reason,
        next_runs=next_run_texts(schedule, SHOWN_RUNS),
        last_run=None if last_run is None else to_run_view(last_run, schedule.time_zone),
        author=schedule.author_name or schedule.author,
        created_at=to_rfc3339(schedule.created_at),
        updated_at=to_rfc3339(schedule.updated_at),
    )
