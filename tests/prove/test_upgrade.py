"""`scripts/prove upgrade` at a tenth, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import prove, try_control
from proofs.upgrade.proof import PROOF, kills_of
from tests.engines import Engine
from tests.requirements import requirement
from tests.store.released import RELEASED

SEED = 24
CONTROLS = [("sqlite", control) for control in PROOF.controls["sqlite"]]


@requirement("O6", "P1")
async def test_a_migration_that_is_killed_again_and_again_ends_well(engine: Engine, postgres: str) -> None:
    verdict = await prove(PROOF, engine, postgres, seed=SEED, tenth=True)

    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["kills"] == kills_of(PROOF.size(engine, tenth=True)) * len(RELEASED)


@requirement("O6")
@pytest.mark.parametrize(("engine", "control"), CONTROLS, ids=lambda each: each if isinstance(each, str) else each.name)
async def test_a_migration_in_pieces_is_seen(engine: Engine, control: Control, postgres: str) -> None:
    verdict = await try_control(PROOF, control, engine, postgres, seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
