"""Calls of the server by an engine that outlives it: what was lost on the way, or refused for a while, is asked again.

Each call that an engine makes has a key or does nothing twice. Above: driving, mailing. Below: client.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from molecule_core.agent.backoff import BackOff
from molecule_core.agent.neutral import line
from molecule_core.agent.refusals import is_about_caller
from molecule_core.agent.speaking import refusal
from molecule_core.agent.waiting import cancelled, pause
from molecule_core.client.api import ApiError, NoAnswer
from molecule_core.ground.clock import Clock
from molecule_core.ground.ids import Randomness
from molecule_core.wire.speaks import Speaks

_log = logging.getLogger("molecule.engine")
T = TypeVar("T")
# As long as the seats have for theirs: a server that is away must not hold up the end of the process.
_FAREWELL_SECONDS = 2.0
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 30.0
Judges = Callable[[ApiError], Awaitable[bool]]
LIMIT = "thread_limit"
_PASSING = "thread_queue"


def is_spent(error: ApiError) -> bool:
    """Whether a limit is reached that no waiting changes: tokens, and not turns that wait."""
    return error.code == LIMIT and error.problem.get("limit") != _PASSING


async def _no(error: ApiError) -> bool:
    return False


class Patience:
    """Asks until there is an answer. `about_seat`: whether what was asked for is not found because the seat is not."""

    def __init__(self, clock: Clock, randomness: Randomness, about_seat: Judges = _no) -> None:
        self._clock = clock
        self._randomness = randomness
        self._about_seat = about_seat

    async def passes(self, error: ApiError) -> bool:
        """Whether the same may be answered later. A token that is not taken, or is somebody else's, may have been
        replaced: the membership reads the new one, and ends the agent if there is none."""
        return error.passes or is_about_caller(error) or await self._about_seat(error)

    async def answer(self, call: Callable[[], Awaitable[T]]) -> T:
        """The answer, however long it takes. Raises ApiError for a refusal that waiting does not end."""
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        while True:
            try:
                return await call()
            except NoAnswer:
                pass
            except ApiError as error:
                if is_spent(error) or not await self.passes(error):
                    raise
            await self.pause(back_off.next())

    async def pause(self, seconds: float) -> None:
        """Lets time pass."""
        await pause(self._clock, seconds)

    async def farewell(self, saying: Awaitable[object]) -> None:
        """Lets something be said at an end; not for long if whoever says it is being ended, and then it raises nothing:
        the server finds out when the lease ends."""
        if not cancelled():
            await saying
            return
        try:
            if not await self._clock.wait(saying, _FAREWELL_SECONDS):
                _log.info("the server does not answer; what was to be said at the end is left out")
        except Exception as error:
            _log.info("what was to be said at the end is left out: %s", line(str(error), 300))

    async def within(self, work: "asyncio.Future[T]", seconds: float) -> bool:
        """Whether something ends within so many seconds; it goes on if not."""
        return await self._clock.wait(asyncio.wait([work]), seconds)


class Patient:
    """Requests for the tools that act from a thread, and for leave. (A `Speaks` of wire.speaks.) `api`: makes one
    request, as a client does."""

    def __init__(self, patience: Patience, api: Speaks) -> None:
        self._patience = patience
        self._api = api

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """The decoded answer. Raises ToolError."""
        try:
            return await self._patience.answer(
                lambda: self._api.call(method, path, body=body, query=query, headers=headers)
            )
        except ApiError as error:
            raise refusal(error) from None
