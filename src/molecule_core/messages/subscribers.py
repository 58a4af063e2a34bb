"""Handles domain events of workspaces and people, in the transaction that emits them.

Registered by server/composition.py; docs/order.md lists the order."""

from molecule_core.access.model import PersonJoined
from molecule_core.common.clock import SECOND
from molecule_core.common.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.delegation_messages import DelegationMessages
from molecule_core.messages.model import UnansweredMessage
from molecule_core.messages.obligations.model import OVERDUE_TIMER
from molecule_core.org.model import LimitBegan, LimitEnded, WorkspacesRemoved
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import CommandSteps, CurrentNumber, ReadQuery, RequestBatch, Statement, WriteSet
from molecule_core.store.timers import TIMERS_KEY, set_timer_if_earlier

# 60 s after a limit: its agent, which still holds the messages, goes on with them before they are delivered again.
_HOLD_SECONDS = 60


class MessageSubscriber:
    """Subscriber of events about workspaces and people."""

    def __init__(self, org: OrgReader, delegation_messages: DelegationMessages, limits: Limits) -> None:
        self._org = org
        self._delegation_messages = delegation_messages
        self._limits = limits

    def on_workspaces_removed(self, org_id: str, removal: WorkspacesRemoved) -> CommandSteps[None]:
        """Notify senders with unanswered messages to removed workspaces, in one message each.

        People see the removal; delegations and approvals notify their callers themselves."""
        most = self._limits.removal_named
        reads = [ReadQuery("unanswered_requests", {"workspace_id": each, "most": most}) for each in removal.ids]
        found = zip(removal.ids, (yield RequestBatch(reads)), strict=True)
        by_sender = rules.unanswered_by_sender(
            (UnansweredMessage(each, *row) for each, rows in found for row in rows), frozenset(removal.ids)
        )
        # Read the numbers of all inboxes in one batch: there may be hundreds of remaining siblings.
        yield RequestBatch([CurrentNumber(name, each) for each in by_sender for name in ("last_inbound", "last_seq")])
        notices = WriteSet(None, [("forget_questions", {"workspace_id": each}) for each in removal.ids])
        for source_id, unanswered in by_sender.items():
            source = self._org.workspace(source_id)
            if source is None or source.removed:
                continue
            names = {each.target_id: self._org.active_workspace(each.target_id).name for each in unanswered}
            notice = rules.removed_notice(unanswered, names, self._limits)
            notices += yield from self._delegation_messages.insert_system_notice(
                source, notice.target_id, notice.text, notice.details
            )
        return notices

    def on_person_joined(self, org_id: str, event: PersonJoined) -> CommandSteps[None]:
        """Mark all chats as read for a new person: what was written before they came is the past, not news."""
        yield from ()
        return WriteSet(None, [("mark_past_read", {"org_id": org_id, "person_id": event.person_id})])

    def on_limit_began(self, org_id: str, event: LimitBegan) -> CommandSteps[None]:
        """Extend the leases and due times of the messages that the agent holds: it waits with them."""
        yield from ()
        workspace, writes = self._org.active_workspace(event.workspace_id), list[Statement]()
        key = {"workspace_id": workspace.id}
        held_before = None if event.previous_until is None else _held_until(event.previous_until)
        if not workspace.uses_push:  # a running push records its own outcome
            until = {"until": _held_until(event.until), "before": held_before}
            writes.append(("hold_leases", {**key, "now": event.at, **until}))
        elif event.previous_until is not None:
            writes.append(("resume_pushes", {**key, "now": event.until, "until": event.previous_until}))
        writes.append(("shift_due_times", {**key, "microseconds": event.until - (event.previous_until or event.at)}))
        return WriteSet(None, writes)

    def on_limit_ended(self, org_id: str, event: LimitEnded) -> CommandSteps[None]:
        """Resume deliveries now, also before the time that the limit had."""
        yield from ()
        key, left = {"workspace_id": event.workspace_id}, max(0, event.until - event.at)
        writes: list[Statement] = [
            ("shorten_held_leases", {**key, "until": _held_until(event.at), "held_until": _held_until(event.until)}),
            ("resume_pushes", {**key, "now": event.at, "until": event.until}),
        ]
        if self._org.active_workspace(event.workspace_id).uses_push:
            writes.append(("schedule_push_check", {**key, "due": event.at}))
        if left:
            writes.append(("shift_due_times", {**key, "microseconds": -left}))
            writes.append(set_timer_if_earlier(OVERDUE_TIMER, event.workspace_id, event.at))
        return WriteSet(None, writes, notify=(TIMERS_KEY,) if left else ())


def _held_until(limited_until: int) -> int:
    """Return until when messages stay with an agent that is limited until a time."""
    return limited_until + _HOLD_SECONDS * SECOND
