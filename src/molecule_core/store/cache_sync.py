"""Keeps the caches of a process consistent with a store that other processes write to as well.

A statement that changes cached data has a line in its queries file (`-- mirrored: workspace by id`). The store then
appends a row to `changes` in the same transaction, numbered in commit order. Each process knows up to which number its
caches are current. Before it decides a group, under that group's locks, it compares this with the last number and loads
what changed, so it decides on what all others have committed. Between groups a wake-up updates the caches, or a poll
after `limits.look_again_seconds`.

Called by readers that cache rows; calls the store's named queries.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

from molecule_core.common.errors import StoreUnavailable
from molecule_core.store.database import Row, Store
from molecule_core.store.queries import Params
from molecule_core.store.wakeups import Notifier, Poll

_log = logging.getLogger("molecule.store")
CHANGES_KEY = "changes"
"""The wake-up key of the table `changes`."""
_PAGE_ROWS = 1000
# About 10 MB; a process that was disconnected for longer reloads everything.
MAX_KEPT_CHANGES = 100_000
# Upper bound of one wait of `run_sync`: a wake-up or the notifier's own limit ends it sooner.
_MAX_WAIT_SECONDS = 86_400.0
# Pause before retrying a store that does not respond.
_RETRY_SECONDS = 1.0

BatchReader = Callable[[str, Sequence[Params]], Awaitable[Sequence[Sequence[Row]]]]
"""Rows of a named query for each of several parameters."""


class SyncedCache(Protocol):
    """Cache of one package."""

    async def load(self, read: BatchReader, kind: str, keys: list[str]) -> Iterable[str]:
        """Reload these entries; return the wake-up keys of their waiters."""

    async def load_all(self, read: BatchReader) -> None:
        """Reload everything."""


class CacheSync:
    """All caches of this process. `position`: the number of the last change that they include."""

    def __init__(self, notify: Callable[[Iterable[str]], None]) -> None:
        self.position = 0
        self._notify = notify
        self._cache_by_kind: dict[str, SyncedCache] = {}
        self._lock = asyncio.Lock()

    def register(self, cache: SyncedCache, *kinds: str) -> None:
        """Register the cache that holds entries of these kinds."""
        self._cache_by_kind.update(dict.fromkeys(kinds, cache))

    def record_write(self, first: int, last: int) -> None:
        """Note changes that this process committed, and has in its caches; changes of others may precede them."""
        if first == self.position + 1 and not self._lock.locked():
            self.position = last

    async def catch_up(self, read: BatchReader) -> None:
        """Load what has changed since `position`."""
        async with self._lock:
            while rows := (await read("changes_after", [{"no": self.position, "count": _PAGE_ROWS}]))[0]:
                if rows[0][0] == self.position + 1:
                    await self._load_changes(read, rows)
                else:
                    await self._load_all(read)

    async def _load_changes(self, read: BatchReader, rows: Sequence[Row]) -> None:
        changed: dict[str, dict[str, None]] = {}
        for _, kind, key in rows:
            changed.setdefault(kind, {})[key] = None
        for kind, keys in changed.items():
            if kind in self._cache_by_kind:
                self._notify(await self._cache_by_kind[kind].load(read, kind, list(keys)))
        self.position = rows[-1][0]

    async def _load_all(self, read: BatchReader) -> None:
        """Reload all caches: the changes since `position` are no longer kept."""
        last = (await read("last_change", [{}]))[0][0][0]
        for cache in set(self._cache_by_kind.values()):
            await cache.load_all(read)
        self.position = last


async def run_sync(store: Store, wakeups: Notifier) -> None:
    """Keep caches up to date between groups, until the wake-ups close."""

    async def try_catch_up() -> Poll[bool]:
        try:
            await store.catch_up()
        except StoreUnavailable:
            return Poll(None, next_poll_in=_RETRY_SECONDS)
        except Exception:
            _log.exception("the caches could not be synchronised; retrying")
            return Poll(None, next_poll_in=_RETRY_SECONDS)
        return Poll(None)

    while not wakeups.closing:
        await wakeups.wait_until(CHANGES_KEY, try_catch_up, _MAX_WAIT_SECONDS)
