"""The retry policy of tools, and the conversion of rejections and lost requests into errors for a model.

Used through tools/runners/requester.py `RetryingRequester`. Loads the HTTP client.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.tools.runners.approval_tools import APPROVAL_NEEDED, approval_needed_error
from molecule_core.tools.runners.message_tools import IDEMPOTENCY_HEADER
from molecule_core.tools.runners.requester import ApiRequest
from molecule_core.tools.spec import APPROVAL_HEADER, NO_ANSWER_CODE, ToolError

_TRIES, _FIRST_WAIT, _LONGEST_WAIT = 4, 0.2, 2.0
_UNAUTHORIZED, _TOO_MANY, _BUSY = 401, 429, 503
# The server notifies people of this rejection each time, and no retry resolves it.
_PERMANENT_CODE = "delegation_limit"
# Paths where a repeated request has no further effect: an ack, a wait, a cancellation, the newest status, a call of a
# thread, which has an id.
_REPEATABLE_PATHS = re.compile(
    r"/ack$|^/threads/[^/]+/agents/[a-z]+$|/delegations/[^/]+/(wait|cancel|status)$|^/registry/check-access$"
)


class BoundedRetry:
    """Retry policy of tools: a few tries within seconds, since a model waits. Implements `RetryPolicy`.

    `is_token_renewable`: the token can be replaced, so that a rejected one may succeed later.
    """

    def __init__(self, *, clock: Clock, randomness: Randomness, is_token_renewable: bool = False) -> None:
        self._is_token_renewable = is_token_renewable
        self._clock = clock
        self._randomness = randomness

    async def send_request(self, request: ApiRequest, send: Callable[[], Awaitable[Any]]) -> Any:
        """Return the decoded response. Raises ToolError.

        A lost request is retried only if that cannot act twice: it reads, it has a key, or a repetition has no effect.
        """
        # the first request, whose response was lost, may have used it up
        uses_approval = APPROVAL_HEADER in request.headers
        is_repeatable = not uses_approval and _is_repeatable(request)
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        for is_last_try in (*[False] * (_TRIES - 1), True):
            try:
                return await send()
            except NoAnswerError as error:
                if is_last_try or not is_repeatable:
                    raise unreachable_error(error) from None
            except ApiError as error:
                # A second request would report the approval as used, and hide why the first one was rejected.
                if (
                    is_last_try
                    or uses_approval
                    or error.code == _PERMANENT_CODE
                    or error.status not in (_TOO_MANY, _BUSY)
                ):
                    raise to_tool_error(error, is_token_renewable=self._is_token_renewable) from None
            await sleep(self._clock, back_off.next_delay())
        raise AssertionError("the last try returns or raises")


def _is_repeatable(request: ApiRequest) -> bool:
    """Return whether a repeated request acts once."""
    return (
        request.method == "GET"
        or IDEMPOTENCY_HEADER in request.headers
        or _REPEATABLE_PATHS.search(request.path) is not None
        or _has_message_id(request.body)
    )


def _has_message_id(body: Any) -> bool:
    """Return whether the server recognizes a repeated message by its id."""
    message = body.get("params", {}).get("message", {}) if isinstance(body, dict) else {}
    return bool(message.get("messageId"))


def to_tool_error(error: ApiError, *, is_token_renewable: bool = False) -> ToolError:
    """Convert a rejection for a model. `is_token_renewable`: whether a rejected token may be replaced."""
    if error.code == APPROVAL_NEEDED:
        return approval_needed_error(error.problem)
    hint = error.problem.get("hint")
    reason = sanitize_line(str(error.problem.get("error", error)), 500)
    hint_suffix = f" ({sanitize_line(hint, 300)})" if isinstance(hint, str) else ""
    is_transient = error.is_transient or (is_token_renewable and error.status == _UNAUTHORIZED)
    return ToolError(f"{reason}{hint_suffix}", error.code or "refused", is_transient=is_transient)


def unreachable_error(error: NoAnswerError) -> ToolError:
    """Return the error for a server that did not answer, for a model."""
    return ToolError(
        f"the server did not answer ({sanitize_line(str(error))}). It is unknown whether the call took effect. Call "
        "the tool again in a moment with the same arguments: an answer to a message is not sent twice.",
        NO_ANSWER_CODE,
    )
