"""A server at work on a disk that forgets, and what is found on it after each power cut: what `prove power` starts.

A cut does not end the server: what the disk would hold at that moment is put into a folder of its own and looked at,
and the work goes on. So there can be many in one run, before any write and any flush.
"""

import shutil
from pathlib import Path
from random import Random

import apsw

from molecule_core.common.errors import MoleculeError
from proofs.harness.children import as_a_child
from proofs.harness.ledger import read_tables
from proofs.harness.office import LIMITS, Office
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from proofs.power.disk import Disk
from proofs.workload.busy_writers import MISSING, MOMENT, TABLES, Book, Busy, judge_moment, spoken
from testing.clocks import FakeClock

DAMAGED = "damaged stores"
CLOSED = "stores that do not open"
_ZEROS = (*MOMENT, DAMAGED, CLOSED)
_MOST_BETWEEN = 400
_MOST_NOTES = 5
# So many of those that were cut are served again.
_SERVED = 0.1


class Cutting:
    """One run."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._dice: Random = setting.dice("cuts")
        self._book = Book()
        self._next = self._dice.randint(1, _MOST_BETWEEN)
        self._found: list[tuple[Path, dict[str, int], dict[str, int]]] = []
        self._is_looking = False
        self.verdict = Verdict(
            dict.fromkeys(("power cuts", "writes forgotten", "flushes", "of them of the folded log", "served again"), 0)
        )
        self.verdict.zeros = dict.fromkeys(_ZEROS, 0)
        self._disk = Disk(setting.folder, self._touched)

    def _touched(self, path: str, *, is_flush: bool) -> None:
        if self._is_looking:
            return
        self._count("flushes", int(is_flush))
        self._count("of them of the folded log", int(is_flush and path.endswith(".db")))
        self._next -= 1
        if self._next <= 0 and self._cuts < self._setting.size:
            self._next = self._dice.randint(1, _MOST_BETWEEN)
            self._cut()

    @property
    def _cuts(self) -> int:
        return int(self.verdict.figures["power cuts"])

    def _cut(self) -> None:
        before, handled = self._book.so_far()
        folder = self._setting.folder / f"cut-{self._cuts}"
        folder.mkdir()
        for path, platter in self._disk.platters.items():
            (folder / Path(path).name).write_bytes(platter.after_a_cut(self._dice))
            self._count("writes forgotten", len(platter.pending))
        self._count("power cuts")
        self._found.append((folder, before, handled))
        self._book.progress.note("cut")

    def _count(self, what: str, more: int = 1) -> None:
        self.verdict.figures[what] = int(self.verdict.figures[what]) + more

    async def run(self) -> Verdict:
        """`setting.size` cuts, each looked at before the next."""
        office = Office(self._setting, FakeClock(), LIMITS)
        await office.server.open()
        busy = Busy(office, self._book, self._setting.dice("busy"))
        await busy.found()
        while self._cuts < self._setting.size:
            working = Busy(office, self._book, self._setting.dice("busy", self._cuts))
            working.inboxes, working.senders = busy.inboxes, busy.senders
            working.begin()
            if not await self._book.progress.after("cut", 1, seconds=120.0):
                raise RuntimeError("nothing is written any more")
            await working.end()
            self._is_looking = True
            for found in self._found:
                await self._look(*found)
            self._found.clear()
            self._is_looking = False
        await office.server.close()
        self.verdict.figures |= self._book.acts()
        return self.verdict

    async def _look(self, folder: Path, before: dict[str, int], handled: dict[str, int]) -> None:
        """What a store holds that was found so, and whether it can be served."""
        found = Setting(engine="sqlite", folder=folder, database="", seed=self._setting.seed + self._cuts, size=0)
        try:
            tables, faults = await read_tables(found, TABLES)
        except apsw.Error as error:
            done = sum(before.values())
            if done:
                self._fault(CLOSED, str(error))
                self._fault(MISSING, "all of it", done)
            else:  # the power failed before the first store was made: the next start makes it
                await self._try_to_serve(found)
            return
        for fault in (faults or [])[:1]:
            self._fault(DAMAGED, fault)
        for what, count in judge_moment(tables, self._book, before, handled).items():
            self._fault(what, folder.name, count)
        if self._dice.random() < _SERVED and not faults:
            await self._try_to_serve(found)
        shutil.rmtree(folder)

    async def _try_to_serve(self, found: Setting) -> None:
        try:
            await self._serve(found)
        except (RuntimeError, MoleculeError) as error:
            self._fault(CLOSED, str(error))

    async def _serve(self, found: Setting) -> None:
        folder = found.folder
        folder.chmod(0o700)
        office = Office(found, FakeClock(), LIMITS)
        await office.server.open()
        busy = Busy(office, Book(), self._setting.dice("served"))
        await busy.found()
        path = f"/workspaces/{busy.inboxes[0].id}/a2a"
        await office.tell(busy.senders[0].token, "POST", path, spoken("again", 1))
        await office.server.close()
        self._count("served again")

    def _fault(self, what: str, note: str, count: int = 1) -> None:
        self.verdict.zeros[what] += count
        if count and len(self.verdict.notes) < _MOST_NOTES:
            self.verdict.notes.append(f"{what}: {note[:200]}")


async def run(setting: Setting) -> Verdict:
    """One run."""
    return await Cutting(setting).run()


if __name__ == "__main__":
    as_a_child(run)
