"""Stored waits of senders for the answer of a push agent. See docs/explanation/delivery.md.

Called by the writer, which registers them, and by reply_waiters, which delivers to senders that do not wait."""

from collections.abc import Generator
from typing import Any

from msgspec.structs import replace

from molecule_core.common.clock import SECOND
from molecule_core.messages.inbox.acks import load_delivery_state
from molecule_core.messages.model import MessageDraft, MessageReceipt
from molecule_core.messages.obligations.model import load_inbound
from molecule_core.org.model import Workspace
from molecule_core.store.database import CommandSteps, ReadQuery, Statement, StepRequest, WriteSet
from molecule_core.wire.schemas.activity import Intent

# 10 s: a waiting sender gets this much longer to take the answer than it waits.
_MARGIN_SECONDS = 10


def register_wait(receipt: MessageReceipt, seconds: int, now: int) -> WriteSet[MessageReceipt]:
    """Register a workspace's wait for the answer to its request to a push agent; returns the updated receipt."""
    awaited = replace(receipt, expects_reply=True)
    if not seconds:
        return WriteSet(awaited)
    deadline = now + (seconds + _MARGIN_SECONDS) * SECOND
    hold_write = ("save_answer_wait", {"id": receipt.activity_id, "until": deadline})
    return WriteSet(replace(awaited, held_until=deadline), [hold_write])


def register_wait_again(
    draft: MessageDraft, target: Workspace, receipt: MessageReceipt, now: int
) -> CommandSteps[MessageReceipt]:
    """Register the wait of a repeated request, which may wait longer than the first.

    Nothing is registered if the message has its outcome already."""
    if draft.sender.workspace_id is None or not target.uses_push:
        return WriteSet(receipt)
    state = yield from load_delivery_state(receipt.activity_id)
    inbound = None if state is None else (yield from load_inbound(target.id, state.seq))
    if state is None or inbound is None or state.has_outcome:
        return WriteSet(receipt)
    is_request = inbound.intent == Intent.REQUEST
    registered = register_wait(receipt, draft.wait_seconds, now) if is_request else WriteSet(receipt)
    return registered if registered.writes else registered + WriteSet(None, [clear_wait(receipt.activity_id)])


def wait_deadline(message_id: str) -> Generator[StepRequest, Any, int]:
    """Return until when a sender waits for the answer to a message (microseconds); 0 if none does."""
    rows = yield ReadQuery("answer_wait", {"id": message_id})
    return int(rows[0][0]) if rows else 0


def clear_wait(message_id: str) -> Statement:
    """Return the statement that ends the wait for an answer."""
    return "forget_answer_wait", {"id": message_id}
