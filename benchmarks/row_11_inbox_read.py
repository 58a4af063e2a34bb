"""Row 11: an inbox read behind a cursor must not slow down as the log grows: ten million rows against 100,000.

The read is `MessageReader.after` on the product's SqliteStore, the very call behind GET /activity?since_id=. Each read
picks a workspace and a place in its log at random and gets the next page. Both stores are read in turns within a
round, the same number of rows each time; the ratio is of CPU time. The files lie in the system's cache (both are read
once before), so this compares the depth of the trees and the spread of the rows, not two disks.
"""

import asyncio
import random
import time
from collections.abc import Sequence

import uvloop
from msgspec import Struct

from benchmarks.big_store import BIG, QUICK_BIG, SMALL, WORKSPACES, Filled, filled, open_store, workspace_id
from benchmarks.figures import Failed, Figure, Options, Say
from benchmarks.machine import median, percentile
from molecule_core.common.clock import SystemClock
from molecule_core.common.limits import Limits
from molecule_core.messages.model import ActivityFilters
from molecule_core.messages.reader import MessageReader
from molecule_core.org.reader import OrgReader
from molecule_core.org.registry import OrgRegistry
from molecule_core.store.database import Store
from molecule_core.store.wakeups import Notifier
from molecule_core.wire.schemas.activity import ActivityType

INBOX = ActivityFilters(activity_type=ActivityType.RECEIVE)
_READS, _FEW = 4000, 1000
_PAGE, _LATEST = 20, 1
# Behind any cursor there must be a full page of inbound rows, three of four.
_ROOM = _PAGE * 2

Cursor = tuple[str, int]


class Timing(Struct, frozen=True):
    """Many reads: CPU microseconds each, and the time each took in milliseconds."""

    cpu_us: float
    taken_ms: list[float]


def reader_on(store: Store) -> MessageReader:
    """The product's reader."""
    wakeups = Notifier(SystemClock())
    return MessageReader(store, OrgReader(OrgRegistry()), wakeups, limits=Limits(), public_url="http://localhost")


def cursors(rows_each: int, count: int, chance: random.Random, *, page: int) -> list[Cursor]:
    """Places to read from; for a page of one, those right before the newest inbound row."""
    ids = [workspace_id(number) for number in range(WORKSPACES)]
    newest = rows_each - 2 if rows_each % 4 == 0 else rows_each - 1
    if page == _LATEST:
        return [(chance.choice(ids), newest) for _ in range(count)]
    return [(chance.choice(ids), chance.randrange(rows_each - _ROOM)) for _ in range(count)]


async def read_all(reader: MessageReader, places: Sequence[Cursor], page: int) -> Timing:
    """Reads a page behind each cursor, and insists that it is full."""
    taken = []
    cpu = time.process_time()
    for workspace, seq in places:
        start = time.perf_counter()
        rows = await reader.list_after(workspace, seq, INBOX, page)
        taken.append((time.perf_counter() - start) * 1000)
        if len(rows) != page:
            raise Failed(f"{len(rows)} rows behind {seq}, expected {page}")
    return Timing((time.process_time() - cpu) / len(places) * 1e6, taken)


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    small, big = filled(SMALL, say), filled(QUICK_BIG if options.quick else BIG, say)
    return uvloop.run(_measure(small, big, options, say))


async def _measure(small: Filled, big: Filled, options: Options, say: Say) -> list[Figure]:
    stores = [open_store(each.path) for each in (small, big)]
    try:
        for store in stores:
            await store.open()
        page = await _compare(stores, (small, big), options, say, page=_PAGE)
        latest = await _compare(stores, (small, big), options, say, page=_LATEST)
    finally:
        for store in stores:
            await store.close()
    return _figures(big.rows, page, latest)


class Compared(Struct, frozen=True):
    """Both stores over all rounds."""

    ratio: float
    small_us: float
    big_us: float
    big_p50_ms: float
    big_p99_ms: float


async def _compare(
    stores: Sequence[Store], sizes: Sequence[Filled], options: Options, say: Say, *, page: int
) -> Compared:
    readers = [reader_on(store) for store in stores]
    count = _FEW if options.quick else _READS
    chance = random.Random(options.seed)
    places = [cursors(size.rows_each, count, chance, page=page) for size in sizes]
    for reader, wanted in zip(readers, places, strict=True):
        await read_all(reader, wanted, page)
    rounds = []
    for number in range(1, options.rounds + 1):
        timings = [await read_all(reader, wanted, page) for reader, wanted in zip(readers, places, strict=True)]
        rounds.append(timings)
        say(f"  round {number}, {_rows(page)}: {' and '.join(_tale(each) for each in timings)}")
        await asyncio.sleep(0)
    taken = [each for _, timing in rounds for each in timing.taken_ms]
    return Compared(
        ratio=median([big.cpu_us / small.cpu_us for small, big in rounds]),
        small_us=median([small.cpu_us for small, _ in rounds]),
        big_us=median([big.cpu_us for _, big in rounds]),
        big_p50_ms=percentile(taken, 50),
        big_p99_ms=percentile(taken, 99),
    )


def _rows(page: int) -> str:
    return "the newest row" if page == _LATEST else f"{page} rows from anywhere"


def _tale(timing: Timing) -> str:
    p50, p99 = percentile(timing.taken_ms, 50), percentile(timing.taken_ms, 99)
    return f"{timing.cpu_us:.1f} us CPU (p50 {p50:.3f}, p99 {p99:.3f} ms)"


def _figures(rows: int, page: Compared, latest: Compared) -> list[Figure]:
    return [
        Figure(
            row=11,
            name=f"inbox behind a cursor, {_PAGE} rows: {rows:,} against {SMALL:,} rows",
            value=page.ratio,
            unit="x",
            must=4.5,
            goal=3.0,
            beside=f"{SMALL:,} rows {page.small_us:.0f} us, {rows:,} rows {page.big_us:.0f} us CPU",
        ),
        Figure(
            row=11,
            name=f"the same at {rows:,} rows, CPU of one read",
            value=page.big_us / 1000,
            unit="ms",
            must=1.0,
            beside=f"on the clock p50 {page.big_p50_ms:.3f}, p99 {page.big_p99_ms:.3f} ms",
        ),
        Figure(
            row=11,
            name="only the newest row, as a poll reads it: ratio",
            value=latest.ratio,
            unit="x",
            beside=f"{latest.small_us:.0f} and {latest.big_us:.0f} us CPU, p99 {latest.big_p99_ms:.3f} ms",
        ),
    ]
