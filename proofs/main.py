"""The command `scripts/prove`: runs a proof and its controls, and says in one line what it counted."""

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from random import SystemRandom

from msgspec import Struct

from proofs.harness.pages import (
    FAULTS,
    HOSTILE,
    SIMULATED,
    RunRecord,
    counted,
    describe,
    read_runs,
    record,
    render,
    title_of,
    write_runs,
)
from proofs.harness.settings import ROOT, Proof, prove, try_control
from proofs.harness.verdicts import Verdict
from testing.engines import ENGINES, Engine, postgres_server

# In the order of the page.
NAMES = (
    "kill9",
    "cursors",
    "fetch",
    "templates",
    "envelope",
    "upgrade",
    "workers",
    "loops",
    "budgets",
    "parity",
    "approvals",
    "wait",
    "backup",
    "power",
    "matrix",
    "isolation",
    "senders",
    "storage",
    "simulate",
    "crashpoints",
    "snapshot",
    "network",
    "limits",
    "slow",
    "soak",
    "routing",
    "http",
    "secrets",
    "files",
    "state",
    "browser",
)
PROOFS: dict[str, Proof] = {name: import_module(f"proofs.{name}.proof").PROOF for name in NAMES}
PAGE, RECORDS = ROOT / "docs" / "proofs.md", ROOT / "docs" / "proofs.json"
ALL = "all"
# What a full run of all of them must come to. Faults of the simulation are counted apart: they cost nothing.
FEWEST_FAULTS, FEWEST_HOSTILE = 10_000, 1_500_000


class Wish(Struct):
    """What was asked for on the command line."""

    name: str | None
    seed: int
    tenth: bool
    engine: Engine | None
    write_docs: bool
    describe: bool


def read_wish(args: list[str]) -> Wish:
    """The command line; argparse says what is wrong with it."""
    parser = argparse.ArgumentParser(prog="scripts/prove", description=(__doc__ or "").split("\n")[0])
    names = [*sorted(PROOFS), ALL]
    parser.add_argument("name", nargs="?", choices=names, help="which proof (docs/proofs.md lists them), or all")
    parser.add_argument("--seed", type=int, help="the source of all chance of a run; drawn and printed if not given")
    parser.add_argument("--tenth", action="store_true", help="a tenth of the load")
    parser.add_argument("--engine", choices=ENGINES, help="only on this engine")
    parser.add_argument("--write-docs", action="store_true", help="put the figures of a full run into docs/proofs.md")
    parser.add_argument("--describe", action="store_true", help="run nothing; say what the proof does")
    options = parser.parse_args(args)
    if options.name is None and not options.write_docs:
        parser.error(f"name a proof: {', '.join(sorted(PROOFS))}")
    if options.describe and options.name not in PROOFS:
        parser.error("--describe needs the name of one proof")
    if options.tenth and options.write_docs:
        parser.error("docs/proofs.md tells of full runs: leave out --tenth")
    named = PROOFS.get(options.name)
    if named is not None and options.engine not in (None, *named.sizes):
        parser.error(f"{named.name} plays nothing on {options.engine}, only on {' and '.join(named.sizes)}")
    seed = SystemRandom().randrange(1 << 31) if options.seed is None else options.seed
    return Wish(options.name, seed, options.tenth, options.engine, options.write_docs, options.describe)


def main(args: list[str]) -> int:
    """Exit code 0 only if every zero is zero, every control has failed as it must, and all together did enough."""
    wish = read_wish(args)
    if wish.name is None:
        _write_page({})
        return 0
    if wish.describe:
        _say("\n".join(describe(PROOFS[wish.name])))
        return 0
    runs = runs_of([*PROOFS.values()] if wish.name == ALL else [PROOFS[wish.name]], wish.engine)
    total = Total(is_full=wish.name == ALL and wish.engine is None and not wish.tenth)
    with _postgres(any(engine == "postgres" for _, engine in runs)) as postgres:
        for proof, engine in runs:
            _guarded(proof, engine, postgres, wish, total)
    if wish.name == ALL:
        _say(total.line(len(runs)))
    return 1 if total.bad else 0


def runs_of(proofs: list[Proof], asked: Engine | None) -> list[tuple[Proof, Engine]]:
    """What is run. Asked for an engine, it leaves out the proofs that play nothing there."""
    if asked is None:
        return [(proof, engine) for proof in proofs for engine in proof.engines]
    return [(proof, asked) for proof in proofs if asked in proof.sizes]


class Total(Struct):
    """What several runs come to. `is_full`: they are all there are, each in full."""

    is_full: bool = False
    faults: int = 0
    simulated: int = 0
    hostile: int = 0
    failed: list[str] = []

    @property
    def bad(self) -> list[str]:
        """What has failed, and of what a full run of all did too little."""
        sums = ((self.faults, FEWEST_FAULTS, FAULTS), (self.hostile, FEWEST_HOSTILE, HOSTILE))
        few = [f"fewer than {least:,} {what}" for count, least, what in sums if self.is_full and count < least]
        return [*self.failed, *few]

    def line(self, runs: int) -> str:
        """The closing line of all."""
        bad = f"FAILED: {', '.join(self.bad)}" if self.bad else "all proved"
        sums = ((self.faults, FAULTS), (self.simulated, SIMULATED), (self.hostile, HOSTILE))
        return f"all: {runs} runs, {', '.join(f'{count:,} {what}' for count, what in sums)} | {bad}"


def _guarded(proof: Proof, engine: Engine, postgres: str, wish: Wish, total: Total) -> None:
    """One proof on one engine; one that breaks down has failed, and the next one is run."""
    title = title_of(proof, engine)
    try:
        verdict = _run(proof, engine, postgres, wish)
    except Exception as error:
        if wish.name != ALL:
            raise
        _say(f"{title}: broke down: {error!r}")
        verdict = None
    if verdict is None:
        total.failed.append(title)
        return
    total.faults += counted(verdict.figures, proof.faults)
    total.simulated += counted(verdict.figures, proof.simulated)
    total.hostile += counted(verdict.figures, proof.hostile)


@contextlib.contextmanager
def _postgres(wanted: bool) -> Iterator[str]:
    """The address of a PostgreSQL server of this run; empty if none is wanted."""
    if not wanted:
        yield ""
        return
    with contextlib.closing(postgres_server()) as server:
        yield next(server)


def _run(proof: Proof, engine: Engine, postgres: str, wish: Wish) -> Verdict | None:
    """One proof on one engine: the controls, then the product, then the closing line. None: it has failed."""
    title = title_of(proof, engine)
    size = proof.size(engine, tenth=wish.tenth)
    _say(f"{title}: seed {wish.seed}, {size:,} {proof.unit}")
    began = time.monotonic()
    outcomes = list(_controls(proof, engine, postgres, wish.seed))
    verdict = asyncio.run(prove(proof, engine, postgres, seed=wish.seed, tenth=wish.tenth))
    seconds = round(time.monotonic() - began)
    good = not verdict.broken and all(failed for failed, _ in outcomes)
    for note in (*verdict.told, *(verdict.notes if verdict.broken else ())):
        _say(f"  {note}")
    _say(f"{title}: {verdict.line()} | {'proved' if good else 'FAILED'} in {seconds} s")
    if good and wish.write_docs:
        broken = dict(told for _, told in outcomes)
        _write_page({title: record(verdict, broken, seed=wish.seed, seconds=seconds)})
    return verdict if good else None


def _controls(proof: Proof, engine: Engine, postgres: str, seed: int) -> Iterator[tuple[bool, tuple[str, str]]]:
    """For each control whether it failed as it must, its name, and what it broke."""
    for control in proof.controls[engine]:
        verdict = asyncio.run(try_control(proof, control, engine, postgres, seed=seed))
        count = verdict.zeros[control.breaks]
        broken = f"{control.breaks} {count:,}{_share(control.serial, verdict)}"
        _say(
            f"  control, {control.name}: {broken} ({'fails, as it must' if count else 'NOT SEEN: the proof is hollow'})"
        )
        yield count > 0, (control.name, broken)


def _share(serial: bool, verdict: Verdict) -> str:
    return f" ({verdict.figures['share of the journals skipped']} of the journals)" if serial else ""


def _write_page(new: dict[str, RunRecord]) -> None:
    """docs/proofs.json with new records beside the earlier ones, and docs/proofs.md from it and the code."""
    runs = (read_runs(RECORDS.read_bytes()) if RECORDS.exists() else {}) | new
    RECORDS.write_bytes(write_runs(runs))
    PAGE.write_text(render(PROOFS.values(), runs), encoding="utf-8")
    _say(f"wrote {Path(PAGE).relative_to(ROOT)}")


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
