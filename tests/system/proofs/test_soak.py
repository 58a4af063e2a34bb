"""`scripts/prove soak` for some seconds, and a mistake that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.soak.proof import PROOF
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 9
_SECONDS = 15


@requirement("P1", "P2")
async def test_after_a_while_of_work_and_faults_all_is_handled_and_the_server_is_as_it_was() -> None:
    async with setting("sqlite", "", seed=SEED, size=_SECONDS) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    assert sum(int(verdict.figures[name]) for name in (*PROOF.faults, *PROOF.hostile)) >= _SECONDS
    assert int(verdict.figures["messages"]) >= _SECONDS * 50


@pytest.mark.exhaustive
@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda each: each.name)
async def test_a_product_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
