"""`scripts/prove routing` with few questions, and a mistake that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.routing.proof import PROOF
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 9
_FEW = 400


@requirement("S9")
async def test_no_answer_of_an_agent_that_sits_in_fifty_workspaces_goes_astray() -> None:
    async with setting("sqlite", "", seed=SEED, size=_FEW) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    assert min(int(verdict.figures[name]) for name in (*PROOF.hostile, "shared beginnings of ids")) > 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda each: each.name)
async def test_a_product_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
