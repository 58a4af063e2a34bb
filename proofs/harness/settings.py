"""What a run is given: a seed, an engine with an empty place, a size, and the package that is to be proved."""

import random
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from proofs.harness.controls import Control, plant
from proofs.harness.verdicts import Verdict, demand
from testing.engines import Engine, new_database

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
"""Starting a process may take so long on a busy machine. A wait that reaches its bound is counted, never a pause."""
_GAMES_OF_A_CONTROL = 3


class Setting(Struct, frozen=True, kw_only=True):
    """One run. `folder` is empty and its own; `database` is an empty PostgreSQL database, or empty for SQLite."""

    engine: Engine
    folder: Path
    database: str
    seed: int
    size: int
    package: Path | None = None
    """The folder that holds the package with one statement changed; None: the product itself."""
    serial: bool = False
    only: str = ""
    """The part of the proof that is run, if it has parts and one of them is enough."""

    def dice(self, *names: object) -> random.Random:
        """A source of chance of one's own: whoever else throws, the same names get the same throws."""
        return random.Random(f"{self.seed} {names}")

    def python_path(self) -> str:
        """What a child process finds first."""
        return ":".join(str(path) for path in (self.package, ROOT) if path is not None)


class Proof(Struct, frozen=True, kw_only=True):
    """One proof: what it shows, how much it does in full, and the mistakes that it must see."""

    name: str
    claim: str
    """What must hold, in one sentence."""
    shows: str
    """What the run does."""
    engines: tuple[Engine, ...]
    """Those it runs on if none is named."""
    unit: str
    sizes: dict[Engine, int]
    """By the engines that it plays on; of no other can it be asked."""
    control_sizes: dict[Engine, int]
    controls: dict[Engine, tuple[Control, ...]]
    run: Callable[[Setting], Awaitable[Verdict]]
    faults: tuple[str, ...] = ()
    """The figures that count injected faults: kills, cuts, power, storage, network."""
    simulated: tuple[str, ...] = ()
    """The figures that count faults of a simulation, in which processes, lines and clocks are played."""
    hostile: tuple[str, ...] = ()
    """The figures that count hostile inputs."""
    demands: dict[Engine, dict[str, int]] = {}
    """What the figures of a full run must come to at least, where its size does not make sure of it."""

    def size(self, engine: Engine, *, tenth: bool) -> int:
        """How much a run does."""
        return self.sizes[engine] // (10 if tenth else 1)


@asynccontextmanager
async def setting(
    engine: Engine, postgres: str, *, seed: int, size: int, control: Control | None = None
) -> AsyncIterator[Setting]:
    """A run's setting in folders that are gone afterwards. `postgres` is the address of a server, if it takes one."""
    with tempfile.TemporaryDirectory(prefix="molecule-proof-") as name:
        folder = Path(name, "state")
        folder.mkdir(mode=0o700)
        yield Setting(
            engine=engine,
            folder=folder,
            database=await new_database(postgres) if engine == "postgres" else "",
            seed=seed,
            size=size,
            package=None if control is None else plant(control, Path(name, "package")),
            serial=control is not None and control.serial,
            only="" if control is None else control.only,
        )


async def prove(proof: Proof, engine: Engine, postgres: str, *, seed: int, tenth: bool) -> Verdict:
    """The proof itself, on the product as it is."""
    async with setting(engine, postgres, seed=seed, size=proof.size(engine, tenth=tenth)) as given:
        verdict = await proof.run(given)
    if not tenth and engine in proof.demands:
        demand(verdict, proof.demands[engine])
    return verdict


async def try_control(proof: Proof, control: Control, engine: Engine, postgres: str, *, seed: int) -> Verdict:
    """Run the same harness, smaller, on the product with the control's statement changed.

    What it breaks may take a moment that chance gives, so it has some games for it; the verdict is that of the first
    that breaks what it must, or of the last."""
    size, verdict = proof.control_sizes[engine], Verdict({}, {})
    for number in range(_GAMES_OF_A_CONTROL):
        async with setting(engine, postgres, seed=seed + number, size=size, control=control) as given:
            verdict = await proof.run(given)
        if verdict.zeros[control.breaks]:
            break
    return verdict
