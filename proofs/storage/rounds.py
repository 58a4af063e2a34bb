"""Rounds of commands, each with a fault in its middle, and the judgement. Runs in a process of its own.

In a round everybody asks for one thing, all at once, so that groups are formed; whoever had 503 asks for the same,
under the same id, when the fault is over, until it is done. Above: proof.py. Below: deeds and the disk.
"""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from typing import Any

import apsw
from msgspec.structs import replace

from proofs.harness.children import as_a_child
from proofs.harness.ledger import read_ledger, read_tables
from proofs.harness.office import LIMITS, Office
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from proofs.storage.deeds import Crew, Deed, Model
from proofs.storage.judging import DELEGATIONS, judge
from proofs.storage.weather import Disk, Weather
from tests.clocks import FakeClock

_BACK_SECONDS = 5.0
"""The bar: after a fault has ended, everybody is served again within it."""
_MOST_ROUNDS = 400
_REFUSED = 503
# A fifth of the faults does not go away by itself: what cleans up behind the first fails too.
_LASTING = 0.2
# A commit has many reads and writes and one sync: the first few of those fail too, by themselves.
_SYNCS = 5


# They talk on and on, which is what the limits of chains are there to stop.
_ENDLESS = replace(LIMITS, chain_hops=10**9, chain_messages=10**9, pingpong=10**9)


class _Lost(Exception):
    """The server does not come back."""


class Rounds:
    """A server, its people, and the faults that befall it."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._dice = setting.dice("storage")
        self._weather = Weather()
        self._disk = Disk(self._weather)
        self._office = Office(setting, FakeClock(), _ENDLESS)
        self._crew = Crew(setting.dice("crew"))
        self.model = Model()
        self.figures: Counter[str] = Counter()
        self.slowest = 0.0

    @property
    def failed(self) -> dict[str, int]:
        """How many calls of the disk failed, by what they wanted."""
        return {f"failed {what}s": count for what, count in sorted(self._weather.failed.items())}

    async def play(self) -> None:
        """Busy, full, and every call of the disk up to `setting.size`."""
        await self._office.server.open()
        await self._crew.found(self._office)
        path = str(self._setting.folder / "molecule.db")
        ours = list(self._weather.connections)
        other = apsw.Connection(path)
        for connection in ours:
            connection.set_busy_timeout(1)
        with contextlib.suppress(_Lost):  # it is counted; whoever comes behind it would only wait too
            await self._all(ours, other)
        other.close()
        await self._office.server.close()

    async def _all(self, ours: list[apsw.Connection], other: apsw.Connection) -> None:
        for _ in range(self._setting.size * 2):
            await self._busy(other)
        for _ in range(self._setting.size // 10):
            await self._full(ours)
        for at in range(1, self._setting.size + 1):
            await self._broken(at)
        for at in range(self._setting.size // 5):
            await self._broken(1 + at % _SYNCS, only="sync")

    # -- the faults ----------------------------------------------------------------------------------------------------

    async def _busy(self, other: apsw.Connection) -> None:
        """Somebody else writes."""
        other.execute("BEGIN IMMEDIATE")
        left = await self._ask(self._crew.deeds())
        other.execute("ROLLBACK")
        self.figures["busy"] += bool(left)
        await self._settle(left)

    async def _full(self, ours: list[apsw.Connection]) -> None:
        """The database may have no more pages, until some command has failed by it."""
        for connection in ours:
            pages = connection.pragma("page_count")
            connection.pragma("max_page_count", pages)
        left: list[Deed] = []
        for _ in range(_MOST_ROUNDS):
            left = await self._ask(self._crew.deeds())
            if left:
                break
        for connection in ours:
            connection.pragma("max_page_count", 1 << 30)
        self.figures["full"] += bool(left)
        await self._settle(left)

    async def _broken(self, at: int, only: str | None = None) -> None:
        """The call of this number fails, whenever it comes."""
        self._weather.storm(at, lasting=self._dice.random() < _LASTING, only=only)
        left: list[Deed] = []
        for _ in range(_MOST_ROUNDS):
            left = await self._ask(self._crew.deeds())
            if self._weather.struck or left:
                break
        self._weather.clear()
        self.figures["I/O errors"] += self._weather.struck
        await self._settle(left)

    # -- a round -------------------------------------------------------------------------------------------------------

    async def _ask(self, deeds: list[Deed]) -> list[Deed]:
        """Everybody asks once, at once; those that are to ask again."""
        answers = await asyncio.gather(*(self._one(deed) for deed in deeds))
        left: list[Deed] = []
        for deed, (status, answer) in zip(deeds, answers, strict=True):
            self.model.asked.add(deed.id)
            if status < 300:
                self.model.answered(deed, answer)
                self._crew.learn(deed, answer)
            elif status == _REFUSED:
                self.figures["answered 503"] += 1
                left.append(deed)
            else:
                self.model.fault("answered neither 2xx nor 503", f"{deed.kind} {status} {answer}")
                if status >= 500:
                    left.append(deed)
        return left

    async def _one(self, deed: Deed) -> tuple[int, Any]:
        return await self._office.ask(
            deed.token, deed.method, deed.path, deed.body, key=deed.id if deed.body is not None else None, **deed.query
        )

    async def _settle(self, left: list[Deed]) -> None:
        """The fault is over: everybody must be served again soon."""
        began = time.monotonic()
        while left:
            left = await self._ask(left)
            if left and time.monotonic() - began > _BACK_SECONDS:
                self.model.fault("not back within 5 s", f"{len(left)} are refused, as {left[0].kind}")
                raise _Lost
        self.slowest = max(self.slowest, time.monotonic() - began)


async def run(setting: Setting) -> Verdict:
    """All faults, then the judgement of the file that is left."""
    logging.disable(logging.CRITICAL)
    rounds = Rounds(setting)
    await rounds.play()
    ledger = await read_ledger(setting)
    (delegations,), _ = await read_tables(setting, (DELEGATIONS,))
    model = rounds.model
    figures = {**rounds.figures, "slowest return ms": round(rounds.slowest * 1000), **model.done}
    return Verdict({**figures, **rounds.failed}, judge(model, ledger, delegations), model.notes)


if __name__ == "__main__":
    as_a_child(run)
