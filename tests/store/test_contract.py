"""What every store promises to those who run commands: answers, refusals, groups, order, numbers."""

import asyncio
import random
import string
from pathlib import Path
from typing import Any

import apsw
import pytest

from molecule_core.common.errors import InvalidField, NotFound, ServerBusy, StoreUnavailable
from molecule_core.common.limits import Limits
from molecule_core.store.database import (
    Command,
    CommandSteps,
    CurrentNumber,
    ReadQuery,
    Statement,
    WriteConflict,
    WriteSet,
)
from testing.clocks import settle
from testing.engines import Engine, place_for
from testing.waits import IN_PROCESS_SECONDS
from tests.requirements import requirement
from tests.store.instrumented_store import (
    Bench,
    adding,
    bench_on,
    commits_held,
    note,
    numbered,
    person,
    refuse,
    write,
)

# -- answers -----------------------------------------------------------------------------------------------------------


@requirement("P1", "M14")
async def test_an_answer_comes_only_after_the_commit(bench: Bench) -> None:
    told: list[str] = []
    async with commits_held(bench) as hold:
        (running,) = await bench.started(
            write(note("a", "1"), answer="done", rings=("bell",), then=lambda: told.append("then"))
        )
        await hold.reached()
        await settle()
        before = (running.done(), list(told), list(bench.rung), await bench.notes())
        own_reads = list(await bench.store.rows("meta_value", {"name": "note a"}))
        await hold.release()
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            answer = await running

    assert before == (False, [], [], {})
    assert own_reads == []
    assert answer == "done"
    assert (told, bench.rung, await bench.notes()) == (["then"], ["bell"], {"note a": "1"})


@requirement("P1", "M14")
async def test_a_commit_on_the_loop_is_over_too_before_anybody_hears_of_it(tmp_path: Path) -> None:
    """A quick disk is waited for on the event loop (SQLite only)."""
    told: list[str] = []
    at_commit: list[tuple[bool, list[str], list[str]]] = []
    async with bench_on("sqlite", str(tmp_path / "molecule.db")) as bench:
        future = bench.store.run(write(note("a"), answer="done", rings=("bell",), then=lambda: told.append("then")))

        def hook() -> bool:
            at_commit.append((future.done(), list(told), list(bench.rung)))
            return False

        bench.store._write_connection.set_commit_hook(hook)
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            assert await future == "done"
        assert (told, bench.rung) == (["then"], ["bell"])
    assert at_commit == [(False, [], [])]


async def test_what_was_answered_is_there_for_everybody(bench: Bench) -> None:
    assert await bench.run(write(note("a", "1"), answer=42)) == 42
    assert [tuple(row) for row in await bench.store.rows("meta_value", {"name": "note a"})] == [("1",)]
    assert await bench.notes() == {"note a": "1"}


async def test_then_runs_before_the_caller_goes_on(bench: Bench) -> None:
    order: list[str] = []

    async def caller() -> None:
        await bench.run(write(note("a"), then=lambda: order.append("then")))
        order.append("caller")

    await caller()
    assert order == ["then", "caller"]


async def test_a_command_that_only_reads_is_answered_too(bench: Bench) -> None:
    await bench.run(write(note("a", "1")))

    def decide() -> CommandSteps[Any]:
        rows = yield ReadQuery("meta_value", {"name": "note a"})
        return WriteSet([tuple(row) for row in rows])

    assert await bench.run(Command("org", (), decide)) == [("1",)]


async def test_the_memory_of_a_command_that_wrote_nothing_is_brought_up_to_date_too(bench: Bench) -> None:
    told: list[str] = []
    await bench.run(write(then=lambda: told.append("then")))
    assert told == ["then"]


# -- refusals and mistakes ---------------------------------------------------------------------------------------------


@requirement("P1")
async def test_a_refusal_leaves_nothing_and_the_others_of_the_group_go_on(bench: Bench) -> None:
    refusal = NotFound(what="thing")
    outcome = await bench.together(
        write(note("a"), answer="a", rings=("a",)),
        refuse(refusal),
        write(note("c"), answer="c", rings=("c",)),
    )
    assert outcome == ["a", refusal, "c"]
    assert bench.sizes == [3]
    assert set(await bench.notes()) == {"note a", "note c"}
    assert bench.rung == ["a", "c"]


@requirement("P1")
async def test_what_comes_a_turn_later_shares_the_commit(bench: Bench) -> None:
    first = await bench.started(write(note("a"), answer="a"))
    later = await bench.started(write(note("b"), answer="b"))
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        assert await asyncio.gather(*first, *later) == ["a", "b"]
    assert bench.sizes == [2]


async def test_a_group_of_refusals_alone_changes_nothing(bench: Bench) -> None:
    refusals = [NotFound(what="thing"), InvalidField(reason="so")]
    assert await bench.together(*(refuse(each) for each in refusals)) == refusals
    assert await bench.notes() == {}
    assert bench.rung == []


async def test_a_mistake_in_a_decision_reaches_its_caller_only(bench: Bench) -> None:
    mistake = ValueError("a mistake")
    outcome = await bench.together(write(note("a"), answer="a"), refuse(mistake), write(note("c"), answer="c"))
    assert outcome == ["a", mistake, "c"]
    assert bench.sizes == [3]
    assert set(await bench.notes()) == {"note a", "note c"}
    assert await bench.run(write(answer="on")) == "on"


async def test_a_mistake_after_a_number_was_taken_reaches_its_caller_as_itself(bench: Bench) -> None:
    mistake = ValueError("a mistake")
    outcome = await bench.together(numbered("w"), numbered("w", refusal=mistake), numbered("w"))
    assert outcome == [1, mistake, 2]


def _reading(step: ReadQuery | CurrentNumber) -> Command[Any]:
    def decide() -> CommandSteps[Any]:
        yield step
        return WriteSet(None)

    return Command("org", (), decide)


# Of letters in no order, which no engine makes smaller.
_LONG = "".join(random.Random(7).choices(string.ascii_letters, k=9_000))
MISTAKES = {
    "reads an unknown query": _reading(ReadQuery("no_such_query", {})),
    "reads without a parameter": _reading(ReadQuery("meta_value", {})),
    "counts by an unknown query": _reading(CurrentNumber("no_such_query", "w")),
    "reads with a value of no type": _reading(ReadQuery("meta_value", {"name": object()})),
    "writes an unknown query": write(("no_such_query", {})),
    "writes without a parameter": write(("set_meta", {"name": "note x"})),
    "writes a value of no type": write(("set_meta", {"name": "note x", "value": object()})),
    "writes a value of another type": write(("set_timer", {"kind": "k", "key": "k", "due": "soon"})),
    "writes a key longer than an index takes": write(("set_meta", {"name": _LONG, "value": "x"})),
}
_SQLITE_TAKES = ("writes a value of another type", "writes a key longer than an index takes")


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_command_that_asks_nonsense_fails_alone_and_the_store_goes_on(bench: Bench, mistake: str) -> None:
    outcome = await bench.together(write(note("a"), answer="a"), MISTAKES[mistake], write(note("c"), answer="c"))
    if bench.engine == "sqlite" and mistake in _SQLITE_TAKES:
        assert outcome[1] is None  # SQLite takes any value in these tables; no engine may punish the others for it
    else:
        assert isinstance(outcome[1], Exception)
    assert (outcome[0], outcome[2]) == ("a", "c")
    assert await bench.run(write(answer="on")) == "on"
    assert set(await bench.notes()) == {"note a", "note c"}


async def test_a_mistake_while_memory_is_brought_up_to_date_does_not_stop_the_others(bench: Bench) -> None:
    def mistake() -> None:
        raise ValueError("a mistake")

    outcome = await bench.together(write(note("a"), then=mistake), write(note("b"), answer="b", rings=("b",)))
    assert outcome[1] == "b"
    assert set(await bench.notes()) == {"note a", "note b"}
    assert bench.rung == ["b"]
    assert await bench.run(write(answer="on")) == "on"


async def test_a_broken_constraint_replays_the_group_and_only_the_culprit_fails(bench: Bench) -> None:
    outcome = await bench.together(
        *(write(person(number), note(str(place)), answer=place) for place, number in enumerate((1, 2, 1, 3)))
    )
    assert outcome[:2] + outcome[3:] == [0, 1, 3]
    assert isinstance(outcome[2], WriteConflict)
    assert bench.sizes == [4, 1, 1, 1, 1]
    assert await bench.seen("SELECT id FROM persons ORDER BY id") == [("p1",), ("p2",), ("p3",)]
    assert set(await bench.notes()) == {"note 0", "note 1", "note 3"}


async def test_a_replayed_command_decides_afresh_and_rings_once(bench: Bench) -> None:
    decided: list[int] = []

    def decide() -> CommandSteps[int]:
        rows = yield ReadQuery("persons_of_org", {"org_id": "org"})
        decided.append(len(rows))
        return WriteSet(len(rows), [note("seen", str(len(rows)))], notify=("seen",))

    await bench.run(write(person(1)))
    outcome = await bench.together(write(person(2)), write(person(1)), Command("org", (), decide))
    assert isinstance(outcome[1], WriteConflict)
    assert (outcome[2], decided) == (2, [1, 2])
    assert await bench.notes() == {"note seen": "2"}
    assert bench.rung == ["seen"]


# -- groups ------------------------------------------------------------------------------------------------------------


async def test_commands_that_share_a_key_go_one_after_the_other_and_see_what_was_left(bench: Bench) -> None:
    commands = [adding("total", keys=(("counter",),)) for _ in range(20)]
    others = [write(note(str(number)), answer="other") for number in range(20)]
    interleaved = [each for pair in zip(commands, others, strict=True) for each in pair]

    outcome = await bench.together(*interleaved)

    assert outcome[::2] == list(range(1, 21))
    assert outcome[1::2] == ["other"] * 20
    assert bench.sizes == [21, *[1] * 19]
    assert (await bench.notes())["note total"] == "20"


async def test_without_a_shared_key_such_commands_would_not_see_each_other(bench: Bench) -> None:
    """The control of the test above: the key is what makes its sum right."""
    assert await bench.together(*(adding("total", keys=()) for _ in range(20))) == [1] * 20
    assert bench.sizes == [20]


async def test_one_shared_key_of_several_is_enough(bench: Bench) -> None:
    keys = [("a",), ("b", "a"), ("b",), ("c",)]
    outcome = await bench.together(*(adding("total" if "c" not in each else "own", keys=each) for each in keys))
    assert outcome == [1, 2, 3, 1]
    assert bench.sizes == [2, 1, 1]


async def test_a_command_that_is_alone_shares_no_group(bench: Bench) -> None:
    outcome = await bench.together(
        adding("total", keys=("a",)),
        adding("other", keys=("b",)),
        adding("total", 10, keys=(), alone=True),
        adding("total", 100, keys=("a",)),
        adding("other", keys=("b",)),
    )
    assert outcome == [1, 1, 11, 111, 2]
    assert bench.sizes == [2, 1, 2]


async def test_two_commands_that_are_alone_do_not_share_a_group_either(bench: Bench) -> None:
    assert await bench.together(*(adding("total", keys=(), alone=True) for _ in range(3))) == [1, 2, 3]
    assert bench.sizes == [1, 1, 1]


async def test_a_group_holds_no_more_than_its_limit(engine: Engine, place: str) -> None:
    async with bench_on(engine, place, limits=Limits(group_commands=4)) as bench:
        outcome = await bench.together(*(write(note(str(number)), answer=number) for number in range(10)))
        assert outcome == list(range(10))
        assert bench.sizes == [4, 4, 2]


@requirement("O2")
async def test_more_waiting_commands_than_the_limit_are_refused_until_there_is_room(engine: Engine, place: str) -> None:
    async with bench_on(engine, place, limits=Limits(waiting_commands=3)) as bench:
        outcome = await bench.together(*(write(note(str(number)), answer=number) for number in range(4)))
        assert outcome[:3] == [0, 1, 2]
        assert isinstance(outcome[3], ServerBusy)
        assert set(await bench.notes()) == {"note 0", "note 1", "note 2"}
        assert await bench.run(write(answer="room")) == "room"


async def test_of_a_large_group_only_what_broke_a_constraint_is_refused(bench: Bench) -> None:
    commands = [write(person(number % 40), answer=number) for number in range(41)]
    outcome = await bench.together(*commands)
    assert outcome[:40] == list(range(40))
    assert isinstance(outcome[40], WriteConflict)
    assert await bench.seen("SELECT count(*) FROM persons") == [(40,)]


class _Spied:
    """A connection that notes how many rows it takes at once, and by which road."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.batches: list[tuple[str, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def executemany(self, sql: str, rows: Any) -> Any:
        rows = list(rows)
        if rows:
            self.batches.append((sql.split()[2], len(rows)))
        return self._inner.executemany(sql, rows)

    def copy_records_to_table(self, table: str, *, columns: list[str], records: Any) -> Any:
        self.batches.append((table, len(records)))
        return self._inner.copy_records_to_table(table, columns=columns, records=records)


async def test_equal_statements_of_a_group_run_together(bench: Bench) -> None:
    bench.store._write_connection = spied = _Spied(bench.store._write_connection)
    await bench.together(*(write(note(str(n)), person(n), note(f"more {n}")) for n in range(30)))
    assert spied.batches == [("meta", 30), ("persons", 30), ("meta", 30)]


async def test_a_group_leaves_the_same_as_its_commands_one_by_one(
    engine: Engine, place: str, tmp_path: Path, postgres: str
) -> None:
    (tmp_path / "second").mkdir()
    other_place = await place_for(engine, tmp_path / "second", postgres)
    tables = (
        "SELECT name, value FROM meta WHERE name LIKE 'note %' ORDER BY name",
        "SELECT kind, key, due FROM timers ORDER BY kind, key",
        "SELECT id, name FROM persons ORDER BY id",
    )
    async with bench_on(engine, place) as grouped, bench_on(engine, other_place) as single:
        for seed in range(8):
            chance = random.Random(seed)
            plans = [_statements(chance, own=f"{seed}.{number}") for number in range(40)]
            assert await grouped.together(*(write(*plan) for plan in plans)) == [None] * len(plans)
            for plan in plans:
                await single.run(write(*plan))
            assert grouped.sizes == [40] * (seed + 1)
            assert single.sizes == [1] * 40 * (seed + 1)
            for sql in tables:
                assert await grouped.seen(sql) == await single.seen(sql) != [], f"seed {seed}"


async def test_the_statements_of_a_command_run_in_their_order_also_within_a_group(bench: Bench) -> None:
    plans = [
        [note(f"{number} {step % 2}", str(step)) for step in range(number, number + 2 + number % 4)]
        for number in range(20)
    ]
    await bench.together(*(write(*plan) for plan in plans))
    assert bench.sizes == [20]
    last = {str(row["name"]): str(row["value"]) for plan in plans for _, row in plan}  # type: ignore[index]
    assert await bench.notes() == last


async def test_what_only_reads_cannot_write(tmp_path: Path) -> None:
    """SQLite: the connection for reads is a second one, and another writer would break the one-writer rule."""
    async with bench_on("sqlite", str(tmp_path / "molecule.db")) as bench:
        with pytest.raises(StoreUnavailable):
            await bench.store.rows(*note("a", "1"))
        assert await bench.notes() == {}


def _statements(chance: random.Random, own: str) -> list[Statement]:
    """Statements on rows of one's own, several of them on the same row: their order counts."""
    found: list[Statement] = [person(own)]
    for step in range(chance.randrange(2, 7)):
        if chance.random() < 0.5:
            found.append(note(f"{own} {chance.randrange(2)}", str(step)))
        else:
            found.append(("set_timer", {"kind": own, "key": str(chance.randrange(2)), "due": step}))
    return found[chance.randrange(2) :] or found


@pytest.mark.parametrize(("query", "params"), [("meta_value", {"name": "note a"}), ("all_orgs", {})])
async def test_commands_of_one_group_may_read_the_same_query(bench: Bench, query: str, params: dict[str, str]) -> None:
    def decide() -> CommandSteps[Any]:
        rows = yield ReadQuery(query, params)
        return WriteSet([row[0] for row in rows])

    org = {"id": "o", "name": "O", "allow_skip_level": 0, "created_at": 0}
    await bench.run(write(note("a", "1"), ("insert_org", org)))
    first, second = await bench.together(*(Command("org", (), decide) for _ in range(2)))
    assert first == second == ["1" if query == "meta_value" else "o"]
    assert bench.sizes == [1, 2]


# -- callers that leave, and the end -----------------------------------------------------------------------------------


@requirement("P1")
async def test_a_caller_that_goes_away_does_not_undo_its_command(bench: Bench) -> None:
    told: list[str] = []
    async with commits_held(bench) as hold:
        first, second = await bench.started(
            write(note("a"), rings=("a",), then=lambda: told.append("then")), write(note("b"), answer="b")
        )
        await hold.reached()
        first.cancel()
        await settle()
        await hold.release()
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            assert await second == "b"
    assert first.cancelled()
    assert (told, bench.rung) == (["then"], ["a"])
    assert set(await bench.notes()) == {"note a", "note b"}


async def test_a_caller_that_goes_away_before_its_turn_does_not_undo_its_command(bench: Bench) -> None:
    async with commits_held(bench) as hold:
        (first,) = await bench.started(write(note("a")))
        await hold.reached()
        (second,) = await bench.started(write(note("b")))
        second.cancel()
        await settle()
        await hold.release()
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            await first
    assert second.cancelled()
    await bench.run(write(answer="on"))
    assert set(await bench.notes()) == {"note a", "note b"}


@requirement("P1")
async def test_a_number_that_cannot_be_read_is_a_store_that_is_unavailable(tmp_path: Path) -> None:
    """SQLite: whoever asks for mail looks at the highest number first, and a disk that fails is no mistake of ours."""
    opened: list[apsw.Connection] = []
    apsw.connection_hooks.append(opened.append)
    try:
        async with bench_on("sqlite", str(tmp_path / "molecule.db")) as bench:
            _, reading = opened
            reading.set_progress_handler(lambda: True, 1)
            with pytest.raises(StoreUnavailable):
                bench.store.last_known_number("last_seq", "w")
            reading.set_progress_handler(None)
            assert bench.store.last_known_number("last_seq", "w") == 0
    finally:
        apsw.connection_hooks.remove(opened.append)


@requirement("P1", "O1")
async def test_closing_finishes_what_was_accepted_and_takes_nothing_more(engine: Engine, place: str) -> None:
    async with bench_on(engine, place, limits=Limits(group_commands=3)) as bench:
        futures = [bench.store.run(write(note(str(number)), answer=number, keys=(number % 4,))) for number in range(20)]
        await bench.close()
        assert [future.done() for future in futures] == [True] * 20
        assert [future.result() for future in futures] == list(range(20))
        assert max(bench.sizes) == 3
        with pytest.raises(StoreUnavailable):
            await bench.run(write(note("late")))
        with pytest.raises(StoreUnavailable):
            await bench.store.rows("meta_value", {"name": "epoch"})
        assert set(await bench.notes()) == {f"note {number}" for number in range(20)}


async def test_a_store_may_be_closed_twice(bench: Bench) -> None:
    await bench.close()
    await bench.close()
    with pytest.raises(StoreUnavailable):
        await bench.run(write(answer="late"))
