"""Random scripts about delegations: what a few agents do, one thing after the other, in words that say nothing of the
entrance through which they delegate.

`script` draws them; `proofs/twins.py` plays them. A script is the same for the same throw of dice.
"""

import random
from collections.abc import Collection
from typing import Any

from msgspec import Struct

# Agents that poll, and the one that is pushed to; the one below it is out of the lead's reach.
LEAD, POLLED, HELPER, PUSHED, BELOW = "lead", "polled", "helper", "pushed", "below"
SEATS = (LEAD, POLLED, HELPER, PUSHED, BELOW)
_GIVERS = (LEAD, LEAD, LEAD, POLLED, HELPER)
_TARGETS = (POLLED, POLLED, PUSHED, PUSHED, HELPER, LEAD)
_SECONDS = (1, 5, 9, 31, 61, 130, 700)
_DEADLINES = (None, None, None, 20, 60, 600)
ANSWERS = ("reply", "reply", "decline", "message", "named message", "on the way", "update", "update failed")
SORTS = ("said", "said", "busy", "passes", "unsure", "refused", "bad", "error", "accepted", "declined", "nobody")
_LEAST, _MOST = 8, 18


class Move(Struct, frozen=True, kw_only=True):
    """One thing that somebody does. `which` picks among what there is then, and wraps around."""

    verb: str
    who: str = LEAD
    target: str = ""
    task: str = ""
    key: str | None = None
    wait: int = 0
    deadline: int | None = None
    which: int = 0
    how: str = ""
    seconds: int = 0

    def __str__(self) -> str:
        said = {name: value for name in self.__struct_fields__[1:] if (value := getattr(self, name))}
        return f"{self.verb} {said}"


def script(dice: random.Random, cannot: Collection[str]) -> list[Move]:
    """A script without what one of the two entrances has no word for: `key`, `wait`."""
    moves = [Move(verb="beat", who=PUSHED)]
    length = dice.randint(_LEAST, _MOST)
    begun: list[Move] = []
    while len(moves) < length:
        moves.append(_drawn(dice, begun, cannot))
        if moves[-1].verb == "begin":
            begun.append(moves[-1])
    return moves


_VERBS = {
    "begin": 24,
    "again": 7,
    "key of another": 2,
    "beyond reach": 1,
    "claim": 16,
    "answer": 18,
    "answer a push": 4,
    "progress": 4,
    "give back": 3,
    "agent": 10,
    "clock": 12,
    "cancel": 4,
    "retry": 4,
    "beat": 2,
    "remove": 1,
}


def _drawn(dice: random.Random, begun: list[Move], cannot: Collection[str]) -> Move:
    verb = "begin" if not begun else dice.choices(list(_VERBS), list(_VERBS.values()))[0]
    if verb == "begin":
        return _beginning(dice, len(begun), cannot)
    if verb in ("again", "key of another"):
        return _again(dice, begun, verb)
    given: dict[str, Any] = {"verb": verb, "which": dice.randrange(1 << 10)}
    match verb:
        case "beyond reach":
            given |= {"verb": "again", "target": dice.choice((BELOW, LEAD)), "task": "what nobody may ask for"}
        case "claim" | "give back":
            given |= {"who": dice.choice((POLLED, POLLED, HELPER)), "which": dice.randint(1, 3)}
        case "answer" | "answer a push":
            given |= {"how": dice.choice(ANSWERS)}
        case "agent":
            given |= {"how": " ".join(dice.choice(SORTS) for _ in range(dice.randint(1, 3)))}
        case "clock":
            given |= {"seconds": dice.choice(_SECONDS)}
        case "beat":
            given |= {"who": PUSHED, "which": dice.randint(0, 1)}
        case "remove":
            given |= {"who": dice.choice((HELPER, PUSHED))}
    return Move(**given)


def _again(dice: random.Random, begun: list[Move], verb: str) -> Move:
    """A call that was made before; or its key with another task."""
    known = [each for each in begun if each.key] if verb == "key of another" else begun
    if not known:
        return Move(verb="clock", seconds=1)
    changed = {"task": "something else"} if verb == "key of another" else {}
    return _without(dice.choice(known), verb="again", wait=0, **changed)


def _beginning(dice: random.Random, number: int, cannot: Collection[str]) -> Move:
    who = dice.choice(_GIVERS)
    key, wait = dice.choice((None, f"call-{number}")), dice.choice((0, 0, 20))
    return Move(
        verb="begin",
        who=who,
        target=dice.choice([each for each in _TARGETS if each != who]),
        task=f"task {number}",
        key=None if "key" in cannot else key,
        wait=0 if "wait" in cannot else wait,
        deadline=dice.choice(_DEADLINES),
    )


def _without(move: Move, **changed: Any) -> Move:
    return Move(**{**{name: getattr(move, name) for name in move.__struct_fields__}, **changed})
