"""Seats, peers and messages for tests of what an agent decides."""

from typing import Any

from molecule_core.demo.mind import key_of
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
    """A question of a person, or work that a peer delegates."""
    work = id_ if sender else ""
    handle = f"handle-{id_}"
    return Message(id=id_, attempt=attempt, text=text, sender=sender, delegation_id=work, handle=handle)


def given(asked: Message, to: Peer) -> str:
    """The id of the delegation with which a request was passed on."""
    return f"delegation-{key_of(asked, to)}"


def result(
    asked: Message, by: Peer, *, id_: str | None = None, attempt: int = 1, text: str = "", failed: bool = False
) -> Message:
    """What has become of the work that a peer was given on behalf of a request."""
    return Message(
        id=id_ or f"{by.id}-on-{asked.id}",
        attempt=attempt,
        text=text or f"{by.id} says",
        sender=by.id,
        delegation_id=given(asked, by),
        is_result=True,
        failed=failed,
        wants_answer=False,
    )
