"""One turn's hand on a thread: appends to its log, keeps its claim, hears what others want of it.

Above: driving. Below: the routes of threads.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from molecule_core.agent.engines.retry import RetryPolicy
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiError
from molecule_core.client.threads import RawLogEntry, ThreadsClient
from molecule_core.common.ids import IdGenerator
from molecule_core.wire.schemas.threads import ModelContext

T = TypeVar("T")


ENDED_STOPS = ("interrupted", "closed")
"""Stops by which the turn is over already."""


class TurnStopped(Exception):
    """The server wants the turn to end; what ran for it was ended."""


class EntryRejected(Exception):
    """The server never takes what was to be appended, however often it is tried; the text says why."""


_PERMANENT_STATUSES = (400, 413, 422)


class ThreadLogClient:
    """A thread under one claim, in one turn. `stop`: why the turn is to end, as soon as that is known; `seen`: up to
    where the model was shown the log last, told with all that is appended from then on."""

    def __init__(
        self,
        threads: ThreadsClient,
        thread_id: str,
        turn_id: str,
        generation: int,
        *,
        retry: RetryPolicy,
        ids: IdGenerator,
        heartbeat_seconds: float,
    ) -> None:
        self.thread_id = thread_id
        self.turn_id = turn_id
        self.generation = generation
        self.stop: str | None = None
        self.seen: int | None = None
        self._threads = threads
        self._retry = retry
        self._ids = ids
        self._heartbeat_seconds = heartbeat_seconds

    async def append_entries(self, *entries: dict[str, Any]) -> None:
        """Appends once, however often it is tried; none: only keeps the claim. Raises Refused, ApiError."""
        key = self._ids.new()
        try:
            result = await self._retry.retry_call(
                lambda: self._threads.append_entries(
                    self.thread_id, self.turn_id, self.generation, entries, key=key, seen=self.seen
                )
            )
        except ApiError as error:
            if error.status not in _PERMANENT_STATUSES:
                raise
            raise EntryRejected(sanitize_line(str(error.problem.get("error", error)), 300)) from None
        self.stop = result.stop or self.stop

    async def read_context(self) -> ModelContext:
        """What the model sees now. Raises ApiError."""
        found = await self._retry.retry_call(lambda: self._threads.get_model_context(self.thread_id))
        self.stop = found.stop or self.stop
        return found

    async def read_entries(self) -> Sequence[RawLogEntry]:
        """The whole log, line by line. Raises ApiError."""
        found: list[RawLogEntry] = []
        while True:
            after = found[-1].ordinal if found else 0
            page = await self._retry.retry_call(lambda: self._threads.list_entries(self.thread_id, after=after))  # noqa: B023
            if not page:
                return found
            found += page

    async def run_while_claimed(self, work: Awaitable[T]) -> T:
        """What some work comes to, while the claim is kept. Raises Stopped, ApiError; the work is ended then."""
        task = asyncio.ensure_future(work)
        try:
            while not await self._retry.completes_within(task, self._heartbeat_seconds):
                await self.append_entries()
                if self.stop is not None:
                    raise TurnStopped
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def end_turn(self, status: str, *, final: str | None, error: str | None, seen: int) -> None:
        """The turn is over; `seen`: up to where the log was regarded, what comes behind it has a turn of its own.
        Nothing is told if the server has ended it already. Raises ApiError."""
        if self.stop in ENDED_STOPS:
            return
        fields = {"status": status, "final": final, "error": error, "seen": seen}
        known_fields = {name: value for name, value in fields.items() if value is not None}
        await self._retry.retry_call(
            lambda: self._threads.end_turn(self.thread_id, self.turn_id, self.generation, **known_fields)
        )
