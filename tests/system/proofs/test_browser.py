"""`scripts/prove browser` with few texts, and a mistake that it must see."""

import os

import pytest

from proofs.browser.proof import PROOF
from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from testing.canvas.browser_binary import find_browser
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 9
_FEW = 6
needs_a_browser = pytest.mark.skipif(
    find_browser() is None and not os.environ.get("CI"), reason="no browser: scripts/browser gets one"
)


@needs_a_browser
@requirement("C70", "C75", "S18")
async def test_hostile_texts_are_words_on_every_surface_and_other_origins_stay_out() -> None:
    async with setting("sqlite", "", seed=SEED, size=_FEW) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    assert (verdict.figures["surfaces"], verdict.figures["ways from another origin"]) == (11, 14)
    assert int(verdict.figures["shown"]) > 11 * _FEW
    assert int(verdict.figures["host names"]) > _FEW


@needs_a_browser
@pytest.mark.exhaustive
@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda each: each.name)
async def test_a_product_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
