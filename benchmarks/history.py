"""What earlier runs measured: one line of JSON a run, so that a regression is seen. Only `--write` adds a line."""

import msgspec
from msgspec import Struct

from benchmarks.figures import Figure
from benchmarks.machine import ROOT, Machine

FOLDER = ROOT / "benchmarks" / "history"


class Run(Struct, frozen=True, kw_only=True):
    """One run of some rows. `at` is a date in UTC."""

    at: str
    commit: str
    machine: Machine
    seed: int
    rounds: int
    figures: list[Figure]


def append(run: Run) -> None:
    """Adds a run to the file of its year."""
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"{run.at[:4]}.jsonl").open("ab") as file:
        file.write(msgspec.json.encode(run) + b"\n")


def runs() -> list[Run]:
    """All runs, oldest first."""
    lines = [line for path in sorted(FOLDER.glob("*.jsonl")) for line in path.read_bytes().splitlines()]
    return [msgspec.json.decode(line, type=Run) for line in lines]
