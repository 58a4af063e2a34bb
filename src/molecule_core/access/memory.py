"""Who holds which credential, as far as it was looked up: so that a known token costs no query.

What is remembered is forgotten in the moment in which it changes: by the writer, right after its commit.
"""

from collections.abc import Iterable

from molecule_core.access.model import Caller

# Above this many the oldest is forgotten and looked up again.
_REMEMBERED = 200_000


class Remembered:
    """Callers by the hash of their credential. `changes` counts what was forgotten: whoever looked up meanwhile may
    have read what was true before, and looks again."""

    def __init__(self) -> None:
        self._known: dict[str, Caller] = {}
        self.changes = 0

    def get(self, hashed: str) -> Caller | None:
        """Who holds it, if that is known."""
        return self._known.get(hashed)

    def put(self, hashed: str, caller: Caller) -> None:
        """Remembers what was looked up."""
        if len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[hashed] = caller

    def forget(self, hashes: Iterable[str]) -> None:
        """These credentials have ended, or live shorter than before."""
        self.changes += 1
        for each in hashes:
            self._known.pop(each, None)

    def forget_holder(self, holder_id: str) -> None:
        """All credentials of a person or workspace: what it may do has changed."""
        self.forget([hashed for hashed, caller in self._known.items() if caller.id == holder_id])

    def forget_all(self) -> None:
        """Too much has changed to say what."""
        self.changes += 1
        self._known.clear()
