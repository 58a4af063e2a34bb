"""Builds the services of threads.

Called by server/composition.py.
"""

from molecule_core.common.clock import Clock
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import MetricSample, ThreadMeter
from molecule_core.org.reader import OrgReader
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


class ThreadServices:
    """Writers for clients, engines and agents; reader, waits, subscriber, meter and retention of threads."""

    def __init__(
        self, store: Store, org: OrgReader, wakeups: Notifier, *, clock: Clock, ids: IdGenerator, limits: Limits
    ) -> None:
        self.meter = ThreadMeter(metrics.initial_metrics())
        transitions = ThreadTransitions(ids, self.meter)
        self.writer = ThreadWriter(store, org, transitions, clock=clock, ids=ids, limits=limits)
        self.engine_writer = EngineWriter(store, transitions, clock=clock, limits=limits)
        self.reader = ThreadReader(store, wakeups, clock=clock, limits=limits)
        calls = CollabCalls(store, org, self.meter, clock=clock, limits=limits)
        self.agent_writer = AgentWriter(calls, org, transitions, ids=ids, limits=limits)
        self.waits = AgentWaits(store, calls, self.reader, wakeups, clock=clock, limits=limits)
        self.subscriber = ThreadSubscriber(transitions, limits)
        self.retention = ThreadRetention(store, org)

    async def samples(self) -> list[MetricSample]:
        """Return the metric samples of threads."""
        states = await self.reader.count_by_state()
        return [MetricSample("molecule_threads", count, (state,)) for state, count in states.items()] + [
            *self.meter.samples()
        ]
