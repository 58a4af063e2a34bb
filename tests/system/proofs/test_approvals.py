"""`scripts/prove approvals` in small, the mistakes that it must see, and its plain account of an approval."""

import pytest

from proofs.approvals.proof import PROOF
from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from testing.engines import Engine
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED, TREES = 7, 120
KINDS = ("already_decided", "approval_changed", "approval_moved_on", "approval_used", "not_approved", "own_approval")


@requirement("Q1", "Q2", "Q3", "Q4", "Q5", "Q7")
async def test_whoever_decides_what_is_taken_and_refused_as_it_should_be(engine: Engine, postgres: str) -> None:
    size = TREES if engine == "sqlite" else TREES // 3
    async with setting(engine, postgres, seed=SEED, size=size) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    assert (verdict.figures["trees"], verdict.figures["deepest"]) == (size, 6)
    shown = [*(f"of them {name}" for name in KINDS), "taken again", "used", "at once", "moves", "expired"]
    assert {name for name in shown if not verdict.figures.get(name)} == set(), "what never came up was not shown"


@requirement("Q5")
@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda control: control.name)
async def test_a_product_that_decides_otherwise_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
