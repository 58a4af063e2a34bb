"""`scripts/prove fetch` at a tenth, and the mistakes that it must see."""

import pytest

from proofs.fetch.proof import PROOF
from proofs.harness.controls import Control
from proofs.harness.settings import prove, try_control
from testing.engines import Engine
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 6


@requirement("S6")
async def test_no_url_leads_anywhere_it_may_not(engine: Engine, postgres: str) -> None:
    verdict = await prove(PROOF, engine, postgres, seed=SEED, tenth=True)

    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["allowed fetches"] == 5
    assert verdict.figures["look-ups by their first fetches"] == PROOF.size(engine, tenth=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda control: control.name)
async def test_a_fetcher_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
