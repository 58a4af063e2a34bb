"""What must never be shown, and the counting of it: a judge of every answer, whoever asked for it."""

from typing import Any

from proofs.harness.office import Desk
from proofs.harness.verdicts import Verdict
from proofs.isolation.model import Model, Person, Seat

_MOST_NOTES = 5

EXTRA = "shown to whom it is not for"
MISSING = "not shown to whom it is for"
HEARD = "told live to whom it is not for"
MISSED = "not told live to whom it is for"
APART = "ids of others told apart from unknown ones"
LATER = "answered 1 ms apart from unknown ones, by the median"
TAKEN = "cursors of others taken"
FOREIGN = "rows of others behind a changed cursor"
STRANGE = "answers to a changed cursor but 200, 404, 410 and 422"
BROKE = "answered 5xx"
ZEROS = (EXTRA, MISSING, HEARD, MISSED, APART, LATER, TAKEN, FOREIGN, STRANGE, BROKE)

Caller = Seat | Person


class Court:
    """One verdict, and everybody's way to the desk. `desk`: once there is a server."""

    desk: Desk

    def __init__(self, model: Model) -> None:
        self.model = model
        self.verdict = Verdict(zeros=dict.fromkeys(ZEROS, 0))

    async def ask(
        self, caller: Caller, method: str, path: str, body: Any = None, *, extra: str = EXTRA, **query: Any
    ) -> tuple[int, bytes]:
        """What somebody is answered; nothing of it may be for others, or it counts as `extra`."""
        status, said = await self.desk.bytes_of(caller.token, method, path, body, **query)
        self.look(caller, said, f"{method} {path} {query}", extra)
        self._check(status, f"{method} {path} {query}")
        return status, said

    async def look_at_tree(self, caller: Caller, path: str) -> tuple[int, bytes]:
        """The same of a delegation of the caller's organisation: whoever has to do with one may see what others of the
        organisation began below it, which only the server knows. What is of another organisation counts."""
        status, said = await self.desk.bytes_of(caller.token, "GET", path)
        for mark in self.model.leaks(caller, said):
            if self.model.is_foreign(caller, mark):
                self.fault(EXTRA, f"GET {path}: {mark.decode()}")
        self._check(status, f"GET {path}")
        return status, said

    def _check(self, status: int, where: str) -> None:
        if status >= 500:
            self.fault(BROKE, f"{where}: {status}")

    def look(self, caller: Caller, said: bytes, where: str, extra: str) -> None:
        """Counts the marks in something that was said, and is not for who heard it."""
        for mark in self.model.leaks(caller, said):
            self.fault(extra, f"{where}: {mark.decode()}")

    def fault(self, what: str, note: str, count: int = 1) -> None:
        """Something that must not be, so many times."""
        self.verdict.zeros[what] += count
        if count and len(self.verdict.notes) < _MOST_NOTES:
            self.verdict.notes.append(f"{what}: {note[:250]}")

    def count(self, what: str, more: int = 1) -> None:
        """Something that was done."""
        self.verdict.figures[what] = int(self.verdict.figures.get(what, 0)) + more
