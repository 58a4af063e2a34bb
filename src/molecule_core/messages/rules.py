"""Decisions about messages: repetition, admission, claims and acks. Pure."""

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from molecule_core.ground.clock import SECOND
from molecule_core.ground.errors import (
    AttemptMissing,
    InboxFull,
    InvalidField,
    InvalidMessage,
    MayNotTalk,
    MessageIdReused,
    NotFound,
    ServerBusy,
    StaleAttempt,
    WorkspaceRemoved,
)
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import shorten
from molecule_core.messages.lineage import Cause, Chain, Link
from molecule_core.messages.model import (
    ACK,
    ACKED,
    ANSWERED,
    DEAD,
    DECLINED,
    EXPIRED,
    HANDED_OVER,
    INFORM,
    NOTIFY,
    OUTSIDE,
    OVERDUE,
    REFUSED,
    REQUEST,
    STORED,
    UNREACHABLE,
    WAKE_ASKED,
    Draft,
    Handout,
    Inbox,
    Place,
    Receipt,
    Sender,
    Span,
    Unheard,
)
from molecule_core.messages.pushed import Happened, MessageState
from molecule_core.messages.smalltalk import is_small_talk
from molecule_core.org.model import Pulse, Status, Workspace
from molecule_core.wire.a2a import IDENTITY_KEYS

SURE_REFUSALS = (InboxFull, MayNotTalk, NotFound, ServerBusy, WorkspaceRemoved)
"""What a command can be refused with that then has surely changed nothing."""
_TOLD = ("progress", "options")
# How status messages of A2A tasks say that the task is not done, and will not be.
_UNDER_WAY = ("submitted", "queued", "working", "input-required", "auth-required")
_NO = ("failed", "rejected", "canceled")
_GIVEN_UP = {
    EXPIRED: "its life was over before the agent had handled it",
    REFUSED: "the agent refused it",
    UNREACHABLE: "the agent could not be reached",
}
WIDEST = 512
"""Places of an inbox that one note of what became of it covers at most."""
MOST_HAND_OVERS = 100
"""Hand-overs of one message that are told beside its first: what nobody acks is handed over for ever."""


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
    if kept_hash != hashed:  # control: dedupe-content-hash
        raise MessageIdReused(message_id=message_id)
    return Receipt(activity_id, context_id, created_at)  # control: repeated-receipt


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
    if attempt < handout.attempt:  # control: stale-ack
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
    risen = msgspec.structs.replace(
        inbox,
        acked_seq=acked_seq,
        acked_no=inbox.acked_no + swallowed,
        acked_above=inbox.acked_above - swallowed,
    )
    return risen, swallowed


def spans(places: Iterable[Place]) -> list[Span]:
    """Rows of an inbox, in order, as ranges without gaps and of one attempt."""
    found: list[Span] = []
    for place in places:
        last = found[-1].last if found else None
        if last is not None and (last.no + 1, last.attempt) == (place.no, place.attempt):
            found[-1] = Span(found[-1].first, place)
        else:
            found.append(Span(place, place))
    return found


def joined(stretches: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers, each behind the first of a pair and up to its second, in as few pairs as there can be."""
    found: list[tuple[int, int]] = []
    for floor, seq in sorted(stretches):
        if found and floor <= found[-1][1]:
            found[-1] = found[-1][0], max(seq, found[-1][1])
        else:
            found.append((floor, seq))
    return found


def pieces(first: int, last: int) -> Iterator[tuple[int, int]]:
    """A range in pieces that are not wider than WIDEST, so that few have to be looked at to find one place."""
    for start in range(first, last + 1, WIDEST):
        yield start, min(last, start + WIDEST - 1)


def stored_body(draft: Draft, kind: str, message_id: str) -> bytes:
    """The regular request as it is kept, and never rewritten: with the identity that the credential proved."""
    metadata = {**draft.message["metadata"], "kind": kind, "intent": draft.intent}
    params = {**draft.params, "message": {**draft.message, "messageId": message_id, "metadata": metadata}}
    params["metadata"] = _identity(draft)  # control: stored-text
    return msgspec.json.encode({"jsonrpc": "2.0", "id": draft.rpc_id, "method": "message/send", "params": params})


def notice_body(activity_id: str, parts: list[dict[str, Any]], metadata: Mapping[str, Any] | None = None) -> bytes:
    """What an agent writes to its user, as it is kept; of what it says about it, what readers of the chat are told."""
    told = {name: metadata[name] for name in _TOLD if name in metadata} if metadata else {}
    message = {"kind": "message", "role": "agent", "messageId": activity_id, "parts": parts, "metadata": told}
    return msgspec.json.encode({"method": NOTIFY, "params": {"message": message, "metadata": {}}})


def text_of(parts: list[dict[str, Any]]) -> str:
    """All text of a message."""
    return "\n".join(part["text"] for part in parts if part["kind"] == "text")


def _identity(draft: Draft) -> dict[str, Any]:
    from_body = {key: value for key, value in draft.params["metadata"].items() if key not in IDENTITY_KEYS}
    return {**from_body, **identity_of(draft.sender)}


def identity_of(sender: Sender) -> dict[str, Any]:
    """Who a person is, as the session proves it; nothing for a workspace, which its row names."""
    if sender.user_id is None:
        return {}
    return {"source": "canvas", "user_id": sender.user_id, "username": sender.user_name}


# -- chains ------------------------------------------------------------------------------------------------------------


def named_cause(metadata: Mapping[str, Any]) -> str | None:
    """The message that a sender says it answers. Whether it may say so is decided by what is in its inbox."""
    for key in ("cause_activity_id", "in_reply_to", "delegation_id"):
        if isinstance(metadata.get(key), str):
            return str(metadata[key])
    return None


def says_progress(metadata: Mapping[str, Any]) -> bool:
    """Whether a message only tells that somebody is at work on what it names: by its own word, or as the status message
    of an A2A task that carries a delegation."""
    is_status = isinstance(metadata.get("delegation_id"), str)
    return metadata.get("progress") is True or (is_status and metadata.get("status") in _UNDER_WAY)


def asks_back(metadata: Mapping[str, Any], owed_id: str) -> bool:
    """Whether what a workspace says to who gave it this work is a question of its own, and not the answer: it says that
    it wants an answer, and does not name the work."""
    names_it = named_cause(metadata) == owed_id or isinstance(metadata.get("delegation_id"), str)
    return metadata.get("intent") == REQUEST and not names_it


def may_end_work(metadata: Mapping[str, Any]) -> bool:
    """Whether what a workspace says to who gave it work ends that, should it be open: all does, whatever it names, but
    progress, that something was read, and a question of its own."""
    if says_progress(metadata) or metadata.get("intent") == ACK:
        return False
    return metadata.get("intent") != REQUEST or named_cause(metadata) is not None


def declines(metadata: Mapping[str, Any]) -> bool:
    """Whether a message says that there will be no answer to the delegation that it is about."""
    return metadata.get("status") in _NO


def with_its_intent(draft: Draft, link: Link, *, answers: bool) -> Draft:
    """What an agent's message wants. Words without content in answer to a peer want nothing, and an answer wants no
    answer unless it says so itself: or two that know no intents would owe each other one for ever."""
    if draft.intent == REQUEST and link.small_talk is not None:
        return msgspec.structs.replace(draft, intent=ACK)
    if answers and "intent" not in draft.message["metadata"]:
        return msgspec.structs.replace(draft, intent=INFORM)
    return draft


def only_text(draft: Draft) -> str | None:
    """The text of a message; None if it also holds files or data."""
    return draft.text if all(part["kind"] == "text" for part in draft.message["parts"]) else None


def is_cause(cause: Cause, named: str | None, now: int, seconds: int) -> bool:
    """Whether an agent's message continues the chain of this one: it is named, or at work, or was a moment ago."""
    return cause.id == named or bool(cause.held) or cause.created_at >= now - seconds * SECOND


def link_to(cause: Cause, target_id: str | None, text: str | None, limits: Limits) -> Link:
    """The place behind a message. Texts without content count as long as two workspaces exchange nothing else; `text`
    None: it holds more than text."""
    answers = target_id is not None and cause.source_id == target_id
    small_talk = (cause.small_talk or 0) + 1 if answers and text is not None and is_small_talk(text) else None
    most = limits.chain_messages if cause.most_messages is None else cause.most_messages
    return Link(cause.root_id or cause.id, cause.hop + 1, cause.id, small_talk, most)


def trip_of(cause: Cause, link: Link, messages: int, more: int, limits: Limits) -> str | None:
    """The limit that a chain of so many messages would run into with these; None if it may go on."""
    if link.hop > (limits.chain_hops if cause.most_hops is None else cause.most_hops):
        return "hops"
    if link.most_messages is not None and messages + more > link.most_messages:
        return "messages"
    most_small_talk = limits.pingpong if cause.most_small_talk is None else cause.most_small_talk
    return "pingpong" if (link.small_talk or 0) > most_small_talk else None


def released(chain: Chain, messages: int, more: int | None, limits: Limits) -> Chain:
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


class Note(NamedTuple):
    """What a workspace is told: the words, what programs read of them, and of which other one it is."""

    text: str
    about: Mapping[str, object]
    target_id: str


def unheard_by(found: Iterable[Unheard], gone: Container[str]) -> dict[str, list[Unheard]]:
    """What gets no answer any more, by who has asked and is not gone too; newest first, at one moment as it came."""
    by: dict[str, list[Unheard]] = {}
    for each in sorted(found, key=lambda each: each.created_at, reverse=True):
        if each.source_id not in gone:
            by.setdefault(each.source_id, []).append(each)
    return by


def no_answer(unheard: Sequence[Unheard], names: Mapping[str, str], limits: Limits) -> Note:
    """Tells one workspace that so many of its messages, newest first, get no answer any more. `names`: of those that
    are removed; whoever gave a name may have written there what it likes."""
    most, found = limits.removal_named, {each.target_id: each.found for each in unheard}
    gone, ids = [*found][:most], [each.id for each in unheard[:most]]
    shown = [f"{shorten(names[each], limits.name_length)!r} ({each})" for each in gone]
    shown += [f"{len(found) - len(gone)} more"] if len(found) > len(gone) else []
    *first, last = shown
    who = f"The workspaces {', '.join(first)} and {last} were removed" if first else f"The workspace {last} was removed"
    count, them = sum(found.values()), "them" if first else "it"
    gets = "has no answer and gets none" if count == 1 else "have no answer and get none"
    newest = f": {', '.join(ids)}" if len(ids) == count else f"; the newest: {', '.join(ids)}"
    text = f"{who}. {count} of your messages to {them} {gets} any more{newest}."
    return Note(text, {"removed_ids": gone, "activity_ids": ids}, gone[0])


def not_delivered(message: MessageState, name: str, reason: str, limits: Limits) -> Note:
    """Tells the workspace that sent it that a message which wants an answer was given up. `name`: of who was to have
    it; whoever gave that may have written there what it likes."""
    who = f"{shorten(name, limits.name_length)!r} ({message.workspace_id})"
    text = (
        f"Your message {message.id} to {who} was given up: {_GIVEN_UP.get(reason, reason)}. No answer to it comes, "
        "unless a person has it delivered after all."
    )
    return Note(text, {"activity_id": message.id, "reason": reason}, message.workspace_id)


# -- delivery ----------------------------------------------------------------------------------------------------------


def life_of(draft: Draft, most: int) -> int | None:
    """The seconds after which a message does not matter any more, if its sender said so. Raises InvalidMessage."""
    seconds = draft.params.get("expires_in_seconds")
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not 1 <= seconds <= most:
        raise InvalidMessage(reason=f"expires_in_seconds must be a whole number from 1 to {most}")
    return seconds


# What becomes of the answer comes after what became of the delivery.
_SAME_MOMENT = {HANDED_OVER: 1, ACKED: 2, DEAD: 3, OUTSIDE: 4, ANSWERED: 5, DECLINED: 5, OVERDUE: 6}


def in_order(state: MessageState, noted: Iterable[Happened]) -> list[Happened]:
    """What became of a message, one after the other. An ack of a whole range also covers what was settled before: that
    tells nothing new."""
    found, is_settled = [Happened(STORED, state.created_at, 0, None)], False
    for each in sorted(noted, key=_place_in_time):
        if each.tick != ACKED or not is_settled:
            found.append(each)
        if each.tick in (ACKED, DEAD, HANDED_OVER, WAKE_ASKED):
            is_settled = each.tick in (ACKED, DEAD)
    return found


def _place_in_time(note: Happened) -> tuple[int, int, int]:
    """Of one moment: the wish to be woken, then each attempt, then what was settled without naming one."""
    attempt = -1 if note.tick == WAKE_ASKED else note.attempt or 1 << 62
    return note.at, attempt, _SAME_MOMENT.get(note.tick, 0)


def is_busy(pulse: Pulse, now: int, limits: Limits) -> bool:
    """Whether an agent said not long ago that it is at work."""
    is_fresh = pulse.heard_at > now - limits.silence_seconds * SECOND
    return is_fresh and (bool(pulse.current_task) or pulse.active_tasks > 0)


def untaken_before(seat: Workspace, pulse: Pulse, now: int, limits: Limits) -> int:
    """Mail that has waited since before this time (microseconds) is mail that nobody takes. An agent that is at work
    comes for it later; one that is paused does not, whatever it says."""
    seconds = limits.untaken_seconds
    if seat.status is not Status.PAUSED and is_busy(pulse, now, limits):
        seconds = max(seconds, limits.reply_work_seconds)
    return now - seconds * SECOND


def offline_since(seat: Workspace, pulse: Pulse) -> int | None:
    """When an agent was heard last that is silent now (microseconds); None if it is not, or was never heard."""
    silent = seat.status in (Status.OFFLINE, Status.AWAITING_AGENT, Status.FAILED)
    return pulse.heard_at if silent and pulse.heard_at else None
