"""Cache of callers by credential, so that a known token costs no query.

The writer invalidates entries right after its commit."""

from collections.abc import Iterable

from molecule_core.access.model import Caller

# 200,000 entries; above this the oldest is evicted.
_MAX_CALLERS = 200_000


class CredentialCache:
    """Callers by the hash of their credential.

    `invalidation_count` grows with each invalidation: a caller that was looked up meanwhile may be outdated and must be
    looked up again."""

    def __init__(self) -> None:
        self.callers: dict[str, Caller] = {}
        self.invalidation_count = 0

    def put(self, hashed: str, caller: Caller) -> None:
        """Cache a caller."""
        if len(self.callers) >= _MAX_CALLERS:
            del self.callers[next(iter(self.callers))]
        self.callers[hashed] = caller

    def invalidate(self, hashes: Iterable[str]) -> None:
        """Remove credentials that were ended or now expire earlier."""
        self.invalidation_count += 1
        for each in hashes:
            self.callers.pop(each, None)

    def invalidate_holder(self, holder_id: str) -> None:
        """Remove all credentials of a person or workspace whose permissions changed, and those that a person gave."""
        self.invalidate(
            [hashed for hashed, caller in self.callers.items() if holder_id in (caller.id, caller.granted_by)]
        )

    def invalidate_all(self) -> None:
        """Clear the cache, since the list of changes is incomplete."""
        self.invalidation_count += 1
        self.callers.clear()
