"""People who ask for one thing each, all at once, so that groups are formed; whoever had 503 asks for the same, under
the same id, when the fault is over, until it is done.

Above: the faults (rounds.py, sessions.py). Below: deeds and a server in this process.
"""

import asyncio
import time
from collections import Counter
from typing import Any

from msgspec.structs import replace

from proofs.harness.ledger import read_ledger, read_tables
from proofs.harness.office import LIMITS, Office
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from proofs.storage.deeds import Crew, Deed, Model
from proofs.storage.judging import TABLES, judge
from testing.clocks import FakeClock

_BACK_SECONDS = 5.0
"""The bar: after a fault has ended, everybody is served again within it."""
MOST_ROUNDS = 400
FAULTS = "faults"
"""The figure that is the sum of all that befell the server, whatever engine its store has."""
_REFUSED = 503
# They talk on and on, which is what the limits of chains are there to stop.
_ENDLESS = replace(LIMITS, chain_hops=10**9, chain_messages=10**9, pingpong=10**9, approvals_open=10**9)


class Lost(Exception):
    """The server does not come back."""


class Asking:
    """A server, its people, and what they were answered."""

    def __init__(self, setting: Setting) -> None:
        self.dice = setting.dice("storage")
        self.crew = Crew(setting.dice("crew"))
        self.model = Model()
        self.faults: Counter[str] = Counter()
        """What befell the server, by its kind."""
        self._refused = 0
        self._setting = setting
        self._office = Office(setting, FakeClock(), _ENDLESS)
        self._slowest = 0.0

    async def open(self) -> None:
        """The server begins, and its people come."""
        await self._office.server.open()
        await self.crew.found(self._office)

    async def close(self) -> None:
        """The server stops."""
        await self._office.server.close()

    async def ask(self, deeds: list[Deed]) -> list[Deed]:
        """Everybody asks once, at once; those that are to ask again."""
        answers = await asyncio.gather(*(self._one(deed) for deed in deeds))
        left: list[Deed] = []
        for deed, (status, answer) in zip(deeds, answers, strict=True):
            self.model.asked.add(deed.id)
            if status < 300:
                self.model.answered(deed, answer)
                self.crew.learn(deed, answer)
            elif status == _REFUSED:
                self._refused += 1
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

    async def settle(self, left: list[Deed]) -> None:
        """The fault is over: everybody must be served again soon. Raises Lost."""
        began = time.monotonic()
        while left:
            left = await self.ask(left)
            if time.monotonic() - began > _BACK_SECONDS:
                kind = f"{len(left)} are refused, as {left[0].kind}" if left else "answered late"
                self.model.fault("not back within 5 s", kind)
                if left:
                    raise Lost
        self._slowest = max(self._slowest, time.monotonic() - began)

    async def verdict(self, more: dict[str, int]) -> Verdict:
        """What the store holds that is left, against what was answered."""
        ledger = await read_ledger(self._setting)
        tables, _ = await read_tables(self._setting, TABLES)
        figures = {FAULTS: self.faults.total(), **self.faults, "answered 503": self._refused}
        figures |= {"slowest return ms": round(self._slowest * 1000), **self.model.done, **more}
        return Verdict({**figures}, judge(self.model, ledger, tables), self.model.notes)
