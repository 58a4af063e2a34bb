"""Rows of the public API as an agent of the company understands them. Pure; anything may stand in them."""

from collections.abc import Iterator, Mapping
from typing import Any

from molecule_core.demo.model import Checks, Craft, Estimate, Message, Peer, Seat
from molecule_core.demo.reading import ANY_NUMBER, telling_stems

_KINDS = ("canvas_user", "peer_agent")
_MOST_TAGS = 50
_NOTHING_ASKED: Mapping[str, str] = {}


def message_of(row: dict[str, Any], asked: Mapping[str, str] = _NOTHING_ASKED) -> Message:
    """A row of one's inbox. What is no message of a person or a peer wants no answer. `asked`: the messageIds of one's
    own questions by the ids that the server gave them; an answer may name either."""
    body = row.get("request_body")
    message = _object(_object(_object(body).get("params")).get("message"))
    in_reply_to = _object(message.get("metadata")).get("in_reply_to")
    parts = message.get("parts")
    texts = [_object(part).get("text") for part in parts] if isinstance(parts, list) else []
    return Message(
        id=row["id"],
        attempt=row["attempt"],
        name=str(message.get("messageId") or row["id"]),
        text="\n".join(text for text in texts if isinstance(text, str)),
        sender=row["source_id"],
        in_reply_to=asked.get(in_reply_to, in_reply_to) if isinstance(in_reply_to, str) else None,
        wants_answer=row["kind"] in _KINDS and row["intent"] == "request",
    )


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
