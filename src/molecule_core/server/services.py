"""Named bundles of the services of each noun, and the functions that build them.

Called by server/composition.py, which registers subscribers, timers, caches and retention policies.
"""

from msgspec import Struct

from molecule_core.a2a_agents.client import A2AClient
from molecule_core.a2a_agents.reader import A2AAgentReader
from molecule_core.a2a_agents.writer import A2AAgentWriter, TaskNotifications
from molecule_core.access.credential_cache import CredentialCache
from molecule_core.access.oauth_grants import OAuthGrantReader
from molecule_core.access.push_secrets import load_push_secrets, read_push_secrets
from molecule_core.access.reader import AccessReader
from molecule_core.access.writer import AccessWriter
from molecule_core.approvals.policies import PolicyCache
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.approvals.retention import ApprovalRetention
from molecule_core.approvals.subscribers import ApprovalSubscriber
from molecule_core.approvals.transitions import ApprovalTransitions
from molecule_core.approvals.writer import ApprovalWriter
from molecule_core.budgets.cache import BudgetCache
from molecule_core.budgets.leases import BudgetLeases
from molecule_core.budgets.reader import BudgetReader
from molecule_core.budgets.subscribers import BudgetSubscriber
from molecule_core.budgets.transitions import BudgetRaises
from molecule_core.budgets.writer import BudgetWriter
from molecule_core.common.clock import Clock
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import ApprovalMeter, DelegationMeter, InstructionMeter, MessageMeter, ThreadMeter
from molecule_core.common.net.safe_fetch import Fetcher
from molecule_core.delegations.acceptance import AcceptanceTransitions
from molecule_core.delegations.acceptance_worker import AcceptanceWorker
from molecule_core.delegations.json_schema import ProcessSchemaValidator
from molecule_core.delegations.reader import DelegationReader
from molecule_core.delegations.rules import OUTCOMES
from molecule_core.delegations.scopes import ScopeCache, ScopeReader
from molecule_core.delegations.subscribers import DelegationSubscriber
from molecule_core.delegations.transitions import DelegationCloser
from molecule_core.delegations.writer import DelegationWriter
from molecule_core.instructions.canary_statistics import METRIC_RUNTIMES
from molecule_core.instructions.rules import CLAUDE_CODE_TEMPLATE, CODEX_TEMPLATE, GENERIC_TEMPLATE
from molecule_core.instructions.services import InstructionServices
from molecule_core.live_turns.reader import LiveTurnReader
from molecule_core.live_turns.turn_store import MemoryTurns, SharedTurns
from molecule_core.live_turns.writer import LiveTurnWriter
from molecule_core.memory.reader import KeyReader, MemoryReader
from molecule_core.memory.writer import KeyWriter, MemoryWriter
from molecule_core.messages.approval_messages import ApprovalMessages
from molecule_core.messages.cancellation import MessageCanceller
from molecule_core.messages.delegation_messages import DelegationMessages
from molecule_core.messages.delivery.a2a_delivery import A2ADelivery
from molecule_core.messages.delivery.a2a_follower import A2ATaskFollower
from molecule_core.messages.delivery.dead_letters import DeadLetterWriter
from molecule_core.messages.delivery.push_claims import PushClaims
from molecule_core.messages.delivery.push_dispatcher import PushDispatcher
from molecule_core.messages.delivery.push_results import PushResultRecorder
from molecule_core.messages.delivery.reply_waiters import ReplyWaiters
from molecule_core.messages.delivery.status_reader import DeliveryStatusReader
from molecule_core.messages.files.uploads import FileWriter
from molecule_core.messages.inbox.claims import InboxClaims
from molecule_core.messages.obligations.instructions import InstructionBuilder, create_instruction_builder
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.overdue_watchdog import OverdueWatchdog
from molecule_core.messages.reader import MessageReader
from molecule_core.messages.replies import ReplyWriter
from molecule_core.messages.subscribers import MessageSubscriber
from molecule_core.messages.task_reader import TaskMessageReader
from molecule_core.messages.template_outcomes import CanaryMonitor
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import ancestors, are_related
from molecule_core.org.writer import OrgWriter
from molecule_core.prompts.reader import PromptReader
from molecule_core.prompts.writer import PromptWriter
from molecule_core.runners.checks import RunnerChecks
from molecule_core.runners.reader import RunnerReader
from molecule_core.runners.writer import RunnerWriter
from molecule_core.search.indexer import SearchIndexer
from molecule_core.search.reader import SearchReader
from molecule_core.search.writer import SearchIndexWriter
from molecule_core.server.process import ProcessRuntime
from molecule_core.store.blob_store import BlobStore
from molecule_core.store.database import Store
from molecule_core.store.wakeups import Notifier
from molecule_core.threads import metrics
from molecule_core.threads.agent_writer import AgentWriter
from molecule_core.threads.collab_calls import CollabCalls
from molecule_core.threads.engine_writer import EngineWriter
from molecule_core.threads.reader import ThreadReader
from molecule_core.threads.retention import ThreadRetention
from molecule_core.threads.subscribers import ThreadSubscriber
from molecule_core.threads.transitions import ThreadTransitions
from molecule_core.threads.waits import AgentWaits
from molecule_core.threads.writer import ThreadWriter
from molecule_core.usage.writer import UsageWriter
from molecule_core.views.webhook_tasks import TaskReaders, WebhookTasks
from molecule_core.webhooks.dispatcher import WebhookDispatcher
from molecule_core.webhooks.model import Webhook
from molecule_core.webhooks.poster import WebhookPoster
from molecule_core.webhooks.reader import WebhookReader
from molecule_core.webhooks.writer import WebhookWriter
from molecule_core.wire.protocols.a2a import DELEGATION_EXTENSION
from molecule_core.wire.schemas.approvals import ApprovalStatus


class AccessServices(Struct, frozen=True, eq=False):
    """Services of people and credentials."""

    reader: AccessReader
    oauth_reader: OAuthGrantReader
    writer: AccessWriter


def build_access(runtime: ProcessRuntime, admin_token: str) -> AccessServices:
    """Build the services of access, which share a cache of credentials."""
    settings, store, clock, cache = runtime.settings, runtime.store, runtime.clock, CredentialCache()
    return AccessServices(
        AccessReader(store, clock, admin_token, cache, settings.metrics_token),
        OAuthGrantReader(store, clock, settings.limits),
        AccessWriter(store, cache, clock=clock, ids=runtime.ids, randomness=runtime.randomness, limits=settings.limits),
    )


def build_instructions(runtime: ProcessRuntime, org: OrgReader) -> InstructionServices:
    """Build the services of the instruction layer."""
    return InstructionServices(
        runtime.store,
        runtime.cache_sync,
        InstructionMeter(METRIC_RUNTIMES, (CLAUDE_CODE_TEMPLATE, CODEX_TEMPLATE, GENERIC_TEMPLATE)),
        org.is_active_in,
        clock=runtime.clock,
        limits=runtime.settings.limits,
        public_url=runtime.settings.url,
    )


class MessageServices(Struct, frozen=True, eq=False):
    """Services of messages, inboxes, obligations and files."""

    writer: MessageWriter
    reader: MessageReader
    replies: ReplyWriter
    inbox_claims: InboxClaims
    ledger: ObligationLedger
    instruction_builder: InstructionBuilder | None
    """None if instructions are switched off."""
    overdue_watchdog: OverdueWatchdog
    canary_monitor: CanaryMonitor
    delegation_messages: DelegationMessages
    approval_messages: ApprovalMessages
    file_writer: FileWriter
    canceller: MessageCanceller
    task_reader: TaskMessageReader
    subscriber: MessageSubscriber
    meter: MessageMeter


def build_messages(
    runtime: ProcessRuntime, org: OrgReader, instructions: InstructionServices, budgets: BudgetLeases
) -> MessageServices:
    """Build the services of messages."""
    settings, store, wakeups, clock, ids = runtime.settings, runtime.store, runtime.wakeups, runtime.clock, runtime.ids
    limits = settings.limits
    canary_monitor = CanaryMonitor(
        store, org, instructions.reader, instructions.canaries, instructions.meter, clock=clock, limits=limits
    )
    instruction_builder = create_instruction_builder(settings, instructions.renderer, org, store, instructions.meter)
    ledger = ObligationLedger(clock, limits, instruction_builder, shared=store.is_shared)
    ledger.on_first_outcome = canary_monitor.record_outcome
    writer = MessageWriter(store, org, clock=clock, ids=ids, limits=limits, ledger=ledger)
    reader = MessageReader(store, org, wakeups, limits=limits, public_url=settings.url)
    inbox_claims = InboxClaims(store, org, wakeups, reader, ledger, budgets, clock=clock, limits=limits)
    delegation_messages = DelegationMessages(ledger, clock=clock, ids=ids)
    blob_store = BlobStore(settings.files_folder, reserved_bytes=limits.disk_reserve_bytes)
    return MessageServices(
        writer=writer,
        reader=reader,
        replies=ReplyWriter(store, org, writer, inbox_claims.acks, ledger, clock=clock, ids=ids),
        inbox_claims=inbox_claims,
        ledger=ledger,
        instruction_builder=instruction_builder,
        overdue_watchdog=OverdueWatchdog(store, org, ledger, clock=clock, limits=limits),
        canary_monitor=canary_monitor,
        delegation_messages=delegation_messages,
        approval_messages=ApprovalMessages(ledger, delegation_messages, clock=clock),
        file_writer=FileWriter(store, blob_store, org, writer, clock=clock, ids=ids, limits=limits),
        canceller=MessageCanceller(store, org, inbox_claims.acks, ledger, delegation_messages, clock=clock),
        task_reader=TaskMessageReader(store, limits=limits),
        subscriber=MessageSubscriber(org, delegation_messages, limits),
        meter=MessageMeter(),
    )


class A2AAgentServices(Struct, frozen=True, eq=False):
    """Services of A2A agents of others."""

    writer: A2AAgentWriter
    reader: A2AAgentReader
    client: A2AClient
    notifications: TaskNotifications


def build_a2a_agents(
    runtime: ProcessRuntime, org: OrgReader, org_writer: OrgWriter, fetcher: Fetcher
) -> A2AAgentServices:
    """Build the services of A2A agents of others."""
    clock, limits = runtime.clock, runtime.settings.limits
    extensions = frozenset((DELEGATION_EXTENSION,))
    client = A2AClient(fetcher, clock=clock, limits=limits, known_extensions=extensions)
    reader = A2AAgentReader(runtime.store)
    writer = A2AAgentWriter(
        runtime.store, org, org_writer, client, clock=clock, randomness=runtime.randomness, limits=limits
    )
    public_url = runtime.settings.public_url.rstrip("/")
    return A2AAgentServices(
        writer, reader, client, TaskNotifications(runtime.store, reader, clock=clock, public_url=public_url)
    )


class DeliveryServices(Struct, frozen=True, eq=False):
    """Services of push delivery, dead letters and waits for replies."""

    push_dispatcher: PushDispatcher
    a2a_follower: A2ATaskFollower
    dead_letters: DeadLetterWriter
    reply_waiters: ReplyWaiters
    status_reader: DeliveryStatusReader


def build_delivery(
    runtime: ProcessRuntime,
    org: OrgReader,
    messages: MessageServices,
    fetcher: Fetcher,
    a2a_agents: A2AAgentServices,
    budgets: BudgetLeases,
) -> DeliveryServices:
    """Build the services of delivery."""
    store, wakeups, clock, ids = runtime.store, runtime.wakeups, runtime.clock, runtime.ids
    ledger, limits = messages.ledger, runtime.settings.limits
    reply_waiters = ReplyWaiters(store, org, wakeups, messages.delegation_messages, clock=clock, ids=ids, limits=limits)
    dead_letters = DeadLetterWriter(store, org, reply_waiters, clock=clock)
    push_results = PushResultRecorder(
        org, dead_letters, reply_waiters, ledger, clock=clock, ids=ids, randomness=runtime.randomness, limits=limits
    )
    push_claims = PushClaims(
        store,
        org,
        push_results,
        ledger,
        budgets,
        files=messages.file_writer,
        load_secrets=load_push_secrets,
        clock=clock,
        limits=limits,
    )
    a2a_follower = A2ATaskFollower(
        store,
        a2a_agents.client,
        a2a_agents.reader,
        push_claims,
        clock=clock,
        limits=limits,
        jitter=runtime.randomness.bits,
    )
    a2a_delivery = A2ADelivery(
        a2a_agents.client,
        a2a_agents.reader,
        a2a_follower,
        a2a_agents.notifications,
        messages.file_writer,
        clock=clock,
        limits=limits,
    )
    push_dispatcher = PushDispatcher(push_claims, org, wakeups, fetcher, a2a_delivery, clock=clock, limits=limits)
    status_reader = DeliveryStatusReader(
        store, org, wakeups, clock=clock, limits=limits, circuit_open_until=push_dispatcher.circuit_open_until
    )
    return DeliveryServices(push_dispatcher, a2a_follower, dead_letters, reply_waiters, status_reader)


class DelegationServices(Struct, frozen=True, eq=False):
    """Services of delegations."""

    writer: DelegationWriter
    reader: DelegationReader
    subscriber: DelegationSubscriber
    acceptance_worker: AcceptanceWorker
    scope_cache: ScopeCache
    meter: DelegationMeter


def build_delegations(runtime: ProcessRuntime, org: OrgReader, messages: MessageServices) -> DelegationServices:
    """Build the services of delegations."""
    settings, store, clock, limits = runtime.settings, runtime.store, runtime.clock, runtime.settings.limits
    meter = DelegationMeter(OUTCOMES)
    scopes = ScopeCache()
    closer = DelegationCloser(
        org, messages.delegation_messages, scopes, meter, history=settings.delegation_ledger_write
    )
    acceptance = AcceptanceTransitions(org, closer, RunnerChecks(limits), ids=runtime.ids)
    return DelegationServices(
        DelegationWriter(
            store,
            org,
            messages.writer,
            messages.reader,
            acceptance,
            clock=clock,
            ids=runtime.ids,
            limits=limits,
        ),
        DelegationReader(
            store,
            org,
            messages.reader,
            runtime.wakeups,
            ScopeReader(store, scopes, clock=clock),
            clock=clock,
            limits=limits,
        ),
        DelegationSubscriber(org, acceptance, limits),
        AcceptanceWorker(
            store,
            messages.file_writer,
            acceptance,
            ProcessSchemaValidator(limits.acceptance_seconds),
            clock=clock,
            limits=limits,
        ),
        scopes,
        meter,
    )


class ApprovalServices(Struct, frozen=True, eq=False):
    """Services of approvals."""

    writer: ApprovalWriter
    reader: ApprovalReader
    policy_cache: PolicyCache
    subscriber: ApprovalSubscriber
    retention: ApprovalRetention
    meter: ApprovalMeter


def build_approvals(
    store: Store,
    org: OrgReader,
    approval_messages: ApprovalMessages,
    wakeups: Notifier,
    budget_raises: BudgetRaises,
    *,
    clock: Clock,
    ids: IdGenerator,
    limits: Limits,
) -> ApprovalServices:
    """Build the services of approvals, which share a cache of policies."""
    policy_cache = PolicyCache()
    meter = ApprovalMeter(each.value for each in ApprovalStatus if each.is_ended)
    transitions = ApprovalTransitions(
        org, approval_messages, policy_cache, budget_raises, meter, clock=clock, limits=limits
    )
    return ApprovalServices(
        ApprovalWriter(store, transitions, policy_cache, clock=clock, ids=ids, limits=limits),
        ApprovalReader(store, org, wakeups, policy_cache, clock=clock, limits=limits),
        policy_cache,
        ApprovalSubscriber(transitions, ids, limits),
        ApprovalRetention(store, org),
        meter,
    )


class BudgetServices(Struct, frozen=True, eq=False):
    """Services of budgets, which share a cache."""

    cache: BudgetCache
    leases: BudgetLeases
    raises: BudgetRaises
    writer: BudgetWriter
    reader: BudgetReader
    subscriber: BudgetSubscriber


def build_budgets(runtime: ProcessRuntime, org: OrgReader) -> BudgetServices:
    """Build the services of budgets."""
    store, clock, limits = runtime.store, runtime.clock, runtime.settings.limits

    def list_lineage(workspace_id: str) -> list[str]:
        workspace = org.workspace(workspace_id)
        return [] if workspace is None else [workspace.id, *(each.id for each in ancestors(org, workspace))]

    cache = BudgetCache(limits)
    return BudgetServices(
        cache,
        BudgetLeases(cache, list_lineage, limits=limits),
        BudgetRaises(cache),
        BudgetWriter(store, cache, clock=clock, ids=runtime.ids, limits=limits),
        BudgetReader(store, cache, list_lineage, clock=clock),
        BudgetSubscriber(cache, list_lineage),
    )


class ThreadServices(Struct, frozen=True, eq=False):
    """Services of threads: writers for clients, engines and agents, and waits of agents."""

    writer: ThreadWriter
    engine_writer: EngineWriter
    agent_writer: AgentWriter
    waits: AgentWaits
    reader: ThreadReader
    subscriber: ThreadSubscriber
    retention: ThreadRetention
    meter: ThreadMeter


def build_threads(
    store: Store,
    org: OrgReader,
    wakeups: Notifier,
    budgets: BudgetLeases,
    usage: UsageWriter,
    *,
    clock: Clock,
    ids: IdGenerator,
    limits: Limits,
) -> ThreadServices:
    """Build the services of threads."""
    meter = ThreadMeter(metrics.initial_metrics())
    transitions = ThreadTransitions(ids, meter, budgets, usage)
    reader = ThreadReader(store, wakeups, clock=clock, limits=limits)
    calls = CollabCalls(store, org, meter, clock=clock, limits=limits)
    return ThreadServices(
        ThreadWriter(store, org, transitions, clock=clock, ids=ids, limits=limits),
        EngineWriter(store, transitions, budgets, clock=clock, limits=limits),
        AgentWriter(calls, org, transitions, ids=ids, limits=limits),
        AgentWaits(store, calls, reader, wakeups, clock=clock, limits=limits),
        reader,
        ThreadSubscriber(transitions, limits),
        ThreadRetention(store, org),
        meter,
    )


class LiveTurnServices(Struct, frozen=True, eq=False):
    """Services of live turns."""

    writer: LiveTurnWriter
    reader: LiveTurnReader


def build_live_turns(runtime: ProcessRuntime) -> LiveTurnServices:
    """Build the services of live turns: in memory, or in a table that the processes of a store share."""
    store, wakeups, clock = runtime.store, runtime.wakeups, runtime.clock
    turns = SharedTurns(store, clock) if store.is_shared else MemoryTurns(wakeups.notify, clock)
    return LiveTurnServices(
        LiveTurnWriter(turns, wakeups, clock=clock, limits=runtime.settings.limits), LiveTurnReader(turns)
    )


class MemoryServices(Struct, frozen=True, eq=False):
    """Services of memory: entries, and values under keys."""

    writer: MemoryWriter
    reader: MemoryReader
    key_writer: KeyWriter
    key_reader: KeyReader


def build_memory(runtime: ProcessRuntime, org: OrgReader) -> MemoryServices:
    """Build the services of memory."""
    store, clock, limits = runtime.store, runtime.clock, runtime.settings.limits
    reader = MemoryReader(store, org, limits=limits)
    return MemoryServices(
        MemoryWriter(store, org, reader, clock=clock, ids=runtime.ids, limits=limits),
        reader,
        KeyWriter(store, org, clock=clock, limits=limits),
        KeyReader(store, clock=clock),
    )


class SearchServices(Struct, frozen=True, eq=False):
    """Services of the search over all texts."""

    indexer: SearchIndexer
    reader: SearchReader


def build_search(runtime: ProcessRuntime, org: OrgReader) -> SearchServices:
    """Build the services of the search; its index follows the commits of this process."""
    store, limits = runtime.store, runtime.settings.limits
    writer = SearchIndexWriter(store, limits=limits)
    indexer = SearchIndexer(store, org, writer, clock=runtime.clock, limits=limits)
    runtime.commit_observers.append(indexer.on_commit)
    return SearchServices(indexer, SearchReader(store, org, limits=limits))


class PromptServices(Struct, frozen=True, eq=False):
    """Services of prompts."""

    writer: PromptWriter
    reader: PromptReader


def build_prompts(runtime: ProcessRuntime, org: OrgReader) -> PromptServices:
    """Build the services of prompts."""
    return PromptServices(
        PromptWriter(runtime.store, org, clock=runtime.clock, limits=runtime.settings.limits),
        PromptReader(runtime.store, org),
    )


class RunnerServices(Struct, frozen=True, eq=False):
    """Services of runners."""

    writer: RunnerWriter
    reader: RunnerReader


def build_runners(runtime: ProcessRuntime, org: OrgReader, access: AccessServices) -> RunnerServices:
    """Build the services of runners."""
    store, wakeups, clock, limits = runtime.store, runtime.wakeups, runtime.clock, runtime.settings.limits
    return RunnerServices(
        RunnerWriter(store, org, access.writer, wakeups, clock=clock, ids=runtime.ids, limits=limits),
        RunnerReader(store, org, wakeups, clock=clock, limits=limits),
    )


class WebhookServices(Struct, frozen=True, eq=False):
    """Services of webhooks."""

    writer: WebhookWriter
    reader: WebhookReader
    dispatcher: WebhookDispatcher


def build_webhooks(
    runtime: ProcessRuntime, org: OrgReader, access: AccessServices, readers: TaskReaders, fetcher: Fetcher
) -> WebhookServices:
    """Build the services of webhooks."""
    store, wakeups, clock, limits = runtime.store, runtime.wakeups, runtime.clock, runtime.settings.limits

    async def is_owner_active(owner: str, workspace: Workspace) -> bool:
        kind, _, owner_id = owner.partition(":")
        if kind == "workspace":
            own = org.workspace(owner_id)
            return own is not None and not own.removed and are_related(org, own, workspace)
        is_person = kind == "person"
        return not is_person or any(each.id == owner_id for each in await access.reader.persons(workspace.org_id))

    async def load_secrets(webhook: Webhook) -> tuple[str, ...]:
        kind, _, owner_id = webhook.owner.partition(":")
        if kind == "workspace":
            return await read_push_secrets(store, owner_id, clock.now())
        return (webhook.token,) if webhook.token else ()

    writer = WebhookWriter(store, fetcher, clock=clock, randomness=runtime.randomness, limits=limits)
    reader = WebhookReader(store, limits=limits)
    dispatcher = WebhookDispatcher(
        reader,
        writer,
        WebhookTasks(store, readers, org, wakeups, is_owner_active),
        wakeups,
        WebhookPoster(fetcher, load_secrets, clock=clock, limits=limits),
        holder=runtime.process_id,
        clock=clock,
        limits=limits,
    )
    return WebhookServices(writer, reader, dispatcher)
