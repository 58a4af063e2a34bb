"""`scripts/prove workers` at a tenth, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import prove, try_control
from proofs.workers.proof import PROOF
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 11


@requirement("M38", "P1", "P2", "M18", "D7", "D9")
async def test_nothing_suffers_from_servers_that_die_and_servers_that_come_back_as_zombies(postgres: str) -> None:
    verdict = await prove(PROOF, "postgres", postgres, seed=SEED, tenth=True)

    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["kills"] == PROOF.sizes["postgres"] // 10
    assert verdict.figures["freezes"] == PROOF.sizes["postgres"] // 20
    came_up = ("delegations", "pushed", "taken by who waited", "stale acks sent", "late acks refused")
    assert min(int(verdict.figures[name]) for name in came_up) > 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("control", one_of(PROOF.controls["postgres"]), ids=lambda each: each.name)
async def test_a_product_with_a_mistake_is_seen(control: Control, postgres: str) -> None:
    verdict = await try_control(PROOF, control, "postgres", postgres, seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
