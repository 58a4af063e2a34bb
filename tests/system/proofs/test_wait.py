"""`scripts/prove wait` in small, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.wait.proof import PROOF
from testing.engines import Engine
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED, GAMES = 7, 300


@requirement("TH8")
async def test_whoever_waits_is_woken_by_what_it_waits_for_and_by_nothing_else(engine: Engine, postgres: str) -> None:
    size = GAMES if engine == "sqlite" else GAMES // 6
    async with setting(engine, postgres, seed=SEED, size=size) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}
    assert verdict.figures["games"] == size
    assert {name for name, figure in verdict.figures.items() if not figure} == set(), "what never came up was not shown"


@requirement("TH8")
@pytest.mark.exhaustive
@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda control: control.name)
async def test_a_wait_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
