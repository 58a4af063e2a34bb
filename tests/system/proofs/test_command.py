"""The command `scripts/prove`: which engines it takes, and when a run that broke nothing has failed all the same."""

import pytest

from proofs import main
from proofs.harness.settings import Proof, Setting, prove
from proofs.harness.verdicts import SHORT, Figure, Verdict
from proofs.main import ALL, FEWEST_FAULTS, FEWEST_HOSTILE, PROOFS, read_wish, runs_of
from testing.engines import ENGINES, Engine

SEED = 3
_ONLY_SQLITE = ["browser", "crashpoints", "envelope", "power", "simulate", "templates"]


def counting(demands: dict[Engine, dict[str, int]] | None = None, **figures: Figure) -> Proof:
    """A proof that breaks nothing and counts this."""

    async def run(_setting: Setting) -> Verdict:
        return Verdict({"played": FEWEST_FAULTS, **figures}, {"lost": 0})

    return Proof(
        name="small",
        claim="Nothing happens.",
        shows="Nothing.",
        engines=("sqlite",),
        unit="things",
        sizes={"sqlite": 10},
        control_sizes={"sqlite": 1},
        controls={"sqlite": ()},
        run=run,
        faults=("kills",),
        simulated=("played",),
        hostile=("cases",),
        demands=demands or {},
    )


@pytest.mark.parametrize("proof", PROOFS.values(), ids=PROOFS)
def test_a_proof_names_the_same_engines_for_all_that_it_has(proof: Proof) -> None:
    assert [*proof.sizes] == [*proof.control_sizes] == [*proof.controls]
    assert {*proof.engines, *proof.demands} <= {*proof.sizes}


def test_some_proofs_play_on_sqlite_alone() -> None:
    assert sorted(name for name, proof in PROOFS.items() if [*proof.sizes] == ["sqlite"]) == _ONLY_SQLITE


@pytest.mark.parametrize(
    ("name", "engine"), [*((name, "postgres") for name in _ONLY_SQLITE), ("workers", "sqlite")], ids="-".join
)
def test_an_engine_that_a_proof_does_not_play_on_is_refused(
    name: str, engine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_wish([name, "--engine", engine])

    assert ended.value.code == 2
    (other,) = PROOFS[name].sizes
    assert f"{name} plays nothing on {engine}, only on {other}" in capsys.readouterr().err


@pytest.mark.parametrize("engine", ENGINES)
def test_all_on_one_engine_leaves_out_those_that_play_nothing_there(engine: Engine) -> None:
    runs = runs_of([*PROOFS.values()], engine)

    assert {each for _, each in runs} == {engine}
    left_out = [*PROOFS.keys() - {proof.name for proof, _ in runs}]
    assert sorted(left_out) == (["workers"] if engine == "sqlite" else _ONLY_SQLITE)


def test_all_runs_each_on_the_engines_that_it_is_meant_for() -> None:
    runs = runs_of([*PROOFS.values()], None)

    assert runs == [(proof, engine) for proof in PROOFS.values() for engine in proof.engines]


@pytest.mark.parametrize(
    ("kills", "cases", "more", "said"),
    [
        (FEWEST_FAULTS, FEWEST_HOSTILE, [], "all proved"),
        (FEWEST_FAULTS - 1, FEWEST_HOSTILE, [], "FAILED: fewer than 10,000 injected faults"),
        (FEWEST_FAULTS, FEWEST_HOSTILE - 1, [], "FAILED: fewer than 1,500,000 hostile inputs"),
        (0, 0, [], "FAILED: fewer than 10,000 injected faults, fewer than 1,500,000 hostile inputs"),
        (0, FEWEST_HOSTILE, [], "FAILED: fewer than 10,000 injected faults"),
        (0, 0, ["--tenth"], "all proved"),
        (0, 0, ["--engine", "sqlite"], "all proved"),
    ],
)
def test_a_full_run_of_all_fails_that_did_too_little(
    kills: int,
    cases: int,
    more: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(main, "PROOFS", {"small": counting(kills=kills, cases=cases)})

    code = main.main([ALL, "--seed", str(SEED), *more])

    assert code == (0 if said == "all proved" else 1)
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"| {said}")


@pytest.mark.parametrize(("cuts", "missing"), [(500, 0), (501, 0), (467, 33)])
async def test_a_full_run_that_comes_to_less_than_it_must_breaks_a_zero(cuts: int, missing: int) -> None:
    proof = counting({"sqlite": {"cuts": 500}}, cuts=cuts)

    verdict = await prove(proof, "sqlite", "", seed=SEED, tenth=False)

    assert verdict.zeros[SHORT] == missing
    assert verdict.notes == (["cuts: 33 of 500 are missing"] if missing else [])


async def test_of_a_tenth_and_of_a_proof_that_demands_nothing_no_count_is_demanded() -> None:
    tenth = await prove(counting({"sqlite": {"cuts": 500}}, cuts=1), "sqlite", "", seed=SEED, tenth=True)
    whole = await prove(counting(cuts=1), "sqlite", "", seed=SEED, tenth=False)

    assert [tenth.zeros, whole.zeros] == [{"lost": 0}, {"lost": 0}]


async def test_what_was_not_counted_at_all_is_missing_too() -> None:
    verdict = await prove(counting({"sqlite": {"full": 50}}), "sqlite", "", seed=SEED, tenth=False)

    assert verdict.broken == {SHORT: 50}
