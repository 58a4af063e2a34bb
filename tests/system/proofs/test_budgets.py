"""`scripts/prove budgets` at a tenth, and the mistakes that it must see."""

import pytest

from proofs.budgets.proof import PROOF
from proofs.harness.controls import Control
from proofs.harness.settings import prove, try_control
from tests.requirements import requirement

SEED = 3


@requirement("B1")
async def test_turns_of_a_hundred_trees_stay_within_their_budgets() -> None:
    verdict = await prove(PROOF, "sqlite", "", seed=SEED, tenth=True)
    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["trees"] == 100


@requirement("B1")
@pytest.mark.parametrize("control", PROOF.controls["sqlite"], ids=lambda control: control.name)
async def test_a_product_that_leases_less_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)
    assert verdict.zeros[control.breaks] > 0, verdict.line()
