"""Writes schedules: create, change, pause, resume, delete. What a due one does is in `executor`."""

import msgspec
from msgspec.structs import replace

from molecule_core.common.clock import Clock
from molecule_core.common.errors import NotFound
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.schedules.errors import ScheduleExists, TooManySchedules
from molecule_core.schedules.model import SCHEDULE, Schedule, ScheduleAuthor, ScheduleDraft
from molecule_core.schedules.rules import next_time, times_after
from molecule_core.schedules.transitions import changed_event, pause, timer_statement
from molecule_core.store.database import Command, CommandSteps, JournalEvent, ReadQuery, Statement, Store, WriteSet
from molecule_core.store.journal import org_key
from molecule_core.store.timers import TIMERS_KEY, cancel_timer
from molecule_core.wire.schemas.schedules import ScheduleDeletedPayload


class ScheduleWriter:
    """Writer of schedules."""

    def __init__(self, store: Store, *, clock: Clock, ids: IdGenerator, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._limits = limits

    async def create_schedule(self, org_id: str, draft: ScheduleDraft, author: ScheduleAuthor) -> Schedule:
        """Create a schedule. Raises ScheduleExists, TooManySchedules."""

        def decide() -> CommandSteps[Schedule]:
            now = self._clock.now()
            known = [Schedule.from_row(row) for row in (yield ReadQuery("schedules_of_org", {"org_id": org_id}))]
            _check_name(known, draft.name, "")
            if len(known) >= self._limits.schedules:
                raise TooManySchedules(most=self._limits.schedules)
            schedule = _from_draft(draft, author, org_id=org_id, schedule_id=self._ids.new(), now=now)
            return _saved(schedule, "insert_schedule", now, due=schedule.next_at)

        return await self._store.run(Command(org_id, _keys(org_id), decide))

    async def change_schedule(self, schedule: Schedule, draft: ScheduleDraft, author: ScheduleAuthor) -> Schedule:
        """Replace what a schedule is; its runs stay. The person who changes it becomes its author.

        Raises NotFound, ScheduleExists."""
        org_id = schedule.org_id

        def decide() -> CommandSteps[Schedule]:
            now = self._clock.now()
            known = [Schedule.from_row(row) for row in (yield ReadQuery("schedules_of_org", {"org_id": org_id}))]
            _check_name(known, draft.name, schedule.id)
            old = next((each for each in known if each.id == schedule.id), None)
            if old is None:
                raise NotFound(what="schedule")
            new = _from_draft(draft, author, org_id=org_id, schedule_id=old.id, now=now)
            if not new.paused and not old.paused and _has_same_times(old, new):
                # Planned times that are due already are kept.
                new = replace(new, next_at=old.next_at)
            new = replace(new, created_at=old.created_at, rev=old.rev + 1)
            return _saved(new, "update_schedule", now, due=None if new.paused else now)

        return await self._store.run(Command(org_id, _keys(org_id), decide))

    async def pause_schedule(self, schedule: Schedule, by: str, *, paused: bool) -> Schedule:
        """Pause a schedule, or resume it: planned times that passed meanwhile do not count as missed.

        Raises NotFound."""

        def decide() -> CommandSteps[Schedule]:
            rows = yield ReadQuery("schedule", {"org_id": schedule.org_id, "id": schedule.id})
            if not rows:
                raise NotFound(what="schedule")
            old, now = Schedule.from_row(rows[0]), self._clock.now()
            if bool(old.paused) == paused:
                return WriteSet(old)
            if paused:
                new, change = pause(old, "", now, by)
                return change.returning(new)
            new = replace(
                old,
                paused=0,
                pause_reason="",
                next_at=next_time(old, now),
                rev=old.rev + 1,
                updated_at=now,
                updated_by=by,
            )
            # Due now: queued runs wait perhaps. The executor sets the timer to the next planned time.
            return _saved(new, "update_schedule", now, due=now)

        return await self._store.run(Command(schedule.org_id, _keys(schedule.org_id), decide))

    async def delete_schedule(self, schedule: Schedule) -> None:
        """Delete a schedule and its runs. What it sent and delegated stays. A deleted one stays deleted."""

        def decide() -> CommandSteps[None]:
            rows = yield ReadQuery("schedule", {"org_id": schedule.org_id, "id": schedule.id})
            if not rows:
                return WriteSet(None)
            now, payload = self._clock.now(), ScheduleDeletedPayload(schedule.id, schedule.name)
            event = JournalEvent(
                "SCHEDULE_DELETED",
                schedule.target_id,
                SCHEDULE,
                schedule.id,
                Schedule.from_row(rows[0]).rev + 1,
                msgspec.json.encode(payload),
                now,
            )
            writes: list[Statement] = [
                ("delete_schedule", {"id": schedule.id}),
                ("delete_schedule_runs", {"schedule_id": schedule.id}),
                cancel_timer(SCHEDULE, schedule.key),
            ]
            return WriteSet(None, writes, [event], (org_key(schedule.org_id),))

        await self._store.run(Command(schedule.org_id, _keys(schedule.org_id), decide))


def schedule_key(org_id: str) -> tuple[str, str]:
    """Return the key of commands that change schedules of an organisation or run them."""
    return ("schedules", org_id)


def _keys(org_id: str) -> tuple[tuple[str, str], ...]:
    return (schedule_key(org_id),)


def _check_name(known: list[Schedule], name: str, own_id: str) -> None:
    for each in known:
        if each.name == name and each.id != own_id:
            raise ScheduleExists(schedule_id=each.id)


def _has_same_times(one: Schedule, other: Schedule) -> bool:
    return (one.cron, one.time_zone, one.once_at) == (other.cron, other.time_zone, other.once_at)


def _from_draft(draft: ScheduleDraft, author: ScheduleAuthor, *, org_id: str, schedule_id: str, now: int) -> Schedule:
    return Schedule(
        id=schedule_id,
        org_id=org_id,
        name=draft.name,
        source_id=draft.source_id,
        target_id=draft.target_id,
        author=author.key,
        author_id=author.person_id,
        author_name=author.name,
        cron=draft.cron,
        time_zone=draft.time_zone,
        once_at=draft.once_at,
        work=msgspec.json.encode(draft.work).decode(),
        misses=draft.misses,
        overlap=draft.overlap,
        paused=int(draft.paused),
        pause_reason="",
        next_at=None if draft.paused else next(times_after(draft.cron, draft.time_zone, draft.once_at, now), None),
        rev=1,
        created_at=now,
        updated_at=now,
        updated_by=author.key,
    )


def _saved(schedule: Schedule, statement: str, now: int, *, due: int | None) -> WriteSet[Schedule]:
    writes: list[Statement] = [(statement, schedule), timer_statement(schedule, due)]
    return WriteSet(schedule, writes, [changed_event(schedule, now)], (org_key(schedule.org_id), TIMERS_KEY))
