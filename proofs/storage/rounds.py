"""Rounds of commands on SQLite, each with a fault of the disk in its middle. Runs in a process of its own.

Above: proof.py. Below: asking.py and the disk.
"""

import contextlib
import logging

import apsw

from proofs.harness.children import as_a_child
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from proofs.storage.asking import MOST_ROUNDS, Asking, Lost
from proofs.storage.deeds import Deed
from proofs.storage.weather import Disk, Weather

# A fifth of the faults does not go away by itself: what cleans up behind the first fails too.
_LASTING = 0.2
# A commit has many reads and writes and one sync: the first few of those fail too, by themselves.
_SYNCS = 5


class Rounds:
    """The faults that befall a server on SQLite."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._weather = Weather()
        self._disk = Disk(self._weather)
        self.people = Asking(setting)

    @property
    def failed(self) -> dict[str, int]:
        """How many calls of the disk failed, by what they wanted."""
        return {f"failed {what}s": count for what, count in sorted(self._weather.failed.items())}

    async def play(self) -> None:
        """Busy, full, and every call of the disk up to `setting.size`."""
        await self.people.open()
        path = str(self._setting.folder / "molecule.db")
        ours = list(self._weather.connections)
        other = apsw.Connection(path)
        for connection in ours:
            connection.set_busy_timeout(1)
        with contextlib.suppress(Lost):  # it is counted; whoever comes behind it would only wait too
            await self._all(ours, other)
        other.close()
        await self.people.close()

    async def _all(self, ours: list[apsw.Connection], other: apsw.Connection) -> None:
        for _ in range(self._setting.size * 2):
            await self._busy(other)
        for _ in range(self._setting.size // 10):
            await self._full(ours)
        for at in range(1, self._setting.size + 1):
            await self._broken(at)
        for at in range(self._setting.size // 5):
            await self._broken(1 + at % _SYNCS, only="sync")

    async def _busy(self, other: apsw.Connection) -> None:
        """Somebody else writes."""
        other.execute("BEGIN IMMEDIATE")
        left = await self.people.ask(self.people.crew.deeds())
        other.execute("ROLLBACK")
        self.people.faults["busy"] += bool(left)
        await self.people.settle(left)

    async def _full(self, ours: list[apsw.Connection]) -> None:
        """The database may have no more pages, until some command has failed by it."""
        for connection in ours:
            pages = connection.pragma("page_count")
            connection.pragma("max_page_count", pages)
        left: list[Deed] = []
        for _ in range(MOST_ROUNDS):
            left = await self.people.ask(self.people.crew.deeds())
            if left:
                break
        for connection in ours:
            connection.pragma("max_page_count", 1 << 30)
        self.people.faults["full"] += bool(left)
        await self.people.settle(left)

    async def _broken(self, at: int, only: str | None = None) -> None:
        """The call of this number fails, whenever it comes."""
        self._weather.storm(at, lasting=self.people.dice.random() < _LASTING, only=only)
        left: list[Deed] = []
        for _ in range(MOST_ROUNDS):
            left = await self.people.ask(self.people.crew.deeds())
            if self._weather.struck or left:
                break
        self._weather.clear()
        self.people.faults["I/O errors"] += self._weather.struck
        await self.people.settle(left)


async def run(setting: Setting) -> Verdict:
    """All faults, then the judgement of the file that is left."""
    logging.disable(logging.CRITICAL)
    rounds = Rounds(setting)
    await rounds.play()
    return await rounds.people.verdict(rounds.failed)


if __name__ == "__main__":
    as_a_child(run)
