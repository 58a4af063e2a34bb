"""Who has asked a push agent something and waits for its answer: since when that stands in the store, and until when.

Above: `writer`, which lets messages in, and `askers`, which tells those that do not wait. Below: settling, store.
docs/delivery.md.
"""

from collections.abc import Generator
from typing import Any

from msgspec.structs import replace

from molecule_core.common.clock import SECOND
from molecule_core.messages.delivery_log import Statement
from molecule_core.messages.inbox.acks import load_delivery_state
from molecule_core.messages.model import INTENT_REQUEST, MessageDraft, MessageReceipt
from molecule_core.messages.obligations.model import load_inbound
from molecule_core.org.model import PUSH, Workspace
from molecule_core.store.database import CommandSteps, ReadQuery, StepRequest, WriteSet

# Who waits has this much longer to take the answer than they wait.
_MARGIN_SECONDS = 10


def register_wait(
    draft: MessageDraft, target: Workspace, receipt: MessageReceipt, now: int
) -> tuple[MessageReceipt, list[Statement]]:
    """The receipt of a message as it was let in, and that its sender waits for the answer: if it is a workspace that
    asks a push agent."""
    if draft.sender.workspace_id is None or draft.intent != INTENT_REQUEST or target.delivery_mode != PUSH:
        return receipt, []
    awaited = replace(receipt, expects_reply=True)
    if not draft.wait_seconds:
        return awaited, []
    deadline = now + (draft.wait_seconds + _MARGIN_SECONDS) * SECOND
    return replace(awaited, held_until=deadline), [("hold_answer", {"id": receipt.activity_id, "until": deadline})]


def register_wait_again(
    draft: MessageDraft, target: Workspace, receipt: MessageReceipt, now: int
) -> CommandSteps[MessageReceipt]:
    """The same of a message that was sent before, perhaps by a request that waited longer. What has come out needs not
    be waited for."""
    if draft.sender.workspace_id is None or target.delivery_mode != PUSH:
        return WriteSet(receipt)
    state = yield from load_delivery_state(receipt.activity_id)
    inbound = None if state is None else (yield from load_inbound(target.id, state.seq))
    if state is None or inbound is None or state.has_outcome:
        return WriteSet(receipt)
    updated, writes = register_wait(replace(draft, intent=inbound.intent or ""), target, receipt, now)
    return WriteSet(updated, writes or [clear_wait(receipt.activity_id)])


def wait_deadline(message_id: str) -> Generator[StepRequest, Any, int]:
    """Until when somebody waits for the answer to a message (microseconds); 0: nobody does."""
    rows = yield ReadQuery("answer_wait", {"id": message_id})
    return int(rows[0][0]) if rows else 0


def clear_wait(message_id: str) -> Statement:
    """Nobody waits for the answer to a message any more."""
    return "forget_answer_wait", {"id": message_id}
