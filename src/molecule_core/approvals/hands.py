"""All hands of approvals, made together: they share what is set, and count what becomes of approvals.

Above: server.py, which alone says who follows which fact. Below: the files of this slice.
"""

from molecule_core.approvals.hearing import Hearing
from molecule_core.approvals.model import Status
from molecule_core.approvals.policies import PolicyBook
from molecule_core.approvals.pruning import ApprovalPruning
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.approvals.steps import Steps
from molecule_core.approvals.writer import ApprovalWriter
from molecule_core.ground.clock import Clock
from molecule_core.ground.ids import Ids
from molecule_core.ground.limits import Limits
from molecule_core.ground.metrics import ApprovalMeter
from molecule_core.messages.asking import Asking
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.store.wakeups import Wakeups


class Approvals:
    """The writer and the reader, what is set, what is counted, who hears facts, what retention takes."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        asking: Asking,
        wakeups: Wakeups,
        *,
        clock: Clock,
        ids: Ids,
        limits: Limits,
    ) -> None:
        self.book = PolicyBook()
        self.counted = ApprovalMeter(each.value for each in Status if each.ended)
        steps = Steps(org, asking, self.book, self.counted, clock=clock, limits=limits)
        self.writer = ApprovalWriter(store, steps, self.book, clock=clock, ids=ids, limits=limits)
        self.reader = ApprovalReader(store, org, wakeups, self.book, clock=clock, limits=limits)
        self.hearing = Hearing(steps, limits)
        self.pruning = ApprovalPruning(store, org)
