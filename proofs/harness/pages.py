"""docs/proofs.md: one table, from the code of the proofs and the record of the last full run of each.

The records are in docs/proofs.json, by proof and engine ("kill9 sqlite").
"""

import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from proofs.harness.controls import Control
from proofs.harness.settings import Proof
from proofs.harness.verdicts import Figure, Verdict
from testing.engines import Engine

_HEAD = """# Proofs

<!-- Written by `scripts/prove NAME --write-docs`; edit the proofs, not this page. -->

A proof is a long run of the product under faults or hostile input. It counts violations and succeeds only if every
count is zero, so all runs below had none. Each has negative controls: the product with one statement changed, in the
same harness. A control must break the count that it names, or the proof fails.

```sh
scripts/prove NAME [--seed N] [--tenth] [--engine sqlite|postgres]
scripts/prove NAME --describe      # what it does, its sizes and its controls
scripts/prove all                  # two to three hours on two cores
```

The limits of rates and chains ([floods](explanation/floods.md)) are lifted, since a proof sends and answers as fast as
it can. The tests in `tests/system/proofs` run each proof at about a tenth, with some controls. All figures of the last
full runs, with seeds and what each control broke: [proofs.json](proofs.json).
"""
FAULTS, SIMULATED, HOSTILE = "injected faults", "simulated faults", "hostile inputs"
_EARLIER = " (an earlier form of the proof)"


class RunRecord(Struct, frozen=True, kw_only=True):
    """One full run without violations."""

    date: str
    machine: str
    seed: int
    seconds: int
    """Duration, with all controls."""
    figures: dict[str, Figure]
    zeros: dict[str, int]
    controls: dict[str, str]
    """Name of a control -> what it broke, and how often."""


Runs = Mapping[str, RunRecord]
"""Records by title."""


def title_of(proof: Proof, engine: Engine) -> str:
    """The title of a record."""
    return f"{proof.name} {engine}"


def machine() -> str:
    """What ran it, as far as it matters for the figures."""
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def record(verdict: Verdict, controls: dict[str, str], *, seed: int, seconds: int) -> RunRecord:
    """The record of a run that ended now."""
    return RunRecord(
        date=datetime.now(UTC).date().isoformat(),
        machine=machine(),
        seed=seed,
        seconds=seconds,
        figures=dict(verdict.figures),
        zeros=dict(verdict.zeros),
        controls=controls,
    )


def read_runs(content: bytes) -> dict[str, RunRecord]:
    """Read the records; none of an empty file."""
    return msgspec.json.decode(content, type=dict[str, RunRecord]) if content else {}


def write_runs(runs: Runs) -> bytes:
    """Return the records as readable JSON, by title."""
    return msgspec.json.format(msgspec.json.encode(dict(sorted(runs.items()))), indent=1) + b"\n"


def kinds(proof: Proof) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What is summed up over all proofs, and the figures of one that count it."""
    return (FAULTS, proof.faults), (SIMULATED, proof.simulated), (HOSTILE, proof.hostile)


def counted(figures: Mapping[str, Figure], names: tuple[str, ...]) -> int:
    """The sum of these figures of a run. KeyError: it did not count what its proof says that it counts."""
    return sum(int(figures[name]) for name in names)


def render(proofs: Iterable[Proof], runs: Runs) -> str:
    """The page."""
    every = [*proofs]
    lines = [
        _HEAD,
        *_totals(every, runs),
        "| proof | shows | full run | last full runs | controls |",
        "|---|---|---|---|---:|",
        *(_row(proof, runs) for proof in every),
    ]
    return "\n".join(lines) + "\n"


def describe(proof: Proof) -> Iterator[str]:
    """What `scripts/prove NAME --describe` prints."""
    yield f"{proof.name}: {proof.claim}\n"
    yield f"{proof.shows}\n"
    yield f"Full run: {_sizes(proof)}. Without --engine it runs on {' and '.join(proof.engines)}."
    for engine, least in proof.demands.items():
        counts = ", ".join(f"{name} {count:,}" for name, count in least.items())
        yield f"A full run on {engine} fails if it comes to less than: {counts}."
    yield "\nControls (name | marker of the statement | change | count that it must break):"
    yield from dict.fromkeys(_control(each) for controls in proof.controls.values() for each in controls)


def is_current(proof: Proof, engine: Engine, run: RunRecord) -> bool:
    """Whether a record is of the proof as it is: it has its counts, its demands are met, and all its controls ran."""
    return (
        all(name in run.figures for _, names in kinds(proof) for name in names)
        and all(int(run.figures.get(name, 0)) >= least for name, least in proof.demands.get(engine, {}).items())
        and all(each.name in run.controls for each in proof.controls[engine])
    )


def _totals(proofs: list[Proof], runs: Runs) -> Iterator[str]:
    """What the current runs sum up to."""
    sums = dict.fromkeys((FAULTS, SIMULATED, HOSTILE), 0)
    for proof in proofs:
        for engine in proof.sizes:
            run = runs.get(title_of(proof, engine))
            if run is not None and is_current(proof, engine, run):
                for what, names in kinds(proof):
                    sums[what] += counted(run.figures, names)
    if any(sums.values()):
        yield f"The last full runs together: {', '.join(f'{count:,} {what}' for what, count in sums.items())}.\n"


def _row(proof: Proof, runs: Runs) -> str:
    controls = {control.name for controls in proof.controls.values() for control in controls}
    done = "; ".join(_runs_of(proof, runs))
    name = f"[{proof.name}](../proofs/{proof.name}/proof.py)"
    return f"| {name} | {proof.claim} | {_sizes(proof)} | {done} | {len(controls)} |"


def _runs_of(proof: Proof, runs: Runs) -> Iterator[str]:
    for engine in proof.sizes:
        run = runs.get(title_of(proof, engine))
        if run is not None:
            current = is_current(proof, engine, run)
            sums = ((counted(run.figures, names), what) for what, names in kinds(proof)) if current else ()
            did = "".join(f", {count:,} {what}" for count, what in sums if count)
            yield f"{engine} {run.date}, {run.seconds:,} s{did}{'' if current else _EARLIER}"


def _sizes(proof: Proof) -> str:
    return ", ".join(f"{size:,} {proof.unit} on {engine}" for engine, size in proof.sizes.items())


def _control(control: Control) -> str:
    return f"  {control.name} | {control.marker} | {control.change.says()} | {control.breaks}"
