"""`scripts/prove limits` with few bombs, and a mistake that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.limits.proof import PROOF, STARVED
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 9
_FEW = 600


@requirement("S14")
async def test_what_is_too_much_is_refused_by_its_name_and_costs_others_little() -> None:
    async with setting("sqlite", "", seed=SEED, size=_FEW) as given:
        verdict = await PROOF.run(given)

    # The proof also judges how long single requests wait, which needs a machine that does nothing else.
    assert {**verdict.broken, STARVED: 0} == {STARVED: 0}, verdict.notes
    kinds = [int(count) for name, count in verdict.figures.items() if name.startswith("of ")]
    asked = ("ordinary requests", "ordinary requests beside slow clients", "within the limits between")
    done = [int(verdict.figures[name]) for name in (*PROOF.hostile, "MiB sent", *asked)]
    assert min(*kinds, *done) > 0, verdict.line()


@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda each: each.name)
async def test_a_product_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
