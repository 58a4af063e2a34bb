"""Who has asked a push agent something and waits for its answer: since when that stands in the store, and until when.

Above: `writer`, which lets messages in, and `askers`, which tells those that do not wait. Below: settling, store.
docs/delivery.md.
"""

from collections.abc import Generator
from typing import Any

from msgspec.structs import replace

from molecule_core.ground.clock import SECOND
from molecule_core.messages.model import REQUEST, Draft, Receipt
from molecule_core.messages.obligations import asked_by
from molecule_core.messages.settling import state_of
from molecule_core.messages.ticks import Statement
from molecule_core.org.model import PUSH, Workspace
from molecule_core.store.database import Decision, Read, Step, WriteSet

# Who waits has this much longer to take the answer than they wait.
_MARGIN_SECONDS = 10


def held(draft: Draft, target: Workspace, receipt: Receipt, now: int) -> tuple[Receipt, list[Statement]]:
    """The receipt of a message as it was let in, and that its sender waits for the answer: if it is a workspace that
    asks a push agent."""
    if draft.sender.workspace_id is None or draft.intent != REQUEST or target.delivery_mode != PUSH:
        return receipt, []
    asks = replace(receipt, asks=True)
    if not draft.patience:
        return asks, []
    until = now + (draft.patience + _MARGIN_SECONDS) * SECOND
    return replace(asks, held_until=until), [("hold_answer", {"id": receipt.activity_id, "until": until})]


def held_again(draft: Draft, target: Workspace, receipt: Receipt, now: int) -> Decision[Receipt]:
    """The same of a message that was sent before, perhaps by a request that waited longer. What has come out needs not
    be waited for."""
    if draft.sender.workspace_id is None or target.delivery_mode != PUSH:
        return WriteSet(receipt)
    state = yield from state_of(receipt.activity_id)
    asked = None if state is None else (yield from asked_by(target.id, state.seq))
    if state is None or asked is None or state.is_over:
        return WriteSet(receipt)
    again, writes = held(replace(draft, intent=asked.intent or ""), target, receipt, now)
    return WriteSet(again, writes or [forgotten(receipt.activity_id)])


def waited_for_until(message_id: str) -> Generator[Step, Any, int]:
    """Until when somebody waits for the answer to a message (microseconds); 0: nobody does."""
    rows = yield Read("answer_wait", {"id": message_id})
    return int(rows[0][0]) if rows else 0


def forgotten(message_id: str) -> Statement:
    """Nobody waits for the answer to a message any more."""
    return "forget_answer_wait", {"id": message_id}
