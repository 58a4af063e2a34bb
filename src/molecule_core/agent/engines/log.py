"""One turn's hand on a thread: appends to its log, keeps its claim, hears what others want of it.

Above: driving. Below: the routes of threads.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from molecule_core.agent.engines.patience import Patience
from molecule_core.agent.neutral import line
from molecule_core.client.api import ApiError
from molecule_core.client.threads import LogLine, Threads
from molecule_core.ground.ids import Ids
from molecule_core.wire.threads import Sight

T = TypeVar("T")


ENDED = ("interrupted", "closed")
"""Stops by which the turn is over already."""


class Stopped(Exception):
    """The server wants the turn to end; what ran for it was ended."""


class Refused(Exception):
    """The server never takes what was to be appended, however often it is tried; the text says why."""


_NEVER = (400, 413, 422)


class Log:
    """A thread under one claim, in one turn. `stop`: why the turn is to end, as soon as that is known; `seen`: up to
    where the model was shown the log last, told with all that is appended from then on."""

    def __init__(
        self,
        threads: Threads,
        thread_id: str,
        turn_id: str,
        generation: int,
        *,
        patience: Patience,
        ids: Ids,
        beat_seconds: float,
    ) -> None:
        self.thread_id = thread_id
        self.turn_id = turn_id
        self.generation = generation
        self.stop: str | None = None
        self.seen: int | None = None
        self._threads = threads
        self._patience = patience
        self._ids = ids
        self._beat = beat_seconds

    async def append(self, *entries: dict[str, Any]) -> None:
        """Appends once, however often it is tried; none: only keeps the claim. Raises Refused, ApiError."""
        key = self._ids.new()
        try:
            told = await self._patience.answer(
                lambda: self._threads.append(
                    self.thread_id, self.turn_id, self.generation, entries, key=key, seen=self.seen
                )
            )
        except ApiError as error:
            if error.status not in _NEVER:
                raise
            raise Refused(line(str(error.problem.get("error", error)), 300)) from None
        self.stop = told.stop or self.stop

    async def sight(self) -> Sight:
        """What the model sees now. Raises ApiError."""
        found = await self._patience.answer(lambda: self._threads.sight(self.thread_id))
        self.stop = found.stop or self.stop
        return found

    async def lines(self) -> Sequence[LogLine]:
        """The whole log, line by line. Raises ApiError."""
        found: list[LogLine] = []
        while True:
            after = found[-1].ordinal if found else 0
            page = await self._patience.answer(lambda: self._threads.items(self.thread_id, after=after))  # noqa: B023
            if not page:
                return found
            found += page

    async def during(self, work: Awaitable[T]) -> T:
        """What some work comes to, while the claim is kept. Raises Stopped, ApiError; the work is ended then."""
        task = asyncio.ensure_future(work)
        try:
            while not await self._patience.within(task, self._beat):
                await self.append()
                if self.stop is not None:
                    raise Stopped
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def end(self, status: str, *, final: str | None, error: str | None, seen: int) -> None:
        """The turn is over; `seen`: up to where the log was regarded, what comes behind it has a turn of its own.
        Nothing is told if the server has ended it already. Raises ApiError."""
        if self.stop in ENDED:
            return
        how = {"status": status, "final": final, "error": error, "seen": seen}
        given = {name: value for name, value in how.items() if value is not None}
        await self._patience.answer(lambda: self._threads.end(self.thread_id, self.turn_id, self.generation, **given))
