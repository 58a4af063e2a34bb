"""Services and routes of schedules."""

from collections.abc import Iterator

from msgspec import Struct

from molecule_core.api.routing import Route
from molecule_core.api.schedules import ScheduleRoutes
from molecule_core.delegations.writer import DelegationWriter
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.reader import OrgReader
from molecule_core.schedules.executor import ScheduleExecutor
from molecule_core.schedules.reader import ScheduleReader
from molecule_core.schedules.retention import ScheduleRetention
from molecule_core.schedules.writer import ScheduleWriter
from molecule_core.server.process import ProcessRuntime


class ScheduleServices(Struct, frozen=True, eq=False):
    """Services of schedules."""

    writer: ScheduleWriter
    reader: ScheduleReader
    executor: ScheduleExecutor
    retention: ScheduleRetention


def build_schedules(
    runtime: ProcessRuntime, org: OrgReader, messages: MessageWriter, delegations: DelegationWriter
) -> ScheduleServices:
    """Build the services of schedules."""
    store, clock, limits = runtime.store, runtime.clock, runtime.settings.limits
    return ScheduleServices(
        ScheduleWriter(store, clock=clock, ids=runtime.ids, limits=limits),
        ScheduleReader(store, limits=limits),
        ScheduleExecutor(store, org, messages, delegations, clock=clock, limits=limits),
        ScheduleRetention(store),
    )


def schedule_routes(runtime: ProcessRuntime, org: OrgReader, schedules: ScheduleServices) -> Iterator[Route]:
    """Yield the routes of schedules."""
    clock, limits = runtime.clock, runtime.settings.limits
    yield from ScheduleRoutes(schedules.writer, schedules.reader, org, clock=clock, limits=limits).routes()
