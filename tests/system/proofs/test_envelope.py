"""`scripts/prove envelope` in small, and the mistakes that it must see."""

import pytest

from proofs.envelope.hostile import BROKEN
from proofs.envelope.proof import PROOF
from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

# A tenth would take three minutes.
SEED, CASES = 6, 12_000
_CARDS = 10_000


@requirement("I3", "I2", "I9")
async def test_nothing_that_somebody_writes_forges_an_envelope() -> None:
    async with setting("sqlite", "", seed=SEED, size=CASES) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["cases"] == CASES
    assert int(verdict.figures["prompts"]) >= CASES // 25
    assert int(verdict.figures["different cards"]) >= _CARDS


@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda control: control.name)
async def test_a_builder_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
    if "naive" in control.name:
        assert verdict.zeros[BROKEN] > PROOF.control_sizes["sqlite"] / 2
