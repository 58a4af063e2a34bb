"""What a decision may do beside reading and writing: ask for many things at once, refuse and write, count loosely."""

import asyncio
from typing import Any

import pytest

from molecule_core.common.errors import NotFound
from molecule_core.store.database import (
    SCHEMA_VERSION,
    Command,
    CommandSteps,
    CurrentNumber,
    NextNumber,
    ReadQuery,
    RequestBatch,
    WriteSet,
)
from molecule_core.store.sqlite import store as sqlite_module
from testing.engines import Engine
from tests.requirements import requirement
from tests.store.instrumented_store import Bench

META = "set_meta"


def saying(name: str, value: str) -> tuple[str, dict[str, str]]:
    """A statement that keeps a value."""
    return META, {"name": name, "value": value}


async def kept(bench: Bench, name: str) -> list[Any]:
    """What is kept under a name."""
    return [tuple(row) for row in await bench.store.rows("meta_value", {"name": name})]


@requirement("M16")
async def test_several_things_are_answered_in_their_order_and_in_one_round(bench: Bench) -> None:
    def decide() -> CommandSteps[Any]:
        found = yield RequestBatch(
            [
                NextNumber("last_seq", "a"),
                CurrentNumber("last_seq", "a"),
                ReadQuery("meta_value", {"name": "schema"}),
                NextNumber("last_seq", "b", 0),
                NextNumber("last_seq", "a"),
            ]
        )
        nothing = yield RequestBatch([])
        return WriteSet((found[0], found[1], [tuple(row) for row in found[2]], *found[3:], nothing))

    first, peeked, schema, refused, second, nothing = await bench.store.run(Command("o", (), decide))
    assert (first, peeked, refused, second, nothing) == (1, 1, None, 2, [])
    assert schema == [(str(SCHEMA_VERSION),)]


async def test_a_group_that_asks_for_several_things_gives_each_command_its_own(bench: Bench) -> None:
    def asking(key: str, count: int) -> Command[Any]:
        def decide() -> CommandSteps[Any]:
            alone = yield CurrentNumber("last_seq", key)
            found = yield RequestBatch([ReadQuery("meta_value", {"name": key})] * count)
            return WriteSet((key, alone, len(found)))

        return Command("o", (), decide)

    commands = [asking(key, count) for key, count in (("schema", 3), ("nobody", 1), ("epoch", 0), ("schema", 2))]
    answers = await asyncio.gather(*map(bench.store.run, commands))
    assert answers == [("schema", 0, 3), ("nobody", 0, 1), ("epoch", 0, 0), ("schema", 0, 2)]


@requirement("M30")
async def test_a_refusal_may_leave_behind_why_it_refuses(bench: Bench) -> None:
    told: list[str] = []

    def decide() -> CommandSteps[None]:
        yield NextNumber("last_seq", "a")
        writes, error = [saying("why", "because")], NotFound(what="patience")
        return WriteSet(None, writes, after_commit=lambda: told.append("then"), error=error)

    with pytest.raises(NotFound, match="patience not found"):
        await bench.store.run(Command("o", (), decide))
    assert (await kept(bench, "why"), told) == ([("because",)], ["then"])


@requirement("M16")
async def test_a_loose_number_may_stay_unused_and_costs_the_group_nothing(bench: Bench) -> None:
    def decide(*, loose: bool) -> CommandSteps[None]:
        yield NextNumber("last_seq", "a", allow_gaps=loose)
        raise NotFound(what="anything")

    for loose, replays in ((True, 1), (False, 2)):
        bench.groups.clear()
        for_one = Command("o", (), lambda loose=loose: decide(loose=loose))  # type: ignore[misc]
        with pytest.raises(NotFound):
            await bench.store.run(for_one)
        others = [bench.store.run(Command("o", (), lambda loose=loose: decide(loose=loose))) for _ in range(2)]  # type: ignore[misc]
        assert [type(each) for each in await asyncio.gather(*others, return_exceptions=True)] == [NotFound] * 2
        assert len(bench.groups) == (2 if replays == 1 else 4)


async def test_equal_statements_of_one_command_run_together_and_keep_their_places(bench: Bench) -> None:
    def decide() -> CommandSteps[None]:
        yield from ()
        return WriteSet(None, [saying("x", str(number)) for number in range(5)])

    await bench.store.run(Command("o", (), decide))
    assert await kept(bench, "x") == [("4",)]


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_numbers_in_memory_are_forgotten_before_they_are_too_many(
    bench: Bench, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_module, "_MAX_CACHED_NUMBERS", 50)

    def decide(key: str) -> CommandSteps[int]:
        number = yield CurrentNumber("last_seq", key)
        return WriteSet(number)

    for number in range(200):
        await bench.store.run(Command("o", (), lambda number=number: decide(str(number))))  # type: ignore[misc]
    assert len(bench.store._numbers) <= 51
