"""Retries an engine's calls to the server after lost responses and transient errors.

Every call of an engine has a key or is safe to repeat.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from molecule_core.agent.async_utils import is_cancelling, sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.client.auth_failures import is_caller_rejected
from molecule_core.agent.client.retry import to_tool_error
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.tools.runners.requester import ApiRequest

_log = logging.getLogger("molecule.engine")
T = TypeVar("T")
# 2 s, as for memberships: an unreachable server must not delay the end of the process.
_SHUTDOWN_SECONDS = 2.0
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 30.0
ErrorPredicate = Callable[[ApiError], Awaitable[bool]]
LIMIT_CODE = "thread_limit"
_TRANSIENT_LIMIT = "thread_queue"


def is_budget_spent(error: ApiError) -> bool:
    """Return whether a limit is reached that waiting does not change: tokens, but not queued turns."""
    return error.code == LIMIT_CODE and error.problem.get("limit") != _TRANSIENT_LIMIT


async def _never(error: ApiError) -> bool:
    return False


class PersistentRetry:
    """Retry policy of engines: calls are retried until they get a response. Implements `RetryPolicy`.

    `is_inaccessible`: returns whether a 404 means that the whole workspace is inaccessible.
    """

    def __init__(self, clock: Clock, randomness: Randomness, is_inaccessible: ErrorPredicate = _never) -> None:
        self._clock = clock
        self._randomness = randomness
        self._is_inaccessible = is_inaccessible

    async def is_transient(self, error: ApiError) -> bool:
        """Return whether a repetition may succeed.

        A rejected token may have been replaced: the membership reads the new one, and ends the agent if there is none.
        """
        return error.is_transient or is_caller_rejected(error) or await self._is_inaccessible(error)

    async def retry_call(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the response, however long it takes. Raises ApiError for a rejection that waiting does not change."""
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        while True:
            try:
                return await call()
            except NoAnswerError:
                pass
            except ApiError as error:
                if is_budget_spent(error) or not await self.is_transient(error):
                    raise
            await self.sleep(back_off.next_delay())

    async def send_request(self, request: ApiRequest, send: Callable[[], Awaitable[Any]]) -> Any:
        """Return the decoded response, for tools that act from a thread and for approvals. Raises ToolError."""
        try:
            return await self.retry_call(send)
        except ApiError as error:
            raise to_tool_error(error) from None

    async def sleep(self, seconds: float) -> None:
        """Sleep for `seconds`."""
        await sleep(self._clock, seconds)

    async def finish_quietly(self, work: Awaitable[object]) -> None:
        """Await some final work; if the caller is being cancelled, only briefly and without raising.

        The server then notices the end when the lease expires.
        """
        if not is_cancelling():
            await work
            return
        try:
            if not await self._clock.wait(work, _SHUTDOWN_SECONDS):
                _log.info("the server does not answer; the final report is dropped")
        except Exception as error:
            _log.info("the final report is dropped: %s", sanitize_line(str(error), 300))

    async def completes_within(self, work: "asyncio.Future[T]", seconds: float) -> bool:
        """Return whether a task completes within `seconds`; it keeps running if not."""
        return await self._clock.wait(asyncio.wait([work]), seconds)
