"""Rate limits per caller: which bucket a request is charged to."""

import enum

from molecule_core.api.http.rate_limits import RateStatus, TokenBuckets
from molecule_core.common.clock import Clock
from molecule_core.common.limits import Limits


class RateClass(enum.Enum):
    """Rate limit that a request is charged to."""

    REQUEST = "a request"
    SEND = "a request and, of a workspace, a message"
    LOGIN = "a try to log in"


SEND_RATE = RateClass.SEND


class RateLimiter:
    """All token buckets of a server process."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._requests = TokenBuckets(limits.requests_per_minute, clock)
        self._sends = TokenBuckets(limits.sends_per_minute, clock)
        self._org_sends = TokenBuckets(limits.org_sends_per_minute, clock)
        self._anonymous = TokenBuckets(limits.anonymous_per_minute, clock)
        self._logins = TokenBuckets(limits.logins_per_minute, clock)
        self._clock = clock
        self.charge_request = self._requests.consume
        self.charge_anonymous = self._anonymous.consume
        self.check_anonymous = self._anonymous.check_available
        self.anonymous_status = self._anonymous.current_status
        self.charge_login = self._logins.consume

    def charge_sends(self, workspace_id: str, org_id: str, count: int = 1) -> RateStatus:
        """Charge sent messages to a workspace, then to its org. Raises RateLimited.

        The workspace comes first, so that a flooding workspace does not empty the bucket of its org."""
        if count < 1:
            return self._sends.current_status(workspace_id)
        now = self._clock.monotonic()
        backlog = self._sends.consume_at(workspace_id, now, count)
        self._org_sends.consume_at(org_id, now, count)
        return self._sends.status_at(backlog)
