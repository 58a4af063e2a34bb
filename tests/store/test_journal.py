"""One journal: every fact has its number, no number is missing, and who follows it sees all of it in order."""

import asyncio
import itertools
from typing import Any

import msgspec
import pytest

from molecule_core.common.errors import NotFound
from molecule_core.common.limits import Limits
from molecule_core.store.database import JournalEvent
from molecule_core.store.journal import Journal
from molecule_core.store.postgres import store as postgres_module
from molecule_core.wire.schemas.events import EVENTS, EventDefinition
from testing.clocks import FakeClock, settle
from testing.engines import Engine, new_database
from testing.waits import IN_PROCESS_SECONDS
from tests.requirements import requirement
from tests.store.instrumented_store import Bench, bench_on, event, note, numbered, refuse, write
from tests.store.mutated_modules import WITHOUT_LOCK, changed

ORG = "org"
_WRITERS, _EVENTS_EACH = 4, 60
_ROUNDS_UNTIL_THEY_MEET = 20


@requirement("M31")
@requirement("M31")
async def test_facts_are_numbered_without_a_gap_for_each_organisation_in_the_order_of_commands(bench: Bench) -> None:
    orgs = [f"org {number % 3}" for number in range(30)]
    for batch in range(3):
        commands = (
            write(events=[event(entity=f"{batch}.{place}.{part}") for part in range(2)], org=org)
            for place, org in enumerate(orgs)
        )
        assert await bench.together(*commands) == [None] * 30
    assert bench.sizes == [30, 30, 30]
    journal = Journal(bench.store)
    for which in range(3):
        facts = await journal.read_after(f"org {which}", 0, 1000)
        assert [fact.seq for fact in facts] == list(range(1, 61))
        assert [fact.entity_id for fact in facts] == [
            f"{batch}.{place}.{part}" for batch in range(3) for place in range(which, 30, 3) for part in range(2)
        ]
        assert await journal.last_seq(f"org {which}") == 60


async def test_a_fact_says_what_happened_to_what_when_and_who_may_see_it(bench: Bench, clock: FakeClock) -> None:
    await clock.advance(12)
    told = JournalEvent("WORKSPACE_REMOVED", "w", "workspace", "w", 7, b'{"removed_at":"now"}')
    await bench.run(write(events=[told, JournalEvent("USER_MESSAGE", "w", "activity", "a")]))
    first, second = await Journal(bench.store).read_after(ORG, 0, 10)
    assert msgspec.structs.astuple(first) == (
        1,
        "WORKSPACE_REMOVED",
        "w",
        "peers",
        "workspace",
        "w",
        7,
        clock.now(),
        '{"removed_at":"now"}',
    )
    assert (second.seq, second.audience, second.rev, second.payload) == (2, "workspace", 0, None)


async def test_numbers_go_on_after_a_new_start_and_after_a_refusal(engine: Engine, place: str) -> None:
    async with bench_on(engine, place) as bench:
        await bench.together(write(events=[event()]), refuse(NotFound(what="x")), write(events=[event()]))
        await bench.together(numbered("w"), numbered("w", refusal=NotFound(what="x")), write(events=[event()]))
    async with bench_on(engine, place) as bench:
        await bench.run(write(events=[event()]))
        assert [fact.seq for fact in await Journal(bench.store).read_after(ORG, 0, 10)] == [1, 2, 3, 4]


async def test_a_page_of_the_journal_begins_behind_its_cursor_and_ends_in_time(bench: Bench) -> None:
    journal = Journal(bench.store)
    assert (await journal.read_after(ORG, 0, 10), await journal.last_seq(ORG)) == ([], 0)
    await bench.together(*(write(events=[event()]) for _ in range(5)), write(events=[event()], org="other"))
    assert [fact.seq for fact in await journal.read_after(ORG, 2, 2)] == [3, 4]
    assert await journal.read_after(ORG, 5, 10) == []
    assert [fact.seq for fact in await journal.read_after("other", 0, 10)] == [1]


@requirement("M31", "A3")
@pytest.mark.parametrize("name", ["NO_SUCH_EVENT", *(name for name, shape in EVENTS.items() if not shape.journaled)])
async def test_an_event_of_no_table_or_one_that_passes_cannot_be_journaled_nor_what_its_command_writes(
    bench: Bench, name: str
) -> None:
    outcome = await bench.together(
        write(note("a"), events=[event()], answer="a"),
        write(note("b"), events=[event(name)], answer="b"),
        write(note("c"), events=[event()], answer="c"),
    )
    assert (outcome[0], outcome[2]) == ("a", "c")
    assert isinstance(outcome[1], LookupError)
    assert set(await bench.notes()) == {"note a", "note c"}
    assert [fact.seq for fact in await Journal(bench.store).read_after(ORG, 0, 10)] == [1, 2]


@requirement("A3")
@pytest.mark.parametrize("name", EVENTS)
def test_every_event_has_a_payload_that_says_what_it_is(name: str) -> None:
    shape: EventDefinition = EVENTS[name]
    assert name == name.upper()
    assert shape.audience in ("workspace", "peers", "children", "persons")
    assert issubclass(shape.payload, msgspec.Struct)
    assert (vars(shape.payload).get("__doc__") or "").strip()
    assert msgspec.json.schema(shape.payload)["$defs"]


# -- following while others write --------------------------------------------------------------------------------------


class Followed:
    """What came of writing with several stores while a reader followed."""

    def __init__(self) -> None:
        self.failed: list[BaseException] = []
        self.seen: list[int] = []
        self.writers: list[str] = []
        self.pages_before_the_end = 0

    @property
    def skipped(self) -> int:
        """Numbers that the reader never got."""
        return len(set(range(1, max(self.seen, default=0) + 1)) - set(self.seen))

    @property
    def turns(self) -> int:
        """How often one writer's fact follows another's: that they really wrote at the same time."""
        return sum(one != other for one, other in itertools.pairwise(self.writers))


async def _write_and_follow(benches: list[Bench], reader: Bench) -> Followed:
    found = Followed()
    writing = asyncio.gather(*(_write(bench, f"writer {place}", found) for place, bench in enumerate(benches)))
    journal = Journal(reader.store)
    async with asyncio.timeout(IN_PROCESS_SECONDS * 4):
        ended = False
        while not ended:
            ended = writing.done()  # asked before the last look, so that the last look sees all
            facts = await journal.read_after(ORG, found.seen[-1] if found.seen else 0, 7)
            found.seen += [fact.seq for fact in facts]
            found.writers += [fact.workspace_id for fact in facts]
            found.pages_before_the_end += bool(facts) and not ended
            ended = ended and not facts
            await settle(1)
        await writing
    return found


def _again(bench: Bench) -> int:
    """How many commands the store had to run once more, because another writer had taken their number."""
    return sum(bench.sizes) - len({id(command) for group in bench.groups for command in group})


async def _write(bench: Bench, name: str, found: Followed) -> None:
    """Three at a time, so that the groups of all writers stay small and alternate."""
    for _ in range(_EVENTS_EACH // 3):
        tasks = [
            bench.store.run(write(events=[JournalEvent("ACTIVITY_LOGGED", name, "activity", "a")])) for _ in range(3)
        ]
        outcome: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
        found.failed += [each for each in outcome if isinstance(each, BaseException)]


@requirement("M16", "M31")
@requirement("M16", "M31")
async def test_a_reader_skips_nothing_while_four_servers_write_to_one_database(postgres: str) -> None:
    place = await new_database(postgres)
    async with (
        bench_on("postgres", place) as one,
        bench_on("postgres", place) as two,
        bench_on("postgres", place) as three,
        bench_on("postgres", place) as four,
        bench_on("postgres", place) as reader,
    ):
        found = await _write_and_follow([one, two, three, four], reader)
    assert found.failed == []
    assert found.skipped == 0
    assert sum(map(_again, (one, two, three, four))) == 0
    assert found.seen == list(range(1, _WRITERS * _EVENTS_EACH + 1))
    assert found.turns > _WRITERS
    assert found.pages_before_the_end > _WRITERS


@requirement("M16", "M31")
async def test_a_reader_skips_nothing_while_many_tasks_write_to_one_store(engine: Engine, place: str) -> None:
    async with bench_on(engine, place, limits=Limits(group_commands=5)) as bench:
        found = await _write_and_follow([bench] * _WRITERS, bench)
    assert (found.failed, found.skipped) == ([], 0)
    assert found.seen == list(range(1, _WRITERS * _EVENTS_EACH + 1))
    assert found.turns > _WRITERS
    assert found.pages_before_the_end > _WRITERS


async def test_without_the_lock_of_the_organisation_the_same_writers_get_in_each_others_way(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the two tests above: the product, but for its lock."""
    unlocked = changed(postgres_module, WITHOUT_LOCK)
    monkeypatch.setattr("testing.engines.PostgresStore", unlocked.PostgresStore)
    place = await new_database(postgres)
    async with (
        bench_on("postgres", place) as one,
        bench_on("postgres", place) as other,
    ):
        met = 0
        for _ in range(_ROUNDS_UNTIL_THEY_MEET):  # a busy machine may let one finish before the other begins
            found = await _write_and_follow([one, other], one)
            met += len(found.failed) + found.skipped + _again(one) + _again(other)
            if met:
                break
    assert met > 0
