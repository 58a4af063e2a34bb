"""What operators ask of a running server: its figures, and what retention would take."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from msgspec import Struct

from molecule_core.access.model import Kind
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.delegations.reader import DelegationReader
from molecule_core.edges.live import Live
from molecule_core.edges.query import asks, flag
from molecule_core.edges.routes import ADMIN, Answer, Call, Route, Who, json_answer
from molecule_core.ground import machine
from molecule_core.ground.clock import Clock, others_first, rfc3339
from molecule_core.ground.errors import InvalidField
from molecule_core.ground.metrics import (
    CONTENT_TYPE,
    ApprovalMeter,
    DelegationMeter,
    InstructionMeter,
    MessageMeter,
    RouteMeter,
    Sample,
    StoreMeter,
    exposition,
)
from molecule_core.messages.reader import MessageReader
from molecule_core.org.model import Status
from molecule_core.org.reader import OrgReader

_STATUSES = ("", "1xx", "2xx", "3xx", "4xx", "5xx")


class StoreFigures(NamedTuple):
    """What the store tells: which engine, its meter, and how many commands wait."""

    engine: str
    meter: StoreMeter
    waiting: Callable[[], int]


class RetentionFigures(NamedTuple):
    """What retention tells and does: rows gone by kind, rounds, what would go, from which time, and a new round."""

    gone: dict[str, int]
    rounds: Callable[[], int]
    would_go: Callable[[], Awaitable[dict[str, int]]]
    before: Callable[[], int]
    begin: Callable[[], Awaitable[None]]


class Pruned(Struct):
    """What retention takes. `before`: what is older may go; null: all is kept for ever. `rows`: how many would go now,
    by kind, if it is only asked (`dry_run`); otherwise a round begins now, and its rows are counted in /metrics."""

    dry_run: bool
    before: str | None
    rows: dict[str, int]


class McpFigures(NamedTuple):
    """What the MCP endpoint tells: sessions kept, begun and taken up again, answers under way, and what was cut."""

    sessions: int
    begun: int
    taken_up: int
    channels: int
    cuts: Counter[str]


class Sources(NamedTuple):
    """Who knows the figures."""

    org: OrgReader
    messages: MessageReader
    live: Live
    counted: MessageMeter
    instructions: InstructionMeter
    delegations: DelegationReader
    ended: DelegationMeter
    approvals: ApprovalReader
    ruled: ApprovalMeter
    threads: Callable[[], Awaitable[list[Sample]]]
    store: StoreFigures
    retention: RetentionFigures
    mcp: Callable[[], McpFigures]
    waits: Callable[[], int]
    table: Callable[[], list[Route]]
    refused: RouteMeter


class OperationsEdge:
    """The routes for operators and their tools."""

    def __init__(self, sources: Sources, *, clock: Clock, version: str) -> None:
        self._from = sources
        self._clock = clock
        self._version = version

    def routes(self) -> list[Route]:
        """The rows for the table."""
        scrape = Who(frozenset((ADMIN, Kind.METRICS)))
        admin = Who(frozenset((ADMIN,)))
        dry = asks(flag("dry_run", "With true it is counted and nothing changes."))
        return [
            Route("GET", "/metrics", self.metrics, scrape, "The server's figures, for Prometheus", media="text/plain"),
            Route(
                "POST", "/admin/prune", self.prune, admin, "Prune now, or ask what would go", None, Pruned, query=dry
            ),
        ]

    async def prune(self, call: Call) -> Answer:
        """`dry_run=true` counts and changes nothing; without it a round begins."""
        wish = call.query().get("dry_run", "false")
        if wish not in ("true", "false"):
            raise InvalidField(reason="dry_run must be true or false")
        before = self._from.retention.before()
        since = rfc3339(before) if before else None
        if wish == "true":
            return json_answer(Pruned(True, since, await self._from.retention.would_go()))
        await self._from.retention.begin()
        return json_answer(Pruned(False, since, {}))

    # -- figures -------------------------------------------------------------------------------------------------------

    async def metrics(self, _call: Call) -> Answer:
        """All figures, in the text format of Prometheus."""
        lag = await self._lag()
        total, largest = await self._from.messages.unhandled([each.id for each in self._from.org.workspaces()])
        samples = [
            Sample("molecule_loop_lag_seconds", lag),
            Sample("molecule_inbox_unhandled", total),
            Sample("molecule_inbox_unhandled_max", largest),
            Sample("molecule_delegations_open", await self._from.delegations.open_in_all()),
            *self._from.ended.samples(),
            Sample("molecule_approvals_open", await self._from.approvals.open_in_all()),
            *self._from.ruled.samples(),
            *await self._from.threads(),
            *self._process(),
            *self._http(),
            *self._traffic(),
            *self._from.instructions.samples(),
            *self._of_store(),
        ]
        return Answer(exposition(samples).encode(), content_type=CONTENT_TYPE)

    async def _lag(self) -> float:
        """How long the loop lets a callback wait."""
        began = self._clock.monotonic()
        await others_first()
        return self._clock.monotonic() - began

    def _process(self) -> Iterator[Sample]:
        yield Sample("molecule_build_info", 1, (self._version, self._from.store.engine))
        yield Sample("molecule_process_memory_bytes", machine.memory_bytes())
        yield Sample("molecule_process_cpu_seconds_total", machine.cpu_seconds())
        yield Sample("molecule_process_open_files", machine.open_files())
        yield Sample("molecule_process_open_files_limit", machine.open_files_limit())

    def _http(self) -> Iterator[Sample]:
        meters = [(route.method, route.path, route.meter) for route in self._from.table()]
        # What was refused before its route was known.
        for method, path, meter in (*meters, ("", "", self._from.refused)):
            for status, count in zip(_STATUSES, meter.statuses, strict=True):
                if count:
                    yield Sample("molecule_http_requests_total", count, (method, path, status))
            if any(meter.counts):
                yield Sample("molecule_http_request_seconds", meter, (method, path))

    def _traffic(self) -> Iterator[Sample]:
        counted = self._from.counted
        yield Sample("molecule_messages_accepted_total", counted.accepted)
        yield Sample("molecule_messages_refused_total", counted.refused)
        yield Sample("molecule_messages_handed_out_total", counted.handed_out)
        yield Sample("molecule_acks_total", counted.acks)
        yield Sample("molecule_long_polls", counted.polls)
        yield Sample("molecule_waits", self._from.waits())
        for kind, count in self._from.live.kinds().items():
            yield Sample("molecule_live_listeners", count, (kind,))
        for reason, count in self._from.live.cuts.items():
            yield Sample("molecule_live_cuts_total", count, (reason,))
        yield from self._mcp()
        yield Sample("molecule_heartbeats_total", self._from.org.beats())
        yield Sample("molecule_orgs", len(self._from.org.orgs()))
        found = Counter(each.status for each in self._from.org.workspaces())
        yield from (Sample("molecule_workspaces", found[status], (status.value,)) for status in Status)

    def _mcp(self) -> Iterator[Sample]:
        figures = self._from.mcp()
        yield Sample("molecule_mcp_sessions", figures.sessions)
        yield Sample("molecule_mcp_sessions_total", figures.begun, ("begun",))
        yield Sample("molecule_mcp_sessions_total", figures.taken_up, ("taken up",))
        yield Sample("molecule_mcp_channels", figures.channels)
        for reason, count in figures.cuts.items():
            yield Sample("molecule_mcp_cuts_total", count, (reason,))

    def _of_store(self) -> Iterator[Sample]:
        meter = self._from.store.meter
        for outcome in ("committed", "replayed", "failed"):
            yield Sample("molecule_store_groups_total", getattr(meter, outcome), (outcome,))
        yield Sample("molecule_store_commands_total", meter.commands)
        yield Sample("molecule_store_group_seconds", meter)
        yield Sample("molecule_store_queue", self._from.store.waiting())
        yield Sample("molecule_retention_rounds_total", self._from.retention.rounds())
        for what, count in self._from.retention.gone.items():
            yield Sample("molecule_retention_rows_total", count, (what,))
