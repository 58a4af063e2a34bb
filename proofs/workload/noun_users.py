"""All who use the other nouns of a server, beside those who send messages and those who delegate.

Above: the proofs that disturb the server. Below: the people of each noun.
"""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from proofs.harness.ledger import Ledger
from proofs.harness.serving import Place
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Figure, Verdict
from proofs.workload.approval_requesters import Askers
from proofs.workload.company import Company
from proofs.workload.file_senders import Filers
from proofs.workload.memory_writers import Keepers
from proofs.workload.observations import Book
from proofs.workload.thread_users import Speakers

LIMITS: Mapping[str, int] = {
    "silence_seconds": 10**9,
    "thread_spawns_per_minute": 10**9,
    "inbox_unhandled": 10**9,
}
"""Nobody here says again and again that it lives; and limits of rates, and of what may wait on a busy machine, are what
stops a crowd."""


class Noun(Protocol):
    """The people of one noun."""

    async def found(self) -> None:
        """Makes the seats and persons."""

    def begin(self) -> None:
        """Everybody goes to work."""

    async def kill_one(self, throw: int) -> None:
        """One of them dies in the middle of what it does; another takes its seat, knowing nothing."""

    async def finish(self, seconds: float) -> None:
        """The book says `stopping`: they begin nothing new, and what was begun comes to its end."""

    def figures(self) -> dict[str, Figure]:
        """How much of it there was."""

    async def judge(self, ledger: Ledger) -> dict[str, int]:
        """What they saw against what the store holds."""


class Nouns:
    """The people of all of them. They have a book of their own: how far they are brings no kill nearer, so that between
    two kills there are as many messages and delegations as without them."""

    def __init__(self, setting: Setting, server: Place, book: Book) -> None:
        """`book` is that of those who send messages and delegate."""
        self._book = Book()
        self._book.stopping = book.stopping
        people = (setting, server, Company(setting, server, self._book, book), self._book)
        self._every: tuple[Noun, ...] = (Keepers(*people), Askers(*people), Speakers(*people), Filers(*people))

    async def found(self) -> None:
        """Makes the seats and persons."""
        for each in self._every:
            await each.found()

    def begin(self) -> None:
        """Everybody goes to work."""
        for each in self._every:
            each.begin()

    async def kill_one(self, throw: int) -> None:
        """One of those of one noun dies, and another takes its seat."""
        noun, place = throw % len(self._every), throw // len(self._every)
        await self._every[noun].kill_one(place)

    async def finish(self, seconds: float) -> None:
        """Who gets no further within so many seconds is given up: the judge will find what is missing."""
        await asyncio.gather(*(each.finish(seconds) for each in self._every))

    async def judge(self, verdict: Verdict, ledger: Ledger) -> None:
        """Adds to the judgement of messages and delegations."""
        for each in self._every:
            verdict.figures |= each.figures()
            verdict.zeros |= await each.judge(ledger)
        verdict.notes += self._book.notes
        verdict.zeros["refused"] += self._book.faults["refused"]
        verdict.zeros["stalls"] += self._book.faults["stuck people"]
        verdict.figures |= {f"{name} of these": self._book.figures[name] for name in ("calls cut", "answered 503")}
