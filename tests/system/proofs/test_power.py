"""`scripts/prove power` in small, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.power.proof import PROOF
from proofs.workload.busy_writers import ACTS
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED, CUTS = 5, 60


@requirement("P1")
async def test_what_was_accepted_is_there_after_a_power_cut() -> None:
    async with setting("sqlite", "", seed=SEED, size=CUTS) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["power cuts"] == CUTS
    assert int(verdict.figures["writes forgotten"]) > CUTS, "there was nothing to forget"
    assert verdict.figures["served again"]
    assert {name for name in ACTS if not verdict.figures[name]} == set(), "what nobody did was not shown"


@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda control: control.name)
async def test_a_store_that_does_not_wait_for_the_disk_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
