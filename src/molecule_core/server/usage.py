"""Services and routes of usage."""

from collections.abc import Iterator

from msgspec import Struct

from molecule_core.api.routing import Route
from molecule_core.api.usage import UsageRoutes
from molecule_core.common.clock import Clock
from molecule_core.common.limits import Limits
from molecule_core.delegations.reader import origin_query
from molecule_core.messages.reader import TraceReader
from molecule_core.org.reader import OrgReader
from molecule_core.server.process import ProcessRuntime
from molecule_core.store.database import Store
from molecule_core.usage.reader import UsageReader
from molecule_core.usage.retention import UsageRetention
from molecule_core.usage.writer import PriceWriter, UsageWriter
from molecule_core.views.usage import UsageReportReader


class UsageServices(Struct, frozen=True, eq=False):
    """Services of usage."""

    writer: UsageWriter
    prices: PriceWriter
    reader: UsageReader
    retention: UsageRetention


def build_usage(store: Store, *, clock: Clock, limits: Limits) -> UsageServices:
    """Build the services of usage."""
    return UsageServices(
        UsageWriter(store, origin_query, clock=clock, limits=limits),
        PriceWriter(store, clock=clock, limits=limits),
        UsageReader(store),
        UsageRetention(store, clock=clock, limits=limits),
    )


def usage_routes(runtime: ProcessRuntime, org: OrgReader, usage: UsageServices) -> Iterator[Route]:
    """Yield the routes of usage."""
    reports = UsageReportReader(usage.reader, TraceReader(runtime.store), org, limits=runtime.settings.limits)
    yield from UsageRoutes(usage.writer, usage.prices, usage.reader, reports, clock=runtime.clock).routes()
