"""`scripts/prove snapshot` in small, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.snapshot.proof import PROOF
from testing.engines import Engine
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED, HISTORIES = 5, {"sqlite": 40, "postgres": 8}


@requirement("M34")
async def test_an_old_snapshot_and_its_events_are_the_new_one_for_words_and_for_the_page(
    engine: Engine, postgres: str
) -> None:
    async with setting(engine, postgres, seed=SEED, size=HISTORIES[engine]) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["pairs"] == verdict.figures["pairs on the page"]
    assert all(verdict.figures[f"of {kind}"] for kind in ("a company", "duties", "work", "leave"))
    assert int(verdict.figures["kinds of events"]) > 25


@pytest.mark.exhaustive
@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda control: control.name)
async def test_a_change_that_nobody_tells_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
