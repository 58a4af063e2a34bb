"""`scripts/prove envelope` at a tenth, and the mistakes that it must see."""

import pytest

from proofs.envelope.hostile import BROKEN
from proofs.envelope.proof import PROOF
from proofs.harness.controls import Control
from proofs.harness.settings import prove, try_control
from tests.requirements import requirement

SEED = 6


@requirement("I3", "I2", "I9")
async def test_nothing_that_somebody_writes_forges_an_envelope() -> None:
    verdict = await prove(PROOF, "sqlite", "", seed=SEED, tenth=True)

    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["cases"] == PROOF.size("sqlite", tenth=True) == 100_000


@pytest.mark.parametrize("control", PROOF.controls["sqlite"], ids=lambda control: control.name)
async def test_a_builder_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
    if "naive" in control.name:
        assert verdict.zeros[BROKEN] > PROOF.control_sizes["sqlite"] / 2
