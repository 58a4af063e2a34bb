"""Composition root: builds the store, readers, writers, routes and workers, and registers subscribers."""

import asyncio
import logging
from functools import partial

from molecule_core.access.credential_cache import CredentialCache
from molecule_core.access.reader import AccessReader
from molecule_core.access.retention import CredentialRetention
from molecule_core.access.writer import AccessWriter
from molecule_core.api.application import Application
from molecule_core.api.approvals.approvals import ApprovalRoutes
from molecule_core.api.approvals.gate import ApprovalGate
from molecule_core.api.auth import Authenticator
from molecule_core.api.canvas import CanvasRoutes
from molecule_core.api.delegations.a2a_delegation import A2ADelegation
from molecule_core.api.delegations.delegations import DelegationRoutes
from molecule_core.api.delegations.progress_throttle import ProgressThrottle
from molecule_core.api.delegations.reporting import ReportingRoutes
from molecule_core.api.http.connection_registry import ConnectionRegistry
from molecule_core.api.instructions.agent_docs import AgentDocsRoutes
from molecule_core.api.instructions.previews import PreviewRenderer
from molecule_core.api.instructions.template_metrics import TemplateMetricsRoutes
from molecule_core.api.instructions.templates import InstructionRoutes
from molecule_core.api.live.hub import LiveHub
from molecule_core.api.live.routes import LiveRoutes
from molecule_core.api.mcp.routes import McpRoutes
from molecule_core.api.mcp.tool_host import McpDependencies, McpToolHost, TestExtensions
from molecule_core.api.memory import MemoryRoutes
from molecule_core.api.messages.chains import ChainRoutes
from molecule_core.api.messages.delivery import DeliveryRoutes
from molecule_core.api.messages.files import FileRoutes
from molecule_core.api.messages.inbox import InboxRoutes
from molecule_core.api.messages.inbox_view import InboxPresenter
from molecule_core.api.messages.replies import ReplyRoutes
from molecule_core.api.messages.send import MessageRoutes
from molecule_core.api.operations import MetricSources, OperationsRoutes, RetentionControl, StoreMetrics
from molecule_core.api.org.agent_registry import RegistryRoutes
from molecule_core.api.org.connect import ConnectRoutes
from molecule_core.api.org.orgs import OrgRoutes
from molecule_core.api.org.people import PeopleRoutes
from molecule_core.api.org.sessions import SessionRoutes
from molecule_core.api.org.tokens import TokenRoutes
from molecule_core.api.org.workspace_tree import WorkspaceTreeRoutes
from molecule_core.api.org.workspaces import WorkspaceRoutes
from molecule_core.api.prompts import PromptRoutes
from molecule_core.api.rate_limits import RateLimiter
from molecule_core.api.routing import Route, RouteTable
from molecule_core.api.system import SystemRoutes
from molecule_core.api.threads.routes import ThreadRouteGroup
from molecule_core.approvals.model import APPROVAL
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.common.logs import register_secret
from molecule_core.common.metrics import DelegationMeter, InstructionMeter, MessageMeter, RouteMeter
from molecule_core.common.net.ip_policy import NetPolicy
from molecule_core.common.net.safe_fetch import Fetcher, SafeFetcher
from molecule_core.common.settings import Settings, environment
from molecule_core.common.tracing import Tracing, create_tracing
from molecule_core.common.version import VERSION
from molecule_core.delegations.model import DELEGATION
from molecule_core.delegations.reader import DelegationReader
from molecule_core.delegations.retention import DelegationRetention
from molecule_core.delegations.rules import OUTCOMES
from molecule_core.delegations.subscribers import DelegationSubscriber
from molecule_core.delegations.transitions import DelegationCloser
from molecule_core.delegations.writer import DelegationWriter
from molecule_core.instructions.canary_statistics import METRIC_RUNTIMES
from molecule_core.instructions.rules import CLAUDE_CODE_TEMPLATE, CODEX_TEMPLATE, GENERIC_TEMPLATE
from molecule_core.instructions.services import InstructionServices
from molecule_core.memory.model import EXPIRY_TIMER as MEMORY_EXPIRY
from molecule_core.memory.reader import KeyReader, MemoryReader
from molecule_core.memory.retention import MemoryRetention
from molecule_core.memory.writer import KeyWriter, MemoryWriter
from molecule_core.messages import events
from molecule_core.messages.approval_messages import ApprovalMessages
from molecule_core.messages.delegation_messages import DelegationMessages
from molecule_core.messages.delivery.dead_letters import DeadLetterWriter
from molecule_core.messages.delivery.push_claims import PushClaims
from molecule_core.messages.delivery.push_dispatcher import PushDispatcher
from molecule_core.messages.delivery.push_results import PushResultRecorder
from molecule_core.messages.delivery.reply_waiters import ReplyWaiters
from molecule_core.messages.delivery.status_reader import DeliveryStatusReader
from molecule_core.messages.files.uploads import FileWriter
from molecule_core.messages.inbox.claims import InboxClaims
from molecule_core.messages.model import EXPIRY_TIMER, UNMENTIONED_FILE_TIMER
from molecule_core.messages.obligations.instructions import create_instruction_builder
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import OVERDUE_TIMER
from molecule_core.messages.overdue_watchdog import OverdueWatchdog
from molecule_core.messages.reader import ChainReader, MessageReader
from molecule_core.messages.replies import ReplyWriter
from molecule_core.messages.retention import MessageRetention
from molecule_core.messages.subscribers import MessageSubscriber
from molecule_core.messages.template_outcomes import CANARY_TIMER, CanaryMonitor
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.model import WorkspacesMoved, WorkspacesRemoved
from molecule_core.org.reader import OrgReader, OrgRegistrySync, load_registry
from molecule_core.org.registry import OrgRegistry
from molecule_core.org.retention import HeartbeatRetention
from molecule_core.org.writer import HEARTBEATS, SWEEP, OrgWriter
from molecule_core.prompts.reader import PromptReader
from molecule_core.prompts.retention import PromptRetention
from molecule_core.prompts.writer import PromptWriter
from molecule_core.server.approval_services import ApprovalServices
from molecule_core.server.process import ProcessRuntime
from molecule_core.server.thread_services import ThreadServices
from molecule_core.store.blob_store import BlobStore
from molecule_core.store.cache_sync import run_sync
from molecule_core.store.retention import RETENTION_TIMER, JournalRetention, RetentionWorker
from molecule_core.store.timers import TimerWorker
from molecule_core.views.delegation_tree import DelegationTreeReader
from molecule_core.views.feed import Feed
from molecule_core.views.snapshot import SnapshotReader
from molecule_core.views.timeline import TimelineReader

FIRST_ORG_NAME = "Default"
_CREDENTIAL_ENDED = "the credential has ended"
_log = logging.getLogger("molecule.server")


class Server(ProcessRuntime):
    """One server process.

    `open` before serving, `close` after. `first_org`: name of the organisation created at first start."""

    def __init__(
        self,
        settings: Settings,
        *,
        admin_token: str,
        first_org: str = FIRST_ORG_NAME,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
        fetcher: Fetcher | None = None,
        tracing: Tracing | None = None,
        test_extensions: TestExtensions | None = None,
    ) -> None:
        """Build the server. `mcp_additions`: tools and methods that only a test's server has."""
        super().__init__(settings, clock=clock, randomness=randomness)
        self._mcp_additions = test_extensions
        if settings.metrics_token:
            register_secret(settings.metrics_token)
        self._fetcher = fetcher or SafeFetcher(NetPolicy.from_networks(settings.push_networks), settings.limits)
        self._first_org = first_org
        self.version = VERSION
        self._tracing = tracing or create_tracing(settings.otel_endpoint, environment(), self.version)
        self.registry, self.connection_registry = OrgRegistry(), ConnectionRegistry(self._clock)
        self.instruction_meter = InstructionMeter(
            METRIC_RUNTIMES, (CLAUDE_CODE_TEMPLATE, CODEX_TEMPLATE, GENERIC_TEMPLATE)
        )
        self._build_application(admin_token)
        self._timers = TimerWorker(self.store, self._clock, self.wakeups)
        messages = {
            EXPIRY_TIMER: self._dead_letters.expire_message,
            OVERDUE_TIMER: self._overdue_watchdog.check_due,
            UNMENTIONED_FILE_TIMER: self._file_writer.delete_if_unmentioned,
        }
        others = {
            SWEEP: self._org_writer.sweep_silent_agents,
            MEMORY_EXPIRY: self._key_writer.delete_expired,
            RETENTION_TIMER: self._retention.on_due,
        }
        others |= {CANARY_TIMER: self._canary_monitor.evaluate_trial, **self.thread_services.waits.timers}
        others |= {DELEGATION: self.delegation_writer.on_due, APPROVAL: self.approval_services.writer.on_due}
        for kind, on_due in {**messages, **others}.items():
            self._timers.register(kind, on_due)
        self._workers: list[asyncio.Task[None]] = []

    def _build_application(self, admin_token: str) -> None:
        settings, store, registry, wakeups = self.settings, self.store, self.registry, self.wakeups
        clock, ids, limits = self._clock, self._ids, settings.limits
        credential_cache = CredentialCache()
        access_reader = AccessReader(store, clock, admin_token, credential_cache, settings.metrics_token)
        access_writer = AccessWriter(
            store, credential_cache, clock=clock, ids=ids, randomness=self._randomness, limits=limits
        )
        self._org_writer = org_writer = OrgWriter(
            store, registry, access_writer, wakeups.notify, clock=clock, ids=ids, limits=limits
        )
        org = OrgReader(registry)
        self._cache_sync.register(OrgRegistrySync(registry), *OrgRegistrySync.KINDS)
        self._cache_sync.register(access_reader, *AccessReader.KINDS)
        self._instructions = instructions = InstructionServices(
            store,
            self._cache_sync,
            self.instruction_meter,
            org.is_active_in,
            clock=clock,
            limits=limits,
            public_url=settings.url,
        )
        self._canary_monitor = CanaryMonitor(
            store, org, instructions.reader, instructions.canaries, self.instruction_meter, clock=clock, limits=limits
        )
        instruction_builder = create_instruction_builder(
            settings, instructions.renderer, org, store, self.instruction_meter
        )
        ledger = ObligationLedger(clock, limits, instruction_builder, shared=store.is_shared)
        ledger.on_first_outcome = self._canary_monitor.record_outcome
        writer = MessageWriter(store, org, clock=clock, ids=ids, limits=limits, ledger=ledger)
        reader = MessageReader(store, org, wakeups, limits=limits, public_url=settings.url)
        inbox_claims = InboxClaims(store, org, wakeups, reader, ledger, clock=clock, limits=limits)
        replies = ReplyWriter(store, org, writer, inbox_claims, ledger, clock=clock, ids=ids)
        delegation_messages = DelegationMessages(ledger, clock=clock, ids=ids)
        self._build_delegations(org, writer, delegation_messages, reader)
        self._build_approvals(org, ApprovalMessages(ledger, delegation_messages, clock=clock))
        self.thread_services = ThreadServices(store, org, wakeups, clock=clock, ids=ids, limits=limits)
        inbox_presenter = InboxPresenter(instruction_builder, self.delegation_reader)
        self._overdue_watchdog = OverdueWatchdog(store, org, ledger, clock=clock, limits=limits)
        reply_waiters = self._build_delivery(org, delegation_messages, ledger)
        status_reader = DeliveryStatusReader(
            store, org, wakeups, clock=clock, limits=limits, circuit_open_until=self.push_dispatcher.circuit_open_until
        )
        blob_store = BlobStore(settings.files_folder, reserved_bytes=limits.disk_reserve_bytes)
        self._file_writer = FileWriter(store, blob_store, org, writer, clock=clock, ids=ids, limits=limits)
        self._key_writer = KeyWriter(store, org, clock=clock, limits=limits)
        rate_limiter = RateLimiter(limits, clock)
        catch_up = store.catch_up if store.is_shared else None
        approval_gate = ApprovalGate(
            self.approval_services.writer,
            self.approval_services.reader,
            self.delegation_writer,
            self.delegation_reader,
            reader,
            limits,
        )
        authenticator = Authenticator(
            access_reader, org, self._allowed_hosts(), settings.cookie_name, approval_gate, catch_up
        )
        self._retention = RetentionWorker(
            store,
            (
                JournalRetention(store, lambda: [each.id for each in org.orgs()]),
                MessageRetention(store, org, clock=clock, limits=limits),
                DelegationRetention(store, org, clock=clock, limits=limits),
                self.approval_services.retention,
                MemoryRetention(store, org),
                PromptRetention(store, org),
                self.thread_services.retention,
                CredentialRetention(store),
                HeartbeatRetention(store),
            ),
            clock=clock,
            limits=limits,
        )
        feed = Feed(store, wakeups, org, reader, self.delegation_reader)
        readers = (reader, self.delegation_reader, self.approval_services.reader)
        snapshots = SnapshotReader(store, feed, org, *readers, clock=clock, limits=limits)
        self.live_hub = LiveHub(feed, org, clock=clock, limits=limits)
        access_reader.on_credential_change(
            lambda hashed, at: self.live_hub.end_credentials((hashed,), _CREDENTIAL_ENDED, at),
            self.live_hub.disconnect_person,
        )
        self._session_routes = SessionRoutes(
            access_writer,
            access_reader,
            org,
            authenticator,
            self.live_hub,
            clock=clock,
            settings=settings,
            version=self.version,
        )
        message_meter, rejected_meter, tracing = MessageMeter(), RouteMeter(), self._tracing
        delegation_services = self.delegation_writer, self.delegation_reader
        delegation_wait_deps, reply_wait_deps = (
            (*delegation_services, authenticator.revalidate),
            (status_reader, reply_waiters, authenticator.revalidate),
        )
        a2a_delegation = A2ADelegation(delegation_wait_deps, self.approval_services.reader, limits=limits)
        schema = partial(store.rows, "meta_value", {"name": "schema"})
        views = (
            DelegationTreeReader(self.delegation_reader, clock=clock),
            TimelineReader(reader, self.delegation_reader),
        )
        route_groups = (
            CanvasRoutes(),
            SystemRoutes(
                schema, self._bus_status, version=self.version, process=self.process_id, route_list=self._route_table
            ),
            OrgRoutes(org_writer, org),
            PeopleRoutes(access_writer, access_reader, self.live_hub, public_url=settings.url),
            WorkspaceRoutes(org_writer, org, self._fetcher, public_url=settings.url),
            WorkspaceTreeRoutes(org_writer, org, public_url=settings.url),
            TokenRoutes(access_writer, access_reader, self.live_hub, public_url=settings.url),
            ConnectRoutes(public_url=settings.url),
            AgentDocsRoutes(public_url=settings.url),
            RegistryRoutes(
                org_writer, org, authenticator, self._fetcher, instruction_builder, clock=clock, limits=limits
            ),
            MessageRoutes(
                writer,
                replies,
                reply_wait_deps,
                rate_limiter,
                message_meter,
                a2a_delegation,
                limits=limits,
                tracing=tracing,
            ),
            ReplyRoutes(replies, writer, status_reader, message_meter, limits=limits),
            InboxRoutes(
                writer,
                inbox_claims,
                reader,
                inbox_presenter,
                message_meter,
                clock=clock,
                limits=limits,
                tracing=tracing,
            ),
            DelegationRoutes(
                delegation_wait_deps,
                self.approval_services.reader,
                views,
                org,
                store.catch_up,
                message_meter,
                limits=limits,
            ),
            ReportingRoutes(*delegation_services, self.progress_throttle, org, store.catch_up, limits=limits),
            ApprovalRoutes(
                self.approval_services.writer,
                self.approval_services.reader,
                self.thread_services.reader,
                org,
                authenticator,
                limits=limits,
            ),
            DeliveryRoutes(status_reader, self._dead_letters, self.delegation_reader),
            ChainRoutes(writer, ChainReader(store), org, limits=limits),
            FileRoutes(self._file_writer, limits=limits),
            self._build_memory_routes(org),
            *self._build_prompt_routes(org, authenticator),
            InstructionRoutes(
                instructions, org, org_writer, PreviewRenderer(instructions, org, reader, store.catch_up)
            ),
            LiveRoutes(self.live_hub, feed, snapshots, org, authenticator, inbox_presenter),
            self._session_routes,
            self._build_mcp_routes(authenticator, org),
            TemplateMetricsRoutes(self._canary_monitor, instructions.canaries),
            self._build_operations_routes(org, reader, message_meter, rejected_meter),
        )
        self.routes = RouteTable(route for group in route_groups for route in group.routes())
        self.app = Application(
            self.routes,
            authenticator,
            rate_limiter,
            rejected_meter,
            ids=ids,
            clock=clock,
            limits=limits,
            access_log=settings.access_log,
        )

    def _build_mcp_routes(self, authenticator: Authenticator, org: OrgReader) -> McpRoutes:
        dependencies = McpDependencies(
            self._clock, self._ids, self._randomness, self.settings, self.version, self._mcp_additions
        )
        # The application is built after its routes.
        host = McpToolHost(
            lambda call, request: self.app.call_internally(call, request),  # noqa: PLW0108
            org,
            lambda: self.wakeups.closing,
            dependencies,
        )
        self.mcp_routes = McpRoutes(host, authenticator, org, self.live_hub, dependencies)
        return self.mcp_routes

    def _build_delegations(
        self, org: OrgReader, messages: MessageWriter, delegation_messages: DelegationMessages, reader: MessageReader
    ) -> None:
        """Build delegations, and subscribe them and the messages of removed workspaces to domain events."""
        store, clock, ids, limits = self.store, self._clock, self._ids, self.settings.limits
        self.delegation_meter = DelegationMeter(OUTCOMES)
        closer = DelegationCloser(
            org, delegation_messages, self.delegation_meter, history=self.settings.delegation_ledger_write
        )
        self.delegation_writer = DelegationWriter(
            store, org, messages, reader, closer, clock=clock, ids=ids, limits=limits
        )
        self.progress_throttle = ProgressThrottle(self.delegation_writer.report_progress, clock=clock)
        self.delegation_reader = DelegationReader(store, org, reader, self.wakeups, clock=clock, limits=limits)
        subscriber, subscribe = DelegationSubscriber(org, closer, limits), store.subscribers.subscribe
        subscribe(events.MessagesDelivered, "delegations.handed", subscriber.on_delivered)
        subscribe(events.MessagesReleased, "delegations.returned", subscriber.on_released)
        subscribe(events.PushDeferred, "delegations.delayed", subscriber.on_push_deferred)
        subscribe(events.PushOutcomeUnknown, "delegations.unsure", subscriber.on_push_outcome_unknown)
        subscribe(events.PushAccepted, "delegations.accepted", subscriber.on_push_accepted)
        subscribe(
            events.MessageAnswered, "delegations.answered", subscriber.on_answered
        )  # control: answer-closes-delegation
        subscribe(events.ProgressReported, "delegations.progressed", subscriber.on_progress)
        subscribe(events.DeliveryFailed, "delegations.given_up", subscriber.on_delivery_failed)
        subscribe(WorkspacesRemoved, "delegations.seats_gone", subscriber.on_workspaces_removed)
        subscribe(
            WorkspacesRemoved,
            "messages.seats_gone",
            MessageSubscriber(org, delegation_messages, limits).on_workspaces_removed,
        )

    def _build_approvals(self, org: OrgReader, approval_messages: ApprovalMessages) -> None:
        """Build approvals and subscribe them to domain events."""
        clock, ids, limits, subscribe = self._clock, self._ids, self.settings.limits, self.store.subscribers.subscribe
        services = self.approval_services = ApprovalServices(
            self.store, org, approval_messages, self.wakeups, clock=clock, ids=ids, limits=limits
        )
        self._cache_sync.register(services.policy_cache, *services.policy_cache.KINDS)
        subscribe(events.ApprovalExplained, "approvals.explained", services.subscriber.on_explained, isolated=True)
        subscribe(WorkspacesRemoved, "approvals.seats_gone", services.subscriber.on_workspaces_removed)
        subscribe(WorkspacesMoved, "approvals.seats_moved", services.subscriber.on_workspaces_moved)

    def _build_delivery(
        self, org: OrgReader, delegation_messages: DelegationMessages, ledger: ObligationLedger
    ) -> ReplyWaiters:
        """Build dead letters and push delivery; return the waiters for replies."""
        clock, ids, randomness, limits = self._clock, self._ids, self._randomness, self.settings.limits
        reply_waiters = ReplyWaiters(
            self.store, org, self.wakeups, delegation_messages, clock=clock, ids=ids, limits=limits
        )
        self._dead_letters = DeadLetterWriter(self.store, org, reply_waiters, clock=clock)
        push_results = PushResultRecorder(
            org, self._dead_letters, reply_waiters, ledger, clock=clock, ids=ids, randomness=randomness, limits=limits
        )
        push_claims = PushClaims(self.store, org, push_results, ledger, clock=clock, limits=limits)
        self.push_dispatcher = PushDispatcher(push_claims, org, self.wakeups, self._fetcher, clock=clock, limits=limits)
        return reply_waiters

    def _build_memory_routes(self, org: OrgReader) -> MemoryRoutes:
        """Build the memory routes."""
        store, clock, limits = self.store, self._clock, self.settings.limits
        reader = MemoryReader(store, org, limits=limits)
        writer = MemoryWriter(store, org, reader, clock=clock, ids=self._ids, limits=limits)
        return MemoryRoutes(writer, reader, self._key_writer, KeyReader(store, clock=clock), org, limits=limits)

    def _build_prompt_routes(
        self, org: OrgReader, authenticator: Authenticator
    ) -> tuple[PromptRoutes, ThreadRouteGroup]:
        """Build the routes of prompts and threads."""
        limits, services, reader = self.settings.limits, self.thread_services, PromptReader(self.store, org)
        writer = PromptWriter(self.store, org, clock=self._clock, limits=limits)
        writers = services.writer, services.engine_writer, services.agent_writer, services.waits
        app_server_deps = self.live_hub, authenticator, lambda call, request: self.app.call_internally(call, request)  # noqa: PLW0108
        threads = ThreadRouteGroup(writers, app_server_deps, services.reader, reader, org, limits=limits)
        self.store.subscribers.subscribe(
            WorkspacesRemoved, "threads.seats_gone", services.subscriber.on_workspaces_removed
        )
        return PromptRoutes(writer, reader, limits=limits), threads

    def _build_operations_routes(
        self, org: OrgReader, messages: MessageReader, message_meter: MessageMeter, rejected_meter: RouteMeter
    ) -> OperationsRoutes:
        store, retention = self.store, self._retention
        retention_control = RetentionControl(
            retention.deleted_rows,
            lambda: retention.rounds,
            retention.count_expired,
            lambda: retention.cutoff,
            partial(retention.schedule_round, 0),
        )
        sources = MetricSources(
            org=org,
            messages=messages,
            live=self.live_hub,
            message_meter=message_meter,
            instruction_meter=self.instruction_meter,
            delegations=self.delegation_reader,
            delegation_meter=self.delegation_meter,
            approvals=self.approval_services.reader,
            approval_meter=self.approval_services.meter,
            thread_samples=self.thread_services.samples,
            store=StoreMetrics(store.dialect, store.meter, lambda: store.queued_commands),
            retention=retention_control,
            mcp_metrics=self.mcp_routes.metrics,
            waiter_count=lambda: self.wakeups.sleeping,
            routes=self._route_table,
            unrouted_meter=rejected_meter,
        )
        return OperationsRoutes(sources, clock=self._clock, version=self.version)

    def _route_table(self) -> list[Route]:
        return self.routes.routes

    async def open(self) -> None:
        """Open the store, load the registry, start the workers. A first start creates an organisation."""
        await self.store.open()
        _log.info("process %s opens the store", self.process_id)
        if self.store.is_shared:
            await self._open_bus()
        await load_registry(self.store, self.registry)
        await self._instructions.load()
        await self.approval_services.policy_cache.open(self.store)
        await self._file_writer.open(exclusive=not self.settings.database)
        if not self.registry.orgs():
            await self._org_writer.get_or_create_org(self._first_org)
        # In one commit: a start should be quick.
        await asyncio.gather(
            self._org_writer.sweep_silent_agents(""),
            self._retention.schedule_round(),
            self._instructions.writer.seed_builtin_templates(),
        )
        workers = [self._timers.run(), self.push_dispatcher.run(exclusive=not self.store.is_shared)]
        if self.store.is_shared:
            workers += [
                run_sync(self.store, self.wakeups),
                self._save_periodically(HEARTBEATS, self._org_writer.save_heartbeats),
            ]
        self._workers = [asyncio.create_task(each) for each in workers]

    async def login_link(self) -> str:
        """Create a one-time login link for the first owner of the first organisation."""
        return (await self._session_routes.create_owner_link(self.registry.orgs()[0].id)).url

    async def close(self) -> None:
        """End waits, finish accepted commands, close the store."""
        self.wakeups.close()
        self._closing.set()
        await self.live_hub.close()
        await self.mcp_routes.close()
        await self.progress_throttle.close()
        if self._workers:
            await asyncio.gather(*self._workers)
            if self.outdated is None:
                await self._org_writer.save_heartbeats()
        self._file_writer.close()
        await self.store.close()
        if self.bus is not None:
            await self.bus.close()
