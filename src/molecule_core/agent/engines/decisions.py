"""Decisions on approvals come twice: to the call that waits for them, and as a message. What a call has heard needs no
turn of its own.

Above: leave, mailing, running. Below: nothing. In memory: after a restart a message too many is only read once more.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Iterator

_MOST_HEARD = 1000


class Decisions:
    """What calls of this process have heard, and whether some still wait."""

    def __init__(self) -> None:
        self._heard: OrderedDict[str, bool] = OrderedDict()
        self._asking = 0
        self._changed = asyncio.Event()

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """While a call asks for leave and waits: which approval it is about is known only at its end."""
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            self._changed.set()

    def told(self, approval_id: str, *, settled: bool) -> None:
        """A call has ended: with the decision, or without it."""
        self._heard[approval_id] = settled
        if len(self._heard) > _MOST_HEARD:
            self._heard.popitem(last=False)

    async def heard(self, approval_id: str) -> bool:
        """Whether a call has heard the decision; waits as long as one may still hear it."""
        while approval_id not in self._heard and self._asking:
            self._changed.clear()
            await self._changed.wait()
        return self._heard.pop(approval_id, False)
