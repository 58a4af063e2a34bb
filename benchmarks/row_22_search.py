"""Row 22: the search over 1,000,000 messages on SQLite, and what the index costs in the background.

Messages have 40 words on average, drawn so that the most frequent words are in most of them and most words are rare (as
Zipf's law has it for texts). They are indexed as those of an older store, piece by piece; then a person searches for a
word, several, a prefix, a phrase, in all workspaces or in one. A search reads the rows that it found, for snippets.
"""

import itertools
import random
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import apsw
import uvloop

from benchmarks.big_store import BUILD_PRAGMAS, make_empty, open_store
from benchmarks.figures import Failed, Figure, Options, Say
from benchmarks.machine import WORK, percentile
from molecule_core.common.clock import SystemClock
from molecule_core.common.limits import Limits
from molecule_core.messages.model import Activity
from molecule_core.org.model import Org
from molecule_core.org.reader import OrgReader
from molecule_core.org.registry import OrgRegistry
from molecule_core.search.indexer import SearchIndexer
from molecule_core.search.model import SearchKind, SearchRequest
from molecule_core.search.reader import SearchReader
from molecule_core.search.rules import AFTER_NEWEST, parse_query
from molecule_core.search.writer import SearchIndexWriter
from molecule_core.store.queries import load_queries
from molecule_core.store.sqlite.store import SqliteStore
from molecule_core.wire.schemas.activity import ActivityType, MessageKind
from testing.org_trees import seat

MESSAGES, FEW = 1_000_000, 100_000
_WORKSPACES, _WORDS, _QUERIES = 200, 50_000, 1000
_ORG = "01a3185c-5000-7f71-8248-5e3a0a5d2f34"
_FIRST_MICROSECOND = 1_790_000_000_000_000
_MOST_MS = 200.0


class Timing(NamedTuple):
    """Milliseconds of each of many acts, on the clock and of CPU."""

    taken: list[float]
    cpu: list[float]


class Stopwatch:
    """Times acts one after another."""

    def __init__(self) -> None:
        self.timing = Timing([], [])
        self._began = (0.0, 0.0)

    def start(self) -> None:
        """An act begins."""
        self._began = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        """It has ended."""
        self.timing.taken.append((time.perf_counter() - self._began[0]) * 1000)
        self.timing.cpu.append((time.process_time() - self._began[1]) * 1000)


class Indexed(NamedTuple):
    """What the index has cost: CPU microseconds of a message, the time of each piece, sizes of the file."""

    cpu_us: float
    pieces: Timing
    megabytes_before: float
    megabytes: float


class Words:
    """A vocabulary whose words are as frequent as those of texts."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        letters = "abcdefghijklmnopqrstuvwxyz"
        self.all = ["".join(chance.choices(letters, k=chance.randint(2, 11))) for _ in range(_WORDS)]
        self._weights = list(itertools.accumulate(1 / rank for rank in range(1, _WORDS + 1)))

    def draw(self, count: int) -> list[str]:
        """So many words of a text."""
        return self._chance.choices(self.all, cum_weights=self._weights, k=count)


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    WORK.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=WORK) as folder:
        return uvloop.run(_measure(Path(folder) / "molecule.db", options, say))


async def _measure(path: Path, options: Options, say: Say) -> list[Figure]:
    count = FEW if options.quick else MESSAGES
    words = Words(random.Random(options.seed))
    ids = [f"{number:08x}-5000-4f71-8248-5e3a0a5d2f34" for number in range(_WORKSPACES)]
    await make_empty(path)
    _fill(path, count, ids, words)
    say(f"  {count:,} messages are stored")
    org = _org_of(ids)
    store = open_store(path)
    await store.open()
    try:
        indexed = await _index(store, org, path, count)
        say(f"  they are indexed: {indexed.cpu_us:.0f} us CPU a message")
        taken, hits = await _search(SearchReader(store, org, limits=Limits()), ids, words, options)
    finally:
        await store.close()
    if hits < _QUERIES / 2:
        raise Failed(f"only {hits} of {_QUERIES} searches found anything")
    return _figures(count, indexed, taken)


def _fill(path: Path, count: int, ids: list[str], words: Words) -> None:
    insert, position = load_queries("sqlite")["insert_activity"], load_queries("sqlite")["save_search_position"]
    connection = apsw.Connection(str(path))
    for name, value in BUILD_PRAGMAS.items():
        connection.pragma(name, value)
    with connection:
        connection.executemany(insert.sql, (insert.bind(each) for each in _activities(count, ids, words)))
        connection.execute(position.sql, position.bind({"org_id": _ORG, "seq": 0, "backfill": "{}"}))
    connection.close()


def _activities(count: int, ids: list[str], words: Words) -> Iterator[Activity]:
    chance = random.Random(22)
    for row in range(count):
        number, text = row % len(ids), " ".join(words.draw(chance.randint(5, 75)))
        key = f"{row:08x}-5000-7f71-8248-5e3a0a5d2f34"
        message = f'{{"kind":"message","messageId":"{key}","parts":[{{"kind":"text","text":"{text}"}}]}}'
        yield Activity(
            id=key,
            org_id=_ORG,
            workspace_id=ids[number],
            seq=row // len(ids) + 1,
            inbound_no=row // len(ids) + 1,
            activity_type=ActivityType.RECEIVE,
            method="message/send",
            kind=MessageKind.PEER,
            source_id=chance.choice(ids),
            target_id=ids[number],
            sender="",
            created_at=_FIRST_MICROSECOND + row * 600_000,
            summary=text[:80],
            request_body=f'{{"method":"message/send","params":{{"message":{message}}}}}',
        )


def _org_of(ids: list[str]) -> OrgReader:
    registry = OrgRegistry()
    registry.put_org(Org(_ORG, "Org", False, 0))
    registry.put_workspaces([seat(each, _ORG) for each in ids])
    return OrgReader(registry)


def _megabytes(path: Path) -> float:
    return path.stat().st_size / 1e6


async def _index(store: SqliteStore, org: OrgReader, path: Path, count: int) -> Indexed:
    writer = SearchIndexWriter(store, limits=Limits())
    indexer = SearchIndexer(store, org, writer, clock=SystemClock(), limits=Limits())
    indexer.on_commit([f"org:{_ORG}"])
    before, watch, is_behind = _megabytes(path), Stopwatch(), True
    while is_behind:
        watch.start()
        is_behind = await indexer.index_piece()
        watch.stop()
    return Indexed(sum(watch.timing.cpu) / count * 1000, watch.timing, before, _megabytes(path))


async def _search(reader: SearchReader, ids: list[str], words: Words, options: Options) -> tuple[Timing, int]:
    chance, watch, hits = random.Random(options.seed), Stopwatch(), 0
    for _ in range(_QUERIES):
        terms = parse_query(_query(chance, words), 32)
        if terms is None:
            raise Failed("a query has no words")
        workspace = chance.choice(ids) if chance.random() < 0.2 else None
        request = SearchRequest(terms, tuple(SearchKind), workspace, 0, (1 << 62) - 1, AFTER_NEWEST, 20)
        watch.start()
        page = await reader.search(_ORG, request)
        watch.stop()
        hits += bool(page.hits)
    return watch.timing, hits


def _query(chance: random.Random, words: Words) -> str:
    """A word as frequent as in texts, a rare one, two or three, a prefix, or a phrase."""
    kind = chance.randrange(5)
    if kind == 0:
        return words.draw(1)[0]
    if kind == 1:
        return f"{chance.choice(words.all)} "
    if kind == 2:
        return " ".join(words.draw(chance.randint(2, 3)))
    if kind == 3:
        return chance.choice(words.all)[: chance.randint(3, 5)]
    return f'"{" ".join(words.draw(2))}"'


def _figures(count: int, indexed: Indexed, searches: Timing) -> list[Figure]:
    return [
        Figure(
            row=22,
            name=f"a search over {count:,} messages on SQLite, p95",
            value=percentile(searches.taken, 95),
            unit="ms",
            must=_MOST_MS,
            beside=f"{_others(searches.taken)}; CPU p95 {percentile(searches.cpu, 95):.2f}, {_others(searches.cpu)}",
        ),
        Figure(
            row=22,
            name="the index of a message, in the background: CPU",
            value=indexed.cpu_us,
            unit="us",
            beside=f"the file grows from {indexed.megabytes_before:,.0f} to {indexed.megabytes:,.0f} MB",
        ),
        Figure(
            row=22,
            name="a piece of the index: CPU p99",
            value=percentile(indexed.pieces.cpu, 99),
            unit="ms",
            beside=f"{_others(indexed.pieces.cpu)}; on the clock {_others(indexed.pieces.taken)}",
        ),
    ]


def _others(times: list[float]) -> str:
    return f"p50 {percentile(times, 50):.2f}, p99 {percentile(times, 99):.2f}, most {max(times):.1f} ms"
