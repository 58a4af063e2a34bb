"""Things of an organisation, asked for by others and by their own people.

To others a thing answers as one that is not there, byte for byte and within the same time; to its own it is shown.
"""

import time
from random import Random
from statistics import median
from typing import Any

from proofs.isolation.judging import APART, LATER, MISSING, Caller, Court
from proofs.isolation.model import Org, Person, Thing

UNKNOWN = "01900000-0000-7000-8000-00000000beef"
_MOST_SECONDS = 1e-3
TIMED = ("paths timed", "us apart at most by the median", "us of CPU apart at most by the median")
# With fewer pairs a median says nothing; so each path has enough in a full run, and in a control.
_ENOUGH = 50
THINGS: dict[str, tuple[tuple[str, str], ...]] = {
    "workspace": (
        ("GET", "/workspaces/{thing}"),
        ("GET", "/workspaces/{thing}/activity"),
        ("GET", "/registry/{thing}/peers"),
        ("POST", "/workspaces/{thing}/a2a"),
    ),
    "activity": (
        ("GET", "/workspaces/{id}/a2a/queue/{thing}"),
        ("GET", "/workspaces/{id}/messages/{thing}/ticks"),
        ("POST", "/workspaces/{id}/dead-letters/{thing}/requeue"),
    ),
    "delegation": (
        ("GET", "/delegations/{thing}"),
        ("POST", "/workspaces/{id}/delegations/{thing}/cancel"),
        ("POST", "/delegations/{thing}/status"),
    ),
    "approval": (
        ("GET", "/workspaces/{id}/approvals/{thing}"),
        ("POST", "/workspaces/{id}/approvals/{thing}/withdraw"),
    ),
    "memory": (("DELETE", "/workspaces/{id}/memories/{thing}"),),
    "thread": (
        ("GET", "/threads/{thing}"),
        ("GET", "/threads/{thing}/items"),
        ("GET", "/threads/{thing}/tree"),
        ("POST", "/threads/{thing}/close"),
        ("POST", "/threads/{thing}/turns"),
    ),
}
# Among so many somebody mostly finds one of its own.
_DRAWS = 30
# How somebody who may see a thing is shown it.
_SHOWN = {
    "workspace": "/workspaces/{thing}",
    "activity": "/workspaces/{id}/messages/{thing}/ticks",
    "delegation": "/delegations/{thing}",
    "approval": "/workspaces/{id}/approvals/{thing}",
    "thread": "/threads/{thing}",
}


class Apart:
    """Asks, compares and measures."""

    def __init__(self, court: Court, dice: Random) -> None:
        self._court = court
        self._dice = dice
        self._pairs: dict[str, list[tuple[float, float]]] = {}
        """Of each path, by how many seconds an id of others took longer than an unknown one: of time, and of CPU."""

    async def look_abroad(self, caller: Caller, own: Org, other: Org) -> None:
        """At a thing of another organisation and at one that is not there, in either order."""
        kind = self._dice.choice([each for each in THINGS if other.things.get(each)])
        thing = self._dice.choice(other.things[kind])
        place = self._dice.choice((own.seats[0].id if isinstance(caller, Person) else caller.id, thing.place))
        for method, path in THINGS[kind]:
            await self._compare(caller, method, path, place, thing.id)

    async def _compare(self, caller: Caller, method: str, path: str, place: str, thing: str) -> None:
        body: dict[str, Any] | None = {} if method == "POST" else None
        ids = (thing, UNKNOWN) if self._dice.random() < 0.5 else (UNKNOWN, thing)
        found, took = dict[str, tuple[int, bytes]](), dict[str, tuple[float, float]]()
        for each in ids:
            began = time.perf_counter(), time.process_time()
            found[each] = await self._court.ask(caller, method, path.format(id=place, thing=each), body)
            took[each] = time.perf_counter() - began[0], time.process_time() - began[1]
        self._court.count("compared with unknown ids")
        pair = took[thing][0] - took[UNKNOWN][0], took[thing][1] - took[UNKNOWN][1]
        self._pairs.setdefault(f"{method} {path}", []).append(pair)
        status, said = found[thing]
        if (status, said.replace(thing.encode(), UNKNOWN.encode())) != found[UNKNOWN]:
            self._court.fault(APART, f"{method} {path}: {found}")

    async def look_at_own(self, caller: Caller, own: Org) -> None:
        """A thing that the caller may see is shown to it. (One that is for its colleagues alone is only asked for.)"""
        kind = self._dice.choice([each for each in _SHOWN if own.things.get(each)])
        some = self._dice.choices(own.things[kind], k=_DRAWS)
        thing = next((each for each in some if _is_shown(caller, kind, each)), some[0])
        path = _SHOWN[kind].format(id=thing.place, thing=thing.id)
        if kind == "delegation":
            status, said = await self._court.look_at_tree(caller, path)
        else:
            status, said = await self._court.ask(caller, "GET", path)
        if _is_shown(caller, kind, thing):
            self._court.count("own things looked at")
            if status != 200 or thing.id.encode() not in said:
                self._court.fault(MISSING, f"{kind} {thing.id}: {status} {said[:100]!r}")

    def judge(self) -> None:
        """By how much the two differ in time: the largest median of any path."""
        found = {
            path: (abs(median(by for by, _ in pairs)), abs(median(by for _, by in pairs)))
            for path, pairs in self._pairs.items()
            if len(pairs) >= _ENOUGH
        }
        for path, (clock, processor) in found.items():
            if clock >= _MOST_SECONDS:
                self._court.fault(LATER, f"{path}: {clock * 1e6:,.0f} us, {processor * 1e6:,.0f} us of CPU")
        clocks, processors = ([pair[place] for pair in found.values()] for place in range(2))
        timed = (len(found), *(round(max(each, default=0) * 1e6) for each in (clocks, processors)))
        self._court.verdict.figures |= dict(zip(TIMED, timed, strict=True))


def _is_shown(caller: Caller, kind: str, thing: Thing) -> bool:
    """Those above who asks for leave may see what climbs to them, and only once it has."""
    if isinstance(caller, Person):
        return True
    return caller.id == thing.place if kind == "approval" else caller.id in thing.seats
