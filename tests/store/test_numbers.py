"""Numbers without gaps: taken while a command decides, given back if it is refused, known to whoever polls."""

import asyncio
from itertools import chain
from typing import Any

from molecule_core.common.errors import NotFound
from molecule_core.common.limits import Limits
from molecule_core.store.database import Command, CommandSteps, CurrentNumber, NextNumber, ReadQuery, WriteSet
from testing.engines import Engine, new_database
from tests.requirements import requirement
from tests.store.instrumented_store import Bench, bench_on, commits_held, note, numbered, numbered_writes, person, write


@requirement("M16")
async def test_numbers_have_no_gap_for_each_key_and_go_on_after_a_new_start(engine: Engine, place: str) -> None:
    keys = [f"w{number % 3}" for number in range(60)]
    async with bench_on(engine, place, limits=Limits(group_commands=7)) as bench:
        taken = await bench.together(*(numbered(key) for key in keys))
        assert max(bench.sizes) > 1
    async with bench_on(engine, place) as bench:
        taken += await bench.together(*(numbered(key) for key in keys))
        rows = await bench.seen("SELECT workspace_id, seq FROM activities ORDER BY workspace_id, seq")
    for key in set(keys):
        assert [seq for found, seq in zip(keys * 2, taken, strict=True) if found == key] == list(range(1, 41))
        assert [seq for found, seq in rows if found == key] == list(range(1, 41))


@requirement("M16")
async def test_a_refusal_after_a_number_was_taken_leaves_no_gap(bench: Bench) -> None:
    refusal = NotFound(what="thing")
    outcome = await bench.together(numbered("w"), numbered("w", refusal=refusal), numbered("w"), write(answer="other"))
    assert outcome == [1, refusal, 2, "other"]
    assert bench.sizes == [4, 1, 1, 1, 1]
    assert await bench.run(numbered("w")) == 3
    assert await bench.seen("SELECT seq FROM activities ORDER BY seq") == [(1,), (2,), (3,)]


@requirement("M16")
async def test_a_number_that_a_group_took_and_did_not_write_is_taken_again(bench: Bench) -> None:
    def decide() -> CommandSteps[Any]:
        return WriteSet((yield NextNumber("last_seq", "w")))

    assert await bench.run(numbered("w")) == 1
    assert await bench.run(Command("org", (), decide)) == 2
    assert await bench.run(numbered("w")) == 2


@requirement("M16")
async def test_a_number_can_be_looked_at_without_taking_it(bench: Bench) -> None:
    def looking() -> CommandSteps[Any]:
        return WriteSet((yield CurrentNumber("last_seq", "w")))

    peek: Command[int] = Command("org", (), looking)
    assert await bench.run(peek) == 0
    assert await bench.run(numbered("w")) == 1
    assert [await bench.run(peek), await bench.run(peek)] == [1, 1]
    assert await bench.run(numbered("w")) == 2


@requirement("M16")
async def test_a_broken_constraint_gives_the_numbers_of_its_group_back(bench: Bench) -> None:
    await bench.run(write(person(1)))
    outcome = await bench.together(numbered("w"), write(person(1)), numbered("w"))
    assert (outcome[0], outcome[2]) == (1, 2)
    assert await bench.seen("SELECT seq FROM activities ORDER BY seq") == [(1,), (2,)]


@requirement("M15", "M16")
async def test_a_number_beyond_its_bound_is_taken_by_nobody_even_in_a_burst(bench: Bench) -> None:
    """Some look something up first, so that on PostgreSQL not all ask in the same round."""

    def bounded(reads: int) -> Command[Any]:
        def decide() -> CommandSteps[Any]:
            for _ in range(reads):
                yield ReadQuery("meta_value", {"name": "schema"})
            seq = yield NextNumber("last_seq", "w", 7)
            if seq is None:
                return WriteSet(None)
            return WriteSet(seq, numbered_writes("w", seq))

        return Command("org", (), decide)

    for _ in range(2):
        assert await bench.run(bounded(0)) is not None
    outcome = await bench.together(*(bounded(number % 3) for number in range(20)))
    assert sorted(each for each in outcome if each is not None) == [3, 4, 5, 6, 7]
    assert bench.sizes == [1, 1, 20]
    assert await bench.run(numbered("w")) == 8  # who names no bound has none
    assert await bench.run(bounded(0)) is None
    assert await bench.seen("SELECT count(*), max(seq) FROM activities") == [(8, 8)]


@requirement("M16")
async def test_a_bound_that_was_reached_leaves_its_command_free_to_refuse(bench: Bench) -> None:
    refusal = NotFound(what="room")

    def decide() -> CommandSteps[Any]:
        if (yield NextNumber("last_seq", "w", 0)) is None:
            raise refusal
        return WriteSet(None)

    assert await bench.together(Command("org", (), decide), numbered("w")) == [refusal, 1]
    assert bench.sizes == [2]  # nothing was taken, so nothing had to be replayed


@requirement("M16", "M17")
async def test_what_is_known_without_a_query_is_never_less_than_what_is_there(bench: Bench) -> None:
    def highest() -> int | None:
        found: int | None = bench.store.last_known_number("last_seq", "w")
        return found

    if bench.engine == "postgres":
        assert highest() is None  # another process may have written meanwhile
    known = [highest()]
    await bench.run(numbered("w"))
    known.append(highest())
    await bench.together(numbered("w"), numbered("w", refusal=NotFound(what="x")))
    known.append(highest())
    await bench.together(numbered("w"), write(person(1)), write(person(1)))
    known.append(highest())
    assert known in ([0, 1, 2, 3], [None] * 4)
    assert await bench.run(numbered("w")) == 4


@requirement("M16", "M17")
async def test_what_is_known_while_a_commit_is_under_way_counts_it_or_is_not_known(bench: Bench) -> None:
    await bench.run(numbered("w"))
    async with commits_held(bench) as hold:
        (running,) = await bench.started(_with_a_note("w"))
        await hold.reached()
        during = bench.store.last_known_number("last_seq", "w")
        other = bench.store.last_known_number("last_seq", "another")
        await hold.release()
        assert await running == 2
    assert during in (2, None)
    assert other in (0, None)
    assert await bench.together(numbered("w"), numbered("another")) == [3, 1]


def _with_a_note(workspace_id: str) -> Command[Any]:
    """Like `numbered`, with a statement that the held commit of PostgreSQL waits for."""

    def decide() -> CommandSteps[Any]:
        seq = yield NextNumber("last_seq", workspace_id)
        return WriteSet(seq, [*numbered_writes(workspace_id, seq), note("a")])

    return Command("org", (), decide)


@requirement("M16")
async def test_servers_that_share_a_database_number_one_log_without_a_gap(postgres: str) -> None:
    place = await new_database(postgres)
    async with (
        bench_on("postgres", place) as one,
        bench_on("postgres", place) as two,
        bench_on("postgres", place) as three,
    ):
        taken: list[list[int]] = [[], [], []]

        async def work(which: int, bench: Bench) -> None:
            for _ in range(12):
                taken[which] += await bench.together(numbered("w"), numbered("w"))

        await asyncio.gather(*(work(which, bench) for which, bench in enumerate((one, two, three))))
        rows = await one.seen("SELECT seq FROM activities ORDER BY seq")
    assert [seq for (seq,) in rows] == list(range(1, 73))
    assert sorted(chain(*taken)) == list(range(1, 73))
    assert all(numbers == sorted(numbers) for numbers in taken)
    # They took turns: nobody's numbers are one block.
    assert all(numbers != list(range(numbers[0], numbers[0] + 24)) for numbers in taken)
