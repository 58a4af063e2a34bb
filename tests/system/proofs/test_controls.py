"""What the proofs stand on: a control changes one statement that is really there, and the judges can count."""

import asyncio
import builtins
import re
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from proofs.harness.controls import Control, plant
from proofs.harness.mutations import (
    PACKAGE,
    Always,
    Change,
    Mutation,
    Remove,
    Swap,
    markers,
    mutate,
    mutated_text,
    sources,
)
from proofs.harness.pages import RunRecord, describe, read_runs, record, render, write_runs
from proofs.harness.settings import Proof
from proofs.harness.verdicts import Figure, Verdict, descents, gaps
from proofs.main import PAGE, PROOFS, RECORDS
from tests.system.proofs.every_control import CONTROLS, EVERY

OF_LIBRARIES = {
    *dir(builtins),
    *dir(asyncio),
    *dir(int),
    *(
        "copyfile",
        "urandom",
        "call_soon",
        "call_later",
        "setdefault",
        "startswith",
        "encode",
        "decode",
        "throw",
        "pop",
        "textContent",
        "innerHTML",
    ),
}


def test_each_marker_is_in_the_package_once_and_has_a_control() -> None:
    wanted = {each.marker for each in EVERY if mutate(each).file.suffix == ".py"}
    assert sorted(markers()) == sorted(wanted)


@pytest.mark.long
def test_each_control_changes_its_file_into_one_that_compiles_and_knows_its_names(tmp_path: Path) -> None:
    for number, each in enumerate(EVERY):
        mutated = mutate(each)
        assert mutated.text != (PACKAGE / mutated.file).read_text(encoding="utf-8"), each
        if mutated.file.suffix == ".py":
            compile(mutated.text, each.marker, "exec")
            (tmp_path / f"{each.marker}_{number}.py").write_text(mutated.text, encoding="utf-8")
    assert undefined_names(tmp_path) == ""


def undefined_names(folder: Path) -> str:
    """Return what ruff finds of names that nothing defines, in all files of a folder."""
    options = ["--isolated", "--no-cache", "--quiet", "--target-version=py311", "--output-format=concise"]
    command = [str(Path(sys.executable).with_name("ruff")), "check", *options, "--select=F821", str(folder)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout


def test_a_name_that_nothing_defines_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("print(nowhere)\n", encoding="utf-8")
    assert "nowhere" in undefined_names(tmp_path)


def test_words_that_changes_bring_in_are_words_of_the_package_or_of_a_library() -> None:
    """An attribute that is renamed in the package, and not in the control, would break something else than it says."""
    known = words("\n".join(sources().values())) | OF_LIBRARIES
    unknown = {each.marker: words(each.change.new) - known for each in EVERY if isinstance(each.change, Swap)}
    assert {marker: found for marker, found in unknown.items() if found} == {}


def words(text: str) -> set[str]:
    """Return what is written before a parenthesis or behind a point, where it may be the name of an attribute."""
    return set(re.findall(r"(?<=\.)[A-Za-z_]\w*|(?<![\w$])[A-Za-z_]\w*(?=\()", text))


def test_a_planted_package_differs_from_the_product_in_that_file_alone(tmp_path: Path) -> None:
    control = CONTROLS[0]

    planted = plant(control, tmp_path) / PACKAGE.name

    files = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    changed = [file for file in files if (PACKAGE / file).read_bytes() != (planted / file).read_bytes()]
    assert changed == [mutate(control).file]


def test_a_control_without_its_marker_is_refused(tmp_path: Path) -> None:
    control = Control(name="x", marker="there-is-none", change=Remove(), breaks="lost")
    with pytest.raises(ValueError, match="0 times, not once"):
        plant(control, tmp_path)


SOURCE = """
@cached  # control: decorated
def answer(
    rows,
    most: str = "FULL",  # control: most
):
    # control: above
    found = one.key(rows, 1) or none
    if (
        rows < most  # control: if
    ):
        return found if rows else None  # control: inner
    elif found is one.OTHER:  # control: elif
        pass
    for row in rows:  # control: for
        row.put(
            "a",  # <
            {"b": row.b},  # control: many
        )
    try:
        return [each for each in rows if each]  # control: listed
    except RecursionError:  # control: except
        pass  # é; control: none
"""


@pytest.mark.parametrize(
    ("marker", "change", "before", "after"),
    [
        ("decorated", Swap("@cached", "@property"), "@cached", "@property"),
        ("most", Swap('"FULL"', '"OFF"'), '"FULL"', '"OFF"'),
        ("above", Remove(), "found = one.key(rows, 1) or none", "pass"),
        (
            "above",
            Swap("$key($rows, $...) or ", "$rows or $key or"),
            "one.key(rows, 1) or none",
            "rows or one.key or none",
        ),
        ("if", Always(False), "rows < most", "False"),
        ("if", Swap("<", ">"), "rows < most", "rows > most"),
        ("inner", Always(True), "found if rows else", "found if True else"),
        ("elif", Always(False), "found is one.OTHER", "False"),
        ("elif", Swap("$found is $", "not $found"), "found is one.OTHER", "not found"),
        ("for", Swap("in $rows", "in [*$rows]"), "in rows:", "in [*rows]:"),
        ("many", Remove(), SOURCE[SOURCE.index("row.put") : SOURCE.index("    try")].rstrip(), "pass"),
        (
            "many",
            Swap('put("a", {"$": $b})', "put($b)"),
            SOURCE[SOURCE.index("put(") : SOURCE.index("    try")].rstrip(),
            "put(row.b)",
        ),
        ("listed", Always(True), "in rows if each", "in rows if True"),
        ("except", Swap("RecursionError", "ZeroDivisionError"), "RecursionError", "ZeroDivisionError"),
    ],
)
def test_a_change_is_made_in_the_marked_statement(marker: str, change: Change, before: str, after: str) -> None:
    assert SOURCE.count(before) == 1
    assert mutated_text(SOURCE, Mutation(marker=marker, change=change)) == SOURCE.replace(before, after)


@pytest.mark.parametrize(
    ("marker", "change"),
    [
        ("none", Remove()),
        ("above", Always(True)),
        ("for", Always(True)),
        ("for", Swap("return", "yield")),
        ("inner", Swap("$", "x")),
        ("many", Swap("<", ">")),
    ],
)
def test_a_change_that_has_not_exactly_one_place_is_refused(marker: str, change: Change) -> None:
    with pytest.raises(ValueError, match=r"not one|not once"):
        mutated_text(SOURCE, Mutation(marker=marker, change=change))


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


def test_the_page_of_the_proofs_is_what_the_code_and_the_records_say() -> None:
    content = RECORDS.read_bytes()
    runs = read_runs(content)
    assert PAGE.read_text(encoding="utf-8") == render(PROOFS.values(), runs)
    assert content == write_runs(runs)


def run_of(figures: dict[str, Figure], controls: dict[str, str]) -> RunRecord:
    return record(Verdict(figures, {"lost": 0}), controls, seed=1, seconds=1234)


def test_a_row_tells_the_last_runs_and_their_sums() -> None:
    proof = replace(PROOFS["kill9"], faults=("kills",), controls=dict.fromkeys(PROOFS["kill9"].sizes, ()))
    run = run_of({"kills": 2000, "messages": 7}, {})
    page = render([proof], {"kill9 sqlite": run}).splitlines()
    assert "The last full runs together: 2,000 injected faults, 0 simulated faults, 0 hostile inputs." in page
    [row] = [line for line in page if line.startswith("| [kill9]")]
    assert f"| sqlite {run.date}, 1,234 s, 2,000 injected faults |" in row
    assert read_runs(write_runs({"kill9 sqlite": run})) == {"kill9 sqlite": run}


@pytest.mark.parametrize(
    "lacks",
    ["", "kills", "late acks refused", "one of late acks refused", PROOFS["workers"].controls["postgres"][0].name],
)
def test_a_run_of_an_earlier_form_of_a_proof_is_told_as_one(lacks: str) -> None:
    workers = PROOFS["workers"]
    every = {**dict.fromkeys(workers.faults, 7), **workers.demands["postgres"]}
    counts = {name: count - (f"one of {name}" == lacks) for name, count in every.items() if name != lacks}
    controls = {each.name: "lost 1" for each in workers.controls["postgres"] if each.name != lacks}

    page = render([workers], {"workers postgres": run_of(dict(counts), controls)})

    assert ("(an earlier form of the proof)" in page) == bool(lacks)
    assert ("The last full runs together" in page) != bool(lacks)


@pytest.mark.parametrize("proof", PROOFS.values(), ids=PROOFS)
def test_the_description_of_a_proof_names_its_claim_and_all_its_controls(proof: Proof) -> None:
    text = "\n".join(describe(proof))
    assert proof.claim in text and proof.shows in text
    assert all(each.breaks in text for controls in proof.controls.values() for each in controls)
