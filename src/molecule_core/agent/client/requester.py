"""Requests as one seat, in the manner that the walks of the tools need: what is refused is told for a model, what is
lost on the way is asked again.

Above: verbs, engine. Below: client.
"""

import re
from typing import Any

from molecule_core.agent.async_utils import sleep
from molecule_core.agent.backoff import BackOff
from molecule_core.agent.sanitize import sanitize_line
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.clock import Clock
from molecule_core.common.ids import Randomness
from molecule_core.tools.runners.approval_tools import APPROVAL_NEEDED, approval_needed_error
from molecule_core.tools.runners.message_tools import IDEMPOTENCY_HEADER
from molecule_core.tools.runners.requester import Requester
from molecule_core.tools.spec import APPROVAL_HEADER, NO_ANSWER_CODE, ToolError

_TRIES, _FIRST_WAIT, _LONGEST_WAIT = 4, 0.2, 2.0
_UNAUTHORIZED, _TOO_MANY, _BUSY = 401, 429, 503
# A refusal that is told to people each time, and that no patience of ours turns into anything else.
_PERMANENT_CODE = "delegation_limit"
# What does nothing more the second time: an acknowledgement, a wait, an end, the newest word on how far one is, a call
# of a thread, which has an id.
_REPEATABLE_PATHS = re.compile(
    r"/ack$|^/threads/[^/]+/agents/[a-z]+$|/delegations/[^/]+/(wait|cancel|status)$|^/registry/check-access$"
)


class RetryingRequester:
    """A `Speaks` of wire.verbs. `api`: makes one request, as a client does; `renews`: its token stands where somebody
    may replace it, so that one which is refused may be another one the next time."""

    def __init__(
        self, api: Requester, *, clock: Clock, randomness: Randomness, is_token_renewable: bool = False
    ) -> None:
        self._api = api
        self._is_token_renewable = is_token_renewable
        self._clock = clock
        self._randomness = randomness

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """The decoded answer. What was lost on the way is asked again only where that can do nothing twice: it reads,
        it has a key, or the second time does no more than the first. Raises ToolError."""
        sent = headers or {}
        is_repeatable = (
            method == "GET"
            or IDEMPOTENCY_HEADER in sent
            or _REPEATABLE_PATHS.search(path) is not None
            or _has_message_id(body)
        )
        if uses_approval := APPROVAL_HEADER in sent:  # an approval is used up by the first one, whose answer was lost
            is_repeatable = False
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        for last in (*[False] * (_TRIES - 1), True):
            try:
                return await self._api.call(method, path, body=body, query=query, headers=headers)
            except NoAnswerError as error:
                if last or not is_repeatable:
                    raise unreachable_error(error) from None
            except ApiError as error:
                # The second one would say that the approval was used, and not why the first one was refused.
                if last or uses_approval or error.code == _PERMANENT_CODE or error.status not in (_TOO_MANY, _BUSY):
                    raise to_tool_error(error, is_token_renewable=self._is_token_renewable) from None
            await sleep(self._clock, back_off.next_delay())
        raise AssertionError("the last try returns or raises")


def _has_message_id(body: Any) -> bool:
    """Whether the server knows a repeated message by the id that it was given."""
    message = body.get("params", {}).get("message", {}) if isinstance(body, dict) else {}
    return bool(message.get("messageId"))


def to_tool_error(error: ApiError, *, is_token_renewable: bool = False) -> ToolError:
    """What the server refused, for a model. `renews`: whether a token that is refused may be replaced."""
    if error.code == APPROVAL_NEEDED:
        return approval_needed_error(error.problem)
    hint = error.problem.get("hint")
    reason = sanitize_line(str(error.problem.get("error", error)), 500)
    more = f" ({sanitize_line(hint, 300)})" if isinstance(hint, str) else ""
    passes = error.is_transient or (is_token_renewable and error.status == _UNAUTHORIZED)
    return ToolError(f"{reason}{more}", error.code or "refused", is_transient=passes)


def unreachable_error(error: NoAnswerError) -> ToolError:
    """The server did not answer, for a model."""
    return ToolError(
        f"the server did not answer ({sanitize_line(str(error))}); whether it did what you asked is not known. Call again with "
        "the same arguments in a moment: an answer to a message is not sent twice.",
        NO_ANSWER_CODE,
    )
