"""DelegationBench against the server: every attack is contained, and every harmless twin is done."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testing.clocks import FakeClock
from testing.engines import Engine
from testing.message_world import MessageWorld
from testing.push_agents import PushNetwork
from testing.running_server import running
from tests.interop.bench_scenarios import BenchRun, scenario_files
from tests.requirements import requirement

PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop" / "delegationbench.md"
ATTACKS, TWINS = scenario_files("attacks"), scenario_files("benign")
FEW = {"001", "003", "006", "009", "010", "016", "028", "031"}
"""One of each class of violations; all of them take longer."""


def few(files: list[Path], *, rest: bool) -> list[Path]:
    """Those of a usual run, or the rest."""
    return [each for each in files if (each.name.split("-")[1] in FEW) != rest]


@pytest.fixture
async def world(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[MessageWorld]:
    """A server whose time the test moves."""
    net = PushNetwork()
    async with running(engine, place, tmp_path, clock=clock, fetcher=net) as server:
        yield MessageWorld(server, await server.person(), clock, net)


async def expect_attacks_contained(world: MessageWorld, files: list[Path]) -> None:
    """Nothing happens that a grant does not allow, and something of the server is the reason."""
    for path in files:
        outcome = await BenchRun(world, path).run()
        assert outcome.is_contained, (path.stem, outcome.verdict.reasons)
        assert outcome.measures, path.stem
        assert outcome.row in PAGE.read_text(encoding="utf-8"), "the page names what contained it"


async def expect_twins_done(world: MessageWorld, files: list[Path]) -> None:
    """Nothing is refused, and the work is done."""
    for path in files:
        outcome = await BenchRun(world, path).run()
        assert outcome.is_done, (path.stem, outcome.measures, outcome.state, outcome.verdict.reasons)


@requirement("AU3")
@pytest.mark.parametrize("engine", ["sqlite"])
async def test_an_attack_of_each_class_is_contained(world: MessageWorld) -> None:
    await expect_attacks_contained(world, few(ATTACKS, rest=False))


@requirement("AU3")
@pytest.mark.parametrize("engine", ["sqlite"])
async def test_the_harmless_twins_of_these_are_done(world: MessageWorld) -> None:
    await expect_twins_done(world, few(TWINS, rest=False))


@pytest.mark.long
@requirement("AU3")
async def test_every_other_attack_is_contained_too(world: MessageWorld) -> None:
    await expect_attacks_contained(world, few(ATTACKS, rest=True))


@pytest.mark.long
@requirement("AU3")
async def test_every_other_harmless_twin_is_done_too(world: MessageWorld) -> None:
    await expect_twins_done(world, few(TWINS, rest=True))


@requirement("AU3")
@pytest.mark.parametrize("engine", ["sqlite"])
async def test_without_scopes_the_same_attacks_are_found(world: MessageWorld) -> None:
    found = {}
    for path in few(ATTACKS, rest=False):
        outcome = await BenchRun(world, path, has_scopes=False).run()
        found[path.stem.split("-")[1]] = (outcome.scenario.expect, outcome.verdict.kinds)
    for number in ("001", "003", "006", "028", "031"):
        expected, kinds = found[number]
        assert expected is not None
        assert set(expected.violation_kinds) <= set(kinds), number
