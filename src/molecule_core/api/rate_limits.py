"""Rate limits per caller: which bucket a request is charged to."""

import enum

from molecule_core.api.http.rate_limits import RateStatus, TokenBuckets, address_key
from molecule_core.common.clock import Clock
from molecule_core.common.limits import Limits
from molecule_core.common.net.trusted_proxies import TrustedProxies


class RateClass(enum.Enum):
    """Rate limit that a request is charged to."""

    REQUEST = "a request"
    SEND = "a request and, of a workspace, a message"
    LOGIN = "a try to log in"
    NOTIFICATION = "a request of its address: many tasks of one agent may change at once"
    FREE = "nothing: a check of the server's health"


SEND_RATE = RateClass.SEND


class RateLimiter:
    """All token buckets of a server process."""

    def __init__(self, limits: Limits, clock: Clock, proxies: TrustedProxies | None = None) -> None:
        self._proxies = proxies or TrustedProxies(())
        self._requests = TokenBuckets(limits.requests_per_minute, clock)
        self._sends = TokenBuckets(limits.sends_per_minute, clock)
        self._org_sends = TokenBuckets(limits.org_sends_per_minute, clock)
        self._anonymous = TokenBuckets(limits.anonymous_per_minute, clock)
        self._logins = TokenBuckets(limits.logins_per_minute, clock)
        # Well-formed credentials that are not known: each has its own bucket, so that guesses from an address, which
        # may be a proxy's, do not keep out a person behind it.
        self._unknown_credentials = TokenBuckets(limits.anonymous_per_minute, clock)
        self.charge_request = self._requests.consume
        self.charge_anonymous = self._anonymous.consume
        self.check_anonymous = self._anonymous.check_available
        self.charge_unknown_credential = self._unknown_credentials.consume
        self.check_unknown_credential = self._unknown_credentials.check_available
        self.anonymous_status = self._anonymous.current_status
        self.charge_login = self._logins.consume

    def client_key(self, peer: str, forwarded: str) -> str:
        """Return the rate limit key of the client that a peer names in X-Forwarded-For, if it is a trusted proxy."""
        return address_key((self._proxies.find_client(peer, forwarded),))

    def charge_sends(self, workspace_id: str, org_id: str, count: int = 1) -> RateStatus:
        """Charge sent messages to a workspace, then to its org. Raises RateLimited.

        The workspace comes first, so that a flooding workspace does not empty the bucket of its org."""
        if count < 1:
            return self._sends.current_status(workspace_id)
        rate_status = self._sends.consume(workspace_id, count)
        self._org_sends.consume(org_id, count)
        return rate_status
