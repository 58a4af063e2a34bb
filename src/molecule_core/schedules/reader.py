"""Reads schedules and their runs, and renders them for clients."""

from molecule_core.common.errors import NotFound
from molecule_core.common.limits import Limits
from molecule_core.schedules.model import Schedule, ScheduleRun
from molecule_core.schedules.serializers import next_run_texts, planned_texts, to_run_view, to_schedule_view
from molecule_core.store.database import Store
from molecule_core.wire.schemas.schedules import ScheduleRunPage, ScheduleView

_NEWEST = (1 << 62) - 1


class ScheduleReader:
    """Reader of schedules."""

    list_next = staticmethod(next_run_texts)
    preview_times = staticmethod(planned_texts)

    def __init__(self, store: Store, *, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    async def get_schedule(self, org_id: str, schedule_id: str) -> Schedule:
        """Return a schedule of an organisation. Raises NotFound."""
        rows = await self._store.rows("schedule", {"org_id": org_id, "id": schedule_id})
        if not rows:
            raise NotFound(what="schedule")
        return Schedule.from_row(rows[0])

    async def list_schedules(self, org_id: str) -> list[ScheduleView]:
        """Return the schedules of an organisation, by name."""
        found = [Schedule.from_row(row) for row in await self._store.rows("schedules_of_org", {"org_id": org_id})]
        queries = [{"schedule_id": each.id, "before": _NEWEST, "count": 1} for each in found]
        runs = await self._store.rows_of_each("schedule_runs", queries)
        return [
            to_schedule_view(each, ScheduleRun.from_row(rows[0]) if rows else None)
            for each, rows in zip(found, runs, strict=True)
        ]

    async def view_of(self, schedule: Schedule) -> ScheduleView:
        """Return a schedule as clients see it."""
        rows = await self._store.rows("schedule_runs", {"schedule_id": schedule.id, "before": _NEWEST, "count": 1})
        return to_schedule_view(schedule, ScheduleRun.from_row(rows[0]) if rows else None)

    async def list_runs(self, schedule: Schedule, before: int | None, count: int | None) -> ScheduleRunPage:
        """Return a page of the runs of a schedule, newest first. `before`: a planned time in microseconds."""
        most = min(count or self._limits.page_rows, self._limits.page_rows)
        query = {"schedule_id": schedule.id, "before": _NEWEST if before is None else before, "count": most + 1}
        found = [ScheduleRun.from_row(row) for row in await self._store.rows("schedule_runs", query)]
        shown = [to_run_view(each, schedule.time_zone) for each in found[:most]]
        return ScheduleRunPage(shown, shown[-1].planned_at if len(found) > most else None)
