"""Stores with very many rows, made once and kept under .bench/ as long as the schema stays the same.

The rows look like those of a company at work: a thousand workspaces, whose messages arrive mixed, so that the rows of
one workspace lie far apart in the file; three of four rows are inbound, bodies have about 300 bytes. They go through
the package's own schema and its own statement; only the disk is not waited for, and indexes are made last.
"""

import asyncio
import hashlib
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import apsw
from msgspec import Struct

from benchmarks.figures import Failed, Say
from benchmarks.machine import WORK
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.common.limits import Limits
from molecule_core.messages.model import Activity
from molecule_core.store.queries import load_queries, load_schema
from molecule_core.store.sqlite.store import DATABASE_FILE, SqliteStore
from molecule_core.wire.schemas.activity import ActivityType, MessageKind

# Raise it when the rows made here change: stores that were filled before are then filled anew.
_EDITION = "1"
WORKSPACES = 1000
SMALL, BIG, QUICK_BIG = 100_000, 10_000_000, 1_000_000
_TEXT_BYTES = 160  # about 300 with the JSON around it
_BYTES_A_ROW = 1600  # with indexes, rounded up: what the disk must have free before we begin
_FIRST_MICROSECOND = 1_790_000_000_000_000
BUILD_PRAGMAS = {"journal_mode": "off", "synchronous": "off", "locking_mode": "exclusive", "cache_size": -1_000_000}
_INBOUND_OF_FOUR = 3


class DiskTooFull(Failed):
    """There is no room for the big store; --quick makes a tenth of it."""


class Filled(Struct, frozen=True):
    """A filled store: each of its workspaces holds `rows_each` rows."""

    path: Path
    rows: int

    @property
    def rows_each(self) -> int:
        """How many rows each workspace holds."""
        return self.rows // WORKSPACES

    @property
    def megabytes(self) -> float:
        """The size of the file."""
        return self.path.stat().st_size / 1e6


def workspace_id(number: int) -> str:
    """The id of a workspace of a filled store."""
    return _uuid(0, number)


def row_id(row: int) -> str:
    """The id of the row that came so many rows after the first one; ids grow with time, as the product's do."""
    return _uuid(1 + row, row * 0x9E3779B97F4A7C15 % (1 << 62))


def _uuid(high: int, low: int) -> str:
    text = f"{(0x019C << 32) + high:012x}7{low >> 60 & 0xFFF:03x}{0x8000000000000000 | low & (1 << 62) - 1:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def filled(rows: int, say: Say) -> Filled:
    """A store with so many rows, from an earlier run if that made one with the same schema."""
    folder = WORK / f"store-{rows}-{_fingerprint()}"
    made = Filled(folder / DATABASE_FILE, rows)
    if not folder.is_dir():
        _drop_older(rows)
        _check_disk(rows)
        say(f"  filling a store with {rows:,} rows; it is kept in {WORK.name}/ for the next run")
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        fill(part / DATABASE_FILE, rows, say)
        part.rename(folder)
    say(f"  {rows:,} rows, {WORKSPACES} workspaces: {made.megabytes:,.0f} MB")
    return made


def _fingerprint() -> str:
    """Changes with what decides what a filled store holds: the schema, the statement, the rows made here."""
    parts = (load_schema("sqlite"), load_queries("sqlite")["insert_activity"].sql, _EDITION)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _drop_older(rows: int) -> None:
    for old in WORK.glob(f"store-{rows}-*"):
        shutil.rmtree(old)


def _check_disk(rows: int) -> None:
    WORK.mkdir(exist_ok=True)
    free = shutil.disk_usage(WORK).free
    if free < rows * _BYTES_A_ROW:
        raise DiskTooFull(f"{rows * _BYTES_A_ROW / 1e9:.0f} GB are needed, {free / 1e9:.0f} GB are free")


def fill(path: Path, rows: int, say: Say) -> None:
    """Makes a store with so many rows."""
    asyncio.run(make_empty(path))
    insert = load_queries("sqlite")["insert_activity"]
    connection = apsw.Connection(str(path))
    for name, value in BUILD_PRAGMAS.items():
        connection.pragma(name, value)
    with connection:
        indexes = _take_indexes(connection)
        connection.executemany(insert.sql, (insert.bind(each) for each in _activities(rows, say)))
        for sql in indexes:
            connection.execute(sql)
            say(f"    {sql.split(' ON ')[0]}")
    connection.close()


def _take_indexes(connection: apsw.Connection) -> list[str]:
    """Drops the indexes of the table that is to be filled; returns the statements that make them again, which is
    cheaper once all rows are there."""
    wish = "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'activities' AND sql IS NOT NULL"
    found = connection.execute(wish).fetchall()
    for name, _ in found:
        connection.execute(f'DROP INDEX "{name}"')
    return [str(sql) for _, sql in found]


async def make_empty(path: Path) -> None:
    """Make an empty store."""
    store = open_store(path)
    await store.open()
    await store.close()


def open_store(path: Path) -> SqliteStore:
    """The product's store on a file, not yet opened."""
    clock = SystemClock()
    return SqliteStore(
        path, clock=clock, ids=IdGenerator(clock, SystemRandomness()), limits=Limits(), notify=lambda _keys: None
    )


def _activities(rows: int, say: Say) -> Iterator[Activity]:
    """The rows in the order in which they came: each round, every workspace gets one, in another order."""
    chance = random.Random(1)
    ids = [workspace_id(number) for number in range(WORKSPACES)]
    order = list(range(WORKSPACES))
    texts = [_text(chance) for _ in range(256)]
    for round_number in range(rows // WORKSPACES):
        chance.shuffle(order)
        for place, number in enumerate(order):
            row = round_number * WORKSPACES + place
            yield _activity(row, round_number + 1, ids[number], ids[order[place - 1]], texts[row % 256])
        if (round_number + 1) * WORKSPACES % 1_000_000 == 0:
            say(f"    {(round_number + 1) * WORKSPACES:,} rows")


def _activity(row: int, seq: int, receiver: str, sender: str, text: str) -> Activity:
    """One row: two of four from a peer, one from a user, one that the workspace wrote itself."""
    turn = seq % 4
    inbound, from_user, key = turn != 0, turn == _INBOUND_OF_FOUR, row_id(row)
    message = f'{{"kind":"message","role":"user","messageId":"{key}","parts":[{{"kind":"text","text":"{text}"}}]}}'
    return Activity(
        id=key,
        org_id=_uuid(0, WORKSPACES),
        workspace_id=receiver,
        seq=seq,
        inbound_no=seq - seq // 4 if inbound else None,
        chat=int(from_user),
        size=len(message) + 30,
        activity_type=ActivityType.RECEIVE if inbound else ActivityType.SEND,
        method="message/send",
        kind=(MessageKind.USER if from_user else MessageKind.PEER) if inbound else None,
        intent="request",
        source_id=None if from_user else sender if inbound else receiver,
        target_id=receiver if inbound else sender,
        sender=f"workspace:{sender if inbound else receiver}",
        dedupe_key=key,
        content_hash=key.replace("-", ""),
        context_id=key,
        created_at=_FIRST_MICROSECOND + row * 1000,
        summary=text[:80],
        request_body=f'{{"method":"message/send","params":{{"message":{message}}}}}',
    )


def _text(chance: random.Random) -> str:
    return "".join(chance.choice("abcdefghij klmnopqrst uvwxyz") for _ in range(_TEXT_BYTES))
