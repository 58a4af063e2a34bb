"""Requests as one seat, in the manner that the walks of the tools need: what is refused is told for a model, what is
lost on the way is asked again.

Above: verbs, engine. Below: client.
"""

import re
from typing import Any

from molecule_core.agent.backoff import BackOff
from molecule_core.agent.neutral import line
from molecule_core.agent.waiting import pause
from molecule_core.client.api import ApiError, NoAnswer
from molecule_core.ground.clock import Clock
from molecule_core.ground.ids import Randomness
from molecule_core.wire.approving import NEEDS_LEAVE, stopped
from molecule_core.wire.speaks import Speaks
from molecule_core.wire.toolspec import LEAVE_HEADER, NO_ANSWER, ToolError
from molecule_core.wire.verbs import KEY_HEADER

_TRIES, _FIRST_WAIT, _LONGEST_WAIT = 4, 0.2, 2.0
_UNAUTHORIZED, _TOO_MANY, _BUSY = 401, 429, 503
# A refusal that is told to people each time, and that no patience of ours turns into anything else.
_FOR_GOOD = "delegation_limit"
# What does nothing more the second time: an acknowledgement, a wait, an end, the newest word on how far one is, a call
# of a thread, which has an id.
_HARMLESS = re.compile(
    r"/ack$|^/threads/[^/]+/agents/[a-z]+$|/delegations/[^/]+/(wait|cancel|status)$|^/registry/check-access$"
)


class Speaker:
    """A `Speaks` of wire.verbs. `api`: makes one request, as a client does; `renews`: its token stands where somebody
    may replace it, so that one which is refused may be another one the next time."""

    def __init__(self, api: Speaks, *, clock: Clock, randomness: Randomness, renews: bool = False) -> None:
        self._api = api
        self._renews = renews
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
        harmless = method == "GET" or KEY_HEADER in sent or _HARMLESS.search(path) is not None or _has_key(body)
        if uses_leave := LEAVE_HEADER in sent:  # an approval is used up by the first one, whose answer was lost
            harmless = False
        back_off = BackOff(_FIRST_WAIT, _LONGEST_WAIT, self._randomness)
        for last in (*[False] * (_TRIES - 1), True):
            try:
                return await self._api.call(method, path, body=body, query=query, headers=headers)
            except NoAnswer as error:
                if last or not harmless:
                    raise unreachable(error) from None
            except ApiError as error:
                # The second one would say that the approval was used, and not why the first one was refused.
                if last or uses_leave or error.code == _FOR_GOOD or error.status not in (_TOO_MANY, _BUSY):
                    raise refusal(error, renews=self._renews) from None
            await pause(self._clock, back_off.next())
        raise AssertionError("the last try returns or raises")


def _has_key(body: Any) -> bool:
    """Whether the server knows a repeated message by the id that it was given."""
    message = body.get("params", {}).get("message", {}) if isinstance(body, dict) else {}
    return bool(message.get("messageId"))


def refusal(error: ApiError, *, renews: bool = False) -> ToolError:
    """What the server refused, for a model. `renews`: whether a token that is refused may be replaced."""
    if error.code == NEEDS_LEAVE:
        return stopped(error.problem)
    hint = error.problem.get("hint")
    said = line(str(error.problem.get("error", error)), 500)
    more = f" ({line(hint, 300)})" if isinstance(hint, str) else ""
    passes = error.passes or (renews and error.status == _UNAUTHORIZED)
    return ToolError(f"{said}{more}", error.code or "refused", passes=passes)


def unreachable(error: NoAnswer) -> ToolError:
    """The server did not answer, for a model."""
    return ToolError(
        f"the server did not answer ({line(str(error))}); whether it did what you asked is not known. Call again with "
        "the same arguments in a moment: an answer to a message is not sent twice.",
        NO_ANSWER,
    )
