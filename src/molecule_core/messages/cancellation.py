"""Cancels messages for their senders: the obligation ends, and the agent is notified if it has the message.

Delegations are cancelled by their own writer. Called by the API."""

from collections.abc import Generator
from typing import Any

from molecule_core.common.clock import Clock
from molecule_core.common.text import truncate_line
from molecule_core.messages.delegation_messages import DelegationMessages
from molecule_core.messages.inbox.acks import InboxAcks, inbox_keys
from molecule_core.messages.model import SENDER_CANCELLED
from molecule_core.messages.obligations.ledger import ObligationLedger
from molecule_core.messages.obligations.model import (
    InboundMessage,
    Obligation,
    load_inbound,
    load_obligation,
    obligation_key,
)
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, CommandSteps, StepRequest, Store, WriteSet

_SUMMARY_LENGTH = 100


class MessageCanceller:
    """Canceller of messages that wait for an answer."""

    def __init__(
        self,
        store: Store,
        org: OrgReader,
        acks: InboxAcks,
        ledger: ObligationLedger,
        messages: DelegationMessages,
        *,
        clock: Clock,
    ) -> None:
        self._store = store
        self._org = org
        self._acks = acks
        self._ledger = ledger
        self._messages = messages
        self._clock = clock

    async def cancel(self, workspace_id: str, seq: int) -> bool:
        """Cancel the message at a position of an inbox. Returns whether it was still unanswered.

        A later answer is stored as a message that answers nothing. Raises NotFound, WorkspaceRemoved."""
        workspace = self._org.active_workspace(workspace_id)
        rows = await self._store.rows("inbox_message", {"workspace_id": workspace_id, "seq": seq})
        if not rows:
            return False
        inbound = InboundMessage(*rows[0])

        def decide() -> CommandSteps[bool]:
            known = yield from self._load(workspace_id, seq)
            opening = yield from self._ledger.obligation_for(workspace, inbound, is_closing=True)
            obligation = opening.result
            if obligation is None or not obligation.is_open:
                return WriteSet(False)
            closed = self._ledger.close_declined(obligation, self._clock.now(), SENDER_CANCELLED)
            acked = yield from self._acks.ack_answered(workspace_id, seq, inbound.inbound_no)
            written = opening.returning(True) + closed + acked
            return written if known is None else written + (yield from self._notify(known))

        keys = (*inbox_keys(workspace_id), obligation_key(workspace_id, inbound.source_id))
        return await self._store.run(Command(inbound.org_id, keys, decide))

    def _load(self, workspace_id: str, seq: int) -> Generator[StepRequest, Any, Obligation | None]:
        """Return the obligation of a message that was delivered; None if the agent does not know the message."""
        inbound = yield from load_inbound(workspace_id, seq)
        return None if inbound is None else (yield from load_obligation(workspace_id, seq))

    def _notify(self, obligation: Obligation) -> CommandSteps[object]:
        """Notify the agent that its answer is no longer needed."""
        workspace = self._org.active_workspace(obligation.workspace_id)
        summary = truncate_line(obligation.summary or "", _SUMMARY_LENGTH)
        text = f"A message was cancelled by its sender. Its answer is no longer needed. Message: {summary}"
        details = {"cancelled": obligation.activity_id}
        return (
            yield from self._messages.insert_system_notice(
                workspace, obligation.source_id or workspace.id, text, details
            )
        )
