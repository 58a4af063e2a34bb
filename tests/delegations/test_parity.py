"""Whichever way a task is given, what is written, told and answered is the same: 25 scripts that are always the same
ones (a usual run plays half of them). `scripts/prove parity` plays 500 others each time."""

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random

import pytest

from proofs.parity.moves import LEAD, POLLED, Move
from proofs.parity.servers import Servers
from proofs.parity.twins import OTHERS, Found, compared, differences
from testing.delegation_entrances import Entrance
from testing.engines import ENGINES, Engine, new_database
from testing.step_counts import STEPS, USUAL_STEPS
from tests.requirements import requirement

SEEDS = range(24 * STEPS // USUAL_STEPS)


@pytest.fixture
async def servers(tmp_path: Path, postgres: str) -> AsyncIterator[Servers]:
    """Two servers, when they are asked for."""
    async with Servers(tmp_path / "parity", await new_database(postgres)) as made:
        yield made


def same(found: Found) -> bool:
    """Nothing differs; and something was done."""
    assert found.notes == []
    return found.tasks > 0 and not any(found.broken.values())


@requirement("D6", "D9", "D10")
@pytest.mark.parametrize("seed", SEEDS)
async def test_two_entrances_leave_the_same_behind(servers: Servers, seed: int) -> None:
    dice = Random(seed)
    engines: tuple[Engine, Engine] = (dice.choice(ENGINES), dice.choice(ENGINES))
    assert same(await differences(servers, engines, OTHERS[seed % len(OTHERS)], dice))


@requirement("D1", "D2", "D4", "D5", "D7")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("entrance", OTHERS[:2], ids=lambda each: each.name)
async def test_seed_002_leaves_the_same_rows_and_broadcasts(
    servers: Servers, entrance: Entrance, engine: Engine
) -> None:
    """MCP and HTTP: identical rows and broadcasts. Given to an agent that polls, taken, worked on and answered; and one
    that is called twice, taken back, and begun once more."""
    given = Move(verb="begin", target=POLLED, task="sort the mail", key="call-1", deadline=600)
    other = Move(verb="begin", target=POLLED, task="file the mail")
    script = [
        given,
        Move(verb="claim", who=POLLED, which=1),
        Move(verb="progress"),
        Move(verb="answer", how="reply"),
        Move(verb="again", target=POLLED, task="sort the mail", key="call-1", deadline=600),
        other,
        Move(verb="again", target=POLLED, task="file the mail"),
        Move(verb="cancel", who=LEAD, which=1),
        Move(verb="retry", which=1),
        Move(verb="claim", who=POLLED, which=3),
        Move(verb="answer", how="decline", which=1),
        Move(verb="clock", seconds=61),
    ]
    assert same(await compared(servers, (engine, engine), entrance, script))
