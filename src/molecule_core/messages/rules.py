"""Decisions about messages: repetition, admission, claims and acks. Pure."""

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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
from molecule_core.messages.delivery_state import DeliveryNote, DeliveryState
from molecule_core.messages.model import (
    ACKED,
    ANSWERED,
    ANSWERED_OUTSIDE,
    DEAD,
    DECLINED,
    DELIVERED,
    EXPIRED,
    INTENT_ACK,
    INTENT_INFORM,
    INTENT_REQUEST,
    METHOD_NOTIFY,
    OVERDUE,
    REFUSED,
    STORED,
    UNREACHABLE,
    WAKE_ASKED,
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
from molecule_core.wire.protocols.a2a import IDENTITY_KEYS

NO_EFFECT_ERRORS = (InboxFull, CommunicationDenied, NotFound, ServerBusy, WorkspaceRemoved)
"""What a command can be refused with that then has surely changed nothing."""
_CHAT_METADATA_KEYS = ("progress", "options")
# How status messages of A2A tasks say that the task is not done, and will not be.
_ACTIVE_TASK_STATES = ("submitted", "queued", "working", "input-required", "auth-required")
_DECLINED_TASK_STATES = ("failed", "rejected", "canceled")
_DEATH_TEXTS = {
    EXPIRED: "its life was over before the agent had handled it",
    REFUSED: "the agent refused it",
    UNREACHABLE: "the agent could not be reached",
}
MAX_RANGE_WIDTH = 512
"""Places of an inbox that one note of what became of it covers at most."""
MAX_DELIVERIES = 100
"""Hand-overs of one message that are told beside its first: what nobody acks is handed over for ever."""


def content_hash(workspace_id: str, draft: MessageDraft) -> str:
    """What tells a repetition from another message under the same id: receiver and content, not the wrapping."""
    return _hash_json((workspace_id, draft.message["parts"], draft.message["metadata"], draft.context_id))


def hash_of_parts(workspace_id: str, parts: list[dict[str, Any]]) -> str:
    """The same for what an agent writes to its user."""
    return _hash_json((workspace_id, parts))


def _hash_json(content: Any) -> str:
    return hashlib.blake2b(msgspec.json.encode(content, order="deterministic"), digest_size=16).hexdigest()


def replayed_receipt(duplicate: Any, *, digest: str, message_id: str) -> MessageReceipt:
    """The first answer again, for a message that is kept already. Raises MessageIdReused if it says something else."""
    activity_id, context_id, created_at, kept_hash = duplicate
    if kept_hash != digest:  # control: dedupe-content-hash
        raise MessageIdReused(message_id=message_id)
    return MessageReceipt(activity_id, context_id, created_at)  # control: repeated-receipt


def max_inbound_no(inbox: InboxState, limit: int) -> int:
    """The highest inbound number that an inbox may hold while `limit` messages may wait in it unhandled."""
    return inbox.acked_no + inbox.acked_above + limit


def check_attempt(claim: InboxClaim | None, attempt: int | None) -> None:
    """An ack must not be for an earlier hand-over than the last. Raises AttemptMissing, StaleAttempt.

    (NATS had to learn this: a late ack of an earlier attempt must not settle the current one.)"""
    if claim is None or claim.attempt == 0:
        return
    if attempt is None:
        raise AttemptRequired
    if attempt < claim.attempt:  # control: stale-ack
        raise StaleAttempt(attempt=attempt, current=claim.attempt)


def check_exact_attempt(claim: InboxClaim | None, attempt: int | None) -> None:
    """The same for an ack of one message, which names a hand-over that really was. Raises also InvalidField."""
    check_attempt(claim, attempt)
    delivered = claim.attempt if claim is not None else 0
    if attempt is not None and attempt > max(delivered, 1):
        raise InvalidField(reason=f"attempt {attempt} of this message was never handed out; the last was {delivered}")


def advance_floor(inbox: InboxState, rows: list[tuple[int, bool]]) -> tuple[InboxState, int]:
    """Moves the floor of an inbox over all rows that are handled without a gap.

    `rows` are the inbound rows behind the floor in order, as (seq, handled). Returns the new inbox and how many single
    rows the floor has swallowed."""
    acked_seq, absorbed = inbox.acked_seq, 0
    for seq, handled in rows:
        if not handled:
            break
        acked_seq, absorbed = seq, absorbed + 1
    advanced = msgspec.structs.replace(
        inbox,
        acked_seq=acked_seq,
        acked_no=inbox.acked_no + absorbed,
        acked_above=inbox.acked_above - absorbed,
    )
    return advanced, absorbed


def to_ranges(positions: Iterable[InboxPosition]) -> list[InboxRange]:
    """Rows of an inbox, in order, as ranges without gaps and of one attempt."""
    found: list[InboxRange] = []
    for position in positions:
        last = found[-1].last if found else None
        if last is not None and (last.inbound_no + 1, last.attempt) == (position.inbound_no, position.attempt):
            found[-1] = InboxRange(found[-1].first, position)
        else:
            found.append(InboxRange(position, position))
    return found


def merge_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers, each behind the first of a pair and up to its second, in as few pairs as there can be."""
    found: list[tuple[int, int]] = []
    for floor, seq in sorted(ranges):
        if found and floor <= found[-1][1]:
            found[-1] = found[-1][0], max(seq, found[-1][1])
        else:
            found.append((floor, seq))
    return found


def split_range(first: int, last: int) -> Iterator[tuple[int, int]]:
    """A range in pieces that are not wider than WIDEST, so that few have to be looked at to find one place."""
    for start in range(first, last + 1, MAX_RANGE_WIDTH):
        yield start, min(last, start + MAX_RANGE_WIDTH - 1)


def stored_body(draft: MessageDraft, kind: str, message_id: str) -> bytes:
    """The regular request as it is kept, and never rewritten: with the identity that the credential proved."""
    metadata = {**draft.message["metadata"], "kind": kind, "intent": draft.intent}
    params = {**draft.params, "message": {**draft.message, "messageId": message_id, "metadata": metadata}}
    params["metadata"] = _merge_identity(draft)  # control: stored-text
    return msgspec.json.encode({"jsonrpc": "2.0", "id": draft.rpc_id, "method": "message/send", "params": params})


def notice_body(activity_id: str, parts: list[dict[str, Any]], metadata: Mapping[str, Any] | None = None) -> bytes:
    """What an agent writes to its user, as it is kept; of what it says about it, what readers of the chat are told."""
    chat_metadata = {name: metadata[name] for name in _CHAT_METADATA_KEYS if name in metadata} if metadata else {}
    message = {"kind": "message", "role": "agent", "messageId": activity_id, "parts": parts, "metadata": chat_metadata}
    return msgspec.json.encode({"method": METHOD_NOTIFY, "params": {"message": message, "metadata": {}}})


def text_of(parts: list[dict[str, Any]]) -> str:
    """All text of a message."""
    return "\n".join(part["text"] for part in parts if part["kind"] == "text")


def _merge_identity(draft: MessageDraft) -> dict[str, Any]:
    from_body = {key: value for key, value in draft.params["metadata"].items() if key not in IDENTITY_KEYS}
    return {**from_body, **identity_of(draft.sender)}


def identity_of(sender: Sender) -> dict[str, Any]:
    """Who a person is, as the session proves it; nothing for a workspace, which its row names."""
    if sender.user_id is None:
        return {}
    return {"source": "canvas", "user_id": sender.user_id, "username": sender.user_name}


# -- chains ------------------------------------------------------------------------------------------------------------


def named_message_id(metadata: Mapping[str, Any]) -> str | None:
    """The message that a sender says it answers. Whether it may say so is decided by what is in its inbox."""
    for key in ("cause_activity_id", "in_reply_to", "delegation_id"):
        if isinstance(metadata.get(key), str):
            return str(metadata[key])
    return None


def is_progress(metadata: Mapping[str, Any]) -> bool:
    """Whether a message only tells that somebody is at work on what it names: by its own word, or as the status message
    of an A2A task that carries a delegation."""
    is_status = isinstance(metadata.get("delegation_id"), str)
    return metadata.get("progress") is True or (is_status and metadata.get("status") in _ACTIVE_TASK_STATES)


def is_counter_question(metadata: Mapping[str, Any], owed_id: str) -> bool:
    """Whether what a workspace says to who gave it this work is a question of its own, and not the answer: it says that
    it wants an answer, and does not name the work."""
    is_named = named_message_id(metadata) == owed_id or isinstance(metadata.get("delegation_id"), str)
    return metadata.get("intent") == INTENT_REQUEST and not is_named


def can_end_work(metadata: Mapping[str, Any]) -> bool:
    """Whether what a workspace says to who gave it work ends that, should it be open: all does, whatever it names, but
    progress, that something was read, and a question of its own."""
    if is_progress(metadata) or metadata.get("intent") == INTENT_ACK:
        return False
    return metadata.get("intent") != INTENT_REQUEST or named_message_id(metadata) is not None


def is_decline(metadata: Mapping[str, Any]) -> bool:
    """Whether a message says that there will be no answer to the delegation that it is about."""
    return metadata.get("status") in _DECLINED_TASK_STATES


def with_resolved_intent(draft: MessageDraft, link: ChainLink, *, is_answer: bool) -> MessageDraft:
    """What an agent's message wants. Words without content in answer to a peer want nothing, and an answer wants no
    answer unless it says so itself: or two that know no intents would owe each other one for ever."""
    if draft.intent == INTENT_REQUEST and link.small_talk is not None:
        return msgspec.structs.replace(draft, intent=INTENT_ACK)
    if is_answer and "intent" not in draft.message["metadata"]:
        return msgspec.structs.replace(draft, intent=INTENT_INFORM)
    return draft


def text_if_text_only(draft: MessageDraft) -> str | None:
    """The text of a message; None if it also holds files or data."""
    return draft.text if all(part["kind"] == "text" for part in draft.message["parts"]) else None


def is_cause(cause: Cause, named_id: str | None, now: int, seconds: int) -> bool:
    """Whether an agent's message continues the chain of this one: it is named, or at work, or was a moment ago."""
    return cause.id == named_id or bool(cause.held) or cause.created_at >= now - seconds * SECOND


def next_link(cause: Cause, target_id: str | None, text: str | None, limits: Limits) -> ChainLink:
    """The place behind a message. Texts without content count as long as two workspaces exchange nothing else; `text`
    None: it holds more than text."""
    is_answer = target_id is not None and cause.source_id == target_id
    small_talk = (cause.small_talk or 0) + 1 if is_answer and text is not None and is_small_talk(text) else None
    most = limits.chain_messages if cause.most_messages is None else cause.most_messages
    return ChainLink(cause.root_id or cause.id, cause.hop + 1, cause.id, small_talk, most)


def exceeded_limit(cause: Cause, link: ChainLink, messages: int, more: int, limits: Limits) -> str | None:
    """The limit that a chain of so many messages would run into with these; None if it may go on."""
    if link.hop > (limits.chain_hops if cause.most_hops is None else cause.most_hops):
        return "hops"
    if link.most_messages is not None and messages + more > link.most_messages:
        return "messages"
    most_small_talk = limits.pingpong if cause.most_small_talk is None else cause.most_small_talk
    return "pingpong" if (link.small_talk or 0) > most_small_talk else None


def released_chain(chain: Chain, messages: int, more: int | None, limits: Limits) -> Chain:
    """A chain that may go on: for so many messages more, or, if nobody says how many, up to each limit once more."""
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
    """What a workspace is told: the words, what programs read of them, and of which other one it is."""

    text: str
    details: Mapping[str, object]
    target_id: str


def unanswered_by_sender(
    unanswered: Iterable[UnansweredMessage], removed: Container[str]
) -> dict[str, list[UnansweredMessage]]:
    """What gets no answer any more, by who has asked and is not gone too; newest first, at one moment as it came."""
    by_sender: dict[str, list[UnansweredMessage]] = {}
    for each in sorted(unanswered, key=lambda each: each.created_at, reverse=True):
        if each.source_id not in removed:
            by_sender.setdefault(each.source_id, []).append(each)
    return by_sender


def removed_notice(
    unanswered: Sequence[UnansweredMessage], names_by_id: Mapping[str, str], limits: Limits
) -> SystemNotice:
    """Tells one workspace that so many of its messages, newest first, get no answer any more. `names`: of those that
    are removed; whoever gave a name may have written there what it likes."""
    most, found = limits.removal_named, {each.target_id: each.total for each in unanswered}
    removed, ids = [*found][:most], [each.id for each in unanswered[:most]]
    labels = [f"{truncate_line(names_by_id[each], limits.name_length)!r} ({each})" for each in removed]
    labels += [f"{len(found) - len(removed)} more"] if len(found) > len(removed) else []
    *first, last = labels
    subject = (
        f"The workspaces {', '.join(first)} and {last} were removed" if first else f"The workspace {last} was removed"
    )
    count, pronoun = sum(found.values()), "them" if first else "it"
    predicate = "has no answer and gets none" if count == 1 else "have no answer and get none"
    newest = f": {', '.join(ids)}" if len(ids) == count else f"; the newest: {', '.join(ids)}"
    text = f"{subject}. {count} of your messages to {pronoun} {predicate} any more{newest}."
    return SystemNotice(text, {"removed_ids": removed, "activity_ids": ids}, removed[0])


def undelivered_notice(message: DeliveryState, name: str, reason: str, limits: Limits) -> SystemNotice:
    """Tells the workspace that sent it that a message which wants an answer was given up. `name`: of who was to have
    it; whoever gave that may have written there what it likes."""
    subject = f"{truncate_line(name, limits.name_length)!r} ({message.workspace_id})"
    text = (
        f"Your message {message.id} to {subject} was given up: {_DEATH_TEXTS.get(reason, reason)}. No answer to it comes, "
        "unless a person has it delivered after all."
    )
    return SystemNotice(text, {"activity_id": message.id, "reason": reason}, message.workspace_id)


# -- delivery ----------------------------------------------------------------------------------------------------------


def ttl_of(draft: MessageDraft, most: int) -> int | None:
    """The seconds after which a message does not matter any more, if its sender said so. Raises InvalidMessage."""
    seconds = draft.params.get("expires_in_seconds")
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not 1 <= seconds <= most:
        raise InvalidMessage(reason=f"expires_in_seconds must be a whole number from 1 to {most}")
    return seconds


# What becomes of the answer comes after what became of the delivery.
_TICK_ORDER = {DELIVERED: 1, ACKED: 2, DEAD: 3, ANSWERED_OUTSIDE: 4, ANSWERED: 5, DECLINED: 5, OVERDUE: 6}


def timeline(state: DeliveryState, notes: Iterable[DeliveryNote]) -> list[DeliveryNote]:
    """What became of a message, one after the other. An ack of a whole range also covers what was settled before: that
    tells nothing new."""
    found, is_settled = [DeliveryNote(STORED, state.created_at, 0, None)], False
    for each in sorted(notes, key=_timeline_key):
        if each.tick != ACKED or not is_settled:
            found.append(each)
        if each.tick in (ACKED, DEAD, DELIVERED, WAKE_ASKED):
            is_settled = each.tick in (ACKED, DEAD)
    return found


def _timeline_key(note: DeliveryNote) -> tuple[int, int, int]:
    """Of one moment: the wish to be woken, then each attempt, then what was settled without naming one."""
    attempt = -1 if note.tick == WAKE_ASKED else note.attempt or 1 << 62
    return note.at, attempt, _TICK_ORDER.get(note.tick, 0)


def is_busy(heartbeat: Heartbeat, now: int, limits: Limits) -> bool:
    """Whether an agent said not long ago that it is at work."""
    is_fresh = heartbeat.heard_at > now - limits.silence_seconds * SECOND
    return is_fresh and (bool(heartbeat.current_task) or heartbeat.active_tasks > 0)


def untaken_cutoff(workspace: Workspace, heartbeat: Heartbeat, now: int, limits: Limits) -> int:
    """Mail that has waited since before this time (microseconds) is mail that nobody takes. An agent that is at work
    comes for it later; one that is paused does not, whatever it says."""
    seconds = limits.untaken_seconds
    if workspace.status is not WorkspaceStatus.PAUSED and is_busy(heartbeat, now, limits):
        seconds = max(seconds, limits.reply_work_seconds)
    return now - seconds * SECOND


def offline_since(workspace: Workspace, heartbeat: Heartbeat) -> int | None:
    """When an agent was heard last that is silent now (microseconds); None if it is not, or was never heard."""
    is_silent = workspace.status in (WorkspaceStatus.OFFLINE, WorkspaceStatus.AWAITING_AGENT, WorkspaceStatus.FAILED)
    return heartbeat.heard_at if is_silent and heartbeat.heard_at else None
