"""Remembers decisions on approvals that a waiting call has received, so that the message about them starts no turn.

In memory: after a restart such a message is only read once more.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Iterator

_MAX_DELIVERED = 1000


class DecisionCache:
    """Decisions delivered to calls of this process, and the number of calls still waiting."""

    def __init__(self) -> None:
        self._delivered: OrderedDict[str, bool] = OrderedDict()
        self._open_calls = 0
        self._changed = asyncio.Event()

    @contextlib.contextmanager
    def track_call(self) -> Iterator[None]:
        """Count a call as waiting for a decision; its approval is known only when it ends."""
        self._open_calls += 1
        try:
            yield
        finally:
            self._open_calls -= 1
            self._changed.set()

    def record_call(self, approval_id: str, *, settled: bool) -> None:
        """Record the end of a call; `settled`: whether it received the decision."""
        self._delivered[approval_id] = settled
        if len(self._delivered) > _MAX_DELIVERED:
            self._delivered.popitem(last=False)

    async def was_delivered(self, approval_id: str) -> bool:
        """Return whether a call received the decision; waits while an open call may still receive it."""
        while approval_id not in self._delivered and self._open_calls:
            self._changed.clear()
            await self._changed.wait()
        return self._delivered.pop(approval_id, False)
