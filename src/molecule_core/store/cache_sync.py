"""What a process keeps in memory of a store that others write to as well, and how that stays true.

A statement that changes such a thing says so in its queries file (`-- mirrored: workspace by id`). The store then
appends a line to `changes` in the same transaction, numbered in the order of the commits. A process knows up to which
number its memory is true. Before it decides a group, and under that group's locks, it compares this number with the
last one: so it decides on what all others have committed. Between groups a wake-up brings memory up to date, or at
the latest `limits.look_again_seconds`.

Above: the readers of the slices, which keep something in memory. Below: the named queries of the store.
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
"""The wake-up key of `changes`."""
_PAGE_ROWS = 1000
# As many are kept, about 10 MB; who was away for longer loads everything anew.
MAX_KEPT_CHANGES = 100_000
# One wait of the follower: it ends sooner, by a wake-up or by the floor.
_MAX_WAIT_SECONDS = 86_400.0
# A store that does not answer is asked again after so long.
_RETRY_SECONDS = 1.0

BatchReader = Callable[[str, Sequence[Params]], Awaitable[Sequence[Sequence[Row]]]]
"""Rows of a named query for each of several parameters."""


class SyncedCache(Protocol):
    """Memory of one slice."""

    async def load(self, read: BatchReader, kind: str, keys: list[str]) -> Iterable[str]:
        """Looks at these things again; returns the wake-up keys of those who may have waited for it."""

    async def load_all(self, read: BatchReader) -> None:
        """Looks at everything again."""


class CacheSync:
    """All memory of this process that mirrors the store. `place`: it knows every change up to this number."""

    def __init__(self, notify: Callable[[Iterable[str]], None]) -> None:
        self.position = 0
        self._notify = notify
        self._cache_by_kind: dict[str, SyncedCache] = {}
        self._lock = asyncio.Lock()

    def register(self, cache: SyncedCache, *kinds: str) -> None:
        """Names who holds things of these kinds in memory."""
        self._cache_by_kind.update(dict.fromkeys(kinds, cache))

    def record_write(self, first: int, last: int) -> None:
        """This process has committed these changes, and its memory has them; others may have come before."""
        if first == self.position + 1 and not self._lock.locked():
            self.position = last

    async def catch_up(self, read: BatchReader) -> None:
        """Loads what has changed since."""
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
        """So much has changed that not all of it is noted any more."""
        last = (await read("last_change", [{}]))[0][0][0]
        for cache in set(self._cache_by_kind.values()):
            await cache.load_all(read)
        self.position = last


async def run_sync(store: Store, wakeups: Notifier) -> None:
    """Keeps memory up to date between groups, until the wake-ups close."""

    async def look() -> Poll[bool]:
        try:
            await store.catch_up()
        except StoreUnavailable:
            return Poll(None, next_poll_in=_RETRY_SECONDS)
        except Exception:
            _log.exception("memory could not be brought up to date; tried again")
            return Poll(None, next_poll_in=_RETRY_SECONDS)
        return Poll(None)

    while not wakeups.closing:
        await wakeups.wait_until(CHANGES_KEY, look, _MAX_WAIT_SECONDS)
