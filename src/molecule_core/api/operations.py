"""Routes for operators: metrics, and retention on demand."""

import asyncio
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
from molecule_core.common.clock import SECOND, Clock, to_rfc3339, yield_to_others
from molecule_core.common.errors import InvalidField
from molecule_core.common.metrics import (
    CONTENT_TYPE,
    ApprovalMeter,
    DelegationMeter,
    InstructionMeter,
    MessageMeter,
    MetricSample,
    RefusalMeter,
    RouteMeter,
    StoreMeter,
    ThreadMeter,
    render_exposition,
)
from molecule_core.common.settings import SettingInForce, Settings, settings_in_force
from molecule_core.common.state_files import free_bytes, last_backup_at
from molecule_core.delegations.reader import DelegationReader
from molecule_core.messages.delivery.status_reader import DeliveryStatusReader
from molecule_core.messages.reader import MessageReader
from molecule_core.org.model import WorkspaceStatus
from molecule_core.org.reader import OrgReader
from molecule_core.threads.reader import ThreadReader

_STATUSES = ("", "1xx", "2xx", "3xx", "4xx", "5xx")
# Reported as 0 for each route from the start: the first error would else be no increase.
_USUAL_STATUSES = ("2xx", "4xx", "5xx")


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


class SettingsResponse(Struct):
    """The settings and limits of a process."""

    settings: list[SettingInForce]


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
    threads: ThreadReader
    thread_meter: ThreadMeter
    store: StoreMetrics
    retention: RetentionControl
    mcp_metrics: Callable[[], McpMetrics]
    waiter_count: Callable[[], int]
    routes: Callable[[], list[Route]]
    unrouted_meter: RouteMeter
    refusal_meter: Callable[[], RefusalMeter]
    delivery: DeliveryStatusReader


class OperationsRoutes:
    """Routes for operators and their tools."""

    def __init__(self, sources: MetricSources, settings: Settings, *, clock: Clock, version: str) -> None:
        self._sources = sources
        self._settings = settings
        self._clock = clock
        self._version = version

    def routes(self) -> list[Route]:
        """Return the routes."""
        scrape = AccessPolicy(frozenset((ADMIN, CredentialKind.METRICS)))
        admin = AccessPolicy(frozenset((ADMIN,)))
        dry = query_params(bool_param("dry_run", "Only count; change nothing."))
        return [
            Route(
                "GET",
                "/metrics",
                self.get_metrics,
                scrape,
                "Get the metrics for Prometheus",
                media_type="text/plain",
            ),
            Route(
                "GET",
                "/admin/settings",
                self.get_settings,
                admin,
                "Get the settings in force",
                response=SettingsResponse,
            ),
            Route(
                "POST",
                "/admin/prune",
                self.prune_rows,
                admin,
                "Delete or count data that is past its retention",
                None,
                PruneReport,
                query=dry,
            ),
        ]

    async def get_settings(self, _request: Request) -> Response:
        """Return the settings that this process uses, without secrets."""
        return json_response(SettingsResponse(settings_in_force(self._settings)))

    async def prune_rows(self, request: Request) -> Response:
        """Start a retention round, or with `dry_run=true` count what it would delete."""
        dry_run = request.query_params().get("dry_run", "false")
        if dry_run not in ("true", "false"):
            raise InvalidField(reason="dry_run has an unknown value. Use true or false.")
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
        samples = [
            MetricSample("molecule_loop_lag_seconds", lag),
            *await self._mail_samples(),
            MetricSample("molecule_delegations_open", await self._sources.delegations.count_open()),
            *self._sources.delegation_meter.samples(),
            *await self._approval_samples(),
            *self._sources.approval_meter.samples(),
            *await self._thread_samples(),
            *self._process_samples(),
            *await self._folder_samples(),
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

    async def _mail_samples(self) -> list[MetricSample]:
        messages = self._sources.messages
        inboxes = await messages.count_unacked([each.id for each in self._sources.org.workspaces()])
        unclaimed = await self._sources.delivery.count_unclaimed(inboxes.workspace_ids)
        return [
            MetricSample("molecule_inbox_unhandled", inboxes.total),
            MetricSample("molecule_inbox_unhandled_max", inboxes.largest),
            MetricSample("molecule_inbox_unclaimed", unclaimed),
            MetricSample("molecule_messages_overdue", await messages.count_overdue()),
            MetricSample("molecule_dead_letters", await messages.count_dead_letters()),
        ]

    async def _approval_samples(self) -> list[MetricSample]:
        count, oldest = await self._sources.approvals.count_open()
        return [
            MetricSample("molecule_approvals_open", count),
            MetricSample("molecule_approvals_oldest_seconds", oldest),
        ]

    async def _folder_samples(self) -> list[MetricSample]:
        """Read the disks, in a thread: a shared folder may respond slowly."""
        state, files = self._settings.state_folder, self._settings.files_folder
        last_backup = await asyncio.to_thread(last_backup_at, state)
        since = min(each.created_at for each in self._sources.org.orgs()) if last_backup is None else last_backup
        return [
            MetricSample("molecule_backup_age_seconds", max(0, self._clock.now() - since) / SECOND),
            MetricSample("molecule_disk_free_bytes", await asyncio.to_thread(free_bytes, state), ("state",)),
            MetricSample("molecule_disk_free_bytes", await asyncio.to_thread(free_bytes, files), ("files",)),
        ]

    async def _thread_samples(self) -> list[MetricSample]:
        states = await self._sources.threads.count_by_state()
        counts = [MetricSample("molecule_threads", count, (state,)) for state, count in states.items()]
        return [*counts, *self._sources.thread_meter.samples()]

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
                if count or status in _USUAL_STATUSES:
                    yield MetricSample("molecule_http_requests_total", count, (method, path, status))
            if any(meter.counts):
                yield MetricSample("molecule_http_request_seconds", meter, (method, path))
        refusals = self._sources.refusal_meter()
        yield MetricSample("molecule_rate_limited_total", refusals.rate_limited)
        yield MetricSample("molecule_credentials_refused_total", refusals.credentials)
        yield MetricSample("molecule_logins_refused_total", refusals.logins)

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
