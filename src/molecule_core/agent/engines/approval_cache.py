"""Decisions on approvals come twice: to the call that waits for them, and as a message. What a call has heard needs no
turn of its own.

Above: leave, mailing, running. Below: nothing. In memory: after a restart a message too many is only read once more.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Iterator

_MAX_DELIVERED = 1000


class DecisionCache:
    """What calls of this process have heard, and whether some still wait."""

    def __init__(self) -> None:
        self._delivered: OrderedDict[str, bool] = OrderedDict()
        self._open_calls = 0
        self._changed = asyncio.Event()

    @contextlib.contextmanager
    def track_call(self) -> Iterator[None]:
        """While a call asks for leave and waits: which approval it is about is known only at its end."""
        self._open_calls += 1
        try:
            yield
        finally:
            self._open_calls -= 1
            self._changed.set()

    def record_call(self, approval_id: str, *, settled: bool) -> None:
        """A call has ended: with the decision, or without it."""
        self._delivered[approval_id] = settled
        if len(self._delivered) > _MAX_DELIVERED:
            self._delivered.popitem(last=False)

    async def was_delivered(self, approval_id: str) -> bool:
        """Whether a call has heard the decision; waits as long as one may still hear it."""
        while approval_id not in self._delivered and self._open_calls:
            self._changed.clear()
            await self._changed.wait()
        return self._delivered.pop(approval_id, False)
