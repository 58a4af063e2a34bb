"""`scripts/prove backup` in small, and the mistakes that it must see."""

import pytest

from proofs.backup.proof import PROOF
from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.workload.busy_writers import ACTS
from testing.engines import Engine
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED, COPIES = 5, 6


@requirement("O5", "P1")
async def test_a_copy_is_one_moment_and_nobody_skips_behind_it(engine: Engine, postgres: str) -> None:
    async with setting(engine, postgres, seed=SEED, size=COPIES) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    assert {name for name in ("whole copies", *ACTS) if not verdict.figures[name]} == set(), "that was not shown"


@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda control: control.name)
async def test_a_copy_that_is_not_one_moment_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
