"""`scripts/prove network` with few cuts, and a mistake that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.network.proof import PROOF
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 9
_CUTS = 12


@requirement("P1", "P2", "P5")
async def test_over_bad_lines_all_is_as_if_they_were_good() -> None:
    async with setting("sqlite", "", seed=SEED, size=_CUTS) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    kinds = ("messages", "delegations", "pushed", "calls cut", "redelivered", "channels opened again")
    done = [int(verdict.figures[name]) for name in (*PROOF.faults, *kinds)]
    assert min(done) > 0, done
    assert int(verdict.figures["cuts"]) >= _CUTS


@pytest.mark.exhaustive
@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda each: each.name)
async def test_a_product_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
