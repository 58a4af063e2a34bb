"""Refusals of one seat's token: which they are, who is told of them, and when they are for good.

Above: membership, and whoever tells the server what must not be lost. Below: client.
"""

import logging
from collections.abc import Callable

from molecule_core.client.api import Api, ApiError, NoAnswer, shaped
from molecule_core.ground.clock import Clock

_log = logging.getLogger("molecule.agent")
_UNAUTHORIZED, _FORBIDDEN, _UNKNOWN = 401, 403, 404
_NOT_FOUND = "not_found"
# Said of whoever asks: a token that is nobody's, or that of a person or the admin, where a workspace's is wanted.
_OF_CALLER = frozenset({"credential_not_accepted", "invalid_caller", "role_too_low"})
# Told at once, loudly at the third, then now and then: a seat without a credential may stay so for days.
_LOUD, _EVERY = 3, 20
# Whoever replaces a token writes its file in the same breath: one that is refused for so long is refused for good.
_MOST_SECONDS = 300.0
Told = Callable[[str], None]


def is_of_token(error: ApiError) -> bool:
    """Whether what a seat asks for itself is refused for its token. To that of another workspace the server says that
    there is no such seat; a page of somebody else may say 404 too, but has no code of ours."""
    unknown = error.status == _UNKNOWN and error.code == _NOT_FOUND
    return unknown or error.status in (_UNAUTHORIZED, _FORBIDDEN)


def is_about_caller(error: ApiError) -> bool:
    """Whether a call is refused for the token that it was made with, and not for what it asks: under another one the
    same may be taken."""
    return error.status == _UNAUTHORIZED or (error.status == _FORBIDDEN and error.code in _OF_CALLER)


def in_words(error: ApiError, whose: str = "its") -> str:
    """What is wrong with the token, for people and models."""
    if error.status == _UNKNOWN:
        return f"{whose} token is another workspace's, or there is no such workspace ({error})"
    return f"the server does not take {whose} token ({error})"


async def is_about_seat(error: ApiError, api: Api, workspace_id: str) -> bool:
    """Whether something is not found because the whole seat is not, under this token; then it says nothing of what was
    asked for."""
    if error.status != _UNKNOWN:
        return False
    try:
        shaped(await api.get(f"/workspaces/{workspace_id}/activity", type="error", limit=1), list)
    except (ApiError, NoAnswer):
        return True
    return False


class Refusals:
    """What is known of a seat's token. `is_fixed`: it stands in no file that somebody could renew; `refused`: called if
    it is not taken when the seat is taken for the first time; `lost`: called then too, and once it is refused for good.
    """

    def __init__(
        self, workspace_id: str, *, clock: Clock, is_fixed: bool, refused: Told | None, lost: Told | None
    ) -> None:
        self._id = workspace_id
        self._clock = clock
        self._is_fixed = is_fixed
        self._refused = refused
        self._lost = lost
        self._was_taken = False
        self._since: float | None = None
        self._beats = 0

    def taken(self) -> None:
        """The server has taken the token."""
        self._was_taken, self._since = True, None

    def refused(self, error: ApiError, *, renewed: bool = False) -> None:
        """The server has not taken it. `renewed`: there is another one by now, which has a time of its own."""
        if renewed:
            self._since = None
            return
        now = self._clock.monotonic()
        self._since = now if self._since is None else self._since
        fixed = self._is_fixed and error.status == _UNAUTHORIZED
        for_good = fixed or now - self._since >= _MOST_SECONDS
        told = f"workspace {self._id}: {in_words(error, 'the')}"
        if not self._was_taken and self._refused is not None:
            self._refused(told)
        if (not self._was_taken or for_good) and self._lost is not None:
            self._lost(told)

    def beat_taken(self) -> None:
        """A heartbeat has come through."""
        self._beats = 0

    def beat_refused(self, error: ApiError) -> None:
        """A heartbeat was refused."""
        self._beats += 1
        if self._beats == 1:
            _log.warning("workspace %s: a heartbeat was refused (%s)", self._id, error)
        elif self._beats == _LOUD or self._beats % _EVERY == 0:
            _log.error("workspace %s: %s heartbeats were refused (%s)", self._id, self._beats, error)
