"""docs/proofs.md: words from the code, figures from the last full run of each proof."""

import os
import platform
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from proofs.harness.controls import Control
from proofs.harness.settings import Proof
from proofs.harness.verdicts import Verdict
from tests.engines import Engine

_HEAD = """# Proofs

<!-- Written by `scripts/prove NAME --write-docs`; edit the proofs, not this page. -->

A proof is a long run that counts what must never happen, and ends well only if every count is zero. It prints its seed
and one closing line. Each has negative controls: the product itself with one statement changed, in the same harness.
The statement is the one with the comment `# control: MARKER`, or the query of that name; in a change, `$` stands for
any name, `$...` for any text. A control must break the count that it names, in one of three small games, or the proof
shows nothing and fails. The limits of rates and of chains (docs/floods.md) are lifted: a crowd that sends and answers
as fast as it can is what they stop.

`scripts/prove NAME [--seed N] [--tenth] [--engine sqlite|postgres]`; `scripts/prove all` runs one after the other, for
two to three hours on two cores. The tests in `tests/prove` run each at about a tenth, with some of its controls.
"""
FAULTS, SIMULATED, HOSTILE = "injected faults", "simulated faults", "hostile inputs"
_EARLIER = "  (A run of an earlier form of this proof.)"
_LONG_SECONDS = 600
_SECONDS = re.compile(r", seed \d+, (\d+) s\.")
_RECORD = re.compile(r"^\* `(?P<title>\w+ \w+)`: (?P<text>.+)$", re.MULTILINE)


def machine() -> str:
    """What ran it, as far as it matters for the figures."""
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def today() -> str:
    """The date of a run."""
    return datetime.now(UTC).date().isoformat()


def record(proof: Proof, ran: str, verdict: Verdict, controls: list[str]) -> str:
    """One line about one full run; `ran`: when, where, with what seed, how long."""
    sums = ((counted(verdict, names), what) for what, names in kinds(proof))
    summed = "".join(f" {count:,} {what}." for count, what in sums if count)
    return f"{ran}.{summed} {verdict.line()}. Controls: {'; '.join(controls)}."


def kinds(proof: Proof) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What is summed up over all proofs, and the figures of one that count it."""
    return (FAULTS, proof.faults), (SIMULATED, proof.simulated), (HOSTILE, proof.hostile)


def counted(verdict: Verdict, names: tuple[str, ...]) -> int:
    """The sum of these figures of a run. KeyError: it did not count what its proof says that it counts."""
    return sum(int(verdict.figures[name]) for name in names)


def render(proofs: Iterable[Proof], before: str, new: dict[str, str]) -> str:
    """The page. Figures that stand in the page before stay, unless there are new ones under the same title."""
    records = {found["title"]: found["text"] for found in _RECORD.finditer(before)} | new
    every = [*proofs]
    sections = (line for proof in every for line in _section(proof, records))
    return "\n".join([_HEAD, *_together(every, records), *sections])


def _together(proofs: Iterable[Proof], records: dict[str, str]) -> Iterator[str]:
    """What the full runs that stand on the page sum up to, by the figures that stand in their lines. Runs of an earlier
    form are left out."""
    sums = dict.fromkeys((FAULTS, SIMULATED, HOSTILE), 0)
    long = [f"{title} {found[1]} s" for title, line in records.items() if (found := _long(line))]
    for proof in proofs:
        lines = {engine: records.get(f"{proof.name} {engine}") for engine in proof.sizes}
        now = [line for engine, line in lines.items() if line is not None and _is_of_now(proof, engine, line)]
        for what, names in kinds(proof):
            sums[what] += sum(_figure(line, name) for line in now for name in names)
    if long:
        yield f"Longer than ten minutes with all their controls: {', '.join(long)}.\n"
    if any(sums.values()):
        yield f"The last full runs together: {', '.join(f'{count:,} {what}' for what, count in sums.items())}.\n"


def _long(line: str) -> re.Match[str] | None:
    """The seconds of a run, if it took long."""
    found = _SECONDS.search(line)
    return found if found and int(found[1]) > _LONG_SECONDS else None


def _figure(line: str, name: str) -> int:
    """What a line says that a run counted under a name; none if it was not counted then."""
    found = _counts(line, name)
    return int(found[1].replace(",", "")) if found else 0


def _counts(line: str, name: str) -> re.Match[str] | None:
    return re.search(rf"[.,] {re.escape(name)} ([\d,]*\d)(?=[, ]|$)", line.partition(" | ")[0])


def _section(proof: Proof, records: dict[str, str]) -> Iterator[str]:
    yield f"## {proof.name}\n"
    yield f"{proof.shows}\n"
    sizes = ", ".join(f"{size:,} {proof.unit} on {engine}" for engine, size in proof.sizes.items())
    yield f"`scripts/prove {proof.name}`: {sizes}. Without `--engine` it runs on {' and '.join(proof.engines)}.\n"
    for engine, least in proof.demands.items():
        counts = ", ".join(f"{name} {count:,}" for name, count in least.items())
        yield f"A full run on {engine} fails if it comes to less than: {counts}.\n"
    yield from ("| control | marker | change | must break |", "|---|---|---|---|")
    yield from dict.fromkeys(_row(control) for controls in proof.controls.values() for control in controls)
    yield "\nLast full runs:\n"
    for engine in proof.sizes:
        line = records.get(f"{proof.name} {engine}")
        if line is not None:
            yield f"* `{proof.name} {engine}`: {line}"
            if not _is_of_now(proof, engine, line):
                yield _EARLIER
    yield ""


def _is_of_now(proof: Proof, engine: Engine, line: str) -> bool:
    """Whether a line tells of a run of the proof as it is: of what it counts as faults and hostile inputs, of as much
    as it must come to, and of all its controls."""
    controls = line.partition(" Controls: ")[2]
    return (
        all(_counts(line, name) for _, names in kinds(proof) for name in names)
        and all(_figure(line, name) >= least for name, least in proof.demands.get(engine, {}).items())
        and all(f"{each.name}: " in controls for each in proof.controls[engine])
    )


def _row(control: Control) -> str:
    change = control.change.says().replace("|", "\\|")
    return f"| {control.name} | {control.marker} | {change} | {control.breaks} |"
