"""Routes of schedules: people plan messages and delegations."""

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import (
    LIMIT,
    int_param,
    parse_time,
    query_params,
    read_int_param,
    read_text_param,
    time_param,
)
from molecule_core.api.routing import (
    PERSON_OR_ADMIN,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.clock import Clock
from molecule_core.common.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.schedules.model import Schedule, ScheduleAuthor
from molecule_core.schedules.reader import ScheduleReader
from molecule_core.schedules.rules import parse_draft, parse_times
from molecule_core.schedules.writer import ScheduleWriter
from molecule_core.wire.schemas.schedules import (
    PauseScheduleBody,
    ScheduleBody,
    ScheduleDeletedPayload,
    ScheduleList,
    SchedulePreviewBody,
    ScheduleRunPage,
    ScheduleTimes,
    ScheduleView,
)

_MAX_NEXT = 50
_DEFAULT_NEXT = 5


class ScheduleRoutes:
    """Routes of schedules."""

    def __init__(
        self, writer: ScheduleWriter, reader: ScheduleReader, org: OrgReader, *, clock: Clock, limits: Limits
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._org = org
        self._clock = clock
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        viewer = AccessPolicy(PERSON_OR_ADMIN)
        operator = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.NONE, Role.OPERATOR)
        every, one = "/orgs/{org_id}/schedules", "/orgs/{org_id}/schedules/{schedule_id}"
        paged = query_params(LIMIT, time_param("before", "Page backwards from this planned time."))
        counted = query_params(int_param("count", "Number of planned times; at most 50.", minimum=1))
        return [
            Route("GET", every, self.list_schedules, viewer, "List the schedules", None, ScheduleList),
            Route("POST", every, self.create_schedule, operator, "Create a schedule", ScheduleBody, ScheduleView, 201),
            Route(
                "POST",
                "/orgs/{org_id}/schedule-preview",
                self.preview_times,
                viewer,
                "Preview when a schedule would run",
                SchedulePreviewBody,
                ScheduleTimes,
            ),
            Route("GET", one, self.get_schedule, viewer, "Get a schedule", None, ScheduleView),
            Route("PUT", one, self.change_schedule, operator, "Change a schedule", ScheduleBody, ScheduleView),
            Route("DELETE", one, self.delete_schedule, operator, "Delete a schedule", None, ScheduleDeletedPayload),
            Route(
                "PUT",
                f"{one}/paused",
                self.pause_schedule,
                operator,
                "Pause or resume a schedule",
                PauseScheduleBody,
                ScheduleView,
            ),
            Route(
                "GET",
                f"{one}/runs",
                self.list_runs,
                viewer,
                "List the runs of a schedule",
                None,
                ScheduleRunPage,
                query=paged,
            ),
            Route(
                "GET",
                f"{one}/next",
                self.list_next,
                viewer,
                "List the next planned times of a schedule",
                None,
                ScheduleTimes,
                query=counted,
            ),
        ]

    async def list_schedules(self, request: Request) -> Response:
        """List the schedules of an organisation by name, each with its next runs and its last one."""
        return json_response(ScheduleList(await self._reader.list_schedules(request.path_params["org_id"])))

    async def create_schedule(self, request: Request) -> Response:
        """Create a schedule: a message or a delegation at planned times.

        It acts for `source_id` and can do what that workspace can do at the time of each run. Names are unique in an
        organisation.
        """
        body, org_id = request.parse_body(ScheduleBody), request.path_params["org_id"]
        draft = parse_draft(body, self._org, org_id, self._clock.now(), self._limits)
        schedule = await self._writer.create_schedule(org_id, draft, _author_of(request))
        return json_response(await self._reader.view_of(schedule), 201)

    async def get_schedule(self, request: Request) -> Response:
        """Return a schedule, its next runs and its last one."""
        return json_response(await self._reader.view_of(await self._find_schedule(request)))

    async def change_schedule(self, request: Request) -> Response:
        """Replace what a schedule is. Its runs stay; the person who changes it becomes its author."""
        body, known = request.parse_body(ScheduleBody), await self._find_schedule(request)
        draft = parse_draft(body, self._org, known.org_id, self._clock.now(), self._limits, known_once=known.once_at)
        schedule = await self._writer.change_schedule(known, draft, _author_of(request))
        return json_response(await self._reader.view_of(schedule))

    async def pause_schedule(self, request: Request) -> Response:
        """Pause a schedule, or resume it. Planned times that pass meanwhile are not run later."""
        body, known = request.parse_body(PauseScheduleBody), await self._find_schedule(request)
        schedule = await self._writer.pause_schedule(known, request.caller.key, paused=body.paused)
        return json_response(await self._reader.view_of(schedule))

    async def delete_schedule(self, request: Request) -> Response:
        """Delete a schedule and its runs. What it sent and delegated stays."""
        schedule = await self._find_schedule(request)
        await self._writer.delete_schedule(schedule)
        return json_response(ScheduleDeletedPayload(schedule.id, schedule.name))

    async def list_runs(self, request: Request) -> Response:
        """List what was done at the planned times of a schedule, newest first."""
        before = read_text_param(request.query_params(), "before")
        count = read_int_param(request.query_params(), "limit", minimum=1, maximum=self._limits.page_rows)
        schedule = await self._find_schedule(request)
        position = None if before is None else parse_time(before, "before")
        return json_response(await self._reader.list_runs(schedule, position, count))

    async def list_next(self, request: Request) -> Response:
        """List the next planned times of a schedule in its time zone; none while it is paused."""
        count = read_int_param(request.query_params(), "count", minimum=1, maximum=_MAX_NEXT) or _DEFAULT_NEXT
        schedule = await self._find_schedule(request)
        return json_response(ScheduleTimes(self._reader.list_next(schedule, count)))

    async def preview_times(self, request: Request) -> Response:
        """Return when a schedule with this expression or instant would run, in its time zone. Nothing is saved."""
        body, now = request.parse_body(SchedulePreviewBody), self._clock.now()
        once_at = parse_times(body.cron, body.time_zone, body.once, now, self._limits)
        found = self._reader.preview_times(body.cron, body.time_zone, once_at, now, body.count)
        return json_response(ScheduleTimes(found))

    async def _find_schedule(self, request: Request) -> Schedule:
        schedule_id = request.path_params["schedule_id"].replace("\x00", "")
        return await self._reader.get_schedule(request.path_params["org_id"], schedule_id)


def _author_of(request: Request) -> ScheduleAuthor:
    return ScheduleAuthor(request.caller.key, request.caller.id, request.caller.name)
