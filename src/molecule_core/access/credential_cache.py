"""Who holds which credential, as far as it was looked up: so that a known token costs no query.

What is remembered is forgotten in the moment in which it changes: by the writer, right after its commit.
"""

from collections.abc import Iterable

from molecule_core.access.model import Caller

# Above this many the oldest is forgotten and looked up again.
_MAX_CALLERS = 200_000


class CredentialCache:
    """Callers by the hash of their credential. `changes` counts what was forgotten: whoever looked up meanwhile may
    have read what was true before, and looks again."""

    def __init__(self) -> None:
        self._callers: dict[str, Caller] = {}
        self.invalidation_count = 0

    def get(self, hashed: str) -> Caller | None:
        """Who holds it, if that is known."""
        return self._callers.get(hashed)

    def put(self, hashed: str, caller: Caller) -> None:
        """Remembers what was looked up."""
        if len(self._callers) >= _MAX_CALLERS:
            del self._callers[next(iter(self._callers))]
        self._callers[hashed] = caller

    def invalidate(self, hashes: Iterable[str]) -> None:
        """These credentials have ended, or live shorter than before."""
        self.invalidation_count += 1
        for each in hashes:
            self._callers.pop(each, None)

    def invalidate_holder(self, holder_id: str) -> None:
        """All credentials of a person or workspace: what it may do has changed."""
        self.invalidate([hashed for hashed, caller in self._callers.items() if caller.id == holder_id])

    def invalidate_all(self) -> None:
        """Too much has changed to say what."""
        self.invalidation_count += 1
        self._callers.clear()
