"""Decisions about messages: repetition, admission, claims and acks. Pure."""

import hashlib
from typing import Any

import msgspec

from molecule_core.ground.errors import (
    AttemptMissing,
    InboxFull,
    InvalidField,
    MayNotTalk,
    MessageIdReused,
    NotFound,
    ServerBusy,
    StaleAttempt,
    WorkspaceRemoved,
)
from molecule_core.messages.model import Draft, Handout, Inbox, Receipt, Sender
from molecule_core.wire.a2a import IDENTITY_KEYS

SURE_REFUSALS = (InboxFull, MayNotTalk, NotFound, ServerBusy, WorkspaceRemoved)
"""What a command can be refused with that then has surely changed nothing."""


def content_hash(workspace_id: str, draft: Draft) -> str:
    """What tells a repetition from another message under the same id: receiver and content, not the wrapping."""
    return _hashed((workspace_id, draft.message["parts"], draft.message["metadata"], draft.context_id))


def hash_of_parts(workspace_id: str, parts: list[dict[str, Any]]) -> str:
    """The same for what an agent writes to its user."""
    return _hashed((workspace_id, parts))


def _hashed(content: Any) -> str:
    return hashlib.blake2b(msgspec.json.encode(content, order="deterministic"), digest_size=16).hexdigest()


def repeated(twin: Any, *, hashed: str, message_id: str) -> Receipt:
    """The first answer again, for a message that is kept already. Raises MessageIdReused if it says something else."""
    activity_id, context_id, created_at, kept_hash = twin
    if kept_hash != hashed:
        raise MessageIdReused(message_id=message_id)
    return Receipt(activity_id, context_id, created_at)


def most_inbound(inbox: Inbox, limit: int) -> int:
    """The highest inbound number that an inbox may hold while `limit` messages may wait in it unhandled."""
    return inbox.acked_no + inbox.acked_above + limit


def check_attempt(handout: Handout | None, attempt: int | None) -> None:
    """An ack must not be for an earlier hand-over than the last. Raises AttemptMissing, StaleAttempt.

    (NATS had to learn this: a late ack of an earlier attempt must not settle the current one.)"""
    if handout is None or handout.attempt == 0:
        return
    if attempt is None:
        raise AttemptMissing
    if attempt < handout.attempt:
        raise StaleAttempt(attempt=attempt, current=handout.attempt)


def check_own_attempt(handout: Handout | None, attempt: int | None) -> None:
    """The same for an ack of one message, which names a hand-over that really was. Raises also InvalidField."""
    check_attempt(handout, attempt)
    handed_out = handout.attempt if handout is not None else 0
    if attempt is not None and attempt > max(handed_out, 1):
        raise InvalidField(reason=f"attempt {attempt} of this message was never handed out; the last was {handed_out}")


def contiguous(inbox: Inbox, rows: list[tuple[int, bool]]) -> tuple[Inbox, int]:
    """Moves the floor of an inbox over all rows that are handled without a gap.

    `rows` are the inbound rows behind the floor in order, as (seq, handled). Returns the new inbox and how many single
    rows the floor has swallowed."""
    acked_seq, swallowed = inbox.acked_seq, 0
    for seq, handled in rows:
        if not handled:
            break
        acked_seq, swallowed = seq, swallowed + 1
    return Inbox(acked_seq, inbox.acked_no + swallowed, inbox.acked_above - swallowed), swallowed


def stored_body(draft: Draft, kind: str, message_id: str) -> bytes:
    """The regular request as it is kept, and never rewritten: with the identity that the credential proved."""
    metadata = {**draft.message["metadata"], "kind": kind, "intent": draft.intent}
    params = {**draft.params, "message": {**draft.message, "messageId": message_id, "metadata": metadata}}
    params["metadata"] = _identity(draft)
    return msgspec.json.encode({"jsonrpc": "2.0", "id": draft.rpc_id, "method": "message/send", "params": params})


def _identity(draft: Draft) -> dict[str, Any]:
    from_body = {key: value for key, value in draft.params["metadata"].items() if key not in IDENTITY_KEYS}
    return {**from_body, **identity_of(draft.sender)}


def identity_of(sender: Sender) -> dict[str, Any]:
    """Who a person is, as the session proves it; nothing for a workspace, which its row names."""
    if sender.user_id is None:
        return {}
    return {"source": "canvas", "user_id": sender.user_id, "username": sender.user_name}
