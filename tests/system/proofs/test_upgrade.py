"""`scripts/prove upgrade` at a hundredth, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.upgrade.proof import PROOF, kills_of
from testing.engines import Engine
from testing.released_stores.stores import RELEASED
from tests.requirements import requirement

SEED = 24
CONTROLS = [("sqlite", control) for control in PROOF.controls["sqlite"]]


@requirement("O6", "P1")
async def test_a_migration_that_is_killed_again_and_again_ends_well(engine: Engine, postgres: str) -> None:
    rows = PROOF.sizes[engine] // 100
    async with setting(engine, postgres, seed=SEED, size=rows) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["kills"] == kills_of(rows) * len(RELEASED)


@requirement("O6")
@pytest.mark.exhaustive
@pytest.mark.parametrize(("engine", "control"), CONTROLS, ids=lambda each: each if isinstance(each, str) else each.name)
async def test_a_migration_in_pieces_is_seen(engine: Engine, control: Control, postgres: str) -> None:
    verdict = await try_control(PROOF, control, engine, postgres, seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
