"""Classifies rejections of a workspace's token: who is notified, and when the rejection is final."""

import logging
from collections.abc import Callable

from molecule_core.client.api import ApiClient, ApiError, NoAnswerError, expect_type
from molecule_core.common.clock import Clock

_log = logging.getLogger("molecule.agent")
_UNAUTHORIZED, _FORBIDDEN, _UNKNOWN = 401, 403, 404
_NOT_FOUND = "not_found"
# These concern the caller: the token is unknown, or is a person's or the admin's where a workspace's is required.
_OTHER_WORKSPACE = "token_of_other_workspace"
_CALLER_CODES = frozenset({"credential_not_accepted", "invalid_caller", "role_too_low", _OTHER_WORKSPACE})
# Logged at the first, at the third as an error, then rarely: a workspace may be without a credential for days.
_LOG_ERROR_AT, _LOG_EVERY = 3, 20
# 300 s: a replaced token is written to its file at once, so a rejection that lasts this long is final.
_MAX_FAILING_SECONDS = 300.0
AuthListener = Callable[[str], None]


def is_token_rejected(error: ApiError) -> bool:
    """Return whether a request about the caller's own workspace is rejected because of its token.

    For another workspace's token the server answers 404 `not_found` where a path names the workspace; a 404 of some
    other server lacks that code.
    """
    unknown = error.status == _UNKNOWN and error.code == _NOT_FOUND
    return unknown or error.status in (_UNAUTHORIZED, _FORBIDDEN)


def is_caller_rejected(error: ApiError) -> bool:
    """Return whether a call is rejected for its token and not for its content, so that another token may succeed."""
    return error.status == _UNAUTHORIZED or (error.status == _FORBIDDEN and error.code in _CALLER_CODES)


def describe_auth_error(error: ApiError, whose: str = "its") -> str:
    """Describe what is wrong with the token, for people and models."""
    if error.status == _UNKNOWN or error.code == _OTHER_WORKSPACE:
        return f"{whose} token belongs to another workspace, or the workspace does not exist ({error})"
    return f"the server rejected {whose} token ({error})"


async def is_workspace_inaccessible(error: ApiError, api: ApiClient, workspace_id: str) -> bool:
    """Return whether a 404 means that the whole workspace is inaccessible, not only the requested item."""
    if error.status != _UNKNOWN:
        return False
    try:
        expect_type(await api.get(f"/workspaces/{workspace_id}/activity", type="error", limit=1), list)
    except (ApiError, NoAnswerError):
        return True
    return False


class AuthFailures:
    """Token failures of one workspace.

    `is_fixed`: the token is in no file and cannot be renewed. `on_refused`: called if it is rejected at the first
    registration. `on_lost`: called then too, and once it is rejected for good.
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
        """Record that the server accepted the token."""
        self._was_accepted, self._failing_since = True, None

    def record_failure(self, error: ApiError, *, renewed: bool = False) -> None:
        """Record that the server rejected the token. `renewed`: a newer one exists, which gets a period of its own."""
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
        """Record a successful heartbeat."""
        self._heartbeat_failures = 0

    def record_heartbeat_failure(self, error: ApiError) -> None:
        """Record a rejected heartbeat."""
        self._heartbeat_failures += 1
        if self._heartbeat_failures == 1:
            _log.warning("workspace %s: a heartbeat was rejected (%s)", self._id, error)
        elif self._heartbeat_failures == _LOG_ERROR_AT or self._heartbeat_failures % _LOG_EVERY == 0:
            _log.error("workspace %s: %s heartbeats were rejected (%s)", self._id, self._heartbeat_failures, error)
