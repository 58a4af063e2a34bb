"""`scripts/prove isolation` in small, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.isolation.apart import TIMED
from proofs.isolation.neighbours import ABROAD
from proofs.isolation.proof import PROOF
from testing.engines import Engine
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED, ACTS = 5, 3_000


@requirement("S8", "S13", "P6")
async def test_nobody_sees_what_is_not_for_them(engine: Engine, postgres: str) -> None:
    async with setting(engine, postgres, seed=SEED, size=ACTS // (1 if engine == "sqlite" else 6)) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    done = {name: count for name, count in verdict.figures.items() if name not in TIMED}
    assert all(done.values()), "what never came up was not shown"
    assert int(verdict.figures[ABROAD]) > int(verdict.figures["acts"]) / 2, "most of them try others"


@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda control: control.name)
async def test_a_server_that_shows_too_much_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
