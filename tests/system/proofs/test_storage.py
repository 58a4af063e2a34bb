"""`scripts/prove storage` at a tenth, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import prove, try_control
from proofs.storage.deeds import KINDS
from proofs.storage.proof import PROOF
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 9


@requirement("P1", "P2", "O1")
async def test_what_was_answered_is_true_whatever_the_disk_refuses() -> None:
    verdict = await prove(PROOF, "sqlite", "", seed=SEED, tenth=True)

    assert verdict.broken == {}, verdict.notes
    size = PROOF.sizes["sqlite"] // 10
    assert (verdict.figures["busy"], verdict.figures["full"]) == (2 * size, size // 10)
    assert verdict.figures["I/O errors"] == size + size // 5
    kinds = (*KINDS, "failed reads", "failed writes", "failed syncs")
    assert min(int(verdict.figures[name]) for name in kinds) > 0


@requirement("P1", "P2", "O1")
async def test_what_was_answered_is_true_whatever_becomes_of_the_server_behind_the_store(postgres: str) -> None:
    verdict = await prove(PROOF, "postgres", postgres, seed=SEED, tenth=True)

    assert verdict.broken == {}, verdict.notes
    size = PROOF.sizes["postgres"] // 10
    assert (verdict.figures["connections cut"], verdict.figures["servers stopped"]) == (size, size // 10)
    # Which of them a cut meets is chance: of the seldom ones there may be none in so few.
    assert sum(int(verdict.figures[name]) for name in KINDS) >= size // 2
    assert int(verdict.figures["answered 503"]) > 0


@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda each: each.name)
async def test_a_product_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()


@pytest.mark.exhaustive
@pytest.mark.parametrize("control", one_of(PROOF.controls["postgres"]), ids=lambda each: each.name)
async def test_a_product_with_a_mistake_is_seen_on_postgresql(control: Control, postgres: str) -> None:
    verdict = await try_control(PROOF, control, "postgres", postgres, seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
