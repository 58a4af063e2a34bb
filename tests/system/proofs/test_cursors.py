"""`scripts/prove cursors` at a tenth, and the mistakes that it must see."""

import pytest

from proofs.cursors.proof import PROOF
from proofs.harness.controls import Control
from proofs.harness.settings import prove, try_control
from testing.engines import ENGINES, Engine
from tests.system.proofs.sampling import one_of

SEED = 24
CONTROLS = [(engine, control) for engine in ENGINES for control in one_of(PROOF.controls[engine])]


async def test_no_reader_skips_or_repeats_an_event(engine: Engine, postgres: str) -> None:
    verdict = await prove(PROOF, engine, postgres, seed=SEED, tenth=True)

    assert verdict.broken == {}, verdict.notes
    live, written = verdict.figures["of them while others wrote"], PROOF.size(engine, tenth=True)
    assert isinstance(live, int) and live > written // 100, "the readers came when all was over"


@pytest.mark.parametrize(("engine", "control"), CONTROLS, ids=lambda each: each if isinstance(each, str) else each.name)
async def test_a_store_with_a_mistake_is_seen(engine: Engine, control: Control, postgres: str) -> None:
    verdict = await try_control(PROOF, control, engine, postgres, seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
