"""`scripts/prove state` with few steps, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.state.proof import PROOF
from testing.engines import Engine
from tests.requirements import requirement

SEED = 9
_FEW = 4_200


@requirement("P1", "P2", "P4", "Q4", "Q5", "TH3", "TH7")
@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.exhaustive)])
async def test_each_noun_does_what_its_model_does(engine: Engine, postgres: str) -> None:
    async with setting(engine, postgres, seed=SEED, size=_FEW) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    assert int(verdict.figures["steps"]) >= 0.9 * _FEW  # a story may end early


@pytest.mark.exhaustive
@pytest.mark.parametrize("control", PROOF.controls["sqlite"], ids=lambda each: each.name)
async def test_a_product_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
