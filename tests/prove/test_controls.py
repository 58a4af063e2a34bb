"""What the proofs stand on: a control replaces one line that is really there, and the judges can count."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from proofs.harness.controls import PACKAGE, Control, plant, replaced
from proofs.harness.pages import record, render
from proofs.harness.verdicts import Verdict, descents, gaps
from proofs.main import PAGE, PROOFS

CONTROLS = sorted(
    {each for proof in PROOFS.values() for controls in proof.controls.values() for each in controls},
    key=lambda control: control.name,
)


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: control.name)
def test_a_control_replaces_exactly_one_line_of_the_package(control: Control) -> None:
    text = (PACKAGE / control.file).read_text(encoding="utf-8")

    before, after = text.splitlines(), replaced(control, text).splitlines()
    place = next(number for number, (one, other) in enumerate(zip(before, after, strict=False)) if one != other)
    assert before[place].strip() == control.line
    assert after[place].strip() == control.by.split("\n")[0]
    assert before[place + 1 :] == after[place + 1 + control.by.count("\n") :], "other lines are as they were"


def test_a_planted_package_differs_from_the_product_in_that_line_alone(tmp_path: Path) -> None:
    control = CONTROLS[0]

    planted = plant(control, tmp_path) / PACKAGE.name

    files = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    changed = [str(file) for file in files if (PACKAGE / file).read_bytes() != (planted / file).read_bytes()]
    assert changed == [control.file]


@pytest.mark.parametrize("line", ["there is no such line", "try:"])
def test_a_control_whose_line_is_not_there_once_is_refused(line: str, tmp_path: Path) -> None:
    control = Control(name="x", file="store/sqlite.py", line=line, by="pass", breaks="lost")
    with pytest.raises(ValueError, match="not once"):
        plant(control, tmp_path)


def test_gaps_counts_what_is_missing_and_what_is_doubled() -> None:
    assert [gaps([]), gaps([1, 2, 3]), gaps([3, 1, 2]), gaps([2, 3]), gaps([1, 1, 2]), gaps([1, 4, 4])] == [
        *(0, 0, 0, 1, 1, 3),
    ]


def test_descents_counts_what_does_not_rise() -> None:
    assert [descents([]), descents([1, 5, 9]), descents([1, 1, 2]), descents([3, 2, 1])] == [0, 0, 1, 2]


def test_a_verdict_names_only_the_zeros_that_are_broken() -> None:
    verdict = Verdict({"kills": 1234}, {"lost": 0, "twice": 2})
    assert verdict.broken == {"twice": 2}
    assert verdict.line() == "kills 1,234 | lost 0, twice 2"


def test_the_page_of_the_proofs_is_what_the_code_says() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == render(PROOFS.values(), page, {})


def test_the_page_keeps_old_figures_and_takes_new_ones() -> None:
    verdict = Verdict({"kills": 200}, {"lost": 0})
    proof = replace(PROOFS["kill9"], faults=("kills",), controls={"sqlite": ()})
    proofs = [proof, PROOFS["cursors"]]
    one = render(proofs, "", {"kill9 sqlite": record(proof, "2026-01-01", verdict, ["a: b 3"])})
    two = render(proofs, one, {"cursors postgres": "new"})

    line = "* `kill9 sqlite`: 2026-01-01. 200 injected faults. kills 200 | lost 0. Controls: a: b 3."
    assert "The last full runs together: 200 injected faults, 0 simulated faults, 0 hostile inputs." in two.splitlines()
    assert line in one.splitlines()
    assert [each for each in two.splitlines() if each.startswith("* ")] == [line, "* `cursors postgres`: new"]


def test_the_page_sums_up_no_runs_of_an_earlier_form_and_names_those_that_took_long() -> None:
    proof = replace(PROOFS["kill9"], faults=("kills",), controls={"sqlite": (CONTROLS[0],)})
    verdict = Verdict({"kills": 200}, {"lost": 0})
    ran = "2026-01-01, seed 1, {} s"
    old, new = (
        render([proof], "", {"kill9 sqlite": record(proof, ran.format(seconds), verdict, controls)})
        for seconds, controls in ((601, []), (600, [f"{CONTROLS[0].name}: lost 1"]))
    )

    assert "earlier form" in old and "The last full runs together" not in old
    assert "Longer than ten minutes with all their controls: kill9 sqlite 601 s." in old.splitlines()
    assert "The last full runs together: 200 injected faults" in new and "Longer than" not in new


@pytest.mark.parametrize(
    "lacks",
    ["", "kills", "late acks refused", "one of late acks refused", PROOFS["workers"].controls["postgres"][0].name],
)
def test_a_run_of_an_earlier_form_of_a_proof_is_told_as_one(lacks: str) -> None:
    workers = PROOFS["workers"]
    every = {**dict.fromkeys(workers.faults, 7), **workers.demands["postgres"]}
    counts = {name: count - (f"one of {name}" == lacks) for name, count in every.items() if name != lacks}
    controls = [f"{each.name}: lost 1" for each in workers.controls["postgres"] if each.name != lacks]
    run = record(replace(workers, faults=()), "2026-01-01", Verdict(dict(counts), {"lost": 0}), controls)

    page = render([workers], "", {"workers postgres": run})

    assert ("(A run of an earlier form of this proof.)" in page) == bool(lacks)
