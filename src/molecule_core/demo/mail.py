"""Rows of the public API as an agent of the company understands them. Pure; anything may stand in them."""

from collections.abc import Iterator
from typing import Any

from molecule_core.demo.model import Approval, Checks, Craft, Estimate, Message, Peer, Seat
from molecule_core.demo.reading import ANY_NUMBER, telling_stems

_USER, _PEER, _DELEGATION, _RESULT, _SYSTEM = "canvas_user", "peer_agent", "delegation", "delegation_result", "system"
_ASKED, _DECIDED = "approval_request", "approval_decision"
_COMPLETED = "completed"
_MOST_TAGS = 50


def message_of(row: dict[str, Any]) -> Message:
    """A row of one's inbox. What is no message of a person or a peer wants no answer; neither does what a peer says in
    reply to something, or two agents could answer each other for ever."""
    return _message(
        row.get("request_body"),
        id=row["id"],
        attempt=row["attempt"],
        sender=row["source_id"],
        kind=row["kind"],
        intent=row["intent"],
        handle=_object(row.get("instructions")).get("reply_handle"),
    )


def pushed_message(body: Any, *, id: str, attempt: int) -> Message:
    """A message as it is pushed, where its body is all that there is; `id`, `attempt`: what stands beside it."""
    metadata = _object(_object(_params(body).get("message")).get("metadata"))
    kind, intent = metadata.get("kind"), metadata.get("intent")
    return _message(body, id=id, attempt=attempt, sender=None, kind=kind, intent=intent, handle=None)


def _message(body: Any, *, id: str, attempt: int, sender: str | None, kind: Any, intent: Any, handle: Any) -> Message:
    message = _object(_params(body).get("message"))
    metadata = _object(message.get("metadata"))
    parts, named = message.get("parts"), metadata.get("delegation_id")
    texts = [_object(part).get("text") for part in parts] if isinstance(parts, list) else []
    is_reply = kind == _PEER and isinstance(metadata.get("in_reply_to"), str)
    return Message(
        id=id,
        attempt=attempt,
        text="\n".join(text for text in texts if isinstance(text, str)),
        sender=sender,
        handle=handle if isinstance(handle, str) else "",
        delegation_id=named if isinstance(named, str) and kind in (_DELEGATION, _RESULT, _SYSTEM) else "",
        is_result=kind == _RESULT,
        failed=kind == _RESULT and metadata.get("status") != _COMPLETED,
        wants_answer=kind in (_USER, _PEER, _DELEGATION, _DECIDED) and intent == "request" and not is_reply,
        approval=approval_of(metadata) if kind in (_ASKED, _DECIDED) else None,
        to_decide=kind == _ASKED,
    )


def approval_of(told: Any) -> Approval | None:
    """An approval, as the server shows it or a message tells of it."""
    item = _object(told)
    id_, status, revision, hashed = (item.get(name) for name in ("approval_id", "status", "revision", "action_hash"))
    if not (isinstance(id_, str) and isinstance(status, str) and isinstance(revision, int) and isinstance(hashed, str)):
        return None
    decided = _object(item.get("decided"))
    by, note = _object(decided.get("by")).get("name"), decided.get("note")
    return Approval(
        id=id_,
        status=status,
        revision=revision,
        action_hash=hashed,
        by=by if isinstance(by, str) else "",
        note=note if isinstance(note, str) else "",
    )


def _params(body: Any) -> dict[str, Any]:
    return _object(_object(body).get("params"))


def peer_of(row: dict[str, Any], own_id: str, parent_id: str | None) -> Peer:
    """A row of one's peers."""
    card = _object(row["agent_card"])
    skills = card.get("skills")
    said = [row["name"], row["role"] or "", *_strings(card.get("description")), *_strings(skills)]
    return Peer(
        id=row["id"],
        name=row["name"],
        place="below" if row["parent_id"] == own_id else "above" if row["id"] == parent_id else "beside",
        skilled=bool(skills),
        words=telling_stems("\n".join(said)),
    )


def card_of(seat: Seat) -> dict[str, Any]:
    """What the agent of a seat says of itself; the words it knows about are its tags."""
    skills: list[dict[str, Any]] = [{"id": seat.behaviour, "name": seat.behaviour.capitalize(), "tags": []}]
    for number, craft in enumerate(seat.craft, start=1):
        skills.append({"id": f"craft-{number}", "name": craft.title, "tags": _tags(craft)})
    return {"name": seat.name, "description": seat.role, "skills": skills}


def _tags(craft: Craft) -> list[str]:
    words: list[str] = []
    if isinstance(craft, Checks):
        words = [word for item in craft.items for word in item.when if word != ANY_NUMBER]
    if isinstance(craft, Estimate):
        words = list(craft.days)
    return list(dict.fromkeys(words))[:_MOST_TAGS]


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _strings(value: Any) -> Iterator[str]:
    """All text in a JSON value, but not the names of its members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)
