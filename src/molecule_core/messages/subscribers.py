"""Handles domain events of workspaces, in the transaction that emits them.

Registered by server/composition.py; docs/order.md lists the order."""

from collections.abc import Generator
from typing import Any

from molecule_core.common.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.delegation_messages import DelegationMessages
from molecule_core.messages.model import UnansweredMessage
from molecule_core.messages.obligations.model import MessageChanges
from molecule_core.org.model import WorkspacesRemoved
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Changes, CurrentNumber, ReadQuery, RequestBatch, StepRequest


class MessageSubscriber:
    """Subscriber of workspace events."""

    def __init__(self, org: OrgReader, delegation_messages: DelegationMessages, limits: Limits) -> None:
        self._org = org
        self._delegation_messages = delegation_messages
        self._limits = limits

    def on_workspaces_removed(self, org_id: str, removal: WorkspacesRemoved) -> Generator[StepRequest, Any, Changes]:
        """Notify senders with unanswered messages to removed workspaces, in one message each.

        People see the removal; delegations and approvals notify their callers themselves."""
        most = self._limits.removal_named
        reads = [ReadQuery("asked_in_vain", {"workspace_id": each, "most": most}) for each in removal.ids]
        found = zip(removal.ids, (yield RequestBatch(reads)), strict=True)
        by_sender = rules.unanswered_by_sender(
            (UnansweredMessage(each, *row) for each, rows in found for row in rows), frozenset(removal.ids)
        )
        # Read the numbers of all inboxes in one batch: there may be hundreds of remaining siblings.
        yield RequestBatch([CurrentNumber(name, each) for each in by_sender for name in ("last_inbound", "last_seq")])
        all_changes = list[MessageChanges]()
        for source_id, unanswered in by_sender.items():
            source = self._org.workspace(source_id)
            if source is None or source.removed:
                continue
            names = {each.target_id: self._org.active_workspace(each.target_id).name for each in unanswered}
            notice = rules.removed_notice(unanswered, names, self._limits)
            all_changes.append(
                (
                    yield from self._delegation_messages.insert_system_notice(
                        source, notice.target_id, notice.text, notice.details
                    )
                ).changes
            )
        writes = [write for each in all_changes for write in each.writes]
        events = [event for each in all_changes for event in each.events]
        return Changes(writes, events, tuple(key for each in all_changes for key in each.notify))
