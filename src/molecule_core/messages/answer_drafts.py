"""Builds outgoing answers, their receipts and the error for stale handles. Contains no decisions; used by replies."""

from collections.abc import Generator
from typing import Any

from molecule_core.common.errors import MoleculeError, StaleHandle
from molecule_core.messages import rules
from molecule_core.messages.model import MessageDraft, MessageReceipt, Sender, UserNotice
from molecule_core.messages.obligations.model import InboundMessage, Obligation, find_open_obligation
from molecule_core.store.database import ReadQuery, StepRequest
from molecule_core.wire.schemas.activity import Intent

OutgoingAnswer = UserNotice | MessageDraft
"""An answer to the user or to a peer."""


def build_answer(
    inbound: InboundMessage, parts: list[dict[str, Any]], metadata: dict[str, Any], key: str | None
) -> OutgoingAnswer:
    """Build an answer to the sender of a message."""
    return (
        UserNotice(parts, key, metadata)
        if inbound.source_id is None
        else build_reply_draft(inbound, parts, metadata, key)
    )


def build_reply_draft(
    inbound: InboundMessage, parts: list[dict[str, Any]], metadata: dict[str, Any], key: str | None = None
) -> MessageDraft:
    """Build an answer to a workspace. Its intent is the one in `metadata`, else inform."""
    intent = str(metadata.get("intent", Intent.INFORM))
    return MessageDraft(
        sender=Sender.of_workspace(inbound.workspace_id),
        params={"metadata": {}},
        message={"kind": "message", "role": "agent", "parts": parts, "metadata": {**metadata, "intent": intent}},
        rpc_id=None,
        text=rules.text_of(parts),
        intent=intent,
        dedupe_key=key,
        context_id=inbound.context_id,
    )


def build_answer_from_draft(inbound: InboundMessage, text: str) -> OutgoingAnswer:
    metadata = {"in_reply_to": inbound.id, "draft": True}
    return build_answer(inbound, [{"kind": "text", "text": text}], metadata, f"draft:{inbound.id}")


def find_previous_answer(
    inbound: InboundMessage, outgoing: OutgoingAnswer
) -> Generator[StepRequest, Any, MessageReceipt | None]:
    """Return the receipt of the first answer under the same key, whatever its content."""
    sender = f"workspace:{inbound.workspace_id}"
    duplicates = yield ReadQuery("message_by_dedupe_key", {"sender": sender, "dedupe_key": outgoing.dedupe_key})
    return MessageReceipt(*duplicates[0][:3]) if duplicates else None


def answer_receipt(obligation: Obligation) -> MessageReceipt | None:
    if obligation.answer_id is None:
        return None
    return MessageReceipt(
        obligation.answer_id, obligation.context_id or obligation.answer_id, obligation.closed_at or 0
    )


def stale_handle_error(inbound: InboundMessage, obligation: Obligation) -> Generator[StepRequest, Any, MoleculeError]:
    """Build the error for the handle of a closed message, which names the open one."""
    open_obligation = yield from find_open_obligation(inbound.workspace_id, inbound.source_id)
    if open_obligation is None:
        advice = (
            "No other message of this conversation waits for an answer. To say more, send a message without a handle."
        )
        return StaleHandle(state=obligation.state, advice=advice, handle=None)
    return StaleHandle(
        state=obligation.state,
        advice=f"Answer the open message instead: {open_obligation.handle}.",
        handle=open_obligation.handle,
    )
