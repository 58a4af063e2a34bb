"""Plays a script of proofs/moves.py in an organisation of its own, through one entrance, in a time that it moves.

Above: proofs/twins.py, which compares two. Below: the server as tests run it.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
from msgspec import Struct, field
from msgspec.structs import replace

from molecule_core.client.api import ApiError
from molecule_core.ground.clock import SECOND
from molecule_core.messages.pushing import Pushing
from molecule_core.store.database import Command, Decision, Store, WriteSet
from molecule_core.store.timers import Timers
from proofs.parity import moves
from proofs.parity.moves import Move
from tests.answers.office import Office, handle, reply
from tests.clocks import FakeClock, SeededRandomness, settle
from tests.delegations.entrances import Begun, Entrance, Tools, can
from tests.delivery.agents import Desk, Reply, plain, said
from tests.engines import Engine
from tests.journeys.patience import bounded, eventually
from tests.journeys.seats import beat, remove
from tests.running import UNHURRIED, Seat, running

UNSAID = {
    ("cli", "wait"): "a shell counts its patience by the clock of the machine, which no script moves",
    ("cli", "delivered"): "a shell has no word for where a result went",
}
"""What a script leaves out for an entrance besides `entrances.CANNOT`, and why."""
_PUSHED_TO = "https://{org}.example/a2a"
# Scripts begin when the watch over silent agents has just had its turn.
_ALIGNED = 10 * SECOND
_LIMITS = replace(UNHURRIED, sweep_seconds=_ALIGNED // SECOND)
# Whoever sleeps is woken at whole tenths of a second.
_TICK = SECOND // 10
# So often is looked whether timers that are due have been called.
_PATIENCE = 200
# So often in a row nothing must be seen to happen: where processes share a store, a wake-up takes its way through it.
_QUIET = 3
_SORTS: dict[str, Reply] = {
    "said": said("done"),
    "busy": plain(503, {"retry-after": "9"}),
    "passes": plain(502),
    "refused": plain(404, error="go away"),
    "bad": (200, {}, b"<html>"),
    "error": plain(200, error="I cannot"),
    "accepted": plain(202, queued=True),
    "declined": plain(200, result={"status": {"state": "rejected"}}),
}


class Busy:
    """Knows whether the timers of a server are being looked after. Where processes share timers, one that is looked
    after does not look due meanwhile."""

    def __init__(self, timers: Timers) -> None:
        self.left = 0
        self._claims, self._calls = timers._claim, timers._call
        timers._claim, timers._call = self._claim, self._call  # type: ignore[method-assign]

    async def _claim(self) -> list[tuple[str, str, int]]:
        self.left += 1
        found: list[tuple[str, str, int]] = []
        try:
            found = await self._claims()
        finally:
            self.left += len(found) - 1
        return found

    def go_before(self, pushing: Pushing, store: Store, clock: FakeClock) -> None:
        """From now on timers that are due in the same moment as a push come first. In the product neither does."""
        due_before = pushing.due

        async def due(count: int) -> list[tuple[str, int]]:
            for _ in range(_PATIENCE):
                rows = await store.rows("next_timers", {"count": 1})
                if not self.left and not any(at <= clock.now() for *_, at in rows):
                    break
                await settle()
            return await due_before(count)

        pushing.due = due  # type: ignore[method-assign]

    async def _call(self, kind: str, key: str) -> bool:
        try:
            return await self._calls(kind, key)
        finally:
            self.left = max(0, self.left - 1)


class Held(Struct):
    """A task that somebody has in hand."""

    id: str
    attempt: int
    handle: str


class Side(Struct):
    """One organisation on one server, and the entrance through which it delegates."""

    office: Office
    entrance: Entrance
    org_id: str
    seats: dict[str, Seat]
    start: int
    busy: Busy
    said: list[str] = field(default_factory=list)
    """What each move was answered."""
    ids: list[tuple[str, str]] = field(default_factory=list)
    """Whose task each one is, in the order in which they were begun."""
    held: dict[str, list[Held]] = field(default_factory=dict)
    calls: list[tuple[int, "asyncio.Task[Begun]"]] = field(default_factory=list)

    async def rest(self) -> None:
        """Waits until nothing is due or under way, and whatever was written has been heard of."""
        await _rest(self.office, self.busy)

    @property
    def url(self) -> str:
        """Where the agent is that is pushed to."""
        return _PUSHED_TO.format(org=self.org_id)


class Servers:
    """The servers of a process, made when they are needed."""

    def __init__(self, folder: Path, database: str) -> None:
        self._folder = folder
        self._database = database
        self._stack = contextlib.AsyncExitStack()
        self._made: dict[tuple[Engine, str], tuple[Office, str]] = {}
        self._scripts = 0
        self.busy: dict[int, Busy] = {}
        """By port: whose timers are being looked after."""

    async def __aenter__(self) -> "Servers":
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()

    def next(self) -> int:
        """The number of a script."""
        self._scripts += 1
        return self._scripts

    async def office(self, engine: Engine, side: str) -> tuple[Office, str]:
        """A server of an engine, and where its store is."""
        if (engine, side) not in self._made:
            folder = self._folder / f"{side}-{engine}"
            folder.mkdir(mode=0o700, parents=True)
            place = str(folder / "molecule.db")
            if engine == "postgres":
                place = await _one_more(self._database, f"{side}_{self._folder.name}")
            clock, net = FakeClock(), Desk()
            told: dict[str, Any] = {
                "push_instructions_enabled": True,
                "clock": clock,
                "fetcher": net,
                "limits": _LIMITS,
            }
            server = await self._stack.enter_async_context(running(engine, place, folder, **told))
            # How long a pause is within its bounds is thrown; what was thrown before differs on the two sides.
            server.server.delivery._pushing._outcomes._randomness = _Halfway()
            self.busy[server.port] = busy = Busy(server.server._timers)
            busy.go_before(server.server.delivery._pushing, server.server.store, clock)
            self._made[engine, side] = Office(server, server.admin, clock, net), place
        return self._made[engine, side]


async def _one_more(database: str, side: str) -> str:
    """Another empty database beside a given one."""
    connection = await asyncpg.connect(database)
    try:
        name = f"{await connection.fetchval('SELECT current_database()')}_{side}"
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    return re.sub(r"/[^/?]+\?", f"/{name}?", database, count=1)


class _Halfway(SeededRandomness):
    """Always the middle."""

    def bits(self, count: int) -> int:
        return 1 << (count - 1)


def _nothing() -> Decision[None]:
    yield from ()
    return WriteSet(None)


# -- time --------------------------------------------------------------------------------------------------------------


async def _pass(office: Office, busy: Busy, end: int) -> None:
    """Time passes from one thing that is due to the next, so that what happens in one moment was due in that moment."""
    store, clock = office.server.server.store, office.clock
    await _rest(office, busy)
    while clock.now() < end:
        timers = await store.rows("next_timers", {"count": 1000})
        targets = await store.rows("due_targets", {"count": 1000})
        due = [at for at in [*(row[2] for row in timers), *(row[1] for row in targets)] if at > clock.now()]
        step = min([*(-(-at // _TICK) * _TICK for at in due), end])
        await clock.advance((step - clock.now()) / SECOND)
        await _rest(office, busy)


async def _rest(office: Office, busy: Busy) -> None:
    store, quiet = office.server.server.store, 0
    while quiet < (_QUIET if store.shared else 1):
        await office.rest()
        seen = store.meter.commands
        await bounded(store.run(Command("", (), _nothing)))
        await settle()
        quiet = 0 if busy.left or store.meter.commands != seen + 1 else quiet + 1


# -- moves -------------------------------------------------------------------------------------------------------------


async def side_of(office: Office, entrance: Entrance, number: int, busy: Busy) -> Side:
    """A new organisation, at a moment that is the same for both sides."""
    clock, server = office.clock, office.server
    await _pass(office, busy, clock.now() + _ALIGNED - clock.now() % _ALIGNED)
    org_id = await server.org(f"org {number}")
    seats: dict[str, Seat] = {}
    for name in moves.SEATS:
        fields: dict[str, Any] = {"org_id": org_id}
        if name == moves.PUSHED:
            fields |= {"delivery_mode": "push", "url": _PUSHED_TO.format(org=org_id)}
        if name == moves.BELOW:
            fields |= {"parent_id": seats[moves.HELPER].id}
        seats[name] = await server.seat(name, **fields)
    person = await server.person(org_id=org_id)
    return Side(office._replace(person=person), entrance, org_id, seats, clock.now(), busy)


async def play(side: Side, script: list[Move]) -> None:
    """All moves, each with all that comes of it."""
    for move in [*script, Move(verb="clock", seconds=31)]:
        await side.office.clock.advance(_TICK / SECOND)
        await side.rest()
        try:
            said_of_it = await _HOW[move.verb](side, move)
        except ApiError as error:
            said_of_it = f"refused: {error.code}"
        side.said.append(f"{move.verb}: {said_of_it}")
        await side.rest()
    for number, call in side.calls:
        side.said.append(f"{number}: {_told(side, await bounded(call))}")


async def _begin(side: Side, move: Move) -> str:
    who = side.seats[move.who]
    key = move.key if move.key is None or isinstance(side.entrance, Tools) else f"{who.id}:{move.key}"
    given: dict[str, Any] = {"deadline": move.deadline} | ({"key": key} if key is not None else {})
    target = side.seats[move.target].id
    call = asyncio.create_task(side.entrance.begin(side.office.server, who, target, move.task, wait=move.wait, **given))
    if not move.wait:
        told = await bounded(call)
        if told.delegation_id and not told.hit:
            side.ids.append((move.who, told.delegation_id))
        return _told(side, told)
    known = {id_ for _, id_ in side.ids}

    async def new() -> list[str]:
        rows = await who.api.get(f"/workspaces/{who.id}/delegations", limit=100)
        return [row["delegation_id"] for row in rows if row["delegation_id"] not in known]

    rows = await eventually(new, lambda found: bool(found) or call.done())
    side.ids += [(move.who, id_) for id_ in rows]
    side.calls.append((len(side.said), call))
    return "waits"


def _told(side: Side, told: Begun) -> str:
    """What both sides must be told alike."""
    delivered = told.delivered if told.settled and _says(side, "delivered") else ""
    return f"{told.status} {told.text!r} {told.hit} {bool(told.refused)} {delivered}"


def _says(side: Side, word: str) -> bool:
    return can(side.entrance, word) and (side.entrance.name, word) not in UNSAID


async def _claim(side: Side, move: Move) -> str:
    who = move.who
    rows = await side.office.take(side.seats[who], limit=move.which)
    for row in rows:
        if row["kind"] == "delegation":
            held = Held(row["id"], row["attempt"], handle(row))
            side.held.setdefault(who, []).append(held)
        else:
            await side.seats[who].api.ack(side.seats[who].id, row)
    return str([row["kind"] for row in rows])


async def _give_back(side: Side, move: Move) -> str:
    if not side.held.get(move.who):
        return "nothing"
    held, seat = side.held[move.who].pop(), side.seats[move.who]
    body = {"claims": [{"activity_id": held.id, "attempt": held.attempt}]}
    await seat.api.post(f"/workspaces/{seat.id}/activity/release", body)
    return "given back"


async def _answer(side: Side, move: Move) -> str:
    everybody = [(who, held) for who in moves.SEATS for held in side.held.get(who, ())]
    if not everybody:
        return "nothing"
    who, held = everybody[move.which % len(everybody)]
    return await _say(side, who, held, move.how)


async def _answer_push(side: Side, move: Move) -> str:
    """The agent that is pushed to answers by its tools what it was sent."""
    sent = [each for each in side.office.net.of(side.url) if "delegation_id" in _metadata(each.body)]
    if not sent:
        return "nothing"
    pushed = sent[move.which % len(sent)]
    about = _metadata(pushed.body)
    held = Held(pushed.activity, pushed.attempt, about["instructions"]["reply_handle"])
    return await _say(side, moves.PUSHED, held, move.how)


def _metadata(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["params"]["message"]["metadata"]
    return found


async def _say(side: Side, who: str, held: Held, how: str) -> str:
    seat, office, own = side.seats[who], side.office, f"/workspaces/{side.seats[who].id}"
    giver = side.seats[next((name for name, id_ in side.ids if id_ == held.id), moves.LEAD)]
    told: dict[str, Any] = {"state": how}
    if how == "reply":
        told = await reply(seat, held.handle, "done")
    elif how == "decline":
        told = await seat.api.post(f"{own}/decline", {"handle": held.handle, "reason": "no"})
    elif how == "on the way":
        await office.ask(giver, "half of it", by=seat, progress=True, in_reply_to=held.id)
    elif how.startswith("update"):
        body = {"status": "completed", "result": "done"} if how == "update" else {"status": "failed", "error": "no"}
        told = {"state": (await seat.api.post(f"{own}/delegations/{held.id}/update", body))["status"]}
    else:
        await office.ask(giver, "done", by=seat, **({"delegation_id": held.id} if how == "named message" else {}))
    return str(told["state"])


async def _progress(side: Side, move: Move) -> str:
    everybody = [(who, held) for who in moves.SEATS for held in side.held.get(who, ())]
    if not everybody:
        return "nothing"
    who, held = everybody[move.which % len(everybody)]
    path = f"/workspaces/{side.seats[who].id}/delegations/{held.id}/status"
    return str(await side.seats[who].api.post(path, {"current_step": "reading", "percent": move.which % 100}))


async def _cancel(side: Side, move: Move) -> str:
    if not side.ids:
        return "nothing"
    who, id_ = side.ids[move.which % len(side.ids)]
    told = await bounded(side.entrance.cancel(side.office.server, side.seats[who], id_))
    return f"{told.status} {told.reason} {bool(told.refused)}"


async def _retry(side: Side, move: Move) -> str:
    if not side.ids:
        return "nothing"
    who, id_ = side.ids[move.which % len(side.ids)]
    told = await side.seats[who].api.post(f"/workspaces/{side.seats[who].id}/delegations/{id_}/retry")
    if not told.get("idempotent_hit"):
        side.ids.append((who, told["delegation_id"]))
    return str(told["state"])


async def _agent(side: Side, move: Move) -> str:
    """From now on the agent that is pushed to answers like this, and like the last of it for ever."""
    net, url, sorts = side.office.net, side.url, move.how.split()
    if sorts[-1] == "nobody":
        net.agents.pop(url, None)
    elif sorts[-1] == "unsure":
        net.breaks(url, "no answer within 300 s", sent=True)
    else:
        net.answers(url, *(_SORTS[sort] for sort in sorts if sort in _SORTS))
    return ""


async def _beat(side: Side, move: Move) -> str:
    await beat(side.seats[move.who], active_tasks=move.which)
    return ""


async def _remove(side: Side, move: Move) -> str:
    await remove(side.office.server.admin, side.seats[move.who])
    return ""


async def _forward(side: Side, move: Move) -> str:
    await _pass(side.office, side.busy, side.office.clock.now() + move.seconds * SECOND)
    return ""


_HOW: dict[str, Callable[[Side, Move], Awaitable[str]]] = {
    "begin": _begin,
    "again": _begin,
    "claim": _claim,
    "give back": _give_back,
    "answer": _answer,
    "answer a push": _answer_push,
    "progress": _progress,
    "agent": _agent,
    "clock": _forward,
    "cancel": _cancel,
    "retry": _retry,
    "beat": _beat,
    "remove": _remove,
}
