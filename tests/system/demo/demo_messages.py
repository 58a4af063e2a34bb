"""Seats, peers and messages for tests of what an agent decides."""

from typing import Any

from molecule_core.demo.decisions import delegation_key
from molecule_core.demo.model import Behaviour, DemoMessage, DemoPeer, DemoWorkspace, Topics
from molecule_core.demo.text_analysis import significant_stems

CRAFT = Topics(title="Topics")
TEXT = "Plan a landing page for our launch"


def seat(behaviour: Behaviour = "lead", **fields: Any) -> DemoWorkspace:
    """A seat whose agent takes no time."""
    return DemoWorkspace(**{"name": "Hub", "role": "Knows who knows.", "behaviour": behaviour, "seconds": 0, **fields})


def peer(name: str, place: Any = "below", *, skilled: bool = True, words: str = "") -> DemoPeer:
    """A peer called as its id, in capitals."""
    return DemoPeer(name, name.upper(), place, skilled, significant_stems(words))


def request(id_: str = "r1", *, sender: str | None = None, attempt: int = 1, text: str = TEXT) -> DemoMessage:
    """A question of a person, or work that a peer delegates."""
    work = id_ if sender else ""
    handle = f"handle-{id_}"
    return DemoMessage(id=id_, attempt=attempt, text=text, sender=sender, delegation_id=work, handle=handle)


def given(asked: DemoMessage, to: DemoPeer) -> str:
    """The id of the delegation with which a request was passed on."""
    return f"delegation-{delegation_key(asked, to)}"


def result(
    asked: DemoMessage, by: DemoPeer, *, id_: str | None = None, attempt: int = 1, text: str = "", failed: bool = False
) -> DemoMessage:
    """What has become of the work that a peer was given on behalf of a request."""
    return DemoMessage(
        id=id_ or f"{by.id}-on-{asked.id}",
        attempt=attempt,
        text=text or f"{by.id} says",
        sender=by.id,
        delegation_id=given(asked, by),
        is_result=True,
        is_failed=failed,
        wants_answer=False,
    )
