"""Refusals of one seat's token: which they are, who is told of them, and when they are for good.

Above: membership, and whoever tells the server what must not be lost. Below: client.
"""

import logging
from collections.abc import Callable

from molecule_core.client.api import ApiClient, ApiError, NoAnswerError, expect_type
from molecule_core.common.clock import Clock

_log = logging.getLogger("molecule.agent")
_UNAUTHORIZED, _FORBIDDEN, _UNKNOWN = 401, 403, 404
_NOT_FOUND = "not_found"
# Said of whoever asks: a token that is nobody's, or that of a person or the admin, where a workspace's is wanted.
_CALLER_CODES = frozenset({"credential_not_accepted", "invalid_caller", "role_too_low"})
# Told at once, loudly at the third, then now and then: a seat without a credential may stay so for days.
_LOG_ERROR_AT, _LOG_EVERY = 3, 20
# Whoever replaces a token writes its file in the same breath: one that is refused for so long is refused for good.
_MAX_FAILING_SECONDS = 300.0
AuthListener = Callable[[str], None]


def is_token_rejected(error: ApiError) -> bool:
    """Whether what a seat asks for itself is refused for its token. To that of another workspace the server says that
    there is no such seat; a page of somebody else may say 404 too, but has no code of ours."""
    unknown = error.status == _UNKNOWN and error.code == _NOT_FOUND
    return unknown or error.status in (_UNAUTHORIZED, _FORBIDDEN)


def is_caller_rejected(error: ApiError) -> bool:
    """Whether a call is refused for the token that it was made with, and not for what it asks: under another one the
    same may be taken."""
    return error.status == _UNAUTHORIZED or (error.status == _FORBIDDEN and error.code in _CALLER_CODES)


def describe_auth_error(error: ApiError, whose: str = "its") -> str:
    """What is wrong with the token, for people and models."""
    if error.status == _UNKNOWN:
        return f"{whose} token is another workspace's, or there is no such workspace ({error})"
    return f"the server does not take {whose} token ({error})"


async def is_workspace_inaccessible(error: ApiError, api: ApiClient, workspace_id: str) -> bool:
    """Whether something is not found because the whole seat is not, under this token; then it says nothing of what was
    asked for."""
    if error.status != _UNKNOWN:
        return False
    try:
        expect_type(await api.get(f"/workspaces/{workspace_id}/activity", type="error", limit=1), list)
    except (ApiError, NoAnswerError):
        return True
    return False


class AuthFailures:
    """What is known of a seat's token. `is_fixed`: it stands in no file that somebody could renew; `refused`: called if
    it is not taken when the seat is taken for the first time; `lost`: called then too, and once it is refused for good.
    """

    def __init__(
        self,
        workspace_id: str,
        *,
        clock: Clock,
        is_fixed: bool,
        on_refused: AuthListener | None,
        on_lost: AuthListener | None,
    ) -> None:
        self._id = workspace_id
        self._clock = clock
        self._is_fixed = is_fixed
        self._on_refused = on_refused
        self._on_lost = on_lost
        self._was_accepted = False
        self._failing_since: float | None = None
        self._heartbeat_failures = 0

    def record_success(self) -> None:
        """The server has taken the token."""
        self._was_accepted, self._failing_since = True, None

    def record_failure(self, error: ApiError, *, renewed: bool = False) -> None:
        """The server has not taken it. `renewed`: there is another one by now, which has a time of its own."""
        if renewed:
            self._failing_since = None
            return
        now = self._clock.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        fixed = self._is_fixed and error.status == _UNAUTHORIZED
        is_permanent = fixed or now - self._failing_since >= _MAX_FAILING_SECONDS
        text = f"workspace {self._id}: {describe_auth_error(error, 'the')}"
        if not self._was_accepted and self._on_refused is not None:
            self._on_refused(text)
        if (not self._was_accepted or is_permanent) and self._on_lost is not None:
            self._on_lost(text)

    def record_heartbeat(self) -> None:
        """A heartbeat has come through."""
        self._heartbeat_failures = 0

    def record_heartbeat_failure(self, error: ApiError) -> None:
        """A heartbeat was refused."""
        self._heartbeat_failures += 1
        if self._heartbeat_failures == 1:
            _log.warning("workspace %s: a heartbeat was refused (%s)", self._id, error)
        elif self._heartbeat_failures == _LOG_ERROR_AT or self._heartbeat_failures % _LOG_EVERY == 0:
            _log.error("workspace %s: %s heartbeats were refused (%s)", self._id, self._heartbeat_failures, error)
