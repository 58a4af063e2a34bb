"""`scripts/prove matrix` at a tenth, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import prove, try_control
from proofs.matrix.proof import PROOF
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 5


@requirement("S20", "S8", "M7")
async def test_whoever_asks_for_whatever_is_answered_as_it_is_written_down() -> None:
    verdict = await prove(PROOF, "sqlite", "", seed=SEED, tenth=True)

    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["requests"] == PROOF.size("sqlite", tenth=True)
    assert all(verdict.figures.values())


@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda control: control.name)
async def test_a_guard_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
