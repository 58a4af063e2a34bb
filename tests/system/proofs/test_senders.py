"""`scripts/prove senders` with few messages, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.senders.proof import PROOF
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 9
_FEW = 640


@requirement("P1", "P2")
async def test_each_message_of_a_crowd_that_repeats_itself_over_bad_lines_arrives_once() -> None:
    async with setting("sqlite", "", seed=SEED, size=_FEW) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["messages"] == _FEW
    kinds = ("sent again", "sent again altered", "sent twice at once", "409", "calls cut", "pushed", "pushes cut")
    done = [int(verdict.figures[name]) for name in (*kinds, "redelivered")]
    assert min(done) > 0, done


@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda each: each.name)
async def test_a_product_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
