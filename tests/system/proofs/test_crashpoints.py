"""`scripts/prove crashpoints` in small: the server dies once at each of its named points."""

import pytest

from molecule_core.common.crash_points import POINTS
from proofs.crashpoints.proof import PROOF
from proofs.harness.settings import setting, try_control
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 5


@requirement("P1", "P2", "P4")
async def test_a_server_that_dies_at_any_named_point_recovers() -> None:
    async with setting("sqlite", "", seed=SEED, size=1) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    assert verdict.figures["deaths"] == len(POINTS)


@pytest.mark.exhaustive
async def test_a_server_that_answers_before_it_commits_is_seen() -> None:
    (control,) = one_of(PROOF.controls["sqlite"])
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()
