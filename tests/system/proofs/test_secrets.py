"""`scripts/prove secrets` with few seats, and the mistakes that it must see."""

import base64

import pytest

from proofs.harness.controls import Control
from proofs.harness.settings import setting, try_control
from proofs.secrets.canaries import Cage
from proofs.secrets.proof import PROOF
from testing.engines import Engine
from tests.requirements import requirement
from tests.system.proofs.sampling import one_of

SEED = 5
_LEAST = 40
_SEATS: dict[Engine, int] = {"sqlite": 20, "postgres": 12}
_PLACES: dict[Engine, int] = {"sqlite": 18, "postgres": 21}


@pytest.fixture(autouse=True)
def processes_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forked process neither shows its arguments nor runs a changed package."""
    monkeypatch.delenv("MOLECULE_TEST_FORKS", raising=False)


@requirement("O3", "M7")
@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgres", marks=pytest.mark.exhaustive)])
async def test_no_canary_is_found_where_it_must_not_be(engine: Engine, postgres: str) -> None:
    async with setting(engine, postgres, seed=SEED, size=_SEATS[engine]) as given:
        verdict = await PROOF.run(given)

    assert verdict.broken == {}, verdict.notes
    assert int(verdict.figures["canaries"]) >= _LEAST
    assert int(verdict.figures["places searched"]) >= _PLACES[engine]
    assert all(verdict.figures.values())


@pytest.mark.exhaustive
@pytest.mark.parametrize("control", one_of(PROOF.controls["sqlite"]), ids=lambda each: each.name)
async def test_a_product_with_a_mistake_is_seen(control: Control) -> None:
    verdict = await try_control(PROOF, control, "sqlite", "", seed=SEED)

    assert verdict.zeros[control.breaks] > 0, verdict.line()


@pytest.mark.parametrize("before", range(4))
def test_a_canary_is_found_in_every_usual_form(before: int) -> None:
    cage, secret = Cage(), "s3cret~which/nobody+knows"
    cage.add("kind", "name", secret)
    text = b"x" * before + secret.encode() + b"and more"
    for form in (text, text.hex().encode(), base64.b64encode(text), base64.urlsafe_b64encode(text)):
        assert cage.found_in(b"before " + form) == ["kind: name"]
    assert cage.found_in("".join(f"%{byte:02X}" for byte in text).encode()) == ["kind: name"]
    assert cage.found_in(b"s3cret, which nobody knows") == []
    assert cage.unused == ["kind: name"]
