"""`scripts/prove files` at a tenth, and the mistakes that it must see."""

import pytest

from proofs.files.proof import PROOF
from proofs.harness.controls import Control
from proofs.harness.settings import prove, try_control
from tests.requirements import requirement

SEED = 9


@requirement("S16")
async def test_no_name_and_no_link_leads_out_of_a_folder() -> None:
    verdict = await prove(PROOF, "sqlite", "", seed=SEED, tenth=True)

    assert verdict.broken == {}, verdict.notes
    counted = (*PROOF.hostile, "looks at links", "of them fair", "files uploaded")
    assert min(int(verdict.figures[name]) for name in counted) > 0, verdict.line()


@pytest.mark.parametrize("control", PROOF.controls["sqlite"], ids=lambda each: each.name)
async def test_a_product_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
