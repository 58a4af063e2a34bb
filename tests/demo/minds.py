"""Seats, peers and messages for tests of what an agent decides."""

from typing import Any

from molecule_core.demo.mind import question_id
from molecule_core.demo.model import Behaviour, Message, Peer, Seat, Topics
from molecule_core.demo.reading import telling_stems

CRAFT = Topics(title="Topics")
TEXT = "Plan a landing page for our launch"


def seat(behaviour: Behaviour = "lead", **fields: Any) -> Seat:
    """A seat whose agent takes no time."""
    return Seat(**{"name": "Hub", "role": "Knows who knows.", "behaviour": behaviour, "seconds": 0, **fields})


def peer(name: str, place: Any = "below", *, skilled: bool = True, words: str = "") -> Peer:
    """A peer called as its id, in capitals."""
    return Peer(name, name.upper(), place, skilled, telling_stems(words))


def request(id_: str = "r1", *, sender: str | None = None, attempt: int = 1, text: str = TEXT) -> Message:
    """A question of a person, or of a peer."""
    return Message(id=id_, attempt=attempt, name=f"name-{id_}", text=text, sender=sender)


def reply(asked: Message, by: Peer, *, id_: str | None = None, attempt: int = 1, text: str = "") -> Message:
    """What a peer answers to the question that it was asked about a request."""
    return Message(
        id=id_ or f"{by.id}-on-{asked.id}",
        attempt=attempt,
        name="any",
        text=text or f"{by.id} says",
        sender=by.id,
        in_reply_to=question_id(asked, by),
        wants_answer=False,
    )
