"""What `prove parity` tries: a script played through REST on one engine, and through another entrance on a drawn one;
then all that was written, told and answered is compared, with ids by first appearance and times from the start.

A process keeps one server for each engine and side, whose time the scripts move; each script has an organisation of its
own.
"""

import itertools
import random
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import apsw
import asyncpg

from molecule_core.common.clock import SECOND
from proofs.harness.children import as_a_child
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from proofs.parity.moves import Move
from proofs.parity.nouns import DELEGATIONS, SCENES, script
from proofs.parity.playing import play
from proofs.parity.servers import Servers
from proofs.parity.shells import Process
from proofs.parity.sides import ID, TIME, UNSAID, Side, side_of
from testing.delegation_entrances import CANNOT, Entrance, entrances
from testing.engines import ENGINES, Engine

ROWS, TOLD, SPOKEN = "differing rows", "differing event sequences", "differing answers"
REFERENCE, *OTHERS = entrances()
# Of the scripts whose tasks are given by a shell, so many have commands that are processes of their own.
_PROCESSES = 0.2
_BY_PROCESS = "scripts by processes"
_COUNTED = ("scripts", "moves", "tasks", "other calls through the entrance", _BY_PROCESS)
_EXAMPLES = 5
# No script lasts as long as this, and no other number of a row is as near to the time of its start.
_LONG = 400 * 24 * 3600 * SECOND

_OF_ORG = "SELECT * FROM {table} WHERE org_id = '{org}'"
_OF_SEATS = "SELECT * FROM {table} WHERE workspace_id IN ({seats})"
_OF_THREADS = "SELECT * FROM {table} WHERE thread_id IN (SELECT thread_id FROM threads WHERE org_id = '{org}')"
TABLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "activities": (_OF_ORG, ("workspace_id", "seq")),
    "delegations": (_OF_ORG, ("source_id", "seq")),
    "delegation_facts": (_OF_ORG, ("delegation_id", "no")),
    "delegation_keys": ("SELECT * FROM {table} WHERE source_id IN ({seats})", ("source_id", "created_at", "key")),
    "obligations": (_OF_ORG, ("workspace_id", "seq")),
    "approvals": (_OF_ORG, ("created_at",)),
    "approval_holders": (_OF_SEATS, ("workspace_id", "created_at")),
    "approval_keys": (_OF_SEATS, ("workspace_id", "key")),
    "approval_policies": (_OF_SEATS, ("workspace_id",)),
    "memories": (_OF_ORG, ("no",)),
    "memory_keys": (_OF_SEATS, ("workspace_id", "key")),
    "memory_versions": (_OF_SEATS, ("workspace_id",)),
    "threads": (_OF_ORG, ("created_at", "path")),
    "thread_entries": (_OF_THREADS, ("thread_id", "ordinal")),
    "thread_bases": (_OF_THREADS, ("thread_id", "version")),
    "thread_turns": (_OF_THREADS, ("thread_id", "accepted_at")),
    "thread_mail": (_OF_THREADS.replace("WHERE thread_id", "WHERE receiver_id"), ("receiver_id", "seq")),
    "thread_keys": (_OF_SEATS, ("workspace_id", "thread_id")),
    "dead_letters": (_OF_ORG, ("workspace_id", "seq")),
    "journal": (_OF_ORG.replace("{table}", "events"), ("seq",)),
}
"""What is compared, and in which order: seats and tasks stand in the order in which the script knows them."""
_HASHED = {"activities": ("content_hash",)}
"""Made of ids, and so renamed like one."""
_APART = ("MESSAGE_TICK", "WORKSPACE_OFFLINE", "WORKSPACE_AWAITING_AGENT")
"""Told by what goes on at the same time as everything else (an inbox that is handed over, the watch over agents): among
what happens in one moment these stand in an order for each seat, and in none with the rest."""
LEFT_OUT = {"delegations": ("wait_until",), "memories": ("no",)}
"""How long somebody waits is nothing that happens to a task: who asks again in slices waits until another moment."""


class Found(NamedTuple):
    """What came of one script."""

    moves: int
    tasks: int
    through: int
    broken: dict[str, int]
    notes: list[str]


# -- comparing ---------------------------------------------------------------------------------------------------------


async def written(side: Side, place: str) -> dict[str, list[dict[str, Any]]]:
    """All rows of a side, as both sides must have them."""
    order = {seat.id: number for number, seat in enumerate(side.seats.values())}
    order |= {id_: number for number, (_, id_) in enumerate(side.ids, len(order))}
    order |= {id_: number for number, (_, id_) in enumerate(side.threads, len(order))}
    names: dict[str, str] = {}
    found: dict[str, list[dict[str, Any]]] = {}
    seats = ", ".join(f"'{seat.id}'" for seat in side.seats.values())
    for table, (text, by) in TABLES.items():
        rows = await _rows(place, text.format(table=table, org=side.org_id, seats=seats))
        rows.sort(key=lambda row: tuple(order.get(row[name], row[name]) for name in by))
        if table == "journal":
            _in_lanes(rows, order)
        hashed = _HASHED.get(table, ())
        kept = [name for name in (rows[0] if rows else ()) if name not in LEFT_OUT.get(table, ())]
        found[table] = [
            {name: _plain(row[name], names, side.start, whole=name in hashed) for name in kept} for row in rows
        ]
    return found


def _in_lanes(rows: list[dict[str, Any]], order: dict[str, int]) -> None:
    """Events in the order of their numbers, but what has no order with the rest of its moment behind that."""
    numbers = [row["seq"] for row in rows]
    rows.sort(key=lambda row: (row["at"], order[row["workspace_id"]] + 1 if row["name"] in _APART else 0))
    for row, number in zip(rows, numbers, strict=True):
        row["seq"] = number


async def _rows(place: str, text: str) -> list[dict[str, Any]]:
    if place.startswith("postgresql:"):
        connection = await asyncpg.connect(place)
        try:
            return [dict(row) for row in await connection.fetch(text)]
        finally:
            await connection.close()
    database = apsw.Connection(place, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        cursor = database.execute(text)
        return [dict(zip((name for name, *_ in cursor.description), row, strict=True)) for row in cursor]
    finally:
        database.close()


def _plain(value: Any, names: dict[str, str], start: int, *, whole: bool) -> Any:
    """A value without what differs between any two runs."""
    if isinstance(value, int):
        return f"start{value - start:+}" if abs(value - start) < _LONG else value
    if not isinstance(value, str):
        return value
    if whole:
        return names.setdefault(value, f"id-{len(names)}")
    value = ID.sub(lambda found: _name(found[0], names), value)
    return TIME.sub(lambda found: f"start{micros(found[0]) - start:+}", value)


def _name(id_: str, names: dict[str, str]) -> str:
    """An id by its first appearance. One that is cut short may be the beginning of several that were made in one
    moment, and so has no name of its own."""
    return "id…" if id_.endswith("…") else names.setdefault(id_, f"id-{len(names)}")


def micros(text: str) -> int:
    """A moment as the store counts it."""
    whole = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round((whole - datetime.fromtimestamp(0, UTC)) / timedelta(microseconds=1))


async def differences(
    servers: Servers, engines: tuple[Engine, Engine], other: Entrance, dice: random.Random, noun: str = DELEGATIONS
) -> Found:
    """One script, drawn, played on both sides, and what differs."""
    cannot = {word for name, word in (*CANNOT, *UNSAID) if name == other.name}
    return await compared(servers, engines, other, script(dice, cannot, noun))


async def compared(servers: Servers, engines: tuple[Engine, Engine], other: Entrance, moves_of_it: list[Move]) -> Found:
    """A script, played on both sides, and what differs."""
    (one, here), (two, there) = await servers.world(engines[0], "one"), await servers.world(engines[1], "other")
    number = servers.next()
    busy = [servers.busy[world.server.port] for world in (one, two)]
    sides = [await side_of(one, REFERENCE, number, busy[0]), await side_of(two, other, number, busy[1])]
    for side in sides:
        await play(side, moves_of_it)
    rows = [await written(side, place) for side, place in zip(sides, (here, there), strict=True)]
    found = Found(len(moves_of_it), len(sides[0].ids), sides[1].through, {ROWS: 0, TOLD: 0, SPOKEN: 0}, [])
    for table in TABLES:
        first = _first(rows[0][table], rows[1][table])
        if first:
            found.broken[TOLD if table == "journal" else ROWS] += 1
            found.notes.append(f"{table} {first}")
    if spoken := _first(sides[0].said, sides[1].said):
        found.broken[SPOKEN] += 1
        found.notes.append(f"answers {spoken}")
    if found.notes:
        told = f"http on {engines[0]}, {other.name} on {engines[1]}"
        found.notes.append(f"{told}:\n    " + "\n    ".join(str(each) for each in moves_of_it))
    return found


def _first(ours: list[Any], theirs: list[Any]) -> str:
    """Where two lists differ first; empty if nowhere."""
    for number, (one, other) in enumerate(itertools.zip_longest(ours, theirs)):
        if one != other:
            if not isinstance(one, dict) or not isinstance(other, dict):
                return f"{number}: {one} | {other}"
            told = [(name, one[name], other[name]) for name in one if one[name] != other[name]]
            return f"{number} {one.get('name') or one.get('kind', '')}: {told}"
    return ""


# -- many --------------------------------------------------------------------------------------------------------------


def rota(only: str) -> list[tuple[str, Entrance]]:
    """What the scripts are about, and through which entrance they are played, one after the other: tasks twice by each
    one, each other noun by each one that has more than one word for it. `only`: the one noun that is looked at."""
    about = [(DELEGATIONS, each) for each in OTHERS] * 2
    for noun in SCENES:
        about += [(noun, each) for each in OTHERS if (each.name, noun) not in UNSAID]
    return [each for each in about if only in ("", each[0])]


async def run(setting: Setting) -> Verdict:
    """`setting.size` scripts."""
    verdict = Verdict(dict.fromkeys(_COUNTED, 0), {ROWS: 0, TOLD: 0, SPOKEN: 0})
    engines = ENGINES if setting.engine == "postgres" else ("sqlite",)
    turns = rota(setting.only)
    async with Servers(setting.folder, setting.database) as servers:
        for number in range(setting.size):
            dice = setting.dice("parity", number)
            drawn = (dice.choice(engines), dice.choice(engines))
            noun, other = turns[number % len(turns)]
            is_process = other.name == "cli" and dice.random() < _PROCESSES
            found = await differences(servers, drawn, Process() if is_process else other, dice, noun)
            count(verdict, found, f"script {number} of seed {setting.seed}")
            verdict.figures[_BY_PROCESS] = int(verdict.figures[_BY_PROCESS]) + is_process
    return verdict


def count(verdict: Verdict, found: Found, title: str) -> None:
    """One script more."""
    for name, more in zip(_COUNTED, (1, found.moves, found.tasks, found.through), strict=False):
        verdict.figures[name] = int(verdict.figures[name]) + more
    for name, broken in found.broken.items():
        verdict.zeros[name] += broken
    if found.notes and len(verdict.notes) < _EXAMPLES:
        verdict.notes.append(f"{title}: " + "\n  ".join(found.notes))


if __name__ == "__main__":
    as_a_child(run)
