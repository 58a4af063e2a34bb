"""`scripts/prove parity` at a tenth, and the mistakes that it must see."""

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import Setting, prove, try_control
from proofs.parity.moves import script
from proofs.parity.playing import UNSAID
from proofs.parity.proof import PROOF
from tests.delegations.entrances import CANNOT, NAMES
from tests.prove.sampling import few
from tests.requirements import requirement

SEED = 7


@requirement("D6", "D9", "D10", "D14")
async def test_every_entrance_leaves_the_same_rows_events_and_answers() -> None:
    """On SQLite, where nothing but the script has a hand in what comes first; the whole proof draws the engines."""
    verdict = await prove(PROOF, "sqlite", "", seed=SEED, tenth=True)

    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["scripts"] == PROOF.size("sqlite", tenth=True) == 50
    assert int(verdict.figures["tasks"]) > 100


@pytest.mark.parametrize("control", few(PROOF.controls["sqlite"], 1), ids=lambda control: control.name)
async def test_an_entrance_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()


def test_the_same_seed_draws_the_same_script_and_leaves_out_what_is_declared(tmp_path: object) -> None:
    setting = Setting(engine="sqlite", folder=tmp_path, database="", seed=SEED, size=1)  # type: ignore[arg-type]
    scripts = [script(setting.dice("parity", number), ()) for number in range(40)]
    assert scripts == [script(setting.dice("parity", number), ()) for number in range(40)]
    drawn = [move for each in scripts for move in each]
    assert {move.verb for move in drawn} >= {"begin", "again", "claim", "answer", "agent", "clock", "cancel", "retry"}
    assert any(move.key for move in drawn) and any(move.wait for move in drawn)
    silent = [move for number in range(40) for move in script(setting.dice("parity", number), ("key", "wait"))]
    assert not any(move.key or move.wait for move in silent)
    for entrance, word in (*CANNOT, *UNSAID):
        assert entrance in NAMES and (CANNOT | UNSAID)[entrance, word]
