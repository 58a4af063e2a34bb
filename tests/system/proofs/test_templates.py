"""`scripts/prove templates` at a tenth, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import prove, try_control
from proofs.templates.proof import PROOF
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 6


@requirement("I11")
async def test_no_template_that_is_accepted_does_harm() -> None:
    verdict = await prove(PROOF, "sqlite", "", seed=SEED, tenth=True)

    assert verdict.broken == {}, verdict.notes
    accepted, refused = int(verdict.figures["accepted"]), int(verdict.figures["refused"])
    assert accepted + refused == PROOF.size("sqlite", tenth=True)
    assert min(accepted, refused) > PROOF.size("sqlite", tenth=True) / 5
    assert int(verdict.figures["too long to be said"]) > 0


@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda control: control.name)
async def test_a_language_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
