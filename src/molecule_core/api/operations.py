"""Routes for operators: metrics, and retention on demand."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from msgspec import Struct

from molecule_core.access.model import CredentialKind
from molecule_core.api.http.response import Response
from molecule_core.api.live.hub import LiveHub
from molecule_core.api.query_parameters import bool_param, query_params
from molecule_core.api.routing import ADMIN, AccessPolicy, Request, Route, json_response
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.common import process_info
from molecule_core.common.clock import Clock, to_rfc3339, yield_to_others
from molecule_core.common.errors import InvalidField
from molecule_core.common.metrics import (
    CONTENT_TYPE,
    ApprovalMeter,
    DelegationMeter,
    InstructionMeter,
    MessageMeter,
    MetricSample,
    RouteMeter,
    StoreMeter,
    render_exposition,
)
from molecule_core.delegations.reader import DelegationReader
from molecule_core.messages.reader import MessageReader
from molecule_core.org.model import WorkspaceStatus
from molecule_core.org.reader import OrgReader

_STATUSES = ("", "1xx", "2xx", "3xx", "4xx", "5xx")


class StoreMetrics(NamedTuple):
    """Metrics of the store: engine, meter, and number of waiting commands."""

    engine: str
    meter: StoreMeter
    waiting: Callable[[], int]


class RetentionControl(NamedTuple):
    """Retention for operators: deleted rows by kind, rounds, prunable rows, cutoff, and a way to start a round."""

    deleted_rows: dict[str, int]
    rounds: Callable[[], int]
    count_prunable: Callable[[], Awaitable[dict[str, int]]]
    cutoff: Callable[[], int]
    start_round: Callable[[], Awaitable[None]]


class PruneReport(Struct):
    """What retention deletes.

    `before`: older rows may be deleted; null: everything is kept. `rows`: with `dry_run`, how many rows would be
    deleted now, by kind. Without it, a round starts and its rows are counted in /metrics.
    """

    dry_run: bool
    before: str | None
    rows: dict[str, int]


class McpMetrics(NamedTuple):
    """Metrics of the MCP endpoint: sessions kept, opened and restored, open responses, and disconnects by reason."""

    sessions: int
    opened: int
    restored: int
    open_responses: int
    disconnects: Counter[str]


class MetricSources(NamedTuple):
    """Sources of all metrics."""

    org: OrgReader
    messages: MessageReader
    live: LiveHub
    message_meter: MessageMeter
    instruction_meter: InstructionMeter
    delegations: DelegationReader
    delegation_meter: DelegationMeter
    approvals: ApprovalReader
    approval_meter: ApprovalMeter
    thread_samples: Callable[[], Awaitable[list[MetricSample]]]
    store: StoreMetrics
    retention: RetentionControl
    mcp_metrics: Callable[[], McpMetrics]
    waiter_count: Callable[[], int]
    routes: Callable[[], list[Route]]
    unrouted_meter: RouteMeter


class OperationsRoutes:
    """Routes for operators and their tools."""

    def __init__(self, sources: MetricSources, *, clock: Clock, version: str) -> None:
        self._sources = sources
        self._clock = clock
        self._version = version

    def routes(self) -> list[Route]:
        """Return the routes."""
        scrape = AccessPolicy(frozenset((ADMIN, CredentialKind.METRICS)))
        admin = AccessPolicy(frozenset((ADMIN,)))
        dry = query_params(bool_param("dry_run", "With true it is counted and nothing changes."))
        return [
            Route(
                "GET",
                "/metrics",
                self.get_metrics,
                scrape,
                "The server's figures, for Prometheus",
                media_type="text/plain",
            ),
            Route(
                "POST",
                "/admin/prune",
                self.prune_rows,
                admin,
                "Prune now, or ask what would go",
                None,
                PruneReport,
                query=dry,
            ),
        ]

    async def prune_rows(self, request: Request) -> Response:
        """Start a retention round, or with `dry_run=true` count what it would delete."""
        dry_run = request.query_params().get("dry_run", "false")
        if dry_run not in ("true", "false"):
            raise InvalidField(reason="dry_run must be true or false")
        cutoff = self._sources.retention.cutoff()
        since = to_rfc3339(cutoff) if cutoff else None
        if dry_run == "true":
            return json_response(PruneReport(True, since, await self._sources.retention.count_prunable()))
        await self._sources.retention.start_round()
        return json_response(PruneReport(False, since, {}))

    # -- metrics -------------------------------------------------------------------------------------------------------

    async def get_metrics(self, _request: Request) -> Response:
        """Return all metrics in the Prometheus text format."""
        lag = await self._loop_lag()
        total, largest = await self._sources.messages.count_unacked(
            [each.id for each in self._sources.org.workspaces()]
        )
        samples = [
            MetricSample("molecule_loop_lag_seconds", lag),
            MetricSample("molecule_inbox_unhandled", total),
            MetricSample("molecule_inbox_unhandled_max", largest),
            MetricSample("molecule_delegations_open", await self._sources.delegations.count_open()),
            *self._sources.delegation_meter.samples(),
            MetricSample("molecule_approvals_open", await self._sources.approvals.count_open()),
            *self._sources.approval_meter.samples(),
            *await self._sources.thread_samples(),
            *self._process_samples(),
            *self._http_samples(),
            *self._traffic_samples(),
            *self._sources.instruction_meter.samples(),
            *self._store_samples(),
        ]
        return Response(render_exposition(samples).encode(), content_type=CONTENT_TYPE)

    async def _loop_lag(self) -> float:
        """Return how many seconds the event loop delays a callback."""
        started_at = self._clock.monotonic()
        await yield_to_others()
        return self._clock.monotonic() - started_at

    def _process_samples(self) -> Iterator[MetricSample]:
        yield MetricSample("molecule_build_info", 1, (self._version, self._sources.store.engine))
        yield MetricSample("molecule_process_memory_bytes", process_info.memory_bytes())
        yield MetricSample("molecule_process_cpu_seconds_total", process_info.cpu_seconds())
        yield MetricSample("molecule_process_open_files", process_info.open_files())
        yield MetricSample("molecule_process_open_files_limit", process_info.open_files_limit())

    def _http_samples(self) -> Iterator[MetricSample]:
        meters = [(route.method, route.path, route.meter) for route in self._sources.routes()]
        # The unrouted meter counts requests that were rejected before their route was known.
        for method, path, meter in (*meters, ("", "", self._sources.unrouted_meter)):
            for status, count in zip(_STATUSES, meter.statuses, strict=True):
                if count:
                    yield MetricSample("molecule_http_requests_total", count, (method, path, status))
            if any(meter.counts):
                yield MetricSample("molecule_http_request_seconds", meter, (method, path))

    def _traffic_samples(self) -> Iterator[MetricSample]:
        message_meter = self._sources.message_meter
        yield MetricSample("molecule_messages_accepted_total", message_meter.accepted)
        yield MetricSample("molecule_messages_refused_total", message_meter.rejected)
        yield MetricSample("molecule_messages_handed_out_total", message_meter.delivered)
        yield MetricSample("molecule_acks_total", message_meter.acks)
        yield MetricSample("molecule_long_polls", message_meter.polls)
        yield MetricSample("molecule_waits", self._sources.waiter_count())
        for kind, count in self._sources.live.count_by_kind().items():
            yield MetricSample("molecule_live_listeners", count, (kind,))
        for reason, count in self._sources.live.disconnects.items():
            yield MetricSample("molecule_live_cuts_total", count, (reason,))
        yield from self._mcp_samples()
        yield MetricSample("molecule_heartbeats_total", self._sources.org.last_heartbeat_number())
        yield MetricSample("molecule_orgs", len(self._sources.org.orgs()))
        found = Counter(each.status for each in self._sources.org.workspaces())
        yield from (MetricSample("molecule_workspaces", found[status], (status.value,)) for status in WorkspaceStatus)

    def _mcp_samples(self) -> Iterator[MetricSample]:
        mcp_metrics = self._sources.mcp_metrics()
        yield MetricSample("molecule_mcp_sessions", mcp_metrics.sessions)
        yield MetricSample("molecule_mcp_sessions_total", mcp_metrics.opened, ("begun",))
        yield MetricSample("molecule_mcp_sessions_total", mcp_metrics.restored, ("taken up",))
        yield MetricSample("molecule_mcp_channels", mcp_metrics.open_responses)
        for reason, count in mcp_metrics.disconnects.items():
            yield MetricSample("molecule_mcp_cuts_total", count, (reason,))

    def _store_samples(self) -> Iterator[MetricSample]:
        meter = self._sources.store.meter
        for outcome in ("committed", "replayed", "failed"):
            yield MetricSample("molecule_store_groups_total", getattr(meter, outcome), (outcome,))
        yield MetricSample("molecule_store_commands_total", meter.commands)
        yield MetricSample("molecule_store_group_seconds", meter)
        yield MetricSample("molecule_store_queue", self._sources.store.waiting())
        yield MetricSample("molecule_retention_rounds_total", self._sources.retention.rounds())
        for what, count in self._sources.retention.deleted_rows.items():
            yield MetricSample("molecule_retention_rows_total", count, (what,))
