"""Builds the services of approvals, which share a policy cache and a meter.

Called by server/composition.py, which registers their subscribers.
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
    """Writer, reader, policy cache, meter, subscriber and retention of approvals."""

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
