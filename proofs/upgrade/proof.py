"""`scripts/prove upgrade`: stores of every release, brought forward by processes that are killed while they do it."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import asyncpg

from molecule_core.store.sqlite.backup import integrity_error
from proofs.harness.controls import Control
from proofs.harness.mutations import Swap
from proofs.harness.settings import START_SECONDS, Proof, Setting
from proofs.harness.verdicts import Verdict
from proofs.upgrade.opening import TRY_AGAIN
from testing.engines import ENGINES, Engine
from testing.released_stores.stores import (
    RELEASED,
    Rows,
    brought_forward,
    kept_rows,
    rows_of,
    shape_of,
    without_version,
    write_release,
)

_KILLS, _ROWS = 20, 50_000


def kills_of(rows: int) -> int:
    """How often the migration of each release is killed: twenty times in a full run, twice in a smaller one."""
    return _KILLS if rows >= _ROWS else _KILLS // 10


# For each kill.
_MOST_STARTS = 40
# Where a statement of SQLite ends, the next begins; of PostgreSQL some kills land while the server still works.
_BY_STATEMENT = 0.6


class Ending(NamedTuple):
    """How one opening ended: whether it came to its end, its exit code, what it said, and how long it opened."""

    opened: bool
    code: int
    statements: int
    seconds: float
    trouble: str


class Store:
    """A place for stores of one release, made anew for each life."""

    def __init__(self, setting: Setting, version: int, folder: Path) -> None:
        self.engine: Engine = setting.engine
        self.version = version
        self._setting = setting
        self._folder = folder
        self.rows: Rows = rows_of(version, setting.size)
        self._life = 0

    @property
    def home(self) -> Path:
        """The state folder of this life."""
        return self._folder / f"life {self._life}"

    @property
    def place(self) -> str:
        """Where the store is."""
        return self._setting.database if self.engine == "postgres" else str(self.home / "molecule.db")

    async def begin(self) -> None:
        """A store as the release left it, with every row."""
        self._life += 1
        self.home.mkdir(parents=True)
        await self._empty()
        await write_release(self.engine, self.place, self.version, self.rows)

    async def fresh_shape(self) -> dict[str, list[tuple[object, ...]]]:
        """The tables that an empty place gets."""
        self._life += 1
        self.home.mkdir(parents=True)
        await self._empty()
        ending = await self.open()
        if not ending.opened:
            raise RuntimeError(f"a fresh store does not open: {ending.trouble}")
        return await shape_of(self.engine, self.place)

    async def _empty(self) -> None:
        if self.engine == "postgres":
            session = await asyncpg.connect(self.place)
            await session.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
            await session.close()

    async def open(self, *, statement: int = 0, after: float | None = None) -> Ending:
        """One opening in a process of its own: killed at a statement, or after so many seconds, or not at all."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "proofs.upgrade.opening", self.place, str(statement)),
            env={**os.environ, "PYTHONPATH": self._setting.python_path(), "COPIES": str(self.home)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            first = await process.stdout.readline()
            began = time.monotonic()
            if after is not None and first:
                await asyncio.wait((asyncio.create_task(process.wait()),), timeout=after)
                if process.returncode is None:
                    process.kill()
            out, err = await process.communicate()
        words = out.decode().split()
        opened = "opened" in words
        count = int(words[words.index("statements") + 1]) if opened else 0
        return Ending(opened, process.returncode or 0, count, time.monotonic() - began, err.decode()[-400:])

    async def faults(self, fresh: dict[str, list[tuple[object, ...]]]) -> Iterator[str]:
        """What is wrong with a store that has been brought forward, in the words of the verdict."""
        found = []
        if await shape_of(self.engine, self.place) != fresh:
            found.append("tables unlike fresh ones")
        if await kept_rows(self.engine, self.place, self.version) != brought_forward(self.version, self.rows):
            found.append("rows lost or altered")
        suffix = ".postgres.db" if self.engine == "postgres" else ".db"
        copy = self.home / f"molecule.schema-{self.version}{suffix}"
        if not copy.exists() or integrity_error(copy) or not await self._is_whole(copy):
            found.append("no sound copy of what was")
        return iter(found)

    async def _is_whole(self, copy: Path) -> bool:
        return await kept_rows("sqlite", str(copy), self.version) == without_version(self.rows)


class Killing:
    """The lives of stores of one release, until enough of their openings were killed."""

    def __init__(self, store: Store, setting: Setting, verdict: Verdict) -> None:
        self._store = store
        self._dice = setting.dice("upgrade", store.version)
        self._verdict = verdict

    async def run(self, kills: int) -> None:
        """Counts in the verdict."""
        store, figures = self._store, self._verdict.figures
        fresh = await store.fresh_shape()
        await store.begin()
        whole = await store.open()
        await self._judge(whole, fresh)
        if not whole.opened:
            return  # there is nothing to kill: the verdict says why
        moments = self._moments(whole.statements)
        await store.begin()
        killed = 0
        for _ in range(_MOST_STARTS * kills):
            if killed == kills:
                break
            if self._dice.random() < _BY_STATEMENT:
                ending = await store.open(statement=next(moments))
            else:
                ending = await store.open(after=self._dice.random() * whole.seconds)
            if ending.opened:  # it was too quick for the knife; if it was killed behind its end, that is as good
                await self._judge(ending, fresh)
                await store.begin()
            elif ending.code == TRY_AGAIN:  # the server of PostgreSQL has not noticed yet that the one before died
                figures["found its place taken"] = int(figures["found its place taken"]) + 1
            elif ending.code < 0:
                killed += 1
                figures["kills"] = int(figures["kills"]) + 1
            else:
                self._count("did not open", ending.trouble)
                await store.begin()
        while (ending := await store.open()).code == TRY_AGAIN:
            figures["found its place taken"] = int(figures["found its place taken"]) + 1
        await self._judge(ending, fresh)

    def _moments(self, statements: int) -> Iterator[int]:
        """Every statement once, in any order, over and over."""
        while True:
            yield from self._dice.sample(range(1, statements + 1), statements)

    async def _judge(self, ending: Ending, fresh: dict[str, list[tuple[object, ...]]]) -> None:
        if not ending.opened:
            self._count("did not open", ending.trouble)
            return
        figures = self._verdict.figures
        figures["stores brought forward"] = int(figures["stores brought forward"]) + 1
        for fault in await self._store.faults(fresh):
            self._count(fault, f"{fault}: schema {self._store.version} in {self._store.home.name}")

    def _count(self, fault: str, note: str) -> None:
        self._verdict.zeros[fault] += 1
        self._verdict.notes.append(note)


async def run(setting: Setting) -> Verdict:
    """Every release; a full run kills each twenty times."""
    zeros = ("did not open", "tables unlike fresh ones", "rows lost or altered", "no sound copy of what was")
    figures = {"rows": setting.size, "releases": len(RELEASED), "kills": 0}
    figures |= {"stores brought forward": 0, "found its place taken": 0}
    verdict = Verdict(dict(figures), dict.fromkeys(zeros, 0))
    for version in RELEASED:
        store = Store(setting, version, setting.folder / f"schema {version}")
        await Killing(store, setting, verdict).run(kills_of(setting.size))
    return verdict


PROOF = Proof(
    name="upgrade",
    claim="A store of every released schema is migrated completely, however often the migration is killed.",
    shows="A store of every released schema, with rows in all its tables, is opened by this version in a process that "
    "is killed with SIGKILL twenty times for each release, at one of the statements of its opening or after any time "
    "within it, and opened again. In the end it opens, has the tables of a fresh store and every row as it was, and a "
    "sound copy of what was before lies beside it.",
    engines=("sqlite", "postgres"),
    unit="rows",
    sizes={"sqlite": _ROWS, "postgres": _ROWS},
    control_sizes={"sqlite": 500, "postgres": 500},
    controls={
        "sqlite": (
            Control(
                name="each statement of a migration for itself",
                marker="sqlite-migration",
                change=Swap("with $connection as $together", "if $together := $connection"),
                breaks="did not open",
            ),
        ),
        "postgres": (
            Control(
                name="each step of a migration for itself",
                marker="postgres-migration-step",
                change=Swap("($step)", '($step + "; COMMIT; BEGIN")'),
                breaks="did not open",
            ),
        ),
    },
    run=run,
    demands={engine: {"kills": _KILLS * len(RELEASED)} for engine in ENGINES},
    faults=("kills",),
)
