"""All hands of threads, made together.

Above: server.py. Below: the files of this slice.
"""

from molecule_core.ground.clock import Clock
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.store.wakeups import Wakeups
from molecule_core.threads.acts import Acts
from molecule_core.threads.calling import Calls
from molecule_core.threads.hearing import ThreadHearing
from molecule_core.threads.pruning import ThreadPruning
from molecule_core.threads.reader import ThreadReader
from molecule_core.threads.spawning import AgentWriter
from molecule_core.threads.turning import EngineWriter
from molecule_core.threads.waiting import Waits
from molecule_core.threads.writer import ThreadWriter


class Threads:
    """Who writes for clients, for engines and for agents, the reader, who waits, who hears of seats, and what retention
    takes."""

    def __init__(
        self, store: Store, org: OrgReader, wakeups: Wakeups, *, clock: Clock, ids: Ids, limits: Limits
    ) -> None:
        acts = Acts(ids)
        self.writer = ThreadWriter(store, org, acts, clock=clock, ids=ids, limits=limits)
        self.engines = EngineWriter(store, acts, clock=clock, limits=limits)
        self.reader = ThreadReader(store, wakeups, clock=clock, limits=limits)
        calls = Calls(store, org, clock=clock, limits=limits)
        self.agents = AgentWriter(calls, org, acts, ids=ids, limits=limits)
        self.waits = Waits(store, calls, self.reader, wakeups, clock=clock, limits=limits)
        self.hearing = ThreadHearing(acts, limits)
        self.pruning = ThreadPruning(store, org)
