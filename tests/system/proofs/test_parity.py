"""`scripts/prove parity` at a tenth, and the mistakes that it must see."""

import random

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import Setting, prove, try_control
from proofs.parity.moves import script
from proofs.parity.nouns import NOUNS, SCENES
from proofs.parity.nouns import script as script_about
from proofs.parity.proof import PROOF
from proofs.parity.sides import UNSAID
from proofs.parity.twins import OTHERS, REFERENCE, rota
from testing.delegation_entrances import CANNOT, NAMES
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 7


@requirement("D6", "D9", "D10", "D14")
async def test_every_entrance_leaves_the_same_rows_events_and_answers() -> None:
    """On SQLite, where nothing but the script has a hand in what comes first; the whole proof draws the engines."""
    verdict = await prove(PROOF, "sqlite", "", seed=SEED, tenth=True)

    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["scripts"] == PROOF.size("sqlite", tenth=True) == 50
    assert int(verdict.figures["tasks"]) > 60
    assert int(verdict.figures["other calls through the entrance"]) > 100
    assert int(verdict.figures["scripts by processes"]) > 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda control: control.name)
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


def test_every_noun_has_its_turn_through_each_entrance_that_has_words_for_it() -> None:
    turns = rota("")
    for noun in NOUNS:
        names = {other.name for each, other in turns if each == noun}
        assert names == {each.name for each in OTHERS if (each.name, noun) not in UNSAID}
        assert names and REFERENCE.name not in names
        assert {each for each, _ in rota(noun)} == {noun}


@pytest.mark.parametrize("noun", SCENES)
def test_scripts_about_a_noun_draw_every_move_that_it_has(noun: str) -> None:
    drawn = [move for number in range(60) for move in script_about(random.Random(number), (), noun)]
    assert drawn == [move for number in range(60) for move in script_about(random.Random(number), (), noun)]
    assert {move.verb for move in drawn} == {"beat"} | {verb for scene in SCENES[noun] for verb in scene.split(", ")}
    assert not any(move.key for number in range(60) for move in script_about(random.Random(number), ("key",), noun))


@pytest.mark.parametrize("noun", SCENES)
def test_some_mistake_of_an_entrance_is_tried_for_every_noun(noun: str) -> None:
    assert any(control.only == noun for control in PROOF.controls["sqlite"])
