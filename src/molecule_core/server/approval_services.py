"""All hands of approvals, made together: they share what is set, and count what becomes of approvals.

Above: server/composition.py, which alone says who follows which fact. Below: the files of this slice.
"""

from molecule_core.approvals.model import ApprovalStatus
from molecule_core.approvals.policies import PolicyCache
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.approvals.retention import ApprovalRetention
from molecule_core.approvals.subscribers import ApprovalSubscriber
from molecule_core.approvals.transitions import ApprovalTransitions
from molecule_core.approvals.writer import ApprovalWriter
from molecule_core.common.clock import Clock
from molecule_core.common.ids import IdGenerator
from molecule_core.common.limits import Limits
from molecule_core.common.metrics import ApprovalMeter
from molecule_core.messages.approval_messages import ApprovalMessages
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Store
from molecule_core.store.wakeups import Notifier


class ApprovalServices:
    """The writer and the reader, what is set, what is counted, who hears facts, what retention takes."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        approval_messages: ApprovalMessages,
        wakeups: Notifier,
        *,
        clock: Clock,
        ids: IdGenerator,
        limits: Limits,
    ) -> None:
        self.policy_cache = PolicyCache()
        self.meter = ApprovalMeter(each.value for each in ApprovalStatus if each.is_ended)
        transitions = ApprovalTransitions(
            org, approval_messages, self.policy_cache, self.meter, clock=clock, limits=limits
        )
        self.writer = ApprovalWriter(store, transitions, self.policy_cache, clock=clock, ids=ids, limits=limits)
        self.reader = ApprovalReader(store, org, wakeups, self.policy_cache, clock=clock, limits=limits)
        self.subscriber = ApprovalSubscriber(transitions, limits)
        self.retention = ApprovalRetention(store, org)
