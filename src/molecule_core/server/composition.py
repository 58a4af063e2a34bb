"""Composition root: builds the store, readers, writers, routes and workers, and registers subscribers."""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial

from molecule_core.a2a_agents.model import A2A_CARD_TIMER, A2A_TASK_TIMER
from molecule_core.a2a_agents.retention import A2ATaskRetention
from molecule_core.access.model import PersonJoined
from molecule_core.access.reader import AccessReader
from molecule_core.access.retention import CredentialRetention
from molecule_core.api.a2a.notifications import NotificationRoutes
from molecule_core.api.app_server.websocket import AppServerRoutes
from molecule_core.api.application import Application, InternalRequest
from molecule_core.api.approvals.approvals import ApprovalRoutes
from molecule_core.api.approvals.gate import ApprovalGate
from molecule_core.api.auth import Authenticator
from molecule_core.api.budgets import BudgetRoutes
from molecule_core.api.canvas import CanvasRoutes
from molecule_core.api.delegations.a2a_delegation import A2ADelegation
from molecule_core.api.delegations.delegations import DelegationRoutes, DelegationViews
from molecule_core.api.delegations.progress_throttle import ProgressThrottle
from molecule_core.api.delegations.reports import DelegationReportRoutes
from molecule_core.api.docs import DocsRoutes
from molecule_core.api.event_log import EventLogRoutes
from molecule_core.api.host_context import HostContextReader
from molecule_core.api.http.connection_registry import ConnectionRegistry
from molecule_core.api.http.response import Response
from molecule_core.api.instructions.agent_docs import AgentDocsRoutes
from molecule_core.api.instructions.previews import PreviewRenderer
from molecule_core.api.instructions.template_choices import TemplateChoices
from molecule_core.api.instructions.template_metrics import TemplateMetricsRoutes
from molecule_core.api.instructions.templates import InstructionRoutes
from molecule_core.api.live.hub import LiveHub
from molecule_core.api.live.routes import LiveRoutes
from molecule_core.api.live.turns import LiveTurnRoutes
from molecule_core.api.mcp.routes import McpRoutes
from molecule_core.api.mcp.tool_host import McpDependencies, McpToolHost, TestExtensions
from molecule_core.api.memory import MemoryRoutes
from molecule_core.api.messages.chains import ChainRoutes
from molecule_core.api.messages.conversations import ConversationRoutes
from molecule_core.api.messages.delivery import DeliveryRoutes
from molecule_core.api.messages.files import FileRoutes
from molecule_core.api.messages.inbox import InboxRoutes
from molecule_core.api.messages.inbox_view import InboxPresenter
from molecule_core.api.messages.questions import QuestionRoutes
from molecule_core.api.messages.replies import ReplyRoutes
from molecule_core.api.messages.result_waits import DelegationWait, ReplyWait
from molecule_core.api.messages.send import MessageRoutes
from molecule_core.api.messages.traces import TraceRoutes
from molecule_core.api.oauth.clients import ClientDirectory, OAuthClientRoutes
from molecule_core.api.oauth.consent import ConsentRoutes
from molecule_core.api.oauth.metadata import OAuthMetadataRoutes
from molecule_core.api.oauth.tokens import OAuthTokenRoutes
from molecule_core.api.operations import MetricSources, OperationsRoutes, RetentionControl, StoreMetrics
from molecule_core.api.org.a2a_agents import RemoteAgentRoutes
from molecule_core.api.org.agent_registry import RegistryRoutes
from molecule_core.api.org.connect import ConnectRoutes
from molecule_core.api.org.orgs import OrgRoutes
from molecule_core.api.org.people import PeopleRoutes
from molecule_core.api.org.sample_team import SampleTeamHost, SampleTeamRoutes
from molecule_core.api.org.sessions import SessionRoutes
from molecule_core.api.org.tokens import TokenRoutes
from molecule_core.api.org.workspace_limits import WorkspaceLimitRoutes
from molecule_core.api.org.workspace_tree import WorkspaceTreeRoutes
from molecule_core.api.org.workspaces import WorkspaceRoutes
from molecule_core.api.prompts import PromptRoutes
from molecule_core.api.rate_limits import RateLimiter
from molecule_core.api.routing import Request, Route, RouteTable
from molecule_core.api.runners import RunnerRoutes
from molecule_core.api.search import SearchRoutes
from molecule_core.api.system import StoreReadiness, SystemRoutes
from molecule_core.api.threads.collaboration import CollaborationRoutes
from molecule_core.api.threads.engines import EngineRoutes
from molecule_core.api.threads.threads import ThreadRoutes
from molecule_core.api.webhooks import WebhookRoutes
from molecule_core.approvals.model import APPROVAL
from molecule_core.budgets.model import BudgetExhausted, BudgetHoldsEnded, WorkspaceOverBudget
from molecule_core.budgets.retention import LeaseRetention
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.common.logs import register_secret
from molecule_core.common.metrics import RouteMeter
from molecule_core.common.net.ip_policy import NetPolicy
from molecule_core.common.net.safe_fetch import Fetcher, SafeFetcher
from molecule_core.common.net.trusted_proxies import TrustedProxies
from molecule_core.common.settings import Settings, environment
from molecule_core.common.tracing import Tracing, create_tracing
from molecule_core.common.version import VERSION
from molecule_core.delegations.model import ACCEPTANCE_TIMER, DELEGATION
from molecule_core.delegations.retention import DelegationRetention
from molecule_core.live_turns.retention import LiveTurnRetention
from molecule_core.memory.model import KEY_EXPIRY_TIMER
from molecule_core.memory.retention import MemoryRetention
from molecule_core.messages import events
from molecule_core.messages.budget_holds import BudgetHoldSubscriber
from molecule_core.messages.model import MESSAGE_EXPIRY_TIMER, UNMENTIONED_FILE_TIMER
from molecule_core.messages.obligations.model import OVERDUE_TIMER
from molecule_core.messages.reader import ChainReader, PeerMessageReader, QuestionReader, TraceReader
from molecule_core.messages.retention import MessageRetention
from molecule_core.messages.template_outcomes import CANARY_TIMER
from molecule_core.org.limit_writer import LIMIT_TIMER, LimitWriter
from molecule_core.org.model import LimitBegan, LimitEnded, WorkspacesMoved, WorkspacesRemoved
from molecule_core.org.reader import OrgReader, OrgRegistrySync, load_registry
from molecule_core.org.registry import OrgRegistry
from molecule_core.org.retention import HeartbeatRetention
from molecule_core.org.writer import HEARTBEATS, SWEEP, OrgWriter
from molecule_core.prompts.retention import PromptRetention
from molecule_core.runners.model import CommandChecked
from molecule_core.runners.retention import RunnerRetention
from molecule_core.runners.subscribers import on_workspaces_removed as on_runner_workspaces_removed
from molecule_core.schedules.model import SCHEDULE
from molecule_core.schedules.subscribers import on_workspaces_removed as on_schedule_workspaces_removed
from molecule_core.search.retention import SearchRetention
from molecule_core.server.a2a import A2AEntrances, A2AServices, a2a_routes, build_task_readers
from molecule_core.server.process import ProcessRuntime, log_recovery
from molecule_core.server.schedules import build_schedules, schedule_routes
from molecule_core.server.services import (
    build_a2a_agents,
    build_access,
    build_approvals,
    build_budgets,
    build_delegations,
    build_delivery,
    build_instructions,
    build_live_turns,
    build_memory,
    build_messages,
    build_prompts,
    build_runners,
    build_search,
    build_threads,
    build_webhooks,
)
from molecule_core.server.usage import build_usage, usage_routes
from molecule_core.store.cache_sync import run_sync
from molecule_core.store.retention import RETENTION_TIMER, JournalRetention, RetentionWorker
from molecule_core.store.timers import TimerWorker
from molecule_core.usage.model import UsageRecorded
from molecule_core.views.conversations import ConversationReader
from molecule_core.views.delegation_tree import DelegationTreeReader
from molecule_core.views.event_log import EventLogReader
from molecule_core.views.feed import Feed
from molecule_core.views.snapshot import SnapshotReader
from molecule_core.views.timeline import TimelineReader
from molecule_core.views.traces import RequestTraceReader, TurnReaders
from molecule_core.views.turn_feed import TurnFeed
from molecule_core.webhooks.retention import WebhookRetention
from molecule_core.webhooks.subscribers import on_workspaces_removed as on_webhook_workspaces_removed

FIRST_ORG_NAME = "Default"
_CREDENTIAL_ENDED = "the credential is no longer valid"
_log = logging.getLogger("molecule.server")


class Server:
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
        """Build the server. `test_extensions`: tools and methods that only a test's server has."""
        runtime = self.runtime = ProcessRuntime(settings, clock=clock, randomness=randomness)
        self.settings, self.store, self.wakeups = settings, runtime.store, runtime.wakeups
        if settings.metrics_token:
            register_secret(settings.metrics_token)
        self._fetcher = fetcher or SafeFetcher(NetPolicy.from_networks(settings.push_networks), settings.limits)
        self._first_org, self._test_extensions = first_org, test_extensions
        self.sample_team_host: SampleTeamHost | None = None
        """Runs sample teams; `molecule up` sets it."""
        self.version = VERSION
        self._tracing = tracing or create_tracing(settings.otel_endpoint, environment(), self.version)
        self.registry, self.connection_registry = OrgRegistry(), ConnectionRegistry(runtime.clock)
        org = self._org = OrgReader(self.registry)
        self.access = build_access(runtime, admin_token)
        self.org_writer = OrgWriter(
            self.store,
            self.registry,
            self.access.writer,
            self.wakeups.notify,
            clock=runtime.clock,
            ids=runtime.ids,
            limits=settings.limits,
        )
        self.limit_writer = LimitWriter(self.store, self.registry, clock=runtime.clock, limits=settings.limits)
        runtime.cache_sync.register(OrgRegistrySync(self.registry), *OrgRegistrySync.KINDS)
        runtime.cache_sync.register(self.access.reader, *AccessReader.KINDS)
        self.instructions = build_instructions(runtime, org)
        self.budgets = build_budgets(runtime, org)
        self.messages = build_messages(runtime, org, self.instructions, self.budgets.leases)
        self.a2a_agents = build_a2a_agents(runtime, org, self.org_writer, self._fetcher)
        self.delivery = build_delivery(runtime, org, self.messages, self._fetcher, self.a2a_agents, self.budgets.leases)
        self.delegations = build_delegations(runtime, org, self.messages)
        self.approvals = build_approvals(
            self.store,
            org,
            self.messages.approval_messages,
            self.wakeups,
            self.budgets.raises,
            clock=runtime.clock,
            ids=runtime.ids,
            limits=settings.limits,
        )
        for cache in (self.budgets.cache, self.delegations.scope_cache, self.approvals.policy_cache):
            runtime.cache_sync.register(cache, *cache.KINDS)
        self.schedules = build_schedules(runtime, org, self.messages.writer, self.delegations.writer)
        self.usage = build_usage(self.store, clock=runtime.clock, limits=settings.limits)
        self.threads = build_threads(
            self.store,
            org,
            self.wakeups,
            self.budgets.leases,
            self.usage.writer,
            clock=runtime.clock,
            ids=runtime.ids,
            limits=settings.limits,
        )
        self.live_turns = build_live_turns(runtime)
        self.memory = build_memory(runtime, org)
        self.search = build_search(runtime, org)
        self.prompts = build_prompts(runtime, org)
        self.runners = build_runners(runtime, org, self.access)
        self._a2a_readers = build_task_readers(runtime, self.messages, self.delegations, self.approvals)
        self.webhooks = build_webhooks(runtime, org, self.access, self._a2a_readers, self._fetcher)
        self._host_contexts = HostContextReader(org, self.prompts.reader)
        self._subscribe()
        self._retention = self._build_retention()
        self.progress_throttle = ProgressThrottle(self.delegations.writer.report_progress, clock=runtime.clock)
        self._feed = Feed(self.store, self.wakeups, org, self.messages.reader, self.delegations.reader)
        self.live_hub = LiveHub(self._feed, self._turn_feed, org, clock=runtime.clock, limits=settings.limits)
        hub, end, ended = self.live_hub, self.live_hub.end_credentials, _CREDENTIAL_ENDED
        self.access.reader.on_credential_change(lambda hashed, at: end((hashed,), ended, at), hub.disconnect_person)
        self.access.writer.oauth.on_tokens_ended = lambda hashes: end(hashes, ended)
        self._build_application()
        self._timers = TimerWorker(self.store, runtime.clock, self.wakeups)
        timer_handlers = {
            MESSAGE_EXPIRY_TIMER: self.delivery.dead_letters.expire_message,
            OVERDUE_TIMER: self.messages.overdue_watchdog.check_due,
            UNMENTIONED_FILE_TIMER: self.messages.file_writer.delete_if_unmentioned,
            SWEEP: self.org_writer.sweep_silent_agents,
            LIMIT_TIMER: self.limit_writer.on_due,
            KEY_EXPIRY_TIMER: self.memory.key_writer.delete_expired,
            RETENTION_TIMER: self._retention.on_due,
            CANARY_TIMER: self.messages.canary_monitor.evaluate_trial,
            **self.threads.waits.timers,
            DELEGATION: self.delegations.writer.on_due,
            SCHEDULE: self.schedules.executor.on_due,
            ACCEPTANCE_TIMER: self.delegations.acceptance_worker.on_due,
            APPROVAL: self.approvals.writer.on_due,
            A2A_CARD_TIMER: self.a2a_agents.writer.on_due,
            A2A_TASK_TIMER: self.delivery.a2a_follower.on_due,
        }
        for kind, on_due in timer_handlers.items():
            self._timers.register(kind, on_due)
        self._workers: list[asyncio.Task[None]] = []

    def _turn_feed(self, org_id: str) -> TurnFeed:
        return TurnFeed(self.live_turns.reader, self.wakeups, org_id, clock=self.runtime.clock)

    def _subscribe(self) -> None:
        """Subscribe to domain events; docs/order.md prints the order."""
        subscribe = self.store.subscribers.subscribe
        delegations, approvals = self.delegations.subscriber, self.approvals.subscriber
        subscribe(events.MessagesDelivered, "delegations.on_delivered", delegations.on_delivered)
        subscribe(events.MessagesReleased, "delegations.on_released", delegations.on_released)
        subscribe(events.PushDeferred, "delegations.on_push_deferred", delegations.on_push_deferred)
        subscribe(events.PushOutcomeUnknown, "delegations.on_push_outcome_unknown", delegations.on_push_outcome_unknown)
        subscribe(events.PushAccepted, "delegations.on_push_accepted", delegations.on_push_accepted)
        subscribe(events.QuestionAsked, "delegations.on_question_asked", delegations.on_question_asked)
        subscribe(
            events.MessageAnswered, "delegations.on_answered", delegations.on_answered
        )  # control: answer-closes-delegation
        subscribe(events.ProgressReported, "delegations.on_progress", delegations.on_progress)
        subscribe(events.DeliveryFailed, "delegations.on_delivery_failed", delegations.on_delivery_failed)
        subscribe(WorkspacesRemoved, "delegations.on_workspaces_removed", delegations.on_workspaces_removed)
        subscribe(WorkspacesRemoved, "messages.on_workspaces_removed", self.messages.subscriber.on_workspaces_removed)
        subscribe(PersonJoined, "messages.on_person_joined", self.messages.subscriber.on_person_joined)
        subscribe(LimitBegan, "messages.on_limit_began", self.messages.subscriber.on_limit_began)
        subscribe(LimitEnded, "messages.on_limit_ended", self.messages.subscriber.on_limit_ended)
        holds = BudgetHoldSubscriber(self.limit_writer)
        subscribe(WorkspaceOverBudget, "messages.on_over_budget", holds.on_over_budget, isolated=True)
        subscribe(BudgetHoldsEnded, "messages.on_holds_ended", holds.on_holds_ended)
        subscribe(BudgetExhausted, "approvals.on_budget_exhausted", approvals.on_budget_exhausted, isolated=True)
        subscribe(UsageRecorded, "budgets.on_usage_recorded", self.budgets.subscriber.on_usage_recorded)
        subscribe(events.ApprovalExplained, "approvals.on_explained", approvals.on_explained, isolated=True)
        subscribe(events.ReviewRequested, "approvals.on_review_requested", approvals.on_review_requested, isolated=True)
        subscribe(events.ReviewsDropped, "approvals.on_reviews_dropped", approvals.on_reviews_dropped, isolated=True)
        subscribe(CommandChecked, "delegations.on_command_checked", delegations.on_command_checked, isolated=True)
        subscribe(events.ReviewDecided, "delegations.on_review_decided", delegations.on_review_decided, isolated=True)
        subscribe(WorkspacesRemoved, "approvals.on_workspaces_removed", approvals.on_workspaces_removed)
        subscribe(WorkspacesMoved, "approvals.on_workspaces_moved", approvals.on_workspaces_moved)
        subscribe(WorkspacesRemoved, "threads.on_workspaces_removed", self.threads.subscriber.on_workspaces_removed)
        subscribe(WorkspacesRemoved, "webhooks.on_workspaces_removed", on_webhook_workspaces_removed)
        subscribe(WorkspacesRemoved, "runners.on_workspaces_removed", on_runner_workspaces_removed)
        subscribe(WorkspacesRemoved, "a2a_agents.on_workspaces_removed", self.a2a_agents.writer.on_workspaces_removed)
        subscribe(WorkspacesRemoved, "schedules.on_workspaces_removed", on_schedule_workspaces_removed)

    def _build_retention(self) -> RetentionWorker:
        store, org, clock, limits = self.store, self._org, self.runtime.clock, self.settings.limits
        policies = (
            JournalRetention(store, lambda: [each.id for each in org.orgs()]),
            MessageRetention(store, org, clock=clock, limits=limits),
            DelegationRetention(store, org, clock=clock, limits=limits),
            self.approvals.retention,
            MemoryRetention(store, org),
            PromptRetention(store, org),
            self.threads.retention,
            CredentialRetention(store),
            HeartbeatRetention(store),
            LiveTurnRetention(store),
            LeaseRetention(store),
            RunnerRetention(store),
            A2ATaskRetention(store),
            WebhookRetention(store),
            self.schedules.retention,
            self.usage.retention,
            # Last: what the others have deleted is not searched any more.
            SearchRetention(store),
        )
        return RetentionWorker(store, policies, clock=clock, limits=limits)

    def _build_application(self) -> None:
        """Build the routes and the application that dispatches to them."""
        runtime, settings, org, limits = self.runtime, self.settings, self._org, self.settings.limits
        approval_gate = ApprovalGate(
            self.approvals.writer,
            self.approvals.reader,
            self.delegations.writer,
            self.delegations.reader,
            self.messages.reader,
            limits,
        )
        authenticator = Authenticator(
            self.access.reader,
            org,
            runtime.allowed_hosts(),
            settings.cookie_name,
            approval_gate,
            self.store.catch_up if self.store.is_shared else None,
            settings.oauth_issuer,
        )
        proxies = TrustedProxies.from_networks(settings.trusted_proxies)
        rate_limiter, unrouted_meter = RateLimiter(limits, runtime.clock, proxies), RouteMeter()
        self._session_routes = SessionRoutes(
            self.access.writer,
            self.access.reader,
            org,
            authenticator,
            self.live_hub,
            clock=runtime.clock,
            settings=settings,
            version=self.version,
        )
        self.mcp_routes = self._build_mcp_routes(authenticator)
        presenter = InboxPresenter(self.messages.instruction_builder, self.delegations.reader)
        self.routes = RouteTable(
            (
                *self._org_routes(authenticator),
                *self._message_routes(authenticator, rate_limiter, presenter),
                *self._thread_routes(authenticator, rate_limiter),
                *self._instruction_routes(),
                *self._live_routes(authenticator, rate_limiter, presenter),
                *TemplateMetricsRoutes(self.messages.canary_monitor, self.instructions.canaries).routes(),
                *self._operations_routes(unrouted_meter),
            ),
            not_found_page=CanvasRoutes().not_found_page(unrouted_meter),
        )
        self.app = Application(
            self.routes,
            authenticator,
            rate_limiter,
            unrouted_meter,
            ids=runtime.ids,
            clock=runtime.clock,
            limits=limits,
            access_log=settings.access_log,
        )

    async def _call_internally(self, outer_request: Request, internal_request: InternalRequest) -> Response:
        """Call the application, which is built after its routes."""
        return await self.app.call_internally(outer_request, internal_request)

    def _build_mcp_routes(self, authenticator: Authenticator) -> McpRoutes:
        run, live = self.runtime, self.live_hub
        parts = McpDependencies(run.clock, run.ids, run.randomness, self.settings, self.version, self._test_extensions)
        host = McpToolHost(self._call_internally, self._org, self._host_contexts, live, parts)
        return McpRoutes(host, authenticator, self._org, live, self.org_writer, parts)

    def _org_routes(self, authenticator: Authenticator) -> Iterator[Route]:
        """Yield the routes of the page, the server, organisations, workspaces, people and agents."""
        runtime, org, url, access = self.runtime, self._org, self.settings.url, self.access
        yield from CanvasRoutes().routes()
        yield from DocsRoutes().routes()
        yield from SystemRoutes(
            StoreReadiness(
                partial(self.store.rows, "meta_value", {"name": "schema"}),
                lambda: self.store.is_write_failing,
                runtime.clock,
                self.settings.limits.ready_seconds,
            ),
            runtime.bus_status,
            version=self.version,
            process=runtime.process_id,
            route_list=lambda: self.routes.routes,
        ).routes()
        yield from OrgRoutes(self.org_writer, org).routes()
        yield from SampleTeamRoutes(lambda: self.sample_team_host).routes()
        yield from PeopleRoutes(access.writer, access.reader, self.live_hub, public_url=url).routes()
        templates = TemplateChoices(self.instructions.reader)
        a2a = self.a2a_agents
        workspaces = WorkspaceRoutes(
            self.org_writer, org, templates, self._fetcher, a2a.writer, a2a.reader, public_url=url
        )
        yield from workspaces.routes()
        yield from RemoteAgentRoutes(a2a.reader, a2a.notifications).routes()
        yield from NotificationRoutes(a2a.notifications).routes()
        yield from WorkspaceTreeRoutes(self.org_writer, org, templates, public_url=url).routes()
        yield from WorkspaceLimitRoutes(self.limit_writer, org).routes()
        budgets, traces = self.budgets, TraceReader(self.store)
        yield from BudgetRoutes(budgets.writer, budgets.reader, org, traces, self.delegations.reader).routes()
        yield from TokenRoutes(access.writer, access.reader, self.live_hub, public_url=url).routes()
        yield from ConnectRoutes(public_url=url).routes()
        yield from RunnerRoutes(self.runners.writer, self.runners.reader, self.live_hub).routes()
        yield from AgentDocsRoutes(public_url=url).routes()
        yield from RegistryRoutes(
            self.org_writer,
            org,
            authenticator,
            self._fetcher,
            self.messages.instruction_builder,
            clock=runtime.clock,
            limits=self.settings.limits,
        ).routes()

    def _message_routes(
        self, authenticator: Authenticator, rate_limiter: RateLimiter, presenter: InboxPresenter
    ) -> Iterator[Route]:
        """Yield the routes of messages, delegations and approvals."""
        org, limits, clock = self._org, self.settings.limits, self.runtime.clock
        messages, delivery, delegations, approvals = self.messages, self.delivery, self.delegations, self.approvals
        delegation_wait = DelegationWait(delegations.writer, delegations.reader, authenticator.revalidate)
        delegation = A2ADelegation(
            delegations.writer, delegations.reader, delegation_wait, approvals.reader, limits=limits
        )
        message_routes = MessageRoutes(
            messages.writer,
            messages.replies,
            ReplyWait(delivery.status_reader, delivery.reply_waiters, authenticator.revalidate),
            rate_limiter,
            messages.meter,
            delegation,
            messages.file_writer,
            limits=limits,
            tracing=self._tracing,
        )
        yield from message_routes.routes()
        services = A2AServices(messages, delegations, approvals, self.webhooks, self._a2a_readers)
        entrances = A2AEntrances(authenticator, message_routes, delegation)
        yield from a2a_routes(self.runtime, org, services, entrances)
        yield from ReplyRoutes(
            messages.replies, messages.writer, delivery.status_reader, messages.meter, limits=limits
        ).routes()
        yield from InboxRoutes(
            messages.writer,
            messages.inbox_claims,
            messages.reader,
            presenter,
            messages.meter,
            clock=clock,
            limits=limits,
            tracing=self._tracing,
        ).routes()
        yield from DelegationRoutes(
            delegations.writer,
            delegations.reader,
            delegation_wait,
            DelegationViews(
                DelegationTreeReader(delegations.reader, clock=clock),
                TimelineReader(messages.reader, delegations.reader),
                approvals.reader,
            ),
            org,
            self.store.catch_up,
            messages.meter,
            limits=limits,
        ).routes()
        yield from DelegationReportRoutes(
            delegations.writer, delegations.reader, self.progress_throttle, org, self.store.catch_up, limits=limits
        ).routes()
        yield from ApprovalRoutes(
            approvals.writer, approvals.reader, self.threads.reader, org, authenticator, limits=limits
        ).routes()
        yield from WebhookRoutes(self.webhooks.reader, limits=limits).routes()
        yield from DeliveryRoutes(delivery.status_reader, delivery.dead_letters, delegations.reader).routes()
        yield from ConversationRoutes(
            ConversationReader(PeerMessageReader(self.store, org, limits=limits), delegations.reader),
            org,
            limits=limits,
        ).routes()
        yield from QuestionRoutes(QuestionReader(self.store, org, limits=limits), limits=limits).routes()
        yield from ChainRoutes(messages.writer, ChainReader(self.store), org, limits=limits).routes()
        yield from TraceRoutes(
            RequestTraceReader(
                TraceReader(self.store),
                delegations.reader,
                DelegationTreeReader(delegations.reader, clock=clock),
                approvals.reader,
                TurnReaders(self.threads.reader, self.usage.reader),
                org,
                clock=clock,
                limits=limits,
            )
        ).routes()
        yield from FileRoutes(messages.file_writer, authenticator.approval_gate.check_upload, limits=limits).routes()

    def _thread_routes(self, authenticator: Authenticator, rate_limiter: RateLimiter) -> Iterator[Route]:
        """Yield the routes of memory, search, prompts and threads."""
        org, limits, memory, threads = self._org, self.settings.limits, self.memory, self.threads
        yield from MemoryRoutes(
            memory.writer, memory.reader, memory.key_writer, memory.key_reader, org, limits=limits
        ).routes()
        yield from SearchRoutes(self.search.reader, org, limits=limits).routes()
        yield from usage_routes(self.runtime, org, self.usage)
        yield from schedule_routes(self.runtime, org, self.schedules)
        yield from PromptRoutes(self.prompts.writer, self.prompts.reader, self._host_contexts, limits=limits).routes()
        yield from ThreadRoutes(
            threads.writer, threads.reader, self.prompts.reader, org, self.live_turns.writer, limits=limits
        ).routes()
        yield from EngineRoutes(threads.engine_writer, threads.reader, org, limits=limits).routes()
        yield from CollaborationRoutes(threads.agent_writer, threads.waits, threads.reader, org, limits=limits).routes()
        yield from AppServerRoutes(
            self._call_internally, self.live_hub, authenticator, rate_limiter, threads.reader, org
        ).routes()

    def _instruction_routes(self) -> Iterator[Route]:
        previews = PreviewRenderer(self.instructions, self._org, self.messages.reader, self.store.catch_up)
        yield from InstructionRoutes(self.instructions, self._org, self.org_writer, previews).routes()

    def _live_routes(
        self, authenticator: Authenticator, rate_limiter: RateLimiter, presenter: InboxPresenter
    ) -> Iterator[Route]:
        """Yield the routes of live channels, login and MCP."""
        snapshots = SnapshotReader(
            self.store,
            self._feed,
            self._org,
            self.messages.reader,
            self.delegations.reader,
            self.approvals.reader,
            clock=self.runtime.clock,
            limits=self.settings.limits,
        )
        yield from LiveRoutes(
            self.live_hub, self._feed, snapshots, self._org, authenticator, rate_limiter, presenter
        ).routes()
        event_log = EventLogReader(
            self.store,
            self._feed,
            self.search.reader,
            self._org,
            self.wakeups,
            clock=self.runtime.clock,
            limits=self.settings.limits,
        )
        yield from EventLogRoutes(
            event_log, self._org, self.live_hub, authenticator, limits=self.settings.limits
        ).routes()
        yield from LiveTurnRoutes(self.live_turns.writer, self.threads.reader, limits=self.settings.limits).routes()
        yield from self._session_routes.routes()
        yield from self.mcp_routes.routes()
        yield from self._oauth_routes(authenticator)

    def _oauth_routes(self, authenticator: Authenticator) -> Iterator[Route]:
        """Yield the routes by which apps are connected to the MCP endpoint without a pasted token."""
        writer, reader = self.access.writer.oauth, self.access.oauth_reader
        clock, settings = self.runtime.clock, self.settings
        directory = ClientDirectory(reader, self._fetcher, clock=clock, settings=settings)
        yield from OAuthMetadataRoutes(settings).routes()
        yield from OAuthClientRoutes(writer, reader, settings=settings).routes()
        yield from OAuthTokenRoutes(writer, reader, clock=clock, settings=settings).routes()
        yield from ConsentRoutes(
            writer, directory, self._session_routes, authenticator, self._org, clock=clock, settings=settings
        ).routes()

    def _operations_routes(self, unrouted_meter: RouteMeter) -> Iterator[Route]:
        store, retention = self.store, self._retention
        retention_control = RetentionControl(
            retention.deleted_rows,
            lambda: retention.rounds,
            retention.count_expired,
            lambda: retention.cutoff,
            partial(retention.schedule_round, 0),
        )
        sources = MetricSources(
            org=self._org,
            messages=self.messages.reader,
            live=self.live_hub,
            message_meter=self.messages.meter,
            instruction_meter=self.instructions.meter,
            delegations=self.delegations.reader,
            delegation_meter=self.delegations.meter,
            approvals=self.approvals.reader,
            approval_meter=self.approvals.meter,
            threads=self.threads.reader,
            thread_meter=self.threads.meter,
            store=StoreMetrics(store.dialect, store.meter, lambda: store.queued_commands),
            retention=retention_control,
            mcp_metrics=self.mcp_routes.metrics,
            waiter_count=lambda: self.wakeups.sleeping,
            routes=lambda: self.routes.routes,
            unrouted_meter=unrouted_meter,
            refusal_meter=lambda: self.app.refusal_meter,
            delivery=self.delivery.status_reader,
        )
        yield from OperationsRoutes(sources, self.settings, clock=self.runtime.clock, version=self.version).routes()

    async def open(self) -> None:
        """Open the store, load the registry, start the workers. A first start creates an organisation."""
        await self.store.open()
        _log.info("process %s opened the store", self.runtime.process_id)
        log_recovery(self.runtime)
        if self.store.is_shared:
            await self.runtime.open_bus()
        await load_registry(self.store, self.registry)
        await self.instructions.load()
        for cache in (self.approvals.policy_cache, self.budgets.cache, self.delegations.scope_cache):
            await cache.open(self.store)
        if self.store.is_shared and not self.settings.files_dir:
            _log.warning(
                "uploaded files are kept in %s, where other processes of the database do not find them; set "
                "MOLECULE_FILES_DIR to a folder that all of them share",
                self.settings.files_folder,
            )
        await self.messages.file_writer.open(exclusive=not self.settings.database)
        if not self.registry.orgs():
            await self.org_writer.get_or_create_org(self._first_org)
        # In one commit: a start should be quick.
        await asyncio.gather(
            self.org_writer.sweep_silent_agents(""),
            self._retention.schedule_round(),
            self.instructions.writer.seed_builtin_templates(),
        )
        if not self.store.is_shared:
            await self.delivery.a2a_follower.resume()
        workers = [
            self._timers.run(),
            self.delivery.push_dispatcher.run(exclusive=not self.store.is_shared),
            self.webhooks.dispatcher.run(exclusive=not self.store.is_shared),
            self.messages.file_writer.delete_removed_periodically(self.runtime.closing),
            self.search.indexer.run(),
        ]
        if self.store.is_shared:
            workers += [
                run_sync(self.store, self.wakeups),
                self.runtime.save_periodically(HEARTBEATS, self.org_writer.save_heartbeats),
            ]
        self._workers = [asyncio.create_task(each) for each in workers]

    async def login_link(self, chat_id: str | None = None) -> str:
        """Create a one-time login link for the first owner of the first organisation.

        `chat_id`: the workspace whose chat it opens, beside the map."""
        place = "" if chat_id is None else f"org?focus={chat_id}&panel=chat"
        return (await self._session_routes.create_owner_link(self.registry.orgs()[0].id, place)).url

    async def close(self) -> None:
        """End waits, finish accepted commands, close the store."""
        self.wakeups.close()
        self.runtime.closing.set()
        self.search.indexer.close()
        await self.live_hub.close()
        await self.mcp_routes.close()
        await self.progress_throttle.close()
        await self.delivery.a2a_follower.close()
        await self.delegations.acceptance_worker.close()
        await self.a2a_agents.writer.close()
        if self._workers:
            await asyncio.gather(*self._workers)
            if self.runtime.outdated is None:
                await self.org_writer.save_heartbeats()
        self.messages.file_writer.close()
        await self.store.close()
        if self.runtime.bus is not None:
            await self.runtime.bus.close()
