"""The package with the change of each control in it passes the type check: a change names nothing that is not there.

A stale name would raise an AttributeError or NameError instead of the mistake that a proof must see.
"""

import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from proofs.harness.mutations import PACKAGE, mutate
from tests.system.proofs.every_control import EVERY

ROOT = Path(__file__).resolve().parents[3]
# A changed condition is constant, and what it guards unreachable; an expression that stands for a statement uses the
# None of a function, or a lambda without a type; a list may lose the statement that fills it. Nothing else is accepted.
ACCEPTED = re.compile(
    r"\[(?:unreachable|redundant-expr|truthy-bool|func-returns-value|var-annotated)\]$|Cannot infer type of lambda"
)
pytestmark = pytest.mark.long


def find_type_errors(folder: Path) -> list[str]:
    """Type-check `src/` of a folder, as scripts/check does; return the errors that no control may make."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "src"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode < 2, run.stderr or run.stdout
    return [line for line in run.stdout.splitlines() if ": error: " in line and not ACCEPTED.search(line)]


def pack(changes: Mapping[Path, Sequence[str]]) -> Iterator[dict[Path, str]]:
    """Yield the texts of all changed files, in as few sets as one text per file allows."""
    for number in range(max(map(len, changes.values()))):
        yield {file: texts[number] for file, texts in changes.items() if number < len(texts)}


def test_no_control_names_what_is_not_there(tmp_path: Path) -> None:
    package = tmp_path / "src" / PACKAGE.name
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__", "canvas_assets"))
    changes = defaultdict[Path, list[str]](list)
    for mutated in map(mutate, EVERY):
        if mutated.file.suffix == ".py":
            changes[mutated.file].append(mutated.text)

    found = []
    for texts in pack(changes):
        for file, text in texts.items():
            (package / file).write_text(text, encoding="utf-8")
        found += find_type_errors(tmp_path)
        for file in texts:
            shutil.copy2(PACKAGE / file, package / file)

    assert found == []


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("return int(row.unknown)", '"Row" has no attribute "unknown"  [attr-defined]'),
        ("return int(unknown(row))", 'Name "unknown" is not defined  [name-defined]'),
        ("return Row(unknown=1).cell", 'Unexpected keyword argument "unknown" for "Row"  [call-arg]'),
        ("if False:\n        return 1\n    return row.cell", None),
    ],
)
def test_a_stale_name_is_found_and_unreachable_code_is_not(tmp_path: Path, statement: str, error: str | None) -> None:
    (tmp_path / "src").mkdir()
    text = "class Row:\n    cell = 1\n\n\ndef read(row: Row) -> int:\n    " + statement
    (tmp_path / "src" / "rows.py").write_text(f"{text}\n")
    assert find_type_errors(tmp_path) == ([] if error is None else [f"src/rows.py:6: error: {error}"])


def test_each_change_is_in_one_set_and_no_file_twice_in_a_set() -> None:
    one, two = Path("a.py"), Path("b.py")
    assert list(pack({one: ["1", "2"], two: ["3"]})) == [{one: "1", two: "3"}, {one: "2"}]
