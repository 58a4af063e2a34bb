"""Appends to a thread's log during one turn, renews its claim, and receives stop requests."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

from molecule_core.agent.engines.retry import PersistentRetry
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiError
from molecule_core.client.threads import RawLogEntry, ThreadsClient
from molecule_core.common.ids import IdGenerator
from molecule_core.wire.schemas.threads import ModelContext

T = TypeVar("T")


ENDED_STOPS = ("interrupted", "closed")
"""Stop reasons for which the turn has already ended."""


class TurnStopped(Exception):
    """The server requires the turn to end; its running work was cancelled."""


class EntryRejected(Exception):
    """The server permanently rejects an entry; the text is the reason."""


_PERMANENT_STATUSES = (400, 413, 422)


class ThreadLogClient:
    """A thread under one claim, in one turn.

    `stop`: why the turn must end, once known. `seen`: last ordinal that the model was shown; sent with all later
    entries.
    """

    def __init__(
        self,
        threads: ThreadsClient,
        thread_id: str,
        turn_id: str,
        generation: int,
        *,
        retry: PersistentRetry,
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
        self._check_now = asyncio.Event()

    def check_soon(self) -> None:
        """Check now whether the turn was stopped, instead of with the next renewal of the claim."""
        self._check_now.set()

    async def append_entries(self, *entries: dict[str, Any]) -> None:
        """Append entries once, however often it is tried; without any, renew the claim.

        Raises EntryRejected, ApiError.
        """
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
        """Return the current model context. Raises ApiError."""
        found = await self._retry.retry_call(lambda: self._threads.get_model_context(self.thread_id))
        self.stop = found.stop or self.stop
        return found

    async def read_entries(self) -> Sequence[RawLogEntry]:
        """Return the whole log. Raises ApiError."""
        found: list[RawLogEntry] = []
        while True:
            after = found[-1].ordinal if found else 0
            page = await self._retry.retry_call(lambda: self._threads.list_entries(self.thread_id, after=after))  # noqa: B023
            if not page:
                return found
            found += page

    async def run_while_claimed(self, work: Awaitable[T]) -> T:
        """Return the result of some work while renewing the claim.

        Raises TurnStopped, ApiError; the work is then cancelled.
        """
        task = asyncio.ensure_future(work)
        try:
            while not await self._completes_before_check(task):
                await self.append_entries()
                if self.stop is not None:
                    raise TurnStopped
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _completes_before_check(self, task: "asyncio.Future[T]") -> bool:
        """Return whether some work completes before the claim is to be renewed, or the turn to be checked."""
        checked = asyncio.ensure_future(self._check_now.wait())
        first = asyncio.ensure_future(asyncio.wait((task, checked), return_when=asyncio.FIRST_COMPLETED))
        try:
            await self._retry.completes_within(first, self._heartbeat_seconds)
        finally:
            for each in (first, checked):
                each.cancel()
            await asyncio.gather(first, checked, return_exceptions=True)
        self._check_now.clear()
        return task.done()

    async def end_turn(self, status: str, *, final: str | None, error: str | None, seen: int) -> None:
        """End the turn, unless the server has ended it already. Raises ApiError.

        `seen`: last ordinal that was considered; input after it gets a turn of its own.
        """
        if self.stop in ENDED_STOPS:
            return
        fields = {"status": status, "final": final, "error": error, "seen": seen}
        known_fields = {name: value for name, value in fields.items() if value is not None}
        await self._retry.retry_call(
            lambda: self._threads.end_turn(self.thread_id, self.turn_id, self.generation, **known_fields)
        )
