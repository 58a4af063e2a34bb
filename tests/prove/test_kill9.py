"""`scripts/prove kill9` at a tenth, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import prove, try_control
from proofs.kill9.proof import PROOF
from tests.engines import Engine
from tests.prove.sampling import few
from tests.requirements import requirement

SEED = 9
# What goes wrong above the store goes wrong on both engines; the commit is each engine's own.
CONTROLS: list[tuple[Engine, Control]] = [
    *(("sqlite", control) for control in few(PROOF.controls["sqlite"], 3)),
]


@requirement("P1", "P2", "D1", "D2", "D7", "D9")
async def test_nothing_that_was_accepted_suffers_from_kills(engine: Engine, postgres: str) -> None:
    verdict = await prove(PROOF, engine, postgres, seed=SEED, tenth=True)

    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["kills"] == PROOF.sizes[engine] // 10
    done = [
        int(verdict.figures[name])
        for name in ("delegations", "pushed", "taken by who waited", "past their deadline", "given again")
    ]
    assert min(done) > 0, done


@pytest.mark.parametrize(("engine", "control"), CONTROLS, ids=lambda each: each if isinstance(each, str) else each.name)
async def test_a_product_with_a_mistake_is_seen(engine: Engine, control: Control, postgres: str) -> None:
    verdict = await try_control(PROOF, control, engine, postgres, seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
