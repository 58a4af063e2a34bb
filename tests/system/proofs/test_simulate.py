"""`scripts/prove simulate` with a few seeds, the mistakes that it must see, and the loop that it plays on."""

import asyncio
from random import Random

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.simulate.cells import every_cell
from proofs.simulate.loop import Deadlock, Endless, Life, SimulatedClock, SimulatedLoop, passing
from proofs.simulate.proof import PROOF
from proofs.simulate.reach import left_out, rare
from tests.requirements import requirement

SEED, SEEDS = 7, 6
# A full run tries them all.
QUICK = ("delegations do not hear of answers",)
CONTROLS = [each for each in PROOF.controls["sqlite"] if each.name in QUICK]
HOUR = 3600


@requirement("P1", "P2", "P4")
async def test_a_server_that_dies_among_lost_wake_ups_and_wrong_clocks_loses_and_doubles_nothing() -> None:
    async with setting("sqlite", "", seed=SEED, size=SEEDS) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    came_up = (
        "deaths",
        "answers cut",
        "pushes failed",
        "rings lost",
        "clock jumps",
        "delegations",
        "approvals",
        "threads",
    )
    assert {name for name in came_up if not verdict.figures[name]} == set(), "what never came up was not shown"
    assert int(verdict.figures["fewest messages delivered by a seed"]) >= 100
    assert verdict.figures["seeds played twice"] == SEEDS, "the first of each process are"


@requirement("P1", "P2", "P4")
@pytest.mark.exhaustive
@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
async def test_a_mistake_of_the_server_is_seen_within_few_seeds(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()


def test_only_cells_that_there_are_need_not_be_reached() -> None:
    assert left_out() | rare() < every_cell()
    assert not left_out() & rare()


# -- the loop ----------------------------------------------------------------------------------------------------------


def played(seed: int, most_steps: int = 1_000) -> SimulatedLoop:
    return SimulatedLoop(Random(seed), most_steps)


def order_of(seed: int) -> list[int]:
    """In which order five that are ready at once have their turn."""
    came = list[int]()

    async def come(number: int) -> None:
        came.append(number)

    async def all_of_them() -> None:
        await asyncio.gather(*(come(number) for number in range(5)))

    loop = played(seed)
    loop.run_until_complete(all_of_them())
    loop.close()
    return came


def test_the_seed_says_who_is_first() -> None:
    assert order_of(1) == order_of(1)
    assert len({tuple(order_of(seed)) for seed in range(20)}) > 5


def test_an_hour_passes_in_no_time_and_a_wall_clock_that_is_set_holds_up_nobody() -> None:
    loop = played(1)
    clock = SimulatedClock(loop, 0)

    async def wait() -> tuple[float, bool]:
        loop.call_later(10, setattr, clock, "set_by", -HOUR * 1_000_000)
        return clock.monotonic(), await clock.wait(loop.create_future(), HOUR)

    began, came = loop.run_until_complete(wait())
    loop.close()
    assert (came, round(loop.time() - began)) == (False, HOUR)
    assert round(clock.now() / 1_000_000) == 0


def test_who_waits_for_what_nobody_will_do_is_a_deadlock_and_who_never_stops_is_endless() -> None:
    loop = played(1)
    with pytest.raises(Deadlock):
        loop.run_until_complete(loop.create_future())
    loop.close()

    async def go_on() -> None:
        while True:
            await passing(1)

    loop = played(1)
    with pytest.raises(Endless):
        loop.run_until_complete(go_on())
    loop.close()


def test_a_process_that_died_does_nothing_more_not_even_to_end_well() -> None:
    loop, life, did = played(1), Life(), list[str]()

    async def work() -> None:
        try:
            did.append("begun")
            await passing(5)
            did.append("gone on")
        finally:
            await passing(1)
            did.append("ended well")

    async def play() -> None:
        life.begin(work())
        await passing(1)
        life.end()
        await passing(100)

    loop.run_until_complete(play())
    loop.close()
    assert did == ["begun"]
