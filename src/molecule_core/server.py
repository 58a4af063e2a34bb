"""The only place where things are wired: store, journal, readers, writers, edges, workers."""

import asyncio
import logging
from functools import partial

from molecule_core.access.memory import Remembered
from molecule_core.access.pruning import AccessPruning
from molecule_core.access.reader import AccessReader
from molecule_core.access.writer import AccessWriter
from molecule_core.approvals.hands import Approvals
from molecule_core.approvals.model import APPROVAL
from molecule_core.delegations.hearing import Hearing
from molecule_core.delegations.model import DELEGATION
from molecule_core.delegations.pruning import DelegationPruning
from molecule_core.delegations.reader import DelegationReader
from molecule_core.delegations.rules import OUTCOMES
from molecule_core.delegations.steps import Ends
from molecule_core.delegations.writer import DelegationWriter
from molecule_core.edges.agent_docs import AgentDocsEdge
from molecule_core.edges.app import App
from molecule_core.edges.approvals import ApprovalEdge
from molecule_core.edges.auth import Guards
from molecule_core.edges.canvas import CanvasEdge
from molecule_core.edges.chains import ChainEdge
from molecule_core.edges.connect import ConnectEdge
from molecule_core.edges.conversing import ThreadEdges
from molecule_core.edges.crowd import Crowd
from molecule_core.edges.delegated import Delegated
from molecule_core.edges.delegations import DelegationEdge
from molecule_core.edges.delivery import DeliveryEdge
from molecule_core.edges.events import EventEdge
from molecule_core.edges.figures import FigureEdge
from molecule_core.edges.files import FileEdge
from molecule_core.edges.inbox import InboxEdge
from molecule_core.edges.instructions import InstructionEdge
from molecule_core.edges.leave import Leave
from molecule_core.edges.live import Live
from molecule_core.edges.mcp import McpEdge
from molecule_core.edges.mcp_host import Additions, Means, ServerHost
from molecule_core.edges.memory import MemoryEdge
from molecule_core.edges.messages import MessageEdge
from molecule_core.edges.operations import OperationsEdge, RetentionFigures, Sources, StoreFigures
from molecule_core.edges.orgs import OrgEdge
from molecule_core.edges.pacing import Pace
from molecule_core.edges.people import PeopleEdge
from molecule_core.edges.previews import Previews
from molecule_core.edges.projecting import Projection
from molecule_core.edges.prompts import PromptEdge
from molecule_core.edges.rates import Rates
from molecule_core.edges.registry import RegistryEdge
from molecule_core.edges.replies import ReplyEdge
from molecule_core.edges.reporting import ReportingEdge
from molecule_core.edges.routes import Route, Routes
from molecule_core.edges.sessions import SessionEdge
from molecule_core.edges.system import SystemEdge
from molecule_core.edges.tokens import TokenEdge
from molecule_core.edges.tree import TreeEdge
from molecule_core.edges.workspaces import WorkspaceEdge
from molecule_core.ground.addresses import NetPolicy
from molecule_core.ground.clock import Clock
from molecule_core.ground.ids import Randomness
from molecule_core.ground.logs import hide
from molecule_core.ground.metrics import DelegationMeter, InstructionMeter, MessageMeter, RouteMeter
from molecule_core.ground.net import Fetcher, SafeFetcher
from molecule_core.ground.settings import Settings, environment
from molecule_core.ground.tracing import Tracing, tracing_to
from molecule_core.ground.version import VERSION
from molecule_core.instructions.layer import InstructionLayer
from molecule_core.instructions.measuring import RUNTIMES
from molecule_core.instructions.rules import CLAUDE_CODE, CODEX, GENERIC
from molecule_core.memory.model import EXPIRY as MEMORY_EXPIRY
from molecule_core.memory.pruning import MemoryPruning
from molecule_core.memory.reader import KeyReader, MemoryReader
from molecule_core.memory.writer import KeyWriter, MemoryWriter
from molecule_core.messages import facts
from molecule_core.messages.askers import Askers
from molecule_core.messages.asking import Asking
from molecule_core.messages.delivery import Delivery
from molecule_core.messages.filing import FileWriter
from molecule_core.messages.handing import Handing
from molecule_core.messages.hearing import MessageHearing
from molecule_core.messages.letters import Letters
from molecule_core.messages.measuring import CANARY, Measuring
from molecule_core.messages.model import EXPIRY, UNMENTIONED
from molecule_core.messages.obligations import SILENCE
from molecule_core.messages.outcomes import Outcomes
from molecule_core.messages.owing import Owing
from molecule_core.messages.pruning import MessagePruning
from molecule_core.messages.pushing import Pushing
from molecule_core.messages.reader import ChainReader, MessageReader
from molecule_core.messages.replies import Replies
from molecule_core.messages.results import Results
from molecule_core.messages.silence import Silence
from molecule_core.messages.telling import telling_of
from molecule_core.messages.tracking import Tracking
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.model import SeatsGone, SeatsMoved
from molecule_core.org.pruning import HeartbeatPruning
from molecule_core.org.reader import OrgMirror, OrgReader, load_registry
from molecule_core.org.registry import Registry
from molecule_core.org.writer import PULSES, SWEEP, OrgWriter
from molecule_core.prompts.pruning import PromptPruning
from molecule_core.prompts.reader import PromptReader
from molecule_core.prompts.writer import PromptWriter
from molecule_core.standing import Standing
from molecule_core.store.disk import Disk
from molecule_core.store.mirrors import follow
from molecule_core.store.pruning import RETENTION, JournalPruning, Retention
from molecule_core.store.timers import Timers
from molecule_core.threads.hands import Threads
from molecule_core.views.feed import Feed
from molecule_core.views.snapshot import SnapshotReader
from molecule_core.views.timeline import TimeLine
from molecule_core.views.worktree import WorkTree

FIRST_ORG = "Default"
_ENDED = "the credential has ended"
_log = logging.getLogger("molecule.server")


class Server(Standing):
    """One Molecule server process. `open` before serving, `close` after. `first_org` names the organisation that a
    first start makes."""

    def __init__(
        self,
        settings: Settings,
        *,
        admin_token: str,
        first_org: str = FIRST_ORG,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
        fetcher: Fetcher | None = None,
        tracing: Tracing | None = None,
        mcp_additions: Additions | None = None,
    ) -> None:
        """`mcp_additions`: tools and methods that only a test's server has."""
        super().__init__(settings, clock=clock, randomness=randomness)
        self._mcp_additions = mcp_additions
        if settings.metrics_token:
            hide(settings.metrics_token)
        self._fetcher = fetcher or SafeFetcher(NetPolicy.of(settings.push_networks), settings.limits)
        self._first_org = first_org
        self.version = VERSION
        self._tracing = tracing or tracing_to(settings.otel_endpoint, environment(), self.version)
        self.registry, self.crowd = Registry(), Crowd(self._clock)
        self.instructed = InstructionMeter(RUNTIMES, (CLAUDE_CODE, CODEX, GENERIC))
        self._wire(admin_token)
        self._timers = Timers(self.store, self._clock, self.wakeups)
        messages = {EXPIRY: self._letters.expire, SILENCE: self._silence.on_due, UNMENTIONED: self._files.on_due}
        others = {SWEEP: self._org.sweep, MEMORY_EXPIRY: self._keys.on_due, RETENTION: self._retention.on_due}
        others |= {CANARY: self._measuring.on_due, **self.threads.waits.timers}
        others |= {DELEGATION: self.delegations.on_due, APPROVAL: self.approvals.writer.on_due}
        for kind, on_due in {**messages, **others}.items():
            self._timers.owner(kind, on_due)
        self._workers: list[asyncio.Task[None]] = []

    def _wire(self, admin_token: str) -> None:
        settings, store, registry, wakeups = self.settings, self.store, self.registry, self.wakeups
        clock, ids, limits = self._clock, self._ids, settings.limits
        memory = Remembered()
        access_reader = AccessReader(store, clock, admin_token, memory, settings.metrics_token)
        access_writer = AccessWriter(store, memory, clock=clock, ids=ids, randomness=self._randomness, limits=limits)
        self._org = org_writer = OrgWriter(
            store, registry, access_writer, wakeups.ring, clock=clock, ids=ids, limits=limits
        )
        org = OrgReader(registry)
        self._mirrors.keep(OrgMirror(registry), *OrgMirror.KINDS)
        self._mirrors.keep(access_reader, *AccessReader.KINDS)
        self._layer = layer = InstructionLayer(
            store, self._mirrors, self.instructed, org.lives_in, clock=clock, limits=limits, public_url=settings.url
        )
        self._measuring = Measuring(store, org, layer.reader, layer.trials, self.instructed, clock=clock, limits=limits)
        telling = telling_of(settings, layer.renderer, org, store, self.instructed)
        owing = Owing(clock, limits, telling, shared=store.shared)
        owing.came = self._measuring.came
        writer = MessageWriter(store, org, clock=clock, ids=ids, limits=limits, owing=owing)
        reader = MessageReader(store, org, wakeups, limits=limits, public_url=settings.url)
        handing = Handing(store, org, wakeups, reader, owing, clock=clock, limits=limits)
        replies = Replies(store, org, writer, handing, owing, clock=clock, ids=ids)
        results = Results(owing, clock=clock, ids=ids)
        self._delegations(org, writer, results, reader)
        self._approvals(org, Asking(owing, results, clock=clock))
        self.threads = Threads(store, org, wakeups, clock=clock, ids=ids, limits=limits)
        projection = Projection(telling, self.delegated)
        self._silence = Silence(store, org, owing, clock=clock, limits=limits)
        askers = self._driver(org, results, owing)
        tracking = Tracking(
            store, org, wakeups, clock=clock, limits=limits, circuit_open_until=self.delivery.circuit_open_until
        )
        disk = Disk(settings.files, reserve=limits.disk_reserve_bytes)
        self._files = FileWriter(store, disk, org, writer, clock=clock, ids=ids, limits=limits)
        self._keys = KeyWriter(store, org, clock=clock, limits=limits)
        rates = Rates(limits, clock)
        catch_up = store.catch_up if store.shared else None
        leave = Leave(self.approvals.writer, self.approvals.reader, self.delegations, self.delegated, reader, limits)
        guards = Guards(access_reader, org, self._hosts(), settings.cookie, leave, catch_up)
        self._retention = Retention(
            store,
            (
                JournalPruning(store, lambda: [each.id for each in org.orgs()]),
                MessagePruning(store, org, clock=clock, limits=limits),
                DelegationPruning(store, org, clock=clock, limits=limits),
                self.approvals.pruning,
                MemoryPruning(store, org),
                PromptPruning(store, org),
                self.threads.pruning,
                AccessPruning(store),
                HeartbeatPruning(store),
            ),
            clock=clock,
            limits=limits,
        )
        feed = Feed(store, wakeups, org, reader, self.delegated)
        nouns = (reader, self.delegated, self.approvals.reader)
        snapshots = SnapshotReader(store, feed, org, *nouns, clock=clock, limits=limits)
        self.live = Live(feed, org, clock=clock, limits=limits)
        access_reader.tell(lambda hashed, at: self.live.end((hashed,), _ENDED, at), self.live.renew)
        self._sessions = SessionEdge(
            access_writer, access_reader, org, guards, self.live, clock=clock, settings=settings, version=self.version
        )
        counted, refused, tracing = MessageMeter(), RouteMeter(), self._tracing
        delegating = self.delegations, self.delegated
        awaited, followed = (*delegating, guards.check_still), (tracking, askers, guards.check_still)
        sends = Delegated(awaited, self.approvals.reader, limits=limits)
        schema = partial(store.rows, "meta_value", {"name": "schema"})
        views = WorkTree(self.delegated, clock=clock), TimeLine(reader, self.delegated)
        edges = (
            CanvasEdge(),
            SystemEdge(
                schema, self._how_others_are_heard, version=self.version, process=self.process, table=self._table
            ),
            OrgEdge(org_writer, org),
            PeopleEdge(access_writer, access_reader, self.live, public_url=settings.url),
            WorkspaceEdge(org_writer, org, self._fetcher, public_url=settings.url),
            TreeEdge(org_writer, org, public_url=settings.url),
            TokenEdge(access_writer, access_reader, self.live, public_url=settings.url),
            ConnectEdge(public_url=settings.url),
            AgentDocsEdge(public_url=settings.url),
            RegistryEdge(org_writer, org, guards, self._fetcher, telling, clock=clock, limits=limits),
            MessageEdge(writer, replies, followed, rates, counted, sends, limits=limits, tracing=tracing),
            ReplyEdge(replies, writer, tracking, counted, limits=limits),
            InboxEdge(writer, handing, reader, projection, counted, clock=clock, limits=limits, tracing=tracing),
            DelegationEdge(awaited, self.approvals.reader, views, org, store.catch_up, counted, limits=limits),
            ReportingEdge(*delegating, self.pace, org, store.catch_up, limits=limits),
            ApprovalEdge(self.approvals.writer, self.approvals.reader, self.threads.reader, org, guards, limits=limits),
            DeliveryEdge(tracking, self._letters, self.delegated),
            ChainEdge(writer, ChainReader(store), org, limits=limits),
            FileEdge(self._files, limits=limits),
            self._memory(org),
            *self._prompts(org, guards),
            InstructionEdge(layer, org, org_writer, Previews(layer, org, reader, store.catch_up)),
            EventEdge(self.live, feed, snapshots, org, guards, projection),
            self._sessions,
            self._mcp_edge(guards, org),
            FigureEdge(self._measuring, layer.trials),
            self._operations(org, reader, counted, refused),
        )
        self.routes = Routes(route for edge in edges for route in edge.routes())
        self.app = App(
            self.routes, guards, rates, refused, ids=ids, clock=clock, limits=limits, access_log=settings.access_log
        )

    def _mcp_edge(self, guards: Guards, org: OrgReader) -> McpEdge:
        means = Means(self._clock, self._ids, self._randomness, self.settings, self.version, self._mcp_additions)
        # The app is made after its routes.
        host = ServerHost(lambda call, wish: self.app.ask(call, wish), org, lambda: self.wakeups.closing, means)  # noqa: PLW0108
        self.mcp = McpEdge(host, guards, org, self.live, means)
        return self.mcp

    def _delegations(self, org: OrgReader, messages: MessageWriter, results: Results, reader: MessageReader) -> None:
        """Work that workspaces give each other, and whose facts it follows; and who tells of plain messages to seats
        that are removed."""
        store, clock, ids, limits = self.store, self._clock, self._ids, self.settings.limits
        self.ended = DelegationMeter(OUTCOMES)
        ends = Ends(org, results, self.ended, history=self.settings.delegation_ledger_write)
        self.delegations = DelegationWriter(store, org, messages, reader, ends, clock=clock, ids=ids, limits=limits)
        self.pace = Pace(self.delegations.progress, clock=clock)
        self.delegated = DelegationReader(store, org, reader, self.wakeups, clock=clock, limits=limits)
        hearing, follow = Hearing(org, ends, limits), store.followers.follow
        follow(facts.Handed, "delegations.handed", hearing.handed)
        follow(facts.Returned, "delegations.returned", hearing.returned)
        follow(facts.Delayed, "delegations.delayed", hearing.delayed)
        follow(facts.Unsure, "delegations.unsure", hearing.unsure)
        follow(facts.Accepted, "delegations.accepted", hearing.accepted)
        follow(facts.Answered, "delegations.answered", hearing.answered)  # control: answer-closes-delegation
        follow(facts.Progressed, "delegations.progressed", hearing.progressed)
        follow(facts.GivenUp, "delegations.given_up", hearing.given_up)
        follow(SeatsGone, "delegations.seats_gone", hearing.seats_gone)
        follow(SeatsGone, "messages.seats_gone", MessageHearing(org, results, limits).seats_gone)

    def _approvals(self, org: OrgReader, asking: Asking) -> None:
        """Leave that workspaces ask for, and whose facts it follows."""
        clock, ids, limits, follow = self._clock, self._ids, self.settings.limits, self.store.followers.follow
        made = self.approvals = Approvals(self.store, org, asking, self.wakeups, clock=clock, ids=ids, limits=limits)
        self._mirrors.keep(made.book, *made.book.KINDS)
        follow(facts.Explained, "approvals.explained", made.hearing.explained, far=True)
        follow(SeatsGone, "approvals.seats_gone", made.hearing.seats_gone)
        follow(SeatsMoved, "approvals.seats_moved", made.hearing.seats_moved)

    def _driver(self, org: OrgReader, results: Results, owing: Owing) -> Askers:
        """Whoever gives messages up and whoever pushes; returns who tells those that asked."""
        clock, ids, bits, limits = self._clock, self._ids, self._randomness, self.settings.limits
        askers = Askers(self.store, org, self.wakeups, results, clock=clock, ids=ids, limits=limits)
        self._letters = Letters(self.store, org, askers, clock=clock)
        outcomes = Outcomes(org, self._letters, askers, owing, clock=clock, ids=ids, randomness=bits, limits=limits)
        pushing = Pushing(self.store, org, outcomes, owing, clock=clock, limits=limits)
        self.delivery = Delivery(pushing, org, self.wakeups, self._fetcher, clock=clock, limits=limits)
        return askers

    def _memory(self, org: OrgReader) -> MemoryEdge:
        """What agents wish to remember."""
        store, clock, limits = self.store, self._clock, self.settings.limits
        reader = MemoryReader(store, org, limits=limits)
        writer = MemoryWriter(store, org, reader, clock=clock, ids=self._ids, limits=limits)
        return MemoryEdge(writer, reader, self._keys, KeyReader(store, clock=clock), org, limits=limits)

    def _prompts(self, org: OrgReader, guards: Guards) -> tuple[PromptEdge, ThreadEdges]:
        """What agents' prompts are made of, and the threads that begin with them."""
        limits, made, reader = self.settings.limits, self.threads, PromptReader(self.store, org)
        writer = PromptWriter(self.store, org, clock=self._clock, limits=limits)
        hands = made.writer, made.engines, made.agents, made.waits
        line = self.live, guards, lambda call, wish: self.app.ask(call, wish)  # noqa: PLW0108
        threads = ThreadEdges(hands, line, made.reader, reader, org, limits=limits)
        self.store.followers.follow(SeatsGone, "threads.seats_gone", made.hearing.seats_gone)
        return PromptEdge(writer, reader, limits=limits), threads

    def _operations(
        self, org: OrgReader, messages: MessageReader, counted: MessageMeter, refused: RouteMeter
    ) -> OperationsEdge:
        store, retention = self.store, self._retention
        figures = RetentionFigures(
            retention.gone,
            lambda: retention.rounds,
            retention.would_go,
            lambda: retention.before,
            partial(retention.begin, 0),
        )
        sources = Sources(
            org=org,
            messages=messages,
            live=self.live,
            counted=counted,
            instructions=self.instructed,
            delegations=self.delegated,
            ended=self.ended,
            approvals=self.approvals.reader,
            ruled=self.approvals.counted,
            threads=self.threads.samples,
            store=StoreFigures(store.dialect, store.meter, lambda: store.waiting),
            retention=figures,
            mcp=self.mcp.figures,
            waits=lambda: self.wakeups.asleep,
            table=self._table,
            refused=refused,
        )
        return OperationsEdge(sources, clock=self._clock, version=self.version)

    def _table(self) -> list[Route]:
        return self.routes.rows

    async def open(self) -> None:
        """Opens the store, loads the registry, starts the workers. A first start makes an organisation."""
        await self.store.open()
        _log.info("process %s opens the store", self.process)
        if self.store.shared:
            await self._open_to_others()
        await load_registry(self.store, self.registry)
        await self._layer.load()
        await self.approvals.book.open(self.store)
        await self._files.open(alone=not self.settings.database)
        if not self.registry.orgs():
            await self._org.first_org(self._first_org)
        # In one commit: a start should be quick.
        await asyncio.gather(self._org.sweep(""), self._retention.begin(), self._layer.writer.seed())
        work = [self._timers.work(), self.delivery.work(alone=not self.store.shared)]
        if self.store.shared:
            work += [follow(self.store, self.wakeups), self._keep_saving(PULSES, self._org.save_pulses)]
        self._workers = [asyncio.create_task(each) for each in work]

    async def login_link(self) -> str:
        """A link that lets the first owner of the first organisation in, once."""
        return (await self._sessions.owner_link(self.registry.orgs()[0].id)).url

    async def close(self) -> None:
        """Lets waits end, finishes what was accepted, closes the store."""
        self.wakeups.close()
        self._closing.set()
        await self.live.close()
        await self.mcp.close()
        await self.pace.close()
        if self._workers:
            await asyncio.gather(*self._workers)
            if self.outdated is None:
                await self._org.save_pulses()
        self._files.close()
        await self.store.close()
        if self.bus is not None:
            await self.bus.close()
