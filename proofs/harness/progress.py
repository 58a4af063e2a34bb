"""Progress that one can wait for: random moments are "after the k-th accepted message", never an amount of time."""

import asyncio
from collections import Counter


class Progress:
    """Counts what happens, by kind, and wakes those who wait for more of it."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._waiting: list[tuple[str, int, asyncio.Future[None]]] = []

    def note(self, kind: str) -> None:
        """One more of a kind."""
        self.counts[kind] += 1
        for waited, count, future in self._waiting:
            if waited == kind and count <= self.counts[kind] and not future.done():
                future.set_result(None)

    async def after(self, kind: str, more: int, *, seconds: float) -> bool:
        """Waits until so many more of a kind have happened; False if they did not within the bound."""
        future = asyncio.get_running_loop().create_future()
        entry = (kind, self.counts[kind] + more, future)
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiting.remove(entry)
        return True
