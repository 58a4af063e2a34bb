"""`scripts/prove slow` with few events, and a mistake that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.slow.proof import PROOF
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 9
_FEW = 2_500


@requirement("S15")
async def test_who_stops_reading_is_cut_and_misses_nothing_and_nobody_else_notices() -> None:
    async with setting("sqlite", "", seed=SEED, size=_FEW) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    assert int(verdict.figures["told"]) >= _FEW * int(verdict.figures["watchers"])
    assert min(int(verdict.figures[name]) for name in (*PROOF.faults, "cut")) > 0, verdict.line()


@pytest.mark.exhaustive
@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda each: each.name)
async def test_a_product_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
