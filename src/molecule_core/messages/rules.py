"""Pure decisions about messages: deduplication, admission, attempts and acks, chains, system notices."""

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import (
    AttemptRequired,
    CommunicationDenied,
    InboxFull,
    InvalidField,
    InvalidMessage,
    MessageIdReused,
    NotFound,
    ServerBusy,
    StaleAttempt,
    WorkspaceRemoved,
)
from molecule_core.common.limits import Limits
from molecule_core.common.text import truncate_line
from molecule_core.messages.chains.model import Cause, Chain, ChainLink
from molecule_core.messages.chains.small_talk import is_small_talk
from molecule_core.messages.delivery_state import DeliveryFailure, DeliveryNote, DeliveryState, DeliveryTick
from molecule_core.messages.errors import StorageFull
from molecule_core.messages.model import (
    InboxClaim,
    InboxPosition,
    InboxRange,
    InboxState,
    MessageDraft,
    MessageReceipt,
    Sender,
    UnansweredMessage,
)
from molecule_core.org.model import Heartbeat, Workspace, WorkspaceStatus
from molecule_core.wire.protocols.a2a import IDENTITY_KEYS, SEND_METHOD
from molecule_core.wire.protocols.a2a_response import text_of_parts
from molecule_core.wire.schemas.activity import ActivityMethod, Intent
from molecule_core.wire.schemas.envelope import PLATFORM_KEYS

NO_EFFECT_ERRORS = (InboxFull, StorageFull, CommunicationDenied, NotFound, ServerBusy, WorkspaceRemoved)
"""Errors that guarantee that the command changed nothing."""
INLINE_SHA256 = "inlineSha256"
"""Member of a file part whose bytes came with the message: their hash."""
_CHAT_METADATA_KEYS = ("progress", "options")
# Statuses of A2A tasks: not finished yet, and finished without a result.
_ACTIVE_TASK_STATES = ("submitted", "queued", "working", "input-required", "auth-required")
_DECLINED_TASK_STATES = ("failed", "rejected", "canceled")
_DEATH_TEXTS: Mapping[str, str] = {
    DeliveryFailure.EXPIRED: "it expired before the agent handled it",
    DeliveryFailure.REFUSED: "the agent rejected it",
    DeliveryFailure.UNREACHABLE: "the agent could not be reached",
}
MAX_RANGE_WIDTH = 512
"""Maximum width (in inbox positions) of one delivery tick range."""
MAX_DELIVERIES = 100
"""Maximum number of repeated deliveries per message in its timeline; an unacknowledged message is redelivered without
end."""


def content_hash(workspace_id: str, draft: MessageDraft) -> str:
    """Return the hash that distinguishes a repetition from a reused id: recipient and content, not the wrapping."""
    parts = [_without_stored_uri(part) for part in draft.message["parts"]]
    content = (workspace_id, parts, draft.message["metadata"], draft.context_id)
    return hashlib.blake2b(msgspec.json.encode(content, order="deterministic"), digest_size=16).hexdigest()


def _without_stored_uri(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part without the address of a file that came inline: each repetition gets another one."""
    file = part.get("file")
    if not isinstance(file, dict) or INLINE_SHA256 not in file:
        return part
    return {**part, "file": {name: value for name, value in file.items() if name != "uri"}}


def hash_of_parts(workspace_id: str, parts: list[dict[str, Any]]) -> str:
    """Return the content hash of a notice to the user."""
    return hashlib.blake2b(
        msgspec.json.encode((workspace_id, parts), order="deterministic"), digest_size=16
    ).hexdigest()


def replayed_receipt(duplicate: Any, *, digest: str, message_id: str) -> MessageReceipt:
    """Return the receipt of a message that is already stored. Raises MessageIdReused if the content differs."""
    activity_id, context_id, created_at, kept_hash = duplicate
    if kept_hash != digest:  # control: dedupe-content-hash
        raise MessageIdReused(message_id=message_id)
    return MessageReceipt(activity_id, context_id, created_at)  # control: repeated-receipt


def max_inbound_no(inbox: InboxState, limit: int) -> int:
    """Return the highest inbound number of an inbox that may hold `limit` unacknowledged messages."""
    return inbox.acked_no + inbox.acked_above + limit


def check_attempt(claim: InboxClaim | None, attempt: int | None) -> None:
    """Check that an ack is not for an older attempt than the current one.

    A late ack of an earlier attempt must not acknowledge the current delivery (a known NATS bug). Raises
    AttemptRequired, StaleAttempt."""
    if claim is None or claim.attempt == 0:
        return
    if attempt is None:
        raise AttemptRequired
    if attempt < claim.attempt:  # control: stale-ack
        raise StaleAttempt(attempt=attempt, current=claim.attempt)


def check_exact_attempt(claim: InboxClaim | None, attempt: int | None) -> None:
    """Check the attempt of a single ack, which must also have been delivered. Raises InvalidField as well."""
    check_attempt(claim, attempt)
    delivered = claim.attempt if claim is not None else 0
    if attempt is not None and attempt > max(delivered, 1):
        raise InvalidField(
            reason=f"this message has no attempt {attempt}; the last one is {delivered}. "
            "Acknowledge the attempt of your claim."
        )


def advance_floor(inbox: InboxState, rows: list[tuple[int, bool]]) -> tuple[InboxState, int]:
    """Move the ack floor over all rows that are acknowledged without a gap.

    `rows`: the inbound rows above the floor in order, as (seq, acknowledged). Returns the new inbox state and the
    number of single rows that the floor absorbed."""
    acked_seq, absorbed = inbox.acked_seq, 0
    for seq, handled in rows:
        if not handled:
            break
        acked_seq, absorbed = seq, absorbed + 1
    advanced = msgspec.structs.replace(
        inbox, acked_seq=acked_seq, acked_no=inbox.acked_no + absorbed, acked_above=inbox.acked_above - absorbed
    )
    return advanced, absorbed


def to_ranges(positions: Iterable[InboxPosition]) -> list[InboxRange]:
    """Group ordered inbox rows into ranges without gaps, each of one attempt."""
    found: list[InboxRange] = []
    for position in positions:
        last = found[-1].last if found else None
        if last is not None and (last.inbound_no + 1, last.attempt) == (position.inbound_no, position.attempt):
            found[-1] = InboxRange(found[-1].first, position)
        else:
            found.append(InboxRange(position, position))
    return found


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge half-open ranges (floor, seq], each meaning floor < n <= seq, into as few as possible."""
    found: list[tuple[int, int]] = []
    for floor, seq in sorted(ranges):
        if found and floor <= found[-1][1]:
            found[-1] = found[-1][0], max(seq, found[-1][1])
        else:
            found.append((floor, seq))
    return found


def split_range(first: int, last: int) -> Iterator[tuple[int, int]]:
    """Split a range into pieces of at most MAX_RANGE_WIDTH, so that a lookup of one position reads few of them."""
    for start in range(first, last + 1, MAX_RANGE_WIDTH):
        yield start, min(last, start + MAX_RANGE_WIDTH - 1)


def stored_body(draft: MessageDraft, kind: str, message_id: str) -> bytes:
    """Return the request as it is stored (never rewritten later), with the authenticated identity."""
    written = {key: value for key, value in draft.message["metadata"].items() if key not in PLATFORM_KEYS}
    metadata = {**written, "kind": kind, "intent": draft.intent}
    params = {**draft.params, "message": {**draft.message, "messageId": message_id, "metadata": metadata}}
    claimed = {key: value for key, value in draft.params["metadata"].items() if key not in IDENTITY_KEYS}
    params["metadata"] = {**claimed, **identity_of(draft.sender)}  # control: stored-text
    rpc_id = message_id if draft.rpc_id is None else draft.rpc_id
    return msgspec.json.encode({"jsonrpc": "2.0", "id": rpc_id, "method": SEND_METHOD, "params": params})


def encode_message(message: Mapping[str, Any], identity: Mapping[str, Any] | None = None) -> bytes:
    """Return the body of a message that the server builds, in the format of all others."""
    params = {"message": message, "metadata": identity or {}}
    # The id is the message's own: agents refuse a request whose id is null.
    return msgspec.json.encode({"jsonrpc": "2.0", "id": message["messageId"], "method": SEND_METHOD, "params": params})


def notice_body(activity_id: str, parts: list[dict[str, Any]], metadata: Mapping[str, Any] | None = None) -> bytes:
    """Return the stored body of a notice to the user. Only metadata that readers of the chat need is kept."""
    chat_metadata = {name: metadata[name] for name in _CHAT_METADATA_KEYS if name in metadata} if metadata else {}
    message = {"kind": "message", "role": "agent", "messageId": activity_id, "parts": parts, "metadata": chat_metadata}
    return msgspec.json.encode({"method": ActivityMethod.NOTIFY, "params": {"message": message, "metadata": {}}})


def conversation_id(source_id: str, workspace_id: str) -> str:
    """Return the A2A context of what one sender (empty: people) writes to a workspace, always the same."""
    digest = hashlib.blake2b(f"{source_id}\0{workspace_id}".encode(), digest_size=16, person=b"a2a-context").digest()
    return str(UUID(bytes=digest, version=5))


def text_of(parts: list[dict[str, Any]]) -> str:
    """Return all text of a message, data as JSON."""
    return text_of_parts(parts)


def identity_of(sender: Sender) -> dict[str, Any]:
    """Return the authenticated identity of a person; empty for a workspace, whose row names it."""
    if sender.user_id is None:
        return {}
    return {"source": "canvas", "user_id": sender.user_id, "username": sender.user_name}


# -- chains ------------------------------------------------------------------------------------------------------------


def named_message_id(metadata: Mapping[str, Any]) -> str | None:
    """Return the message that the sender claims to answer. The inbox decides whether the claim is valid."""
    for key in ("cause_activity_id", "in_reply_to", "delegation_id"):
        if isinstance(metadata.get(key), str):
            return str(metadata[key])
    return None


def chosen_question(metadata: Mapping[str, Any]) -> str | None:
    """Return the id of the question of which a person's message chooses an option, as its sender states it."""
    question, option = metadata.get("option_of"), metadata.get("option")
    is_choice = isinstance(question, str) and isinstance(option, int) and not isinstance(option, bool)
    return question if is_choice else None


def is_progress(metadata: Mapping[str, Any]) -> bool:
    """Return whether a message only reports progress.

    Either its metadata says so, or it is the status message of an A2A task that carries a delegation."""
    is_status = isinstance(metadata.get("delegation_id"), str)
    return metadata.get("progress") is True or (is_status and metadata.get("status") in _ACTIVE_TASK_STATES)


def is_counter_question(metadata: Mapping[str, Any], delegation_id: str) -> bool:
    """Return whether a message to the delegator is a question of its own instead of the answer.

    It is, if it asks for an answer and does not name the work."""
    is_named = named_message_id(metadata) == delegation_id or isinstance(metadata.get("delegation_id"), str)
    return metadata.get("intent") == Intent.REQUEST and not is_named


def can_end_work(metadata: Mapping[str, Any]) -> bool:
    """Return whether a message to the delegator closes open work.

    Everything does, whatever it names, except progress, read confirmations and questions."""
    if is_progress(metadata) or metadata.get("intent") == Intent.ACK:
        return False
    return metadata.get("intent") != Intent.REQUEST or named_message_id(metadata) is not None


def is_decline(metadata: Mapping[str, Any]) -> bool:
    """Return whether a message declines the delegation that it is about."""
    return metadata.get("status") in _DECLINED_TASK_STATES


def with_resolved_intent(draft: MessageDraft, link: ChainLink, *, is_answer: bool) -> MessageDraft:
    """Return the draft with the intent that its content implies.

    Small talk in answer to a peer becomes `ack`. An answer defaults to `inform`: two agents that do not know intents
    would otherwise answer each other forever."""
    if draft.intent == Intent.REQUEST and link.small_talk is not None:
        return msgspec.structs.replace(draft, intent=Intent.ACK)
    if is_answer and "intent" not in draft.message["metadata"]:
        return msgspec.structs.replace(draft, intent=Intent.INFORM)
    return draft


def text_if_text_only(draft: MessageDraft) -> str | None:
    """Return the text of a message; None if it also holds files or data."""
    return draft.text if all(part["kind"] == "text" for part in draft.message["parts"]) else None


def next_link(cause: Cause, target_id: str | None, text: str | None, limits: Limits) -> ChainLink:
    """Return the chain link that follows a message.

    Small talk is counted while two workspaces exchange nothing else. `text` is None if the message holds more than
    text."""
    is_answer = target_id is not None and cause.source_id == target_id
    small_talk = (cause.small_talk or 0) + 1 if is_answer and text is not None and is_small_talk(text) else None
    most = limits.chain_messages if cause.most_messages is None else cause.most_messages
    return ChainLink(cause.root_id or cause.id, cause.hop + 1, cause.id, small_talk, most)


def exceeded_limit(cause: Cause, link: ChainLink, messages: int, more: int, limits: Limits) -> str | None:
    """Return the limit that a chain exceeds with `more` messages; None if it may continue."""
    if link.hop > (limits.chain_hops if cause.most_hops is None else cause.most_hops):
        return "hops"
    if link.most_messages is not None and messages + more > link.most_messages:
        return "messages"
    most_small_talk = limits.pingpong if cause.most_small_talk is None else cause.most_small_talk
    return "pingpong" if (link.small_talk or 0) > most_small_talk else None


def released_chain(chain: Chain, messages: int, more: int | None, limits: Limits) -> Chain:
    """Return the chain with raised limits: by `more` messages, or by each limit once more if that is None."""
    return msgspec.structs.replace(
        chain,
        state="released",
        messages=messages,
        most_hops=max(chain.most_hops, chain.hops + (more or limits.chain_hops)),
        most_messages=messages + (more or limits.chain_messages),
        most_small_talk=max(chain.most_small_talk, chain.small_talk + (more or limits.pingpong)),
    )


# -- removal -----------------------------------------------------------------------------------------------------------


class SystemNotice(NamedTuple):
    """A notice to a workspace: text, machine-readable details, and the workspace that it is about."""

    text: str
    details: Mapping[str, object]
    target_id: str


def unanswered_by_sender(
    unanswered: Iterable[UnansweredMessage], removed: Container[str]
) -> dict[str, list[UnansweredMessage]]:
    """Group unanswered messages by sender, newest first (stable for equal times); removed senders are left out."""
    by_sender: dict[str, list[UnansweredMessage]] = {}
    for each in sorted(unanswered, key=lambda each: each.created_at, reverse=True):
        if each.source_id not in removed:
            by_sender.setdefault(each.source_id, []).append(each)
    return by_sender


def removed_notice(
    unanswered: Sequence[UnansweredMessage], names_by_id: Mapping[str, str], limits: Limits
) -> SystemNotice:
    """Build the notice that messages to removed workspaces will not be answered.

    `unanswered` is sorted newest first. Names are untrusted: agents and people choose them freely, so they are cut and
    quoted."""
    most, found = limits.removal_named, {each.target_id: each.total for each in unanswered}
    removed, ids = [*found][:most], [each.id for each in unanswered[:most]]
    labels = [f"{truncate_line(names_by_id[each], limits.name_length)!r} ({each})" for each in removed]
    labels += [f"{len(found) - len(removed)} more"] if len(found) > len(removed) else []
    *first, last = labels
    subject = (
        f"The workspaces {', '.join(first)} and {last} were removed" if first else f"The workspace {last} was removed"
    )
    count, pronoun = sum(found.values()), "them" if first else "it"
    predicate = "has no answer" if count == 1 else "have no answers"
    newest = f": {', '.join(ids)}" if len(ids) == count else f"; the newest: {', '.join(ids)}"
    text = f"{subject}. {count} of your messages to {pronoun} {predicate} and will not get any{newest}."
    return SystemNotice(text, {"removed_ids": removed, "activity_ids": ids}, removed[0])


def undelivered_notice(message: DeliveryState, name: str, reason: str, limits: Limits) -> SystemNotice:
    """Build the notice for the sender of an undeliverable request.

    `name` (of the recipient) is untrusted: agents and people choose it freely, so it is cut and quoted."""
    subject = f"{truncate_line(name, limits.name_length)!r} ({message.workspace_id})"
    text = (
        f"Your message {message.id} to {subject} could not be delivered: {_DEATH_TEXTS.get(reason, reason)}. You will "
        "not get an answer unless a person requeues the message."
    )
    return SystemNotice(text, {"activity_id": message.id, "reason": reason}, message.workspace_id)


# -- delivery ----------------------------------------------------------------------------------------------------------


def ttl_of(draft: MessageDraft, most: int) -> int | None:
    """Return the lifetime of a message in seconds, if its sender set one. Raises InvalidMessage."""
    seconds = draft.params.get("expires_in_seconds")
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not 1 <= seconds <= most:
        raise InvalidMessage(reason=f"expires_in_seconds is out of range. Use a whole number from 1 to {most}.")
    return seconds


_DELIVERY_TICKS = (
    DeliveryTick.WAKE_REQUESTED,
    DeliveryTick.IN_INBOX,
    DeliveryTick.DELIVERED,
    DeliveryTick.ACKED,
    DeliveryTick.DEAD,
)
# Ticks about the answer come after those about the delivery.
_TICK_ORDER: Mapping[str, int] = {
    DeliveryTick.IN_INBOX: 0,
    DeliveryTick.DELIVERED: 1,
    DeliveryTick.ACKED: 2,
    DeliveryTick.DEAD: 3,
    DeliveryTick.FAILED: 4,
    DeliveryTick.ANSWERED_OUTSIDE: 4,
    DeliveryTick.ANSWERED: 5,
    DeliveryTick.DECLINED: 5,
    DeliveryTick.OVERDUE: 6,
}


def timeline(state: DeliveryState, notes: Iterable[DeliveryNote]) -> list[DeliveryNote]:
    """Return the delivery history of a message in order.

    An ack of a whole range also covers messages that were already acknowledged or dead; such an ack is left out."""
    found, is_settled = [DeliveryNote(DeliveryTick.STORED, state.created_at, 0, None)], False
    for each in sorted(notes, key=_timeline_key):
        if each.tick != DeliveryTick.ACKED or not is_settled:
            found.append(each)
        if each.tick in _DELIVERY_TICKS:
            is_settled = each.tick in (DeliveryTick.ACKED, DeliveryTick.DEAD)
    return found


def _timeline_key(note: DeliveryNote) -> tuple[int, int, int]:
    """Sort notes of one moment: wake request, then each attempt, then notes without an attempt."""
    attempt = -1 if note.tick == DeliveryTick.WAKE_REQUESTED else note.attempt or 1 << 62
    return note.at, attempt, _TICK_ORDER.get(note.tick, 0)


def is_busy(heartbeat: Heartbeat, now: int, limits: Limits) -> bool:
    """Return whether an agent reported recently that it is working."""
    is_fresh = heartbeat.heard_at > now - limits.silence_seconds * SECOND
    return is_fresh and (bool(heartbeat.current_task) or heartbeat.active_tasks > 0)


def stale_cutoff(workspace: Workspace, heartbeat: Heartbeat, now: int, limits: Limits) -> int:
    """Return the time (microseconds) before which waiting mail counts as not picked up.

    A working agent has more time to fetch its mail; a paused one has not, whatever it reports."""
    seconds = limits.untaken_seconds
    if workspace.status is not WorkspaceStatus.PAUSED and is_busy(heartbeat, now, limits):
        seconds = max(seconds, limits.reply_work_seconds)
    return now - seconds * SECOND


def next_check_seconds(next_due: int | None, now: int, limits: Limits) -> int:
    """Return after how many seconds a reader of the stale inboxes reads them again.

    `next_due`: time (microseconds) at which the next inbox becomes stale. Mail that arrives after a read becomes stale
    after `untaken_seconds` or later, so a read at least that often sees each inbox before its time. A twentieth of
    it is the shortest interval: in a busy organisation an inbox is nearly due at any moment."""
    longest = limits.untaken_seconds
    if next_due is None:
        return longest
    wait = -((now - next_due) // SECOND)  # rounded up: the inbox must be stale by then
    return min(max(wait, longest // 20, 1), longest)


def offline_since(workspace: Workspace, heartbeat: Heartbeat) -> int | None:
    """Return the last heartbeat (microseconds) of an agent that is silent now; None if it is not, or never sent one."""
    is_silent = workspace.status in (WorkspaceStatus.OFFLINE, WorkspaceStatus.AWAITING_AGENT, WorkspaceStatus.FAILED)
    return heartbeat.heard_at if is_silent and heartbeat.heard_at else None
