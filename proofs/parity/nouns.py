"""Random scripts about the other nouns: which of them there are, and what is drawn for each.

Every script is about one noun, with the moves that all have in common: messages that come, time, and tasks now and
then. Above: twins.py. Below: moves.py, which draws those about delegations.
"""

import random
from collections.abc import Callable, Collection
from typing import Any

from msgspec.structs import replace

from proofs.parity import moves
from proofs.parity.moves import BELOW, HELPER, LEAD, POLLED, PUSHED, Move

_POLLERS = (LEAD, POLLED, POLLED, HELPER)
_LEAST, _MOST = 10, 20
_TEXTS = ("so it is", "of course", "two\nlines", 'a "word" & <more>', "größer als 5 °C")
_Draw = Callable[[random.Random], dict[str, Any]]


def _given(dice: random.Random, verb: str, number: int, cannot: Collection[str]) -> Move:
    key = None if "key" in cannot or dice.random() < 0.7 else f"call-{dice.randrange(4)}"
    given: dict[str, Any] = {"who": dice.choice(_POLLERS), "task": f"{dice.choice(_TEXTS)} {number}", "key": key}
    return Move(**{"verb": verb, "which": dice.randrange(1 << 10), **given, **_DRAWS.get(verb, _nothing)(dice)})


def _nothing(_dice: random.Random) -> dict[str, Any]:
    return {}


def _asking(dice: random.Random) -> dict[str, Any]:
    return {"target": dice.choice((*_POLLERS, PUSHED)), "key": None}


def _writing(dice: random.Random) -> dict[str, Any]:
    targets = (LEAD, POLLED, POLLED, HELPER, HELPER, BELOW)
    who = dice.choice(_POLLERS)
    target = dice.choice([each for each in targets if each != who])
    return {"who": who, "target": target, "how": dice.choice(("request", "request", "inform", "ack"))}


def _answering(dice: random.Random) -> dict[str, Any]:
    return {"how": dice.choice(("reply", "reply", "reply", "on the way", "decline"))}


def _noticing(dice: random.Random) -> dict[str, Any]:
    return {"how": dice.choice(("", "by handle", "on the way"))}


def _passing(dice: random.Random) -> dict[str, Any]:
    return {"seconds": dice.choice((1, 9, 61, 130, 700)), "key": None}


def _remembering(dice: random.Random) -> dict[str, Any]:
    return {"who": dice.choice((*_POLLERS, BELOW)), "how": dice.choice(("LOCAL", "TEAM", "GLOBAL")), "key": None}


def _requesting(dice: random.Random) -> dict[str, Any]:
    return {"who": dice.choice((BELOW, BELOW, BELOW, HELPER, POLLED))}


def _deciding(dice: random.Random) -> dict[str, Any]:
    decision = dice.choice(("approve", "approve", "approve", "deny", "escalate", "more_info", "more_info"))
    return {"how": decision, "key": None}


def _taking(dice: random.Random) -> dict[str, Any]:
    return {"who": dice.choice((HELPER, HELPER, BELOW, BELOW, LEAD, POLLED)), "key": None}


_THREADS = (
    *("start", "fork", "spawn", "speak", "interrupt", "close", "resume"),
    *("send to agent", "follow up", "interrupt agent", "close agent", "resume agent"),
)
_DRAWS: dict[str, _Draw] = {
    "ask": _asking,
    "write": _writing,
    "reply": _answering,
    "reply plainly": _answering,
    "notify": _noticing,
    "clock": _passing,
    **dict.fromkeys(_THREADS, lambda _dice: {"key": None}),
    "wait": _taking,
    "beat": lambda _dice: {"who": HELPER, "which": 0, "task": "", "key": None},
    "ask leave": _requesting,
    **dict.fromkeys(("decide", "person decides"), _deciding),
    **dict.fromkeys(("say more", "withdraw", "use", "rules"), lambda _dice: {"key": None}),
    **dict.fromkeys(("keep", "recall", "look at memories", "forget", "put", "drop", "keys"), _remembering),
}
SCENES: dict[str, dict[str, int]] = {
    "messages": {
        "ask, wait, reply": 14,
        "write, wait, reply": 14,
        "write, wait, reply plainly": 6,
        "ask, wait, reply plainly": 4,
        "ask, wait, notify": 6,
        "wait, reply": 6,
        "reply": 6,
        "pop": 4,
        "notify": 3,
        "options": 3,
        "broadcast": 3,
        "clock": 8,
    },
    "approvals": {
        "ask leave, wait, decide, use": 16,
        "ask leave, person decides, use": 10,
        "ask leave, wait, decide, say more, wait, decide, use": 8,
        "ask leave, withdraw": 10,
        "wait, reply": 4,
        "wait, decide": 4,
        "withdraw": 4,
        "use": 4,
        "rules": 4,
        "clock, beat": 6,
    },
    "memory": {
        "keep": 20,
        "recall": 16,
        "look at memories": 8,
        "forget": 6,
        "put": 18,
        "drop": 6,
        "keys": 8,
        "clock": 8,
    },
    "threads": {
        "start": 10,
        "start, speak": 6,
        "start, spawn, send to agent, follow up": 12,
        "spawn": 10,
        "speak": 8,
        "fork": 6,
        "send to agent": 8,
        "follow up": 8,
        "interrupt": 4,
        "close": 3,
        "resume": 5,
        "interrupt agent": 4,
        "close agent": 4,
        "resume agent": 5,
        "clock": 4,
    },
}
"""What a script about a noun is made of, one scene after the other, and how often each comes. Who takes a message in a
scene is who it has just been sent to."""
DELEGATIONS = "delegations"
NOUNS = (DELEGATIONS, *SCENES)


def script(dice: random.Random, cannot: Collection[str], noun: str = DELEGATIONS) -> list[Move]:
    """A script about a noun, without what one of the two entrances has no word for."""
    if noun == DELEGATIONS:
        return moves.script(dice, cannot)
    scenes, length = SCENES[noun], dice.randint(_LEAST, _MOST)
    script = [Move(verb="beat", who=each) for each in (HELPER, PUSHED)]
    while len(script) < length:
        (scene,) = dice.choices(list(scenes), list(scenes.values()))
        for verb in scene.split(", "):
            script.append(_following(script[-1], _given(dice, verb, len(script), cannot)))
    return script


def _following(before: Move, move: Move) -> Move:
    """A move as it is in a scene."""
    reader = {"ask": before.target, "write": before.target, "ask leave": HELPER, "say more": HELPER}.get(before.verb)
    return replace(move, who=reader) if move.verb == "wait" and reader not in (None, PUSHED, BELOW) else move
